"""The probabilities of the members of a fitted model.

:func:`predict_samples` samples from a model, with the adapter for its kind;
:func:`register_adapter` adds an adapter.
"""

from typing import TYPE_CHECKING

from scorewise._lazy import lazy_names
from scorewise.models._adapters import (
    Adapter,
    known_classes,
    make_sampler,
    register_adapter,
    unregister_adapter,
)
from scorewise.models._predict import predict_samples
from scorewise.models._samplers import Sampler, SamplingOptions, member_sampler

if TYPE_CHECKING:
    from scorewise.models._held_out import (
        HeldOutClassifier,
        MeasuredRows,
        MemberPredictor,
        numbered_classes,
    )
    from scorewise.models.sklearn._bootstrap import BootstrapEnsemble, indexable, set_seeds
    from scorewise.models.torch._deep_ensembles import DeepEnsemble
    from scorewise.models.torch._evidential import predict_dirichlet
    from scorewise.models.torch._laplace import fit_laplace
    from scorewise.models.torch._networks import choose_device

__all__ = [
    "Adapter",
    "BootstrapEnsemble",
    "DeepEnsemble",
    "HeldOutClassifier",
    "MeasuredRows",
    "MemberPredictor",
    "Sampler",
    "SamplingOptions",
    "choose_device",
    "fit_laplace",
    "indexable",
    "known_classes",
    "make_sampler",
    "member_sampler",
    "numbered_classes",
    "predict_dirichlet",
    "predict_samples",
    "register_adapter",
    "set_seeds",
    "unregister_adapter",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "BootstrapEnsemble": "scorewise.models.sklearn._bootstrap",
        "DeepEnsemble": "scorewise.models.torch._deep_ensembles",
        "HeldOutClassifier": "scorewise.models._held_out",
        "MeasuredRows": "scorewise.models._held_out",
        "MemberPredictor": "scorewise.models._held_out",
        "choose_device": "scorewise.models.torch._networks",
        "fit_laplace": "scorewise.models.torch._laplace",
        "indexable": "scorewise.models.sklearn._bootstrap",
        "numbered_classes": "scorewise.models._held_out",
        "predict_dirichlet": "scorewise.models.torch._evidential",
        "set_seeds": "scorewise.models.sklearn._bootstrap",
    },
    {"DeepEnsemble": "torch", "fit_laplace": "laplace", "predict_dirichlet": "torch"},
)
