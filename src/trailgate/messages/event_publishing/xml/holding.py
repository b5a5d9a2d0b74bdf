"""Messages that wait for those after them: rows whose large objects may still come.

Parts of large objects follow the message of their row, and no message states that a row's last one has come. So the messages from the
first one of a transaction that has such rows on are held until a message of another transaction comes, or the input ends.
"""

from __future__ import annotations

import re
from typing import Final

from trailgate.messages.event_publishing.xml.vocabulary import OF_ROWS, ROOT
from trailgate.messages.parsing.messages import MessageBatch

_FLAG: Final = b"hasLOBCols"
_UNSET: Final = (b'hasLOBCols="0"', b"hasLOBCols='0'", b'hasLOBCols="false"', b"hasLOBCols='false'")
_HEAD: Final = 8192  # bytes of a message in which its envelope is sought
_ENVELOPE: Final = re.compile(
    rb"<%b\b[^<]*<(%b)\b([^>]*)>" % (ROOT.encode(), "|".join(OF_ROWS).encode())
)
_COMMIT: Final = re.compile(rb"cmitLSN\s*=\s*[\"']([^\"']*)")


def complete(messages: MessageBatch) -> tuple[int, str | None]:
    """Return how many of the messages, in UTF-8, wait for no other one, and the commit LSN of the first that does."""
    count, commit = len(messages), None
    if not count:
        return count, None
    whole = memoryview(messages.data)
    if not _has_large(bytes(whole[messages.starts[0] : messages.ends[-1]])):
        return count, None
    found = count
    for number in reversed(range(count)):
        body = bytes(whole[messages.starts[number] : messages.ends[number]])
        envelope = _ENVELOPE.search(body, 0, _HEAD)
        if envelope is None:
            continue
        own = _COMMIT.search(envelope[2])
        if commit is not None and (own is None or own[1] != commit):
            break
        commit = b"" if own is None else own[1]
        if _has_large(body):
            found = number
    known = found < count and commit is not None and b"&" not in commit
    return found, commit.decode().strip() if known and commit else None


def continues(messages: MessageBatch) -> bool:
    """Return whether none of the messages, in UTF-8, has rows."""
    whole = memoryview(messages.data)
    bounds = zip(messages.starts.tolist(), messages.ends.tolist(), strict=True)
    return not any(
        _ENVELOPE.search(bytes(whole[start : min(end, start + _HEAD)])) for start, end in bounds
    )


def _has_large(data: bytes) -> bool:
    """Return whether rows have large objects in messages of their own."""
    return data.count(_FLAG) > sum(map(data.count, _UNSET))
