"""Build before and after images from JSON objects whose members are a table's columns.

`place_members` finds the node of every (column, row) pair of an image in one pass. Each column is
then converted from text by the functions of `converter_for`. Members that are not columns, and
columns that occur twice, are errors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask, Octets, Offsets
from trailgate.columnar.hex_digits import to_hex
from trailgate.columnar.rows import row_error
from trailgate.errors import DecodeError, did_you_mean
from trailgate.formats.json.base64_text import from_base64
from trailgate.formats.json.node_kernels import (
    NO_NODE,
    PASSED_OVER,
    UNKNOWN,
    MemberCells,
    place_members,
)
from trailgate.formats.json.records import JsonRecords
from trailgate.formats.json.scanner import CONTAINERS, JsonNodes
from trailgate.formats.json.scanner_kernels import KINDS, NULL, OBJECT
from trailgate.messages.bad_values import find_errors
from trailgate.messages.error_columns import ErrorColumns
from trailgate.messages.records import MessageRecordGroup
from trailgate.model.changes import ABSENT, Image, StateColumn
from trailgate.model.tables import Column
from trailgate.model.types import TypeFamily
from trailgate.model.values import parser_for

IS_MISSING: Final = "_isMissing"
_BINARY_HINT = "Set json.binary to hex or base64"


@dataclass(frozen=True, slots=True)
class JsonValues:
    """The JSON values of one column in some rows, as strings and as nodes.

    `cells[i]` is the node of row i (an index into `nodes`), or `NO_NODE` if the member is missing.
    `strings[i]` is its value, null for JSON null or if the member is missing.
    """

    nodes: JsonNodes
    strings: pa.Array
    cells: Offsets
    nested: bool  # some values may be objects or arrays; their strings are JSON text

    @property
    def kinds(self) -> Octets:
        """The JSON type of this column's value in each row, or 0 if it is missing."""
        return self.nodes.kinds(self.cells)

    def __len__(self) -> int:
        return len(self.cells)

    def slice(self, at: int, count: int) -> JsonValues:
        """Return the column's JSON values in consecutive rows."""
        strings = self.strings.slice(at, count)
        return JsonValues(self.nodes, strings, self.cells[at : at + count], self.nested)

    def take(self, rows: pa.Array) -> JsonValues:
        """Return the column's JSON values in the given rows."""
        cells = self.cells[rows.to_numpy()]
        return JsonValues(self.nodes, self.strings.take(rows), cells, self.nested)

    def refuse_nested(self) -> None:
        """Raise DecodeError, with the row in `where.record`, if a JSON value is an object or an array."""
        if self.nested:
            self._refuse(np.isin(self.kinds, CONTAINERS), "")

    def require_types(self, *kinds: int) -> None:
        """Raise DecodeError, with the row in `where.record`, if a value's JSON type is not one of `kinds`."""
        expected = ", or ".join(KINDS[kind] for kind in kinds)
        self._refuse(~np.isin(self.kinds, kinds), f"Expected {expected}")

    def _refuse(self, bad: Mask, hint: str) -> None:
        odd = np.flatnonzero(bad & np.asarray(self.strings.is_valid()))
        if len(odd):
            kind = int(self.kinds[odd[0]])
            problem = f"{KINDS[kind]} is not a value of this column"
            error = row_error(problem, self.strings, int(odd[0]), hint)
            error.alike = odd[self.kinds[odd] == kind].tolist()
            raise error

    def decode_by_type(
        self, others: pa.Array, decoders: Mapping[int, Callable[[JsonValues], pa.Array]]
    ) -> pa.Array:
        """Decode each JSON value with the decoder for its JSON type.

        For values of other types, the result is taken from `others`.
        """
        kinds, result = self.kinds, others
        for kind, decode in decoders.items():
            of_kind = kinds == kind
            if not of_kind.any():
                continue
            strings = self.strings
            if not of_kind.all():
                # Hide the values of other types from the decoder, which would refuse them: a null
                # stays null.
                strings = pc.if_else(pa.array(of_kind), strings, pa.scalar(None, pa.string()))
            made = decode(JsonValues(self.nodes, strings, self.cells, self.nested))
            result = made if of_kind.all() else pc.if_else(pa.array(of_kind), made, result)
        return result


class ConvertedJson(NamedTuple):
    """JSON values converted to a column's type.

    `missing` marks values that mean "not present", such as Debezium's placeholder.
    """

    values: pa.Array
    missing: Mask | None = None


