"""Adapters for torch modules: dropout, deep ensembles, Laplace, evidential networks."""
