"""Every case in ``cases/*.toml``: messages and properties, and the operations or errors they give.

``operations`` are rows of the operations table as JSON, one a line; what a row does not name is
not compared, but a before or after image that it leaves out must be empty. ``fails`` says why
a case is known to fail.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from trailgate.definitions.operations import to_operations
from trailgate.definitions.sourcedefs import read_sourcedefs
from trailgate.messages.capture import Capture, MessageBatch, Parsed
from trailgate.messages.extract import parse_extract
from trailgate.messages.properties import delimited_options, parse_properties

CASES = Path(__file__).parent / "cases"
DEFINITIONS = read_sourcedefs((CASES / "shop.def").read_bytes())
NOW = 1_577_836_800_000_000  # 2020-01-01
Case = dict[str, Any]


def _cases() -> Iterator[Any]:
    for path in sorted(CASES.glob("*.toml")):
        file = tomllib.loads(path.read_text())
        for case in file["case"]:
            shared = {"extract": file.get("extract", ""), "common": file.get("properties", "")}
            known = case.get("fails", "")
            marks = [pytest.mark.xfail(strict=True, reason=known)] if known else []
            yield pytest.param(shared | case, id=f"{path.stem}: {case['name']}", marks=marks)


def capture_of(case: Case) -> Capture:
    own = case.get("properties", "").strip()
    names = [line.partition("=")[0] for line in own.splitlines()]
    common = [line for line in case["common"].splitlines() if line.partition("=")[0] not in names]
    lines = ["parser.type=delim", "delim.sourcedefs=shop.def", *common, own]
    options = delimited_options(parse_properties("\n".join(lines).encode()))
    extract = parse_extract(f"EXTRACT test\nVAM vam, PARAMS a.properties\n{case['extract']}\n")
    return Capture(options, DEFINITIONS, extract.rules, NOW)


def batch_of(case: Case) -> MessageBatch:
    """Return the case's messages, each as a file of its own, with something between them."""
    messages = case.get("message", [{"body": body} for body in case.get("messages", [])])
    bodies = [message["body"].encode() for message in messages]
    bodies += [bytes.fromhex(body) for body in case.get("hex_messages", [])]
    headers = tuple(message.get("headers", {}) for message in messages)
    lengths = np.array([len(body) for body in bodies], np.int64)
    starts = np.cumsum(lengths + 1) - lengths - 1
    count = len(bodies)
    return MessageBatch(
        pa.py_buffer(b"\n".join(bodies)),
        starts,
        starts + lengths,
        np.arange(count),
        np.zeros(count, np.int64),
        headers if len(headers) == count else None,
        "case",
    )


def rows_of(parsed: Parsed) -> list[Case]:
    return [_plain(row) for row in to_operations(parsed.batch).to_pylist(maps_as_pydicts="strict")]


def _plain(row: Case) -> Case:
    """Return a row with what JSON can say: times as text, no image where none is held."""
    row["op_ts"] = str(row["op_ts"]).removesuffix("+00:00")
    return row | {"before": row["before"] or {}, "after": row["after"] or {}}


@pytest.mark.parametrize("case", list(_cases()))
def test_case(case: Case) -> None:
    capture, batch = capture_of(case), batch_of(case)

    parsed = capture.parse(batch)

    expected = [json.loads(line) for line in case.get("operations", "").split("\n") if line]
    empty: Case = {"before": {}, "after": {}}
    wanted = [empty | row for row in expected]
    rows = rows_of(parsed)
    found = [{k: row[k] for k in want} for row, want in zip(rows, wanted, strict=False)]
    assert found == wanted
    assert len(rows) == len(wanted), rows[len(wanted) :]
    problems = case.get("problems", [])
    assert [p.message for p in parsed.problems] == [p["message"] for p in problems]
    for problem, want in zip(parsed.problems, problems, strict=True):
        for part in want["text"]:
            assert part in str(problem.error)
    if "units" in case:
        assert np.flatnonzero(parsed.starts_unit).tolist() == case["units"]
    end = capture.finish(parsed.state)
    assert (end is not None) == ("ends" in case)
    for part in case.get("ends", []):
        assert part in str(end)
