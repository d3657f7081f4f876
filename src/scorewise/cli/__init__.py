"""The command line: thin commands over public functions."""

from scorewise.cli import (
    advice,
    costs,
    data_sets,
    demonstration,
    evaluation,
    labels,
    promises,
    reproduction,
    scores,
)
from scorewise.cli.app import app

__all__ = ["app"]

_COMMANDS = (  # as the help lists them
    demonstration.demo, evaluation.evaluate, scores.score, promises.certify, promises.apply,
    labels.label, costs.decide, advice.advise, advice.compare, reproduction.reproduce,
)  # fmt: skip

for _command in _COMMANDS:
    app.command()(_command)
app.add_typer(data_sets.datasets)
