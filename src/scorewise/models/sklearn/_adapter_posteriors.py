"""Adapters for models of scikit-learn with a posterior, from which members are drawn."""

from __future__ import annotations

from typing import Any

from scorewise.models._adapters import Adapter, instance_of
from scorewise.models._samplers import CommitteeSampler, Sampler, SamplingOptions


def _sample_laplace(classifier: Any, options: SamplingOptions) -> Sampler:
    from scorewise.models.sklearn._laplace_classifier import committee_of_laplace

    return CommitteeSampler(committee_of_laplace(classifier, options))


def _sample_process(process: Any, options: SamplingOptions) -> Sampler:
    from scorewise.models.sklearn._gaussian_process import committee_of_process

    return CommitteeSampler(committee_of_process(process, options))


def _describe_process(process: Any) -> str:
    latent = "the latent function" if process.n_classes_ == 2 else "each class's latent function"
    return (
        f"draws of {latent} from its Laplace approximation, at the same quantile in every row: "
        "exact for each row, but not for several rows together, so use neither batches nor targets "
        "(scorewise.BootstrapEnsemble makes members for these); the uncertainty of the kernel's "
        "parameters is left out"
    )


ADAPTERS = (
    Adapter(
        matches=instance_of("scorewise.models.sklearn._laplace_classifier.LaplaceClassifier"),
        sampler=_sample_laplace,
        describe=lambda classifier: (
            "draws of the coefficients from the Gaussian approximation of their posterior, with C "
            "as the variance of the prior; where there are few rows for each coefficient they are "
            "too wide, and their mean is less certain than predict_proba"
        ),
    ),
    Adapter(
        matches=instance_of("sklearn.gaussian_process.GaussianProcessClassifier"),
        sampler=_sample_process,
        describe=_describe_process,
        has_joint_rows=lambda process: False,
    ),
)
