"""Torch modules that several test files share."""

from __future__ import annotations

from collections import Counter
from typing import Any

import hypothesis.strategies as st
import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import scorewise as sw


def rows(n: int, *shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, *(shape or (4,)), generator=torch.Generator().manual_seed(seed))


class Lists(TorchFunctionMode):
    """Counts tensors that become lists, which no operation shows."""

    def __init__(self, readings: Counter[str]) -> None:
        super().__init__()
        self.readings = readings

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.readings["tolist"] += function is torch.Tensor.tolist
        return function(*args, **(kwargs or {}))


class Counted(TorchDispatchMode):
    """Counts operations of torch, each of which costs time on a GPU, and views, which cost less."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: Counter[str] = Counter()
        self.views: Counter[str] = Counter()
        self.readings: Counter[str] = Counter()  # operations for whose values Python waits
        self._lists = Lists(self.readings)

    def __enter__(self):
        self._lists.__enter__()
        return super().__enter__()

    def __exit__(self, *error):
        super().__exit__(*error)
        self._lists.__exit__(*error)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = str(function).rpartition(".")[0]
        is_view = any(
            x.alias_info and not x.alias_info.is_write for x in function._schema.arguments
        )
        (self.views if is_view else self.operations)[name] += 1
        by_mask = name in {"aten.index", "aten.index_put_", "aten.index_put"} and any(
            isinstance(x, torch.Tensor) and x.dtype is torch.bool for x in args[1]
        )
        if by_mask or name in {"aten._local_scalar_dense", "aten.nonzero", "aten.equal"}:
            self.readings[name] += 1
        return function(*args, **(kwargs or {}))


ROWS = torch.randn(11, 6, generator=torch.Generator().manual_seed(0))


def samples(
    model: Any, X: Any = ROWS, n_samples: int = 6, seed: Any = 0, **options: Any
) -> np.ndarray:
    return np.asarray(sw.predict_samples(model, X, n_samples, seed, **options).probs)


def mlp(p: float = 0.5, width: int = 6) -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Dropout(p), nn.Linear(width, 3))


class Skip(nn.Module):
    """Goes around its dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.drop, self.last = nn.Linear(4, 6), nn.Dropout(0.4), nn.Linear(6, 3)

    def forward(self, x):
        h = torch.tanh(self.first(x))
        return self.last(h + self.drop(h))


class Transformer(nn.Module):
    """Rows of (4, 8), on axis 0 or on axis 1 of what its layers see."""

    def __init__(self, batch_first: bool) -> None:
        super().__init__()
        self.batch_first = batch_first
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, 0.3, batch_first=batch_first)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        h = self.layer(x if self.batch_first else x.transpose(0, 1))
        return self.head(h.mean(1 if self.batch_first else 0))


class Folded(nn.Module):
    """Treats the 5 parts of a row as rows."""

    def __init__(self) -> None:
        super().__init__()
        self.part, self.drop, self.last = nn.Linear(4, 6), nn.Dropout(0.4), nn.Linear(6, 3)

    def forward(self, x):
        h = self.drop(torch.tanh(self.part(x.flatten(0, 1))))
        return self.last(h.unflatten(0, (-1, 5)).mean(1))


class FoldedElsewhere(Folded):
    """Has the parts of all rows on the last axis."""

    def forward(self, x):
        h = torch.tanh(self.part(x.flatten(0, 1)))
        h = self.drop(h.mT.contiguous()).mT
        return self.last(h.unflatten(0, (-1, 5)).mean(1))


class Positions(nn.Module):
    """Drops some of an embedding that is the same for all rows, and some of the rows."""

    def __init__(self) -> None:
        super().__init__()
        self.where = nn.Parameter(torch.randn(5, 4))
        self.drop_where, self.drop = nn.Dropout(0.5), nn.Dropout(0.3)
        self.last = nn.Linear(4, 3)

    def forward(self, x):
        return self.last(self.drop(torch.tanh(x + self.drop_where(self.where))).mean(1))


