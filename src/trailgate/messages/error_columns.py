"""The errors of messages as columns: a row for each error, a column for each part of the error.

A file in which every message is bad has as many errors as messages. An exception for each of them
would take longer than parsing a good message. The checks find complete columns of bad rows, so they
return their errors as columns too. A part that is the same for all rows is an Arrow scalar:

    ErrorColumns.of(3, "not a number", table="S.T", field="ID", offset=[4, 9, 4], raw=values)

`texts` formats the texts of all rows by a template (`columnar/templates.py`). `errors[row]` creates
the exception of one row. Both result in the same text, which `errors.py` defines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate import errors as every_error
from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.gather import gather
from trailgate.columnar.strings import text_view
from trailgate.columnar.templates import PieceForm, RowPiece, templates_to_strings
from trailgate.errors import NUMBERED, SHOWN, DecodeError, TrailgateError, Where, mask_logins
from trailgate.messages import error_columns_kernels as kernels
from trailgate.messages.utf8_kernels import find_not_utf8

_TEXTS: Final = ("kind", "problem", "hint", "source", "table", "field", "text")
_TYPES: Final[Mapping[str, pa.DataType]] = {
    **dict.fromkeys(_TEXTS, pa.string()),
    **dict.fromkeys(NUMBERED, pa.int64()),
    "raw": pa.binary(),
}
_PLACE: Final = tuple(one.name for one in fields(Where))
# The parts of a place in the order in which they are printed, each with the text before it.
_LABELS: Final[Mapping[str, str]] = {
    "source": "",
    **{name: f"{label} " for name, label in NUMBERED.items()},
    "table": "table ",
    "field": "field ",
    "raw": "",
}
_SEPARATORS: Final = (" (", ", ")  # before the first part of a place, and before each further one
_HEX_SHOWN: Final = 32  # bytes that a text shows in hex
_DECODED: Final = 4 * SHOWN  # bytes of a value that are decoded to show it

# A superset of the texts in which `mask_logins` finds something, in the notation of Arrow.
_PERHAPS_LOGIN: Final = r"://[^\s@]*:[^\s@]*@|(?i:[?&](client_secret|sig)=)"

# What a byte is to the text of an error: shown as it is, a blank, a line's end or a tab, a control
# character, or a part of a character that is not ASCII.
_GRAPHIC, _BLANK, _WHITE, _CONTROL, _HIGH = range(5)
_KINDS: Final = np.full(256, _CONTROL, np.uint8)
_KINDS[33:127] = _GRAPHIC
_KINDS[32] = _BLANK
_KINDS[[9, 10, 13]] = _WHITE
_KINDS[128:] = _HIGH
_HEX: Final = np.frombuffer("".join(f"{byte:02x} " for byte in range(256)).encode(), "V3")
# What repr writes for these characters.
_ESCAPED: Final = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


# A part of several errors: a value for each row, or one for all rows.
Part: TypeAlias = pa.Array | pa.Scalar


@dataclass(frozen=True, slots=True, eq=False)
class ErrorColumns:
    """Errors of messages as columns: `columns` maps the name of a part to its value for each error.

    `kind` is the name of the error's class, and `problem` and `hint` are its texts; the other names
    are the fields of `Where`. A scalar in place of a column is the value in all rows. If a name is
    missing, the part is unknown in all rows; a null means that it is unknown in one row.
    """

    count: int
    columns: Mapping[str, Part]

    @staticmethod
    def of(
        count: int,
        problem: str | pa.Array,
        hint: str | pa.Array = "",
        *,
        kind: type[TrailgateError] = DecodeError,
        **place: Any,
    ) -> ErrorColumns:
        """Build the columns of `count` errors of messages.

        `problem`, `hint` and each field of `place` is one value for all errors, a column, or None
        if it is unknown.
        """
        parts = {"kind": kind.__name__, "problem": problem, "hint": hint, **place}
        return ErrorColumns(
            count,
            {name: _column(name, value) for name, value in parts.items() if value is not None},
        )

    @staticmethod
    def of_errors(errors: Sequence[TrailgateError]) -> ErrorColumns:
        """Convert the exceptions of messages to columns."""
        columns: dict[str, Part] = {
            "kind": _column("kind", [type(error).__name__ for error in errors]),
            "problem": _column("problem", [error.problem for error in errors]),
            "hint": _column("hint", [error.hint for error in errors]),
        }
        for name in _PLACE:
            values = [getattr(error.where, name) for error in errors]
            if values.count(None) < len(values):
                columns[name] = _column(name, values)
        return ErrorColumns(len(errors), columns)

    @staticmethod
    def join(parts: Sequence[ErrorColumns]) -> ErrorColumns:
        """Concatenate the errors of several parts of a batch."""
        parts = [part for part in parts if part.count] or parts[:1]
        if len(parts) == 1:
            return parts[0]
        names = dict.fromkeys(name for part in parts for name in part.columns)
        count = sum(part.count for part in parts)
        return ErrorColumns(count, {name: _joined(name, parts) for name in names})

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, row: int) -> TrailgateError:
        values = {
            name: (part if isinstance(part, pa.Scalar) else part[row]).as_py()
            for name, part in self.columns.items()
        }
        kind = getattr(every_error, values.pop("kind"))
        problem, hint = values.pop("problem"), values.pop("hint")
        error: TrailgateError = kind(problem, where=Where(**values), hint=hint)
        return error

    def __iter__(self) -> Iterator[TrailgateError]:
        return (self[row] for row in range(self.count))

    def column(self, name: str) -> pa.Array:
        """Return one part of all errors, such as "offset", as a column; all null if unknown."""
        part = self.columns.get(name)
        if part is None:
            return pa.nulls(self.count, _TYPES[name])
        return pa.repeat(part, self.count) if isinstance(part, pa.Scalar) else part

    def take(self, rows: Longs) -> ErrorColumns:
        """Return the errors of messages at these indexes."""
        if len(rows) == self.count and (rows == np.arange(self.count)).all():
            return self
        places = pa.array(rows, pa.int64())
        return self._selected(len(rows), lambda column: column.take(places))

    def slice(self, begin: int, count: int) -> ErrorColumns:
        """Return the `count` errors of messages from index `begin` on, without copying them."""
        return self._selected(count, lambda column: column.slice(begin, count))

    def _selected(self, count: int, select: Callable[[pa.Array], pa.Array]) -> ErrorColumns:
        columns = {
            name: part if isinstance(part, pa.Scalar) else select(part)
            for name, part in self.columns.items()
        }
        return ErrorColumns(count, columns)

    def with_place(self, **place: Any) -> ErrorColumns:
        """Add parts of the place, such as `source` or `offset`, in the errors that lack them.

        Each value is a column, or one value for all errors. None adds nothing.
        """
        columns = dict(self.columns)
        for name, value in place.items():
            if value is None:
                continue
            given, before = _column(name, value), columns.get(name)
            if before is None or (isinstance(before, pa.Scalar) and not before.is_valid):
                columns[name] = given
            elif not isinstance(before, pa.Scalar) and before.null_count:
                columns[name] = pc.coalesce(before, given)
        return ErrorColumns(self.count, columns)

    def replace(self, **parts: Any) -> ErrorColumns:
        """Return the errors with some parts replaced, each by a column or one value for all errors.

        None makes a part unknown.
        """
        columns = {name: column for name, column in self.columns.items() if name not in parts}
        for name, value in parts.items():
            if value is not None:
                columns[name] = _column(name, value)
        return ErrorColumns(self.count, columns)

    def texts(self) -> pa.StringArray:
        """Format the errors of messages, each as `str` would format its exception."""
        return _masked(_texts(self))

    def reasons(self) -> dict[str, int]:
        """Count the errors of messages by reason, in the order in which the reasons first occur.

        A reason is the problem with its table and field, but without position and value.
        """
        others = {"kind", *_PLACE} - {"table", "field"}
        alone = self.replace(hint="", **dict.fromkeys(others))
        varying = [part for part in alone.columns.values() if not isinstance(part, pa.Scalar)]
        codes = np.zeros(self.count, np.int64)
        for part in varying:
            coded = part.dictionary_encode("encode")
            codes = codes * len(coded.dictionary) + np.asarray(coded.indices)
        # Encoding numbers the combinations in the order of their first errors. Of several values for one
        # index the last one counts, which is the first error if rows are assigned in reverse.
        numbers = np.asarray(pa.array(codes).dictionary_encode().indices)
        counts = np.bincount(numbers)
        first = np.zeros(len(counts), np.int64)
        first[numbers[::-1]] = np.arange(self.count)[::-1]
        reasons: dict[str, int] = {}
        for text, errors in zip(
            _texts(alone.take(first)).to_pylist(), counts.tolist(), strict=True
        ):
            reasons[text] = reasons.get(text, 0) + errors  # empty and unknown parts look alike
        return reasons


def _joined(name: str, parts: Sequence[ErrorColumns]) -> Part:
    """Concatenate the column `name` of several error columns; equal scalars stay one scalar."""
    first = parts[0].columns.get(name)
    others = [part.columns.get(name) for part in parts[1:]]
    if isinstance(first, pa.Scalar) and all(
        isinstance(each, pa.Scalar) and each.equals(first) for each in others
    ):
        return first
    return pa.concat_arrays([each.column(name) for each in parts])


class _Template:
    """Builds the template for the texts of errors, such as "not a number (ot.txt, byte 4). Hint".

    A template is a list of pieces (`columnar/templates.py`); each writes literal text and one value
    per row. `pieces` are the finished pieces, and `literal` is the text before the next piece. The
    *place* is the part of the text in parentheses. `begun` states in which rows the parenthesis is
    already open: in all (True), in none (False), or in the rows of a mask. In these rows, a comma
    precedes the next part of the place; in the others, " (" does.
    """

    def __init__(self) -> None:
        self.pieces: list[RowPiece] = []
        self.literal = b""
        self.begun: bool | Mask = False

    @property
    def separators(self) -> tuple[str, ...]:
        """Return the separators before the next part of an error's place: " (" or ", ".

        There are two if `begun` is a mask: the second one is for the rows in the mask.
        """
        return _SEPARATORS if isinstance(self.begun, np.ndarray) else (_SEPARATORS[self.begun],)

    def add(
        self,
        values: pa.Array | None,
        forms: Sequence[tuple[str, str | None]],
        states: Octets | None,
    ) -> None:
        """Add a piece to the template: one value per row, written in one of several forms.

        A form consists of the literals before and after the value; with None as the second one, the
        value is not written. `states` has the index of each row's form. If it is None, rows have
        the first form, or the second one if the value is null.
        """
        made = tuple(
            PieceForm(self.literal + before.encode(), None if after is None else after.encode())
            for before, after in forms
        )
        self.pieces.append(RowPiece(values, made, states, plain=True))
        self.literal = b""

    def add_part(self, before: str, part: Part, absent: Mask | None) -> None:
        """Add a literal and the value of a part, except in the rows of the mask `absent`."""
        if isinstance(part, pa.Scalar):
            self.literal += before.encode() + part.as_buffer().to_pybytes()
        else:
            states = None if absent is None else absent.astype(np.uint8)
            self.add(part, [(before, ""), ("", None)], states)

    def add_place(self, label: str, part: Part, absent: Mask | None) -> None:
        """Add a part of the place, such as "byte 4", except in the rows of the mask `absent`."""
        begun = self.begun
        if not isinstance(begun, np.ndarray):
            self.add_part(f"{self.separators[0]}{label}", part, absent)
        else:
            forms = [(f"{one}{label}", "") for one in self.separators]
            states = begun.astype(np.uint8)
            if absent is not None:
                states[absent] = len(forms)
            values = pa.repeat(part, len(begun)) if isinstance(part, pa.Scalar) else part
            self.add(values, [*forms, ("", None)], states)
        self.begin(absent)

    def begin(self, absent: Mask | None) -> None:
        """Record that the place has begun, except in the rows of the mask `absent`."""
        self.begun = self.begun is True or absent is None or ~absent | self.begun

    def end_place(self, errors: ErrorColumns) -> None:
        """Add the closing parenthesis of the place to the text of an error.

        In rows in which no part was printed, write "(unknown place)" if a part has a value (empty
        text is not printed), and nothing if all parts are unknown.
        """
        if self.begun is True:
            self.literal += b")"
            return
        known = [errors.column(name) for name in _PLACE if name in errors.columns]
        if known:
            nowhere = np.logical_and.reduce([np.asarray(column.is_null()) for column in known])
            states = np.where(self.begun, 0, np.where(nowhere, 2, 1)).astype(np.uint8)
            self.add(None, [(")", None), (" (unknown place)", None), ("", None)], states)

    def finish(self) -> list[RowPiece]:
        """Return the pieces of an error's text. The last one is the literal text that was added after the last value."""
        return [*self.pieces, RowPiece(None, (PieceForm(self.literal),))]


