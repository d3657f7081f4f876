"""Adapters of scikit-learn's ensembles and of what is put around them."""
