"""Unsigned indexes: rewrite a function so that each of its indexes is converted to an unsigned number.

A negative index in Python counts from the end, so numba tests every index and adds the length of the
array if it is negative. Kernels never use negative indexes (with ``NUMBA_BOUNDSCHECK`` one is an
error, like an index beyond the end). Without the tests some loops take a third less time.

    data[at + 1]    becomes    data[unsigned(at + 1)]
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from types import FunctionType
from typing import Any, Final

import numba
from numba.extending import intrinsic

_NAME: Final = "unsigned"


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


class _Indexes(ast.NodeTransformer):
    """Wraps each index in a call of ``unsigned``, but not constants: ``ends[-1]`` stays the last element."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        # Inner subscripts first, as in ``data[starts[row]]``.
        self.generic_visit(node)
        if not isinstance(node.slice, ast.Slice) and not _is_constant(node.slice):
            node.slice = ast.Call(ast.Name(_NAME, ast.Load()), [node.slice], [])
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        # Only the target and the value. The annotation may have a subscript that is not an index,
        # such as ``NDArray[np.int64]``.
        node.target = self.visit(node.target)
        node.value = node.value and self.visit(node.value)
        return node


def _is_constant(node: ast.expr) -> bool:
    # Python parses -1 as a minus sign and the constant 1.
    return isinstance(node.operand if isinstance(node, ast.UnaryOp) else node, ast.Constant)


def with_unsigned_indexes(function: FunctionType, names: dict[str, Any]) -> FunctionType:
    """Return a copy of a function with unsigned indexes, in which ``names`` replace its globals.

    If the source of the function cannot be read, its indexes stay as they are.
    """
    code = function.__code__
    known = {**function.__globals__, **names, _NAME: UNSIGNED}
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except OSError:
        return FunctionType(code, known, function.__name__, function.__defaults__)
    (definition,) = tree.body
    assert isinstance(definition, ast.FunctionDef)
    # With its decorator the new function would become a kernel again. Without annotations, the
    # visitor finds only subscripts that are indexes.
    definition.decorator_list, definition.returns = [], None
    for argument in definition.args.args:
        argument.annotation = None
    changed = ast.fix_missing_locations(_Indexes().visit(tree))
    # The source was parsed on its own, from line 1. Move it to its lines in the file, which numba
    # states in its messages.
    ast.increment_lineno(changed, code.co_firstlineno - 1)
    defined: dict[str, Any] = {}
    exec(compile(changed, code.co_filename, "exec"), known, defined)  # noqa: S102  our own source
    rewritten: FunctionType = defined[function.__name__]
    return rewritten
