"""Adapters for scikit-learn's ensembles and meta-estimators."""
