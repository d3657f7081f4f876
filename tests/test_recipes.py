"""The recipes of CONTRIBUTING, performed in a copy of the package and used through the public API.

Each recipe touches the files that it names and no others.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

import scorewise

PACKAGE = Path(scorewise.__file__).parent


class Copy:
    """A copy of the package that a recipe may change."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(PACKAGE, folder / "scorewise")  # also what Python has compiled of it

    def add(self, path: str, text: str) -> None:
        """Write a new file."""
        file = self.folder / "scorewise" / path
        assert not file.exists()
        file.parent.mkdir(exist_ok=True)
        file.write_text(dedent(text))

    def append(self, path: str, text: str) -> None:
        """Add lines to the end of a file."""
        with (self.folder / "scorewise" / path).open("a") as file:
            file.write(dedent(text))

    def run(self, code: str) -> str:
        """What a program prints that imports the copy."""
        environment = {**os.environ, "PYTHONPATH": str(self.folder), "MPLBACKEND": "Agg"}
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", dedent(code)],
            capture_output=True,
            text=True,
            check=False,
            cwd=self.folder,
            env=environment,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return Copy(tmp_path)


def test_a_rule_is_lines_in_the_file_of_its_structure_and_a_line_that_exports_it(copy: Copy):
    copy.append(
        "rules/_separable.py",
        '''
        @final
        @dataclass(frozen=True, eq=False, repr=False)
        class Exponential(ScoringRule):
            """H(p) = Σ_k (1 − exp(p_k)) + e − 1."""

            family = "exponential"
            is_symmetric = True

            def _largest_loss(self, corners: np.ndarray) -> float:
                return self._largest_at(corners)  # losses are convex in p

            def _losses(self, xp: Namespace, p: Array) -> Array:
                others = xp.sum((p - 1) * xp.exp(p) + 1, axis=-1, keepdims=True)
                return xp.maximum(others - xp.exp(p) + (np.e - 1), 0.0)

            def _entropy(self, xp: Namespace, p: Array) -> Array:
                return xp.maximum(xp.sum(1 - xp.exp(p), axis=-1) + (np.e - 1), 0.0)

            def _divergence(self, xp: Namespace, q: Array, p: Array, d: Array) -> Array:
                series = d * d * (1 / 2 + d * (1 / 6 + d * (1 / 24 + d * (1 / 120 + d / 720))))
                excess = xp.where(xp.abs(d) < 0.01, series, xp.exp(d) - 1 - d)
                return xp.sum(xp.exp(q) * excess, axis=-1)


        exponential = register(Exponential())
        ''',
    )
    copy.append(
        "rules/__init__.py",
        """
        from scorewise.rules._separable import exponential as exponential
        """,
    )
    output = copy.run(
        """
        import numpy as np
        import scorewise as sw
        from scorewise.cli import app
        from scorewise.plots import RejectionCurveDisplay, DecompositionDisplay
        from typer.testing import CliRunner

        rule = sw.get_rule("exponential")
        assert rule is sw.rules.exponential
        sw.check_rule(rule, n_classes=4)
        rng = np.random.default_rng(0)
        probs = rng.dirichlet(np.full(3, 0.3), size=(600, 1)).repeat(5, axis=1)
        labels = np.array([rng.choice(3, p=p) for p in probs[:, 0]])
        policy = sw.certify(probs, labels, max_loss=0.8, task_loss="exponential")
        policy.save("policy.json")
        again = sw.load_policy("policy.json")
        assert (again.apply(probs).accepted == policy.apply(probs).accepted).all()
        print("certified", policy.certificate.coverage > 0)

        DecompositionDisplay.from_predictions(probs, rule).plot()
        losses = sw.task_losses(probs, labels, rule)
        assert losses.max() <= rule.largest_loss(3) <= np.e
        total = sw.decompose(probs, rule).total
        RejectionCurveDisplay.from_uncertainty(losses, total, rule.unit).plot()
        print("drawn")

        sw.write_predictions("test.npz", probs, labels=labels)
        result = CliRunner().invoke(
            app, ["evaluate", "test.npz", "--task-loss", "exponential", "--no-report",
                  "--resamples", "100"],
        )
        assert result.exit_code == 0, result.output
        print(result.output)
        """
    )
    assert "certified True" in output
    assert "drawn" in output
    assert "exponential loss" in output


