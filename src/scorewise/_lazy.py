"""Names that a package imports when they are first used, because what they need is heavy."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, modules: Mapping[str, str], extras: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The ``__getattr__`` and ``__dir__`` of a package that imports some names on first use.

    Parameters
    ----------
    package : str
        The package's ``__name__``.
    modules : mapping of str to str
        By public name: the module that has it, or the module itself (``plots``).
    extras : mapping of str to str, optional
        By public name: the optional dependencies to install where the import fails.
    """

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            module = import_module(modules[name])
            value = module if modules[name] == f"{package}.{name}" else getattr(module, name)
        except ModuleNotFoundError as error:
            extra = (extras or {}).get(name)
            if extra is None:
                raise
            raise ImportError(
                f"scorewise.{name} needs {error.name}: pip install 'scorewise[{extra}]'"
            ) from error
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules} - {"TYPE_CHECKING", "lazy_names"})

    return get, names
