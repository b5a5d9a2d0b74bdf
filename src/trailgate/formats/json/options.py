"""The options of GoldenGate's JSON messages, read (the ``json.*`` properties, typed and checked together) and written.

The properties define the tables too. A header field is any member of a message, by its name or the path to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Literal

from trailgate.messages.properties import (
    DefinitionFiles,
    HeaderFields,
    MetadataOptions,
    Properties,
    PropertyReader,
    metadata,
)
from trailgate.messages.property_rows import SourceKind
from trailgate.messages.publishing import ROW, PublishOptions
from trailgate.model.tables import Definitions

_NEEDED: Final = "Messages do not say of what type and length columns are, or which are keys"


@dataclass(frozen=True, slots=True)
class MemberPaths(HeaderFields):
    """Every name is that of a member: which ones there are is known by the messages alone."""

    def found(self, name: str) -> str | None:
        """Return the name itself."""
        return name


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
    return PropertyReader(properties, PARSER).definitions(files, hint=_NEEDED)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonPublishOptions(PublishOptions):
    """How JSON messages are written, each with one operation."""

    content: Annotated[Literal["row"], "a message holds one operation"] = ROW
    model: Annotated[
        Literal["op", "row"], "op: with images; row: with the columns beside the metadata"
    ] = "op"
    binary: Annotated[
        Literal["", "hex", "base64"], "how bytes are written; without it they are refused"
    ] = ""
    strings: Annotated[bool, "numbers are in quotes too"] = False
    position: Annotated[bool, "with the member pos"] = True
    primary_keys: Annotated[bool, "with the names of the key columns"] = True
    tokens: Annotated[bool, "with the tokens"] = True
    transactions: Annotated[bool, "with the members xid, csn and tx_ind"] = False
