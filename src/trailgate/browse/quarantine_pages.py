"""The page of quarantined messages: by reason, each with its fault marked.

Users repair messages on this page and capture them again.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from markupsafe import escape

from trailgate.browse.index import TrailIndex
from trailgate.browse.overview import manifest_of
from trailgate.browse.pages import Query, link_to
from trailgate.errors import DecodeError, OptionError, TrailgateError, mask_logins
from trailgate.model.positions import split_message_position
from trailgate.storage.files.json_lines import parse_message_line
from trailgate.storage.files.opened_file import OpenedFile
from trailgate.storage.files.trail_files import TrailListing, list_trail

MESSAGES: Final = 20  # messages on a page
EDITED: Final = 30_000  # the most characters of a message that is repaired on the page
AROUND: Final = (
    2000  # the most characters of a long message that are shown before and after its fault
)
CHARACTERS: Final = 400_000  # characters of HTML of the messages on a page, about
LOOKED_AT: Final = 64 << 20  # the most bytes read of a quarantine
CAPTURED: Final = 64 << 10  # the most bytes read of the list of captured files, from its end
_QUOTED: Final = re.compile(r"(?:text|value) '(.*?)'")
_FIELD: Final = re.compile(r", field (\S+?)[,)]")


@dataclass(frozen=True, slots=True)
class BadMessage:
    """A quarantined message on the page: its line in the file, its text split at the fault, and the reason."""

    line: str
    source: str
    reason: str
    parts: tuple[str, str, str]  # before the fault, the fault, after it
    is_text: bool
    cut: int = 0  # the bytes of a long message, of which only the beginning is shown

    @property
    def body(self) -> str:
        """The complete text of the quarantined message."""
        return "".join(self.parts)


def quarantine_page(index: TrailIndex, query: Query) -> dict[str, Any]:
    """Return the template values for the page of quarantined messages.

    Raises OptionError for an invalid number.
    """
    first, wanted = _number(query.get("from", "")), query.get("reason", "")
    listing = list_trail(index.found.prefix)
    path = listing.spell(f"{listing.prefix}.quarantine.jsonl")
    [info] = listing.store.get_file_info([f"{listing.prefix}.quarantine.jsonl"])
    size = int(info.size or 0)
    counts: Counter[str] = Counter()
    shown: list[BadMessage] = []
    size_shown = 0
    for line in _lines(path, size):
        message = _message(line)
        kind = _kind(message.reason)
        counts[kind] += 1
        # the number of this message among those with the reason (counted from 1)
        chosen = counts[wanted] if wanted else counts.total()
        full = len(shown) == MESSAGES or size_shown > CHARACTERS
        if wanted in ("", kind) and first < chosen and not full:
            shown.append(message)
            # the page has the body twice
            texts = (message.line, message.body, message.body)
            size_shown += sum(len(escape(text)) for text in texts)
    total = counts[wanted] if wanted else counts.total()
    query_parts = {"reason": wanted}
    after, before = first + len(shown), max(0, first - MESSAGES)
    return {
        "file": mask_logins(path),
        "size": size,
        "counted": min(size, LOOKED_AT),
        "counts": [
            (kind, number, link_to("quarantine", reason=kind))
            for kind, number in counts.most_common()
        ],
        "captured": list(_captured_digests(listing)),
        "reason": wanted,
        "total": total,
        "first": first,
        "messages": shown,
        "next_page": link_to("quarantine", **query_parts, from_=after)
        if shown and after < total
        else "",
        "previous_page": link_to("quarantine", **query_parts, from_=before) if first else "",
    }


def _captured_digests(listing: TrailListing) -> Iterator[str]:
    """Yield the digests of the files of JSON lines that were captured last.

    The page compares them with the files of repaired messages that were downloaded from it.
    """
    manifest = manifest_of(listing)
    if manifest is None or not manifest.captured:
        return
    begin = max(0, manifest.captured - CAPTURED)
    path = listing.spell(f"{listing.prefix}.captured.jsonl")
    try:
        opened = OpenedFile(path, manifest.captured, "list of captured files")
        try:
            lines = bytes(opened.read(begin, manifest.captured - begin)).splitlines()
        finally:
            opened.close()
        # unless the list is read from its beginning, the first line is a part of one
        for line in lines[bool(begin) :]:
            entry = json.loads(line)
            if str(entry["name"]).endswith(".jsonl"):
                yield str(entry["digest"])
    except (TrailgateError, ValueError, LookupError, TypeError):
        return  # the list is damaged: nothing is marked


def _number(text: str) -> int:
    if text and not (text.isascii() and text.isdigit() and len(text) < 10):
        raise OptionError(f"from={text!r} is not a number")
    return int(text or 0)


def _lines(path: str, size: int) -> Iterator[bytes]:
    """Yield the complete lines in the first bytes of a quarantine."""
    if not size:
        return
    opened = OpenedFile(path, size, "quarantine")
    try:
        data = bytes(opened.read(0, min(size, LOOKED_AT)))
    finally:
        opened.close()
    yield from data[: data.rfind(b"\n") + 1].splitlines()


def _message(line: bytes) -> BadMessage:
    """Parse a line of a quarantine. A line that cannot be parsed is shown unchanged."""
    text = line.decode("utf-8", "backslashreplace")
    try:
        body, _ = parse_message_line(line)
        fields = json.loads(line)
    except DecodeError as error:
        problem = f"the line cannot be read: {error.problem}"
        return BadMessage("", "", problem, (text[:EDITED], "", ""), False)
    reason = str(fields.get("reason", "the line has no reason"))
    content = body.decode("utf-8", "backslashreplace")
    long = len(text) > EDITED
    # The reason quotes the bad value. Mark its first occurrence in the message.
    quoted = _QUOTED.search(reason)
    before, fault, after = (
        content.partition(quoted[1]) if quoted and quoted[1] else (content, "", "")
    )
    if long:
        # A long message is shown around its fault.
        fault, after = fault[:AROUND], after[:AROUND]
        before = before[-AROUND:] if fault else before[:AROUND]
    position = split_message_position(str(fields.get("position", "")))
    place = "" if position is None else f", byte {position[1]}"
    return BadMessage(
        line="" if long else text,
        source=f"{fields.get('source', '')}{place}",
        reason=reason[:EDITED],
        parts=(before, fault, after),
        is_text="body" in fields,
        cut=len(body) if long else 0,
    )


def _kind(reason: str) -> str:
    """Return a reason without its position and value, so that equal faults are counted together."""
    field = _FIELD.search(reason)
    kind = reason.partition(" (")[0]
    return f"{kind} (field {field[1]})" if field else kind
