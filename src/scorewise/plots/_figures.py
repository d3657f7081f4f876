"""All figures of an evaluation as files."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from scorewise import _validate as validate
from scorewise._files import replacing
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
    """Draw what an evaluation found and write each figure to a file of its own.

    Use it for slides and papers; :func:`scorewise.write_report` makes a page to read. There is
    always ``rejection``, ``comparison``, ``calibration`` and ``decomposition``; ``ood`` and
    ``comparison_ood`` where foreign rows were given, ``learning`` and ``comparison_learning`` where
    runs were. Curves that order all rows alike are drawn once. The same evaluation gives the same
    files.

    Parameters
    ----------
    evaluation : Evaluation
        Made by :func:`scorewise.evaluate`.
    folder : path
        Where to write, made where there is none; files of the same names are replaced, each in one
        step.
    formats : sequence of str
        Some of ``"png"``, ``"svg"`` and ``"pdf"``.

    Returns
    -------
    list of Path
        The files, figure by figure.

    Raises
    ------
    InvalidInput
        If this is no evaluation, a format is unknown, or the folder is a file.
    ImportError
        Without matplotlib: ``pip install 'scorewise[plots]'``.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np, scorewise as sw
    >>> from scorewise.plots._figures import save_figures
    >>> rng = np.random.default_rng(0)
    >>> probs = rng.dirichlet([0.3] * 3, size=(200, 5))
    >>> found = sw.evaluate(probs, probs.mean(1).argmax(1), n_resamples=100)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in save_figures(found, folder, ["svg"])]
    ['rejection.svg', 'comparison.svg', 'calibration.svg', 'decomposition.svg']
    """
    if not isinstance(evaluation, Evaluation):
        raise InvalidInput("only an Evaluation has figures; make one with sw.evaluate")
    wanted = [formats] if isinstance(formats, str) else list(formats)
    wanted = list(dict.fromkeys(validate.choice(one, "formats", _METADATA) for one in wanted))
    target = Path(folder)
    if target.exists() and not target.is_dir():
        raise InvalidInput(f"{str(target)!r} is a file; give the folder to write to")
    target.mkdir(parents=True, exist_ok=True)
    return [
        path
        for name, display in _displays(evaluation).items()
        for path in _saved(display, target / name, wanted)
    ]


def _displays(found: Evaluation) -> dict[str, Any]:
    """By the name of the file: what it shows."""
    loss = found.loss_name
    # measures that order all rows alike have one curve
    curves = {
        row.name: found.curves[row.name]
        for row in found.comparison.standings
        if row.same_order_as is None or row.name == found.measure
    }
    displays: dict[str, Any] = {
        "rejection": RejectionCurveDisplay(curves, loss),
        "comparison": ComparisonDisplay(found.comparison),
        "calibration": CalibrationDisplay(found.calibration, loss),
    }
    if found.uncertainty is not None:
        displays["decomposition"] = DecompositionDisplay(found.uncertainty, loss)
    if found.ood is not None:
        displays["ood"] = OODDisplay(
            found.ood.inside,
            found.ood.outside,
            found.ood.metrics,
            f"{found.ood.measure} uncertainty",
        )
        displays["comparison_ood"] = ComparisonDisplay(found.ood.comparison)
    if found.learning is not None:
        displays["learning"] = LearningCurveDisplay(found.learning.curves, loss)
        displays["comparison_learning"] = ComparisonDisplay(found.learning.comparison)
    return displays


def _saved(display: Any, stem: Path, formats: Sequence[str]) -> list[Path]:
    try:
        import matplotlib as mpl
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError(
            "scorewise.save_figures needs matplotlib: pip install 'scorewise[plots]'"
        ) from error
    paths = [stem.with_name(f"{stem.name}.{one}") for one in formats]
    with pyplot.ioff(), mpl.rc_context({"svg.hashsalt": "scorewise"}):
        figure = display.plot().figure_
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # arranged once, for all formats
        try:
            for path, one in zip(paths, formats, strict=True):
                with replacing(path) as partial:
                    figure.savefig(partial, format=one, dpi=_DPI, metadata=_METADATA[one])
        finally:
            pyplot.close(figure)
    return paths
