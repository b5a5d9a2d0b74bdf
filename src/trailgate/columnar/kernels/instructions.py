"""The few instructions that numba cannot express, emitted as LLVM's (see ``words``)."""

from __future__ import annotations

from typing import Any, Final

import numba
from llvmlite import ir
from numba.extending import intrinsic

_WORD: Final = ir.IntType(64)


def _loading(_typing: Any, data: Any, at: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(_pointer(context, builder, signature, arguments), align=1)

    return numba.types.uint64(data, at), code


def _storing(kind: ir.IntType) -> Any:
    def typed(_typing: Any, data: Any, at: Any, _word: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            lowest = arguments[2] if kind is _WORD else builder.trunc(arguments[2], kind)
            place = _pointer(context, builder, signature, arguments, kind)
            builder.store(lowest, place, align=1)
            return context.get_dummy_value()

        return numba.types.void(data, at, numba.types.uint64), code

    return typed


def _moving(_typing: Any, out: Any, to: Any, data: Any, at: Any) -> Any:
    lanes = ir.VectorType(ir.IntType(8), 32)

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _pointer(context, builder, signature, arguments[2:], lanes, which=2)
        loaded = builder.load(place, align=1)
        builder.store(loaded, _pointer(context, builder, signature, arguments, lanes), align=1)
        return context.get_dummy_value()

    return numba.types.void(out, to, data, at), code


def _marking(_typing: Any, data: Any, at: Any, _byte: Any) -> Any:
    lanes = ir.VectorType(ir.IntType(8), 64)
    undefined = ir.Constant(lanes, ir.Undefined)
    every = ir.Constant(ir.VectorType(ir.IntType(32), 64), [0] * 64)

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _pointer(context, builder, signature, arguments, lanes)
        first = builder.insert_element(undefined, arguments[2], ir.Constant(ir.IntType(32), 0))
        wanted = builder.shuffle_vector(first, undefined, every)
        equal = builder.icmp_unsigned("==", builder.load(place, align=1), wanted)
        return builder.bitcast(equal, _WORD)

    return numba.types.uint64(data, at, numba.types.uint8), code


def _counting(_typing: Any, _word: Any) -> Any:
    def code(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return numba.types.int64(numba.types.uint64), code


def _pointer(
    context: Any,
    builder: Any,
    signature: Any,
    arguments: Any,
    kind: ir.Type = _WORD,
    which: int = 0,
) -> Any:
    array = context.make_array(signature.args[which])(context, builder, arguments[0])
    return builder.bitcast(builder.gep(array.data, [arguments[1]]), kind.as_pointer())


load8: Final[Any] = intrinsic(_loading)
store2: Final[Any] = intrinsic(_storing(ir.IntType(16)))
store4: Final[Any] = intrinsic(_storing(ir.IntType(32)))
store8: Final[Any] = intrinsic(_storing(_WORD))
move32: Final[Any] = intrinsic(_moving)
marks64: Final[Any] = intrinsic(_marking)
first_mark: Final[Any] = intrinsic(_counting)
