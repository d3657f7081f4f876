"""Deep ensembles, trained: the same architecture from other random beginnings."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from numbers import Real
from os import PathLike
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from scorewise import _validate as validate
from scorewise._progress import bar
from scorewise._random import entropy_of, generator
from scorewise.errors import InvalidInput
from scorewise.models._predict import predict_mean, predict_samples
from scorewise.models.torch._answers import at_least_two
from scorewise.models.torch._networks import ask, check_rows, choose_device, preserved_randomness
from scorewise.models.torch._rows import (
    Batch,
    as_batch,
    check_labels,
    few_rows,
    inputs_and_labels,
    length,
    take,
)

StateDict = Mapping[str, Tensor]
Data = Callable[[], Iterable[tuple[Any, Any]]]  # the batches of an epoch: rows and class indices

_BAD_FILE = (OSError, EOFError, pickle.UnpicklingError, IndexError, KeyError, ValueError)
_CPU = torch.device("cpu")
_LEARNING_RATES = {"adam": 1e-3, "sgd": 0.1}


class DeepEnsemble:
    """An ensemble of networks that differ by their random beginnings and their order of batches.

    Use it where you can afford to train several networks: it is the strongest simple way to
    members that disagree where they should.

    Parameters
    ----------
    make_model : callable
        Makes a fresh ``torch.nn.Module`` that returns logits ``(n, K)``; called for each member,
        with torch's random state seeded for it, and once before to learn K.
    n_members : int
        How many; the paper uses 5.
    epochs, batch_size : int
        Passes over the data, and rows per step for arrays (a DataLoader brings its own batches).
    optimizer : "adam" or "sgd"
        Adam (with decoupled weight decay), or stochastic gradient descent with momentum 0.9.
    lr : float, optional
        Learning rate at the start, from which a cosine leads to 0; 1e-3 (Adam) or 0.1 (SGD).
    weight_decay : float
        Of all parameters.
    device : str or torch.device, optional
        CUDA where there is one unless given; there, in mixed precision.
    random_state : int, RandomState or Generator, optional
        Seed. Each member has its own, whichever members are trained before.
    warm_start : bool
        Whether ``fit`` keeps the members that are finished, as after an interruption.
    progress : bool, optional
        Show a bar; on terminals and for long work unless told.

    Attributes
    ----------
    members_ : list of torch.nn.Module
        The finished ones, on the CPU in evaluation mode; also after an interruption.
    classes_ : array (K,)
        The labels, in the order of the logits.

    Examples
    --------
    >>> import scorewise as sw, torch
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> ensemble = sw.DeepEnsemble(lambda: torch.nn.Linear(4, 3), n_members=3, random_state=0)
    >>> ensemble.fit(X, y)
    DeepEnsemble(3 members, 3 finished)
    >>> ensemble.predict_samples(X)
    Samples(3 members, 3 classes, batch (150,), float32)
    """

    members_: list[nn.Module]
    classes_: np.ndarray

    def __init__(
        self,
        make_model: Callable[[], nn.Module],
        n_members: int = 5,
        *,
        epochs: int = 20,
        batch_size: int = 128,
        optimizer: str = "adam",
        lr: float | None = None,
        weight_decay: float = 0.0,
        device: Any = None,
        random_state: Any = None,
        warm_start: bool = False,
        progress: bool | None = None,
    ) -> None:
        validate.whole(n_members, "n_members", at_least=1)
        validate.whole(epochs, "epochs", at_least=1)
        validate.whole(batch_size, "batch_size", at_least=1)
        if isinstance(make_model, nn.Module) or not callable(make_model):
            raise InvalidInput("make_model must be a function that makes a new module")
        if optimizer not in _LEARNING_RATES:
            raise InvalidInput(f"optimizer={optimizer!r} must be 'adam' or 'sgd'")
        for name, value in (("lr", lr), ("weight_decay", weight_decay)):
            if value is not None and not (isinstance(value, Real) and 0 <= value < float("inf")):
                raise InvalidInput(f"{name}={value!r} must be a number from 0 on")
        self.make_model = make_model
        self.n_members = n_members
        self.epochs = epochs
        self.batch_size = batch_size
        self.optimizer = optimizer
        self.lr = _LEARNING_RATES[optimizer] if lr is None else lr
        self.weight_decay = weight_decay
        self.device = device
        self.random_state = random_state
        self.warm_start = warm_start
        self.progress = progress

    @classmethod
    def from_state_dicts(
        cls,
        make_model: Callable[[], nn.Module],
        states: Iterable[StateDict | str | PathLike[str]],
        classes: Any = None,
        **options: Any,
    ) -> Self:
        """An ensemble of networks that were trained elsewhere.

        Parameters
        ----------
        make_model : callable
            Makes a module of the architecture.
        states : state dicts, or files that hold them
            One per member; files are read with ``weights_only=True``, so they run no code.
        classes : array (K,), optional
            The labels in the order of the logits; 0 to K - 1 unless given.
        **options
            Of the ensemble, such as ``device``.

        Raises
        ------
        InvalidInput
            If a state cannot be read or does not fit; the message names the member.
        """
        if isinstance(states, str | PathLike | Mapping):
            raise InvalidInput("pass several state dicts or files, in a list")
        states = list(states)
        if not states:
            raise InvalidInput("there are no state dicts")
        ensemble = cls(make_model, len(states), **options)
        ensemble.members_ = []
        for i, state in enumerate(states):
            with preserved_randomness(_CPU, seed=i):
                module = ensemble._make()
            try:
                if isinstance(state, str | PathLike):
                    state = torch.load(state, map_location="cpu", weights_only=True)
                module.load_state_dict(state)
            except (*_BAD_FILE, RuntimeError, TypeError, AttributeError) as error:
                raise InvalidInput(f"the state of member {i} cannot be loaded: {error}") from error
            ensemble.members_.append(module.eval())
        if classes is not None:
            ensemble.classes_ = np.asarray(classes)
        return ensemble

    def __repr__(self) -> str:
        finished = len(getattr(self, "members_", []))
        return f"DeepEnsemble({self.n_members} members, {finished} finished)"

    def fit(self, X: Any, y: Any = None) -> Self:
        """Train all members.

        Parameters
        ----------
        X : array, tensor or mapping of them (n, ...), Dataset or DataLoader
            Rows; a loader brings pairs of rows and class indices, or mappings with ``labels``.
        y : array (n,), optional
            Labels of the rows of an array.

        Raises
        ------
        InvalidInput
            If labels and logits do not fit, or a member's loss is no longer finite.
        KeyboardInterrupt
            When interrupted; ``members_`` then has the finished members, and ``warm_start=True``
            trains the others to the same result (if the loader has no generator of its own).
        """
        data, classes = self._training_data(X, y)
        if not self.warm_start:
            self.members_ = []
        fresh = list(getattr(self, "members_", []))
        known = getattr(self, "classes_", classes)
        if fresh and not np.array_equal(known, classes):
            raise InvalidInput(
                f"the finished members know the classes {known}, these are {classes}"
            )
        if not fresh or not hasattr(self, "_entropy"):
            self._entropy = entropy_of(self.random_state)
        with bar("training", (self.n_members - len(fresh)) * self.epochs, self.progress) as advance:
            for member in range(len(fresh), self.n_members):
                module = self._train(member, data, lambda: advance(1))
                if any(module is other for other in fresh):
                    raise InvalidInput("make_model must make a new module each time")
                fresh.append(module)
                self.members_, self.classes_ = fresh, classes
        return self

    def _training_data(self, X: Any, y: Any) -> tuple[Data, np.ndarray]:
        """The batches of an epoch, and the labels in the order of the logits."""
        if isinstance(X, Dataset):
            X = DataLoader(X, batch_size=self.batch_size, shuffle=True)
        if y is None:
            if not hasattr(X, "__iter__") or isinstance(X, Tensor | np.ndarray | Mapping):
                raise InvalidInput("pass labels y with X, or a DataLoader of rows and labels")
            if isinstance(X, Iterator):
                raise InvalidInput("these batches come only once, and training takes many passes")
            with preserved_randomness(_CPU):
                inputs, _ = inputs_and_labels(next(iter(X), [torch.empty(0)]))
            return lambda: map(inputs_and_labels, X), np.arange(self._count_logits(inputs))
        batch, given = as_batch(X), np.asarray(y)
        if given.ndim != 1 or len(given) != length(batch):
            raise InvalidInput(f"y has shape {given.shape} for {length(batch)} rows of X")
        classes, codes = _encode(given, self._count_logits(batch))
        labels = torch.from_numpy(codes)

        def epoch() -> Iterator[tuple[Any, Tensor]]:
            # In parts of nearly the same size: a last row alone is no batch for batch norm.
            order = torch.randperm(len(labels))
            for rows in order.tensor_split(-(-len(labels) // self.batch_size)):
                yield take(batch, rows), labels[rows]

        return epoch, classes

    def _count_logits(self, batch: Batch) -> int:
        """How many classes the modules know, from a fresh one."""
        if not length(batch):
            raise InvalidInput("there are no rows to train on")
        with preserved_randomness(_CPU, seed=0), torch.no_grad():
            module = self._make().eval()
            logits = ask(module, few_rows(batch), _CPU, "the model")
        check_rows(logits, len(logits), "the model")
        return int(at_least_two(logits).shape[-1])

    def _make(self) -> nn.Module:
        """A fresh module."""
        module = self.make_model()
        if not isinstance(module, nn.Module):
            raise InvalidInput(f"make_model returned {type(module).__name__}, not a torch module")
        return module

    def _train(self, member: int, data: Data, advance: Callable[[], None]) -> nn.Module:
        """One member, from its random beginning to its last epoch."""
        device = choose_device(self.device)
        name = f"member {member}"
        seed = int(generator(self._entropy, member).integers(2**63))
        with preserved_randomness(device, seed):
            module = self._make().to(device).train()
            optimizer = self._optimizer(module)
            schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, self.epochs)
            mixed = device.type == "cuda"
            scaler = torch.amp.GradScaler(device.type, enabled=mixed)
            for epoch in range(self.epochs):
                total: Tensor | None = None
                for inputs, labels in data():
                    with torch.autocast(device.type, enabled=mixed):
                        logits = at_least_two(ask(module, inputs, device, name))
                    labels = check_labels(labels, logits.shape[-1]).to(device)
                    loss = nn.functional.cross_entropy(logits.float(), labels)
                    optimizer.zero_grad(set_to_none=True)
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                    scaler.update()
                    total = loss.detach() + (0 if total is None else total)
                if total is None:
                    raise InvalidInput("the DataLoader brings no batch")
                schedule.step()
                if not bool(total.isfinite()):
                    raise InvalidInput(
                        f"the loss of {name} is {float(total)} in epoch {epoch}; lower lr, or look "
                        "for rows that are not finite"
                    )
                advance()
        return module.eval().to("cpu")

    def _optimizer(self, module: nn.Module) -> torch.optim.Optimizer:
        options = {"lr": self.lr, "weight_decay": self.weight_decay}
        if self.optimizer == "sgd":
            return torch.optim.SGD(module.parameters(), momentum=0.9, **options)
        return torch.optim.AdamW(module.parameters(), **options)

    def fitted_members(self) -> list[nn.Module]:
        """The finished members.

        Raises
        ------
        InvalidInput
            If there are none.
        """
        members: list[nn.Module] = getattr(self, "members_", [])
        if not members:
            raise InvalidInput("the DeepEnsemble is not fitted; call its fit first")
        return members

    def predict_samples(
        self, X: Any, n_samples: int | None = None, random_state: Any = None, **options: Any
    ) -> Any:
        """The members' probabilities; the options are those of :func:`scorewise.predict_samples`.

        Returns
        -------
        Samples
        """
        options.setdefault("device", self.device)
        return predict_samples(self, X, n_samples, random_state, **options)

    def predict_proba(self, X: Any) -> np.ndarray:
        """The mean θ̄ of the members' probabilities.

        Parameters
        ----------
        X : rows
            As for :func:`scorewise.predict_samples`.

        Returns
        -------
        array (n, K)
        """
        return predict_mean(self, X, device=self.device)

    def predict(self, X: Any) -> np.ndarray:
        """The labels of largest mean probability.

        Parameters
        ----------
        X : rows
            As for :func:`scorewise.predict_samples`.

        Returns
        -------
        array (n,)
        """
        best = self.predict_proba(X).argmax(axis=-1)
        return self.classes_[best] if hasattr(self, "classes_") else best


def _encode(y: np.ndarray, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """The labels in the order of the logits, and the index of each row's.

    Whole numbers from 0 on are indices already, even where some class has no rows.
    """
    if y.dtype.kind in "iu" and len(y) and y.min() >= 0 and y.max() < n_classes:
        return np.arange(n_classes), y.astype(np.int64)
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) != n_classes:
        raise InvalidInput(
            f"the model returns {n_classes} logits, but y has {len(classes)} classes; they must be "
            "as many, or y class indices"
        )
    return classes, codes.astype(np.int64)
