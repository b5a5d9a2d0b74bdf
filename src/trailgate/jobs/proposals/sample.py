"""Read the sample messages of a proposal: all messages, or the first megabytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trailgate.errors import DecodeError, TrailgateError
from trailgate.jobs.proposals.proposal import Proposal, has_content, propose
from trailgate.messages.messages import MessageBatch
from trailgate.storage.files.file_search import Addresses
from trailgate.storage.reading.message_files import find_messages, join_messages, read_messages

SAMPLED: Final = 8 << 20  # bytes: enough to recognize formats and lengths, within seconds
_PORTION: Final = 1 << 20  # bytes to read at once


@dataclass(frozen=True, slots=True)
class Sample:
    """The sample messages of a proposal, and whether more exist that were not read.

    ``empty_note`` names the empty files among them.
    """

    messages: MessageBatch
    cut: bool
    empty_note: str = ""

    def propose(self) -> Proposal:
        """Propose properties for the sample messages. Raises the same errors as ``propose``."""
        batch = self.messages
        data = memoryview(batch.data)
        bounds = zip(batch.starts.tolist(), batch.ends.tolist(), strict=True)
        bodies = [bytes(data[begin:end]) for begin, end in bounds]
        if not any(map(has_content, bodies)):
            raise _no_messages(self.empty_note)
        return propose(bodies, batch, cut=self.cut)


def read_sample(addresses: Addresses, *, per_line: bool = False) -> Sample:
    """Read sample messages from files.

    Raises StorageError if there are no files, DecodeError if they have no messages, or the first
    reading error.
    """
    files = find_messages(addresses, per_line)
    parts, size, cut = [], 0, False
    for read in read_messages(files, chunk=_PORTION):
        if size >= SAMPLED:
            cut = True
            break
        if read.problems:
            raise _error(read.problems[0].error)
        parts.append(read)
        size += int(read.messages.data.size)
    if not parts:
        raise _no_messages(files.empty_note)
    return Sample(join_messages(parts).messages, cut, files.empty_note)


def _no_messages(empty_note: str) -> DecodeError:
    return DecodeError("there are no messages", hint=empty_note or "The files are blank")


def _error(error: TrailgateError) -> TrailgateError:
    """Add a hint to an error of a file that was read as an export: a .jsonl file may contain plain messages."""
    hint = "If each line is a message, use a different suffix than .jsonl, and --message-per line"
    return error.add_hint(hint)