@pytest.mark.parametrize("folder", ["models/sklearn", "models/neighbors"])
def test_a_model_is_one_file_also_in_a_new_folder(copy: Copy, folder):
    copy.add(
        f"{folder}/_adapter_neighbors.py",
        '''
        """Nearest neighbours: each neighbour is a member that votes for its own label."""

        from functools import partial

        import numpy as np

        from scorewise.models._adapters import Adapter, instance_of
        from scorewise.models._samplers import member_sampler


        def _sample(model, options):
            from scorewise.models.sklearn._ensembles import check_fitted

            check_fitted(model, type(model).__name__)
            one_hot = np.eye(len(model.classes_))

            def vote(neighbour, X):
                nearest = model.kneighbors(X, return_distance=False)[:, neighbour]
                return one_hot[model._y[nearest]]

            votes = [partial(vote, neighbour) for neighbour in range(model.n_neighbors)]
            return member_sampler(votes, model.classes_, options)


        ADAPTERS = (
            Adapter(
                matches=instance_of("sklearn.neighbors.KNeighborsClassifier"),
                sampler=_sample,
                describe=lambda model: "the neighbours, each with its own label",
            ),
        )
        ''',
    )
    output = copy.run(
        """
        import warnings

        import numpy as np
        import scorewise as sw
        from scorewise.errors import ScorewiseWarning
        from sklearn.calibration import CalibratedClassifierCV
        from sklearn.datasets import load_iris
        from sklearn.neighbors import KNeighborsClassifier
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        warnings.simplefilter("ignore", ScorewiseWarning)  # votes are 0 or 1
        X, y = load_iris(return_X_y=True)
        model = KNeighborsClassifier(7).fit(X, y)
        samples = sw.predict_samples(model, X)
        np.testing.assert_allclose(samples.mean, model.predict_proba(X), atol=1e-12)
        print("alone", samples.probs.shape)

        pipeline = make_pipeline(StandardScaler(), KNeighborsClassifier(7)).fit(X, y)
        print(sw.explain_model(pipeline))
        samples = sw.predict_samples(pipeline, X)
        np.testing.assert_allclose(samples.mean, pipeline.predict_proba(X), atol=1e-12)
        print("in a pipeline", samples.probs.shape)

        calibrated = CalibratedClassifierCV(pipeline, cv=3).fit(X, y)
        print("calibrated", sw.predict_samples(calibrated, X).probs.shape)

        selective = sw.SelectiveClassifier(pipeline, max_loss=0.2, random_state=0).fit(X, y)
        print("selective", selective.accepts(X).mean() > 0)
        """
    )
    assert "alone (150, 7, 3)" in output
    assert "has 7 members: the neighbours, each with its own label" in output
    assert "in a pipeline (150, 7, 3)" in output
    assert "calibrated (150, 21, 3)" in output
    assert "selective True" in output


def test_a_file_format_is_one_file(copy: Copy):
    copy.add(
        "io/_format_rows.py",
        '''
        """JSON lines: what holds for all rows, then one object per row."""

        import json

        import numpy as np

        from scorewise.io._formats import FileFormat
        from scorewise.io._read_options import fields_of, predictions_of


        def _read(path, options):
            first, *lines = path.read_text(encoding="utf-8").splitlines()
            header, rows = json.loads(first), [json.loads(line) for line in lines]
            names = fields_of(list(rows[0]), options)
            fields = {field: np.array([row[name] for row in rows]) for field, name in names.items()}
            for name in {"probs", "logits"} & fields.keys():
                fields[name] = fields[name].astype(header["dtype"])
            if header["weights"] is not None:
                fields["weights"] = np.array(header["weights"])
            if header["class_names"] is not None:
                fields["class_names"] = header["class_names"]
            return predictions_of(fields, options)


        def _write(predictions, path):
            weights = predictions.member_weights
            header = {
                "dtype": str(predictions.dtype),
                "class_names": predictions.class_names,
                "weights": None if weights is None else weights.tolist(),
            }
            with path.open("w", encoding="utf-8") as file:
                file.write(json.dumps(header) + "\\n")
                for part in predictions.chunks():
                    columns = {name: getattr(part, name).tolist() for name in sorted(part.fields)}
                    for values in zip(*columns.values(), strict=True):
                        file.write(json.dumps(dict(zip(columns, values, strict=True))) + "\\n")


        FORMATS = (FileFormat((".rows",), _read, _write),)
        ''',
    )
    output = copy.run(
        """
        import numpy as np
        import scorewise as sw
        from scorewise.cli import app
        from typer.testing import CliRunner

        rng = np.random.default_rng(0)
        probs = rng.dirichlet(np.ones(3), size=(20, 4)).astype(np.float32)
        fields = {
            "probs": probs,
            "logits": np.log(probs),
            "labels": np.arange(20) % 3,
            "ids": np.array([f"row {i}" for i in range(20)]),
        }
        names = ("cat", "dog", "owl")
        for weights in (rng.uniform(size=4), rng.uniform(size=(20, 4))):
            sw.write_predictions("a.rows", **fields, class_names=names, weights=weights)
            read = sw.read_predictions("a.rows")
            assert read.class_names == names
            for name, values in {**fields, "weights": weights}.items():
                np.testing.assert_array_equal(getattr(read, name), values)
            assert read.probs.dtype == read.logits.dtype == np.float32
        sw.write_predictions("b.rows", probs)
        read = sw.read_predictions("b.rows", class_names=names)
        assert (read.fields, read.class_names) == ({"probs"}, names)
        np.testing.assert_array_equal(
            sw.read_predictions("b.rows", member_axis=2).probs, probs.swapaxes(1, 2)
        )
        result = CliRunner().invoke(app, ["score", "a.rows", "--out", "scores.csv"])
        assert result.exit_code == 0, result.output
        print(result.output)
        """
    )
    assert "20 rows" in output


