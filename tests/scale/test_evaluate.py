"""Evaluations of Dask arrays have the numbers of the same rows in memory."""

import json
import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace

import cloudpickle
import dask
import dask.array as da
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dask.callbacks import Callback
from distributed import Client

import scorewise as sw
from cli_support import from_json, run
from scale_support import local_cluster, process, wait_until
from scorewise import scale
from scorewise.compare import Evaluation

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers have no tests

N = 20_000
CHUNKS = (3000, 100, 1, 7000, 5000, 899, 4000)
QUICK = {"n_resamples": 100, "random_state": 0, "progress": False}
COSTS = sw.rules.cost_matrix([[0, 5, 1], [50, 0, 1], [3, 3, 0]], ["dismiss", "treat", "refer"])
NAMES = ["well", "doubtful", "ill"]


def members(n, seed=0, k=3, m=6):
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.full(k, 0.4), size=n)
    y = (truth.cumsum(axis=1) > rng.uniform(size=(n, 1))).argmax(axis=1)
    probs = truth[:, None] * np.exp(rng.normal(scale=0.5, size=(n, m, k))) + 1e-9
    return probs / probs.sum(axis=-1, keepdims=True), y


PROBS, Y = members(N)
OOD = np.random.default_rng(1).dirichlet(np.ones(3), size=(3000, 6))


def lazy(array, chunks=CHUNKS):
    """A Dask array in these blocks of rows, chunked along the members too."""
    rest = (2, *array.shape[2:]) if array.ndim == 3 else array.shape[1:]
    return da.from_array(array, chunks=(chunks, *rest))


def assert_same(a, b, rel=1e-12):
    """Two nests of numbers, texts and arrays are the same, numbers to rounding."""
    if isinstance(a, dict):
        assert a.keys() == b.keys()
        for name in a:
            assert_same(a[name], b[name], rel)
    elif isinstance(a, list | tuple):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_same(x, y, rel)
    elif isinstance(a, float | np.ndarray):
        np.testing.assert_allclose(b, a, rtol=rel, atol=1e-12)
    else:
        assert a == b


def assert_same_evaluation(expected: Evaluation, evaluation: Evaluation):
    assert str(evaluation) == str(expected)
    mine, others = evaluation.to_dict(), expected.to_dict()
    assert mine["settings"].pop("distinct scores") == 1 << 16
    for part in (mine, others):
        for interval in (part["calibrating"], part["calibration"]):
            interval and interval.pop("p_value", None)
    assert evaluation.calibration.p_value == pytest.approx(expected.calibration.p_value, rel=1e-6)
    assert_same(others, mine, rel=1e-9)
    assert evaluation.certificates == expected.certificates
    for name, curve in evaluation.curves.items():
        for area in ("aulc", "augrc", "oracle_aulc", "normalized_aulc"):
            exact = getattr(expected.curves[name], area)
            assert getattr(curve, area) == pytest.approx(exact, rel=1e-12)
        assert (curve.aulc_error, curve.augrc_error) == (0, 0)


@pytest.fixture(scope="module")
def evaluations():
    """The same rows, some of them out of distribution, in memory and at scale."""
    return (
        sw.evaluate(PROBS, Y, ood=OOD, **QUICK),
        sw.evaluate(lazy(PROBS), lazy(Y), ood=lazy(OOD, (1, 1999, 1000)), **QUICK),
    )


def test_an_evaluation_has_all_numbers_of_memory(evaluations):
    assert_same_evaluation(*evaluations)


def test_an_evaluation_has_the_arrays_of_memory_where_all_rows_fit_into_the_sample(evaluations):
    expected, evaluation = evaluations
    for name in ("total", "aleatoric", "epistemic"):
        np.testing.assert_array_equal(
            getattr(evaluation.uncertainty, name), getattr(expected.uncertainty, name)
        )
    np.testing.assert_array_equal(evaluation.ood.u_in, expected.ood.u_in)
    np.testing.assert_array_equal(evaluation.ood.u_out, expected.ood.u_out)
    for mine, others in zip(evaluation.simplex, expected.simplex, strict=True):
        np.testing.assert_array_equal(mine, others)
    assert [row.index for row in evaluation.uncertain_rows] == [
        row.index for row in expected.uncertain_rows
    ]


