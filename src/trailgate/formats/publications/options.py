"""The options of event publications: the `event_publishing.*` properties, typed and checked against each other.

Delimited publications have four delimiters, which are bytes of the messages' code page. They are
read by the engine of delimited messages: twelve header fields, the before values of all columns,
then their after values (IBM, structure of delimited messages). In terms of `delim.*` properties:
with befores, grouped, without names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa

from trailgate.arrays import octets
from trailgate.columnar.code_pages import CodePage, SingleBytePage, code_page
from trailgate.columnar.temporal import DB2_FORMAT
from trailgate.errors import EncodeError, OptionError
from trailgate.formats.delimited.options import DelimitedOptions
from trailgate.messages.metadata_options import MetadataOptions
from trailgate.messages.properties import Properties
from trailgate.messages.property_reader import DefinitionFiles, Lookup, PropertyReader, ValueSource
from trailgate.messages.property_rows import SourceKind
from trailgate.messages.property_table import NAME
from trailgate.model.tables import Definitions

# The delimiters' names, in properties and options, and their defaults.
DEFAULTS: Final[Mapping[str, str]] = MappingProxyType(
    {"fielddelim": ",", "recorddelim": "LF", "quote": '"', "decimalpoint": "."}
)
# NEL is the line end of z/OS, after conversion by other tools.
_WORDS: Final[Mapping[str, str]] = MappingProxyType({"LF": "\n", "NEL": "\x85"})
# A byte: \x1e, or x'1e'
_HEX: Final = re.compile(r"(?:\\x([0-9a-f]{2})|x'([0-9a-f]{2})')", re.IGNORECASE)


PROGRAM: Final = b"IBM"  # the identifier of a record without an error flag
HEADER: Final = (
    "type",
    "identifier",
    "date",
    "time",
    "table_owner",
    "table_name",
    "operation",
    "transaction_identifier",
    "commit_lsn",
    "commit_time",
    "plan_name",
    "segment_number",
)

# The header fields that metadata comes from, in both formats.
TRANSACTION: Final = "transaction"  # an id that all records of a transaction share
AUTHORIZATION: Final = "authorization_id"  # only in XML messages
UTF_8: Final = "utf-8"
OPERATIONS: Final = (("insert", "I"), ("update", "U"), ("delete", "D"))
TIME, IDENTIFIER, PLAN = "commit_time", "transaction_identifier", "plan_name"
OPERATION, OWNER, NAME_OF_TABLE = "operation", "table_owner", "table_name"


@dataclass(frozen=True, slots=True)
class Delimiters:
    """The delimiters of publications: the bytes between columns, after records and around strings, and the decimal point of numbers.

    Each is one byte, except for the control character NEL, which has two bytes in UTF-8.
    """

    fielddelim: bytes = b","
    recorddelim: bytes = b"\n"
    quote: bytes = b'"'
    decimalpoint: bytes = b"."

    @staticmethod
    def of(given: Mapping[str, str], page: CodePage) -> Delimiters:
        """Parse the delimiters of publications. Raises OptionError, with the name as its field.

        IBM: "each of the four delimiter types (column, record, string, and decimal) must be
        different, and no alphanumeric characters (0 to 9 or Aa to Zz) or double-byte characters are
        allowed".
        """
        delimiters: dict[str, bytes] = {}
        for name in DEFAULTS:
            try:
                value = parse_delimiter(given.get(name, DEFAULTS[name]), page)
            except OptionError as error:
                raise error.with_place(field=name) from None
            for other, known in delimiters.items():
                if known == value:
                    raise OptionError(f"{name} and {other} are the same").with_place(field=name)
            delimiters[name] = value
        return Delimiters(**delimiters)


def parse_delimiter(text: str, page: CodePage) -> bytes:
    r"""Parse a delimiter of publications: a character, or its byte in the code page such as `\x1e`.

    Raises OptionError.
    """
    byte = _HEX.fullmatch(text)
    if byte is not None:
        raw = bytes.fromhex(byte[1] or byte[2])
        character = _character(raw, page)
    else:
        character = _WORDS.get(text.upper(), text)
        if len(character) != 1:
            problem = f"expected one character, or one byte as \\xHH, found {text!r}"
            raise OptionError(problem)
        raw = _bytes(character, page)
        if len(raw) != 1 and character != _WORDS["NEL"]:
            problem = f"{text!r} has {len(raw)} bytes in the code page {page.name}"
            raise OptionError(problem, hint="A delimiter has one byte")
    if character is not None and character.isascii() and character.isalnum():
        problem = f"{text} is the letter or digit {character}, which cannot be a delimiter"
        raise OptionError(problem)
    # Messages in multi-byte pages are converted to UTF-8 before they are split.
    return raw if is_byte_safe(page) or character is None else character.encode()


def is_byte_safe(page: CodePage) -> bool:
    """Return whether publications in a code page can be split before they are decoded: a delimiter's byte is never part of another character.

    This is true for single-byte pages and UTF-8.
    """
    return page.name == "utf-8" or isinstance(page, SingleBytePage)


def _character(raw: bytes, page: CodePage) -> str | None:
    """Return the character that a single byte encodes in a code page, or None if it encodes none."""
    decoded = page.decode(octets(raw).reshape(1, 1))
    text: str | None = decoded.values[0].as_py()
    return text


def _bytes(character: str, page: CodePage) -> bytes:
    try:
        raw: bytes = page.encode(pa.array([character]))[0].as_py()
    except EncodeError as error:
        raise OptionError(error.problem) from None
    return raw


def _engine_options(delimiters: Delimiters, metadata: Mapping[str, Any]) -> DelimitedOptions:
    """Return the options with which the delimited engine (``formats/delimited``) reads publications.

    `metadata` are the fields of `MetadataOptions`: the sources of transaction ids, times, and so
    on.
    """
    return DelimitedOptions(
        sourcedefs="",
        header=HEADER,
        fielddelim=delimiters.fielddelim,
        linedelim=delimiters.recorddelim,
        quote=delimiters.quote,
        nullindicator=None,
        fielddelim_escaped=None,
        linedelim_escaped=None,
        quote_escaped=None,
        nullindicator_escaped=None,
        hasbefores=True,
        hasnames=False,
        afterfirst=False,
        isgrouped=True,
        date_format=DB2_FORMAT,
        table_date_formats=Lookup(),
        column_date_formats=Lookup(),
        **metadata,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPublishingOptions(MetadataOptions):
    """How event publications are read. `docs/properties.md` describes each property.

    `delimited` are the options of the delimited engine. Metadata comes from the fields that both
    formats have, such as `TRANSACTION` and `TIME`.
    """

    codepage: str
    undecodable: str
    take_flagged: bool
    content: str
    decimal_point: str
    delimited: DelimitedOptions
    definitions: Definitions | None = None

    def with_tables(self, definitions: Definitions) -> EventPublishingOptions:
        """Return the options of publications with the tables that were inferred."""
        return replace(self, definitions=definitions, infers=False)

    @property
    def xml_page(self) -> str | None:
        """The code page that the properties define for all XML publications.

        It is None for UTF-8, the default: then the encoding that each document declares is used.
        """
        return None if self.codepage == UTF_8 else self.codepage

    @property
    def by_id(self) -> bool:
        """Always true: publications have transaction ids, but no transaction indicators."""
        return True


def _field(name: str) -> ValueSource:
    return ValueSource(SourceKind.FIELD, name)


def event_publishing_setup(
    properties: Properties, files: DefinitionFiles
) -> tuple[EventPublishingOptions, Definitions]:
    """Read the `event_publishing.*` properties: the options of publications, and the tables that they or the definitions file define.

    Raises OptionError.
    """
    definitions = PropertyReader(properties, NAME).definitions(files, needed=False)
    options = event_publishing_options(properties, infers=not len(definitions))
    return replace(options, definitions=definitions), definitions


def event_publishing_options(
    properties: Properties, *, infers: bool = False
) -> EventPublishingOptions:
    """Read the options of event publications. Raises OptionError that names line and property."""
    read = PropertyReader(properties, NAME)
    common: dict[str, Any] = {
        "seqid": _field(TRANSACTION),
        "timestamp": _field(TIME),
        "timestamp_format": DB2_FORMAT,
        "txid": _field(IDENTIFIER),
        "txowner": _field(AUTHORIZATION),
        "txname": _field(PLAN),
        "optype": _field(OPERATION),
        "optype_values": read.values("optype", OPERATIONS),
        "schemaandtable": None,
        "schema": _field(OWNER),
        "table": (_field(NAME_OF_TABLE),),
        "quotes_table": True,
        "txind": None,
        "txind_values": Lookup(),
        "message_id": read.message_id(),
    }
    codepage = read.text("codepage")
    try:
        page = code_page(_page_name(codepage))
    except OptionError as error:
        raise read.error(error.problem, "codepage", error.hint) from None
    given = {name: read.text(name) for name in DEFAULTS}
    try:
        delimiters = Delimiters.of(given, page)
    except OptionError as error:
        name = error.where.field or ""
        # `Delimiters.of` does not know properties; its field is the name without the parser's
        # prefix.
        raise read.error(f"{NAME}.{name}: {error.problem}", name, error.hint) from None
    return EventPublishingOptions(
        **common,
        codepage=_page_name(codepage),
        undecodable=read.text("undecodable").casefold(),
        take_flagged=read.text("takeflagged").casefold() == "true",
        content=read.text("content").casefold(),
        decimal_point=_point(read, delimiters.decimalpoint, page),
        delimited=_engine_options(delimiters, common),
        infers=infers,
    )


def _point(read: PropertyReader, raw: bytes, page: CodePage) -> str:
    """Return the decimal point as it appears in a publication's decoded values.

    Raises OptionError.
    """
    text = (page if is_byte_safe(page) else code_page(UTF_8)).decode(octets(raw).reshape(1, -1))
    point: str | None = text.values[0].as_py()
    if point is None:
        problem = f"{NAME}.decimalpoint is not a character of the code page {page.name}"
        raise read.error(problem, "decimalpoint")
    return point


def _page_name(name: str) -> str:
    """Return our name of a publication's code page. IBM's name for UTF-8 is 1208."""
    return UTF_8 if name in ("1208", "UTF-8", "utf-8") else name
