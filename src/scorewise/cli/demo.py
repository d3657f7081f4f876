"""scorewise demo: the main job on data that is always at hand."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from scorewise.cli._app import AsJson, Debug, command
from scorewise.cli._screen import print_json, say
from scorewise.cli.evaluate import show
from scorewise.report import check_report


@command(
    "scorewise demo", "scorewise demo --trees 500 --seed 7", "scorewise demo --json > demo.json"
)
def demo(
    out: Annotated[Path, typer.Option(help="Folder that the result is written to.")] = Path("out"),
    trees: Annotated[int, typer.Option(min=2, help="Trees of the forest.")] = 100,
    seed: Annotated[
        int, typer.Option(min=0, max=2**31, help="Seed of everything that is drawn at random.")
    ] = 0,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Fit a forest on handwritten digits, and run all three tasks on it.

    When should it abstain? Does it notice digits of kinds that it has never seen? Which digits
    should be labelled next? Compares the measures, writes a page that explains itself
    (report.html), and the predictions, to try the other commands on.
    """
    from scorewise.cli._digits import run_demo  # and with it scikit-learn's models

    out.mkdir(parents=True, exist_ok=True)
    check_report(out / "report.html")
    result = run_demo(trees, seed, progress=False if as_json else None)
    page, numbers, own, foreign = result.write(out)
    if as_json:
        print_json(
            {
                **result.evaluation.to_dict(),
                "written": [str(p) for p in (page, numbers, own, foreign)],
            }
        )
        return
    say(
        f"A forest of {trees} trees, fitted on {result.n_train} digits from 0 to 7, was asked "
        f"about {len(result.predictions)} others, and about {len(result.foreign)} digits 8 and 9, "
        "which it has never seen.\n"
    )
    show(result.evaluation)
    known, unknown = (quote(str(path)) for path in (own, foreign))
    say(
        "",
        f"Written to {page}: open it in a browser. To go on:",
        f"  scorewise evaluate {known} --ood {unknown} --task-loss brier",
        f"  scorewise certify {known} --max-loss 0.02",
        f"  scorewise label {known} -n 5",
    )
