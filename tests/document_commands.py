"""The commands of documents: found in their blocks, and run as they are printed."""

from __future__ import annotations

import io
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent
from typing import Final

import pytest

from trailgate.cli.main import run

BLOCK: Final = re.compile(r"^ *```\w*\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
# Blocks that need a server, or a network: tests/brokers/test_howtos.py and others run these of how-to pages.
ELSEWHERE: Final = re.compile(
    r"\b(?:stomp|amqp|kafka|s3|abfs)://|--master|pip install|\bmake |trailgate browse"
)
PROGRAMS: Final = ("trailgate", "mkdir", "cat", "echo", "cp", "printf")


def blocks(path: Path) -> Iterator[str]:
    """Yield the blocks of a document, without their indentation."""
    for found in BLOCK.findall(path.read_text()):
        text = dedent(found).strip("\n")
        if text:
            yield text


def is_shell(block: str) -> bool:
    return block.removeprefix("$ ").partition(" ")[0] in PROGRAMS


def statements(block: str, *, every: bool = False) -> Iterator[str]:
    """Yield the statements of a block, one with a here document as a whole; ``every`` program counts, or those of PROGRAMS."""
    lines = iter(block.splitlines())
    for line in lines:
        statement = line.removeprefix("$ ")
        if "<<'END'" in line:
            while (more := next(lines)) != "END":
                statement += f"\n{more}"
            statement += "\nEND"
        if block.startswith("$ ") and not line.startswith("$ "):
            continue  # what the command prints
        if every or is_shell(statement):  # a block may go on in Python
            yield statement


def plain(statement: str) -> list[str] | None:
    """Return the words of a command of ours; None where only a shell understands the statement."""
    if not statement.startswith("trailgate") or re.search(
        r"[|<>;&]", re.sub(r"'[^']*'", "", statement)
    ):
        return None
    return shlex.split(statement, comments=True)[1:]


@contextmanager
def patched_stdin() -> Iterator[None]:
    """Let standard input be empty."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", io.StringIO())
        yield


def obeyed(statement: str) -> None:
    """Run a statement, here where it is one command of ours; of several that ``&&`` joins, each."""
    first, also, others = statement.partition(" && ")
    if also and "<<" not in statement:
        obeyed(first)
        obeyed(others)
        return
    words = plain(statement)
    # The session of other tests does not know the environment that a store is named in.
    apart = "--master" in statement and "s3://" in statement
    if words is not None and not apart:
        with patched_stdin():
            code = run(words)
        assert code == 0, statement
        return
    script = f'set -e\ntrailgate() {{ "{sys.executable}" -m trailgate "$@"; }}\n{statement}'
    done = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (statement, done.stderr)


def server_statements(path: Path) -> Iterator[str]:
    """Yield the commands of ours in the blocks of a document that need a server."""
    for block in blocks(path):
        if ELSEWHERE.search(block):
            yield from (one for one in statements(block) if one.startswith("trailgate "))


def obeyed_elsewhere(path: Path) -> None:
    """Run all statements of a document's shell blocks that need no server."""
    for block in blocks(path):
        if not ELSEWHERE.search(block):
            for statement in statements(block):
                obeyed(statement)


def program_of(statement: str) -> list[str]:
    """Return the words of a command of ours, as a process of its own is started."""
    return [sys.executable, "-m", *shlex.split(statement, comments=True)]
