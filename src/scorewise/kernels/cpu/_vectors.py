"""Vectors of a few numbers for Numba, computed side by side in lanes.

In compiled functions ``a + b``, ``a * 2.0``, ``a < b`` work on these vectors lane by lane, as they
do on NumPy arrays, and ``where`` and ``sqrt`` mean what they mean there. LLVM makes of each the
widest instructions that the processor has: speed does not depend on whether a loop happens to be
vectorised. Sums run in the order that the code says; only ``multiply_add`` may round once or twice.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, lower_builtin, models, register_model, type_callable


class Vector(types.Type):
    """The type of a vector: floats, integers or truth values, side by side."""

    def __init__(self, dtype: Any, lanes: int) -> None:
        self.dtype, self.lanes = dtype, lanes
        super().__init__(name=f"Vector({dtype}, {lanes})")

    @property
    def is_float(self) -> bool:
        """Whether lanes hold floating-point numbers."""
        return isinstance(self.dtype, types.Float)

    @property
    def llvm(self) -> ir.VectorType:
        """The same type for LLVM."""
        if self.dtype == types.boolean:
            lane = ir.IntType(1)
        elif self.is_float:
            lane = {32: ir.FloatType(), 64: ir.DoubleType()}[self.dtype.bitwidth]
        else:
            lane = ir.IntType(self.dtype.bitwidth)
        return ir.VectorType(lane, self.lanes)

    @property
    def suffix(self) -> str:
        """How LLVM's functions for this type end."""
        return f"v{self.lanes}{self.llvm.element.intrinsic_name}"

    def of(self, dtype: Any) -> Vector:
        """As many lanes of another dtype."""
        return Vector(dtype, self.lanes)

    @property
    def integers(self) -> Vector:
        """Integers of the same width."""
        return self.of(types.int32 if self.dtype.bitwidth == 32 else types.int64)


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Vector) -> None:
        super().__init__(dmm, fe_type, fe_type.llvm)


# -- building blocks -------------------------------------------------------------------------------


def splat(builder: ir.IRBuilder, value: ir.Value, vector: Vector) -> ir.Value:
    """A number in every lane."""
    one = builder.insert_element(
        ir.Constant(vector.llvm, ir.Undefined), value, ir.Constant(ir.IntType(32), 0)
    )
    return shuffle(builder, one, one, [0] * vector.lanes)


def shuffle(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, order: list[int]) -> ir.Value:
    """Lanes of two vectors, one after the other, in a new order."""
    mask = ir.Constant(ir.VectorType(ir.IntType(32), len(order)), order)
    return builder.shuffle_vector(a, b, mask)


