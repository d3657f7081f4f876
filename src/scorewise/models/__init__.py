"""A fitted model in, a second-order prediction out."""

from scorewise.models.predict import predict_dirichlet, predict_samples

__all__ = ["predict_dirichlet", "predict_samples"]
