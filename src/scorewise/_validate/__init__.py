"""Every check of an argument, once, at the door.

A message says what is wrong, where (the first offending index, in the caller's own axes) and what
to do. Nothing here changes a value: what is wrong is refused, never mended in silence.
"""

from scorewise._validate._kinds import (
    SUM_TOLERANCE,
    choice,
    floating,
    number,
    real,
    same_library,
    share,
    whole,
)
from scorewise._validate._outcomes import (
    among,
    finite,
    groups,
    labels,
    loss_vector,
    losses_and_scores,
    names,
    rows,
    same_kind,
    vector,
)
from scorewise._validate._places import Layout, layout, moved_classes
from scorewise._validate._predictions import (
    class_count,
    concentrations,
    floor,
    logits,
    masses,
    member_count,
    probabilities,
    same_classes,
    same_instances,
    unit_interval,
)
from scorewise._validate._weighting import (
    company,
    member_weight,
    several,
    shares,
    some_weight,
    weights,
)

__all__ = [
    "SUM_TOLERANCE",
    "Layout",
    "among",
    "choice",
    "class_count",
    "company",
    "concentrations",
    "finite",
    "floating",
    "floor",
    "groups",
    "labels",
    "layout",
    "logits",
    "loss_vector",
    "losses_and_scores",
    "masses",
    "member_count",
    "member_weight",
    "moved_classes",
    "names",
    "number",
    "probabilities",
    "real",
    "rows",
    "same_classes",
    "same_instances",
    "same_kind",
    "same_library",
    "several",
    "share",
    "shares",
    "some_weight",
    "unit_interval",
    "vector",
    "weights",
    "whole",
]