def test_a_report_and_figures_are_made_of_an_evaluation_at_scale(evaluations, tmp_path):
    pytest.importorskip("jinja2")
    pages = []
    for name, evaluation in zip(("memory", "scale"), evaluations, strict=True):
        settings = {k: v for k, v in evaluation.settings.items() if k != "distinct scores"}
        path = tmp_path / f"{name}.html"
        sw.write_report(replace(evaluation, settings=settings), path)
        pages.append(path.read_text())
        assert sw.plots.save_figures(evaluation, tmp_path / name, formats="png")
    assert "20,000" in pages[1]
    assert abs(len(pages[0]) - len(pages[1])) < 0.01 * len(pages[0])


@pytest.mark.parametrize(
    ("loss", "options"),
    [("log", {"floor": 1e-6}), ("brier", {"max_loss": 0.3}), (COSTS, {"class_names": NAMES})],
)
def test_other_losses_have_the_numbers_of_memory(loss, options):
    rows, chunks = slice(0, 4000), (1500, 2000, 500)
    ids = np.array([f"case {i}" for i in range(4000)])
    y = np.array(NAMES)[Y[rows]] if "class_names" in options else Y[rows]
    options = {"task_loss": loss, "ids": ids, **options, **QUICK}
    expected = sw.evaluate(PROBS[rows].astype(np.float32), y, **options)
    evaluation = sw.evaluate(lazy(PROBS[rows].astype(np.float32), chunks), y, **options)
    assert_same_evaluation(expected, evaluation)
    assert evaluation.uncertain_rows[0].id.startswith("case")


def test_members_may_have_weights_and_be_on_another_axis():
    probs, y = members(2000, seed=3)
    weights = np.random.default_rng(0).uniform(size=(2000, 6))
    for w, lazy_w in ((weights[0], weights[0]), (weights, weights)):
        expected = sw.evaluate(probs, y, weights=w, **QUICK)
        moved = lazy(probs, (700, 1300)).transpose(1, 0, 2)
        evaluation = sw.evaluate(moved, y, weights=lazy_w, member_axis=0, **QUICK)
        assert_same_evaluation(expected, evaluation)


def copied(probs):
    return probs[:, :1].repeat(6, axis=1)


def fully_grown(probs):
    return np.eye(3)[probs.argmax(axis=-1)]


def logits(probs):
    return np.log(probs).astype(np.float16)


@pytest.mark.parametrize(
    ("change", "options", "note"),
    [
        (copied, {}, "6 members predict the same"),
        (fully_grown, {}, "a probability of 0 or 1"),
        (lambda probs: probs[:, :1], {}, "a single member"),
        (logits, {"from_logits": True}, ""),
        (lambda probs: 3 * probs, {"normalize": True}, ""),
    ],
)
def test_members_have_the_notes_and_numbers_of_memory(change, options, note):
    probs, y = members(2000, seed=3)
    probs, options = change(probs), options | QUICK
    expected = sw.evaluate(probs, y, **options)
    assert_same_evaluation(expected, sw.evaluate(lazy(probs, (700, 1300)), y, **options))
    assert note in "\n".join(map(str, expected.notes))


def test_advice_is_tested_on_dask_arrays():
    probs, y = members(2000, seed=3)
    assert (
        sw.advise("selective", "log", lazy(probs, (700, 1300)), y).evidence
        == sw.advise("selective", "log", probs, y).evidence
    )


def test_samples_of_a_dask_array_are_evaluated_in_blocks():
    probs, y = members(2000, seed=3)
    expected = sw.evaluate(probs, y, class_names=NAMES, labels_are="indices", **QUICK)
    samples = sw.Samples(lazy(probs, (700, 1300)), class_names=NAMES)
    assert_same_evaluation(expected, sw.evaluate(samples, y, labels_are="indices", **QUICK))


