"""Messages that wait for those after them: rows whose large objects may still come.

Parts of large objects follow the message of their row, and no message states that a row's last one has come. So the messages from the
first one of a transaction that has such rows on are held until a message of another transaction comes, or the input ends.
"""

from __future__ import annotations

import re
from typing import Final

from trailgate.columnar.views import octets
from trailgate.messages.event_publishing.xml.kernels.flags import is_set
from trailgate.messages.event_publishing.xml.vocabulary import OF_ROWS, ROOT
from trailgate.messages.parsing.messages import MessageBatch

_FLAG: Final = octets(b"hasLOBCols")
_HEAD: Final = 1 << 16  # bytes of a message in which its envelope is sought
_ENVELOPE: Final = re.compile(
    rb"<%b\b[^<]*<(%b)\b([^>]*)>" % (ROOT.encode(), "|".join(OF_ROWS).encode())
)
_COMMIT: Final = re.compile(rb"cmitLSN\s*=\s*[\"']([^\"']*)")


def complete(messages: MessageBatch) -> tuple[int, str | None]:
    """Return how many of the messages, in UTF-8, wait for no other one, and the commit LSN of the first that does."""
    count, commit = len(messages), None
    if not count:
        return count, None
    data = octets(messages.data)
    if not is_set(data, int(messages.starts[0]), int(messages.ends[-1]), _FLAG):
        return count, None
    found = count
    for number in reversed(range(count)):
        start, end = int(messages.starts[number]), int(messages.ends[number])
        envelope = _ENVELOPE.search(data[start : min(end, start + _HEAD)].tobytes())
        if envelope is None:
            continue
        own = _COMMIT.search(envelope[2])
        if commit is not None and (own is None or own[1] != commit):
            break
        commit = b"" if own is None else own[1]
        if is_set(data, start, end, _FLAG):
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
