"""Uncertainty of every row of a file, however large."""

from scorewise.scoring.score import Scored, score_file

__all__ = ["Scored", "score_file"]
