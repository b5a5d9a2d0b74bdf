"""The options of GoldenGate's JSON messages, read (the ``json.*`` properties, typed and checked together) and written.

The properties define the tables too. A header field is any member of a message, by its name or the path to it.
"""

from __future__ import annotations

from collections.abc import Iterable
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
ROW_MODEL: Final = "row"
FLAT_MODEL: Final = "flat"
SCHEMA: Final = (
    "schema"  # Connect's converter writes it beside the payload; what is in it is not looked at
)
_LEAST_LEVELS: Final = 2  # a message's members, and those of its images and tokens
# Members that the formatter writes; where columns are beside them, they are not columns (JSON formatter, metadata).
METADATA: Final = frozenset(
    {"table", "op_type", "op_ts", "current_ts", "pos", "primary_keys", "tokens"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonOptions(MetadataOptions):
    """How GoldenGate's JSON messages are read; see ``docs/properties.md`` for each property.

    ``before``, ``after`` and ``tokens`` are paths to members. In the model ``row`` columns are members of the object at the path ``row``, of the message
    itself if that is empty, beside ``others``, which are none. In the model ``flat`` they are members of the message, named ``before`` or ``after``, the
    ``delimiter`` and the column. ``binary`` is how bytes are written, empty where that is not known.
    """

    model: str
    before: str
    after: str
    row: str
    delimiter: str
    tokens: str
    binary: str
    others: frozenset[str]
    levels: int
    opaque: str

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
        source.name for source in sources if source is not None and source.kind is SourceKind.FIELD
    }
    names = ("before", "after", "row", "delimiter", "tokens")
    before, after, row, delimiter, tokens = (read.text(name) for name in names)
    model = read.text("model").casefold()
    if before == after:
        raise read.error(f"json.before and json.after are both {after}", "after")
    if row and model != ROW_MODEL:
        raise read.error(f"json.row is for json.model=row, and the model is {model}", "row")
    if read.entry("delimiter") is not None and model != FLAT_MODEL:
        raise read.error(
            f"json.delimiter is for json.model=flat, and the model is {model}", "delimiter"
        )
    images = {"op": (before, after), ROW_MODEL: (row,), FLAT_MODEL: ()}[model]
    paths = {*named, *images, tokens}
    within = f"{row}." if row else ""
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
        others=METADATA | beside,
        levels=_levels(paths, (*images, tokens)),
        opaque="" if any(path.partition(".")[0] == SCHEMA for path in paths) else SCHEMA,
    )


def _levels(paths: Iterable[str], images: Iterable[str]) -> int:
    """Return how deep the members lie that are read: those of paths, and one below those of images and tokens."""
    deepest = max((1 + path.count(".") for path in paths), default=0)
    return max(_LEAST_LEVELS, deepest, *(2 + path.count(".") for path in images if path))


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
