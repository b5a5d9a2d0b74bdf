"""A hint of an error of ``capture --apply`` or ``--publish`` can be followed: an option that capture lacks is named with the command that has it."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from option_tables import options_of
from trailgate.cli.commands.demo import unpack
from trailgate.cli.companions import explain_options
from trailgate.cli.main import run
from trailgate.errors import OptionError

GIVEN: Final = ("--from", "messages", "--properties", "dirprm/shop.properties")


@pytest.fixture(autouse=True)
def _sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unpack(tmp_path)
    monkeypatch.chdir(tmp_path)


def _other_trail(options: tuple[str, ...]) -> None:
    """Do the same with another trail before."""
    assert run(["capture", *GIVEN, "--to", "dirdat/xx", *options]) == 0


def _nothing(_: tuple[str, ...]) -> None:
    """Do nothing before."""


# What is done before the capture, its options, and the option that the hint names with its command.
HINTED: Final[dict[str, tuple[Callable[..., None], tuple[str, ...], str]]] = {
    "a file with another trail": (_other_trail, ("--apply", "duckdb:x.duckdb"), "apply --group"),
    "a mode": (_nothing, ("--apply", "parquet:rows"), "apply --mode"),
    "missing values": (_nothing, ("--publish", "out"), "publish --option"),
}


@pytest.mark.parametrize("name", HINTED)
def test_an_option_that_capture_lacks_is_named_with_its_command(
    capsys: pytest.CaptureFixture[str], name: str
) -> None:
    prepare, options, named = HINTED[name]
    command, option = named.split()
    prepare(options)
    capsys.readouterr()

    assert run(["capture", *GIVEN, "--to", "dirdat/ot", *options]) != 0
    shown = capsys.readouterr().err
    assert option not in options_of("capture")
    assert option in options_of(command)
    assert (
        f"That is an option of trailgate {command}: capture without --{command}, then add it to "
        f"trailgate {command} dirdat/ot --to {options[1]}"
    ) in shown


def test_a_hint_without_an_option_stays_as_it_is() -> None:
    with (
        pytest.raises(OptionError) as raised,
        explain_options("apply", "dirdat/ot", "delta:lake/"),
    ):
        raise OptionError("the folder is wrong", hint="Name another folder")

    assert raised.value.hint == "Name another folder"


@pytest.mark.parametrize(
    ("to", "shown"),
    [
        ("kafka://u:secret@h/${table}", "'kafka://***@h/${table}'"),
        ("stomp://h/q?a=b", "'stomp://h/q?a=b'"),
    ],
)
def test_the_command_of_a_hint_can_be_pasted_without_a_login(to: str, shown: str) -> None:
    with pytest.raises(OptionError) as raised, explain_options("publish", "my trail/ot", to):
        raise OptionError("the group was another", hint="Name another: --group NAME")

    command = str(raised.value).partition("then add it to ")[2]
    assert command == f"trailgate publish 'my trail/ot' --to {shown}"
    assert shlex.split(command)[2] == "my trail/ot"
