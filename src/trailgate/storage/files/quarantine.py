"""Messages as JSON lines: format and parse them, and write the quarantine file beside a trail.

A file of messages may have a JSON object per line. The quarantine file, which contains the messages
that a capture rejected, has such lines too, with the place and the reason of each message::

    {"body": "I,ORDERS,1", "headers": {"JMSMessageID": "ID:7"}, "source": ..., "reason": ...}
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Mask
from trailgate.columnar.kernels.words import SPARE
from trailgate.columnar.templates import JSON_ESCAPES, PieceForm, RowPiece, measure_templates
from trailgate.errors import DecodeError, StorageError, Where
from trailgate.storage.files.durable import convert_write_errors

# The types of a body that is not text, as json.loads returns them.
_JSON_TYPES: Final = {
    bool: "true or false",
    int: "a number",
    float: "a number",
    dict: "an object",
    list: "an array",
}


def format_quarantine_line(
    body: bytes, headers: Mapping[str, str], place: tuple[str, int, int], reason: str
) -> bytes:
    """Format a message as a line of a quarantine file.

    ``place`` is the message's source, the number of its file, and its byte offset in the file.

    After a repair, the line can be captured like any line of a message file.
    """
    source, number, offset = place
    position = f"{number:010d}{offset:010d}"
    own = {"headers": dict(headers), "source": source, "position": position, "reason": reason}
    return _line(_body_fields(body) | own)


def format_quarantine_lines(
    bodies: pa.BinaryArray,
    headers: Iterable[Mapping[str, str]] | None,
    source: pa.StringArray | str,
    positions: pa.StringArray,
    reasons: pa.StringArray,
) -> pa.Buffer:
    """Format many messages as lines of a quarantine file, as `format_quarantine_line` does for one.

    `source` is the source of each message, or one for all. `positions` have 20 digits: of the
    file's number and the byte offset. `reasons` are the errors. Only headers, and bodies that are
    not UTF-8, are formatted one by one.
    """
    texts, encoded = _body_texts(bodies)
    own = None
    if headers is not None:
        own = pa.array([_json_text(dict(each)) for each in headers], pa.binary())
    # A line: {"body": "...", "headers": {...}, "source": "...", "position": "...", "reason": "..."}. The body has two
    # forms, chosen by ``encoded``: as text (0), or in base64 (1). Plain pieces are written without escapes.
    body = (
        PieceForm(b'{"body": "', b'", "headers": '),
        PieceForm(b'{"body_base64": "', b'", "headers": '),
    )
    before = b', "position": "'
    if isinstance(source, str):
        before = b', "source": %b' % _json_text(source) + before
    measured = measure_templates(
        [
            RowPiece(texts, body, encoded.astype(np.uint8)),
            RowPiece(
                own,
                (PieceForm(b"{}" if own is None else b"", None if own is None else b""),),
                plain=True,
            ),
            *(
                []
                if isinstance(source, str)
                else [RowPiece(source, (PieceForm(b', "source": "', b'"'),))]
            ),
            RowPiece(positions, (PieceForm(before, b'"'),), plain=True),
            RowPiece(reasons, (PieceForm(b', "reason": "', b'"}\n'),)),
        ],
        len(bodies),
        JSON_ESCAPES,
    )
    ends = np.cumsum(measured.sizes)
    size = int(ends[-1]) if len(ends) else 0
    out = np.empty(size + SPARE, np.uint8)
    measured.write(ends - measured.sizes, out)
    return pa.py_buffer(out[:size])


def _body_texts(bodies: pa.BinaryArray) -> tuple[pa.BinaryArray, Mask]:
    """Return message bodies as text, and a mask of those that are in base64, as they are not UTF-8."""
    encoded = np.zeros(len(bodies), bool)
    try:
        # Arrow checks all bodies at once, which nearly always succeeds. Only if one is not UTF-8 is
        # each of them examined.
        bodies.cast(pa.string()).validate(full=True)
    except pa.ArrowInvalid:
        texts = [_in_base64(body) for body in bodies.to_pylist()]
        encoded = np.array([text is not None for text in texts], bool)
        bodies = pc.if_else(pa.array(encoded), pa.array(texts, pa.binary()), bodies)
    return bodies, encoded


def _in_base64(body: bytes) -> bytes | None:
    """Return a message's body in base64 if it is not UTF-8, otherwise None."""
    try:
        body.decode()
    except UnicodeDecodeError:
        return base64.b64encode(body)
    return None


def format_message_line(body: bytes, headers: Mapping[str, str]) -> bytes:
    """Format a message as a line of a file of JSON lines, with headers if it has any."""
    fields = _body_fields(body)
    return _line(fields | {"headers": dict(headers)} if headers else fields)


def _body_fields(body: bytes) -> dict[str, Any]:
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(body).decode()}


def _line(fields: dict[str, Any]) -> bytes:
    return _json_text(fields) + b"\n"


def _json_text(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace")


def parse_message_line(line: bytes) -> tuple[bytes, Mapping[str, str]]:
    """Parse the JSON line of a message into body and headers. Raises DecodeError."""
    try:
        fields = json.loads(line)
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
        from trailgate.messages.messages import TOMBSTONE  # noqa: PLC0415

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


def append_files(path: Path, valid_bytes: int, parts: Sequence[Path]) -> None:
    """Append staged files of quarantined messages after the first ``valid_bytes`` bytes of the quarantine file.

    If there are no valid bytes, the first part becomes the quarantine file, so that its bytes are
    not copied. The caller syncs the folder.
    """
    if not valid_bytes:
        first, *parts = parts
        with convert_write_errors(path):
            with first.open("rb") as file:
                os.fsync(file.fileno())
            first.replace(path)
            valid_bytes = path.stat().st_size
    if parts:
        append_lines(path, valid_bytes, (part.open("rb") for part in parts))


def append_lines(path: Path, valid_bytes: int, parts: Iterable[BinaryIO]) -> int:
    """Append staged lines after the first ``valid_bytes`` bytes of the quarantine file or a similar one.

    Returns the new size. Bytes after ``valid_bytes`` were left by an interrupted run, and are
    overwritten. Raises StorageError if the file is shorter. The list of captured files is extended
    in the same way.
    """
    with convert_write_errors(path), path.open("r+b" if path.exists() else "w+b") as file:
        if file.seek(0, os.SEEK_END) < valid_bytes:
            problem = f"the file is shorter than the {valid_bytes} bytes that the manifest states"
            raise StorageError(problem, where=Where(source=str(path)), hint="Restore or delete it")
        file.truncate(valid_bytes)
        file.seek(valid_bytes)
        for part in parts:
            with part:
                shutil.copyfileobj(part, file)
        file.flush()
        os.fsync(file.fileno())
        return file.tell()