def test_a_comparison_has_the_numbers_of_memory():
    options = {"task_loss": "brier", "rules": ["log", "zero-one"], "components": "total"}
    own = np.random.default_rng(0).uniform(size=N) + (PROBS.max(axis=(1, 2)) < 0.8)
    expected = sw.compare(PROBS, Y, scores={"own": own}, **options, **QUICK)
    comparison = sw.compare(lazy(PROBS), Y, scores={"own": lazy(own)}, **options, **QUICK)
    assert_same(expected.to_dict(), comparison.to_dict(), rel=1e-9)
    assert str(comparison) == str(expected)
    assert_same(
        asdict(replace(expected.calibration, p_value=0)),
        asdict(replace(comparison.calibration, p_value=0)),
        rel=1e-9,
    )


def test_a_comparison_for_ood_detection_has_the_numbers_of_memory():
    own = [np.arange(N) % 7.0, np.arange(3000) % 9.0]
    options = {"task": "ood", "rules": ["log", "spherical"], **QUICK}
    expected = sw.compare(PROBS, ood=OOD, scores={"own": own}, **options)
    comparison = sw.compare(lazy(PROBS), ood=lazy(OOD, (2999, 1)), scores={"own": own}, **options)
    assert_same(expected.to_dict(), comparison.to_dict(), rel=1e-9)
    assert comparison.error_bound == 0


@pytest.mark.parametrize("chunks", [(N,), (1, N - 1), (10_000, 10_000)])
def test_the_blocks_have_no_influence_where_scores_share_bins(chunks):
    options = {"rules": ["log"], "baselines": False, "n_bins": 64, **QUICK}
    expected = scale.compare(lazy(PROBS), Y, **options)
    comparison = scale.compare(lazy(PROBS, chunks), Y, **options)
    assert_same(expected.to_dict(), comparison.to_dict(), rel=1e-9)


def test_metrics_of_memory_are_within_the_stated_errors_where_scores_share_bins():
    options = {"n_bins": 64, "max_certification_rows": 2000, **QUICK}
    expected = sw.evaluate(PROBS, Y, ood=OOD, **QUICK)
    evaluation = scale.evaluate(lazy(PROBS), Y, ood=lazy(OOD, (1500, 1500)), **options)
    for name, curve in evaluation.curves.items():
        assert (curve.aulc_error > 0) == (name != "variation ratio")  # which has few values
        for area in ("aulc", "augrc"):
            error = abs(getattr(curve, area) - getattr(expected.curves[name], area))
            assert error <= getattr(curve, f"{area}_error") + 1e-12
    for mine, others in (
        (evaluation.comparison, expected.comparison),
        (evaluation.ood.comparison, expected.ood.comparison),
    ):
        assert mine.error_bound > 0
        for row in mine.standings:
            assert abs(row.value - others[row.name].value) <= mine.error_bound
    metrics, exact = evaluation.ood.metrics, expected.ood.metrics
    assert metrics.error_bounds.keys() == {"auroc", "aupr_out", "aupr_in", "fpr95"}
    for name, bound in metrics.error_bounds.items():
        assert abs(getattr(metrics, name) - getattr(exact, name)) <= bound
        low, high = metrics.intervals[name]
        assert low <= getattr(metrics, name) <= high
    assert (metrics.n_in, metrics.n_out) == (N, 3000)
    assert evaluation.calibration.incurred == pytest.approx(expected.calibration.incurred)
    assert evaluation.calibration.expected == pytest.approx(expected.calibration.expected)


def test_intervals_of_memory_are_met_closely_where_few_scores_share_bins():
    expected = sw.compare(PROBS, Y, **QUICK)
    comparison = scale.compare(lazy(PROBS), Y, n_bins=4096, **QUICK)
    for row in comparison.standings:
        exact = expected[row.name]
        assert row.verdict == exact.verdict
        assert row.standard_error == pytest.approx(exact.standard_error, rel=1e-2, abs=1e-6)
        assert row.high == pytest.approx(exact.high, rel=1e-2, abs=1e-6)


