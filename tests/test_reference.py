"""The reference: it lists every public name, and each docstring there says what a user needs."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from numpydoc.docscrape import NumpyDocString

import scorewise

SRC = Path(scorewise.__file__).parent
PAGE = Path(__file__).parents[1] / "docs" / "api.md"
MODULES_IN_PLACE = {"plots", "rules"}  # at the top level; each has a section of its own


# -- what is public -------------------------------------------------------------------------------


def module_of(path: Path) -> tuple[str, ...]:
    """The dotted name of a source file, in parts, without ``scorewise``."""
    parts = path.relative_to(SRC).with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts


def exports_of(module: str) -> list[str]:
    """The names in ``__all__``; ``rules`` has none, and imports only what it exports."""
    names = vars(importlib.import_module(module))
    return names.get("__all__", [name for name in names if not name.startswith("_")])


def public_modules() -> dict[str, list[str]]:
    """The names that each public module exports; those at the top level are listed there only.

    A module is public if no part of its name starts with an underscore. Kernels and commands are
    found by file: their modules are for the package that finds them.
    """
    modules = {
        ".".join(["scorewise", *module]): module
        for module in map(module_of, sorted(SRC.rglob("*.py")))
        if module and not any(part.startswith("_") for part in module)
    }
    below = {
        name: [
            n
            for n in exports_of(name)
            if n not in scorewise.__all__ or value_of(name, n) is not getattr(scorewise, n)
        ]
        for name, module in modules.items()
        if len(module) == 1 or module[0] not in {"kernels", "cli", "models"}
    }
    return {"scorewise": sorted({*scorewise.__all__} - MODULES_IN_PLACE), **below}


def sections_of_the_page() -> dict[str, str]:
    """The text below the heading of each module."""
    parts = re.split(r"^## `(.+)`$", PAGE.read_text(), flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def names_with_a_page(module: str) -> list[str]:
    """The names of a module in blocks of autosummary, which makes a page of each."""
    listed = rf"^   {re.escape(module)}\.(\w+)$"
    return re.findall(listed, sections_of_the_page()[module], flags=re.MULTILINE)


def names_in_tables(module: str) -> list[str]:
    """The names of a module that a table describes in a line."""
    row = r"^\| `(\w+)` \|"
    return re.findall(row, sections_of_the_page()[module], flags=re.MULTILINE)


def value_of(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)


def members_of(cls: type) -> Iterator[tuple[str, Any]]:
    """The public methods and properties of a class that scorewise defines, also inherited ones.

    Each has the name of the class that defines it, so that none is reported twice.
    """
    for name, member in inspect.getmembers(cls):
        home = next((base for base in cls.__mro__ if name in vars(base)), object)
        is_ours = home.__module__.startswith("scorewise") and not name.startswith("_")
        if not is_ours or name in getattr(home, "__dataclass_fields__", {}):  # fields are data
            continue
        if is_method(member) or is_property(member):
            yield f"{home.__module__}.{home.__qualname__}.{name}", member


def is_method(member: Any) -> bool:
    is_function = inspect.isfunction(member) or inspect.ismethod(member)
    return is_function and member.__module__.startswith("scorewise")  # some are scikit-learn's


def is_property(member: Any) -> bool:
    return isinstance(member, property) or type(member).__name__ == "cached_property"


PAGES = {
    f"{m}.{name}": value_of(m, name)
    for m in sections_of_the_page()
    for name in names_with_a_page(m)
}
FUNCTIONS = {name: value for name, value in PAGES.items() if inspect.isfunction(value)}
CLASSES = {name: value for name, value in PAGES.items() if inspect.isclass(value)}
MEMBERS = dict(member for cls in CLASSES.values() for member in members_of(cls))
METHODS = {name: member for name, member in MEMBERS.items() if is_method(member)}


# -- what docstrings say --------------------------------------------------------------------------


def doc_of(thing: Any) -> NumpyDocString:
    """The sections of a docstring; a method has that of the method which it overrides."""
    return NumpyDocString(inspect.getdoc(thing) or "")


def parameters_of(thing: Any) -> list[str]:
    """The parameters of a function, method or class, with the stars of ``*rows``, ``**options``."""
    if getattr(thing, "_is_protocol", False):
        return []
    try:
        parameters = inspect.signature(thing).parameters.values()
    except ValueError:  # of a class that adds nothing to its built-in parent's
        return []
    star = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    names = [star.get(p.kind, "") + p.name for p in parameters]
    return [name for name in names if name != "self" and not name.startswith("_")]


def documented_in(thing: Any, *sections: str) -> list[str]:
    """The names in sections of a docstring, in order; several may share a description."""
    listed = [entry.name for section in sections for entry in doc_of(thing)[section]]
    return [name.strip() for names in listed for name in names.split(",")]


def result_of(thing: Any) -> str:
    """What a function or method is annotated to return."""
    return str(getattr(thing, "__annotations__", {}).get("return", ""))


def first_sentence(thing: Any) -> str:
    return " ".join(doc_of(thing)["Summary"])


# -- what can be wrong with one -------------------------------------------------------------------


def has_no_example(thing: Any) -> bool:
    """Whether no code is shown, or none that calls the function; other tests run the code."""
    example = "\n".join(doc_of(thing)["Examples"])
    return ">>> " not in example or (
        inspect.isfunction(thing) and f"{thing.__name__}(" not in example
    )


def undocumented_parameters(thing: Any) -> list[str]:
    """Parameters that no section lists; those of a class may be listed as its attributes."""
    sections = ["Parameters", "Other Parameters"]
    if inspect.isclass(thing):
        sections.append("Attributes")
    return sorted({*parameters_of(thing)} - {*documented_in(thing, *sections)})


def unmentioned_parameters(thing: Any) -> list[str]:
    """Parameters of a method that are neither in a section nor in ``code`` of its sentences.

    If a method has a section, it lists all.
    """
    missing, text = undocumented_parameters(thing), inspect.getdoc(thing) or ""
    if doc_of(thing)["Parameters"]:
        return missing
    code = set(re.findall(r"\w+", " ".join(re.findall("``(.+?)``", text))))
    return [parameter for parameter in missing if parameter.lstrip("*") not in code]


def wrong_parameters(thing: Any) -> list[str]:
    """Documented parameters that do not exist, or all if they are in another order."""
    documented, existing = documented_in(thing, "Parameters"), parameters_of(thing)
    unknown = [parameter for parameter in documented if parameter not in existing]
    in_order = [parameter for parameter in existing if parameter in documented]
    return unknown or (documented if documented != in_order else [])


def has_undocumented_result(function: Any) -> bool:
    doc = doc_of(function)
    return result_of(function) not in {"None", "NoReturn"} and not (doc["Returns"] or doc["Yields"])


def vague_first_sentence(thing: Any) -> str:
    """The first sentence, unless it says what is returned.

    It may say first what is done: "Write the page, and return its path." What returns nothing or
    the object itself, as ``fit`` does, says only that.
    """
    only_acts = result_of(thing) in {"None", "NoReturn", "Self"}
    says_what = re.search(r"^(Return|Yield|The) |\breturn\b", first_sentence(thing))
    return "" if only_acts or says_what else first_sentence(thing)


def those(things: dict[str, Any], problem: Callable[[Any], Any]) -> dict[str, Any]:
    """What has a problem, by name."""
    return {name: fault for name, thing in things.items() if (fault := problem(thing))}


# -- the tests ------------------------------------------------------------------------------------


def mean_loss(losses: list[float], *weights: float, **options: bool) -> float:
    """Return the mean loss; ``weights`` are optional.

    Parameters
    ----------
    losses : list of float
    *weights, **options
        More of them.

    Returns
    -------
    float

    Examples
    --------
    >>> mean_loss([0, 1])
    0.5
    """
    return sum(losses) / len(losses)


def undocumented(losses: list[float], *weights: float) -> float:
    """Compute it."""
    raise NotImplementedError


def documented_wrongly(losses: list[float], *weights: float) -> float:
    """Return the mean of ``losses``.

    Parameters
    ----------
    *weights : float
    losses : list of float

    Examples
    --------
    >>> sum([0, 1])
    1
    """
    raise NotImplementedError


def documented_before_it_was_renamed(losses: list[float]) -> None:
    """Print the mean of ``values``.

    Parameters
    ----------
    values : list of float
    """


CHECKS = [
    has_no_example,
    undocumented_parameters,
    unmentioned_parameters,
    wrong_parameters,
    has_undocumented_result,
    vague_first_sentence,
]


@pytest.mark.parametrize(
    ("function", "problems"),
    [
        (mean_loss, [False, [], [], [], False, ""]),
        (undocumented, [True, *[["*weights", "losses"]] * 2, [], True, "Compute it."]),
        (documented_wrongly, [True, [], [], ["*weights", "losses"], True, ""]),
        (documented_before_it_was_renamed, [True, *[["losses"]] * 2, ["values"], False, ""]),
    ],
)
def test_the_checks_find_what_is_wrong(function, problems):
    assert [check(function) for check in CHECKS] == problems


def test_the_page_lists_every_public_name_and_no_other():
    assert {
        module: sorted([*names_with_a_page(module), *names_in_tables(module)])
        for module in sections_of_the_page()
    } == {module: sorted(names) for module, names in public_modules().items()}


def test_public_modules_export_what_exists_in_order():
    for module in map(importlib.import_module, public_modules().keys() - {"scorewise"}):
        names = getattr(module, "__all__", [])
        assert names == sorted(names, key=lambda n: (not n.isupper(), not n[0].isupper(), n))
        assert all(hasattr(module, name) for name in names), module


def test_every_public_name_has_an_example():
    assert those(PAGES, has_no_example) == {}


def test_every_parameter_is_documented():
    assert those({**FUNCTIONS, **CLASSES}, undocumented_parameters) == {}


def test_every_parameter_of_a_method_is_mentioned():
    assert those(METHODS, unmentioned_parameters) == {}


def test_documented_parameters_exist_in_that_order():
    assert those({**FUNCTIONS, **CLASSES, **METHODS}, wrong_parameters) == {}


def test_every_function_documents_its_result():
    assert those(FUNCTIONS, has_undocumented_result) == {}


def test_every_method_and_property_has_a_docstring():
    assert those(MEMBERS, lambda member: not first_sentence(member)) == {}


def test_first_sentences_say_what_is_returned():
    assert those({**FUNCTIONS, **METHODS}, vague_first_sentence) == {}