def _texts(errors: ErrorColumns) -> pa.StringArray:
    """Format the errors, without masking logins: "problem (source, byte 4, text 'x'). hint"."""
    template = _Template()
    template.add_part("", errors.columns["problem"], None)
    for name, label in _LABELS.items():
        part = errors.columns.get(name)
        if part is None or (isinstance(part, pa.Scalar) and not part.is_valid):
            continue
        if name == "raw":
            _add_value(template, errors)
            continue
        shown, absent = _printed(name, part)
        if absent is None or not isinstance(shown, pa.Scalar):
            template.add_place(label, shown, absent)
    template.end_place(errors)
    hint, absent = _printed("hint", errors.columns["hint"])
    if absent is None or not isinstance(hint, pa.Scalar):
        template.add_part(". ", hint, absent)
    return templates_to_strings(template.finish(), errors.count)


def _printed(name: str, part: Part) -> tuple[Part, Mask | None]:
    """Format a part of errors, such as their offsets, as text.

    Returns the text, and a mask of the rows in which it is not printed because it is unknown or
    empty (None if it is printed in all rows).
    """
    if name in NUMBERED:
        return _printed_numbers(part)
    if isinstance(part, pa.Scalar):
        empty = name != "raw" and not part.as_buffer().size
        return part, np.ones(1, bool) if empty else None
    absent: Mask | None = np.asarray(part.is_null()) if part.null_count else None
    if name != "raw":
        offsets, _ = text_view(part)
        empty_rows: Mask = offsets[1:] == offsets[:-1]
        if empty_rows.any():
            absent = empty_rows if absent is None else absent | empty_rows
    return part, absent


