"""Propose properties for JSON messages of Maxwell, and refuse those of Canal.

Both tools capture the changes of MySQL. A message of Canal has several rows in arrays, which no
properties can read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from trailgate.errors import DecodeError
from trailgate.jobs.proposals.drafts import (
    SECONDS_DIGITS,
    JsonObject,
    begin_draft,
    put_only_table,
    put_tables,
)


def is_maxwell(document: JsonObject) -> bool:
    """Return True if a JSON object is a row of Maxwell."""
    # Canal's messages have the same members, but ``data`` is an array there.
    names = {"database", "table", "type", "ts", "data"}
    return (
        names <= document.keys()
        and isinstance(document["data"], dict)
        and str(document["ts"]).isdigit()
    )


def propose_maxwell(objects: Sequence[JsonObject], count: int) -> str:
    """Draft the properties that capture Maxwell's rows, from sample messages."""
    rows = [one for one in objects if is_maxwell(one)]
    draft = begin_draft(count, "rows of Maxwell", "json")
    draft.put("json.model", "row")
    draft.put("json.row", "data")
    draft.note("The member old is not read: updates have no before values, and an update of a key")
    draft.note("is an update of the row with the new key.")
    draft.put("json.optype", "type")
    for word in ("insert", "update", "delete"):
        draft.put(f"json.optype.{word}val", word)
    if all(one.get("xid") is not None for one in rows):
        draft.note("Rows that follow one another with the same xid are a transaction.")
        draft.put("json.txid", "xid")
    put_only_table(draft, [f"{one['database']}.{one['table']}" for one in rows])
    if all(len(str(one["ts"])) <= SECONDS_DIGITS for one in rows):
        draft.note("The member ts has seconds since 1970, which a capture does not read as a time:")
        draft.note("operations have the time of the capture. Milliseconds, of 13 digits, are read.")
        # ``*ts`` is the current time (capture properties §1.1).
        draft.put("json.timestamp", "*ts")
    else:
        draft.put("json.timestamp", "ts")
    put_tables(draft, [(f"{one['database']}.{one['table']}", (None, one["data"])) for one in rows])
    return draft.text()


def is_canal(document: JsonObject) -> bool:
    """Return True if a JSON object is a message of Canal."""
    return "isDdl" in document and "database" in document and _is_list(document.get("data"))


def _is_list(value: Any) -> bool:
    return value is None or isinstance(value, list)


def refuse_canal(_: Sequence[JsonObject], __: int) -> NoReturn:
    """Raise DecodeError instead of proposing properties for messages of Canal, Maxwell's relative, which none can read."""
    problem = "the messages are Canal's: data and old are arrays of rows, and a capture reads one row of each JSON object"
    hint = (
        "Let a stream processor write an object for each row, then propose from those. "
        "Or capture with Debezium, whose events are read as they are"
    )
    raise DecodeError(problem, hint=hint)
