"""Adapters for foundation models of tabular data."""