def _printed_numbers(part: Part) -> tuple[Part, Mask | None]:
    """Format numbers in errors. If all are equal, as record numbers often are, return one text."""
    if isinstance(part, pa.Scalar):
        return part.cast(pa.string()), None
    if part.null_count:
        return part.cast(pa.string()), np.asarray(part.is_null())
    values = np.asarray(part)
    same = len(values) and (values == values[0]).all()
    return (part[0] if same else part).cast(pa.string()), None


def _add_value(template: _Template, errors: ErrorColumns) -> None:
    """Add the bytes at fault (the part "raw") to the template of an error, inside its parentheses.

    Printable ASCII is written unchanged, ``text 'AB'``, or cut if it is long, ``text 'AB...'... (70
    bytes)``. `_shown_values` formats all other values.
    """
    raw, text = errors.column("raw"), errors.columns.get("text")
    offsets, data = text_view(raw)
    states = np.empty(len(raw), np.uint8)
    kernels.classify_values(data, offsets, SHOWN, states)
    if text is not None:
        text = errors.column("text")
        differs = pc.not_equal(raw, text.cast(pa.binary())).fill_null(False)
        states[np.asarray(differs)] = kernels.ODD
    if raw.null_count:
        states[np.asarray(raw.is_null())] = kernels.ABSENT
    odd, long = np.flatnonzero(states == kernels.ODD), states == kernels.LONG
    sizes: pa.Array | None = None
    if long.any():
        begins, ends = offsets[:-1].astype(np.int64), offsets[1:].astype(np.int64)
        sizes = _numbers(ends - begins)
        raw = gather(data, begins, np.minimum(ends, begins + SHOWN))
    if len(odd):
        rows = pa.array(odd)
        shown = _shown_values(
            errors.column("raw").take(rows), None if text is None else text.take(rows)
        )
        raw = _put(raw.fill_null(b""), odd, shown.cast(pa.binary()))
    # Four forms for each separator: PLAIN, LONG, ODD and ABSENT.
    forms: list[tuple[str, str | None]] = []
    for one in template.separators:
        forms += [(f"{one}text '", ""), (f"{one}text '", ""), (one, ""), ("", None)]
    begun = template.begun
    mixed = isinstance(begun, np.ndarray)
    template.add(raw, forms, (states + 4 * begun).astype(np.uint8) if mixed else states)
    ends_of = [("'", None), ("'... (", " bytes)"), ("", None), ("", None)]
    if sizes is None:
        ends_of[kernels.LONG] = ends_of[kernels.PLAIN]
    template.add(sizes, ends_of, states)
    template.begin(states == kernels.ABSENT if errors.column("raw").null_count else None)


