"""Adapters for torch: modules with dropout, ensembles of networks, Laplace approximations."""

from __future__ import annotations

from typing import Any

from scorewise.models._adapters import ALL_OPTIONS, Adapter, instance_of
from scorewise.models._samplers import Sampler, SamplingOptions

_is_module = instance_of("torch.nn.Module")


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


ADAPTERS = (
    Adapter(
        matches=_is_module,
        classes=lambda module: None,
        sampler=_sample_dropout,
        options=ALL_OPTIONS,
    ),
    Adapter(
        matches=_is_list_of_modules,
        classes=lambda modules: None,
        sampler=_sample_modules,
        options=("device", "output"),
    ),
    Adapter(
        matches=instance_of("scorewise.models.torch._deep_ensembles.DeepEnsemble"),
        sampler=_sample_deep_ensemble,
        options=("device", "output"),
    ),
    Adapter(
        matches=instance_of("laplace.baselaplace.BaseLaplace"),
        classes=lambda laplace: None,
        sampler=_sample_laplace,
        options=("device",),
    ),
)
