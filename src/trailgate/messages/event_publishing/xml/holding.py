"""Messages that wait for those after them: rows whose large objects may still come.

Parts of large objects follow the message of their row, and no message states that a row's last one has come. So the messages from the
first one of a transaction that has such rows on are held until a message of another transaction comes, or the input ends; and all of them are
one unit, whether they were held or came together.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from trailgate.arrays import Mask
from trailgate.columnar.views import octets
from trailgate.messages.event_publishing.xml.kernels.flags import is_set
from trailgate.messages.event_publishing.xml.vocabulary import KINDS, OF_ROWS, ROOT
from trailgate.messages.parsing.messages import MessageBatch
from trailgate.messages.parsing.waiting import Complete
from trailgate.messages.transactions.by_id import Later

_FLAG: Final = octets(b"hasLOBCols")
_HEAD: Final = 1 << 16  # bytes of a message in which its envelope is sought
_OTHERS: Final = [kind for kind in KINDS if kind not in OF_ROWS]
_COMMIT: Final = re.compile(rb"cmitLSN\s*=\s*[\"']([^\"']*)")
_LAST: Final = re.compile(rb"isLast\s*=\s*[\"']\s*(?:1|true)\b")


def _envelope(*kinds: str) -> re.Pattern[bytes]:
    return re.compile(rb"<%b\b[^<]*<(?:%b)\b([^>]*)>" % (ROOT.encode(), "|".join(kinds).encode()))


_OF_ROWS: Final = _envelope(*OF_ROWS)
_OF_OTHERS: Final = _envelope(*_OTHERS)
_ROWS: Final = re.compile(rb"<(?:%b)\b" % "|".join(OF_ROWS).encode())


def complete(messages: MessageBatch) -> Complete:
    """Return how many of the messages, in UTF-8, wait for no other one."""
    count, commit = len(messages), None
    data = octets(messages.data)
    if not count or not is_set(data, int(messages.starts[0]), int(messages.ends[-1]), _FLAG):
        return Complete(count)
    awaiting = _awaiting(messages)
    found = count
    for number in reversed(range(count)):
        envelope = _envelope_of(messages, number)
        if envelope is None:
            continue
        own = _COMMIT.search(envelope)
        if commit is not None and (
            own is None or own[1] != commit or _LAST.search(envelope) is not None
        ):
            break
        commit = b"" if own is None else own[1]
        if awaiting[number]:
            found = number
    following = _commit(commit) if found < count and commit is not None else None
    return Complete(found, Later(following, awaiting))


def _commit(written: bytes) -> str | None:
    """Return the commit LSN that is written so, if it is known without reading the document."""
    known = written.isascii() and b"&" not in written
    return written.decode().strip() or None if known else None


def continues(messages: MessageBatch) -> bool:
    """Return whether none of the messages, in UTF-8, has rows."""
    return not any(_envelope_of(messages, number) is not None for number in range(len(messages)))


def transactions_of(messages: MessageBatch, number: int) -> tuple[str, ...] | None:
    """Return the commit LSN of a bad message in UTF-8: once, or not at all where it has no rows; None where it is not known."""
    start, end = int(messages.starts[number]), int(messages.ends[number])
    body = bytes(memoryview(messages.data)[start:end])
    elements = len(_ROWS.findall(body))
    if not elements:
        return None if _OF_OTHERS.search(body[:_HEAD]) is None else ()
    envelope = _OF_ROWS.search(body[:_HEAD]) if elements == 1 else None
    commit = None if envelope is None else _COMMIT.search(envelope[1])
    found = None if commit is None else _commit(commit[1])
    return None if found is None else (found,)


def _awaiting(messages: MessageBatch) -> Mask:
    """Return the messages that have rows of which large objects may come."""
    data = octets(messages.data)
    found = np.zeros(len(messages), bool)
    bounds = zip(messages.starts.tolist(), messages.ends.tolist(), strict=True)
    for number, (start, end) in enumerate(bounds):
        found[number] = (
            is_set(data, start, end, _FLAG) and _envelope_of(messages, number) is not None
        )
    return found


def _envelope_of(messages: MessageBatch, number: int) -> bytes | None:
    """Return the attributes of a message's element of rows, None where it has none."""
    start, end = int(messages.starts[number]), int(messages.ends[number])
    whole = memoryview(messages.data)
    envelope = _OF_ROWS.search(whole[start : min(end, start + _HEAD)])
    return None if envelope is None else bytes(envelope[1])
