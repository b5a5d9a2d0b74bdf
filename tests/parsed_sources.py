"""The product's sources as trees, parsed once: tests that read them are of one xdist group, ``SOURCES_GROUP``, so that one process does it."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import Final

import pytest

SOURCES: Final = tuple(sorted((Path(__file__).parents[1] / "src").rglob("*.py")))
SOURCES_GROUP: Final = pytest.mark.xdist_group("sources")


@cache
def trees() -> dict[Path, ast.Module]:
    """Return the tree of each source."""
    return {path: ast.parse(path.read_text()) for path in SOURCES}


@cache
def nodes() -> tuple[tuple[ast.AST, ...], ...]:
    """Return the nodes of each source."""
    return tuple(tuple(ast.walk(tree)) for tree in trees().values())
