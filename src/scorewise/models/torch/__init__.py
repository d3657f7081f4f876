"""Adapters of torch modules: dropout, deep ensembles, Laplace, evidential networks."""
