"""The messages that a proposal is made from: all of what is named, or the first megabytes of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trailgate.errors import TrailgateError
from trailgate.jobs.proposals.proposal import Proposal, propose
from trailgate.messages.messages import MessageBatch
from trailgate.storage.files.found_files import Addresses
from trailgate.storage.reading.message_files import find_messages, join, read_messages

SAMPLED: Final = 8 << 20  # bytes: enough to see forms and lengths, in seconds
_PORTION: Final = 1 << 20  # bytes that are read at once


@dataclass(frozen=True, slots=True)
class Sample:
    """Messages, and whether there are more that were not read."""

    messages: MessageBatch
    cut: bool

    def propose(self) -> Proposal:
        """Return properties for the messages; raises as ``propose`` does."""
        batch = self.messages
        whole = memoryview(batch.data)
        bounds = zip(batch.starts.tolist(), batch.ends.tolist(), strict=True)
        return propose([bytes(whole[begin:end]) for begin, end in bounds], batch, cut=self.cut)


def read_sample(addresses: Addresses, *, per_line: bool = False) -> Sample:
    """Return the messages of files; raises StorageError where there are none, and the error of the first that cannot be read."""
    parts, size, cut = [], 0, False
    for read in read_messages(find_messages(addresses, per_line), chunk=_PORTION):
        if size >= SAMPLED:
            cut = True
            break
        if read.problems:
            raise _error(read.problems[0].error)
        parts.append(read)
        size += int(read.messages.data.size)
    return Sample(join(parts).messages, cut)


def _error(error: TrailgateError) -> TrailgateError:
    """Return the error of a line of JSON lines, with what helps where each line is a message itself."""
    hint = (
        "Lines that are messages themselves need another ending than .jsonl, and --message-per line"
    )
    error.hint = f"{error.hint}. {hint}" if error.hint else hint
    return error
