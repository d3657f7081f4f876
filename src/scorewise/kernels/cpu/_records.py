"""What compiled code is told, as records of integers: addresses, strides in bytes, numbers."""

from __future__ import annotations

from typing import NamedTuple

# Vectors that are summed one by one, before their sum is added to others in float64: few where
# entries may be lost beside a large one, more where all that counts is the size of the sum.
BLOCK, LONG_BLOCK = 8, 64

BYTES = 64  # of a vector of the predictions' dtype, and of a cache line

PROBABILITIES, LOGITS, MASSES = 0, 1, 2  # what the numbers are; masses are not normalised yet


class Source(NamedTuple):
    """An array (N, M, K) in memory, and how to read it."""

    address: int
    instance_stride: int
    member_stride: int
    class_stride: int
    n_members: int
    n_classes: int
    n_vectors: int  # that hold one member
    kind: int
    side_by_side: int  # whether a vector holds one class of several instances


class Weights(NamedTuple):
    """Shares of members in memory; strides of 0 give all instances, or members, the same."""

    address: int
    instance_stride: int
    member_stride: int
    heaviest: int  # the address of int64, one for each instance or for all


class Wanted(NamedTuple):
    """The first of the three rows of the output for each rule, -1 for a rule not asked for."""

    log: int
    brier: int
    zero_one: int
    spherical: int
    powers: int  # those with a parameter, one after the other


class Powers(NamedTuple):
    """Rules with a parameter: pairs of float64 in memory, β − 1 and 1 for pseudospherical, or 0."""

    address: int
    n: int


class Output(NamedTuple):
    """An array (parts, N) in memory."""

    address: int
    part_stride: int
    instance_stride: int


class Memory(NamedTuple):
    """Addresses of scratch memory for the instances at hand."""

    member: int
    anchor: int
    silent: int  # a member without the lanes that have no weight
    mean: int
    sums: int
    wide_sums: int  # the same in float64
    lost: int  # what their roundings have lost
    lanes: int  # one number per lane
    addresses: int  # one address per lane
    copied: int  # the first of the members that were copied, and the one after the last
    aleatoric: int  # float64 per lane, for each rule with a parameter
    epistemic: int


class Span(NamedTuple):
    """Which instances."""

    start: int
    stop: int


RECORDS = (Source, Weights, Wanted, Powers, Output, Memory, Span)  # in the order of the arguments
