"""Lazy imports: names of a package that are imported on first use."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, modules: Mapping[str, str], extras: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for a package that imports names on first use.

    Parameters
    ----------
    package : str
        The package's ``__name__``.
    modules : mapping of str to str
        For each public name, the module that defines it, or that it is (``plots``).
    extras : mapping of str to str, optional
        For some public names, the optional dependencies to install if the import fails.
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


def at_scale(name: str) -> Callable[..., Any]:
    """Return a function of ``scorewise.scale``, which lower packages pass Dask collections to."""
    function: Callable[..., Any] = getattr(import_module("scorewise.scale"), name)
    return function
