"""What test cases of messages have in common: their batch, and what must come of it."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from held_captures import messages_of
from trailgate.capture.capture import Capture, Parsed
from trailgate.messages.message_batch import MessageBatch
from trailgate.model.operations_table import to_operations

Case = dict[str, Any]


def cases_of(folder: Path) -> list[Any]:
    """Return the cases of a folder's files as parameters.

    What a file has beside its cases is common to them, but for properties that a case has itself. ``operations`` are rows of the
    operations table as JSON, one a line: what a row does not name is not compared, but a before or after image that it
    leaves out must be empty.
    """
    found = []
    for path in sorted(folder.glob("*.toml")):
        file = tomllib.loads(path.read_text())
        for case in file.pop("case"):
            own = together(file.get("properties", ""), case.get("properties", ""))
            marks = [pytest.mark.assumed] if case.get("assumed") else []
            name = f"{path.stem}: {case['name']}"
            found.append(pytest.param(file | case | {"properties": own}, id=name, marks=marks))
    return found


def batch_of(case: Case) -> MessageBatch:
    """Return the case's messages, each as a file of its own, with something between them."""
    messages = case.get("message", [{"body": body} for body in case.get("messages", [])])
    bodies = [message["body"].encode() for message in messages]
    bodies += [bytes.fromhex(body) for body in case.get("hex_messages", [])]
    whole = replace(messages_of(bodies), source="case")
    headers = tuple(message.get("headers", {}) for message in messages)
    return replace(whole, headers=headers) if len(headers) == len(bodies) else whole


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
