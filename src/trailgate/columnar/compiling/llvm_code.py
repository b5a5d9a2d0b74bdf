"""Instructions that numba cannot express, such as comparing 64 bytes at once, emitted as LLVM code.

``word_kernels.py`` and kernels of the formats define the same functions in Python, as ``instruction``.
"""

from __future__ import annotations

from typing import Any, Final

import numba
from llvmlite import ir
from numba.extending import intrinsic

_WORD: Final = ir.IntType(64)


# Each of these functions returns a signature, and a function that emits the code, as numba's
# ``intrinsic`` expects. With ``align=1`` a load or store may begin at any byte.
def _loading(_typing: Any, data: Any, at: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(_pointer(context, builder, signature, arguments), align=1)

    return numba.types.uint64(data, at), code


def _storing(kind: ir.IntType) -> Any:
    def typed(_typing: Any, data: Any, at: Any, _word: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            # ``trunc`` keeps the lowest bits, which are the first bytes of a little-endian word.
            lowest = arguments[2] if kind is _WORD else builder.trunc(arguments[2], kind)
            place = _pointer(context, builder, signature, arguments, kind)
            builder.store(lowest, place, align=1)
            return context.get_dummy_value()

        return numba.types.void(data, at, numba.types.uint64), code

    return typed


def _moving(_typing: Any, out: Any, to: Any, data: Any, at: Any) -> Any:
    lanes = ir.VectorType(ir.IntType(8), 32)

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        # ``data`` and ``at`` are the third and fourth argument; ``out`` and ``to`` the first two.
        place = _pointer(context, builder, signature, arguments[2:], lanes, which=2)
        loaded = builder.load(place, align=1)
        builder.store(loaded, _pointer(context, builder, signature, arguments, lanes), align=1)
        return context.get_dummy_value()

    return numba.types.void(out, to, data, at), code


def _marking(_typing: Any, data: Any, at: Any, _byte: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        loaded = _load(context, builder, signature, arguments, 64)
        equal = builder.icmp_unsigned("==", loaded, _splatted(builder, arguments[2], 64))
        # A comparison of 64 bytes gives 64 lanes of one bit, and lane i becomes bit i of the word.
        return builder.bitcast(equal, _WORD)

    return numba.types.uint64(data, at, numba.types.uint8), code


def _splat(byte: int, width: int) -> ir.Constant:
    return ir.Constant(ir.VectorType(ir.IntType(8), width), [byte] * width)


def _any_of(builder: Any, loaded: Any, width: int, wanted: bytes, below: int = 0) -> Any:
    """Emit LLVM code for a word with a bit for each byte that is in ``wanted`` or lower than ``below``."""
    # Example: for b'&>' the mask is (loaded == '&') | (loaded == '>'), a bit for each byte.
    tests = [builder.icmp_unsigned("==", loaded, _splat(byte, width)) for byte in wanted]
    if below:
        tests.append(builder.icmp_unsigned("<", loaded, _splat(below, width)))
    mask = tests[0]
    for test in tests[1:]:
        mask = builder.or_(mask, test)
    bits = builder.bitcast(mask, ir.IntType(width))
    return bits if width == 64 else builder.zext(bits, _WORD)


def _load(context: Any, builder: Any, signature: Any, arguments: Any, width: int) -> Any:
    lanes = ir.VectorType(ir.IntType(8), width)
    return builder.load(_pointer(context, builder, signature, arguments, lanes), align=1)


# Two results of 32 bytes share one word: bit i and bit 32 + i are those of byte i.
def _with_upper(builder: Any, lower: Any, upper: Any) -> Any:
    return builder.or_(lower, builder.shl(upper, ir.Constant(_WORD, 32)))


def _text(_typing: Any, data: Any, at: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        loaded = _load(context, builder, signature, arguments, 32)
        upper = _any_of(builder, loaded, 32, b"&>\r")
        return _with_upper(builder, _any_of(builder, loaded, 32, b"<"), upper)

    return numba.types.uint64(data, at), code


def _string(_typing: Any, data: Any, at: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        loaded = _load(context, builder, signature, arguments, 32)
        upper = _any_of(builder, loaded, 32, b"\\", below=32)
        return _with_upper(builder, _any_of(builder, loaded, 32, b'"'), upper)

    return numba.types.uint64(data, at), code


def _value(_typing: Any, data: Any, at: Any, _quote: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        loaded = _load(context, builder, signature, arguments, 32)
        equal = builder.icmp_unsigned("==", loaded, _splatted(builder, arguments[2], 32))
        bits = builder.bitcast(equal, ir.IntType(32))
        upper = _any_of(builder, loaded, 32, b"&<", below=32)
        return _with_upper(builder, builder.zext(bits, _WORD), upper)

    return numba.types.uint64(data, at, numba.types.uint8), code


def _splatted(builder: Any, byte: Any, width: int) -> Any:
    """Emit LLVM code for a vector with all lanes set to a byte that is only known at run time."""
    # Write the byte to lane 0, then copy lane 0 to all lanes: the shuffle takes index 0 everywhere.
    undefined = ir.Constant(ir.VectorType(ir.IntType(8), width), ir.Undefined)
    every = ir.Constant(ir.VectorType(ir.IntType(32), width), [0] * width)
    first = builder.insert_element(undefined, byte, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, undefined, every)


def _escape(
    _typing: Any, data: Any, at: Any, _first: Any, _second: Any, _third: Any, _fourth: Any, _fifth: Any
) -> Any:  # fmt: skip
    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        loaded = _load(context, builder, signature, arguments, 32)
        mask = builder.icmp_unsigned("<", loaded, _splat(32, 32))
        for byte in arguments[2:]:
            wanted = _splatted(builder, byte, 32)
            mask = builder.or_(mask, builder.icmp_unsigned("==", loaded, wanted))
        return builder.zext(builder.bitcast(mask, ir.IntType(32)), _WORD)

    byte = numba.types.uint8
    return numba.types.uint64(data, at, byte, byte, byte, byte, byte), code


def _name_end(_typing: Any, data: Any, at: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        loaded = _load(context, builder, signature, arguments, 16)
        # Below 33 are the blank (32) and all controls.
        return _any_of(builder, loaded, 16, b"/>=", below=33)

    return numba.types.uint64(data, at), code


def _control(_typing: Any, data: Any, at: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        loaded = _load(context, builder, signature, arguments, 64)
        blanks = _any_of(builder, loaded, 64, b"\t\n\r")
        controls = builder.icmp_unsigned("<", loaded, _splat(32, 64))
        # XML allows tab, LF and CR, so they are removed from the controls.
        return builder.and_(builder.bitcast(controls, _WORD), builder.not_(blanks))

    return numba.types.uint64(data, at), code


def _high(_typing: Any, data: Any, at: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        loaded = _load(context, builder, signature, arguments, 64)
        # As signed numbers, the bytes from 0x80 on are negative.
        return builder.bitcast(builder.icmp_signed("<", loaded, _splat(0, 64)), _WORD)

    return numba.types.uint64(data, at), code


def _counting(_typing: Any, _word: Any) -> Any:
    def code(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        # The flag 1: the word is never 0, so LLVM need not define the result for that case.
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return numba.types.int64(numba.types.uint64), code


def _counting_down(_typing: Any, _word: Any) -> Any:
    def code(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        # ``ctlz`` counts the zeros above the highest bit. If that is bit 2, there are 61 of them,
        # and 63 - 61 is 2.
        above = builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 1))
        return builder.sub(ir.Constant(_WORD, 63), above)

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


# ``numba_compiler`` finds these by the name of the Python function that they replace.
load8: Final[Any] = intrinsic(_loading)
store2: Final[Any] = intrinsic(_storing(ir.IntType(16)))
store4: Final[Any] = intrinsic(_storing(ir.IntType(32)))
store8: Final[Any] = intrinsic(_storing(_WORD))
move32: Final[Any] = intrinsic(_moving)
marks64: Final[Any] = intrinsic(_marking)
first_mark: Final[Any] = intrinsic(_counting)
last_mark: Final[Any] = intrinsic(_counting_down)
text_marks: Final[Any] = intrinsic(_text)
value_marks: Final[Any] = intrinsic(_value)
string_marks: Final[Any] = intrinsic(_string)
escape_marks: Final[Any] = intrinsic(_escape)
name_end_marks: Final[Any] = intrinsic(_name_end)
control_marks64: Final[Any] = intrinsic(_control)
high_marks64: Final[Any] = intrinsic(_high)