def _column(name: str, value: Any) -> Part:
    if isinstance(value, pa.Array | pa.Scalar):
        return value if value.type == _TYPES[name] else value.cast(_TYPES[name])
    if isinstance(value, str | int | bytes | np.integer):
        return _column(name, [value])[0]
    try:
        return pa.array(value, _TYPES[name])
    except UnicodeEncodeError:  # Arrow has no text with half a pair of surrogates
        return pa.array([_encodable(text) for text in value], _TYPES[name])


def _encodable(text: str | None) -> str | None:
    return None if text is None else text.encode("utf-8", "backslashreplace").decode()


def _masked(texts: pa.StringArray) -> pa.StringArray:
    """Mask logins and secrets in texts of errors. Only texts that may contain one are processed."""
    offsets, data = text_view(texts)
    if not kernels.may_have_login(data[int(offsets[0]) : int(offsets[-1])]):
        return texts
    found = np.flatnonzero(np.asarray(pc.match_substring_regex(texts, _PERHAPS_LOGIN)))
    return _replaced(texts, found, mask_logins) if len(found) else texts


def _replaced(texts: pa.StringArray, rows: Longs, change: Any) -> pa.StringArray:
    """Apply `change` to the texts of errors in these rows, once per distinct text."""
    some = texts.take(pa.array(rows)).dictionary_encode()
    changed = pa.array([change(text) for text in some.dictionary.to_pylist()], pa.string())
    return _put(texts, rows, changed.take(some.indices))


