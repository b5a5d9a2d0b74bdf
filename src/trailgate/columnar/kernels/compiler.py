"""Adjust numba's compiler for kernels: cache fingerprints, unsigned indexes, and a few instructions of our own.

- Fingerprints: numba's cache on disk only compares the kernel's own file. So the name of a kernel
  ends with a fingerprint of all code that it consists of.
- Unsigned indexes: a negative index in Python counts from the end, so numba tests every index and
  adds the length of the array if it is negative. Kernels never use negative indexes (with
  ``NUMBA_BOUNDSCHECK`` one is an error, like an index beyond the end). Without the tests some loops
  take a third less time. A compiler pass therefore converts every index to an unsigned number.
- Instructions that numba cannot express, such as comparing 64 bytes at once, are emitted as LLVM
  code. Module ``words`` defines the same functions in Python.
"""

from __future__ import annotations

import hashlib
import pkgutil
from collections.abc import Callable, Iterator
from functools import cache
from types import FunctionType
from typing import Any, Final

import numba
from llvmlite import ir
from numba.core import ir as numba_ir
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.typed_passes import NopythonTypeInference
from numba.extending import intrinsic

_KERNELS: Final = "trailgate.columnar.kernels"
_COMPILER: Final = ("compiled.py", "compiler.py")
_CONSTANTS: Final = (bool, int, float, str, bytes, tuple)

_NAMES: Final = ("unsigned", "index")

_WORD: Final = ir.IntType(64)


def fingerprint(function: Callable[..., Any], mark: str) -> str:
    """Return a digest of everything that a kernel is compiled from.

    That is the kernel, the functions with this ``mark`` that it calls, the constants that they
    name, and the compiler modules.
    """
    digest = hashlib.sha256(_compiler())
    for part in sorted(set(_parts(function, mark, set()))):
        digest.update(part.encode())
    return digest.hexdigest()


@cache
def _compiler() -> bytes:
    checked = bytes([bool(numba.config.BOUNDSCHECK)])
    sources = (pkgutil.get_data(_KERNELS, name) for name in _COMPILER)
    return checked + b"".join(source or b"" for source in sources)


def _parts(function: Callable[..., Any], mark: str, seen: set[int]) -> Iterator[str]:
    if id(function) in seen:
        return
    seen.add(id(function))
    assert isinstance(function, FunctionType)
    code = function.__code__
    yield repr((code.co_code, code.co_consts, code.co_names, code.co_varnames))
    for name in code.co_names:
        value: Any = function.__globals__.get(name)
        if hasattr(value, mark):
            yield from _parts(value, mark, seen)
        elif isinstance(value, _CONSTANTS):
            yield repr((name, value))


def _unsigned(_typing: Any, index: Any) -> Any:
    """Return an integer as an unsigned one with the same bits, and anything else unchanged."""
    signed = isinstance(index, numba.types.Integer) and index.signed
    result_type = numba.types.uintp if signed else index

    def code(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        if not signed:
            return arguments[0]
        wide = context.cast(builder, arguments[0], index, numba.types.intp)
        return context.cast(builder, wide, numba.types.intp, numba.types.uintp)

    return result_type(index), code


UNSIGNED: Final = intrinsic(_unsigned)


@register_pass(mutates_CFG=False, analysis_only=False)
class UnsignedIndexes(FunctionPass):  # type: ignore[misc]  # numba has no types
    """Makes every index that is read or written an unsigned number."""

    _name = "unsigned_indexes"

    def __init__(self) -> None:
        FunctionPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        """Change the statements of the function. Return whether any were changed."""
        for block in state.func_ir.blocks.values():
            block.body = [each for statement in block.body for each in _change(statement, block)]
        return True


def _change(statement: Any, block: Any) -> list[Any]:
    place = statement.value if isinstance(statement, numba_ir.Assign) else statement
    if not (
        isinstance(place, numba_ir.SetItem)
        or (isinstance(place, numba_ir.Expr) and place.op == "getitem")
    ):
        return [statement]
    function, index = (block.scope.redefine(f"${name}", statement.loc) for name in _NAMES)
    called = numba_ir.Expr.call(function, [place.index], (), statement.loc)
    named = numba_ir.Assign(
        numba_ir.Global("UNSIGNED", UNSIGNED, statement.loc), function, statement.loc
    )
    place.index = index
    return [named, numba_ir.Assign(called, index, statement.loc), statement]


class KernelCompiler(CompilerBase):  # type: ignore[misc]  # numba has no types
    """numba's compiler with unsigned indexes."""

    def define_pipelines(self) -> list[Any]:
        """Return numba's passes, with ours before type inference."""
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        at = next(n for n, (each, _) in enumerate(passes.passes) if each is NopythonTypeInference)
        passes.passes.insert(at, (UnsignedIndexes, UnsignedIndexes.__doc__))
        passes.finalize()
        return [passes]


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
    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        loaded = _load(context, builder, signature, arguments, 64)
        equal = builder.icmp_unsigned("==", loaded, _splatted(builder, arguments[2], 64))
        return builder.bitcast(equal, _WORD)

    return numba.types.uint64(data, at, numba.types.uint8), code


def _splat(byte: int, width: int) -> ir.Constant:
    return ir.Constant(ir.VectorType(ir.IntType(8), width), [byte] * width)


def _any_of(builder: Any, loaded: Any, width: int, wanted: bytes, below: int = 0) -> Any:
    """Return a word with a bit for each byte that is in ``wanted`` or lower than ``below``."""
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
    """Return a vector with all lanes set to a byte that is only known at run time."""
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
        return _any_of(builder, loaded, 16, b"/>=", below=33)

    return numba.types.uint64(data, at), code


def _control(_typing: Any, data: Any, at: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        loaded = _load(context, builder, signature, arguments, 64)
        blanks = _any_of(builder, loaded, 64, b"\t\n\r")
        controls = builder.icmp_unsigned("<", loaded, _splat(32, 64))
        return builder.and_(builder.bitcast(controls, _WORD), builder.not_(blanks))

    return numba.types.uint64(data, at), code


def _high(_typing: Any, data: Any, at: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        loaded = _load(context, builder, signature, arguments, 64)
        return builder.bitcast(builder.icmp_signed("<", loaded, _splat(0, 64)), _WORD)

    return numba.types.uint64(data, at), code


def _counting(_typing: Any, _word: Any) -> Any:
    def code(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return numba.types.int64(numba.types.uint64), code


def _counting_down(_typing: Any, _word: Any) -> Any:
    def code(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
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
