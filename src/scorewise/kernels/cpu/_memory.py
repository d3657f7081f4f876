"""Vectors in memory, for Numba: at addresses, which are plain integers.

Arrays would bring their reference counts into every loop (which made kernels four times slower).
Whoever passes an address keeps what lies there alive.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from scorewise.kernels.cpu._records import BYTES
from scorewise.kernels.cpu._vectors import Vector, llvm_function, shuffle, splat


@intrinsic
def vector_like(typingctx: Any, number: Any) -> Any:
    """A vector of zeros, of the dtype of a number, that fills a cache line."""
    vector = Vector(number, BYTES * 8 // number.bitwidth)

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        return ir.Constant(vector.llvm, [0.0] * vector.lanes)

    return vector(number), codegen


@intrinsic
def n_lanes(typingctx: Any, like: Any) -> Any:
    """How many numbers a vector holds."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        return context.get_constant(types.intp, like.lanes)

    return types.intp(like), codegen


@intrinsic
def load(typingctx: Any, address: Any, like: Any) -> Any:
    """A vector from an address."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        return builder.load(builder.inttoptr(args[0], like.llvm.as_pointer()), align=1)

    return like(types.intp, like), codegen


@intrinsic
def store(typingctx: Any, address: Any, value: Any) -> Any:
    """Put a vector to an address."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> Any:
        builder.store(args[1], builder.inttoptr(args[0], value.llvm.as_pointer()), align=1)
        return context.get_dummy_value()

    return types.none(types.intp, value), codegen


def _load_some(
    builder: ir.IRBuilder, address: ir.Value, count: ir.Value, rest: ir.Value, kind: Vector
) -> ir.Value:
    pointer = builder.inttoptr(address, kind.llvm.as_pointer())
    indices = kind.of(types.int32)
    lanes = ir.Constant(indices.llvm, list(range(kind.lanes)))
    bound = splat(builder, builder.trunc(count, ir.IntType(32)), indices)
    mask = builder.icmp_signed("<", lanes, bound)
    align = ir.Constant(ir.IntType(32), 1)
    name = f"llvm.masked.load.{kind.suffix}.p0"
    return llvm_function(builder, name, kind.llvm, [pointer, align, mask, rest])


@intrinsic
def load_some(typingctx: Any, address: Any, count: Any, rest: Any) -> Any:
    """The first ``count`` numbers at an address, other lanes from ``rest``; reads no further."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        return _load_some(builder, args[0], args[1], args[2], rest)

    return rest(types.intp, types.intp, rest), codegen


@intrinsic
def transpose(typingctx: Any, sources: Any, offset: Any, count: Any, target: Any, like: Any) -> Any:
    """Lay numbers side by side, ``count`` from each of as many addresses as there are lanes.

    The addresses are stored at ``sources``, and ``offset`` is added to each. What is number k there
    becomes vector k from ``target`` on, where there must be room for as many as there are lanes.
    """

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> Any:
        addresses = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
        rows = []
        for lane in range(like.lanes):
            start = builder.load(builder.gep(addresses, [ir.Constant(ir.IntType(64), lane)]))
            place = builder.add(start, args[1])
            rows.append(_load_some(builder, place, args[2], args[4], like))
        step = 1
        while step < like.lanes:  # swap blocks of step × step numbers between pairs of rows
            low = [i if not i & step else i - step + like.lanes for i in range(like.lanes)]
            high = [i + step if not i & step else i + like.lanes for i in range(like.lanes)]
            for i in range(like.lanes):
                if not i & step:
                    a, b = rows[i], rows[i + step]
                    rows[i] = shuffle(builder, a, b, low)
                    rows[i + step] = shuffle(builder, a, b, high)
            step *= 2
        first = builder.inttoptr(args[3], like.llvm.as_pointer())
        for k, row in enumerate(rows):
            place = builder.gep(first, [ir.Constant(ir.IntType(64), k)])
            builder.store(row, place, align=1)
        return context.get_dummy_value()

    return types.none(types.intp, types.intp, types.intp, types.intp, like), codegen


def _number(dtype: Callable[[Vector], Any]) -> Any:
    @intrinsic
    def function(typingctx: Any, address: Any, like: Any) -> Any:
        result = dtype(like)

        def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
            kind = context.get_value_type(result)
            return builder.load(builder.inttoptr(args[0], kind.as_pointer()), align=1)

        return result(types.intp, like), codegen

    return function


number_at = _number(lambda like: like.dtype)  # one number from an address, of a vector's dtype
integer_at = _number(lambda like: types.int64)
double_at = _number(lambda like: types.float64)


@intrinsic
def put(typingctx: Any, address: Any, value: Any) -> Any:
    """Put one number to an address."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> Any:
        pointer = builder.inttoptr(args[0], args[1].type.as_pointer())
        builder.store(args[1], pointer, align=1)
        return context.get_dummy_value()

    return types.none(types.intp, value), codegen


@intrinsic
def prefetch(typingctx: Any, address: Any) -> Any:
    """Bring what will be read soon into the cache; any address will do."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> Any:
        pointer = builder.inttoptr(args[0], ir.IntType(8).as_pointer())
        to_read, keep, data = (ir.Constant(ir.IntType(32), i) for i in (0, 3, 1))
        llvm_function(builder, "llvm.prefetch.p0", ir.VoidType(), [pointer, to_read, keep, data])
        return context.get_dummy_value()

    return types.none(types.intp), codegen
