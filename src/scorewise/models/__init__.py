"""A fitted model in, a second-order prediction out."""

from typing import TYPE_CHECKING

from scorewise._lazy import lazy_names
from scorewise.models._predict import known_classes, predict_dirichlet, predict_samples

if TYPE_CHECKING:
    from scorewise.models._held_out import HeldOut
    from scorewise.models._judge import Judge, numbered
    from scorewise.models.sklearn._bootstrap import BootstrapEnsemble, indexable, set_seeds
    from scorewise.models.torch._deep import DeepEnsemble
    from scorewise.models.torch._laplace import fit_laplace
    from scorewise.models.torch._networks import choose_device

__all__ = [
    "BootstrapEnsemble",
    "DeepEnsemble",
    "HeldOut",
    "Judge",
    "choose_device",
    "fit_laplace",
    "indexable",
    "known_classes",
    "numbered",
    "predict_dirichlet",
    "predict_samples",
    "set_seeds",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "BootstrapEnsemble": "scorewise.models.sklearn._bootstrap",
        "DeepEnsemble": "scorewise.models.torch._deep",
        "HeldOut": "scorewise.models._held_out",
        "Judge": "scorewise.models._judge",
        "choose_device": "scorewise.models.torch._networks",
        "fit_laplace": "scorewise.models.torch._laplace",
        "indexable": "scorewise.models.sklearn._bootstrap",
        "numbered": "scorewise.models._judge",
        "set_seeds": "scorewise.models.sklearn._bootstrap",
    },
    {"DeepEnsemble": "torch", "fit_laplace": "laplace"},
)
