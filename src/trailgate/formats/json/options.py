"""The options of GoldenGate's JSON messages: `json.*` properties for reading, and options for publishing.

Tables come from a definitions file or from the properties. Any member of a message can be a header
field, by its name or its path.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from trailgate.messages.metadata_options import MetadataOptions, read_metadata_options
from trailgate.messages.properties import Properties
from trailgate.messages.property_reader import DefinitionFiles, HeaderFields, PropertyReader
from trailgate.messages.property_rows import SourceKind
from trailgate.messages.publishing import ROW, PublishOptions
from trailgate.model.tables import Definitions

_NEEDED: Final = "The messages contain neither the types and lengths of columns nor the keys"


PARSER: Final = "json"
ROW_MODEL: Final = "row"
FLAT_MODEL: Final = "flat"
# Kafka Connect's JSON converter writes this member beside the payload. Its content is not read.
SCHEMA: Final = "schema"
_LEAST_LEVELS: Final = 2  # a message's members, and the members of its images and tokens
# Metadata members of GoldenGate's formatter. In the row model they are beside the columns.
METADATA: Final = frozenset(
    {"table", "op_type", "op_ts", "current_ts", "pos", "primary_keys", "tokens"}
)


@dataclass(frozen=True, slots=True)
class MemberPaths(HeaderFields):
    """Accepts every name as a JSON header field, because the members are known only from the messages."""

    def spelling(self, name: str) -> str | None:
        """Return the JSON member's name unchanged."""
        return name


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonOptions(MetadataOptions):
    """How GoldenGate's JSON messages are read. `docs/properties.md` describes each property.

    `before`, `after` and `tokens` are paths to members. In the model "row", columns are members of
    the object at the path `row` (the message itself if empty); `metadata_members` are members of it
    that are not columns. In the model "flat", columns are members of the message with names such as
    `after.ID`: `before` or `after`, the `delimiter`, and the column. `binary` is the notation of
    bytes, or "" if it is unknown. `levels` and `opaque` limit the members that are scanned (see
    `JsonScanner`).
    """

    model: str
    before: str
    after: str
    row: str
    delimiter: str
    tokens: str
    binary: str
    metadata_members: frozenset[str]
    levels: int
    opaque: str

    @property
    def by_id(self) -> bool:
        """Whether consecutive JSON operations with the same transaction id form one transaction.

        This is the case if no transaction indicator is configured.
        """
        return self.txind is None and self.txid.kind is SourceKind.FIELD

    @property
    def operation_ids(self) -> bool:
        """Always true: every JSON operation gets a sequence id, even if several come from one message."""
        return True


def json_setup(properties: Properties, files: DefinitionFiles) -> tuple[JsonOptions, Definitions]:
    """Read the `json.*` properties: the options of JSON messages, and the tables that they or the definitions file define."""
    return json_options(properties), json_tables(properties, files)


def json_tables(properties: Properties, files: DefinitionFiles) -> Definitions:
    """Read the tables of the JSON parser. Raises OptionError if none are defined."""
    return PropertyReader(properties, PARSER).definitions(files, hint=_NEEDED)


def json_options(properties: Properties) -> JsonOptions:
    """Read the options of the JSON parser. Raises OptionError that names line and property."""
    read = PropertyReader(properties, PARSER, MemberPaths(place="the message's members"))
    common = read_metadata_options(read)
    table = read.required_source("schemaandtable")
    sources = [table, *(common[name] for name in ("seqid", "timestamp", "txid", "optype"))]
    sources += [common[name] for name in ("txowner", "txname", "txind")]
    named = {
        source.name for source in sources if source is not None and source.kind is SourceKind.FIELD
    }
    names = ("before", "after", "row", "delimiter", "tokens")
    before, after, row, delimiter, tokens = (read.text(name) for name in names)
    model = read.text("model").casefold()
    if before == after:
        raise read.error(f"json.before and json.after are both {after}", "after")
    if row and model != ROW_MODEL:
        raise read.error(f"json.row is for json.model=row, but the model is {model}", "row")
    if read.entry("delimiter") is not None and model != FLAT_MODEL:
        raise read.error(
            f"json.delimiter is for json.model=flat, but the model is {model}", "delimiter"
        )
    images = {"op": (before, after), ROW_MODEL: (row,), FLAT_MODEL: ()}[model]
    paths = {*named, *images, tokens}
    within = f"{row}." if row else ""
    # With row=payload, the member payload.op is "op" beside the columns.
    beside = {name.removeprefix(within).partition(".")[0] for name in {*named, tokens}}
    return JsonOptions(
        **common,
        schemaandtable=table,
        schema=None,
        table=(),
        model=model,
        before=before,
        after=after,
        row=row,
        delimiter=delimiter,
        tokens=tokens,
        binary=read.text("binary").casefold(),
        metadata_members=METADATA | beside,
        levels=_levels(paths, (*images, tokens)),
        opaque="" if any(path.partition(".")[0] == SCHEMA for path in paths) else SCHEMA,
    )


def _levels(paths: Iterable[str], images: Iterable[str]) -> int:
    """Return the number of levels of JSON members to scan.

    All members at `paths` must be scanned, and the members of the objects at `images`. Example: the
    path "source.ts_ms" needs two levels, and so does the image "after", for its columns.
    """
    deepest = max((1 + path.count(".") for path in paths), default=0)
    return max(_LEAST_LEVELS, deepest, *(2 + path.count(".") for path in images if path))


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonPublishOptions(PublishOptions):
    """How operations are published as GoldenGate's JSON messages, one message per operation."""

    content: Annotated[Literal["row"], "a message holds one operation"] = ROW
    model: Annotated[
        Literal["op", "row"], "op: before and after images; row: the columns beside the metadata"
    ] = "op"
    binary: Annotated[
        Literal["", "hex", "base64"], "how bytes are written; by default they are refused"
    ] = ""
    strings: Annotated[bool, "write numbers in quotes too"] = False
    position: Annotated[bool, "add the member pos"] = True
    primary_keys: Annotated[bool, "add the names of the key columns"] = True
    tokens: Annotated[bool, "add the tokens"] = True
    transactions: Annotated[bool, "add the members xid, csn and tx_ind"] = False
