"""The operations that XML rules found in a batch of messages, as records, and their metadata.

A metadata value, for example the transaction id, may be supplied by the operation's rule or by a
rule around it. These are called *levels*. The innermost level with a value takes precedence. Values
are spans of the text, literals of rules, or message headers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.gather import gather
from trailgate.columnar.rows import encode_distinct
from trailgate.columnar.strings import matrix_to_strings
from trailgate.columnar.temporal import DateFormat
from trailgate.errors import DecodeError
from trailgate.formats.xml.matches import MatchRecords, RuleMatches, cell_bounds, code_words
from trailgate.formats.xml.options import XmlOptions
from trailgate.formats.xml.rules import GENERATED, XmlRule
from trailgate.messages.message_batch import MessageBatch
from trailgate.messages.message_ids import read_message_ids
from trailgate.messages.property_reader import Lookup, ValueSource
from trailgate.messages.property_rows import SourceKind
from trailgate.messages.records import MessageRecords, RowErrors, errors_one_by_one
from trailgate.messages.skipped import SkipReason

_SHOWN: Final = 4096  # bytes of an element that an error keeps
_MARKS: Final = np.frombuffer(b"MEBW", np.uint8)  # indexed by begins * 2 + ends


def element_bytes(
    messages: MessageBatch, message: Longs, starts: Longs, ends: Longs
) -> pa.BinaryArray:
    """Return the first bytes of XML records' elements, [starts, ends) of their messages, for errors."""
    begins, size = messages.starts[message], messages.data.size
    # Offsets in a message that was converted to UTF-8 may lie beyond its original bytes.
    first = np.minimum(begins + starts, size)
    last = np.minimum(begins + np.minimum(ends, starts + _SHOWN), size)
    return gather(messages.data, first, np.maximum(first, last))


@dataclass(frozen=True, slots=True)
class RuleSources:
    """The values that XML rules define without a path, such as constants. They are computed once.

    `given` are the names of all properties that rules set. `written` maps a property to the numbers
    of the rules that define it without a path, each with its value.
    """

    rules: tuple[XmlRule, ...]
    given: frozenset[str]
    written: Mapping[str, Sequence[tuple[int, ValueSource]]]

    @classmethod
    def of(cls, rules: tuple[XmlRule, ...]) -> RuleSources:
        """Collect the values that XML rules define without a path. `rules` are in the order of their numbers."""
        written: dict[str, list[tuple[int, ValueSource]]] = {}
        for rule in rules:
            for name, source in rule.values.pairs:
                if isinstance(source, ValueSource):
                    written.setdefault(name, []).append((rule.number, source))
        return cls(rules, frozenset(name for rule in rules for name in rule.values), written)


