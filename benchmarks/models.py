"""How fast is `predict_samples`? Ratios to what people write instead, measured in one run.

    python benchmarks/models.py [--quick] [--write]

Forests, dropout and Laplace in the head, stacked ensembles, and the memory that 20 GB of
predictions take when they are decomposed on the way. Networks run on CUDA where there is one.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.progress import track
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from torch import Tensor, nn

import memory
import scorewise as sw
from measuring import Others, Sheet, Work, fastest, machine, options, write_between
from scorewise.models.torch._deep_ensembles import StackedModules, is_worth_stacking

N_DRAWS = 20
HEAD_AT_LEAST = 15  # times faster than 20 passes, where only the head differs between draws
MEMORY_AT_MOST = 2e9  # bytes
NETWORK_ROUNDS = 2
TOLERANCE = 1.1  # the way that predict_samples goes may be so much slower by chance

Cells = list[str]

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


@dataclass(frozen=True)
class Section:
    """A table, and what fills its rows; the last cell of a row says whether its target is met."""

    title: str
    headings: Sequence[str]
    n_labels: int
    measures: Sequence[Callable[[], list[Cells]]]  # each fills some rows

    def sheet(self, rows: Sequence[Cells]) -> Sheet:
        """The table, filled."""
        return Sheet(self.title, [*self.headings, "met"], rows, self.n_labels)


def verdict(is_met: bool, missed: str) -> str:
    """The last cell of a row."""
    return "yes" if is_met else f"no: {missed}"


# -- forests --------------------------------------------------------------------------------------


def forests(quick: bool) -> Section:
    """Leaf values read by threads, against the trees' own predict_proba and the forest's."""
    headings = [
        "forest",
        "rows",
        "speed-up over trees one by one",
        "on one thread",
        "time / forest.predict_proba",
        "on one thread",
    ]
    n_train, n_many = (2_000, 5_000) if quick else (20_000, 50_000)
    measures = [
        partial(measure_forest, n_trees, depth, n_train, (100, n_many))
        for n_trees, depth in ((20, 5), (100, None))
    ]
    return Section("Forests: 54 features, 7 classes", headings, 2, measures)


def measure_forest(
    n_trees: int, depth: int | None, n_train: int, n_rows: Sequence[int]
) -> list[Cells]:
    X, y = cover_types(n_train + max(n_rows))
    forest = RandomForestClassifier(n_trees, max_depth=depth, n_jobs=-1, random_state=0)
    forest.fit(X[:n_train], y[:n_train])
    deep = "full depth" if depth is None else f"depth {depth}"
    name = f"{n_trees} trees, {deep}"
    return [[name, *measure_rows(forest, X[n_train : n_train + n])] for n in n_rows]


@cache
def cover_types(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows like those of CoverType in number of features and classes."""
    X, y = make_classification(
        n, n_features=54, n_informative=12, n_classes=7, flip_y=0.05, random_state=0
    )
    return X, y


def measure_rows(forest: Any, X: np.ndarray) -> Cells:
    def one_by_one() -> np.ndarray:
        return np.stack([tree.predict_proba(X) for tree in forest.estimators_], axis=1)

    def with_threads(n: int | None, work: Work) -> None:
        sw.set_num_threads(n)
        forest.n_jobs = sw.get_num_threads()
        work()
        sw.set_num_threads(None)

    ours: Work = partial(sw.predict_samples, forest, X)
    mean: Work = partial(forest.predict_proba, X)
    np.testing.assert_allclose(sw.predict_samples(forest, X).probs, one_by_one(), rtol=1e-12)
    works = [partial(with_threads, n, work) for work in (ours, mean) for n in (None, 1)]
    many, single, forest_many, forest_single, trees = fastest(
        [*works, one_by_one], rounds=20 if len(X) <= 1_000 else 3
    )
    slower = [
        how for how, time in (("threads", many), ("one thread", single)) if time > TOLERANCE * trees
    ]
    return [
        f"{len(X):,}",
        f"{trees / many:.2f}",
        f"{trees / single:.2f}",
        f"{many / forest_many:.2f}",
        f"{single / forest_single:.2f}",
        verdict(not slower, ", ".join(slower)),
    ]


