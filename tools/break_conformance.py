"""Break the behaviour that conformance rows state, and see whether the rows' tests notice.

    .venv/bin/python tools/break_conformance.py [--seed 7] [--rows 10] [--changes 3] [--row ID]

Rows that hold are chosen by the seed. The lines of ``src/trailgate`` that a row's tests run are collected, then one of them at a time is
changed in a copy: a comparison or a condition negated, ``and`` for ``or``, another constant, None for what a function returns. Lines that few
of the chosen rows run are likelier. A change is killed where a test of the row fails or takes too long; one that survives may be the same
behaviour in other words, or a gap between the row and its tests. Loops run as plain Python. The exit code is 1 where a change survived.
"""

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
from conformance.statements import ORDER, Statement, read_documents  # noqa: E402

COLLECTOR = """\
import json, os, sys, threading
import pytest

SOURCE, FOUND = os.environ["BREAK_SOURCE"] + os.sep, set()

def local(frame, event, arg):
    if event == "line":
        FOUND.add((frame.f_code.co_filename, frame.f_lineno))
    return local

def trace(frame, event, arg):
    return local if frame.f_code.co_filename.startswith(SOURCE) else None

@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    sys.settrace(trace)
    threading.settrace(trace)
    yield
    sys.settrace(None)
    threading.settrace(None)

def pytest_sessionfinish(session):
    with open(os.environ["BREAK_LINES"], "w") as file:
        json.dump(sorted((name.removeprefix(SOURCE), line) for name, line in FOUND), file)
"""
OTHER: dict[type[ast.cmpop], type[ast.cmpop]] = {
    one: other
    for pair in (
        (ast.Eq, ast.NotEq),
        (ast.Lt, ast.GtE),
        (ast.Gt, ast.LtE),
        (ast.Is, ast.IsNot),
        (ast.In, ast.NotIn),
    )
    for one, other in (pair, pair[::-1])
}
Lines = set[tuple[str, int]]


class Change(NamedTuple):
    """An expression of a module, and what stands there instead."""

    path: str
    line: int
    start: int
    end: int
    old: str
    new: str


def changes_of(path: str, source: str) -> Iterator[Change]:
    """Return each change of a module; strings of errors, of notes and of annotations stay."""
    starts = [0]
    for text in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(text))
    for node, other in _others(ast.parse(source)):
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        new = ast.unparse(other)
        yield Change(path, node.lineno, start, end, ast.unparse(node), f"({new})")


def _others(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    stays = isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr)
    if stays or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
        return
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("Error", "warn", "note")):
        return
    if isinstance(node, ast.If | ast.While | ast.IfExp) and not isinstance(node.test, ast.Compare):
        yield node.test, ast.UnaryOp(ast.Not(), node.test)
    if isinstance(node, ast.Return) and node.value and not isinstance(node.value, ast.Constant):
        yield node.value, ast.Constant(None)
    if isinstance(node, ast.expr) and (other := _other(node)):
        yield node, other
    for name, field in ast.iter_fields(node):
        for child in field if isinstance(field, list) else [field]:
            if isinstance(child, ast.AST) and name not in {"annotation", "returns"}:
                yield from _others(child)


def _other(node: ast.expr) -> ast.expr | None:
    match node:
        case ast.Compare(left, [one], right):
            return ast.Compare(left, [OTHER[type(one)]()], right)
        case ast.BoolOp(op, values):
            return ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.Constant(int(value)):
            return ast.Constant(not value if isinstance(value, bool) else value + 1)
        case ast.Constant(str(value)):
            return ast.Constant(value + "~")
        case ast.Constant(bytes(value)):
            return ast.Constant(value + b"~")
        case _:
            return None


class Copy:
    """A copy of the source in a folder of its own, in which tests run."""

    def __init__(self, folder: Path, seconds: float) -> None:
        self.source, self.lines, self.seconds = folder / "src", folder / "lines.json", seconds
        shutil.copytree(ROOT / "src", self.source, ignore=shutil.ignore_patterns("__pycache__"))
        (folder / "break_lines.py").write_text(COLLECTOR)
        given = {"BREAK_SOURCE": str(self.source), "BREAK_LINES": str(self.lines)}
        paths = os.pathsep.join((str(self.source), str(folder)))
        alone = {"TRAILGATE_LOOPS": "plain", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": paths}
        self.names = os.environ | alone | given

    def passes(self, tests: tuple[str, ...], *options: str) -> bool:
        """Return whether all tests pass in time."""
        # pyproject.toml puts src first on the path.
        here = ["-p", "no:cacheprovider", "-o", f"pythonpath={self.source} tests"]
        command = [sys.executable, "-m", "pytest", "-q", "-x", *here, *options]
        try:
            ran = subprocess.run(
                [*command, *tests],
                cwd=ROOT,
                env=self.names,
                capture_output=True,
                timeout=self.seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return False
        return ran.returncode == 0

    def lines_of(self, tests: tuple[str, ...]) -> Lines:
        """Return the lines that tests run; none where they do not pass."""
        if not self.passes(tests, "-p", "break_lines"):
            return set()
        return {(path, line) for path, line in json.loads(self.lines.read_text())}

    def survives(self, change: Change, tests: tuple[str, ...]) -> bool:
        """Return whether the tests pass all the same with a change."""
        path = self.source / change.path
        whole = path.read_bytes()
        path.write_bytes(whole[: change.start] + change.new.encode() + whole[change.end :])
        try:
            return self.passes(tests)
        finally:
            path.write_bytes(whole)


def main() -> int:
    """Try the rows; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--rows", type=int, default=10)
    parser.add_argument("--changes", type=int, default=3, help="changes a row")
    parser.add_argument("--seconds", type=float, default=60, help="the time that tests may take")
    parser.add_argument("--row", help="the id of a row, instead of rows chosen by the seed")
    given = parser.parse_args()
    rows = [
        (f"{name}: {one.id}", one)
        for name, document in zip(ORDER, read_documents(), strict=True)
        for one in document.statements
        if (one.id == given.row if given.row else one.state == "holds")
    ]
    chosen = rows if given.row else random.Random(given.seed).sample(rows, given.rows)  # noqa: S311
    with tempfile.TemporaryDirectory() as folder:
        return _tried(Copy(Path(folder), given.seconds), chosen, given.changes, given.seed)


def _tried(own: Copy, rows: list[tuple[str, Statement]], count: int, seed: int) -> int:
    run = {name: own.lines_of(one.tests) for name, one in rows}
    shared = Counter(line for lines in run.values() for line in lines)
    survived = 0
    for name, one in rows:
        print(f"{name}: {one.text}" + ("" if run[name] else ": ITS TESTS DO NOT PASS"), flush=True)
        survived += not run[name]
        found = [
            change
            for path in sorted({path for path, _ in run[name]})
            for change in changes_of(path, (own.source / path).read_text())
            if (path, change.line) in run[name]
        ]
        chance = random.Random(f"{seed} {name}")  # noqa: S311
        # Each has a number from 0 to 1 that is the nearer to 1 the fewer rows run its line.
        found.sort(key=lambda each: -(chance.random() ** (shared[each.path, each.line] ** 2)))
        for each in found[:count]:
            lives = own.survives(each, one.tests)
            survived += lives
            what = f"{each.path}:{each.line}: {each.old} -> {each.new}"
            print(f"  {'SURVIVED' if lives else 'killed'} {what}", flush=True)
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
