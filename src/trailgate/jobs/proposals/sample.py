"""Read the sample messages of a proposal: all messages, or the first megabytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trailgate.errors import TrailgateError
from trailgate.jobs.proposals.proposal import Proposal, propose
from trailgate.messages.messages import MessageBatch
from trailgate.storage.files.file_search import Addresses
from trailgate.storage.reading.message_files import find_messages, join_messages, read_messages

SAMPLED: Final = 8 << 20  # bytes: enough to recognize formats and lengths, within seconds
_PORTION: Final = 1 << 20  # bytes to read at once


@dataclass(frozen=True, slots=True)
class Sample:
    """The sample messages of a proposal, and whether more exist that were not read."""

    messages: MessageBatch
    cut: bool

    def propose(self) -> Proposal:
        """Propose properties for the sample messages. Raises the same errors as ``propose``."""
        batch = self.messages
        data = memoryview(batch.data)
        bounds = zip(batch.starts.tolist(), batch.ends.tolist(), strict=True)
        return propose([bytes(data[begin:end]) for begin, end in bounds], batch, cut=self.cut)


def read_sample(addresses: Addresses, *, per_line: bool = False) -> Sample:
    """Read sample messages from files. Raises StorageError if there are none, or the first reading error."""
    parts, size, cut = [], 0, False
    for read in read_messages(find_messages(addresses, per_line), chunk=_PORTION):
        if size >= SAMPLED:
            cut = True
            break
        if read.problems:
            raise _error(read.problems[0].error)
        parts.append(read)
        size += int(read.messages.data.size)
    return Sample(join_messages(parts).messages, cut)


def _error(error: TrailgateError) -> TrailgateError:
    """Add a hint to an error of a file that was read as an export: a .jsonl file may contain plain messages."""
    hint = "If each line is a message, use a different suffix than .jsonl, and --message-per line"
    error.hint = f"{error.hint}. {hint}" if error.hint else hint
    return error
