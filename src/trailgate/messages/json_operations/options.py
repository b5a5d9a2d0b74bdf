"""The options of GoldenGate's JSON messages: the ``json.*`` properties, typed and checked together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trailgate.messages.json_text.definitions import json_definitions
from trailgate.messages.json_text.member_paths import MemberPaths
from trailgate.messages.properties.definition_files import DefinitionFiles
from trailgate.messages.properties.file import Properties
from trailgate.messages.properties.metadata import MetadataOptions, metadata
from trailgate.messages.properties.reader import PropertyReader
from trailgate.messages.properties.rows import SourceKind
from trailgate.model.tables import Definitions

PARSER: Final = "json"
# Members that the formatter writes; where columns are beside them, they are not columns (JSON formatter, metadata).
METADATA: Final = frozenset(
    {"table", "op_type", "op_ts", "current_ts", "pos", "primary_keys", "tokens"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonOptions(MetadataOptions):
    """How GoldenGate's JSON messages are read; see ``docs/properties.md`` for each property.

    With ``flat`` columns are members of the message itself, beside ``others``, which are none. ``binary`` is how bytes are
    written, empty where that is not known.
    """

    flat: bool
    before: str
    after: str
    tokens: str
    binary: str
    others: frozenset[str]

    @property
    def by_id(self) -> bool:
        """Return whether operations of one transaction id that follow one another are a transaction: no member has indicators."""
        return self.txind is None and self.txid.kind is SourceKind.FIELD

    @property
    def operation_ids(self) -> bool:
        """Return that each operation has a sequence id of its own."""
        return True


def json_setup(properties: Properties, files: DefinitionFiles) -> tuple[JsonOptions, Definitions]:
    """Return the options, and the tables of the files and properties."""
    return json_options(properties), json_tables(properties, files)


def json_tables(properties: Properties, files: DefinitionFiles) -> Definitions:
    """Return the tables that the properties define; raises OptionError where they define none."""
    return json_definitions(properties, files, PARSER)


def json_options(properties: Properties) -> JsonOptions:
    """Return the options of the JSON parser; raises OptionError that names line and property."""
    read = PropertyReader(properties, PARSER, MemberPaths(place="the message's members"))
    common = metadata(read)
    table = read.needed_source("schemaandtable")
    sources = [table, *(common[name] for name in ("seqid", "timestamp", "txid", "optype"))]
    sources += [common[name] for name in ("txowner", "txname", "txind")]
    named = {
        source.name.partition(".")[0]
        for source in sources
        if source is not None and source.kind is SourceKind.FIELD
    }
    before, after, tokens = (read.text(name) for name in ("before", "after", "tokens"))
    if before == after:
        raise read.error(f"json.before and json.after are both {after}", "after")
    return JsonOptions(
        **common,
        schemaandtable=table,
        schema=None,
        table=(),
        flat=read.text("model").casefold() == "row",
        before=before,
        after=after,
        tokens=tokens,
        binary=read.text("binary").casefold(),
        others=METADATA | named | {tokens},
    )
