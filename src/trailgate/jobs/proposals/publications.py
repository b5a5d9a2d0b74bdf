"""Propose properties for IBM event publications, delimited or XML.

Delimited publications do not name their columns, so these are numbered. XML publications either
describe their tables, or name the columns of each row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from trailgate.errors import DecodeError, count_noun
from trailgate.formats.publications.options import HEADER
from trailgate.formats.publications.xml_vocabulary import (
    AFTER,
    BEFORE,
    COLUMN,
    DEFINING,
    KINDS,
    OPERATIONS,
    ROOT,
)
from trailgate.formats.xml.documents import XmlElement, parse_document
from trailgate.jobs.proposals.delimited import SplitMessages, split_by
from trailgate.jobs.proposals.drafts import PropertiesDraft, TableDraft

PARSER: Final = "event_publishing"
# A delimited publication starts with a number and the identifier IBM, each followed by the column
# delimiter, for example 10,"IBM",
_BEGIN: Final = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*\d+(?P<delimiter>[^\w\s\"'])(?P<quote>[\"']?)IBM(?P=quote)(?P=delimiter)"
)
_OWNER, _NAME, _OPERATION = (
    HEADER.index(name) for name in ("table_owner", "table_name", "operation")
)
# The words for operations in delimited messages, and their letters.
_KINDS: Final = {"ISRT": "I", "REPL": "U", "DLET": "D"}
_ROOT: Final = re.compile(rb"<(?:\w+:)?" + ROOT.encode() + rb"[\s>]")


def fits_delimited_publications(body: bytes) -> bool:
    """Return True if properties for IBM's delimited publications should be proposed: the sample message starts like ``10,"IBM",``."""
    return _BEGIN.match(body) is not None


def fits_xml_publications(body: bytes) -> bool:
    """Return True if properties for IBM's XML publications should be proposed: the sample message has a known type."""
    if not body.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<") or not _ROOT.search(body[:4096]):
        return False
    roots = parse_document(body).top.children
    kinds = [child.name for root in roots for child in root.children]
    return roots[0].name == ROOT and any(kind in KINDS for kind in kinds)


def propose_delimited_publications(bodies: Sequence[bytes]) -> str:
    """Propose properties for delimited publications of IBM.

    Raises DecodeError if a record has too few fields.
    """
    begin = _BEGIN.match(bodies[0])
    assert begin is not None, "the form of the first message"
    nel = not any(b"\n" in body for body in bodies) and any(b"\xc2\x85" in body for body in bodies)
    line = b"\xc2\x85" if nel else b"\n"
    delimiter, quote = begin["delimiter"], begin["quote"]
    split = split_by(bodies, delimiter, line, (quote or b'"',))
    if split is None or split.least < len(HEADER):
        problem = "the messages start like IBM publications, but a record has too few fields"
        raise DecodeError(problem, hint=f"A record has {len(HEADER)} fields before its columns")
    draft = _begin(f"{count_noun(split.messages, 'delimited publication')} of IBM")
    if delimiter != b",":
        draft.put(f"{PARSER}.fielddelim", delimiter.decode("latin-1"))
    if quote and quote != b'"':
        draft.put(f"{PARSER}.quote", quote.decode())
    if nel:
        draft.put(f"{PARSER}.recorddelim", "NEL")
    draft.note("Publications do not name columns: they are numbered, and may be named below.")
    draft.tables(PARSER, _tables_of_records(split))
    return draft.text()


def _begin(what: str) -> PropertiesDraft:
    """Begin a draft of properties for publications of IBM, with `parser.type`."""
    draft = PropertiesDraft()
    draft.note(f"Proposed from {what}. Check each line.")
    draft.put("parser.type", PARSER)
    return draft


def _tables_of_records(split: SplitMessages) -> list[TableDraft]:
    """Return the proposed tables of delimited publications, with the columns COL1 to COLn."""
    tables: dict[str, TableDraft] = {}
    keyless: set[str] = set()
    quote = split.quote or b'"'

    def text(raw: bytes) -> str:
        if raw.startswith(quote) and raw.endswith(quote) and len(raw) > 1:
            raw = raw[1:-1].replace(quote * 2, quote)
        return raw.decode(errors="replace")

    for number in range(len(split.fields.count)):
        record = split.raw(number)
        name = ".".join(text(record[at]).strip() for at in (_OWNER, _NAME))
        table = tables.setdefault(name, TableDraft(name))
        # The columns' before values come first, then their after values: 7,A,7,B are two columns, of
        # which the second changes from A to B.
        columns = (len(record) - len(HEADER)) // 2
        values = record[len(HEADER) :]
        for i in range(columns):
            for raw in (values[i], values[columns + i]):
                table.add(f"COL{i + 1}", text(raw))
        kind = _KINDS.get(text(record[_OPERATION]), "")
        before, after = (values[0], values[columns]) if columns else (b"", b"")
        key_value = {"I": after, "D": before, "U": before and after}.get(kind, b"")
        # The first column is taken for the key, unless it has no value or an update changes it.
        if not key_value or (kind == "U" and before != after):
            keyless.add(name)
    for name, table in tables.items():
        if table.sizes and name not in keyless:
            table.keys = ["COL1"]
    return list(tables.values())


def propose_xml_publications(bodies: Sequence[bytes]) -> str:
    """Propose properties for XML publications of IBM.

    The proposal includes tables only if the publications do not describe them themselves.
    """
    roots = [parse_document(body).top.children[0] for body in bodies]
    draft = _begin(f"{count_noun(len(roots), 'XML publication')} of IBM")
    if any(child.name in DEFINING for root in roots for child in root.children):
        draft.note(
            "The messages describe their tables (subSchema): a capture of files reads them once"
        )
        draft.note(f"for that. A live capture needs definitions: {PARSER}.sourcedefs=FILE.")
        return draft.text()
    tables: dict[str, TableDraft] = {}
    for row in _rows(roots):
        attributes = {one.name: one.value for one in row.attributes}
        name = f"{attributes.get('srcOwner', '')}.{attributes.get('srcName', '')}"
        table = tables.setdefault(name, TableDraft(name))
        for column in row.children:
            if column.name == COLUMN:
                _add_column(table, column)
    if not any(table.sizes for table in tables.values()):
        raise DecodeError("the publications have no rows, so nothing is known about their tables")
    draft.tables(PARSER, tables.values(), keys_named=True)
    return draft.text()


def _rows(roots: Sequence[XmlElement]) -> Iterator[XmlElement]:
    for root in roots:
        yield from (one for one in root.below() if one.name in OPERATIONS)


def _add_column(table: TableDraft, column: XmlElement) -> None:
    """Add a column of an XML publication to its proposed table, or enlarge it."""
    attributes = {one.name: one.value for one in column.attributes}
    name = attributes.get("name", "")
    if attributes.get("isKey") in ("1", "true") and name not in table.keys:
        table.keys.append(name)
    table.add(name, "")
    for value in column.below():
        if value.name not in (BEFORE, AFTER):
            table.add(name, value.text())
