"""No arithmetic with a single byte of an array: numpy keeps it eight bits wide, so that the sum overflows."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).parents[1] / "src" / "trailgate"
BYTES: Final = {"data", "buffer", "raw", "head", "body", "octets"}  # how arrays of bytes are named
# Bits of a byte stay within it.
WIDER: Final = (ast.Add, ast.Sub, ast.Mult, ast.LShift)


def is_byte(node: ast.expr) -> bool:
    """Return whether an expression takes one element of what is named as bytes are."""
    if not isinstance(node, ast.Subscript) or isinstance(node.slice, ast.Slice | ast.Constant):
        return False
    return ast.unparse(node.value).rpartition(".")[2] in BYTES


def sums_of_bytes(text: str) -> Iterator[str]:
    """Yield the arithmetic in a module that takes a byte as it is, not as ``int(...)``."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, WIDER):
            continue
        if is_byte(node.left) or is_byte(node.right):
            yield ast.unparse(node)


def test_sums_of_bytes_are_converted_to_int() -> None:
    # Compiled kernels have integers of 64 bits, and are tried as plain Python as well.
    modules = [path for path in SOURCE.rglob("*.py") if "kernel" not in path.as_posix()]
    found = [sum_ for path in modules for sum_ in sums_of_bytes(path.read_text())]

    assert not found


def test_the_rule_finds_a_byte_that_is_added() -> None:
    assert list(sums_of_bytes("key = source.data[at : at + source.data[at + 4]]"))
    assert not list(sums_of_bytes("key = source.data[at : at + int(source.data[at + 4])]"))