def test_each_block_is_read_once():
    n_reads = []

    def read(block):
        n_reads.append(len(block))
        return block

    rows = da.from_delayed(dask.delayed(read)(PROBS[:50]), (50, 6, 3), float)
    rows = da.concatenate([rows, da.from_delayed(dask.delayed(read)(OOD), OOD.shape, float)])
    sw.evaluate(rows, np.arange(3050) % 3, **QUICK)
    assert sorted(n_reads) == [50, 3000]


def test_notes_and_page_state_what_is_from_groups_or_from_a_sample(tmp_path):
    options = {"n_bins": 64, "max_certification_rows": 2000, "max_loss": 0.25, **QUICK}
    evaluation = scale.evaluate(lazy(PROBS), Y, ood=lazy(OOD, (3000,)), **options)
    notes = "\n".join(map(str, evaluation.notes))
    assert "count as tied, in up to 63 groups; each AULC is within" in notes
    assert "each AUROC is within" in notes
    bounds = evaluation.ood.metrics.error_bounds
    assert f"AUPR-out is within {bounds['aupr_out']:.2g} of that of the rows" in notes
    assert f"AUPR-in within {bounds['aupr_in']:.2g} and FPR95 within {bounds['fpr95']:.2g}" in notes
    assert "Certificates are from a uniform random sample of 2,000 of 20,000 rows" in notes
    assert "Calibration was tested at the ends of" in notes
    assert {c.n_calibration for c in evaluation.certificates} == {2000}
    assert len(evaluation.uncertainty.total) == len(evaluation.ood.u_in) == 2000
    sw.write_report(evaluation, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "Certificates are from a uniform random sample" in page
    assert "in-distribution rows (20,000)" in page
    assert sw.plots.save_figures(evaluation, tmp_path, formats="png")


def test_intervals_from_resampled_groups_are_those_from_resampled_rows(evaluations):
    expected, _ = evaluations
    evaluation = scale.evaluate(
        lazy(PROBS),
        Y,
        ood=lazy(OOD, (3000,)),
        max_certification_rows=100,
        **QUICK | {"n_resamples": 1000},
    )
    mine, others = evaluation.ood.metrics.intervals, expected.ood.metrics.intervals
    assert evaluation.ood.metrics.error_bounds == {}
    assert mine["auroc"] == pytest.approx(others["auroc"], rel=1e-9)
    for name in ("aupr_out", "aupr_in", "fpr95"):
        value, width = getattr(expected.ood.metrics, name), np.ptp(others[name])
        assert getattr(evaluation.ood.metrics, name) == value
        assert mine[name] == pytest.approx(others[name], abs=0.35 * width)


class Dependencies(Callback):
    """The largest number of results that a task receives, in all graphs that are computed."""

    def __init__(self):
        super().__init__()
        self.most = 0

    def _start(self, dsk):
        from dask._task_spec import convert_legacy_graph

        graph = convert_legacy_graph(dsk)
        self.most = max([self.most, *(len(task.dependencies) for task in graph.values())])


@pytest.mark.parametrize("n_blocks", [10, 50])
def test_no_task_receives_more_results_than_are_merged_at_a_time(n_blocks):
    chunks = (2000 // n_blocks,) * n_blocks
    probs, y = members(2000)
    with Dependencies() as dependencies:
        scale.evaluate(lazy(probs, chunks), y, rules=["log"], split_every=4, **QUICK)
    n_measures = 6  # all of which the task that looks up influences receives once
    assert dependencies.most <= n_measures


@pytest.fixture(scope="module")
def client():
    """Two workers in processes, not for the tests that do not ask for them."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


def test_workers_of_a_cluster_return_the_same(evaluations, client):
    _, expected = evaluations
    with client.as_current():
        evaluation = sw.evaluate(lazy(PROBS), Y, ood=lazy(OOD, (1, 1999, 1000)), **QUICK)
        with pytest.raises(sw.InvalidInput, match=r"log loss of row 1500 is infinite"):
            sw.evaluate(lazy(*certain()), np.zeros(2000, int), task_loss="log", **QUICK)
    assert str(evaluation) == str(expected)
    assert_same(expected.to_dict(), evaluation.to_dict(), rel=1e-9)


def test_a_worker_that_is_killed_changes_nothing(client, tmp_path):
    probs, y = members(2000, seed=7)
    killed = tmp_path / "killed"

    def read(rows, kill):
        if kill and not killed.exists():
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return probs[rows]

    parts = [(slice(0, 1200), False), (slice(1200, 1900), True), (slice(1900, 2000), False)]
    blocks = da.concatenate(
        [
            da.from_delayed(dask.delayed(read)(rows, kill), probs[rows].shape, float)
            for rows, kill in parts
        ]
    )
    with client.as_current():
        evaluation = sw.evaluate(blocks, y, **QUICK)
    assert killed.exists()
    assert_same_evaluation(sw.evaluate(probs, y, **QUICK), evaluation)


def killed(block):
    """A block whose worker runs out of memory."""
    os.kill(os.getpid(), signal.SIGKILL)


def test_workers_that_are_killed_again_and_again_are_an_error():
    never = da.map_blocks(killed, lazy(PROBS), dtype=float, meta=np.empty((0, 0, 0)))
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        local_cluster(1) as client,
        client.as_current(),
        pytest.raises(sw.ScorewiseError, match=r"died, the last at .*out of memory"),
    ):
        sw.evaluate(never, Y, **QUICK)


def waiting(block, folder):
    """A block that waits until there is a file ``go``."""
    (folder / "held").write_text(str(os.getpid()))
    wait_until((folder / "go").exists)
    return block


def test_a_lost_scheduler_is_an_error(tmp_path):
    file = tmp_path / "scheduler.json"
    options = ["--scheduler-file", str(file), "--host", "127.0.0.1", "--port", "0"]
    with (
        process("-m", "distributed.cli.dask_scheduler", *options, "--no-dashboard") as scheduler,
        dask.config.set({"distributed.comm.timeouts.connect": "2s"}),
        ThreadPoolExecutor(1) as threads,
    ):
        wait_until(lambda: file.exists() and bool(file.read_text()))
        address = json.loads(file.read_text())["address"]
        options = [address, "--nthreads", "1", "--no-nanny", "--no-dashboard"]
        with process("-m", "distributed.cli.dask_worker", *options), Client(address) as client:
            client.wait_for_workers(1)
            held = da.map_blocks(
                waiting, lazy(PROBS), tmp_path, dtype=float, meta=np.empty((0, 0, 0))
            )

            def evaluate():
                with client.as_current():
                    return sw.evaluate(held, Y, **QUICK)

            run = threads.submit(evaluate)
            wait_until(lambda: (tmp_path / "held").exists() or run.done())
            scheduler.kill()
            with pytest.raises(sw.ScorewiseError, match=r"scheduler was lost.*repeat the command"):
                run.result()


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Labelled rows and out-of-distribution rows, in folders of Parquet files."""
    pytest.importorskip("pyarrow")
    root = tmp_path_factory.mktemp("folders")
    for name, probs, cuts in (("in", PROBS[:5000], [1700, 1701]), ("out", OOD, [1000])):
        (root / name).mkdir()
        parts = np.split(np.arange(len(probs)), cuts)
        for i, rows in enumerate(parts):
            labels = {"labels": Y[rows], "ids": rows + 10**6} if name == "in" else {}
            path = root / name / f"part-{i}.parquet"
            sw.write_predictions(path, probs[rows], class_names=NAMES, **labels)
    return root / "in", root / "out"


def test_folders_have_the_numbers_of_memory(folders, client):
    rows, ood = folders
    in_memory = [sw.read_predictions(path) for path in folders]
    expected = sw.evaluate(in_memory[0], ood=in_memory[1], **QUICK)
    evaluation = scale.evaluate_dataset(rows, ood=ood, scheduler=client, **QUICK)
    assert_same_evaluation(expected, evaluation)
    assert evaluation.uncertain_rows[0].id >= 10**6
    for options, first, second in (
        ({"task": "ood"}, {"ood": in_memory[1]}, {"ood": ood}),
        ({"task_loss": "brier", "components": "total"}, {}, {}),
    ):
        expected_comparison = sw.compare(in_memory[0], **first, **options, **QUICK)
        comparison = scale.compare_dataset(rows, scheduler=client, **second, **options, **QUICK)
        assert_same(expected_comparison.to_dict(), comparison.to_dict(), rel=1e-9)


def test_folders_without_labels_are_refused(folders, client):
    with pytest.raises(sw.InvalidInput, match="no labels"):
        scale.evaluate_dataset(folders[1], scheduler=client, **QUICK)
    with pytest.raises(sw.InvalidInput, match="go together"):
        scale.compare_dataset(folders[0], "ood", scheduler=client, **QUICK)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("label", r"'part-1\.parquet': row 150 .*no label"),
        ("sum", r"'part-1\.parquet': row 150 .*probs\[150, 2\] sums to"),
        ("certain", r"'part-1\.parquet': the log loss of row 150 is infinite"),
    ],
)
def test_errors_name_the_file_and_the_row(wrong, message, client, tmp_path):
    probs, y = members(500, seed=5)
    if wrong == "label":
        y[350] = -1
    elif wrong == "sum":
        probs[350, 2] *= 2
    else:
        probs[350], y[350] = [1, 0, 0], 2
    for i, rows in enumerate(np.split(np.arange(500), [200])):
        sw.write_predictions(tmp_path / f"part-{i}.parquet", probs[rows], labels=y[rows])
    with pytest.raises(sw.InvalidInput, match=message):
        scale.compare_dataset(tmp_path, task_loss="log", scheduler=client, **QUICK)


