"""The command line: thin commands over public functions, one file each.

Each file defines the command of its name; files that start with an underscore define none.
"""

import pkgutil
from importlib import import_module

from scorewise.cli._app import CommandWithSections, app

__all__ = ["app"]

# The order of the help; other commands come last.
COMMANDS = (
    "demo",
    "evaluate",
    "score",
    "calibrate",
    "certify",
    "apply",
    "label",
    "decide",
    "advise",
    "compare",
)

_others = [
    module.name
    for module in pkgutil.iter_modules(__path__)
    if not module.name.startswith("_") and module.name not in COMMANDS
]
for _name in (*COMMANDS, *_others):
    app.command(cls=CommandWithSections)(getattr(import_module(f"scorewise.cli.{_name}"), _name))
