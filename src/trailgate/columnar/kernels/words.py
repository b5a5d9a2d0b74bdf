"""Eight bytes read or written at once, at any place: the one trick of LLVM that copying loops use.

numba has no unaligned access to an array of bytes, and LLVM does not merge eight byte accesses into one. ``load8`` and
``store8`` emit that one instruction; gathering short values is four to eight times as fast with it. They check nothing: the
caller proves that ``at + 8 <= len(data)``. Under NUMBA_DISABLE_JIT and NUMBA_BOUNDSCHECK, plain loops
over the same bytes take their place, so that bounds are checked there.

numba's cache does not see changes of this file: clear the cache after one.
"""

from __future__ import annotations

from typing import Any, Final

import numba
import numpy as np
from numba.extending import intrinsic

from trailgate.columnar.kernels.compiled import inner

SPARE: Final = 16  # bytes by which copies in words may run over the end of what they write


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


def _pointer(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    word = context.get_value_type(numba.types.uint64).as_pointer()
    return builder.bitcast(builder.gep(array.data, [arguments[1]]), word)


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


_CHECKED: Final = bool(numba.config.DISABLE_JIT or numba.config.BOUNDSCHECK)
load8: Final[Any] = _load8_plain if _CHECKED else intrinsic(_loading)
store8: Final[Any] = _store8_plain if _CHECKED else intrinsic(_storing)