@pytest.mark.parametrize("name", ["evaluate", "compare", "certify", "calibrate", "label"])
def test_a_worker_with_another_version_is_named(name, folders, client, monkeypatch):
    monkeypatch.setattr(sw, "__version__", "0.0.1")
    options = {"certify": {"max_loss": 0.5}, "label": {"n": 3}}.get(name, {})
    with pytest.raises(sw.InvalidInput, match=r"worker tcp.* has scorewise .*process 0\.0\.1"):
        getattr(scale, f"{name}_dataset")(folders[0], scheduler=client, **options)


def test_the_commands_have_the_numbers_of_files(folders, client, tmp_path):
    address = client.scheduler.address
    rows, ood = folders
    quick = ("--resamples", "100", "--json")
    for command, more in (
        ("evaluate", ("--no-report", "--task-loss", "log", "--floor", "1e-6")),
        ("evaluate", ("--ood", ood, "--report", tmp_path / "page.html")),
        ("compare", ("--task-loss", costs_in(tmp_path))),
        ("compare", ("--task", "ood", "--ood", ood)),
    ):
        of_files = from_json(run(command, rows, *more, *quick))
        at_scale = from_json(run(command, rows, *more, *quick, "--scheduler", address))
        for part in (of_files, at_scale):
            part.pop("settings", None)
            part.get("calibration", {}).pop("p_value", None)
        assert_same(of_files, at_scale, rel=1e-9)
    assert f"{N // 4:,}" in (tmp_path / "page.html").read_text()