def _put(texts: pa.StringArray, rows: Longs, others: pa.StringArray) -> pa.StringArray:
    """Replace the texts of these rows by `others`, in the same order."""
    places = np.arange(len(texts))
    places[rows] = len(texts) + np.arange(len(rows))
    return pa.concat_arrays([texts, others]).take(pa.array(places))


def _shown_values(raw: pa.BinaryArray, text: pa.StringArray | None) -> pa.StringArray:
    """Format the bytes at fault for an error message: as text, in hex, or both."""
    offsets, data = _bounds(raw)
    begins, ends = offsets[:-1], offsets[1:]
    own = None if text is None else np.asarray(text.is_valid())
    # The text that is shown, and whether it is ASCII throughout.
    cut = gather(data, begins, np.minimum(ends, begins + _DECODED))
    if own is not None and own.any():
        shown_bytes = text.cast(pa.binary())  # type: ignore[union-attr]
        cut = shown_bytes if own.all() else pc.coalesce(shown_bytes, cut)
    kinds, bounds = _kinds_of(cut)
    high, control = _counts(kinds == _HIGH, bounds), _counts(kinds == _CONTROL, bounds)
    visible = _counts(kinds == _GRAPHIC, bounds) > 0
    # A text is shown if it has something to see and no control characters, such as b"AB C". Of
    # b"\x00\x01" and b"   " only the hex digits say anything.
    hidden = _not_decoded(data, offsets, high > 0 if own is None else (high > 0) & ~own)
    readable = visible & (control == 0) & ~hidden
    parts = pc.binary_join_element_wise("text ", _quote(_ascii(cut, high == 0)), "")
    # Bytes are printed in hex too if the text does not show them completely.
    plain = _are_plain(data, offsets)
    if own is not None:
        plain &= ~own | _begin_with(raw, cut)
    sizes = ends - begins
    long = sizes > SHOWN
    if (readable & plain & long).any():
        more = pc.binary_join_element_wise(" (", _numbers(sizes), " bytes)", "")
        parts = pc.if_else(
            pa.array(plain & long), pc.binary_join_element_wise(parts, more, ""), parts
        )
    in_hex = np.flatnonzero(~(readable & plain))
    if len(in_hex):
        hexed = _hex(data, begins[in_hex], ends[in_hex])
        both = pa.array(readable[in_hex])
        joined = pc.binary_join_element_wise(parts.take(pa.array(in_hex)), hexed, ", ")
        parts = _put(parts, in_hex, pc.if_else(both, joined, hexed))
    odd = np.flatnonzero((high > 0) & ~hidden)
    if len(odd):
        parts = _put(parts, odd, _describe(raw, text, odd))
    return parts


