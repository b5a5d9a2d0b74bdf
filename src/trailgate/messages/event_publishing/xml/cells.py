"""The cells of published rows: the column and type of each, and where its before and after value is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from trailgate.arrays import Longs, Mask, Octets
from trailgate.errors import did_you_mean
from trailgate.messages.event_publishing.xml.kernels import cells as kernels
from trailgate.messages.event_publishing.xml.vocabulary import AFTER, BEFORE, COLUMN, TYPE_OF, TYPES
from trailgate.messages.xml.findings import Places
from trailgate.messages.xml.kernels.cells import MISSING
from trailgate.messages.xml.names import numbered_words

_TYPE_NAMES: Final = tuple(row.name for row in TYPES)
_WORD: Final = np.frombuffer(COLUMN.encode(), np.uint8)
_PROBLEMS: Final = {
    kernels.NO_TYPE: "column {} has no value: an element of its type is expected in it",
    kernels.NESTED: f"column {{}} has {BEFORE} or {AFTER}, which belong in an updateRow",
    kernels.NO_AFTER: f"column {{}} has a {BEFORE}, and no {AFTER}",
    kernels.NIL_WITH_VALUE: "column {} is nil, and has a value",
}
# Marks of Q Capture on values that it could not convert to the code page of the message.
_FLAGS: Final = {
    "invalid": (
        "invalidData",
        "column {} is marked invalidData: its value could not be converted when it was published",
    ),
    "raw": (
        "rawData",
        "column {} is marked rawData: its value has the bytes of the source's code page",
    ),
}
_FLAG_HINT: Final = "Correct the source's data or the publishing queue map's code page; see ON CODEPAGE ERROR of CREATE PUBQMAP"
Refuse = Callable[[Longs, Callable[[int], tuple[str, str]]], None]


@dataclass(frozen=True, slots=True)
class Cells:
    """The cells of rows, each with its row; the name of each column and the type's number among ``TYPES``, -1 for one not known.

    A length of ``before`` and ``after`` may be NULL or MISSING.
    """

    operation: Longs
    names: Longs
    words: Sequence[str]
    types: Longs
    before: Places
    after: Places

    def name(self, cell: int) -> str:
        """Return the name of a cell's column, for errors."""
        return self.words[int(self.names[cell])] if self.names[cell] >= 0 else "?"


def cells_of(
    text: Octets, values: Mapping[str, Places], operation: Longs, kinds: Octets, refuse: Refuse
) -> Cells:
    """Return the cells of rows; ``kinds`` is the operation type of each.

    ``refuse`` takes cells and a function from a cell to its problem and a hint.
    """
    names, words = numbered_words(text, values["name"])
    types, elements = numbered_words(text, values["type"])
    count = len(operation)
    old, new = (Places(np.zeros(count, np.int64), np.full(count, MISSING)) for _ in range(2))
    problems = np.zeros(count, np.uint8)
    nils = {
        image: _booleans(text, values[f"{image}.nil"], f"{image}.nil", refuse)
        for image in ("own", "before", "after")
    }
    bad = kernels.place_images(
        text, kinds, *_of(values["own"]), nils["own"], *_of(values["before"]), nils["before"],
        *_of(values["after"]), nils["after"], *_of(old), *_of(new), problems,
    )  # fmt: skip
    numbers = [_TYPE_NAMES.index(word) if word in TYPE_OF else -1 for word in elements]
    found = Cells(
        operation,
        names,
        [word.strip() for word in words],
        np.array([*numbers, -1], np.int64)[types],
        old,
        new,
    )
    _check_elements(text, values, found, refuse)
    if bad:
        refuse(
            np.flatnonzero(problems),
            lambda cell: (_PROBLEMS[int(problems[cell])].format(found.name(cell)), ""),
        )
    refuse(
        np.flatnonzero((found.types < 0) & (problems == 0)),
        lambda cell: (
            f"{elements[int(types[cell])]} of column {found.name(cell)} is not a type",
            did_you_mean(elements[int(types[cell])], _TYPE_NAMES),
        ),
    )
    _check_flags(text, values, found, refuse)
    return found


def _of(places: Places) -> tuple[Longs, Longs]:
    return np.ascontiguousarray(places.starts), np.ascontiguousarray(places.lengths)


def _booleans(text: Octets, places: Places, name: str, refuse: Refuse) -> Mask:
    found = np.zeros(len(places.lengths), bool)
    starts, lengths = _of(places)
    while (bad := kernels.booleans(text, starts, lengths, found)) >= 0:
        start, size = int(starts[bad]), int(lengths[bad])
        word = text[start : start + min(size, 40)].tobytes().decode(errors="replace")
        said = f"{name.rpartition('.')[2]} is {word!r}, not 0, 1, true or false"
        refuse(np.array([bad]), lambda _, said=said: (said, ""))  # type: ignore[misc]
        lengths = lengths.copy()
        lengths[bad] = -1
    return found


def _check_elements(
    text: Octets, values: Mapping[str, Places], found: Cells, refuse: Refuse
) -> None:
    """Refuse what is not a column, has no name, or has two values."""
    element = values["element"]
    if kernels.first_other(text, *_of(element), _WORD) >= 0:
        codes, words = numbered_words(text, element)
        other = np.array([word != COLUMN for word in words])[codes]
        refuse(
            np.flatnonzero(other),
            lambda cell: (f"{words[int(codes[cell])]} is in a row, where {COLUMN} is expected", ""),
        )
    refuse(np.flatnonzero(found.names < 0), lambda _: ("a column has no name", ""))
    more = values["more"].lengths >= 0
    refuse(
        np.flatnonzero(more),
        lambda cell: (f"column {found.name(cell)} has more than one value", ""),
    )


def _check_flags(text: Octets, values: Mapping[str, Places], found: Cells, refuse: Refuse) -> None:
    """Refuse values that Q Capture could not convert."""
    for flag, (attribute, problem) in _FLAGS.items():
        for image in ("own", "before", "after"):
            places = values[f"{image}.{flag}"]
            if not (places.lengths >= 0).any():
                continue
            marked = _booleans(text, places, attribute, refuse)
            refuse(
                np.flatnonzero(marked),
                lambda cell, said=problem: (said.format(found.name(cell)), _FLAG_HINT),  # type: ignore[misc]
            )