def costs_in(folder):
    """A file with costs, its classes in another order."""
    path = folder / "costs.csv"
    path.write_text(",dismiss,treat\nill,50,0\nwell,0,5\ndoubtful,4,3\n")
    return path


def test_inputs_and_addresses_need_what_fits_them(folders, tmp_path):
    texts = tmp_path / "texts.csv"
    texts.write_text("text\na\n")
    result = run("evaluate", folders[0], "--scheduler", "local:1", "--inputs", texts, "--no-report")
    assert result.exit_code == 2
    assert "--inputs" in result.output
    result = run("evaluate", "s3://bucket/x", "--no-report")
    assert result.exit_code == 2
    assert "--scheduler local" in result.output


def certain():
    """Members of which one row gives the first class no probability, in two blocks."""
    probs = np.full((2000, 2, 2), 0.5)
    probs[1500] = [0, 1]
    return probs, (1000, 1000)


def test_errors_name_the_row_of_the_whole_array():
    probs, y = members(2000)
    with pytest.raises(sw.InvalidInput, match=r"log loss of row 1500 is infinite"):
        sw.evaluate(lazy(*certain()), np.zeros(2000, int), task_loss="log", **QUICK)
    wrong = probs.copy()
    wrong[1700, 2] *= 2
    with pytest.raises(sw.InvalidInput, match=r"\[1700, 2\]"):
        sw.evaluate(lazy(wrong, (1000, 1000)), y, **QUICK)
    labels = y.copy()
    labels[1999] = 7
    with pytest.raises(sw.InvalidInput, match=r"labels\[1999\]"):
        sw.evaluate(lazy(probs, (1000, 1000)), labels, **QUICK)


