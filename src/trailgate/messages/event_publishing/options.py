"""The options of event publications: the ``event_publishing.*`` properties, typed and checked together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from trailgate.columnar.code_pages.page_text import CodePage
from trailgate.columnar.code_pages.registry import code_page
from trailgate.columnar.datetime_formats import DB2_FORMAT
from trailgate.columnar.views import octets
from trailgate.errors import OptionError
from trailgate.messages.delimited.options import DelimitedOptions
from trailgate.messages.event_publishing.delimited.delimiters import DEFAULTS, Delimiters, of_bytes
from trailgate.messages.event_publishing.delimited.engine_options import engine_options
from trailgate.messages.properties.definition_files import DefinitionFiles, with_userdefs
from trailgate.messages.properties.event_publishing import NAME
from trailgate.messages.properties.file import Properties
from trailgate.messages.properties.metadata import MetadataOptions
from trailgate.messages.properties.reader import PropertyReader
from trailgate.messages.properties.rows import SourceKind
from trailgate.messages.properties.values import Lookup, ValueSource
from trailgate.model.tables import Definitions

# The header fields of either kind of messages that metadata comes from.
TRANSACTION: Final = "transaction"  # what is one for all records of a transaction
TIME, IDENTIFIER, PLAN = "commit_time", "transaction_identifier", "plan_name"
OPERATION, OWNER, NAME_OF_TABLE = "operation", "table_owner", "table_name"
AUTHORIZATION: Final = "authorization_id"  # of XML messages alone

UTF_8: Final = "utf-8"
OPERATIONS: Final = (("insert", "I"), ("update", "U"), ("delete", "D"))


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPublishingOptions(MetadataOptions):
    """How event publications are read; see ``docs/properties.md`` for each property.

    ``delimited`` is what the delimited engine is given. Metadata comes from the fields that both kinds of messages have, named as in
    ``TRANSACTION`` and the others above.
    """

    codepage: str
    undecodable: str
    take_flagged: bool
    content: str
    decimal_point: str
    delimited: DelimitedOptions
    definitions: Definitions | None = None

    def with_tables(self, definitions: Definitions) -> EventPublishingOptions:
        """Return the options with the tables that were learnt."""
        return replace(self, definitions=definitions, learns=False)

    @property
    def by_id(self) -> bool:
        """Return that transactions are known by their ids: a publication has no indicator."""
        return True


def _field(name: str) -> ValueSource:
    return ValueSource(SourceKind.FIELD, name)


def event_publishing_setup(
    properties: Properties, files: DefinitionFiles
) -> tuple[EventPublishingOptions, Definitions]:
    """Return the options, and the tables of the files and properties; raises OptionError."""
    read = PropertyReader(properties, NAME)
    entry, userdefs = read.entry("sourcedefs"), read.userdefs()
    path = "" if entry is None else entry.value
    definitions = with_userdefs(read, files, path, userdefs)
    options = event_publishing_options(properties, learns=not len(definitions))
    return replace(options, definitions=definitions), definitions


def event_publishing_options(
    properties: Properties, *, learns: bool = False
) -> EventPublishingOptions:
    """Return the options of event publications; raises OptionError that names line and property."""
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
        raise read.error(f"{NAME}.{name}: {error.problem}", name, error.hint) from None
    return EventPublishingOptions(
        **common,
        codepage=_page_name(codepage),
        undecodable=read.text("undecodable").casefold(),
        take_flagged=read.text("takeflagged").casefold() == "true",
        content=read.text("content").casefold(),
        decimal_point=_point(read, delimiters.decimalpoint, page),
        delimited=engine_options(delimiters, common),
        learns=learns,
    )


def _point(read: PropertyReader, raw: bytes, page: CodePage) -> str:
    """Return the decimal point as the character that it is in values; raises OptionError."""
    text = (page if of_bytes(page) else code_page(UTF_8)).decode(octets(raw).reshape(1, -1))
    found: str | None = text.values[0].as_py()
    if found is None:
        problem = f"{NAME}.decimalpoint is not a character of the code page {page.name}"
        raise read.error(problem, "decimalpoint")
    return found


def _page_name(name: str) -> str:
    """Return the name of a code page; 1208 is what IBM calls UTF-8."""
    return UTF_8 if name in ("1208", "UTF-8", "utf-8") else name
