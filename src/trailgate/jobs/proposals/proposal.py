"""The forms of messages that are recognized, the first one that fits, and what a capture by its properties makes of the messages.

Nothing is known of what the messages do not show: a comment that begins with TO FILL IN names it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from trailgate.errors import OptionError, TrailgateError
from trailgate.jobs.capture.loading import infer_from, messages_from
from trailgate.jobs.proposals.delimited import propose_delimited
from trailgate.jobs.proposals.drafts import FILL_IN, Draft, setup
from trailgate.jobs.proposals.json import propose_json
from trailgate.jobs.proposals.publications import (
    is_delimited_publication,
    is_xml_publication,
    propose_delimited_publications,
    propose_xml_publications,
)
from trailgate.jobs.proposals.xml import propose_xml
from trailgate.messages.messages import MessageBatch

_BLANKS: Final = b"\xef\xbb\xbf \t\r\n"


class Form(NamedTuple):
    """A form of messages: whether one has it, by its body, and what makes properties of all of them."""

    fits: Callable[[bytes], bool]
    propose: Callable[[Sequence[bytes]], str]


def _is_json(body: bytes) -> bool:
    return body.lstrip(_BLANKS)[:1] in (b"{", b"[")


def _is_xml(body: bytes) -> bool:
    return body.lstrip(_BLANKS)[:1] == b"<" or body[:2] in (b"\xff\xfe", b"\xfe\xff")


FORMS: Final = (
    Form(_is_json, propose_json),
    Form(is_xml_publication, propose_xml_publications),
    Form(_is_xml, propose_xml),
    Form(is_delimited_publication, propose_delimited_publications),
    Form(lambda _: True, propose_delimited),
)


@dataclass(frozen=True, slots=True)
class Proposal:
    """Properties, and the first error of a capture of the messages by them, if there is one."""

    text: str
    error: TrailgateError | None = None

    @property
    def open(self) -> tuple[str, ...]:
        """Return what has to be filled in, a sentence each."""
        found: list[str] = []
        for line in self.text.splitlines():
            if line.startswith(f"# {FILL_IN}"):
                found.append(line.removeprefix(f"# {FILL_IN}"))
            elif found and line.startswith("#   "):  # the error of a capture, below its sentence
                found[-1] += f" {line[4:]}"
        return tuple(found)


def propose(
    bodies: Sequence[bytes], messages: MessageBatch | None = None, *, cut: bool = False
) -> Proposal:
    """Return properties for messages such as these, which may be given with their headers and places too.

    ``cut``: there are more of them, so that a transaction may be open at the end.
    Raises DecodeError for messages that cannot be read, OptionError for those of which nothing can be seen.
    """
    # An empty body and null are tombstones, which say nothing of the form.
    seen = [body for body in bodies if body.strip(_BLANKS) not in (b"", b"null")]
    if not seen:
        raise OptionError("the message is empty", hint="Paste one, or choose one")
    form = next(form for form in FORMS if form.fits(seen[0]))
    text = form.propose(seen)
    batch = messages_from(bodies, "message") if messages is None else messages
    error = fault(text, batch, cut=cut)
    if error is None:
        return Proposal(text)
    draft = Draft()
    draft.note(f"{FILL_IN}a capture of the message stops as yet:")
    for line in str(error).splitlines():
        draft.note(f"  {line}")
    return Proposal(draft.text() + text, error)


def fault(text: str, messages: MessageBatch, *, cut: bool) -> TrailgateError | None:
    """Return the first error of a capture of messages by properties, None if it has none."""
    try:
        capture = infer_from(setup(text), [messages])
    except TrailgateError as error:
        return error
    parsed = capture.parse(messages)
    rest = () if cut else capture.at_end(parsed.state).problems
    problems = (*parsed.problems, *rest)
    return problems[0].error if problems else None
