"""What test cases of messages have in common: their batch, and what must come of it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa

from trailgate.capture.capture import Capture, Parsed
from trailgate.messages.messages import MessageBatch
from trailgate.model.operations_table import to_operations

NOW = 1_577_836_800_000_000  # 2020-01-01
Case = dict[str, Any]


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


def together(common: str, own: str) -> str:
    """Return the properties of the file without those that the case has itself."""
    names = [line.partition("=")[0] for line in own.splitlines()]
    kept = [line for line in common.splitlines() if line.partition("=")[0] not in names]
    return "\n".join([*kept, own])


def rows_of(parsed: Parsed) -> list[Case]:
    return [_plain(row) for row in to_operations(parsed.batch).to_pylist(maps_as_pydicts="strict")]


def _plain(row: Case) -> Case:
    """Return a row with what JSON can say: times as text, no image where none is held."""
    row["op_ts"] = str(row["op_ts"]).removesuffix("+00:00")
    return row | {"before": row["before"] or {}, "after": row["after"] or {}}


def check(case: Case, capture: Capture) -> None:
    """Assert that the case's messages give its operations and problems."""
    parsed = capture.parse(batch_of(case))

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
