"""Messages as JSON lines: format and parse lines with the body and headers of a message.

For example ``{"body": "I,ORDERS,1", "headers": {"JMSMessageID": "ID:7"}}``. A body that is not UTF-8 is
in base64: ``{"body_base64": "wA=="}``. Message files may have such lines, and quarantine files have them.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, Final

from trailgate.errors import DecodeError, Where

# The types of a body that is not text, as json.loads returns them.
_JSON_TYPES: Final = {
    bool: "true or false",
    int: "a number",
    float: "a number",
    dict: "an object",
    list: "an array",
}


def format_message_line(body: bytes, headers: Mapping[str, str]) -> bytes:
    """Format a message as a JSON line (``.jsonl``), with its headers if it has any."""
    fields = body_member(body)
    return encode_json_line(fields | {"headers": dict(headers)} if headers else fields)


def body_member(body: bytes) -> dict[str, Any]:
    """Return the member of a JSON line that has a message's body: as text, or in base64 if it is not UTF-8."""
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(body).decode()}


def encode_json_line(fields: dict[str, Any]) -> bytes:
    """Encode the members of a JSON line in UTF-8, with a newline."""
    return encode_json(fields) + b"\n"


def encode_json(value: object) -> bytes:
    """Encode a value of a JSON line, such as the headers of a message, in UTF-8. Half surrogates are escaped."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace")


def parse_message_line(line: bytes) -> tuple[bytes, Mapping[str, str]]:
    """Parse a JSON line (``.jsonl``) into the body and headers of a message. Raises DecodeError."""
    try:
        # Not json.loads(line), which takes bytes in UTF-16 too. A byte order mark begins a file.
        fields = json.loads(line.decode("utf-8-sig", "surrogatepass"))
    except (ValueError, RecursionError) as error:
        raise DecodeError(f"the line is not JSON: {error}", where=Where(raw=line)) from None
    if not isinstance(fields, dict):
        raise DecodeError("the line is not a JSON object", where=Where(raw=line))
    headers = fields.get("headers") or {}
    if not isinstance(headers, dict):
        raise DecodeError("headers are not a JSON object", where=Where(raw=line))
    return _body(fields, line), {str(name): _text(value) for name, value in headers.items()}


def _body(fields: dict[str, Any], line: bytes) -> bytes:
    body, encoded = fields.get("body"), fields.get("body_base64")
    try:
        if isinstance(body, str):
            return body.encode()
        if isinstance(encoded, str):
            return base64.b64decode(encoded, validate=True)
    except (UnicodeEncodeError, binascii.Error) as error:
        raise DecodeError(f"the body cannot be read: {error}", where=Where(raw=line)) from None
    if "body" in fields and body is None and encoded is None:
        # Imported late: workers that write trails load this module, but not trailgate.messages.
        from trailgate.messages.message_batch import TOMBSTONE  # noqa: PLC0415

        hint = "Kafka's tombstones have a null value; parser.type=debezium skips them"
        raise DecodeError(TOMBSTONE, where=Where(raw=line), hint=hint)
    hint = 'A line is {"body": "...", "headers": {...}}'
    if body is not None:
        raise DecodeError(
            f"the body is {_JSON_TYPES[type(body)]}, not text", where=Where(raw=line), hint=hint
        )
    raise DecodeError("the line has no body", where=Where(raw=line), hint=hint)


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
