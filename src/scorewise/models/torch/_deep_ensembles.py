"""Deep ensembles: networks of one architecture, trained from different random initial weights.

:class:`DeepEnsemble` trains them; :class:`NetworksSampler` samples from any list of modules.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from numbers import Real
from os import PathLike
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn.modules.conv import _ConvNd
from torch.utils.data import DataLoader, Dataset

from scorewise import _validate as validate
from scorewise._progress import bar
from scorewise._random import generator, seed_of
from scorewise.errors import InvalidInput
from scorewise.models._predict import predict_mean, predict_samples
from scorewise.models._samplers import SamplingOptions
from scorewise.models.torch._networks import (
    OutputReader,
    call_module,
    check_rows,
    choose_device,
    evaluation_mode,
    logits_in,
    preserved_randomness,
    with_two_logits,
)
from scorewise.models.torch._row_batches import (
    Batch,
    as_batch,
    check_labels,
    count_rows,
    few_rows,
    in_host_memory,
    inputs_and_labels,
    length,
    stream,
    take,
)

StateDict = Mapping[str, Tensor]
Epoch = Callable[[], Iterable[tuple[Any, Any]]]  # its batches: rows and class indices

_BAD_FILE = (OSError, EOFError, pickle.UnpicklingError, IndexError, KeyError, ValueError)
_CPU = torch.device("cpu")
_LEARNING_RATES = {"adam": 1e-3, "sgd": 0.1}

# At least _MANY members of at most _SMALL parameters are faster on a GPU as one stacked module. On
# a CPU, and for fewer members or convolutions, one after the other is as fast or faster
# (benchmarks/models.py measures both).
_MANY, _SMALL = 10, 1 << 20


class DeepEnsemble:
    """An ensemble of networks that differ in their initial weights and in the order of batches.

    Use it where you can afford to train several networks. Their disagreement is the strongest
    simple estimate of epistemic uncertainty.

    Parameters
    ----------
    make_model : callable
        Makes a new ``torch.nn.Module`` that returns logits ``(n, K)``. Called once per member, with
        torch's random state seeded for it, and once before that to find K.
    n_members : int
        Number of members; the paper uses 5.
    epochs, batch_size : int
        Passes over the data, and rows per step for arrays (a DataLoader has its own batches).
    optimizer : "adam" or "sgd"
        Adam (with decoupled weight decay), or stochastic gradient descent with momentum 0.9.
    lr : float, optional
        Initial learning rate, which a cosine schedule takes to 0; by default 1e-3 (Adam) or 0.1
        (SGD).
    weight_decay : float
        Of all parameters.
    device : str or torch.device, optional
        By default CUDA where it is available; there, training uses mixed precision.
    random_state : int, RandomState or Generator, optional
        Seed. Each member has its own seed, independent of the other members.
    warm_start : bool
        Whether ``fit`` keeps the finished members, for example after an interruption.
    progress : bool, optional
        Whether to show a progress bar; by default on terminals and in notebooks, for long work.

    Attributes
    ----------
    members_ : list of torch.nn.Module
        The finished members, on the CPU in evaluation mode; also after an interruption.
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
        validate.choice(optimizer, "optimizer", _LEARNING_RATES)
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
        """Return an ensemble of networks that were trained elsewhere.

        Parameters
        ----------
        make_model : callable
            Makes a module of the architecture.
        states : state dicts, or files that hold them
            One per member; files are read with ``weights_only=True``, so they run no code.
        classes : array (K,), optional
            The labels in the order of the logits; by default 0 to K - 1.
        **options
            Other parameters of the ensemble, such as ``device``.

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
            Rows. A loader yields pairs of rows and class indices, or mappings with ``labels``.
        y : array (n,), optional
            Labels of the rows of an array.

        Raises
        ------
        InvalidInput
            If labels and logits do not fit, or a member's loss is no longer finite.
        KeyboardInterrupt
            When interrupted. ``members_`` then has the finished members, and ``warm_start=True``
            trains the others to the same result (if the loader has no generator of its own).
        """
        batches, classes = self._training_data(X, y)
        if not self.warm_start:
            self.members_ = []
        finished = list(getattr(self, "members_", []))
        earlier = getattr(self, "classes_", classes)
        if finished and not np.array_equal(earlier, classes):
            raise InvalidInput(
                f"the finished members have the classes {earlier}, but y has {classes}"
            )
        if not finished or not hasattr(self, "_seed"):
            self._seed = seed_of(self.random_state)
        n_left = self.n_members - len(finished)
        with bar("training", n_left * self.epochs, self.progress) as advance:
            for member in range(len(finished), self.n_members):
                module = self._train(member, batches, lambda: advance(1))
                if any(module is other for other in finished):
                    raise InvalidInput("make_model must make a new module each time")
                finished.append(module)
                self.members_, self.classes_ = finished, classes
        return self

    def _training_data(self, X: Any, y: Any) -> tuple[Epoch, np.ndarray]:
        """The batches of an epoch, and the labels in the order of the logits."""
        if isinstance(X, Dataset):
            X = DataLoader(X, batch_size=self.batch_size, shuffle=True)
        if y is None:
            if not hasattr(X, "__iter__") or isinstance(X, Tensor | np.ndarray | Mapping):
                raise InvalidInput("pass labels y with X, or a DataLoader of rows and labels")
            if isinstance(X, Iterator):
                raise InvalidInput("X can be iterated only once, but training needs several passes")
            with preserved_randomness(_CPU):
                inputs, _ = inputs_and_labels(next(iter(X), [torch.empty(0)]))
            return lambda: map(inputs_and_labels, X), np.arange(self._count_logits(inputs))
        batch, y = as_batch(X), np.asarray(y)
        if y.ndim != 1 or len(y) != length(batch):
            raise InvalidInput(f"y has shape {y.shape} for {length(batch)} rows of X")
        classes, codes = _encode(y, self._count_logits(batch))
        labels = torch.from_numpy(codes)

        def epoch() -> Iterator[tuple[Any, Tensor]]:
            # In parts of nearly equal size: batch norm cannot train on a last batch of one row.
            order = torch.randperm(len(labels))
            for rows in order.tensor_split(-(-len(labels) // self.batch_size)):
                yield take(batch, rows), labels[rows]

        return epoch, classes

    def _count_logits(self, batch: Batch) -> int:
        """The number of classes, from a new module."""
        if not length(batch):
            raise InvalidInput("there are no rows to train on")
        with preserved_randomness(_CPU, seed=0), torch.no_grad():
            module = self._make().eval()
            logits = call_module(module, few_rows(batch), _CPU, "the model")
        check_rows(logits, len(logits), "the model")
        return int(with_two_logits(logits).shape[-1])

    def _make(self) -> nn.Module:
        """Return a new module."""
        module = self.make_model()
        if not isinstance(module, nn.Module):
            raise InvalidInput(f"make_model returned {type(module).__name__}, not a torch module")
        return module

    def _train(self, member: int, batches: Epoch, advance: Callable[[], None]) -> nn.Module:
        """Train a member from its initial weights to its last epoch."""
        device = choose_device(self.device)
        name = f"member {member}"
        seed = int(generator(self._seed, member).integers(2**63))
        with preserved_randomness(device, seed):
            module = self._make().to(device).train()
            optimizer = self._optimizer(module)
            schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, self.epochs)
            mixed = device.type == "cuda"
            scaler = torch.amp.GradScaler(device.type, enabled=mixed)
            for epoch in range(self.epochs):
                total: Tensor | None = None
                for inputs, labels in batches():
                    with torch.autocast(device.type, enabled=mixed):
                        logits = with_two_logits(call_module(module, inputs, device, name))
                    labels = check_labels(labels, logits.shape[-1]).to(device)
                    loss = nn.functional.cross_entropy(logits.float(), labels)
                    optimizer.zero_grad(set_to_none=True)
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                    scaler.update()
                    total = loss.detach() + (0 if total is None else total)
                if total is None:
                    raise InvalidInput("the DataLoader yields no batch")
                schedule.step()
                if not bool(total.isfinite()):
                    raise InvalidInput(
                        f"the loss of {name} is {float(total)} in epoch {epoch}; lower lr, or drop "
                        "rows that are not finite"
                    )
                advance()
        return module.eval().to("cpu")

    def _optimizer(self, module: nn.Module) -> torch.optim.Optimizer:
        options = {"lr": self.lr, "weight_decay": self.weight_decay}
        if self.optimizer == "sgd":
            return torch.optim.SGD(module.parameters(), momentum=0.9, **options)
        return torch.optim.AdamW(module.parameters(), **options)

    def fitted_members(self) -> list[nn.Module]:
        """Return the finished members.

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
        """Return the members' probabilities, as :func:`scorewise.predict_samples` does.

        Parameters
        ----------
        X : rows
        n_samples, random_state, **options
            As for :func:`scorewise.predict_samples`.

        Returns
        -------
        Samples
        """
        options.setdefault("device", self.device)
        return predict_samples(self, X, n_samples, random_state, **options)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the mean θ̄ of the members' probabilities.

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
        """Return the labels with the largest mean probability.

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
    """The labels in the order of the logits, and the index of each row's label.

    Integers from 0 to K - 1 are indices already, even where some class has no rows.
    """
    if y.dtype.kind in "iu" and len(y) and y.min() >= 0 and y.max() < n_classes:
        return np.arange(n_classes), y.astype(np.int64)
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) != n_classes:
        raise InvalidInput(
            f"the model returns {n_classes} logits, but y has {len(classes)} classes; the numbers "
            "must be equal, or y must hold class indices"
        )
    return classes, codes.astype(np.int64)


