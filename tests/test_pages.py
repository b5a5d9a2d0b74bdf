"""The examples of the README, the tutorials and the how-to pages run, and print what the pages show.

A page is run from its top in an empty folder: blocks of ``sh`` as a whole, blocks of ``console`` command by command, blocks of ``python`` in one namespace.
What a page shows as output, in a block of ``console`` or in a block of ``text`` after one of ``python``, is compared.
``python tests/test_pages.py`` writes it anew.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Final, NamedTuple

import pytest

import trailgate.spark
from document_commands import ELSEWHERE, obeyed, statements
from trailgate.cli.commands.demo import unpack
from trailgate.cli.main import run
from trailgate.storage.writing import file_headers

DOCS: Final = Path(__file__).parents[1] / "docs"
README: Final = DOCS.parent / "README.md"
PAGES: Final = [*sorted([*DOCS.glob("tutorials/*.md"), *DOCS.glob("howto/*.md")]), README]
BLOCK: Final = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# What a file header has of the machine decides where the first record begins.
MACHINE: Final = os.uname_result(("Linux", "shop", "6.1", "1", "x86_64"))
CAPTURE: Final = ("capture", "--properties", "dirprm/shop.properties")
STREAM: Final = re.compile(r"readStream|writeStream|kafka|dbfs|saveAsTable")


class Block(NamedTuple):
    """A block of a page: its language, its text, and where that is."""

    language: str
    text: str
    begin: int
    end: int


def blocks(page: str) -> list[Block]:
    return [Block(one[1], one[2], one.start(2), one.end(2)) for one in BLOCK.finditer(page)]


def needs_spark(block: Block) -> bool:
    return block.language == "python" and "spark" in block.text


@contextmanager
def as_on_one_machine(uri: str = "uri:shop::demo") -> Iterator[None]:
    """Let trails and tables be as on a machine of fixed names, on a terminal of 80 columns."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "uname", lambda: MACHINE)
        patch.setattr(file_headers, "_uri", lambda *_: uri)
        patch.setattr("sys.stdin", io.StringIO())
        patch.setenv("COLUMNS", "80")
        yield


def printed(words: list[str]) -> str:
    """Return what a command of ours prints, its errors too: pages show some."""
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        run(words)
    return out.getvalue()


def console(text: str) -> str:
    """Return a block of console with what its commands print now."""
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            words = shlex.split(line[2:], comments=True)
            assert words[0] == "trailgate", line
            lines += [line, *(one.rstrip() for one in printed(words[1:]).splitlines())]
    return "".join(f"{line}\n" for line in lines)


def python(text: str, names: dict[str, object]) -> str:
    """Return what a block of Python prints."""
    out = io.StringIO()
    with redirect_stdout(out):
        exec(compile(text, "page", "exec"), names)
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


def given(path: Path) -> None:
    """Make the trail that the README begins with."""
    if path == README:
        unpack(Path())
        printed([*CAPTURE, "--from", "messages", "--to", "dirdat/ot", "--update-befores"])


def replayed(page: str, names: dict[str, object] | None = None) -> str:
    """Return a page with what its examples print now; with ``names`` also those that need a Spark session."""
    own: dict[str, object] = {} if names is None else names
    said, at, result = "", 0, ""
    for block in blocks(page):
        text, before = block.text, said
        said = ""
        if ELSEWHERE.search(text) or STREAM.search(text):
            continue
        if block.language == "sh":
            for statement in statements(text, every=True):
                obeyed(statement)
        elif block.language == "console":
            text = console(text)
        elif block.language == "python" and (names is not None or not needs_spark(block)):
            # The session was started in another folder.
            said = python(text.replace('load("demo/', f'load("{Path.cwd()}/demo/'), own)
        elif block.language == "text" and before:
            text = before
        result += page[at : block.begin] + text
        at = block.end
    return result + page[at:]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_the_examples_of_a_page_print_what_it_shows(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = path.read_text()

    with as_on_one_machine():
        given(path)
        assert replayed(page) == page


def test_the_readme_shows_the_same_rows_of_a_trail_in_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The header of a file holds its folder, so positions differ from one folder to another."""
    monkeypatch.chdir(tmp_path)
    position = re.compile(r"^\d+:\d+ +", re.MULTILINE)
    page = README.read_text()

    with as_on_one_machine("uri:server-42.example.com::home:someone:a-longer-folder:demo"):
        given(README)
        found = replayed(page)

    assert found != page
    assert position.sub("", found) == position.sub("", page)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_page_begins_with_a_sentence_and_an_example(path: Path) -> None:
    title, sentence, *_ = path.read_text().split("\n\n")
    first = blocks(path.read_text())[0]

    assert title.startswith("# ")
    assert re.match(r"[A-Z`].*[.:]$", sentence, re.DOTALL), sentence
    assert not ELSEWHERE.search(first.text), "no test runs the first example"
    assert first.language in {"sh", "console", "python"}


@pytest.mark.parametrize(
    "path",
    [path for path in DOCS.rglob("*.md") if path.parent.name not in {"decisions", "reference"}],
    ids=lambda path: path.relative_to(DOCS).as_posix(),
)
def test_every_page_begins_with_a_sentence(path: Path) -> None:
    title, sentence, *_ = path.read_text().split("\n\n")

    assert title.startswith("# ")
    assert re.match(r"[A-Z`\[].*[.:]$", sentence, re.DOTALL), sentence


def rewrite(path: Path, names: dict[str, object] | None) -> None:
    """Write a page with what its examples print now."""
    with tempfile.TemporaryDirectory() as folder, as_on_one_machine():
        os.chdir(folder)
        given(path)
        path.write_text(replayed(path.read_text(), names))
        os.chdir("/")


if __name__ == "__main__":
    wanted = sys.argv[1:] or [path.stem for path in PAGES]
    for one in PAGES:
        if one.stem in wanted:
            on_spark = any(map(needs_spark, blocks(one.read_text())))
            rewrite(one, {"spark": trailgate.spark.session()} if on_spark else None)
