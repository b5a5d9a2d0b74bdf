"""The options of XML messages: the `xml.*` properties and the rules that they name.

This module also determines the sources of all operations' metadata. Each rule that finds
operations, together with the rules around it, must supply the same values: either all supply a
value, for example a transaction id, or none does and it is generated.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from trailgate.columnar.temporal import DateFormat
from trailgate.formats.xml.encodings import DECLARED, is_known
from trailgate.formats.xml.faults import XmlLimits
from trailgate.formats.xml.rules import GENERATED, RulePath, RuleType, Value, XmlRule, read_rules
from trailgate.messages.metadata_options import TIME, MetadataOptions
from trailgate.messages.properties import Properties
from trailgate.messages.property_reader import DefinitionFiles, Lookup, PropertyReader, ValueSource
from trailgate.messages.property_rows import SourceKind
from trailgate.model.tables import Definitions

PARSER: Final = "xml"


# The letters that codes of these properties mean, in the order of the properties for them.
_LETTERS: Final = {"optype": "IUDT", "txind": "BMEW"}
_MESSAGE_ID: Final = ValueSource(SourceKind.MESSAGE_ID)
_WORDS: Final = {"txid": "*txid", "timestamp": "*ts"}
_POSITIONS: Final = {"seqid": SourceKind.SEQ_ID, "txid": SourceKind.TX_ID}


def xml_definitions(properties: Properties, files: DefinitionFiles) -> Definitions:
    """Read from the `xml.*` properties the tables of XML messages. Raises OptionError if none are defined."""
    return PropertyReader(properties, PARSER).definitions(files)


Chain = tuple[XmlRule, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class XmlOptions(MetadataOptions):
    """How XML messages are read. `docs/properties.md` describes each property.

    `namespaces` maps the prefixes in the rules' paths. `encoding` applies to all messages
    without a byte order mark.
    """

    rules: tuple[XmlRule, ...]
    namespaces: Lookup[str, str] = field(default_factory=Lookup)
    limits: XmlLimits = field(default_factory=XmlLimits)
    encoding: str = DECLARED

    @property
    def spans_messages(self) -> bool:
        """Whether a transaction may span messages. This is the case if a rule reads an indicator."""
        return any("txind" in rule.values for rule in self.all_rules())

    @property
    def message_id_values(self) -> frozenset[str]:
        """The names of the values that are `$jmsid` in a rule."""
        pairs = [pair for rule in self.all_rules() for pair in rule.values.pairs]
        return frozenset(name for name, value in pairs if value == _MESSAGE_ID)

    def all_rules(self) -> tuple[XmlRule, ...]:
        """Return all XML rules in the order of their numbers."""
        return tuple(rule for top in self.rules for rule in top.all())


def xml_setup(properties: Properties, files: DefinitionFiles) -> tuple[XmlOptions, Definitions]:
    """Read the `xml.*` properties: the options of XML messages with their rules, and the tables that they or the definitions file define."""
    return xml_options(properties), xml_definitions(properties, files)


def xml_options(properties: Properties) -> XmlOptions:
    """Read the options of the XML parser. Raises OptionError that names line and property."""
    read = PropertyReader(properties, "xml")
    message_id = read.message_id()
    rules = read_rules(properties)
    # jms.id=time: message ids are generated from positions.
    if message_id == TIME:
        rules = tuple(map(_by_position, rules))
    chains = tuple(_chains(rules, ()))
    sources = _Sources(properties, chains)
    for chain in chains:
        sources.check_operation(chain)
    namespaces = _namespaces(properties)
    _check_prefixes(properties, rules, namespaces)
    txid = sources.common("txid", ValueSource(SourceKind.TX_ID), mixes=True)
    # Without a transaction id, the sequence id identifies the transaction.
    if txid.kind is SourceKind.TX_ID and sources.is_read("seqid"):
        txid = ValueSource(SourceKind.SEQ_ID)
    return XmlOptions(
        rules=rules,
        namespaces=namespaces,
        encoding=_encoding(read),
        limits=XmlLimits(_count(read, "maxdepth"), _count(read, "maxattributes")),
        seqid=sources.common("seqid", ValueSource(SourceKind.SEQ_ID)),
        timestamp=sources.common("timestamp", ValueSource(SourceKind.TIMESTAMP), mixes=True),
        timestamp_format=sources.time_format(),
        txid=txid,
        txowner=sources.optional("txowner"),
        txname=sources.optional("txname"),
        optype=_field("optype"),
        optype_values=_letters("optype"),
        schemaandtable=_field("schemaandtable"),
        schema=None,
        table=(),
        txind=_field("txind") if sources.is_read("txind") or _has_bounds(rules) else None,
        txind_values=_letters("txind"),
        message_id=message_id,
    )


def _by_position(rule: XmlRule) -> XmlRule:
    """Return an XML rule and its subrules with `$jmsid` values replaced by generated ones."""
    pairs = (
        (name, ValueSource(_POSITIONS[name]) if value == _MESSAGE_ID else value)
        for name, value in rule.values.pairs
    )
    subrules = tuple(map(_by_position, rule.subrules))
    return replace(rule, values=Lookup(tuple(pairs)), subrules=subrules)


def _field(name: str) -> ValueSource:
    return ValueSource(SourceKind.FIELD, name)


def _letters(name: str) -> Lookup[bytes, str]:
    return Lookup(tuple((letter.encode(), letter) for letter in _LETTERS[name]))


def _has_bounds(rules: tuple[XmlRule, ...]) -> bool:
    """Return whether an XML message may have several transactions: a transaction rule has a path."""
    return any(rule.type is RuleType.TRANSACTION and rule.match is not None for rule in rules)


def _chains(rules: tuple[XmlRule, ...], above: Chain) -> Iterator[Chain]:
    """Yield the chain of each XML rule that finds operations: the rules around it, then the rule."""
    for rule in rules:
        chain = (*above, rule)
        # Rules that only group others make no operations.
        if rule.type is RuleType.OPERATION and not rule.groups:
            yield chain
        yield from _chains(rule.subrules, chain)


class _Sources:
    """Decides from which source XML operations get each metadata value, such as the transaction id."""

    def __init__(self, properties: Properties, chains: tuple[Chain, ...]) -> None:
        self.properties, self.chains = properties, chains

    def given(self, chain: Chain, name: str) -> list[tuple[XmlRule, Value]]:
        """Return the rules of a chain that supply the metadata value `name`, innermost rule first."""
        return [(rule, rule.values[name]) for rule in reversed(chain) if name in rule.values]

    def is_read(self, name: str) -> bool:
        """Return whether any XML rule reads the metadata value `name` from messages."""
        return any(
            not _is_generated(value)
            for chain in self.chains
            for _, value in self.given(chain, name)
        )

    def common(self, name: str, generated: ValueSource, *, mixes: bool = False) -> ValueSource:
        """Return the source of a required metadata value, which all operation rules share.

        If no rule reads the value, it is `generated`. With `mixes`, rules may generate it for some
        operations. Raises OptionError if it is read for some operations, but other operations'
        rules do not supply it.
        """
        if not self.is_read(name):
            return generated
        for chain in self.chains:
            suppliers = self.given(chain, name)
            if not suppliers or (not mixes and any(_is_generated(value) for _, value in suppliers)):
                hint = f"Give {name} in all rules, or in none: it is generated then"
                if mixes:
                    hint += f". To generate it only for these, give {_WORDS[name]}"
                problem = (
                    f"operations of {chain[-1].name} get no {name} from the message, but others do"
                )
                raise self.properties.error(problem, hint=hint)
        return _field(name)

    def optional(self, name: str) -> ValueSource | None:
        """Return the source of an optional metadata value, or None if no rule reads it."""
        return _field(name) if self.is_read(name) else None

    def time_format(self) -> DateFormat | None:
        """Return the date format of the commit times in XML messages.

        Returns None for the default format, or if the rules have different formats.
        """
        given = {
            rule.timestamp_format
            for chain in self.chains
            for rule, _ in self.given(chain, "timestamp")
        }
        return given.pop() if len(given) == 1 else None

    def check_operation(self, chain: Chain) -> None:
        """Raise OptionError if an operation rule lacks a required property.

        These are the operation's table and type, which the rules above may set too, and the name
        (or index) and value of its column rules. ``chain`` ends with the operation's rule.
        """
        rule = chain[-1]
        hint = "It can also be given in the operation rule above"
        if not self.given(chain, "optype"):
            raise self.properties.error(f"{rule.name}.optype is required", hint=hint)
        if not self.given(chain, "schemaandtable") and not self.given(chain, "table"):
            problem = f"{rule.name}.schemaandtable, or .schema and .table, is required"
            raise self.properties.error(problem, hint=hint)
        for column in rule.subrules:
            if column.type is RuleType.COLUMN:
                self._check_column(column)

    def _check_column(self, rule: XmlRule) -> None:
        if "name" not in rule.values and "index" not in rule.values:
            raise self.properties.error(f"{rule.name}.name or .index is required")
        if not {"value", "before.value", "after.value"} & set(rule.values):
            problem = f"{rule.name}.value, .before.value or .after.value is required"
            raise self.properties.error(problem)


def _is_generated(value: Value) -> bool:
    return isinstance(value, ValueSource) and value.kind in GENERATED


def _namespaces(properties: Properties) -> Lookup[str, str]:
    start = "xml.namespaces."
    entries = [entry for entry in properties.entries if entry.name.startswith(start)]
    for entry in entries:
        if not entry.value:
            raise properties.error(f"{entry.written} has no value", entry)
    return Lookup(tuple((entry.written[len(start) :], entry.value) for entry in entries))


def _check_prefixes(
    properties: Properties, rules: tuple[XmlRule, ...], namespaces: Lookup[str, str]
) -> None:
    """Raise OptionError if a path of an XML rule has a prefix that is not declared."""
    for top in rules:
        for rule in top.all():
            paths = [value for value in rule.values.values() if isinstance(value, RulePath)]
            for path in (*paths, *([] if rule.match is None else [rule.match])):
                for prefix in path.prefixes():
                    if prefix and prefix not in namespaces:
                        hint = f"Declare it as xml.namespaces.{prefix}=URI, or omit the prefix: then namespaces do not matter"
                        problem = (
                            f"the prefix {prefix} in {path} of rule {rule.name} is not declared"
                        )
                        raise properties.error(problem, None, hint)


def _count(read: PropertyReader, name: str) -> int:
    text = read.text(name)
    if not text.isdecimal() or not 0 < int(text) <= 1 << 24:
        raise read.error(f"expected a number, found {text!r}", name)
    return int(text)


def _encoding(read: PropertyReader) -> str:
    text = read.text("encoding")
    if text != DECLARED and not is_known(text):
        raise read.error(f"the encoding {text} is unknown", "encoding")
    return text
