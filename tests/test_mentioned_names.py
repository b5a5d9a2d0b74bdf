"""Names of modules, functions and classes in docstrings, comments and pages belong to something that exists."""

from __future__ import annotations

import ast
import builtins
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from parsed_sources import SOURCES_GROUP, trees

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "src/trailgate"
# Pages whose text is about former names, or that are made from data.
PAST = re.compile(r"docs/decisions/|CHANGELOG|docs/conformance|docs/assumptions")
# The pages whose names of classes are ours; others name those of formats and of other tools.
OURS = ("CONTRIBUTING.md", "docs/architecture.md", "docs/api.md")

# `name()`, `name(...)`, `folder/name.py`, `package.module`, each in one or two backticks.
QUOTED = re.compile(r"(?<!`)(`{1,2})([^`\n]+)\1(?!`)")
CALL = re.compile(r"(?:[\w.]*\.)?([A-Za-z_]\w*)\((?:\.\.\.|…)?\)")
MODULE = re.compile(r"(?:[\w-]+/)+[\w-]+\.py")
DOTTED = re.compile(r"trailgate(?:\.[A-Za-z_]\w*)+")
CLASS = re.compile(r"[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]*)+")
MODULES = frozenset(path.stem for path in SOURCES.rglob("*.py")) | frozenset(
    path.name for path in SOURCES.rglob("*") if path.is_dir()
)


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the docstrings and comments of a module, each with its line."""
    for node in ast.walk(trees()[path]):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            text = ast.get_docstring(node, clean=False)
            if text is not None:
                yield node.body[0].lineno, text
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


@cache
def identifiers() -> frozenset[str]:
    """Return all names that the code of the product, of its tests and benchmarks uses: its own, and those of its libraries."""
    names = set(dir(builtins))
    for folder in ("src", "tests", "benchmarks", "tools"):
        for path in (ROOT / folder).rglob("*.py"):
            for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
                if token.type == tokenize.NAME:
                    names.add(token.string)
    return frozenset(names)


ERROR = re.compile(r"\b[A-Z]\w*[a-z]Error\b")


def missing(text: str, classes: bool = True) -> Iterator[str]:
    """Yield the names in a text that nothing has."""
    for match in QUOTED.finditer(text):
        word = match[2].strip()
        if call := CALL.fullmatch(word):
            if call[1] not in identifiers():
                yield word
        elif classes and CLASS.fullmatch(word):
            if word not in identifiers():
                yield word
        elif DOTTED.fullmatch(word):
            if word.rpartition(".")[2] not in identifiers() | MODULES:
                yield word
        elif MODULE.fullmatch(word) and not any(
            (base / word).exists() for base in (ROOT, ROOT / "src", SOURCES)
        ):
            yield word


@SOURCES_GROUP
def test_names_in_docstrings_and_comments_exist() -> None:
    wrong = [
        f"{path.relative_to(SOURCES)}:{line}: {word}"
        for path in sorted(SOURCES.rglob("*.py"))
        for line, text in texts(path)
        for word in (*missing(text), *set(ERROR.findall(text)).difference(identifiers()))
    ]
    assert wrong == []


@SOURCES_GROUP
def test_names_in_pages_exist() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    wrong = [
        f"{path.relative_to(ROOT)}: {word}"
        for path in sorted(pages)
        if not PAST.search(str(path.relative_to(ROOT)))
        for word in missing(path.read_text(), classes=str(path.relative_to(ROOT)) in OURS)
    ]
    assert wrong == []


@SOURCES_GROUP
def test_a_name_that_nothing_has_is_found() -> None:
    text = "See `located(...)`, ``trail/nowhere.py``, `NoSuchClassAnywhere` and `len()`."
    text = text.replace("NoSuch", "No" + "Such").replace("located", "loca" + "tedd")
    assert [*missing(text)] == ["locatedd(...)", "trail/nowhere.py", "NoSuchClassAnywhere"]
