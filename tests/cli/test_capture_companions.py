"""``capture --apply``, ``--publish`` and ``--metrics``: paths are relative to ``--base``, and wrong values are found before anything is read or written."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from stomp_broker import StompBroker, message
from trailgate.cli.commands.demo import unpack
from trailgate.cli.main import run

GIVEN: Final = ("--properties", "dirprm/shop.properties", "--to", "dirdat/ot")


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Unpack the sample into a folder that is not the working folder."""
    folder, work = tmp_path / "base", tmp_path / "work"
    unpack(folder)
    work.mkdir()
    monkeypatch.chdir(work)
    return folder


@pytest.fixture
def broker(base: Path) -> Iterator[StompBroker]:
    files = sorted((base / "messages").iterdir())
    frames = [message(number, file.read_text()) for number, file in enumerate(files)]
    with closing(StompBroker(frames)) as made:
        yield made


def names(folder: Path) -> set[str]:
    return {str(file.relative_to(folder)) for file in folder.rglob("*")}


# The options, and what they write below --base.
TABLES: Final = {
    "a DuckDB file": (("--apply", "duckdb:x.duckdb"), "x.duckdb"),
    "a DuckDB file with a dot": (("--apply", "duckdb:./x.duckdb"), "x.duckdb"),
    "Delta tables": (("--apply", "delta:lake/"), "lake/gg/shop_orders/_delta_log"),
    "Iceberg tables": (("--apply", "iceberg:lake/"), "lake/gg/shop_orders"),
}
FILES: Final = {"published files": (("--publish", "out", "--publish-format", "json"), "out")}
METRICS: Final = {"metrics": (("--metrics", "x.prom"), "x.prom")}


@pytest.mark.parametrize("name", [*TABLES, *FILES])
def test_what_a_capture_of_files_writes_is_below_its_base(base: Path, name: str) -> None:
    options, written = (TABLES | FILES)[name]

    assert run(["capture", "--base", str(base), "--from", "messages", *GIVEN, *options]) == 0
    assert (base / written).exists()
    assert names(Path.cwd()) == set()


@pytest.mark.parametrize("name", [*TABLES, *METRICS])
def test_what_a_live_capture_writes_is_below_its_base(
    base: Path, broker: StompBroker, name: str
) -> None:
    options, written = (TABLES | METRICS)[name]
    given = ["--base", str(base), "--from", broker.address, *GIVEN]

    assert run(["capture", *given, *options]) == 0
    assert (base / written).exists()
    assert names(Path.cwd()) == set()


@pytest.mark.parametrize("option", ["--from", "--publish"])
def test_certificates_of_a_brokers_address_are_below_the_base(
    base: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    (base / "own.pem").write_text("no certificate")
    source = [] if option == "--from" else ["--from", "messages"]
    address = "stomp+ssl://127.0.0.1:1/q?id-header=x&ca=own.pem&cert=lost.pem"
    address = address if option == "--from" else address.replace("id-header=x&", "")

    assert run(["capture", "--base", str(base), *source, *GIVEN, option, address]) == 2
    assert f"cannot open {base}/lost.pem: No such file" in capsys.readouterr().err


# The options, and a part of the error.
WRONG: Final = {
    "an unknown target": (("--apply", "nonsense:x"), "not the address of a target"),
    "a target without a path": (("--apply", "delta:"), "not the address of a target"),
    "a DuckDB file in a store": (("--apply", "duckdb:s3://b/x"), "writes to local files"),
    "Parquet without its mode": (("--apply", "parquet:x"), "supports --mode append"),
    "an unknown catalog": (("--apply", "iceberg:nothing"), "no catalog 'nothing'"),
    "an unknown scheme": (("--publish", "nonsense://x"), "nonsense:// is neither"),
    "a broker without a topic": (("--publish", "kafka://h"), "names no queue or topic"),
    "an option of the address": (("--publish", "stomp://h/q?create=1"), "the option create"),
    "a field in a queue": (("--publish", "stomp://h/${table}"), "a queue has all tables"),
    "an unknown format": (("--publish", "out", "--publish-format", "nope"), "the format 'nope'"),
    "a format alone": (("--publish-format", "json"), "needs --publish"),
}
OF_BROKERS: Final = {
    "metrics in a store": (("--metrics", "s3://b/x.prom"), "in a store"),
    "a folder": (("--publish", "out"), "publishes to brokers, not to folders"),
    "metrics in another file": (("--metrics", "x.txt"), "does not end in .prom"),
}


@pytest.mark.parametrize("more", [(), ("--dry-run",), ("--json",)])
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_value_is_found_before_files_are_read(
    base: Path, capsys: pytest.CaptureFixture[str], name: str, more: tuple[str, ...]
) -> None:
    options, problem = WRONG[name]
    before = names(base)

    assert run(["capture", "--base", str(base), "--from", "messages", *GIVEN, *options, *more]) == 2
    assert problem in capsys.readouterr().err
    assert names(base) == before
    assert names(Path.cwd()) == set()


@pytest.mark.parametrize("name", [*WRONG, *OF_BROKERS])
def test_a_wrong_value_is_found_before_the_broker_is_reached(
    base: Path, broker: StompBroker, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    options, problem = (WRONG | OF_BROKERS)[name]
    before = names(base)

    assert run(["capture", "--base", str(base), "--from", broker.address, *GIVEN, *options]) == 2
    assert capsys.readouterr().err.count(problem) == 1
    assert broker.connections == 0
    assert names(base) == before


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_a_missing_folder_of_a_target_is_found_before_files_are_read(
    base: Path, capsys: pytest.CaptureFixture[str], more: tuple[str, ...]
) -> None:
    before = names(base)
    given = ["--base", str(base), "--from", "messages", *GIVEN, "--apply", "duckdb:no/x.duckdb"]

    assert run(["capture", *given, *more]) == 1
    assert "the folder of the DuckDB file does not exist" in capsys.readouterr().err
    assert names(base) == before


def test_a_missing_folder_of_a_target_is_found_before_the_broker_is_reached(
    base: Path, broker: StompBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    before = names(base)
    given = ["--base", str(base), "--from", broker.address, *GIVEN, "--apply", "duckdb:no/x.duckdb"]

    assert run(["capture", *given]) == 1
    assert "the folder of the DuckDB file does not exist" in capsys.readouterr().err
    assert broker.connections == 0
    assert names(base) == before


def test_a_package_that_is_not_installed_is_named_before_files_are_read(
    base: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "trailgate.apply.targets.delta", raising=False)
    monkeypatch.setitem(sys.modules, "deltalake", None)
    before = names(base)
    given = ["--base", str(base), "--from", "messages", *GIVEN, "--apply", "delta:lake/"]

    assert run(["capture", *given]) != 0
    assert "delta: needs the package deltalake. Install it" in capsys.readouterr().err
    assert names(base) == before


def test_a_dry_run_says_what_would_be_done_with_the_trail(
    base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = names(base)
    options = ("--dry-run", "--apply", "duckdb:x.duckdb", "--publish", "out")

    assert run(["capture", "--base", str(base), "--from", "messages", *GIVEN, *options]) == 0
    shown = " ".join(capsys.readouterr().err.split())
    assert f"dry run: the trail would be applied to duckdb:{base}/x.duckdb" in shown
    assert f"dry run: the trail would be published to {base}/out" in shown
    assert names(base) == before
