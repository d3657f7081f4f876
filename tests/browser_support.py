"""Pages in a real browser: opening them, pressing keys, and what they did."""

from __future__ import annotations

import json
from pathlib import Path


def visit(browser, path: Path, width: int = 1100, scheme: str = "light", height: int = 900) -> None:
    """Open a page in a window of this size, with empty logs."""
    browser.get_log("browser")
    browser.get_log("performance")
    resize(browser, width, height)
    emulate(browser, scheme)
    load(browser, path.as_uri())


def load(browser, url: str) -> None:
    """Open a page anew, and wait for it: a busy driver may return before it is there."""
    for address in ("about:blank", url):
        browser.get(address)
        eventually(browser, [address.split("#")[0], "complete"], lambda: loaded(browser))


def loaded(browser) -> list[str]:
    """The address of the page without its fragment, and how far it is loaded."""
    return browser.execute_script("return [location.href.split('#')[0], document.readyState]")


def resize(browser, width: int, height: int = 900) -> None:
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
    )


def emulate(browser, scheme: str) -> None:
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"features": [{"name": "prefers-color-scheme", "value": scheme}]},
    )


def press(browser, selector: str, key: str, times: int = 1) -> None:
    element = browser.find_element("css selector", selector)
    element.send_keys(key * times)


def assert_silent(browser) -> None:
    """No message in the console, and no request to any network."""
    assert browser.get_log("browser") == []
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    requested = [
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
        and event["params"]["documentURL"] == browser.current_url.split("#")[0]
    ]
    assert any(url.startswith("file:") for url in requested)
    assert all(url.startswith(("file:", "data:", "blob:")) for url in requested), requested


def eventually(browser, expected, actual) -> None:
    """Assert what the browser does a moment later."""
    from selenium.common.exceptions import TimeoutException
    from selenium.webdriver.support.wait import WebDriverWait

    try:
        WebDriverWait(browser, 10, 0.05).until(lambda _: actual() == expected)
    except TimeoutException:
        assert actual() == expected


def next_frame(browser) -> None:
    """Wait until the page has drawn what it was about to draw."""
    browser.execute_async_script(
        "const done = arguments[0];"
        "requestAnimationFrame(() => requestAnimationFrame(() => done()));"
    )


def is_within(browser) -> bool:
    """Whether the page is no wider than the window."""
    return browser.execute_script(
        "return document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    )
