"""The quarantine file beside a trail: format its lines, and append them.

It contains the messages that a capture rejected, a JSON line for each (``json_lines.py``), with the
place and the reason::

    {"body": "I,ORDERS,1", "headers": {"JMSMessageID": "ID:7"}, "source": ..., "reason": ...}
"""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Mask
from trailgate.columnar.templates import JSON_ESCAPES, PieceForm, RowPiece, measure_templates
from trailgate.columnar.word_kernels import SPARE
from trailgate.errors import StorageError, Where
from trailgate.storage.files.durable import convert_write_errors
from trailgate.storage.files.json_lines import body_member, encode_json, encode_json_line

END_BYTES: Final = 4096  # at the end of the quarantine, of which the manifest has a digest


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
    return encode_json_line(body_member(body) | own)


def format_quarantine_lines(
    bodies: pa.BinaryArray,
    headers: Iterable[Mapping[str, str]] | None,
    source: pa.StringArray | str,
    positions: pa.StringArray,
    reasons: pa.StringArray,
) -> pa.Buffer:
    """Format many messages as lines of a quarantine file, as `format_quarantine_line` does for one.

    `source` is the source of each message, or one for all. `positions` have ten digits of the
    file's number, and at least ten of the byte offset. `reasons` are the errors. Only headers, and
    bodies that are not UTF-8, are formatted one by one.
    """
    texts, encoded = _body_texts(bodies)
    own = None
    if headers is not None:
        own = pa.array([encode_json(dict(each)) for each in headers], pa.binary())
    # A line: {"body": "...", "headers": {...}, "source": "...", "position": "...", "reason": "..."}. The body has two
    # forms, chosen by ``encoded``: as text (0), or in base64 (1). Plain pieces are written without escapes.
    body = (
        PieceForm(b'{"body": "', b'", "headers": '),
        PieceForm(b'{"body_base64": "', b'", "headers": '),
    )
    before = b', "position": "'
    if isinstance(source, str):
        before = b', "source": %b' % encode_json(source) + before
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
    overwritten. Raises StorageError if the file is shorter or was edited (``check_kept_lines``).
    The list of captured files is extended in the same way.
    """
    check_kept_lines(path, valid_bytes)
    with convert_write_errors(path), path.open("r+b" if path.exists() else "w+b") as file:
        file.truncate(valid_bytes)
        file.seek(valid_bytes)
        for part in parts:
            with part:
                shutil.copyfileobj(part, file)
        file.flush()
        os.fsync(file.fileno())
        return file.tell()


def check_kept_lines(path: Path, valid_bytes: int, end: str = "") -> None:
    """Raise StorageError if lines cannot be appended after the first ``valid_bytes`` bytes of a file.

    A longer file is not an error if an interrupted run has left the other bytes. If somebody edited
    the file and made it longer, the valid bytes no longer end with a newline, or not with the bytes
    that have the digest ``end`` (``digest_end``; "" if it is not known).
    """
    if not valid_bytes:
        return
    with convert_write_errors(path):
        size = path.stat().st_size if path.exists() else 0
        kept = _read_end(path, valid_bytes) if size > valid_bytes else b"\n"
    if size < valid_bytes:
        problem = f"the file is shorter than the {valid_bytes} bytes that the manifest states"
    elif not kept.endswith(b"\n") or (size > valid_bytes and end and not _ends_as(kept, end)):
        problem = f"the file was edited: it is longer than the {valid_bytes} bytes that the manifest states, and these do not end as they were written"
    else:
        return
    raise StorageError(problem, where=Where(source=str(path)), hint="Restore the file")


def digest_end(path: Path) -> str:
    """Return the number of bytes at a file's end, at most ``END_BYTES``, and their digest, such as ``4096:<hex>``."""
    with convert_write_errors(path):
        return _describe_end(_read_end(path, path.stat().st_size))


def _read_end(path: Path, end: int) -> bytes:
    """Read at most ``END_BYTES`` bytes before an offset of a file."""
    with path.open("rb") as file:
        file.seek(max(0, end - END_BYTES))
        return file.read(min(end, END_BYTES))


def _describe_end(data: bytes) -> str:
    return f"{len(data)}:{hashlib.sha256(data).hexdigest()}"


def _ends_as(data: bytes, end: str) -> bool:
    """Return whether bytes end as a digest of ``digest_end`` describes."""
    length = end.partition(":")[0]
    return length.isdecimal() and _describe_end(data[-int(length) :]) == end