ConvertValues = Callable[[JsonValues], ConvertedJson]


class JsonImages(MessageRecordGroup[JsonRecords]):
    """Builds images from JSON objects, for records of one table and operation type."""

    def image(
        self,
        parents: Longs,
        converters: Sequence[ConvertValues],
        passed_over: frozenset[str] = frozenset(),
        *,
        prefix: str = "",
        keyed: bool,
        key_hint: str = "",
    ) -> Image:
        """Build an image from one JSON object per record (`NO_NODE` if a record has none).

        Members in `passed_over` are ignored unless they are columns. With a `prefix`, only members
        whose names begin with it are columns. With `keyed`, a record without the value of a key
        column is an error, with the hint `key_hint`.
        """
        nodes, rows, columns = self.records.nodes, len(self.rows), self.table.columns
        size = len(columns) * rows
        cells, sizes = np.full(size, NO_NODE, np.int32), np.full(size, NO_NODE, np.int32)
        begins = np.zeros(size, np.int64)
        unknown, again = np.full(rows, NO_NODE), np.full(rows, NO_NODE)
        numbers = self._columns_of(nodes.names, passed_over, prefix)
        # One pass over all objects finds every column's value. A size of NO_NODE (-1) stays null.
        bad, nested = place_members(
            np.ascontiguousarray(parents),
            nodes.arrays,
            numbers,
            len(columns),
            MemberCells(cells, begins, sizes),
            unknown,
            again,
        )
        if bad:
            self._refuse_members(unknown, again)
        if keyed:
            self._check_keys(cells.reshape(-1, rows) == NO_NODE, key_hint)
        strings = nodes.text_columns(begins, sizes, len(columns))
        parts = np.split(cells, len(columns)) if len(columns) else []
        return tuple(
            self._column(i, JsonValues(nodes, values, own, nested > 0), converters[i])
            for i, (values, own) in enumerate(zip(strings, parts, strict=True))
        )

    def _check_keys(self, missing: npt.NDArray[np.bool_], hint: str) -> None:
        """Add an error, with a hint, to each JSON record without the value of a key column.

        `missing[i]` marks the rows without a value of column i.
        """
        for i in self.table.marked_keys:
            if missing[i].any():
                name = self.table.columns[i].name
                rows = np.flatnonzero(missing[i])
                self._refuse(rows, f"key column {name} is missing", name, hint)

    def check_images(self, parents: Longs, what: str, *, wanted: bool, hint: str = "") -> None:
        """Add an error to each record whose JSON has no image although it is `wanted`, or has one although it is not.

        `what` is the image's name in errors.
        """
        kinds = self.records.nodes.kinds(parents)
        nothing = (kinds == 0) | (kinds == NULL)
        # A wanted image must be an object; an unwanted one must be absent or null.
        bad = kinds != OBJECT if wanted else ~nothing
        for kind in np.unique(kinds[bad]).tolist():
            type_name = KINDS.get(kind, "nothing")
            problem = f"expected an object as {what}, found {type_name}"
            if not wanted:
                problem = f"an operation of this type has no {what}, found {type_name}"
            self._refuse(np.flatnonzero(bad & (kinds == kind)), problem, what, hint)

    def refuse_prefixed(self, parents: Longs, what: str, prefix: str) -> None:
        """Add an error to each JSON record with an image that its operation type must not have.

        These are the members that begin with `prefix` and are not null, such as `before.ID` in an
        insert. `what` is the image's name in errors.
        """
        nodes = self.records.nodes
        for name in nodes.names:
            if name.casefold().startswith(prefix.casefold()):
                kinds = nodes.kinds(nodes.members(parents, [name])[0])
                problem = f"an operation of this type has no {what}, found the member {name}"
                self._refuse(np.flatnonzero((kinds != 0) & (kinds != NULL)), problem, what)

    def _columns_of(
        self, names: Sequence[str], passed_over: frozenset[str], prefix: str = ""
    ) -> Longs:
        """Return the meaning of JSON member names for `place_members`: column, UNKNOWN or PASSED_OVER.

        If there are n columns, n + i means "column i is missing if this member is true"
        (`ID_isMissing`).
        """
        count = len(self.table.columns)
        known = {column.name.casefold(): i for i, column in enumerate(self.table.columns)}
        flags = {f"{name}{IS_MISSING}".casefold(): count + i for name, i in known.items()}
        others = dict.fromkeys((name.casefold() for name in passed_over), PASSED_OVER)
        # Later entries win: a column named like a metadata member is a column.
        meaning: Mapping[str, int] = {**others, **flags, **known}
        if prefix:
            start, folded = prefix.casefold(), [name.casefold() for name in names]
            meanings = (
                meaning.get(name.removeprefix(start), UNKNOWN)
                if name.startswith(start)
                else PASSED_OVER
                for name in folded
            )
            return np.array([*meanings], np.int64)
        return np.array([meaning.get(name.casefold(), UNKNOWN) for name in names], np.int64)

    def _refuse_members(self, unknown: Longs, again: Longs) -> None:
        names = [column.name for column in self.table.columns]

        def no_column(name: str) -> tuple[str, str, str | None]:
            return f"the table has no column {name!r}", did_you_mean(name, names), None

        self._refuse_named(unknown, no_column)
        self._refuse_named(again, lambda name: (f"column {name} is found twice", "", name))

    def _refuse_named(
        self, members: Longs, of_name: Callable[[str], tuple[str, str, str | None]]
    ) -> None:
        """Add an error to each row with a wrong JSON member: `members` is its node in each row, or -1.

        `of_name` returns problem, hint and field for a member's name.
        """
        nodes, at = self.records.nodes, np.flatnonzero(members >= 0)
        if not len(at):
            return
        # One set of texts for each distinct name: member at[i] has texts[which[i]].
        codes, which = np.unique(nodes.name[members[at]], return_inverse=True)
        texts = [of_name(nodes.names[code]) for code in codes.tolist()]
        parts = [pa.array(part, pa.string()) for part in zip(*texts, strict=True)]
        wrong = self.rows[at]

        def errors(rows: Longs) -> ErrorColumns:
            # ``rows`` are some of ``wrong``, which ascends, so a search finds the index of each.
            own = pa.array(which[np.searchsorted(wrong, rows)])
            problem, hint, field = (part.take(own) for part in parts)
            return self.records.errors(rows, problem, hint, table=self.table.name, field=field)

        self.add(wrong, errors)

    def _column(self, i: int, values: JsonValues, convert: ConvertValues) -> StateColumn:
        # A member that is not there is missing; one that is null is NULL.
        missing: Mask = values.cells == NO_NODE
        if missing.all():
            return ABSENT
        try:
            made = convert(values)
        except DecodeError as error:
            # Equal values of one JSON type are either all good or all bad: only distinct ones are tried.
            coded = np.asarray(values.strings.dictionary_encode("encode").indices) * 256
            _, first, which = np.unique(
                coded + values.kinds, return_index=True, return_inverse=True
            )
            bad, errors = find_errors(convert, values.take(pa.array(first)))
            if not len(bad):
                raise error from None
            which = which.reshape(-1)
            wrong = np.flatnonzero(np.isin(which, bad))
            of_value = errors.take(np.searchsorted(bad, which[wrong]))
            self.add_values(wrong, of_value, self.table.columns[i].name)
            return ABSENT
        if made.missing is not None:
            missing = missing | made.missing
        return StateColumn(made.values, missing if missing.any() else None)

    def _refuse(self, at: Longs, problem: str, name: str | None, hint: str = "") -> None:
        def errors(rows: Longs) -> ErrorColumns:
            return self.records.errors(rows, problem, hint, table=self.table.name, field=name)

        self.add(self.rows[at], errors)


def converter_for(column: Column, binary: str) -> ConvertValues:
    """Return the function that converts the members of JSON images for a column to its type.

    `binary` is the notation of bytes: "hex", "base64", or "" if it is unknown, in which case bytes
    are an error. Numbers and booleans are converted from their JSON text, such as `1.50` or `true`.
    Only text columns accept objects and arrays.
    """
    parse = parser_for(column)
    is_text, is_bytes = column.family is TypeFamily.TEXT, column.family is TypeFamily.BYTES

    def convert(values: JsonValues) -> ConvertedJson:
        if values.nested and not is_text:
            values.refuse_nested()
        strings = values.strings
        if is_bytes and strings.null_count < len(strings):
            strings = _bytes(strings, binary)
        return ConvertedJson(parse(strings))

    return convert


def _bytes(strings: pa.Array, binary: str) -> pa.Array:
    if not binary:
        row = int(strings.is_valid().index(True).as_py())
        raise row_error("the notation of bytes is unknown", strings, row, _BINARY_HINT)
    return strings if binary == "hex" else to_hex(from_base64(strings))
