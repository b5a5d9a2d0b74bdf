"""A damaged trail may have any text in a column of numbers or date times: messages stay readable, and keep it."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

import trailgate
from full_operations import TABLE
from full_trails import write_operations

NUMBER, TIME = "987654321012345678", "2013-02-06:23:59:13.000120"
ODD, ODD_TIME = '1","X":"2,3\n4<]&\\', '2013-02-06:23:59:13."0\n\\2,'
VALUES = {"K": "k", "V": "v", "N": "1.50", "D": TIME.replace(":", " ", 1), "F": "0.5", "X": "41"}
ROW = {"table": TABLE.name, "op_type": "I", "op_ts": 10**15, "before": {}}


@pytest.fixture
def trail(tmp_path: Path) -> str:
    """Write a trail of three inserts, of which the second one has other texts."""
    rows: list[dict[str, Any]] = [
        {**ROW, "tx_ind": "W", "tx_id": f"t{i}", "csn": f"{i}", "after": {**VALUES, "P": NUMBER}}
        for i in range(3)
    ]
    prefix = write_operations(tmp_path / "ot", rows)
    path = Path(f"{prefix}000000001")
    whole = path.read_bytes()
    for old, new in ((NUMBER, ODD), (TIME, ODD_TIME)):
        assert whole.count(old.encode()) == 1
        whole = whole.replace(old.encode(), new.encode().ljust(len(old)))
    path.write_bytes(whole)
    return prefix


def bodies(trail: str, to: Path, form: str, **options: Any) -> list[str]:
    """Return the messages of a trail that have an operation."""
    trailgate.publish_trail(trail, to, form, options=options)
    lines = (to / "messages-000000001.jsonl").read_text().splitlines()
    found: list[str] = [json.loads(line)["body"] for line in lines]
    return [body for body in found if '"status"' not in body]


@pytest.mark.parametrize(
    ("form", "options"),
    [
        ("json", {"binary": "hex"}),
        ("json", {"binary": "hex", "strings": True}),
        ("json", {"binary": "hex", "model": "row"}),
        ("debezium", {}),
        ("debezium", {"schemas": True}),
    ],
)
def test_json_has_the_texts_in_quotes(
    trail: str, tmp_path: Path, form: str, options: dict[str, Any]
) -> None:
    found = [json.loads(body) for body in bodies(trail, tmp_path / "to", form, **options)]

    rows = [one.get("payload", one) for one in found]
    images = [one.get("after", one) for one in rows]
    assert str(images[0]["P"]) == str(images[2]["P"]) == NUMBER
    assert images[1]["P"] == ODD.ljust(len(NUMBER))
    assert images[1]["D"][20:].startswith('"0\n\\2,')


@pytest.mark.parametrize("options", [{}, {"fielddelim": "<", "decimalpoint": ","}])
def test_a_delimited_publication_has_the_texts_in_quotes(
    trail: str, tmp_path: Path, options: dict[str, str]
) -> None:
    found = bodies(trail, tmp_path / "to", "delimited", **options)

    mark = options.get("fielddelim", ",")
    records = [next(csv.reader(io.StringIO(body), delimiter=mark)) for body in found]
    assert len({len(record) for record in records}) == 1
    assert [record[-1].strip() for record in records] == [NUMBER, ODD.strip(), NUMBER]