@dataclass(slots=True)
class _Kept:
    """Results that are computed once from the matches of XML rules, and then kept.

    `every` are the numbers of all operations, `words` the coded properties of cells, `bounds` the
    result of `cell_bounds`, `rules` the rules that occur in each group of records, and `levels` the
    result of `_find_levels`.
    """

    every: Longs
    words: dict[str, tuple[Longs, list[str]]] = field(default_factory=dict)
    bounds: Longs | None = None
    rules: dict[int, frozenset[int]] = field(default_factory=dict)
    levels: list[tuple[MatchRecords, Longs]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class XmlRecords(MessageRecords):
    """XML operations as records.

    A value is taken from the operation's rule, or else from the rules around it. `values` are the
    values that rules define without a path, `seen` the notes of `RuleCoverage`.
    """

    no_record: ClassVar[SkipReason] = SkipReason.NO_MATCH

    options: XmlOptions
    matches: RuleMatches
    values: RuleSources
    seen: frozenset[str]
    kept: _Kept

    @classmethod
    def of(
        cls,
        messages: MessageBatch,
        options: XmlOptions,
        matches: RuleMatches,
        values: RuleSources,
        seen: frozenset[str],
    ) -> XmlRecords:
        """Create the records of the operations that XML rules matched."""
        kept = _Kept(np.arange(len(matches.message)))
        return cls(messages, matches.message, matches.start, options, matches, values, seen, kept)

    @property
    def notes(self) -> frozenset[str]:
        """Notes for the run's warnings: the rules that matched, and if some rules did not match, the names in the documents."""
        return self.seen

    def text(self, name: str) -> pa.Array:
        """Return a property's value for each XML operation, null if it has none."""
        special = {
            "schemaandtable": self._table_names,
            "optype": lambda: self._letters("optype"),
            "txind": self._indicators,
        }
        return special[name]() if name in special else self._resolve(name)[0]

    def missing_problem(self, name: str, what: str) -> tuple[str, str]:
        """Return the problem and the hint for an XML operation without the required value `name`."""
        names = ("schemaandtable", "schema", "table") if name == "schemaandtable" else (name,)
        asked = [
            f"{rule.name}.{own}={rule.values[own]}"
            for rule in self.values.rules
            for own in names
            if own in rule.values
        ]
        return f"no {what} is found in the message", f"Looked for: {', '.join(asked)}"

    def codes(self, name: str) -> tuple[Longs, list[str]]:
        """Return a property of XML operations as codes: for each operation an index into the list of distinct values."""
        if name == "txind" and "txind" not in self.values.given:
            # An operation ends its transaction if the next one begins another: 0 M, 1 E, 2 B, 3 W.
            begins = self._begins()
            return begins * 2 + np.append(begins[1:], True), [chr(mark) for mark in _MARKS]
        alone = name != "schemaandtable" or "table" not in self.values.given
        coded = self._encode_values(name) if alone else None
        if coded is None:
            return encode_distinct(self.text(name))
        if name not in {"optype", "txind"}:
            return coded[:2]
        codes, letters = self._letter_codes(name, *coded)
        known = [letter for letter in letters if letter is not None]
        # If a code has no letter, `text` raises the error.
        return (codes, known) if len(known) == len(letters) else encode_distinct(self.text(name))

    def _encode_values(self, name: str) -> tuple[Longs, list[str], Longs] | None:
        """Encode a property of XML operations that one level of elements supplies for all of them.

        Returns each operation's index into the list of values, the list, and the rule that supplied
        each value. Returns None if several levels supply the property, or some operations have no
        value.
        """
        levels = self._supplying_levels(name)
        if len(levels) != 1:
            return None
        found, which = levels[0]
        words = self._words(name, found)
        if words is None or not (which >= 0).all():
            return None
        codes, strings = words
        codes = codes if which is self.kept.every else codes[which]
        if len(codes) and codes.min() < 0:
            return None
        rule = found.rule
        return codes, strings, rule if which is self.kept.every else rule[which]

    def _words(self, name: str, records: MatchRecords) -> tuple[Longs, list[str]] | None:
        """Return each XML match record's value of a property as an index into the list of values.

        The index is -1 if the record has no value. Returns None if values are message headers.
        """
        written = self.values.written.get(name, ())
        if any(source.kind is not SourceKind.LITERAL for _, source in written):
            return None
        codes, strings = np.full(len(records), -1), list[str]()
        if name in records.fields:
            codes, strings = code_words(self.matches.text, records, records.fields[name])
        if written:
            fixed = np.full(written[-1][0] + 1, -1)
            numbers = {text: number for number, text in enumerate(strings)}
            for number, source in written:
                fixed[number] = numbers.setdefault(source.name, len(numbers))
            # Rules above the last one with a literal select the appended -1.
            own = np.append(fixed, -1)[np.minimum(records.rule, len(fixed))]
            codes, strings = np.where(own >= 0, own, codes), list(numbers)
        return codes, strings

    def cell_words(self, name: str) -> tuple[Longs, list[str]] | None:
        """Return each XML cell's value of a property as a code, as `column_words` does.

        Literals of rules are ignored. Returns None if no path of a rule supplies the property.
        """
        columns = self.matches.columns
        if name not in columns.fields:
            return None
        if name not in self.kept.words:
            field = columns.fields[name]
            self.kept.words[name] = code_words(self.matches.text, columns, field)
        return self.kept.words[name]

    def column_words(self, name: str) -> tuple[Longs, list[str]]:
        """Return each XML cell's value of a property as an index into a list of words.

        Literals of rules are values too. The index is -1 if the cell has no value. Returns the
        indexes and the list.
        """
        words = self._words(name, self.matches.columns)
        assert words is not None
        return words

    def cell_bounds(self) -> Longs:
        """Return the index of each XML operation's first cell, and last the end of all cells."""
        if self.kept.bounds is None:
            self.kept.bounds = cell_bounds(self.matches.operation, len(self.message))
        return self.kept.bounds

    def shared(self, name: str) -> tuple[pa.Array, Longs] | None:
        """Return a property's values around XML operations, and each operation's index into them.

        Returns None unless rules set the property on exactly one level around the operations,
        always by a path, and all operations are inside a record of this level.
        """
        levels = self._supplying_levels(name)
        if len(levels) != 1 or levels[0][1] is self.kept.every:
            return None
        found, which = levels[0]
        if not (which >= 0).all() or self.values.written.get(name):
            return None
        places = found.spans(name)
        assert places is not None
        return places.text(self.matches.text), which

    def raws(self, rows: Longs) -> pa.BinaryArray:
        """Return the first bytes of several operations' XML elements, for errors."""
        start, end = self.matches.start[rows], self.matches.end[rows]
        return element_bytes(self.messages, self.message[rows], start, end)

    def time_formats(self) -> list[tuple[Longs, DateFormat | None]] | None:
        """Return the rows of each timestamp format that XML rules define.

        Returns None if all operations have the format of the options.
        """
        formats = [rule.timestamp_format for rule in self.values.rules]
        if self.options.timestamp_format or not any(formats):
            return None
        _, rule = self._resolve("timestamp")
        used = dict.fromkeys(formats[number] for number in np.unique(rule).tolist())
        return [
            (np.flatnonzero(np.isin(rule, [i for i, f in enumerate(formats) if f == one])), one)
            for one in used
        ]

    def is_generated(self, name: str) -> Mask | None:
        """Return a mask of the operations for which an XML rule generates the value.

        Returns None if no rule does.
        """
        written = self.values.written.get(name, ())
        mine = [number for number, source in written if source.kind in GENERATED]
        return np.isin(self._resolve(name)[1], mine) if mine else None

    def _resolve(self, name: str) -> tuple[pa.Array, Longs]:
        """Return each XML operation's value of a property, and the number of the supplying rule."""
        (values, rule), *above = self._levels(name)
        # Outer levels fill in what inner ones lack.
        for others, their_rule in above:
            rule = np.where(np.asarray(values.is_valid()), rule, their_rule)
            values = pc.coalesce(values, others)
        return values, np.maximum(rule, 0)

    def _levels(self, name: str) -> list[tuple[pa.Array, Longs]]:
        """Return the values of a property and the rules that supply them, by level, the innermost first."""
        levels = self._supplying_levels(name) or [(self.matches.operations, self.kept.every)]
        return [self._level(name, found, which) for found, which in levels]

    def _supplying_levels(self, name: str) -> list[tuple[MatchRecords, Longs]]:
        """Find the levels of elements at which rules set the property ``name``: operations first, then the elements around.

        For each level, return its records, and for each operation the index of its record, or -1.
        """
        mine = {number for number, _ in self.values.written.get(name, ())}
        return [
            (found, which)
            for found, which in self.kept.levels or self._find_levels()
            if name in found.fields or (mine and not mine.isdisjoint(self._rules(found)))
        ]

    def _find_levels(self) -> list[tuple[MatchRecords, Longs]]:
        """Return the match records of all levels of XML elements, in the form of `_supplying_levels`."""
        matches, levels = self.matches, self.kept.levels
        levels.append((matches.operations, self.kept.every))
        which = matches.around
        # Go outwards level by level until no operation has an outer record.
        while (which >= 0).any():
            levels.append((matches.outer, which))
            which = np.where(which >= 0, matches.above[which], -1)
        return levels

    def _rules(self, records: MatchRecords) -> frozenset[int]:
        if id(records) not in self.kept.rules:
            self.kept.rules[id(records)] = frozenset(
                np.flatnonzero(np.bincount(records.rule)).tolist()
            )
        return self.kept.rules[id(records)]

    def _level(self, name: str, records: MatchRecords, which: Longs) -> tuple[pa.Array, Longs]:
        """Return each XML operation's value of a property on one level, and the number of the rule there.

        `which` is the operation's record on that level, or -1.
        """
        places, inside = records.spans(name), which >= 0
        if places is None:
            values = pa.nulls(len(which), pa.string())
        else:
            # Operations without a record on this level take the span of record 0, because take needs an
            # index, and then get the length -1, which means null. Example: which = [2, -1] takes the
            # spans of records 2 and 0, of which the second becomes null.
            if not inside.all():
                taken = places.take(np.where(inside, which, 0))
                places = replace(taken, lengths=np.where(inside, taken.lengths, -1))
            elif len(which) != len(records) or records is not self.matches.operations:
                places = places.take(which)
            values = places.text(self.matches.text)
        rule = np.where(inside, records.rule[which] if len(records) else -1, -1)
        # Literals and headers of rules replace what the document has.
        for number, source in self.values.written.get(name, ()):
            mine = rule == number
            if mine.any():
                values = pc.if_else(pa.array(mine), self._fixed_value(source), values)
        return values, rule

    def _fixed_value(self, source: ValueSource) -> pa.Array | pa.Scalar:
        """Return a value that is not in the XML document, such as a constant or a message header."""
        if source.kind is SourceKind.LITERAL:
            return pa.scalar(source.name, pa.string())
        if source.kind in GENERATED:
            return pa.scalar("", pa.string())  # see `is_generated`
        if source.kind is SourceKind.MESSAGE_ID:
            values = read_message_ids(self.messages, self.options.message_id)
        else:
            values = self.messages.header(source.name)
        return values.take(pa.array(self.message))

    def _table_names(self) -> pa.Array:
        complete, _ = self._resolve("schemaandtable")
        if not complete.null_count:
            return complete
        schema, table = self._resolve("schema")[0], self._resolve("table")[0]
        joined = pc.binary_join_element_wise(schema, table, ".")
        return pc.coalesce(complete, joined, table)

    def _letters(self, name: str) -> pa.Array:
        """Return the letter of each XML operation's type ("optype") or transaction indicator ("txind").

        Messages contain codes for these letters, for example "NEW" for "I". The rule that supplies
        an operation's code defines the letter. Raises BadMessagesError for unknown codes.
        """
        values, deciding = self._resolve(name)
        codes, letters = self._letter_codes(name, *encode_distinct(values.fill_null("")), deciding)
        meant = pa.array(letters, pa.string()).take(pa.array(codes))
        unknown = np.flatnonzero(np.asarray(meant.is_null()) & np.asarray(values.is_valid()))
        if len(unknown):
            self.refuse(unknown, self._unknown_error(name, values, deciding))
        return meant

    def _letter_codes(
        self, name: str, codes: Longs, found: list[str], deciding: Longs
    ) -> tuple[Longs, list[str | None]]:
        """Return each XML operation's type or indicator as an index into the list of letters.

        `found[codes[i]]` is the code of operation i, and `deciding[i]` the number of the rule that
        supplies it. An unknown code has the letter None.
        """
        # The same code may mean different letters by different rules: each (rule, code) pair is
        # looked up once.
        pairs = codes + deciding * len(found)
        used = np.flatnonzero(np.bincount(pairs))
        numbers: dict[str | None, int] = {}
        table = np.zeros(int(used[-1]) + 1 if len(used) else 1, np.int64)
        for pair in used.tolist():
            meanings = self.values.rules[pair // len(found)].codes.get(name, Lookup())
            letter = meanings.get(found[pair % len(found)].encode())
            table[pair] = numbers.setdefault(letter, len(numbers))
        return table[pairs], list(numbers)

    def _unknown_error(self, name: str, values: pa.Array, deciding: Longs) -> RowErrors:
        rules = self.values.rules

        def error(row: int) -> DecodeError:
            rule = rules[int(deciding[row])]
            codes = rule.codes.get(name, Lookup())
            known = ", ".join(repr(code.decode(errors="replace")) for code in codes)
            problem = f"unknown {name} value {values[row].as_py()!r}, by rule {rule.name}"
            return self.error(row, problem, f"Known: {known}" if known else "")

        return errors_one_by_one(error)

    def _indicators(self) -> pa.Array:
        """Return the transaction indicator of each XML operation.

        It is read if a rule reads indicators and no transaction rule found the operation. Otherwise
        it is derived: the first and last operation of a transaction element, or else of a message,
        begin and end the transaction.
        """
        begins = self._begins()
        marks: Octets = _MARKS[begins * 2 + np.append(begins[1:], True)]
        indicators = matrix_to_strings(marks.reshape(-1, 1))
        if "txind" not in self.values.given:
            return indicators
        return pc.if_else(
            pa.array(self.matches.transaction >= 0), indicators, self._letters("txind")
        )

    def _begins(self) -> Mask:
        """Return a mask of the XML operations that begin another transaction or message."""
        begins = np.ones(len(self.message), bool)
        transaction = self.matches.transaction
        begins[1:] = (self.message[1:] != self.message[:-1]) | (transaction[1:] != transaction[:-1])
        return begins
