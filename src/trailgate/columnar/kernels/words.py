"""Many bytes at once: the few instructions that numba cannot express, emitted as LLVM's.

- ``load8`` and ``store8`` read and write eight bytes at any place, ``move32`` copies 32. Gathering short values is four to eight
  times as fast as byte by byte.
- ``marks64`` compares 64 bytes with one byte and returns a bit for each; ``first_mark`` is the place of the lowest bit.
  Finding delimiters is three to five times as fast as byte by byte.

They check nothing: the caller proves that the bytes are within the array. Under NUMBA_DISABLE_JIT and NUMBA_BOUNDSCHECK plain
loops over the same bytes take their place, so that bounds are checked there.

numba's cache does not see changes of this file: clear the cache after one.
"""

from __future__ import annotations

from typing import Any, Final

import numba
import numpy as np
from llvmlite import ir
from numba.extending import intrinsic

from trailgate.arrays import Octets
from trailgate.columnar.kernels.compiled import inner

SPARE: Final = 32  # bytes by which copies in words may run over the end of what they write


_WORD: Final = ir.IntType(64)


def _loading(_typing: Any, data: Any, at: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(_pointer(context, builder, signature, arguments), align=1)

    return numba.types.uint64(data, at), code


def _storing(_typing: Any, data: Any, at: Any, word: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _pointer(context, builder, signature, arguments)
        builder.store(arguments[2], place, align=1)
        return context.get_dummy_value()

    return numba.types.void(data, at, word), code


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


@inner
def _load8_plain(data: Any, at: int) -> Any:
    word = np.uint64(0)
    for byte in range(8):
        word |= np.uint64(data[at + byte]) << np.uint64(8 * byte)
    return word


@inner
def _store8_plain(data: Any, at: int, word: Any) -> None:
    for byte in range(8):
        data[at + byte] = np.uint8((word >> np.uint64(8 * byte)) & np.uint64(0xFF))


@inner
def _move32_plain(out: Any, to: int, data: Any, at: int) -> None:
    for byte in range(32):
        out[to + byte] = data[at + byte]


@inner
def _marks64_plain(data: Any, at: int, byte: int) -> Any:
    found = np.uint64(0)
    for place in range(64):
        if data[at + place] == byte:
            found |= np.uint64(1) << np.uint64(place)
    return found


@inner
def _first_mark_plain(word: Any) -> int:
    place = 0
    while not (word >> np.uint64(place)) & np.uint64(1):
        place += 1
    return place


_CHECKED: Final = bool(numba.config.DISABLE_JIT or numba.config.BOUNDSCHECK)
load8: Final[Any] = _load8_plain if _CHECKED else intrinsic(_loading)
store8: Final[Any] = _store8_plain if _CHECKED else intrinsic(_storing)
move32: Final[Any] = _move32_plain if _CHECKED else intrinsic(_moving)
marks64: Final[Any] = _marks64_plain if _CHECKED else intrinsic(_marking)
first_mark: Final[Any] = _first_mark_plain if _CHECKED else intrinsic(_counting)


@inner
def copy_value(data: Octets, start: int, size: int, out: Octets, at: int) -> None:
    """Copy ``size`` bytes from within the data; writes at most ``SPARE`` bytes too many."""
    if start + size <= len(data) - SPARE:
        move32(out, at, data, start)
        for done in range(32, size, 32):
            move32(out, at + done, data, start + done)
    else:
        for done in range(size):
            out[at + done] = data[start + done]


@inner
def high_bits(data: Octets, size: int) -> int:
    """Return the first ``size`` bytes ored: under 128 where all are ASCII."""
    every = np.uint8(0)
    for at in range(size):
        every |= data[at]
    return int(every)