# -- networks -------------------------------------------------------------------------------------


class Residual(nn.Module):  # type: ignore[misc]
    """The basic block of a ResNet."""

    def __init__(self, n_in: int, n_out: int, stride: int) -> None:
        super().__init__()
        self.path = nn.Sequential(
            convolution(n_in, n_out, stride), nn.ReLU(), convolution(n_out, n_out, 1)
        )
        plain = n_in == n_out and stride == 1
        self.skip = nn.Identity() if plain else convolution(n_in, n_out, stride, size=1)

    def forward(self, x: Tensor) -> Tensor:
        """The input and what the block adds to it."""
        return torch.relu(self.path(x) + self.skip(x))


def convolution(n_in: int, n_out: int, stride: int, size: int = 3) -> nn.Sequential:
    """With batch normalisation."""
    layer = nn.Conv2d(n_in, n_out, size, stride, padding=size // 2, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(n_out))


def resnet(head: Sequence[nn.Module], width: int = 16) -> nn.Sequential:
    """A ResNet18 for images of 32 × 32, with a quarter of the channels."""
    widths = [width, width, 2 * width, 4 * width, 8 * width]
    blocks = []
    for i in range(4):
        blocks.append(Residual(widths[i], widths[i + 1], stride=1 if i == 0 else 2))
        blocks.append(Residual(widths[i + 1], widths[i + 1], stride=1))
    return nn.Sequential(
        convolution(3, width, 1), nn.ReLU(), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), *head
    )


def resnet_with_dropout() -> nn.Sequential:
    return resnet([nn.Dropout(0.5), nn.Linear(128, 10)])


def mlp_with_dropout() -> nn.Sequential:
    """Dropout after every hidden layer."""
    hidden = [(nn.Linear(1024, 1024), nn.ReLU(), nn.Dropout(0.2)) for _ in range(3)]
    first = (nn.Linear(784, 1024), nn.ReLU(), nn.Dropout(0.2))
    layers = [layer for group in (first, *hidden) for layer in group]
    return nn.Sequential(*layers, nn.Linear(1024, 10))


def dropouts(quick: bool) -> Section:
    """Draws against whole passes with the dropout layers in training mode."""
    headings = [
        "network",
        "dropout",
        "rows",
        "speed-up over 20 passes",
        "time / one pass",
        "at least",
    ]
    n_images, n_vectors = (192, 512) if quick else (512, 1024)
    measures = [
        partial(
            measure_dropout,
            "ResNet18, width 16",
            resnet_with_dropout,
            "last",
            (n_images, 3, 32, 32),
            HEAD_AT_LEAST,
        ),
        partial(measure_dropout, "MLP, 4 × 1,024", mlp_with_dropout, "all", (n_vectors, 784), 1),
    ]
    return Section(f"Dropout: {N_DRAWS} draws", headings, 2, measures)


def measure_dropout(
    name: str, make: Callable[[], Any], which: str, shape: tuple[int, ...], at_least: int
) -> list[Cells]:
    network, X = prepared(make), torch.randn(shape, device=DEVICE)
    rested = copy.deepcopy(network).eval()
    for part in network.modules():
        if isinstance(part, nn.Dropout):
            part.train()
    works: list[Work] = [
        partial(sw.predict_samples, network, X, N_DRAWS, 0, dropout=which),
        partial(passes, network, X, N_DRAWS),
        partial(passes, rested, X, 1),
    ]
    ours, many, single = fastest(works, NETWORK_ROUNDS)
    speed_up = many / ours
    return [
        [
            name,
            which,
            f"{shape[0]:,}",
            f"{speed_up:.1f}",
            f"{ours / single:.2f}",
            f"{at_least}",
            verdict(speed_up >= (at_least if at_least > 1 else 1 / TOLERANCE), "time"),
        ]
    ]


def prepared(make: Callable[[], Any]) -> Any:
    """A network with seeded weights, in evaluation mode, on the device at hand."""
    torch.manual_seed(0)
    return make().to(DEVICE).eval()


