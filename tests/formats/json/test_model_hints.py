"""A message of another form than the properties say: the error names the form, and the property to set."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from held_captures import json_capture, messages_of

OPERATION: Final = {"table": "OGG.PAIR", "op_type": "I", "op_ts": "2020-01-01 00:00:00.000000"}
ROW: Final = {"ID": 1}
SOURCE: Final = {"schema": "OGG", "table": "PAIR", "ts_ms": 1}
EVENT: Final = {"op": "c", "before": None, "after": ROW, "source": SOURCE, "ts_ms": 1}


@pytest.mark.parametrize(
    ("properties", "message", "hint"),
    [
        ("", {**OPERATION, "after.ID": 1}, "members such as after.ID: set json.model=flat"),
        ("", {**OPERATION, "after_ID": 1}, "members such as after_ID: set json.model=flat and json.delimiter=_"),
        ("json.model=flat", {**OPERATION, "after_ID": 1}, "members such as after_ID: set json.delimiter=_"),
        ("json.model=flat\njson.after=new", {**OPERATION, "new:ID": 1}, "members such as new:ID: set json.delimiter=:"),
        ("json.model=flat", {**OPERATION, "after": ROW}, "The message has the member after: json.model=op reads"),
        ("", {"schema": {}, "payload": {**OPERATION, "after": ROW}}, "The message has the member payload: set paths"),
        ("", EVENT, "It is a change event of Debezium: set parser.type=debezium"),
        ("", {"schema": None, "payload": EVENT}, "It is a change event of Debezium: set parser.type=debezium"),
        ("", {**ROW, "__op": "c", "__table": "PAIR"}, "set parser.type=debezium and debezium.model=row"),
    ],
)  # fmt: skip
def test_a_message_of_another_form_names_the_property(
    properties: str, message: dict[str, Any], hint: str
) -> None:
    (error,) = _errors(properties, message)
    assert hint in error


@pytest.mark.parametrize("properties", ["", "json.model=flat"])
def test_a_message_of_the_right_form_without_its_key_has_no_hint(properties: str) -> None:
    member = {"after.NAME": "a"} if properties else {"after": {"NAME": "a"}}
    (error,) = _errors(properties, {**OPERATION, **member})
    assert error.endswith("bytes))"), error


def _errors(properties: str, message: dict[str, Any]) -> list[str]:
    capture = json_capture(f"parser.type=json\njson.sourcedefs=shop.def\n{properties}")
    parsed = capture.parse(messages_of([json.dumps(message).encode()]))
    return [str(problem.error) for problem in parsed.problems]
