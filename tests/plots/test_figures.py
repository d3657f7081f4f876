"""All figures of an evaluation as files."""

from __future__ import annotations

import pytest

import scorewise as sw
from report_support import full
from scorewise.plots import save_figures


@pytest.fixture(scope="module")
def evaluation():
    return full()


@pytest.mark.usefixtures("no_screen")
def test_figures_are_saved(tmp_path, evaluation):
    from matplotlib import pyplot

    folder = tmp_path / "new" / "figures"
    paths = save_figures(evaluation, folder)
    names = [
        "rejection",
        "comparison",
        "calibration",
        "decomposition",
        "ood",
        "comparison_ood",
        "learning",
        "comparison_learning",
    ]
    assert [path.name for path in paths] == [f"{n}.{f}" for n in names for f in ("png", "svg")]
    assert sorted(folder.iterdir()) == sorted(paths)
    for path in paths:
        start = path.read_bytes()[:100]
        assert start.startswith(b"\x89PNG") or b"<?xml" in start
    assert not pyplot.get_fignums()
    before = paths[1].read_bytes()
    assert save_figures(evaluation, folder, "svg") == paths[1::2]
    assert paths[1].read_bytes() == before


@pytest.mark.usefixtures("no_screen")
def test_figures_that_cannot_be_saved(tmp_path, evaluation):
    with pytest.raises(sw.InvalidInput, match="formats must be one of"):
        save_figures(evaluation, tmp_path, ["gif"])
    (tmp_path / "file").write_text("")
    with pytest.raises(sw.InvalidInput, match="is a file"):
        save_figures(evaluation, tmp_path / "file")
    with pytest.raises(sw.InvalidInput, match="only an Evaluation"):
        save_figures(None, tmp_path)
