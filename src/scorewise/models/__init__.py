"""The probabilities of the members of a fitted model.

:func:`predict_samples` samples from a model, with the adapter for its kind; :func:`explain_model`
says what its members are; :func:`register_adapter` adds an adapter.
"""

from typing import TYPE_CHECKING

from scorewise._lazy import lazy_names
from scorewise.models._adapters import (
    Adapter,
    has_joint_rows,
    has_members,
    known_classes,
    make_sampler,
    register_adapter,
    unregister_adapter,
)
from scorewise.models._explain import ModelExplanation, explain_model
from scorewise.models._predict import predict_samples
from scorewise.models._samplers import Sampler, SamplingOptions, member_sampler, rows_from

if TYPE_CHECKING:
    from scorewise.models.sklearn._bootstrap import BootstrapEnsemble
    from scorewise.models.sklearn._laplace_classifier import LaplaceClassifier
    from scorewise.models.torch._deep_ensembles import DeepEnsemble
    from scorewise.models.torch._evidential import predict_dirichlet
    from scorewise.models.torch._laplace import fit_laplace
    from scorewise.models.torch._segment import Segmentation, segment

__all__ = [
    "Adapter",
    "BootstrapEnsemble",
    "DeepEnsemble",
    "LaplaceClassifier",
    "ModelExplanation",
    "Sampler",
    "SamplingOptions",
    "Segmentation",
    "explain_model",
    "fit_laplace",
    "has_joint_rows",
    "has_members",
    "known_classes",
    "make_sampler",
    "member_sampler",
    "predict_dirichlet",
    "predict_samples",
    "register_adapter",
    "rows_from",
    "segment",
    "unregister_adapter",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "BootstrapEnsemble": "scorewise.models.sklearn._bootstrap",
        "DeepEnsemble": "scorewise.models.torch._deep_ensembles",
        "LaplaceClassifier": "scorewise.models.sklearn._laplace_classifier",
        "Segmentation": "scorewise.models.torch._segment",
        "fit_laplace": "scorewise.models.torch._laplace",
        "predict_dirichlet": "scorewise.models.torch._evidential",
        "segment": "scorewise.models.torch._segment",
    },
    {
        "DeepEnsemble": "torch",
        "Segmentation": "torch",
        "fit_laplace": "laplace",
        "predict_dirichlet": "torch",
        "segment": "torch",
    },
)