def _not_decoded(data: Octets, offsets: Longs, perhaps: Mask) -> Mask:
    """Mark the bytes at fault that are not UTF-8, of which an error shows only hex digits.

    Only the values in the mask `perhaps` are examined.
    """
    hidden = np.zeros(len(perhaps), bool)
    rows = np.flatnonzero(perhaps)
    if len(rows):
        begins, ends = offsets[rows], offsets[rows + 1]
        at, stop = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
        find_not_utf8(data, begins, np.minimum(ends, begins + _DECODED), at, stop)
        hidden[rows] = (at >= 0) & (at - begins < np.minimum(SHOWN, ends - begins))
    return hidden


def _bounds(values: pa.Array) -> tuple[Longs, Octets]:
    offsets, data = text_view(values)
    return offsets.astype(np.int64), data


def _kinds_of(values: pa.BinaryArray) -> tuple[Octets, Longs]:
    """Return the class of each byte of the values, such as `_CONTROL`, and the offset of each value."""
    offsets, data = _bounds(values)
    return _KINDS[data[offsets[0] : offsets[-1]]], offsets - offsets[0]


def _counts(marks: Mask, bounds: Longs) -> Longs:
    """Count the marked bytes of each value. `marks` has one element per byte of all values."""
    if not marks.any():
        return np.zeros(len(bounds) - 1, np.int64)
    before = np.append(0, np.cumsum(marks))
    counts: Longs = before[bounds[1:]] - before[bounds[:-1]]
    return counts


def _ascii(values: pa.BinaryArray, good: Mask) -> pa.StringArray:
    """Convert ASCII values to text, and all others (where `good` is False) to empty text."""
    if not good.all():
        values = pc.if_else(pa.array(good), values, b"")
    return values.cast(pa.string())


def _quote(texts: pa.StringArray) -> pa.StringArray:
    """Format ASCII texts without control characters like `repr`, cut after `SHOWN` characters.

    Example: ``it's`` becomes ``"it's"``, and a long text ``'ABC...'...``.
    """
    # ASCII has one byte per character, so lengths in bytes are lengths in characters.
    long = pc.greater(pc.binary_length(texts), SHOWN)
    if pc.any(long).as_py():
        texts = pc.binary_slice(texts.cast(pa.binary()), 0, SHOWN).cast(pa.string())
    for character, escaped in _ESCAPED.items():
        if pc.any(pc.match_substring(texts, character)).as_py():
            texts = pc.replace_substring(texts, character, escaped)
    # repr uses single quotes, but double quotes for a text with only single quotes in it; if it has
    # both, it uses single quotes and escapes those inside: 'a', "it's", 'it\'s "a"'.
    quote: Any = "'"
    single = pc.match_substring(texts, "'")
    if pc.any(single).as_py():
        double = pc.match_substring(texts, '"')
        both = pc.and_(single, double)
        quote = pc.if_else(pc.and_not(single, double), '"', "'")
        texts = pc.if_else(both, pc.replace_substring(texts, "'", "\\'"), texts)
    quoted = pc.binary_join_element_wise(quote, texts, quote, "")
    if pc.any(long).as_py():
        quoted = pc.if_else(long, pc.binary_join_element_wise(quoted, "...", ""), quoted)
    return quoted


