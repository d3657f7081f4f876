"""The command line: thin commands over public functions, one file each."""

from importlib import import_module

from scorewise.cli._app import app

__all__ = ["app"]

# In the order of the help. The file of a name has the function of that name.
COMMANDS = ("demo", "evaluate", "score", "certify", "apply", "label", "decide", "advise", "compare")

for _name in COMMANDS:
    app.command()(getattr(import_module(f"scorewise.cli.{_name}"), _name))
