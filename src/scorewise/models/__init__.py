"""A fitted model in, a second-order prediction out."""

from typing import TYPE_CHECKING

from scorewise._lazy import lazy_names
from scorewise.models._predict import known_classes, predict_dirichlet, predict_samples

if TYPE_CHECKING:
    from scorewise.models._held_out import (
        HeldOutClassifier,
        HeldOutRows,
        MemberPredictor,
        numbered_classes,
    )
    from scorewise.models.sklearn._bootstrap import BootstrapEnsemble, indexable, set_seeds
    from scorewise.models.torch._deep import DeepEnsemble
    from scorewise.models.torch._laplace import fit_laplace
    from scorewise.models.torch._networks import choose_device

__all__ = [
    "BootstrapEnsemble",
    "DeepEnsemble",
    "HeldOutClassifier",
    "HeldOutRows",
    "MemberPredictor",
    "choose_device",
    "fit_laplace",
    "indexable",
    "known_classes",
    "numbered_classes",
    "predict_dirichlet",
    "predict_samples",
    "set_seeds",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "BootstrapEnsemble": "scorewise.models.sklearn._bootstrap",
        "DeepEnsemble": "scorewise.models.torch._deep",
        "HeldOutClassifier": "scorewise.models._held_out",
        "HeldOutRows": "scorewise.models._held_out",
        "MemberPredictor": "scorewise.models._held_out",
        "choose_device": "scorewise.models.torch._networks",
        "fit_laplace": "scorewise.models.torch._laplace",
        "indexable": "scorewise.models.sklearn._bootstrap",
        "numbered_classes": "scorewise.models._held_out",
        "set_seeds": "scorewise.models.sklearn._bootstrap",
    },
    {"DeepEnsemble": "torch", "fit_laplace": "laplace"},
)
