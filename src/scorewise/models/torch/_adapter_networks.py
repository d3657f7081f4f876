"""Adapters for torch: modules with dropout, ensembles of networks, Laplace approximations."""

from __future__ import annotations

from typing import Any

from scorewise.models._adapters import ALL_OPTIONS, Adapter, NoMembers, instance_of
from scorewise.models._samplers import Sampler, SamplingOptions

_is_module = instance_of("torch.nn.Module")
_has_weights = instance_of("laplace.baselaplace.ParametricLaplace")
_is_dropout = instance_of("torch.nn.modules.dropout._DropoutNd")


def _dropout_layers(module: Any) -> list[Any]:
    return [part for part in module.modules() if _is_dropout(part)]


def _has_dropout(model: Any) -> bool:
    return _is_module(model) and bool(_dropout_layers(model))


def _is_list_of_modules(model: Any) -> bool:
    return isinstance(model, list | tuple) and len(model) > 0 and all(map(_is_module, model))


def _sample_dropout(module: Any, options: SamplingOptions) -> Sampler:
    from scorewise.models.torch._dropout import DropoutSampler

    return DropoutSampler(module, options)


def _sample_modules(modules: Any, options: SamplingOptions) -> Sampler:
    from scorewise.models.torch._deep_ensembles import NetworksSampler

    return NetworksSampler(modules, options)


def _sample_deep_ensemble(ensemble: Any, options: SamplingOptions) -> Sampler:
    from scorewise.models.torch._deep_ensembles import sample_ensemble

    return sample_ensemble(ensemble, options)


def _sample_laplace(laplace: Any, options: SamplingOptions) -> Sampler:
    from scorewise.models.torch._laplace import LaplaceSampler

    return LaplaceSampler(laplace, options)


def _describe_dropout(module: Any) -> str:
    rates = sorted({layer.p for layer in _dropout_layers(module)})
    return (
        f"draws of dropout with p = {', '.join(f'{rate:g}' for rate in rates)}, each one network "
        "that drops the same units in all rows; their spread is set by p, and does not shrink with "
        "more training data"
    )


def _describe_laplace(laplace: Any) -> str:
    name = type(laplace).__name__
    if _has_weights(laplace):
        drawn = f"draws of the weights from the Gaussian of {name} around the trained ones"
    else:
        drawn = (
            f"draws of the outputs from the Gaussian of {name} in each row, with the same noise in "
            "all rows, so use neither batches nor targets"
        )
    return f"{drawn}; it knows this one optimum only, and its width depends on prior_precision"


ADAPTERS = (
    Adapter(
        matches=_has_dropout,
        classes=lambda module: None,
        sampler=_sample_dropout,
        options=ALL_OPTIONS,
        describe=_describe_dropout,
    ),
    Adapter(
        matches=_is_list_of_modules,
        classes=lambda modules: None,
        sampler=_sample_modules,
        options=("device", "output"),
        describe=lambda modules: (
            "the modules in the list; what they approximate depends on how they were trained"
        ),
    ),
    Adapter(
        matches=instance_of("scorewise.models.torch._deep_ensembles.DeepEnsemble"),
        sampler=_sample_deep_ensemble,
        options=("device", "output"),
        describe=lambda ensemble: (
            "networks trained on the same rows from different random starts; they are different "
            "optima, whose spread no prior sets"
        ),
    ),
    Adapter(
        matches=instance_of("laplace.baselaplace.BaseLaplace"),
        classes=lambda laplace: None,
        sampler=_sample_laplace,
        options=("device",),
        describe=_describe_laplace,
        has_joint_rows=_has_weights,
    ),
)

NO_MEMBERS = (
    NoMembers(
        _is_module,
        "it has no dropout layer (torch.nn.functional.dropout is not one), so all draws would be "
        "equal; pass a module with torch.nn.Dropout, a list of modules for an ensemble, or see "
        "scorewise.fit_laplace",
    ),
)
