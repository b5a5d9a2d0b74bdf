"""An option that would have no effect beside the others is refused, and not ignored."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from stomp_broker import StompBroker, message
from trailgate import OptionError, query
from trailgate.cli.commands.demo import unpack
from trailgate.cli.main import run

CAPTURE: Final = (
    "capture",
    "--from",
    "messages",
    "--properties",
    "dirprm/shop.properties",
    "--to",
    "dirdat/ot",
)
SHOW: Final = ("show", "dirdat/ot")
APPLY: Final = ("apply", "dirdat/ot", "--to", "duckdb:x.duckdb")
RECORDS: Final = ("records", "data", "--copybook", "x.cpy")


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample in a folder, and its trail."""
    folder = tmp_path_factory.mktemp("sample")
    unpack(folder)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        assert run([*CAPTURE]) == 0
    return folder


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample in a folder, and the trail of a live capture."""
    folder = tmp_path_factory.mktemp("live")
    unpack(folder)
    files = sorted((folder / "messages").iterdir())
    frames = [message(number, file.read_text()) for number, file in enumerate(files)]
    with pytest.MonkeyPatch.context() as patched, closing(StompBroker(frames)) as broker:
        patched.chdir(folder)
        assert run([*CAPTURE[:1], "--from", broker.address, *CAPTURE[3:]]) == 0
    return folder


# The command line, and a part of the error.
IGNORED: Final = {
    "another form": ((*SHOW, "--json", "--format", "csv"), "--json and --format csv exclude"),
    "another form before": ((*SHOW, "--format=csv", "--json"), "--json and --format csv exclude"),
    "another form of sql": (("sql", "SELECT 1", "--json", "--format", "table"), "exclude each"),
    "a wide file": ((*SHOW, "--to", "x.csv", "--wide"), "--wide applies only to printing"),
    "a wide file of sql": (("sql", "SELECT 1", "--to", "x.csv", "--wide"), "--wide applies only"),
    "times of records": (
        (*SHOW, "--records", "all", "--times", "text"),
        "--times text applies only to operations",
    ),
    "times of records as JSON": (
        (*SHOW, "--records", "all", "--times", "text", "--format", "json"),
        "--times text applies only to operations",
    ),
    "definitions of no trail": (
        ("sql", "SELECT 1", "--definitions", "/nope"),
        "applies only to trails, but the statement names none",
    ),
    "threads of a state": ((*APPLY, "--status", "--threads", "2"), "--threads has no effect"),
    "patience of a comparison": ((*APPLY, "--verify", "--patience", "2"), "--patience has no"),
    "patience of a repair": ((*APPLY, "--from", "d", "--patience", "2"), "--patience has no"),
    "threads of a repair": ((*APPLY, "--from", "d", "--threads", "2"), "--threads has no effect"),
    "wide Parquet": ((*RECORDS, "--to", "out", "--wide"), "--wide applies only to printing"),
    "a wide report": ((*RECORDS, "--verify", "--wide"), "--wide applies only to printing"),
    "a form of Parquet": ((*RECORDS, "--to", "out", "--format", "json"), "--format applies only"),
    "a limit of Parquet": ((*RECORDS, "--to", "out", "--limit", "1"), "--limit applies only"),
}
# What is accepted beside them.
OBEYED: Final = (
    (*SHOW, "--json", "--format", "json"),
    (*SHOW, "--json", "--wide"),
    (*SHOW, "--records", "all", "--format", "json"),
    ("sql", "SELECT count(*) FROM 'dirdat/ot'", "--definitions", "dirdat/ot.def"),
)


@pytest.mark.parametrize("name", IGNORED)
def test_an_option_without_effect_is_refused(
    sample: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    monkeypatch.chdir(sample)
    before = sorted(sample.rglob("*"))
    words, problem = IGNORED[name]

    assert run([*words]) == 2
    shown = capsys.readouterr()
    assert problem in shown.err
    assert shown.out == ""
    assert sorted(sample.rglob("*")) == before


@pytest.mark.parametrize("words", OBEYED, ids=" ".join)
def test_an_option_with_an_effect_is_accepted(
    sample: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.chdir(sample)

    assert run([*words]) == 0


@pytest.mark.parametrize(
    "option",
    ["--threads 2", "--message-per line", "--unordered-ids", "--remember-ids 10000", "--again"],
)
def test_an_option_without_effect_on_repaired_messages_is_refused(
    live: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    monkeypatch.chdir(live)
    words = option.split()

    assert run([*CAPTURE, *words]) == 2
    shown = f"{words[0]} cannot be used with the trail of a live capture"
    assert shown in capsys.readouterr().err


def test_definitions_of_a_query_without_a_trail_are_refused() -> None:
    with pytest.raises(OptionError, match="names none"):
        query("SELECT 1", definitions="x.def")