def test_arguments_that_do_not_fit_are_refused_before_anything_is_computed():
    def fail(block):
        raise AssertionError("a block was read")

    never = da.map_blocks(fail, lazy(PROBS), dtype=float, meta=np.empty((0, 0, 0)))
    with pytest.raises(sw.InvalidInput, match="labels"):
        sw.evaluate(never, **QUICK)
    with pytest.raises(sw.InvalidInput, match="labels"):
        sw.compare(never, **QUICK)
    with pytest.raises(sw.InvalidInput, match="19999"):
        sw.evaluate(never, Y[1:], **QUICK)
    with pytest.raises(sw.InvalidInput, match="must be a Dask array"):
        sw.evaluate(never, Y, ood=OOD, **QUICK)
    with pytest.raises(sw.InvalidInput, match="out-of-distribution ones"):
        sw.evaluate(never, Y, ood=lazy(OOD[:, :4], (3000,)), **QUICK)
    with pytest.raises(sw.InvalidInput, match="repeated runs"):
        sw.compare(never, task="active", **QUICK)
    with pytest.raises(sw.InvalidInput, match="does not use ood"):
        sw.compare(never, Y, ood=never, **QUICK)
    with pytest.raises(sw.InvalidInput, match="nothing to compare"):
        sw.compare(never, task="ood", ood=never, rules=[], baselines=False, **QUICK)
    with pytest.raises(sw.InvalidInput, match="must be a pair"):
        sw.compare(never, task="ood", ood=never, scores={"own": Y}, **QUICK)
    with pytest.raises(sw.InvalidInput, match="names of your own"):
        sw.compare(never, Y, rules={"zero-one": "log"}, **QUICK)
    with pytest.raises(sw.InvalidInput, match="has no rows"):
        sw.evaluate(lazy(PROBS)[:0], Y[:0], **QUICK)
    with pytest.raises(sw.InvalidInput, match="n_bins"):
        scale.evaluate(never, Y, n_bins=1)
    with pytest.raises(sw.InvalidInput, match="another measure"), dask.config.set(scheduler="sync"):
        sw.compare(lazy(PROBS), Y, scores={"total log": Y}, **QUICK)


def test_blocks_may_have_no_rows_and_must_have_known_sizes():
    probs, y = members(3000)
    expected = sw.evaluate(probs, y, **QUICK)
    gaps = da.concatenate(
        [lazy(probs[:1000], (1000,)), lazy(probs[:0], (0,)), lazy(probs[1000:], (2000,))]
    )
    assert_same_evaluation(expected, sw.evaluate(gaps, y, **QUICK))
    unknown = lazy(probs, (1000, 2000))[lazy(np.ones(3000, bool), (1000, 2000))]
    with pytest.raises(sw.InvalidInput, match=r"unknown chunk sizes.*compute_chunk_sizes\(\)"):
        sw.evaluate(unknown, y, **QUICK)
    assert_same_evaluation(expected, sw.evaluate(unknown.compute_chunk_sizes(), y, **QUICK))


def test_a_file_of_several_row_groups_is_evaluated(tmp_path):
    probs, y = members(60)
    columns = {"probs": probs.tolist(), "labels": y, "ids": [f"r{i}" for i in range(60)]}
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table(columns), tmp_path / "in/a.parquet", row_group_size=25)
    with Client(processes=False, dashboard_address=":0") as client:
        evaluation = scale.evaluate_dataset(tmp_path / "in", scheduler=client, **QUICK)
    assert_same_evaluation(sw.evaluate(probs, y, ids=columns["ids"], **QUICK), evaluation)