def passes(network: Any, X: Tensor, n: int) -> Tensor:
    """What people write."""
    with torch.no_grad():
        return torch.stack([network(X).softmax(-1) for _ in range(n)], dim=1).cpu()


# -- Laplace --------------------------------------------------------------------------------------


def laplaces(quick: bool) -> Section:
    """Last-layer draws against whole passes, and against laplace-torch's own."""
    headings = [
        "network",
        "rows",
        "speed-up over 20 passes",
        "time / laplace-torch",
        "time / one pass",
        "at least",
    ]
    measures = [partial(measure_laplace, 192 if quick else 512)]
    return Section(f"Laplace in the last layer: {N_DRAWS} draws", headings, 1, measures)


def measure_laplace(n: int) -> list[Cells]:
    network = prepared(lambda: resnet([nn.Linear(128, 10)]))
    X = torch.randn((n, 3, 32, 32), device=DEVICE)
    with warnings.catch_warnings():  # its dependencies use what torch is about to drop
        warnings.simplefilter("ignore")
        laplace = sw.fit_laplace(network, X[:64].cpu(), np.arange(64) % 10, progress=False)

    def theirs() -> Tensor:
        with torch.no_grad():
            return laplace.predictive_samples(X, pred_type="nn", n_samples=N_DRAWS).cpu()

    works: list[Work] = [
        partial(sw.predict_samples, laplace, X, N_DRAWS, 0),
        partial(passes, network, X, N_DRAWS),
        theirs,
        partial(passes, network, X, 1),
    ]
    ours, many, laplace_torch, single = fastest(works, NETWORK_ROUNDS)
    return [
        [
            "ResNet18, width 16",
            f"{n:,}",
            f"{many / ours:.1f}",
            f"{ours / laplace_torch:.2f}",
            f"{ours / single:.2f}",
            f"{HEAD_AT_LEAST}",
            verdict(many / ours >= HEAD_AT_LEAST, "time"),
        ]
    ]


# -- ensembles ------------------------------------------------------------------------------------


def small_mlp() -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)
    )


def small_cnn() -> nn.Sequential:
    return nn.Sequential(
        convolution(3, 16, 1),
        nn.ReLU(),
        convolution(16, 32, 2),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, 10),
    )


def stacks(quick: bool) -> Section:
    """Members as one by vmap, against one after the other."""
    headings = [
        "members",
        "predict_samples goes",
        "M",
        "rows",
        "time stacked / one by one",
        "stacking included",
    ]
    vectors, images = (64,), (3, 32, 32)
    measures = [
        partial(measure_stack, name, make, n_members, (n, *shape))
        for name, make, shape, row_counts in (
            ("MLP, 2 × 128", small_mlp, vectors, (32, 256, 4096)),
            ("CNN, 16 and 32 channels", small_cnn, images, (32,) if quick else (32, 256)),
        )
        for n_members in (5, 20)
        for n in row_counts
    ]
    return Section(f"Stacked ensembles, on {DEVICE.type}", headings, 2, measures)


def measure_stack(
    name: str, make: Callable[[], Any], n_members: int, shape: tuple[int, ...]
) -> list[Cells]:
    torch.manual_seed(0)
    members = [make().to(DEVICE).eval() for _ in range(n_members)]
    X = torch.randn(shape, device=DEVICE)
    stack = StackedModules(members)

    def stacked() -> Tensor:
        return stack(X).cpu()

    def stacked_anew() -> Tensor:
        return StackedModules(members)(X).cpu()

    def one_by_one() -> Tensor:
        return torch.cat([member(X) for member in members]).cpu()

    with torch.inference_mode():
        torch.testing.assert_close(stacked(), one_by_one(), rtol=1e-3, atol=1e-4)
        start, *_ = fastest([one_by_one], 1)
        rounds = int(np.clip(0.5 / start, 3, 200))
        together, anew, apart = fastest([stacked, stacked_anew, one_by_one], rounds)
    goes_stacked = is_worth_stacking(members, DEVICE)
    taken, other = (anew, apart) if goes_stacked else (apart, anew)
    return [
        [
            name,
            "stacked" if goes_stacked else "one by one",
            f"{n_members}",
            f"{shape[0]:,}",
            f"{together / apart:.2f}",
            f"{anew / apart:.2f}",
            verdict(taken <= TOLERANCE * other, "way"),
        ]
    ]


