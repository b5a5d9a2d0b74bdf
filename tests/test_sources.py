"""Rules of the sources that no linter has."""

from __future__ import annotations

import ast
from itertools import chain

from parsed_sources import SOURCES_GROUP, nodes, trees


@SOURCES_GROUP
def test_constructors_of_many_values_are_called_with_keywords() -> None:
    classes = {node.name for node in chain(*nodes()) if isinstance(node, ast.ClassDef)}
    wrong = [
        f"{path.name}:{node.lineno}: {node.func.id} has {len(node.args)} positional arguments"
        for path, found in zip(trees(), nodes(), strict=True)
        for node in found
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in classes
        and len(node.args) > 5
    ]
    assert wrong == []


@SOURCES_GROUP
def test_public_classes_have_names_of_their_own() -> None:
    places: dict[str, list[str]] = {}
    for path, found in zip(trees(), nodes(), strict=True):
        for node in found:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(str(path))
    shared = {name: paths for name, paths in places.items() if len(paths) > 1}
    assert shared == {}