def test_a_labelling_tool_is_one_file(copy: Copy):
    copy.add(
        "acquire/_tool_lines.py",
        '''
        """Lines of text, each with the label that annotators correct."""

        from scorewise.acquire._label_tasks import LabelTool


        def _write(tasks, path):
            lines = (f"{task.label}?\\t{task.data}\\n" for task in tasks.tasks)
            path.write_text("".join(lines), encoding="utf-8")


        TOOL = LabelTool("lines", ".tsv", _write)
        ''',
    )
    output = copy.run(
        """
        import numpy as np
        import scorewise as sw
        from scorewise.acquire import label_tools
        from scorewise.cli import app
        from typer.testing import CliRunner

        assert "lines" in label_tools()
        probs = np.random.default_rng(0).dirichlet(np.ones(2), size=(20, 4))
        texts = np.array([f"text {i}" for i in range(20)])
        np.savez("pool.npz", probs=probs, text=texts, class_names=np.array(["no", "yes"]))
        arguments = ["label", "pool.npz", "-n", "3", "--format", "lines", "--data-column", "text"]
        result = CliRunner().invoke(app, [*arguments, "--out", "next.tsv"])
        assert result.exit_code == 0, result.output
        rows = sw.acquire(sw.decompose(probs, "zero-one").epistemic, 3)
        labels = [["no", "yes"][k] for k in probs[rows].mean(axis=1).argmax(axis=-1)]
        lines = [f"{label}?\\ttext {row}" for label, row in zip(labels, rows, strict=True)]
        assert open("next.tsv").read().splitlines() == lines
        print("written")
        """
    )
    assert "written" in output


def test_a_command_is_one_file(copy: Copy):
    copy.add(
        "cli/count.py",
        '''
        """scorewise count: how many rows a file has."""

        from scorewise.cli._app import AsJson, Debug, PredictionsFile, command
        from scorewise.cli._screen import print_json, print_text
        from scorewise.io import read_predictions


        @command("scorewise count test.npz")
        def count(file: PredictionsFile, as_json: AsJson = False, debug: Debug = False) -> None:
            """Print the number of rows."""
            n_rows = len(read_predictions(file))
            if as_json:
                print_json({"n_rows": n_rows})
            else:
                print_text(f"{n_rows} rows")
        ''',
    )
    output = copy.run(
        """
        import numpy as np
        import scorewise as sw
        from scorewise.cli import app
        from typer.testing import CliRunner

        sw.write_predictions("a.npz", np.full((20, 4, 2), 0.5))
        for arguments in (["--help"], ["count", "--help"], ["count", "a.npz"],
                          ["count", "a.npz", "--json"]):
            result = CliRunner().invoke(app, arguments)
            assert result.exit_code == 0, result.output
            print(result.output)
        missing = CliRunner().invoke(app, ["count", "b.npz"])
        assert missing.exit_code == 2
        """
    )
    assert "count" in output.split("Examples")[0]
    assert "scorewise count test.npz" in output
    assert "20 rows" in output
    assert '"n_rows": 20' in output.replace('":20', '": 20')


def test_a_kernel_is_one_file(copy: Copy):
    copy.add(
        "kernels/brier.py",
        '''
        """The Brier rule in float64, for small arrays of NumPy."""

        import numpy as np

        from scorewise.kernels import Usability
        from scorewise.rules import Brier


        def is_usable(predictions, weights):
            values = predictions.values
            small = values.size < 999 and str(values.dtype) == "float64"
            fits = isinstance(values, np.ndarray) and small
            plain = not predictions.from_logits and not predictions.normalize and weights is None
            return Usability(fits and plain, "it is for small arrays")


        def supports(rule, extras):
            return isinstance(rule, Brier) and not extras


        def compute(predictions, weights, rules, extras):
            theta = predictions.values
            sums = theta.sum(axis=-1)
            if not (np.abs(sums - 1) <= 1e-6).all() or not (theta >= 0).all():
                return None
            mean = theta[..., :1, :] + (theta - theta[..., :1, :]).mean(axis=-2, keepdims=True)
            epistemic = ((theta - mean) ** 2).sum(axis=-1).mean(axis=-1)
            aleatoric = (theta * (sums[..., None] - theta)).sum(axis=-1).mean(axis=-1)
            return [aleatoric + epistemic, aleatoric, epistemic] * len(rules)
        ''',
    )
    output = copy.run(
        """
        import numpy as np
        import scorewise as sw

        sw.check_kernel(sw.kernels.KERNELS["brier"], ["brier"])
        probs = np.random.default_rng(0).dirichlet(np.ones(3), size=(20, 4))
        print(sw.explain_kernel(probs, "brier"))
        result = sw.decompose(probs, "brier")
        expected = ((probs - probs.mean(axis=1, keepdims=True)) ** 2).sum(axis=-1).mean(axis=-1)
        np.testing.assert_allclose(result.epistemic, expected, rtol=1e-12)
        try:
            sw.decompose(2 * probs, "brier")
        except sw.InvalidInput as error:
            print(error)
        """
    )
    assert output.startswith("brier: it is for small arrays")
    assert "sums to 2, not 1" in output
