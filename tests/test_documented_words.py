"""What the documents quote exists: each command line is one that the program takes, and each error in troubleshooting.md is in the sources."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Final

import pytest
import yaml

from document_commands import blocks
from parsed_sources import SOURCES_GROUP, nodes
from trailgate.cli.main import ALIASES, _rename, program_for

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TROUBLESHOOTING: Final = ROOT / "docs/howto/troubleshooting.md"
OURS: Final = re.compile(r"^(?:.*=/\S*/| *(?:\$ |- )?)(trailgate(?: .*|$))$", re.MULTILINE)
# Errors of other programs, and words for groups of errors.
FOREIGN: Final = frozenset(
    {
        "DATA_SOURCE_NOT_FOUND: trail",
        "Broken pipe",
        "externally-managed-environment",
        "NUMBA_CACHE_DIR",
    }
)


def command_lines(page: Path) -> Iterator[str]:
    """Yield the command lines in a page's blocks, those that need a broker or a network too."""
    for block in blocks(page):
        joined = block.replace("\\\n", " ")
        for line in OURS.findall(joined):
            quoted = re.sub(r"'[^']*'|\"[^\"]*\"", lambda found: "_" * len(found[0]), line)
            end = re.search(r" (?:[|&>]|2>|<<)", quoted)
            yield line[: end.start()] if end else line


PARSED: Final = [(page, line) for page in PAGES for line in dict.fromkeys(command_lines(page))]


def parse(line: str) -> None:
    """Parse a command line without running it; raises UsageError, or Exit for --help and --version."""
    words = shlex.split(line, comments=True)[1:]
    if not words:
        return
    program = program_for(words)
    own = _rename(words, ALIASES.get(words[0], {}))
    try:
        context = program.make_context("trailgate", own)
        name, command, rest = program.resolve_command(context, own)
        command.make_context(name, rest, parent=context)
    except Exception as error:
        if type(error).__name__ != "Exit":
            raise


@pytest.mark.parametrize(
    ("page", "line"), PARSED, ids=[f"{page.stem}-{line[10:60]}" for page, line in PARSED]
)
def test_a_command_line_of_the_documents_is_accepted(page: Path, line: str) -> None:
    parse(line)


def test_a_wrong_command_line_is_noticed() -> None:
    with pytest.raises(Exception, match="is not one of"):
        parse("trailgate journal dirdat/rt")


@cache
def strings_of_sources() -> tuple[str, ...]:
    """Return the strings of the sources; each replacement field of an f-string is a NUL."""
    found = []
    for node in chain(*nodes()):
        if isinstance(node, ast.JoinedStr):
            parts = (one.value if isinstance(one, ast.Constant) else "\0" for one in node.values)
            found.append("".join(map(str, parts)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append(node.value)
    return tuple(found)


def quoted_errors() -> list[str]:
    rows = re.findall(r"^\| ([^|]*) \|", TROUBLESHOOTING.read_text(), re.MULTILINE)
    quoted = [one for row in rows for one in re.findall(r"`([^`]+)`", row)]
    return [one for one in quoted if " " in one and not one.startswith("trailgate ")]


@SOURCES_GROUP
@pytest.mark.parametrize("quoted", quoted_errors())
def test_a_quoted_error_is_in_the_sources(quoted: str) -> None:
    if quoted in FOREIGN:
        return
    for fragment in quoted.split("..."):
        assert any(fragment.strip(" ,") in one for one in strings_of_sources()), fragment


@pytest.mark.parametrize("language", ["yaml", "py"])
def test_blocks_for_other_programs_are_well_formed(language: str) -> None:
    """They are not run, since they need a cluster or a scheduler."""
    found = [
        text
        for page in PAGES
        for text in re.findall(
            rf"^```{language}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL
        )
    ]
    for text in found:
        if language == "py":
            ast.parse(text)
        else:
            list(yaml.safe_load_all(text))

    assert found
