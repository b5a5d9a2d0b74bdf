"""The tables that schema messages describe, found before anything is captured."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trailgate.errors import DecodeError
from trailgate.messages.event_publishing.kinds import XML, kind_of
from trailgate.messages.event_publishing.xml.bodies import as_utf8
from trailgate.messages.event_publishing.xml.schemas import table_of
from trailgate.messages.event_publishing.xml.vocabulary import DEFINING
from trailgate.messages.parsing.bad_messages import BadMessagesError
from trailgate.messages.parsing.messages import MessageBatch
from trailgate.messages.xml.tree.documents import Limits, parse_document
from trailgate.model.tables import Table

_WORDS: Final = tuple(word.encode() for word in DEFINING)
_LIMITS: Final = Limits(settable=False)


def described_tables(messages: MessageBatch, page: str | None) -> Iterator[Table]:
    """Yield the table of each schema message, with one column where a column was added.

    ``page`` is the code page given for all messages. What is not a schema message, or broken, is left to the capture, which reports it.
    """
    for body in _with_words(messages, page):
        try:
            document = parse_document(body, _LIMITS)
            for root in document.top.children:
                yield from (table_of(each) for each in root.children if each.name in DEFINING)
        except DecodeError:
            continue


def _with_words(messages: MessageBatch, page: str | None) -> Iterator[bytes]:
    """Yield the documents that have the name of a schema message in them."""
    try:
        _, kind = kind_of(messages)
        if kind != XML:
            return
        messages = as_utf8(messages, page)
    except BadMessagesError as bad:
        kept = [number for number in range(len(messages)) if number not in bad.errors]
        if kept and len(kept) < len(messages):
            for number in kept:
                yield from _with_words(messages.slice(number, number + 1), page)
        return
    whole = bytes(messages.data)
    bounds = zip(messages.starts.tolist(), messages.ends.tolist(), strict=True)
    if any(word in whole for word in _WORDS):
        for start, end in bounds:
            body = whole[start:end]
            if any(word in body for word in _WORDS):
                yield body
