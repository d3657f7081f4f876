"""Displays: they keep arrays and draw them on given Axes."""