class Shared(nn.Module):
    """One dropout layer, called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(4, 6), nn.Linear(6, 6), nn.Linear(6, 3)
        self.drop = nn.Dropout(0.4)

    def forward(self, x):
        h = self.drop(torch.tanh(self.first(x)))
        return self.last(self.drop(torch.tanh(self.second(h))))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.drop, self.rnn, self.last = nn.Dropout(0.3), nn.GRU(4, 6), nn.Linear(6, 3)

    def forward(self, x):
        return self.last(self.rnn(self.drop(x.transpose(0, 1)))[0][-1])


def convolution() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Dropout2d(0.4),
        nn.Conv2d(4, 3, 3),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.LazyLinear(3),
    )


ARCHITECTURES: dict[str, tuple[Any, tuple[int, ...]]] = {
    "mlp": (mlp, (4,)),
    "batch norm": (lambda: nn.Sequential(nn.BatchNorm1d(4), mlp()), (4,)),
    "convolution": (convolution, (2, 5, 5)),
    "skip": (Skip, (4,)),
    "transformer": (lambda: Transformer(True), (4, 8)),
    "transformer, rows on axis 1": (lambda: Transformer(False), (4, 8)),
    "folded": (Folded, (5, 4)),
    "folded elsewhere": (FoldedElsewhere, (5, 4)),
    "positions": (Positions, (5, 4)),
    "shared": (Shared, (4,)),
    "recurrent": (Recurrent, (7, 4)),
    "self-normalizing": (
        lambda: nn.Sequential(nn.Linear(4, 6), nn.SELU(), nn.AlphaDropout(0.3), nn.Linear(6, 3)),
        (4,),
    ),
}


def build(name: str, n: int = 9, seed: int = 0) -> tuple[nn.Module, torch.Tensor]:
    """A network with lively batch statistics, and rows for it."""
    make, shape = ARCHITECTURES[name]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = make()
        model(rows(4, *shape))  # materializes what is lazy
        for part in model.modules():
            if isinstance(part, nn.modules.batchnorm._BatchNorm):
                part.running_mean.normal_()
                part.running_var.uniform_(0.5, 2)
    return model, rows(n, *shape, seed=seed + 1)


architectures = st.sampled_from(sorted(ARCHITECTURES))


def state_of(model: nn.Module) -> dict[str, Any]:
    parts = list(model.named_modules())
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks")
    numpy_state = np.random.get_state()  # noqa: NPY002  (the global one, which must not move)
    return {
        "modes": {name: part.training for name, part in parts},
        "values": {name: value.clone() for name, value in model.state_dict().items()},
        "grads": {n: p.grad if p.grad is None else p.grad.clone() for n, p in parameters(model)},
        "needs grad": {name: p.requires_grad for name, p in parameters(model)},
        "hooks": {(name, kind): len(getattr(part, kind)) for name, part in parts for kind in hooks},
        "torch": torch.get_rng_state(),
        "numpy": (numpy_state[1].copy(), numpy_state[2:]),
        "grad mode": torch.is_grad_enabled(),
    }


def parameters(model: nn.Module) -> list[tuple[str, nn.Parameter]]:
    return list(model.named_parameters())


def assert_unchanged(model: nn.Module, before: dict[str, Any]) -> None:
    after = state_of(model)
    for kind in ("modes", "needs grad", "hooks", "grad mode"):
        assert after[kind] == before[kind], kind
    for kind in ("values", "grads"):
        for name, value in before[kind].items():
            now = after[kind][name]
            same = now is None if value is None else torch.equal(now, value)
            assert same, f"{kind} of {name}"
    assert torch.equal(after["torch"], before["torch"]), "torch's random state"
    np.testing.assert_array_equal(after["numpy"][0], before["numpy"][0])
    assert after["numpy"][1] == before["numpy"][1]


def sentences(n: int, lengths: Any = 7) -> dict[str, torch.Tensor]:
    ids = torch.randint(1, 50, (n, 7), generator=torch.Generator().manual_seed(1))
    mask = (torch.arange(7) < torch.as_tensor(lengths).reshape(-1, 1)).long().expand(n, 7)
    return {"input_ids": ids * mask, "attention_mask": mask.contiguous()}


class AlwaysOn(nn.Dropout):
    def forward(self, x):
        return F.dropout(x, self.p, training=True)


class TimeMajor(nn.Module):
    """Steps of a sequence one after the other, each with all rows, in one long axis."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.drop, self.b = nn.Linear(2, 8), nn.Dropout(0.5), nn.Linear(8, 3)

    def forward(self, x):
        n = len(x)
        h = self.a(x.view(n, 3, 2)).transpose(0, 1).reshape(3 * n, 8)
        return self.b(self.drop(h).relu()).reshape(3, n, 3).sum(0)


class RowMajor(TimeMajor):
    """The same steps, row after row."""

    def forward(self, x):
        n = len(x)
        return self.b(self.drop(self.a(x.view(3 * n, 2))).relu()).view(n, 3, 3).sum(1)


class Twins(nn.Module):
    """Two inputs side by side in one batch."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.drop, self.b = nn.Linear(3, 8), nn.Dropout(0.5), nn.Linear(8, 3)

    def forward(self, x):
        left, right = self.drop(self.a(torch.cat([x[:, :3], x[:, 3:]])).tanh()).chunk(2)
        return self.b(left * right)


class RecurrentCell(nn.Module):
    """One call of the same dropout layer for each step."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.drop, self.out = nn.GRUCell(1, 8), nn.Dropout(0.5), nn.Linear(8, 3)

    def forward(self, x):
        h = x.new_zeros(len(x), 8)
        for step in x.unbind(1):
            h = self.drop(self.cell(step[:, None], h))
        return self.out(h)


class Dense(nn.Module):
    """What was dropped is used together with what was not."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.drop, self.b = nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(16, 3)

    def forward(self, x):
        h = self.a(x).relu()
        return self.b(torch.cat([h, self.drop(h)], 1))


class RemembersRows(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.drop, self.b = nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 3)

    def forward(self, x):
        n = x.shape[0]
        return self.b(self.drop(self.a(x)).view(n, -1))


AWKWARD = {
    "always on": lambda: nn.Sequential(
        nn.Linear(6, 20), nn.ReLU(), AlwaysOn(0.5), nn.Linear(20, 3)
    ),
    "time first": TimeMajor,
    "row after row": RowMajor,
    "twins": Twins,
    "recurrent": RecurrentCell,
    "dense": Dense,
    "remembers rows": RemembersRows,
    "lstm": lambda: nn.Sequential(
        nn.Unflatten(1, (3, 2)),
        nn.LSTM(2, 8, batch_first=True),
        Last(),
        nn.Dropout(0.5),
        nn.Linear(8, 3),
    ),
}


class Last(nn.Module):
    def forward(self, outputs):
        return outputs[0][:, -1]