def _are_plain(data: Octets, offsets: Longs) -> Mask:
    """Mark the values that an error can show completely as text.

    These are not empty, ASCII, without control characters, and without a blank at either end.
    """
    begins, ends = offsets[:-1], offsets[1:]
    # The first and the last byte must not be blanks, which could not be seen in an error. An empty
    # value has neither byte: `filled` excludes it, as its offsets are those of other values' bytes.
    filled = ends > begins
    kinds = _KINDS[data[offsets[0] : offsets[-1]]]
    plain: Mask = filled & (_counts(kinds > _BLANK, offsets - offsets[0]) == 0)
    for at in (begins, ends - 1):
        plain[filled] &= _KINDS[data[at[filled]]] == _GRAPHIC
    return plain


def _begin_with(raw: pa.BinaryArray, start: pa.BinaryArray) -> Mask:
    """Mark the values that begin with the (non-empty) bytes of `start` in the same row."""
    offsets, data = _bounds(raw)
    begins = offsets[:-1]
    sizes = np.asarray(pc.binary_length(start)).astype(np.int64)
    # The first ``sizes`` bytes of each value, or all of it if it is shorter; then it is not equal.
    head = gather(data, begins, np.minimum(offsets[1:], begins + sizes))
    same: Mask = np.asarray(pc.equal(head, start)) & (sizes > 0)
    return same


def _numbers(values: Longs) -> pa.StringArray:
    return pa.array(values, pa.int64()).cast(pa.string())


def _hex(data: Octets, begins: Longs, ends: Longs) -> pa.StringArray:
    """Format the bytes at fault in hex, for example ``bytes 41 0d``. Long values are cut."""
    sizes = ends - begins
    cut = gather(data, begins, np.minimum(ends, begins + _HEX_SHOWN))
    # _HEX has three characters for each byte, such as "5a ", so each text begins at three times the
    # offset of its bytes. The blank after the last byte is trimmed.
    offsets, some = _bounds(cut)
    digits = pa.py_buffer(np.ascontiguousarray(_HEX[some[offsets[0] : offsets[-1]]]))
    places = pa.py_buffer((3 * (offsets - offsets[0])).astype(np.int32))
    pairs = pc.ascii_rtrim(pa.StringArray.from_buffers(len(cut), places, digits), " ")
    texts = pc.binary_join_element_wise("bytes ", pairs, "")
    if (sizes > _HEX_SHOWN).any():
        more = pc.binary_join_element_wise(texts, " ... (", _numbers(sizes), " bytes)", "")
        texts = pc.if_else(pa.array(sizes > _HEX_SHOWN), more, texts)
    return pc.if_else(pa.array(sizes == 0), "no bytes", texts) if (sizes == 0).any() else texts


def _describe(raw: pa.BinaryArray, text: pa.StringArray | None, rows: Longs) -> pa.StringArray:
    """Format bytes at fault that are not ASCII, as an exception would, once per distinct value.

    `rows` are their rows in `raw` and `text`.
    """
    places = pa.array(rows)
    values = raw.take(places).to_pylist()
    texts = [None] * len(values) if text is None else text.take(places).to_pylist()
    pairs = list(zip(values, texts, strict=True))
    known = {pair: str(Where(raw=pair[0], text=pair[1])) for pair in set(pairs)}
    return pa.array([known[pair] for pair in pairs], pa.string())
