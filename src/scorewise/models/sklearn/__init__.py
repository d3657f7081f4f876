"""Members of scikit-learn models."""
