"""Recognize the format of sample messages, propose properties, and try a capture with them.

``FORMS`` are tried in order; the first format that fits the first message makes the proposal.
Everything that cannot be derived from the messages becomes a comment that begins with TO FILL IN.
Finally the messages are captured with the properties, and the first error is added as a comment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from trailgate.errors import DecodeError, TrailgateError
from trailgate.jobs.capture.loading import infer_from_batches
from trailgate.jobs.proposals.delimited import propose_delimited
from trailgate.jobs.proposals.drafts import FILL_IN, PropertiesDraft, set_up_capture
from trailgate.jobs.proposals.json import propose_json
from trailgate.jobs.proposals.publications import (
    fits_delimited_publications,
    fits_xml_publications,
    propose_delimited_publications,
    propose_xml_publications,
)
from trailgate.jobs.proposals.xml import propose_xml
from trailgate.messages.message_batch import MessageBatch, messages_from
from trailgate.storage.files.addresses import Addresses
from trailgate.storage.reading.message_files import find_messages, read_messages
from trailgate.storage.reading.message_lines import join_messages

SAMPLED: Final = 8 << 20  # bytes: enough to recognize formats and lengths, within seconds
_PORTION: Final = 1 << 20  # bytes to read at once
# The byte order mark of UTF-8, and blanks.
_BLANKS: Final = b"\xef\xbb\xbf \t\r\n"


class MessageForm(NamedTuple):
    """A message format that is recognized by the body of one message.

    `propose` gets the bodies of all sample messages, and returns the text of properties.
    """

    fits: Callable[[bytes], bool]
    propose: Callable[[Sequence[bytes]], str]


def _is_json(body: bytes) -> bool:
    return body.lstrip(_BLANKS)[:1] in (b"{", b"[")


def _is_xml(body: bytes) -> bool:
    # The byte order marks of UTF-16, after which ``<`` has two bytes.
    return body.lstrip(_BLANKS)[:1] == b"<" or body[:2] in (b"\xff\xfe", b"\xfe\xff")


# Publications come before the general format that they are written in. The last row fits
# anything.
FORMS: Final = (
    MessageForm(_is_json, propose_json),
    MessageForm(fits_xml_publications, propose_xml_publications),
    MessageForm(_is_xml, propose_xml),
    MessageForm(fits_delimited_publications, propose_delimited_publications),
    MessageForm(lambda _: True, propose_delimited),
)


@dataclass(frozen=True, slots=True)
class Proposal:
    """Proposed properties, and the first error of a capture with them, if any."""

    text: str
    error: TrailgateError | None = None

    @property
    def open(self) -> tuple[str, ...]:
        """Sentences about the properties that the user has to fill in."""
        sentences: list[str] = []
        for line in self.text.splitlines():
            if line.startswith(f"# {FILL_IN}"):
                sentences.append(line.removeprefix(f"# {FILL_IN}"))
            elif sentences and line.startswith(
                "#   "
            ):  # the error of a capture, below its sentence
                sentences[-1] += f" {line[4:]}"
        return tuple(sentences)


def has_content(body: bytes) -> bool:
    """Return whether a sample message shows its format. Blanks and null (a tombstone) do not."""
    return body.strip(_BLANKS) not in (b"", b"null")


def propose(
    bodies: Sequence[bytes], messages: MessageBatch | None = None, *, cut: bool = False
) -> Proposal:
    """Recognize the format of sample messages, and propose properties for a capture.

    ``messages`` are the same messages with their headers and positions, if known. ``cut`` means
    that more messages follow, so that a transaction may be open at the end. Raises DecodeError if
    messages cannot be read, or if nothing can be recognized.
    """
    seen = [body for body in bodies if has_content(body)]
    if not seen:
        raise DecodeError("the message is empty", hint="Paste one, or choose one")
    form = next(form for form in FORMS if form.fits(seen[0]))
    text = form.propose(seen)
    batch = messages_from(bodies, "message") if messages is None else messages
    error = find_first_error(text, batch, cut=cut)
    if error is None:
        return Proposal(text)
    draft = PropertiesDraft()
    draft.note(f"{FILL_IN}a capture of the message stops as yet:")
    for line in str(error).splitlines():
        draft.note(f"  {line}")
    return Proposal(draft.text() + text, error)


def find_first_error(text: str, messages: MessageBatch, *, cut: bool) -> TrailgateError | None:
    """Try a capture of the sample messages with proposed properties, and return the first error or None.

    ``cut`` means that more messages follow the sample, so an open transaction at its end is not an
    error.
    """
    try:
        capture = infer_from_batches(set_up_capture(text), [messages])
    except TrailgateError as error:
        return error
    parsed = capture.parse(messages)
    rest = () if cut else capture.at_end(parsed.state).problems
    problems = (*parsed.problems, *rest)
    return problems[0].error if problems else None


@dataclass(frozen=True, slots=True)
class Sample:
    """The sample messages from which properties are proposed.

    ``cut`` means that more messages exist, which were not read. ``empty_note`` names the empty
    files.
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
    """Read sample messages from files, about the first 8 MB of them, for a proposal.

    With ``per_line``, each line is a message. Raises StorageError if there are no files,
    DecodeError if they have no messages, or the first reading error.
    """
    files = find_messages(addresses, per_line)
    parts, size, cut = [], 0, False
    for read in read_messages(files, chunk=_PORTION):
        # Tested before the next part is added, so ``cut`` is only set if there is a next part.
        if size >= SAMPLED:
            cut = True
            break
        if read.problems:
            raise _with_suffix_hint(read.problems[0].error)
        parts.append(read)
        size += int(read.messages.data.size)
    if not parts:
        raise _no_messages(files.empty_note)
    return Sample(join_messages(parts).messages, cut, files.empty_note)


def _no_messages(empty_note: str) -> DecodeError:
    return DecodeError("there are no messages", hint=empty_note or "The files are blank")


def _with_suffix_hint(error: TrailgateError) -> TrailgateError:
    """Add a hint to an error of a file that was read as an export: a .jsonl file may contain plain messages instead."""
    hint = "If each line is a message, use a different suffix than .jsonl, and --message-per line"
    return error.add_hint(hint)
