"""Messages that change no row: what they report becomes notes, and schemas are compared with the definitions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from trailgate.errors import DecodeError, TrailgateError
from trailgate.messages.event_publishing.xml.envelopes import Envelopes
from trailgate.messages.event_publishing.xml.schemas import attributes_of, differences, table_of
from trailgate.messages.event_publishing.xml.vocabulary import (
    ADDED_COLUMN,
    CONTROLS,
    DEACTIVATED,
    DEFINING,
    ERROR,
    HEARTBEAT,
    LOADED,
)
from trailgate.messages.parsing.messages import MessageBatch
from trailgate.messages.xml.tree.documents import Element, Limits, parse_document
from trailgate.model.tables import Definitions, Table

_BEATS: Final = (
    "\0heartbeat\0"  # a note of how many came begins so; no text of XML has this character
)
_LAST_COMMIT: Final = ("lastCmitTime", "lastcmitTime")  # both are seen (event publishing §3.1)
_MEANINGS: Final = {
    DEACTIVATED: "publishing of {table} was deactivated ({state})",
    LOADED: "the load of {table} is done ({state})",
    ERROR: "Q Capture reports an error of {table}: {error}",
}


class Controls:
    """Reads the messages of a batch that have no rows; ``definitions`` are those that schemas are compared with."""

    def __init__(self, limits: Limits, definitions: Definitions | None = None) -> None:
        self.limits, self.definitions = limits, definitions

    def notes(
        self, messages: MessageBatch, envelopes: Envelopes, errors: dict[int, TrailgateError]
    ) -> frozenset[str]:
        """Return what a run notes of these messages; add the errors of those that are wrong."""
        found: set[str] = set()
        beats, last = [], ""
        for number, element in self._elements(messages, envelopes, errors):
            if element.name == HEARTBEAT:
                beats.append(number)
                given = attributes_of(element)
                last = max(last, *(given.get(name, "") for name in _LAST_COMMIT))
                continue
            try:
                found.update(self._noted(element, _place(messages, number)))
            except DecodeError as error:
                errors.setdefault(number, error)
        if beats:
            place = f"{messages.files[beats[0]]}.{messages.offsets[beats[0]]}"
            parts = place, str(len(beats)), last
            found.add(_BEATS + "\0".join(parts))
        return frozenset(found)

    def tables(self, messages: MessageBatch, envelopes: Envelopes) -> Iterator[tuple[Table, bool]]:
        """Yield the table of each schema message, and whether it is a column added to one."""
        errors: dict[int, TrailgateError] = {}
        for _, element in self._elements(messages, envelopes, errors):
            if element.name in DEFINING:
                yield table_of(element), element.name == ADDED_COLUMN

    def _elements(
        self, messages: MessageBatch, envelopes: Envelopes, errors: dict[int, TrailgateError]
    ) -> Iterator[tuple[int, Element]]:
        """Yield the number of each such message, and its element below the root."""
        whole = memoryview(messages.data)
        numbers = sorted(envelopes.message[envelopes.of(*CONTROLS, *DEFINING)].tolist())
        for number in numbers:
            if number in errors:
                continue
            body = bytes(whole[messages.starts[number] : messages.ends[number]])
            document = parse_document(body, self.limits)
            yield number, document.top.children[0].children[0]

    def _noted(self, element: Element, place: str) -> Iterator[str]:
        if element.name in DEFINING:
            yield from self._compared(table_of(element), element.name, place)
            return
        given = attributes_of(element)
        table = ".".join(given.get(name, "?") for name in ("srcOwner", "srcName"))
        state, error = given.get("stateInfo", "no state"), given.get("errorMsg", "no text")
        said = _MEANINGS[element.name].format(table=table, state=state, error=error)
        yield f"{said}: {element.name}, {place}"

    def _compared(self, described: Table, kind: str, place: str) -> Iterator[str]:
        """Yield the differences of keys; raises DecodeError for columns that the definition lacks."""
        if self.definitions is None:
            return
        own = self.definitions.get(described.name)
        if own is None:
            yield f"{kind} of {described.name}, which is not in the definitions: {place}"
            return
        known = {column.name.casefold() for column in own.columns}
        lacking = [c.name for c in described.columns if c.name.casefold() not in known]
        if lacking:
            problem = (
                f"{kind} has columns that the definition of {own.name} lacks: {', '.join(lacking)}"
            )
            hint = "A trail has one definition of a table: define them, and begin a new trail"
            raise DecodeError(problem, hint=hint)
        for difference in differences(own, described.columns):
            yield f"{kind} of {own.name}: {difference}; the definition is obeyed: {place}"


def _place(messages: MessageBatch, number: int) -> str:
    source, offset = messages.place(number)
    return f"{source}, byte {offset}"


def said(notes: Iterable[str]) -> frozenset[str]:
    """Return what a run notes at its end: heartbeats are counted together."""
    found, count, last = set(), 0, ""
    for note in notes:
        if not note.startswith(_BEATS):
            found.add(note)
            continue
        *_, own, commit = note.split("\0")
        count, last = count + int(own), max(last, commit)
    if count:
        until = f", the last one of commits up to {last}" if last else ""
        found.add(f"heartbeats in the messages: {count}{until}")
    return frozenset(found)