# -- sampling from modules ------------------------------------------------------------------------


class NetworksSampler:
    """Samples from several modules, called one after the other or stacked into one."""

    weights: np.ndarray | None = None

    def __init__(self, modules: Sequence[nn.Module], options: SamplingOptions) -> None:
        chosen = options.choose_members(len(modules))
        self.n_members = len(chosen)
        self._modules = [modules[i] for i in chosen]
        self._names = [f"member {i} ({type(modules[i]).__name__})" for i in chosen]
        self._reader = OutputReader(self._names, options.output)
        self._requested_device = options.device
        self._device = torch.device("cpu")
        self._stack: StackedModules | None = None
        self._tried_stack = False

    def n_rows(self, X: Any) -> int | None:
        """Return the number of rows of X, or None if it is not known."""
        return count_rows(X)

    def chunks(self, X: Any, batch_size: int | None) -> Generator[np.ndarray]:
        """Yield all members' probabilities ``(n, M, K)`` of consecutive rows."""
        return in_host_memory(self.tensors(X, batch_size))

    def tensors(self, X: Any, batch_size: int | None) -> Generator[Tensor]:
        """Yield the chunks where they are computed."""
        with evaluation_mode(self._modules, self._requested_device) as self._device:
            yield from stream(X, self._draw, self._modules[0], self._device, batch_size)
            self._reader.finish()

    def _draw(self, batch: Batch, first_row: int) -> Tensor:
        if not self._tried_stack:
            self._stack, self._tried_stack = self._try_stack(batch), True
        if self._stack is None:
            values = self._one_by_one(batch)
        else:
            values = call_module(self._stack, batch, self._device, "the ensemble")
        return self._reader.samples(values, first_row)

    def _try_stack(self, batch: Batch) -> StackedModules | None:
        """The members as one module, if that is faster and returns the same values."""
        if not isinstance(batch, Tensor) or not len(batch):
            return None
        if not is_worth_stacking(self._modules, self._device):
            return None
        trial_rows = few_rows(batch)
        outputs_one_by_one = self._one_by_one(trial_rows)
        try:
            stack = StackedModules(self._modules)
            outputs = call_module(stack, trial_rows, self._device, "the ensemble")
        except (InvalidInput, RuntimeError):  # the module cannot be vectorised
            return None
        are_same = outputs.shape == outputs_one_by_one.shape and torch.allclose(
            outputs, outputs_one_by_one, 1e-3, 1e-3
        )
        return stack if are_same else None

    def _one_by_one(self, batch: Batch) -> Tensor:
        """The members' outputs ``(M · n, K)``, one member after the other."""
        n = length(batch)
        outputs: list[Tensor] = []
        for module, name in zip(self._modules, self._names, strict=True):
            values = call_module(module, batch, self._device, name)
            check_rows(values, n, name)
            if outputs and values.shape != outputs[0].shape:
                raise InvalidInput(
                    f"{name} returns {values.shape[1]} classes, {self._names[0]} "
                    f"{outputs[0].shape[1]}; all members must return the same classes"
                )
            outputs.append(values)
        return torch.cat(outputs)


