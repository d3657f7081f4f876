"""The interactive page docs/simplex.md in a real browser, with the markup that the page has."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import scorewise as sw
from browser_support import (
    assert_silent,
    eventually,
    is_within,
    load,
    next_frame,
    press,
    resize,
    visit,
)

DOCS = Path(__file__).parents[1] / "docs"
PARTS = ("total", "aleatoric", "epistemic")
PRESETS = ("agreeing", "same-argmax", "outlier", "camps", "uncertain")
HANDLE = ".simplex-member:nth-child({})"


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    [markup] = re.findall(r"```{raw} html\n(.*?)```", (DOCS / "simplex.md").read_text(), re.DOTALL)
    page = tmp_path_factory.mktemp("page") / "simplex.html"
    page.write_text(
        f"<!doctype html><html lang=en><meta charset=utf-8><base href='{DOCS.as_uri()}/'>"
        "<meta name=viewport content='width=device-width'><style>body { margin: 16px }</style>"
        f"<title>The simplex</title><body>{markup}</body></html>"
    )
    return page


@pytest.fixture
def opened(browser, path):
    visit(browser, path)
    yield browser
    assert_silent(browser)


def number_of_members(browser) -> int:
    return len(browser.find_elements("css selector", ".simplex-member"))


def members(browser) -> list[list[float]]:
    """The probabilities in the table of members."""
    values = browser.execute_script(
        "return [...document.querySelectorAll('.simplex-members tbody tr')]"
        ".map((row) => [...row.querySelectorAll('input')].map((input) => Number(input.value)))"
    )
    return [list(map(float, row)) for row in values]


def numbers(browser) -> dict[str, list[float]]:
    """Total, aleatoric and epistemic part of each rule in the table, with all digits."""
    return browser.execute_script(
        "return Object.fromEntries([...document.querySelectorAll('tr[data-rule]')].map((row) =>"
        " [row.dataset.rule, [...row.querySelectorAll('td')].map((cell) => +cell.dataset.value)]))"
    )


def choose(browser, rule: str) -> None:
    from selenium.webdriver.support.select import Select

    Select(browser.find_element("name", "rule")).select_by_value(rule)
    eventually(browser, rule, lambda: chosen_rule(browser))


def chosen_rule(browser) -> str:
    row = browser.find_element("css selector", "tr.is-chosen")
    return row.get_attribute("data-rule")


def set_slider(browser, name: str, value: float) -> None:
    browser.execute_script(
        "const input = document.querySelector(`[name=${arguments[0]}]`);"
        "input.value = arguments[1]; input.dispatchEvent(new Event('input', { bubbles: true }));",
        name,
        value,
    )


def show_preset(browser, name: str) -> None:
    button = browser.find_element("css selector", f"[data-preset={name}]")
    button.click()
    eventually(browser, "true", lambda: button.get_attribute("aria-pressed"))


def explanation(browser) -> str:
    return browser.find_element("css selector", ".simplex-explanation").text.replace("\xa0", " ")


def enter(browser, label: str, value: str) -> None:
    from selenium.webdriver.common.keys import Keys

    field = browser.find_element("css selector", f"input[aria-label='{label}']")
    field.send_keys(Keys.CONTROL + "a")
    field.send_keys(value or Keys.DELETE, Keys.TAB)


def number_of_actions(browser) -> int:
    return len(browser.find_elements("css selector", ".simplex-costs thead input"))


def add_action(browser) -> None:
    n = number_of_actions(browser)
    browser.find_element("css selector", "[data-do=add-action]").click()
    eventually(browser, n + 1, lambda: number_of_actions(browser))


# -- the numbers ----------------------------------------------------------------------------------


def random_members(rng: np.random.Generator) -> np.ndarray:
    """Members of many kinds: spread, equal, nearly equal, certain, and in thousandths."""
    m = rng.integers(1, 11)
    spread = rng.dirichlet(np.full(3, rng.choice([0.2, 1.0, 5.0])), size=m)
    kind = rng.integers(5)
    if kind == 1:
        spread[:] = spread[0]
    elif kind == 2:
        spread = spread[:1] * np.exp(rng.normal(scale=1e-5, size=(m, 3)))
    elif kind == 3:
        spread = np.eye(3)[rng.integers(3, size=m)]
    elif kind == 4:
        spread = rng.multinomial(20, [0.5, 0.3, 0.2], size=m) / 20
    return spread / spread.sum(axis=-1, keepdims=True)


def random_costs(rng: np.random.Generator) -> np.ndarray:
    shape = (3, rng.integers(2, 6))
    return rng.integers(0, 7, size=shape) / 10 if rng.random() < 0.5 else 10 * rng.random(shape)


def random_case(rng: np.random.Generator) -> dict[str, object]:
    name = rng.choice(
        ["log", "brier", "zero-one", "spherical", "tsallis", "pseudospherical", "cost-matrix"]
    )
    return {
        "rule": str(name),
        "members": random_members(rng).tolist(),
        "parameters": {
            "beta": rng.uniform(1.05, 5),
            "alpha": rng.uniform(1.1, 10),
            "costs": random_costs(rng).tolist(),
        },
    }


def rule_of(case: dict) -> sw.rules.ScoringRule:
    name, parameters = case["rule"], case["parameters"]
    if name == "tsallis":
        return sw.rules.tsallis(parameters["beta"])
    if name == "pseudospherical":
        return sw.rules.pseudospherical(parameters["alpha"])
    if name == "cost-matrix":
        return sw.rules.cost_matrix(parameters["costs"])
    return sw.get_rule(name)


def library_parts(probs, rule) -> list[float]:
    return [float(part) for part in sw.decompose(np.asarray(probs), rule)]


def computed_by_page(browser, cases: list[dict]) -> list[list[float]]:
    parts = browser.execute_script(
        "const { decompose, makeRule } = scorewise.rules;"
        "return JSON.stringify(arguments[0].map(({ rule, members, parameters }) => {"
        " const parts = decompose(members, makeRule(rule, parameters));"
        " return [parts.total, parts.aleatoric, parts.epistemic]; }));",
        cases,
    )
    return json.loads(parts)


def test_numbers_are_those_of_the_library(opened):
    rng = np.random.default_rng(0)
    cases = [random_case(rng) for _ in range(1000)]
    for case, parts in zip(cases, computed_by_page(opened, cases), strict=True):
        expected = library_parts(case["members"], rule_of(case))
        np.testing.assert_allclose(parts, expected, rtol=1e-10, atol=2e-15, err_msg=str(case))
        assert parts[2] >= 0
        assert (parts[2] == 0) == (expected[2] == 0), case


def test_rounded_costs_hide_no_tie(opened):
    # One action is best for both members: the second member's expected costs are equal.
    members = [[0.35, 0.35, 0.3], [0.4, 0.3, 0.3]]
    parameters = {"costs": [[0.5, 0.2], [0.3, 0.6], [0.5, 0.6]]}
    case = {"rule": "cost-matrix", "members": members, "parameters": parameters}
    [parts] = computed_by_page(opened, [case])
    assert parts[2] == 0


def test_drawn_level_sets_are_those_of_the_library(opened):
    rng = np.random.default_rng(1)
    cases = [random_case(rng) for _ in range(200)]
    actual = opened.execute_script(
        "const { makeRule, partWithMemberAt } = scorewise.rules;"
        "return JSON.stringify(arguments[0].map(({ rule, members, parameters }) =>"
        " ['total', 'aleatoric', 'epistemic'].map((part) =>"
        "  partWithMemberAt(part, members.slice(1), makeRule(rule, parameters))(members[0]))));",
        cases,
    )
    for case, parts in zip(cases, json.loads(actual), strict=True):
        expected = library_parts(case["members"], rule_of(case))
        np.testing.assert_allclose(parts, expected, rtol=1e-10, atol=1e-11, err_msg=str(case))


@pytest.mark.parametrize("preset", PRESETS)
def test_table_and_code_of_a_preset_agree_with_the_library(opened, preset: str):
    show_preset(opened, preset)
    for rule, parts in numbers(opened).items():
        choose(opened, rule)
        code = opened.find_element("css selector", ".simplex-code").text
        names: dict[str, object] = {}
        exec(code.replace("print(", "parts = tuple("), names)
        assert names["members"] == members(opened)
        np.testing.assert_allclose(parts, names["parts"], rtol=1e-10, atol=2e-15)


def test_only_the_decision_counts_under_zero_one(opened):
    for preset in ("agreeing", "same-argmax", "uncertain"):
        show_preset(opened, preset)
        shown = numbers(opened)
        assert shown["zero-one"][2] == 0
        assert shown["log"][2] > 0
    for preset in ("outlier", "camps"):
        show_preset(opened, preset)
        assert numbers(opened)["zero-one"][2] > 0.1


def test_parameters_change_their_rule(opened):
    show_preset(opened, "outlier")
    probs = np.array(members(opened))
    choose(opened, "tsallis")
    set_slider(opened, "beta", 2)
    brier = pytest.approx(numbers(opened)["brier"])
    eventually(opened, brier, lambda: numbers(opened)["tsallis"])
    choose(opened, "pseudospherical")
    set_slider(opened, "alpha", 7.5)
    expected = pytest.approx(library_parts(probs, "pseudospherical:7.5"))
    eventually(opened, expected, lambda: numbers(opened)["pseudospherical"])


def test_costs_and_actions_are_edited(opened):
    choose(opened, "cost-matrix")
    enter(opened, "Cost of ask if the class is bird", "0.25")
    add_action(opened)
    opened.find_element("css selector", "[aria-label='Remove dog']").click()
    eventually(opened, 4, lambda: number_of_actions(opened))
    assert opened.switch_to.active_element.text == "Add an action"
    enter(opened, "Name of action 4", "<b>wait</b>")
    costs = [[0, 2, 0.5, 1], [1, 2, 0.5, 1], [2, 0, 0.25, 1]]
    expected = pytest.approx(library_parts(members(opened), costs))
    eventually(opened, expected, lambda: numbers(opened)["cost-matrix"])
    assert opened.find_elements("css selector", "[aria-label='Remove <b>wait</b>']")
    enter(opened, "Cost of ask if the class is bird", "-1")  # which is no cost here
    next_frame(opened)
    assert numbers(opened)["cost-matrix"] == expected


# -- moving members -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["mouse", "touch", "pen"])
def test_a_dragged_member_stays_in_the_triangle(opened, kind: str):
    from selenium.webdriver.common.actions.action_builder import ActionBuilder
    from selenium.webdriver.common.actions.pointer_input import PointerInput

    show_preset(opened, "outlier")
    others = members(opened)[:4]
    handle = opened.find_element("css selector", HANDLE.format(5))

    def drag(move) -> None:
        actions = ActionBuilder(opened, mouse=PointerInput(kind, kind))
        move(actions.pointer_action.move_to(handle).pointer_down()).pointer_up()
        actions.perform()

    drag(lambda pointer: pointer.move_by(0, 30).move_by(0, 30))
    eventually(opened, True, lambda: members(opened)[4][2] < 0.75)
    first, second, third = members(opened)[4]
    assert first == pytest.approx(second - 0.05, abs=0.003)  # straight down
    assert first + second + third == pytest.approx(1)
    drag(lambda pointer: pointer.move_by(0, 10).move_to_location(300, 890))
    eventually(opened, 0.0, lambda: members(opened)[4][2])
    assert 0 < members(opened)[4][0] < 1
    drag(lambda pointer: pointer.move_to_location(2, 890))
    eventually(opened, [1.0, 0.0, 0.0], lambda: members(opened)[4])
    assert members(opened)[:4] == others
    assert "is-selected" in handle.get_attribute("class")


def test_arrow_keys_move_the_focused_member(opened):
    from selenium.webdriver.common.keys import Keys

    handle = opened.find_element("css selector", HANDLE.format(2))
    press(opened, HANDLE.format(2), Keys.ARROW_UP)
    eventually(opened, [0.515, 0.415, 0.07], lambda: members(opened)[1])
    press(opened, HANDLE.format(2), Keys.SHIFT + Keys.ARROW_RIGHT)
    eventually(opened, [0.465, 0.465, 0.07], lambda: members(opened)[1])
    assert handle.get_attribute("aria-valuetext") == "cat 0.465, dog 0.465, bird 0.070"
    assert handle == opened.switch_to.active_element
    press(opened, HANDLE.format(2), Keys.ARROW_LEFT, 120)
    eventually(opened, 0.0, lambda: members(opened)[1][1])
    status = opened.find_element("css selector", "[role=status]")
    eventually(opened, True, lambda: "Member 2: cat" in status.get_attribute("textContent"))


def test_members_are_added_and_removed(opened):
    from selenium.webdriver.common.keys import Keys

    add = opened.find_element("css selector", "[data-do=add]")
    for n in range(6, 11):
        add.click()
        eventually(opened, n, lambda: number_of_members(opened))
    assert not add.is_enabled()
    for n in range(9, 1, -1):
        press(opened, HANDLE.format(1), Keys.DELETE)
        eventually(opened, n, lambda: number_of_members(opened))
        assert opened.switch_to.active_element.get_attribute("aria-label") == "Member 1"
    opened.find_element("css selector", "[data-do=remove]").click()
    eventually(opened, 1, lambda: number_of_members(opened))
    press(opened, HANDLE.format(1), Keys.DELETE)  # an ensemble has a member
    assert not opened.find_element("css selector", "[data-do=remove]").is_enabled()
    assert all(parts[2] == 0 for parts in numbers(opened).values())
    assert "only one member" in explanation(opened)


def test_an_entered_probability_rescales_the_others(opened):
    enter(opened, "Member 2, probability of bird", "0.5")
    eventually(opened, [0.277, 0.223, 0.5], lambda: members(opened)[1])
    enter(opened, "Member 2, probability of bird", "7")
    eventually(opened, [0.0, 0.0, 1.0], lambda: members(opened)[1])
    enter(opened, "Member 2, probability of bird", "")
    assert members(opened)[1] == [0.0, 0.0, 1.0]


# -- what is said and shown -----------------------------------------------------------------------


def test_explanation_follows_the_state(opened):
    show_preset(opened, "same-argmax")
    choose(opened, "zero-one")
    log = numbers(opened)["log"][2]
    assert explanation(opened).startswith("All 5 members decide for cat.")
    assert f"Under log it is {log:.3f} nats" in explanation(opened)
    show_preset(opened, "outlier")
    total, aleatoric, epistemic = (f"{100 * part:.1f} %" for part in numbers(opened)["zero-one"])
    text = explanation(opened)
    assert text.startswith("4 of 5 members decide for cat and 1 for bird.")
    assert total in text
    assert f"{aleatoric} would remain" in text
    assert f"{epistemic}, is the epistemic part" in text
    choose(opened, "log")
    assert "of it comes from member 5" in explanation(opened)
    choose(opened, "cost-matrix")
    assert "Their mean takes “ask”" in explanation(opened)


def test_steps_of_the_page_give_its_numbers(opened):
    text = (DOCS / "simplex.md").read_text()
    assert f"{numbers(opened)['log'][2]:.3f} nats under log" in text
    assert f"the epistemic part is {numbers(opened)['cost-matrix'][2]:.3f}" in text
    choose(opened, "cost-matrix")
    for name in ("cat", "dog", "bird"):
        enter(opened, f"Cost of ask if the class is {name}", "1")
    eventually(opened, 0, lambda: numbers(opened)["cost-matrix"][2])
    show_preset(opened, "outlier")
    choose(opened, "log")
    assert "71 % of it comes from member 5" in explanation(opened)
    assert "71 %\n  of the epistemic part" in text


@pytest.mark.parametrize("rule", ["log", "zero-one", "cost-matrix"])
@pytest.mark.parametrize("shade", ["entropy", *PARTS])
def test_shades_are_transparent_only_where_the_value_is_zero(opened, rule: str, shade: str):
    choose(opened, rule)
    opened.find_element("css selector", f"[name=shade][value={shade}]").click()
    caption = opened.find_element("css selector", ".simplex-caption")
    words = "H(p) under" if shade == "entropy" else f"The {shade}"
    eventually(opened, True, lambda: caption.text.startswith(words))
    shares = opened.execute_script(
        "const canvas = document.querySelector('.simplex canvas');"
        "const { width, height } = canvas;"
        "const { data } = canvas.getContext('2d').getImageData(0, 0, width, height);"
        "const darkest = (x, y) => Math.max(...Array.from({ length: 20 }, (_, i) =>"
        " data[4 * (Math.floor(y * height) * width + Math.floor(x * width) + i) + 3]));"
        "return [darkest(0.25, 0.8), darkest(0.5, 0.28)];"  # among the members, and far away
    )
    is_zero = rule == "zero-one" and shade == "epistemic"
    assert (shares[0] == 0) == is_zero
    assert shares[1] > 0


def test_a_link_restores_the_view(opened, path):
    show_preset(opened, "camps")
    choose(opened, "cost-matrix")
    enter(opened, "Name of action 4", "ask & wait")
    set_slider(opened, "beta", 2.5)
    link = opened.find_element("css selector", ".simplex-link")
    eventually(opened, True, lambda: "beta=2.5" in link.get_attribute("href"))
    fragment = link.get_attribute("href").split("#")[1]
    before = members(opened), numbers(opened), explanation(opened)
    load(opened, f"{path.as_uri()}#{fragment}")
    assert (members(opened), numbers(opened), explanation(opened)) == before
    assert chosen_rule(opened) == "cost-matrix"


@pytest.mark.parametrize(
    "fragment",
    ["try-this", "members=1,2&rule=none&beta=-1&costs=1", "members=500,600,-100&shade=x&action=a"],
)
def test_a_foreign_fragment_changes_nothing(opened, path, fragment: str):
    before = members(opened), numbers(opened), explanation(opened)
    load(opened, f"{path.as_uri()}#{fragment}")
    assert (members(opened), numbers(opened), explanation(opened)) == before


@pytest.mark.parametrize("cost", [1e7, 1e-7, 1e300])
def test_a_constant_cost_of_any_size_is_drawn(opened, path, cost: float):
    costs = ";".join([f"{cost:.0f},{2 * cost:.0f}" if cost > 1 else f"{cost},{2 * cost}"] * 3)
    load(opened, f"{path.as_uri()}#rule=cost-matrix&action=a&action=b&costs={costs}")
    assert chosen_rule(opened) == "cost-matrix"
    parts = pytest.approx([cost, cost, 0])
    eventually(opened, parts, lambda: numbers(opened)["cost-matrix"])


@pytest.mark.parametrize("rule", ["log", "pseudospherical", "cost-matrix"])
def test_page_fits_a_phone(opened, rule: str):
    resize(opened, 390, 844)
    choose(opened, rule)
    if rule == "cost-matrix":
        add_action(opened)
    eventually(opened, True, lambda: is_within(opened))
    cut = opened.execute_script(
        "return [...document.querySelectorAll('.simplex :is(td, th, input, button, p)')]"
        ".filter((element) => element.offsetParent)"
        ".filter((element) => element.scrollWidth > element.clientWidth + 1"
        "  || element.getBoundingClientRect().right > 390).map((element) => element.outerHTML)"
    )
    assert cut == []
    width = opened.execute_script(
        "return document.querySelector('.simplex .outline path').getBoundingClientRect().width"
    )
    assert 290 < width < 358


def test_without_script_the_page_says_so(browser, path):
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        load(browser, path.as_uri())
        text = browser.find_element("tag name", "body").text
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert text.startswith("This page needs JavaScript.")
    assert "Rule" not in text
