"""Errors survive the trip between processes, and places are filled in, never replaced."""

from __future__ import annotations

import inspect
import pickle
import re
import shlex
import sys
import tomllib
from pathlib import Path

import pytest

from trailgate import errors
from trailgate.errors import (
    DecodeError,
    MissingDependencyError,
    TrailgateError,
    Where,
    install_command,
)

KINDS = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, TrailgateError)
]


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_keeps_its_type_and_text_through_pickle(kind: type[TrailgateError]) -> None:
    error = kind("not a number", where=Where("a.dat", offset=4, raw=b"\x01"), hint="Is it packed?")

    back = pickle.loads(pickle.dumps(error))

    assert type(back) is kind
    assert str(back) == str(error)
    assert (back.problem, back.where, back.hint) == (error.problem, error.where, error.hint)


def test_located_fills_only_what_is_unknown() -> None:
    error = DecodeError("bad", where=Where(record=3))

    assert error.with_place(record=9, field="A", unknown=1).where == Where(record=3, field="A")


def test_the_text_holds_place_and_hint() -> None:
    where = Where(
        source="a.dat",
        message=1,
        record=2,
        line=3,
        column=4,
        offset=0,
        table="S.T",
        field="F",
        raw=b"\x0a",
    )

    assert str(DecodeError("bad", where=where, hint="Try")) == (
        "bad (a.dat, message 1, record 2, line 3, column 4, byte 0, table S.T, field F, bytes 0a). Try"
    )
    assert str(DecodeError("bad")) == "bad"
    assert str(Where()) == "unknown place"
    assert "(40 bytes)" in str(Where(raw=bytes(40)))


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"2026-13-05", "text '2026-13-05'"),
        ("Übung".encode(), "text 'Übung', bytes c3 9c 62 75 6e 67"),
        (b"\x12\x34\x5c", "bytes 12 34 5c"),
        (b"\xff", "bytes ff"),
        (b"   ", "bytes 20 20 20"),
        (b"a\tb", r"text 'a\tb', bytes 61 09 62"),
        (b"x" * 100, f"text '{'x' * 60}'... (100 bytes)"),
        (b"ab ", "text 'ab ', bytes 61 62 20"),
        (b"", "no bytes"),
    ],
)
def test_a_value_is_shown_as_text_where_it_is_text(raw: bytes, shown: str) -> None:
    assert str(Where(raw=raw)) == shown


def test_the_hint_of_an_extra_installs_all_its_packages_for_this_python() -> None:
    """They are named themselves: the name of this package need not be on an index."""
    with (Path(__file__).parents[1] / "pyproject.toml").open("rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]

    for extra, packages in extras.items():
        python, *words = shlex.split(install_command(extra))
        assert (python, words[:3]) == (sys.executable, ["-m", "pip", "install"])
        names = [re.split(r"[<>=\[]", word)[0] for word in words[3:]]
        assert names == [re.split(r"[<>=\[]", package)[0] for package in packages]
    assert str(MissingDependencyError.of_extra("Kafka is missing", "kafka")).endswith(
        f"Install it with: {install_command('kafka')}"
    )


def test_no_text_of_ours_installs_this_package_by_its_name() -> None:
    root = Path(__file__).parents[1]
    strings = [root / "README.md", *root.glob("src/**/*.py"), *root.glob("docs/*.md")]

    assert [text for text in strings if "pip install 'trailgate" in text.read_text()] == []


def test_bytes_are_shown_as_the_text_that_is_given() -> None:
    blanks = Where(raw=b"\x40\x40", text="  ")

    assert str(Where(raw=b"\xc1\x40", text="A ")) == "text 'A ', bytes c1 40"
    assert str(blanks) == "bytes 40 40"
