"""The command line: thin commands over public functions."""

from scorewise.cli import advise as advice
from scorewise.cli import certify as promises
from scorewise.cli import decide as costs
from scorewise.cli import demo as demonstration
from scorewise.cli import evaluate as evaluation
from scorewise.cli import label as labels
from scorewise.cli import score as scores
from scorewise.cli._app import app

__all__ = ["app"]

_COMMANDS = (  # as the help lists them
    demonstration.demo,
    evaluation.evaluate,
    scores.score,
    promises.certify,
    promises.apply,
    labels.label,
    costs.decide,
    advice.advise,
    advice.compare,
)

for _command in _COMMANDS:
    app.command()(_command)