class StackedModules(nn.Module):
    """Modules of one architecture as one module with outputs ``(M · n, K)``, member by member."""

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        super().__init__()
        self._states = stack_module_state(list(modules))
        skeleton = copy.deepcopy(modules[0]).to("meta")

        def call(params: Any, buffers: Any, batch: Tensor) -> Tensor:
            values: Tensor = logits_in(functional_call(skeleton, (params, buffers), (batch,)))
            return values[:, None] if values.ndim == 1 else values

        self._all = vmap(call, in_dims=(0, 0, None), randomness="error")
        self._dtype = next(iter(self._states[0].values())).dtype

    def forward(self, batch: Tensor) -> Tensor:
        """Return the outputs of all members."""
        batch = batch.to(self._dtype) if batch.is_floating_point() else batch
        return self._all(*self._states, batch).flatten(0, 1)


def is_worth_stacking(modules: Sequence[nn.Module], device: torch.device) -> bool:
    """Return whether the modules are faster when stacked, on this device."""
    sizes = [parameter.numel() for parameter in modules[0].parameters()]
    return (
        device.type == "cuda"
        and len(modules) >= _MANY
        and 0 < sum(sizes) <= _SMALL
        and not any(isinstance(part, _ConvNd) for part in modules[0].modules())
        and len({_architecture(module) for module in modules}) == 1
    )


def _architecture(module: nn.Module) -> Any:
    """Return a key that is equal for modules of the same architecture."""
    state = module.state_dict(keep_vars=True).items()
    tensors = tuple((name, value.shape, value.dtype) for name, value in state)
    return type(module), repr(module), tensors


def sample_ensemble(ensemble: DeepEnsemble, options: SamplingOptions) -> NetworksSampler:
    """Return the sampler of a fitted ensemble."""
    output = options.output or "logits"  # as in training
    return NetworksSampler(ensemble.fitted_members(), replace(options, output=output))