def _operands(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> list[ir.Value]:
    """Vectors as they are, and of plain numbers vectors like the last one given."""
    vector = [t for t in sig.args if isinstance(t, Vector)][-1]

    def lanewise(value: ir.Value, own: Any) -> ir.Value:
        if isinstance(own, Vector):
            return value
        return splat(builder, context.cast(builder, value, own, vector.dtype), vector)

    return [lanewise(value, own) for value, own in zip(args, sig.args, strict=True)]


def llvm_function(
    builder: ir.IRBuilder, name: str, result: ir.Type, arguments: list[ir.Value]
) -> ir.Value:
    """Call one of LLVM's own functions."""
    kind = ir.FunctionType(result, [a.type for a in arguments])
    function = cgutils.get_or_insert_function(builder.module, kind, name)
    return builder.call(function, arguments)


def _common(*given: Any) -> Vector | None:
    """The vector type of operands, of which some may be plain numbers."""
    vectors = {t for t in given if isinstance(t, Vector)}
    fits = len(vectors) == 1 and all(isinstance(t, Vector | types.Number) for t in given)
    return vectors.pop() if fits else None


# -- operators -------------------------------------------------------------------------------------


def _define(
    function: Callable[..., Any],
    emit: Callable[[ir.IRBuilder, Vector, ir.Value, ir.Value], ir.Value],
    *,
    compares: bool = False,
) -> None:
    @type_callable(function)
    def typer(context: Any) -> Any:
        def infer(a: Any, b: Any) -> Any:
            vector = _common(a, b)
            return vector and (vector.of(types.boolean) if compares else vector)

        return infer

    def lower(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        a, b = _operands(context, builder, sig, args)
        return emit(builder, next(t for t in sig.args if isinstance(t, Vector)), a, b)

    for pair in ((Vector, Vector), (Vector, types.Number), (types.Number, Vector)):
        lower_builtin(function, *pair)(lower)


def _arithmetic(function: Any, of_floats: str, of_integers: str) -> None:
    def emit(builder: ir.IRBuilder, vector: Vector, a: ir.Value, b: ir.Value) -> ir.Value:
        return getattr(builder, of_floats if vector.is_float else of_integers)(a, b)

    _define(function, emit)


def _comparison(function: Any, sign: str) -> None:
    def emit(builder: ir.IRBuilder, vector: Vector, a: ir.Value, b: ir.Value) -> ir.Value:
        if vector.is_float:
            return builder.fcmp_ordered(sign, a, b)  # false for NaN
        return builder.icmp_signed(sign, a, b)

    _define(function, emit, compares=True)


_arithmetic(operator.add, "fadd", "add")
_arithmetic(operator.sub, "fsub", "sub")
_arithmetic(operator.mul, "fmul", "mul")
_arithmetic(operator.truediv, "fdiv", "sdiv")
_arithmetic(operator.and_, "and_", "and_")
_arithmetic(operator.or_, "or_", "or_")
_arithmetic(operator.lshift, "shl", "shl")
_arithmetic(operator.rshift, "ashr", "ashr")
for _function, _sign in (
    (operator.lt, "<"),
    (operator.le, "<="),
    (operator.gt, ">"),
    (operator.ge, ">="),
    (operator.eq, "=="),
):
    _comparison(_function, _sign)


@type_callable(operator.neg)
def _negative_type(context: Any) -> Any:
    return lambda a: a if isinstance(a, Vector) else None


@lower_builtin(operator.neg, Vector)
def _negative(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
    return builder.fneg(args[0])


# -- functions -------------------------------------------------------------------------------------


@intrinsic
def where(typingctx: Any, mask: Any, a: Any, b: Any) -> Any:
    """``a`` where the mask is true, else ``b``; either may be a number."""
    vector = _common(a, b)
    if vector is None or mask != vector.of(types.boolean):
        return None

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        return builder.select(*_operands(context, builder, sig, args))

    return vector(mask, a, b), codegen


@intrinsic
def fill(typingctx: Any, like: Any, value: Any) -> Any:
    """A vector of the type of another, with the same number in every lane."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        return _operands(context, builder, sig, args)[1]

    return like(like, value), codegen


@intrinsic
def multiply_add(typingctx: Any, a: Any, b: Any, c: Any) -> Any:
    """``a·b + c``, rounded once where the processor can."""
    vector = _common(a, b, c)
    if vector is None:
        return None

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        values = _operands(context, builder, sig, args)
        return llvm_function(builder, f"llvm.fmuladd.{vector.suffix}", vector.llvm, values)

    return vector(a, b, c), codegen


def _unary(name: str) -> Any:
    @intrinsic
    def function(typingctx: Any, a: Any) -> Any:
        if not isinstance(a, Vector):
            return None

        def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
            return llvm_function(builder, f"llvm.{name}.{a.suffix}", a.llvm, list(args))

        return a(a), codegen

    return function


sqrt, absolute = _unary("sqrt"), _unary("fabs")


def _conversion(result: Callable[[Vector], Vector], instruction: str) -> Any:
    @intrinsic
    def function(typingctx: Any, a: Any) -> Any:
        if not isinstance(a, Vector):
            return None
        to = result(a)

        def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
            if to == a:
                return args[0]
            return getattr(builder, instruction)(args[0], to.llvm)

        return to(a), codegen

    return function


def _float_of(vector: Vector) -> Vector:
    return vector.of(types.float32 if vector.dtype.bitwidth == 32 else types.float64)


to_bits = _conversion(lambda v: v.integers, "bitcast")
from_bits = _conversion(_float_of, "bitcast")
to_floats = _conversion(_float_of, "sitofp")
widen = _conversion(lambda v: v.of(types.float64), "fpext")


@intrinsic
def narrow(typingctx: Any, a: Any, like: Any) -> Any:
    """A vector of float64 in the dtype of another."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        return args[0] if a == like else builder.fptrunc(args[0], like.llvm)

    return like(a, like), codegen


def _over_mask(name: str) -> Any:
    """A function from a mask to one truth value."""

    @intrinsic
    def function(typingctx: Any, mask: Any) -> Any:
        def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
            reduction = f"llvm.vector.reduce.{name}.{mask.suffix}"
            return llvm_function(builder, reduction, ir.IntType(1), list(args))

        return types.boolean(mask), codegen

    return function


any_lane, all_lanes = _over_mask("or"), _over_mask("and")


def _across(combine: Callable[[ir.IRBuilder, ir.Value, ir.Value], ir.Value]) -> Any:
    """A function that combines all lanes, and puts the result into every one of them."""

    @intrinsic
    def function(typingctx: Any, a: Any) -> Any:
        if not isinstance(a, Vector):
            return None

        def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
            value, step = args[0], a.lanes // 2
            while step:  # lanes that differ in one bit of their number, bit by bit
                other = shuffle(builder, value, value, [i ^ step for i in range(a.lanes)])
                value = combine(builder, value, other)
                step //= 2
            return value

        return a(a), codegen

    return function


def _extreme(sign: str) -> Callable[[ir.IRBuilder, ir.Value, ir.Value], ir.Value]:
    def combine(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
        return builder.select(builder.fcmp_ordered(sign, a, b), a, b)

    return combine


sum_lanes = _across(lambda builder, a, b: builder.fadd(a, b))
max_lanes, min_lanes = _across(_extreme(">")), _across(_extreme("<"))


# -- what depends on the dtype ---------------------------------------------------------------------


def constant(float32: float, float64: float) -> Any:
    """A function of a vector that gives the number for its dtype."""

    @intrinsic
    def function(typingctx: Any, like: Any) -> Any:
        value = float32 if like.dtype.bitwidth == 32 else float64
        kind = like.dtype if isinstance(value, float) else like.integers.dtype

        def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
            return context.get_constant(kind, value)

        return kind(like), codegen

    return function


def polynomial(float32: Sequence[float], float64: Sequence[float]) -> Any:
    """A function c₀ + c₁x + c₂x² + … of a vector, with as many terms as its dtype needs."""

    @intrinsic
    def function(typingctx: Any, x: Any) -> Any:
        coefficients = float32 if x.dtype.bitwidth == 32 else float64

        def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
            constants = [ir.Constant(x.llvm, [c] * x.lanes) for c in reversed(coefficients)]
            value = constants[0]
            for c in constants[1:]:
                name = f"llvm.fmuladd.{x.suffix}"
                value = llvm_function(builder, name, x.llvm, [value, args[0], c])
            return value

        return x(x), codegen

    return function
