"""The operations that rules found in a batch of messages, and their metadata."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.datetime_formats import DateFormat
from trailgate.columnar.rows import distinct, strings_of
from trailgate.errors import DecodeError
from trailgate.messages.parsing.metadata_values import message_id_header
from trailgate.messages.parsing.records import Records
from trailgate.messages.properties.rows import SourceKind
from trailgate.messages.properties.values import Lookup, ValueSource
from trailgate.messages.xml.findings import Findings, Found
from trailgate.messages.xml.names import numbered_words
from trailgate.messages.xml.options import XmlOptions
from trailgate.messages.xml.rules import Rule

_SHOWN: Final = 4096  # bytes of an element that an error may need
_MARKS: Final = np.frombuffer(b"MEBW", np.uint8)  # by begins * 2 + ends


Written = Mapping[str, Sequence[tuple[int, ValueSource]]]


def written_values(rules: Iterable[Rule]) -> Written:
    """Return by property the rules whose values are not paths, and these values."""
    found: dict[str, list[tuple[int, ValueSource]]] = {}
    for rule in rules:
        for name, source in rule.values.pairs:
            if isinstance(source, ValueSource):
                found.setdefault(name, []).append((rule.number, source))
    return found


@dataclass(frozen=True, slots=True)
class XmlRecords(Records):
    """Operations as records. A value comes from the operation's own rule, else from those above it."""

    options: XmlOptions
    findings: Findings
    written: Written
    seen: frozenset[str] = frozenset()
    words: dict[str, tuple[Longs, list[str]]] = field(default_factory=dict)

    @property
    def notes(self) -> frozenset[str]:
        """Return which rules matched, and the names in documents if some did not."""
        return self.seen

    def text(self, name: str) -> pa.Array:
        """Return each operation's value of a property, null where the message has none."""
        special = {
            "schemaandtable": self._table_names,
            "optype": lambda: self._letters("optype"),
            "txind": self._indicators,
        }
        return special[name]() if name in special else self._resolved(name)[0]

    def column_words(self, name: str) -> tuple[Longs, list[str]]:
        """Return each column's number among the words of a property, -1 where it has none, and these."""
        if name not in self.words:
            self.words[name] = self._column_words(name)
        return self.words[name]

    def _column_words(self, name: str) -> tuple[Longs, list[str]]:
        columns = self.findings.columns
        places, found = columns.values.get(name), list[str]()
        codes = np.full(len(columns), -1)
        if places is not None:
            codes, found = numbered_words(self.findings.text, places)
        written = self.written.get(name, ())
        if written:
            fixed = np.full(written[-1][0] + 1, -1)
            for number, source in written:
                fixed[number] = len(found)
                found.append(source.name)
            own = np.append(fixed, -1)[np.minimum(columns.rule, len(fixed))]
            codes = np.where(own >= 0, own, codes)
        return codes, found

    def raw(self, row: int) -> bytes:
        """Return the beginning of an operation's element."""
        begin = int(self.messages.starts[self.message[row]])
        start, end = int(self.findings.start[row]), int(self.findings.end[row])
        return bytes(
            memoryview(self.messages.data)[begin + start : begin + min(end, start + _SHOWN)]
        )

    def time_formats(self) -> list[tuple[Longs, DateFormat | None]] | None:
        """Return the operations of each format of timestamps, or None where all have that of the options."""
        formats = [rule.timestamp_format for rule in self.options.all_rules()]
        if self.options.timestamp_format or not any(formats):
            return None
        _, rule = self._resolved("timestamp")
        found = dict.fromkeys(formats[number] for number in np.unique(rule).tolist())
        return [
            (np.flatnonzero(np.isin(rule, [i for i, f in enumerate(formats) if f == one])), one)
            for one in found
        ]

    def _resolved(self, name: str) -> tuple[pa.Array, Longs]:
        """Return each operation's value of a property and the number of the rule that gives it."""
        (values, rule), *above = self._levels(name)
        for others, their_rule in above:
            rule = np.where(np.asarray(values.is_valid()), rule, their_rule)
            values = pc.coalesce(values, others)
        return values, np.maximum(rule, 0)

    def _levels(self, name: str) -> list[tuple[pa.Array, Longs]]:
        """Return the values of a property and the rules that give them: own ones, then those above."""
        findings = self.findings
        levels = [self._level(name, findings.operations, np.arange(len(self.message)))]
        which = findings.around
        while (which >= 0).any():
            levels.append(self._level(name, findings.outer, which))
            which = np.where(which >= 0, findings.above[which], -1)
        return levels

    def _level(self, name: str, found: Found, which: Longs) -> tuple[pa.Array, Longs]:
        """Return the value of a property that each operation has by the record ``which`` of a level."""
        places, inside = found.values.get(name), which >= 0
        if places is None:
            values = pa.nulls(len(which), pa.string())
        else:
            if not inside.all():
                taken = places.taken(np.where(inside, which, 0))
                places = replace(taken, lengths=np.where(inside, taken.lengths, -1))
            elif len(which) != len(found) or found is not self.findings.operations:
                places = places.taken(which)
            values = places.text(self.findings.text)
        rule = np.where(inside, found.rule[which] if len(found) else -1, -1)
        for number, source in self.written.get(name, ()):
            mine = rule == number
            if mine.any():
                values = pc.if_else(pa.array(mine), self._fixed(source), values)
        return values, rule

    def _fixed(self, source: ValueSource) -> pa.Array | pa.Scalar:
        """Return a value that is not in the document."""
        if source.kind is SourceKind.LITERAL:
            return pa.scalar(source.name, pa.string())
        name = source.name
        if source.kind is SourceKind.MESSAGE_ID:
            name = message_id_header(self.options.message_id)
        return self.messages.header(name).take(pa.array(self.message))

    def _table_names(self) -> pa.Array:
        whole, _ = self._resolved("schemaandtable")
        if not whole.null_count:
            return whole
        schema, table = self._resolved("schema")[0], self._resolved("table")[0]
        joined = pc.binary_join_element_wise(schema, table, ".")
        return pc.coalesce(whole, joined, table)

    def _letters(self, name: str) -> pa.Array:
        """Return codes as the letters that they mean by the rules that give them."""
        values, deciding = self._resolved(name)
        rules = self.options.all_rules()
        codes, found = distinct(values.fill_null(""))
        pairs = codes + deciding * len(found)
        letters: list[str | None] = [None] * (len(rules) * len(found))
        for pair in np.flatnonzero(np.bincount(pairs)).tolist():
            letters[pair] = self._letter(rules[pair // len(found)], name, found[pair % len(found)])
        meant = pa.array(letters, pa.string()).take(pa.array(pairs))
        unknown = np.flatnonzero(np.asarray(meant.is_null()) & np.asarray(values.is_valid()))
        if len(unknown):
            self.refuse(unknown, self._unknown(name, values, deciding))
        return meant

    @staticmethod
    def _letter(rule: Rule, name: str, code: str) -> str | None:
        codes = rule.codes.get(name)
        return None if codes is None else codes.get(code.encode())

    def _unknown(
        self, name: str, values: pa.Array, deciding: Longs
    ) -> Callable[[int], DecodeError]:
        rules = self.options.all_rules()

        def error(row: int) -> DecodeError:
            rule = rules[int(deciding[row])]
            codes = rule.codes.get(name, Lookup())
            known = ", ".join(repr(code.decode(errors="replace")) for code in codes)
            problem = f"unknown {name} value {values[row].as_py()!r}, by rule {rule.name}"
            return self.error(row, problem, f"Known: {known}" if known else "")

        return error

    def _indicators(self) -> pa.Array:
        """Return indicators: those that rules read, else the bounds of the transactions found."""
        if any("txind" in rule.values for rule in self.options.all_rules()):
            return self._letters("txind")
        begins = self._begins()
        marks: Octets = _MARKS[begins * 2 + np.append(begins[1:], True)]
        return strings_of(marks.reshape(-1, 1))

    def _begins(self) -> Mask:
        """Return the operations that begin another transaction, or a message, than the one before."""
        found = np.ones(len(self.message), bool)
        transaction = self.findings.transaction
        found[1:] = (self.message[1:] != self.message[:-1]) | (transaction[1:] != transaction[:-1])
        return found
