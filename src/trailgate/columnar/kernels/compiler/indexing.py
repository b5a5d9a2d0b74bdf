"""Indexes of compiled kernels without a test of their sign.

Python counts a negative index from the end, so numba tests each one and adds the array's length where it is negative. Kernels never
have one: with ``NUMBA_BOUNDSCHECK`` it is an error, as is one beyond the end. Without the tests some loops need a third less time.
"""

from __future__ import annotations

from typing import Any, Final

import numba
from numba.core import ir
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.typed_passes import NopythonTypeInference
from numba.extending import intrinsic


def _unsigned(_typing: Any, index: Any) -> Any:
    """Return an integer as an unsigned one of the same bits; anything else as it is."""
    signed = isinstance(index, numba.types.Integer) and index.signed
    found = numba.types.uintp if signed else index

    def code(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        if not signed:
            return arguments[0]
        wide = context.cast(builder, arguments[0], index, numba.types.intp)
        return context.cast(builder, wide, numba.types.intp, numba.types.uintp)

    return found(index), code


UNSIGNED: Final = intrinsic(_unsigned)
_NAMES: Final = ("unsigned", "index")


@register_pass(mutates_CFG=False, analysis_only=False)
class UnsignedIndexes(FunctionPass):  # type: ignore[misc]  # numba has no types
    """Makes each index that is read or written at an unsigned number."""

    _name = "unsigned_indexes"

    def __init__(self) -> None:
        FunctionPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        """Change the function's statements; return whether any did."""
        for block in state.func_ir.blocks.values():
            block.body = [each for statement in block.body for each in _changed(statement, block)]
        return True


def _changed(statement: Any, block: Any) -> list[Any]:
    place = statement.value if isinstance(statement, ir.Assign) else statement
    if not (
        isinstance(place, ir.SetItem) or (isinstance(place, ir.Expr) and place.op == "getitem")
    ):
        return [statement]
    function, index = (block.scope.redefine(f"${name}", statement.loc) for name in _NAMES)
    called = ir.Expr.call(function, [place.index], (), statement.loc)
    named = ir.Assign(ir.Global("UNSIGNED", UNSIGNED, statement.loc), function, statement.loc)
    place.index = index
    return [named, ir.Assign(called, index, statement.loc), statement]


class KernelCompiler(CompilerBase):  # type: ignore[misc]  # numba has no types
    """numba's compiler with unsigned indexes."""

    def define_pipelines(self) -> list[Any]:
        """Return numba's passes, and ours before types are found."""
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        at = next(n for n, (each, _) in enumerate(passes.passes) if each is NopythonTypeInference)
        passes.passes.insert(at, (UnsignedIndexes, UnsignedIndexes.__doc__))
        passes.finalize()
        return [passes]