# -- memory ---------------------------------------------------------------------------------------


def memories(quick: bool) -> Section:
    """More predictions than fit, decomposed on the way."""
    headings = [
        "N × M × K",
        "predictions in GB",
        "most resident in GB",
        "of it before the call",
        "at most",
        "time / generating alone",
    ]
    title = "Memory: 50 generated classifiers in float32, four rules, in a process of its own"
    return Section(title, headings, 1, [partial(measure_memory, 50_000 if quick else 1_000_000)])


def measure_memory(n: int) -> list[Cells]:
    footprint = memory.footprint(n)
    above = (footprint.peak - MEMORY_AT_MOST) / 1e9
    is_claimed = footprint.predictions > MEMORY_AT_MOST
    return [
        [
            f"{n:,} × {memory.N_MEMBERS} × {memory.N_CLASSES}",
            f"{footprint.predictions / 1e9:.0f}",
            f"{footprint.peak / 1e9:.2f}",
            f"{footprint.start / 1e9:.2f}",
            f"{MEMORY_AT_MOST / 1e9:.0f}" if is_claimed else "none",
            f"{footprint.seconds / footprint.generating:.1f}",
            verdict(above <= 0, f"{above:.2f} GB above") if is_claimed else "not claimed",
        ]
    ]


def images(quick: bool) -> Section:
    """An image whose members' predictions do not fit, segmented in tiles."""
    headings = [
        "image × M × K",
        "predictions in GB",
        "most resident in GB",
        "of it before the call",
        "at most",
    ]
    title = "Memory: an image in tiles, four rules and losses, in a process of its own"
    return Section(title, headings, 1, [partial(measure_image, 256 if quick else 2048)])


def measure_image(side: int) -> list[Cells]:
    footprint = memory.image_footprint(side)
    above = (footprint.peak - MEMORY_AT_MOST) / 1e9
    is_claimed = footprint.predictions > MEMORY_AT_MOST
    return [
        [
            f"{side}² × {memory.N_DRAWS} × {memory.N_PIXEL_CLASSES}",
            f"{footprint.predictions / 1e9:.1f}",
            f"{footprint.peak / 1e9:.2f}",
            f"{footprint.start / 1e9:.2f}",
            f"{MEMORY_AT_MOST / 1e9:.0f}" if is_claimed else "none",
            verdict(above <= 0, f"{above:.2f} GB above") if is_claimed else "not claimed",
        ]
    ]


# -- all ------------------------------------------------------------------------------------------


def summary(rows: Sequence[Cells]) -> str:
    """What was measured where, and how many rows met their targets."""
    where = machine()
    if DEVICE.type == "cuda":
        where += f" and {torch.cuda.get_device_name(DEVICE)}"
    judged = [row[-1] for row in rows if row[-1] != "not claimed"]
    return (
        f"Measured on {where}. Of {len(judged)} rows with a target, {judged.count('yes')} meet it."
    )


def main() -> None:
    chosen = options(__doc__)
    sections = [
        make(chosen.quick) for make in (memories, images, forests, dropouts, laplaces, stacks)
    ]
    plan = [(section, measure) for section in sections for measure in section.measures]
    rows: dict[str, list[Cells]] = {section.title: [] for section in sections}
    others = Others()
    for section, measure in track(plan, description="Asking models"):
        rows[section.title] += measure()
    text = f"{summary([row for part in rows.values() for row in part])} {others}"
    sheets = [section.sheet(rows[section.title]) for section in sections]
    console = Console(width=128)
    for sheet in sheets:
        console.print(sheet.rich())
    console.print(text)
    if chosen.write:
        write_between("models", "\n\n".join([text, *(sheet.markdown() for sheet in sheets)]))


if __name__ == "__main__":
    main()
