"""Rules of the sources that no linter has."""

from __future__ import annotations

import ast
from pathlib import Path

SOURCES = Path(__file__).resolve().parent.parent / "src/trailgate"
TREES = {path: ast.parse(path.read_text()) for path in sorted(SOURCES.rglob("*.py"))}
CLASSES = {
    node.name
    for tree in TREES.values()
    for node in ast.walk(tree)
    if isinstance(node, ast.ClassDef)
}


def test_constructors_of_many_values_are_called_with_keywords() -> None:
    wrong = [
        f"{path.relative_to(SOURCES)}:{node.lineno}: {node.func.id} has {len(node.args)} positional arguments"
        for path, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in CLASSES
        and len(node.args) > 5
    ]
    assert wrong == []


def test_public_classes_have_names_of_their_own() -> None:
    places: dict[str, list[str]] = {}
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(str(path.relative_to(SOURCES)))
    shared = {name: paths for name, paths in places.items() if len(paths) > 1}
    assert shared == {}
