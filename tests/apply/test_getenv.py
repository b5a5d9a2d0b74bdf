"""Each item of @GETENV gives its value in a Replicat file, or an error that states the reason; never an empty text in its place."""

from __future__ import annotations

import getpass
import os
from pathlib import Path
from typing import Any

import duckdb
import pytest

from apply.sources import write_log
from oracles.apply_naive import Operation
from trailgate import OptionError, apply_trail
from trailgate.expressions.environment_items import ITEMS, REFUSED

FULL = {"a": 1, "b": 2, "c": 3}
TIME = "1970-01-01 00:00:00.000000"  # of the naive log's first operation
# What an item gives of the first record of a trail; None stands for an error.
GIVEN: dict[tuple[str, str], str | None] = {
    ("TRANSACTION", "TRANSACTIONID"): "1",
    ("TRANSACTION", "XID"): "1",
    ("TRANSACTION", "CSN"): "1",
    ("TRANSACTION", "TIMESTAMP"): TIME,
    ("TRANSACTION", "USERNAME"): "NULL",  # a token that this trail does not have
    ("TRANSACTION", "NAME"): "NULL",
    ("GGHEADER", "BEFOREAFTERINDICATOR"): "AFTER",
    ("GGHEADER", "COMMITTIMESTAMP"): TIME,
    ("GGHEADER", "LOGPOSITION"): None,
    ("GGHEADER", "LOGRBA"): None,
    ("GGHEADER", "OBJECTNAME"): "HR.T",
    ("GGHEADER", "TABLENAME"): "HR.T",
    ("GGHEADER", "RECORDLENGTH"): None,
    ("GGHEADER", "OPTYPE"): "INSERT",
    ("GGHEADER", "TRANSACTIONINDICATOR"): "WHOLE",
    ("RECORD", "FILESEQNO"): "0",
    ("RECORD", "FILERBA"): "POSITION",
    ("RECORD", "RSN"): None,
    ("RECORD", "TIMESTAMP"): TIME,
    ("GGENVIRONMENT", "GROUPNAME"): "trailgate",  # the default of --group
    ("GGENVIRONMENT", "GROUPTYPE"): "REPLICAT",
    ("GGENVIRONMENT", "HOSTNAME"): os.uname().nodename,
    ("GGENVIRONMENT", "OSUSERNAME"): getpass.getuser(),
    ("OSVARIABLE", "TRAILGATE_TEST_HOME"): "/opt/one",
    ("OSVARIABLE", "ORACLE_SID"): "shop",
    ("OSVARIABLE", "TRAILGATE_TEST_UNSET"): None,
    **{(group, item or "ANY"): None for group, item in REFUSED},
}
EVERY = sorted({(group, item) for group, items in ITEMS.items() for item in items} | set(GIVEN))


@pytest.fixture(scope="module")
def trail(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("getenv")
    write_log(folder / "ot", [Operation("I", 1, 1, FULL, 1)])
    return folder


def taken(trail: Path, folder: Path, clauses: str) -> list[Any]:
    """Return the first column v of what a MAP statement writes, with its position."""
    params = folder / "rep.prm"
    params.write_text(f"SETENV (ORACLE_SID = 'shop')\nMAP hr.t, TARGET h.t, {clauses};")
    to = f"duckdb:{folder}/x.duckdb"
    report = apply_trail(trail / "ot", to, params=str(params))
    assert report.position is not None
    with duckdb.connect(str(folder / "x.duckdb"), read_only=True) as connection:
        (found,) = connection.sql("SELECT * FROM x.h.t").fetchall()
    return [*found, str(int(report.position.position[10:]))]


@pytest.mark.parametrize(("group", "item"), EVERY)
def test_an_item_gives_its_value_or_an_error(
    trail: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: str, item: str
) -> None:
    monkeypatch.setenv("TRAILGATE_TEST_HOME", "/opt/one")
    call = f"@GETENV ('{group}', '{item}')"
    value = GIVEN[group, item]
    if value is None:
        with pytest.raises(OptionError) as caught:
            taken(trail, tmp_path, f"COLMAP (id = id, v = {call})")
        assert item in str(caught.value) or group in str(caught.value)
        assert ": " in caught.value.problem or "no" in caught.value.problem
        return

    found = taken(trail, tmp_path, f"COLMAP (id = id, v = {call})")

    expected = {"NULL": None, "POSITION": found[2]}.get(value, value)
    assert found[:2] == [1, expected]
    if expected is not None:  # FILTER sees the same
        (tmp_path / "x.duckdb").unlink()
        taken(trail, tmp_path, f"FILTER (@STREQ ({call}, '{expected}') = 1), COLMAP (id = id)")
