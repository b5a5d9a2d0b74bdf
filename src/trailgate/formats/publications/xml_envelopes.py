"""Prepare the documents of XML publications, and read each message's envelope: its type and attributes.

First `as_utf8` removes headers before the document and decodes it to UTF-8 (event publishing §3.1).
The declared encoding is the encoding of the program that wrote the message. Queues and bridges
convert messages without changing the declaration. Therefore the code page is taken from the first
of these that exists: the property, the MQRFH2 header, and (for EBCDIC only) the declaration. The
declaration is then removed.

`read_envelopes` reads the element below the root, for example `<trans isLast="1" segmentNum="1"
cmitLSN="...">`, and checks the attributes that its type requires.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask, Octets
from trailgate.errors import DecodeError, TrailgateError, Where, did_you_mean
from trailgate.formats.publications.xml_cell_kernels import booleans
from trailgate.formats.publications.xml_vocabulary import (
    KINDS,
    LARGE_OBJECT,
    ROOT,
    ROW,
    TRANSACTION,
)
from trailgate.formats.xml.matches import MatchRecords, RuleMatches, ValueSpans, code_words
from trailgate.messages.message_batch import MessageBatch

_NAMES: Final[Mapping[str, str]] = {
    "last": "isLast",
    "segment": "segmentNum",
    "commit": "cmitLSN",
    "time": "cmitTime",
    "schema": "srcOwner",
    "table": "srcName",
    "row": "rowNum",
    "column": "colName",
    "total": "totalDataLen",
    "size": "dataLen",
}
# The attributes that each message type must have, among those that are read (event publishing §3).
_REQUIRED: Final[Mapping[str, tuple[str, ...]]] = {
    TRANSACTION: ("last", "segment", "commit", "time"),
    ROW: ("commit", "time"),
    LARGE_OBJECT: ("last", "schema", "table", "row", "column", "total", "size"),
}
_NOT_PUBLICATIONS: Final = (
    "An XML publication is a msg element with one of " + ", ".join(KINDS) + " in it"
)


@dataclass(frozen=True, slots=True)
class Envelopes:
    """The envelope of each XML publication: the type and attributes of the element below the root.

    There is one element per envelope in `message` (the number of its message), `kind` (its type, as
    an index into `KINDS`), `last` (whether it ends its transaction, or a large object) and
    `segment` (its segmentNum, or 0). `values` are the spans of all attributes in `text`. `number`
    has one element per message: the index of its envelope, or -1 if it has none.
    """

    text: Octets
    message: Longs
    kind: Longs
    values: RecordValueSpans
    number: Longs
    last: Mask
    segment: Longs

    def strings(self, name: str, which: Longs | None = None) -> pa.Array:
        """Return an attribute of XML publication envelopes, stripped of blanks; null if missing.

        `which` are the indexes of the envelopes, by default all.
        """
        places = self.values[name]
        found = (places if which is None else places.take(which)).text(self.text)
        return pc.utf8_trim(found, " \t\r\n")

    def mask_types(self, *kinds: str) -> Mask:
        """Return a mask of the XML publication envelopes of these types, such as `trans`."""
        return np.isin(self.kind, [KINDS.index(kind) for kind in kinds])


def read_envelopes(
    messages: MessageBatch, matches: RuleMatches, errors: dict[int, TrailgateError]
) -> Envelopes:
    """Read the envelopes of XML publications.

    Errors of messages that are not publications are added to `errors`.
    """
    text, values = matches.text, RecordValueSpans(matches.outer)
    message = matches.outer_message
    count = np.bincount(message, minlength=len(messages))
    codes, words = values.words(text, "kind")
    numbers = [KINDS.index(word) if word in KINDS else -1 for word in words]
    # The appended -1 is selected by code -1, an envelope without a name.
    kind = np.array([*numbers, -1], np.int64)[codes]
    place = np.full(len(messages), -1)
    place[message] = np.arange(len(message))

    def unknown(number: int) -> tuple[str, str]:
        word = words[codes[place[number]]]
        return f"{word} is not a type of publication", did_you_mean(word, KINDS)

    add_errors(errors, message[kind < 0], unknown)
    add_errors(
        errors,
        np.flatnonzero(count != 1),
        lambda number: (
            f"the message has {count[number]} elements in {ROOT}, but must have one"
            if count[number]
            else "the message is not a publication",
            _NOT_PUBLICATIONS,
        ),
    )
    last = _booleans(text, values["last"], message, "isLast", errors)
    envelopes = Envelopes(
        text=text,
        message=message,
        kind=kind,
        values=values,
        number=place,
        last=last,
        segment=whole_numbers(text, values["segment"], message, "segmentNum", errors, least=1),
    )
    _check_required(envelopes, errors)
    return envelopes


class RecordValueSpans(Mapping[str, ValueSpans]):
    """The byte spans of the values in XML publication records, by name.

    For a name that no record has, all values are missing.
    """

    def __init__(self, records: MatchRecords) -> None:
        self.found = records
        self._places: dict[str, ValueSpans] = {}

    def __getitem__(self, name: str) -> ValueSpans:
        if name not in self._places:
            count = len(self.found)
            none = ValueSpans(np.zeros(count, np.int64), np.full(count, -1))
            self._places[name] = self.found.spans(name) or none
        return self._places[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.found.fields)

    def __len__(self) -> int:
        return len(self.found.fields)

    def words(self, text: Octets, name: str) -> tuple[Longs, list[str]]:
        """Return a value of XML publication records as codes.

        The code is the record's index into the list of distinct words, or -1 if the value is
        missing.
        """
        field = self.found.fields.get(name)
        if field is None:
            return np.full(len(self.found), -1), []
        return code_words(text, self.found, field)


def add_errors(
    errors: dict[int, TrailgateError],
    messages: Longs,
    problem: Callable[[int], tuple[str, str]],
    field: str | None = None,
) -> None:
    """Add an error to each of these XML publications, for a fault in their envelopes. The first error of a message counts."""
    for number in messages.tolist():
        if number not in errors:
            text, hint = problem(number)
            errors[number] = DecodeError(text, where=Where(field=field), hint=hint)


def _booleans(
    text: Octets,
    places: ValueSpans,
    message: Longs,
    name: str,
    errors: dict[int, TrailgateError],
) -> Mask:
    """Parse boolean attributes of XML publications; `message` is the message number of each.

    Errors are added to `errors`.
    """
    flags, lengths = np.zeros(len(message), bool), places.lengths
    while True:
        bad = booleans(text, places.starts, lengths, flags)
        if bad < 0:
            return flags
        shown = _shown(text, places, bad)
        problem = f"{name} is {shown}, not 0, 1, true or false"
        add_errors(errors, message[[bad]], _always(problem), name)
        lengths = lengths.copy()
        # Mark the value as missing, so that the next pass continues after it.
        lengths[bad] = -1


def _shown(text: Octets, places: ValueSpans, row: int) -> str:
    start, size = int(places.starts[row]), int(places.lengths[row])
    return repr(text[start : start + min(size, 40)].tobytes().decode(errors="replace"))


def whole_numbers(
    text: Octets,
    places: ValueSpans,
    message: Longs,
    name: str,
    errors: dict[int, TrailgateError],
    least: int = 0,
) -> Longs:
    """Parse integer attributes of XML publications. A missing attribute becomes 0.

    `message` is the message number of each attribute. Errors are added to `errors`, also for
    numbers below `least`.
    """
    values = pc.utf8_trim(places.text(text), " \t\r\n")
    # Missing attributes are null, and count as good. At most 18 digits fit into 64 bits.
    good = np.asarray(pc.fill_null(pc.match_substring_regex(values, "^[0-9]{1,18}$"), True))
    numbers = pc.if_else(pa.array(good), values, None).cast(pa.int64())
    filled: Longs = pc.fill_null(numbers, 0).to_numpy()
    given = np.asarray(values.is_valid())
    bad = np.flatnonzero(~good | (given & (filled < least)))
    # Errors are created by message: remember a bad row of each.
    row_of = dict(zip(message[bad].tolist(), bad.tolist(), strict=True))
    add_errors(
        errors,
        message[bad],
        lambda number: (
            f"{name} is {_shown(text, places, row_of[number])}, not a number from {least}",
            "",
        ),
        name,
    )
    return filled


def _check_required(envelopes: Envelopes, errors: dict[int, TrailgateError]) -> None:
    for kind, names in _REQUIRED.items():
        of_kind = envelopes.kind == KINDS.index(kind)
        if not of_kind.any():
            continue
        for name in names:
            lacking = envelopes.message[of_kind & (envelopes.values[name].lengths < 0)]
            problem = f"{kind} has no attribute {_NAMES[name]}"
            add_errors(errors, lacking, _always(problem), _NAMES[name])


def _always(problem: str) -> Callable[[int], tuple[str, str]]:
    return lambda _: (problem, "")
