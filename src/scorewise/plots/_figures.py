"""Save the figures of an evaluation to files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

from scorewise import _validate as validate
from scorewise._files import check_no_link, replacing
from scorewise.compare import Evaluation
from scorewise.errors import InvalidInput
from scorewise.plots._calibration import CalibrationDisplay
from scorewise.plots._comparison import ComparisonDisplay
from scorewise.plots._curves import LearningCurveDisplay, RejectionCurveDisplay
from scorewise.plots._decomposition import DecompositionDisplay
from scorewise.plots._ood import OODDisplay

_DPI = 200
# by format: no dates, so that the same evaluation gives the same files
_METADATA: dict[str, dict[str, Any]] = {
    "png": {},
    "svg": {"Date": None},
    "pdf": {"CreationDate": None},
}


def save_figures(
    evaluation: Evaluation, folder: str | PathLike[str], formats: Sequence[str] = ("png", "svg")
) -> list[Path]:
    """Write every figure of an evaluation to a separate file, and return the paths.

    Use it for slides and papers; :func:`scorewise.write_report` writes an HTML report. The figures
    are ``rejection``, ``comparison``, ``calibration`` and ``decomposition``; where calibrating
    would change something also ``calibrating``; with OOD rows also
    ``ood`` and ``comparison_ood``, with runs of active learning also ``learning`` and
    ``comparison_learning``. Measures that order all rows alike have one curve. The same evaluation
    gives the same files.

    Parameters
    ----------
    evaluation : Evaluation
        Made by :func:`scorewise.evaluate`.
    folder : path
        Folder to write to; it is created if missing. Files of the same names are replaced, each
        in one step.
    formats : sequence of str
        Some of ``"png"``, ``"svg"`` and ``"pdf"``.

    Returns
    -------
    list of Path
        The files, figure by figure.

    Raises
    ------
    InvalidInput
        If ``evaluation`` is not an Evaluation, a format is unknown, or the folder is a file.
    ImportError
        Without matplotlib: ``pip install 'scorewise[plots]'``.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np, scorewise as sw
    >>> rng = np.random.default_rng(0)
    >>> probs = rng.dirichlet([0.3] * 3, size=(200, 5))
    >>> evaluation = sw.evaluate(probs, probs.mean(1).argmax(1), n_resamples=100)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in sw.plots.save_figures(evaluation, folder, ["svg"])]
    ['rejection.svg', 'comparison.svg', 'calibration.svg', 'decomposition.svg', 'calibrating.svg']
    """
    if not isinstance(evaluation, Evaluation):
        raise InvalidInput("only an Evaluation has figures; make one with sw.evaluate")
    names = [formats] if isinstance(formats, str) else list(formats)
    names = list(dict.fromkeys(validate.choice(name, "formats", _METADATA) for name in names))
    target = Path(folder)
    if target.exists() and not target.is_dir():
        raise InvalidInput(f"{str(target)!r} is a file; pass a folder")
    target.mkdir(parents=True, exist_ok=True)
    return [
        path
        for name, draw in _drawings(evaluation).items()
        for path in _save(draw, target / name, names)
    ]


def _drawings(evaluation: Evaluation) -> dict[str, Callable[[], Any]]:
    """Functions that draw an evaluation, by the names of the files that they are saved to."""
    unit, ood, learning = evaluation.unit, evaluation.ood, evaluation.learning
    displays: dict[str, Any] = {
        "rejection": RejectionCurveDisplay(evaluation.distinct_curves, unit),
        "comparison": ComparisonDisplay(evaluation.comparison),
        "calibration": CalibrationDisplay(evaluation.calibration, unit),
    }
    if evaluation.uncertainty is not None:
        displays["decomposition"] = DecompositionDisplay(evaluation.uncertainty, unit)
    if ood is not None:
        displays["ood"] = OODDisplay(ood.u_in, ood.u_out, ood.metrics, ood.score_name)
        displays["comparison_ood"] = ComparisonDisplay(ood.comparison)
    if learning is not None:
        displays["learning"] = LearningCurveDisplay(learning.curves, unit)
        displays["comparison_learning"] = ComparisonDisplay(learning.comparison)
    drawings: dict[str, Callable[[], Any]] = {
        name: display.plot for name, display in displays.items()
    }
    effect = evaluation.comparison.calibrating
    if effect is not None and effect.method != "none":
        # the losses before and after differ, and so do their best possible and random orders
        display = RejectionCurveDisplay(effect.curves, unit)
        drawings["calibrating"] = partial(display.plot, show_oracle=False, show_random=False)
    return drawings


def _save(draw: Callable[[], Any], stem: Path, formats: Sequence[str]) -> list[Path]:
    try:
        import matplotlib as mpl
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError(
            "scorewise.plots.save_figures needs matplotlib: pip install 'scorewise[plots]'"
        ) from error
    paths = [stem.with_name(f"{stem.name}.{name}") for name in formats]
    for path in paths:
        check_no_link(path)
    with pyplot.ioff(), mpl.rc_context({"svg.hashsalt": "scorewise"}):
        figure = draw().figure_
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # arranged once, for all formats
        try:
            for path, name in zip(paths, formats, strict=True):
                with replacing(path) as partial:
                    figure.savefig(partial, format=name, dpi=_DPI, metadata=_METADATA[name])
        finally:
            pyplot.close(figure)
    return paths
