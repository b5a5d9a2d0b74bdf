"""A copybook's text to layouts: the one entry point of this notation."""

from __future__ import annotations

from collections.abc import Callable

from trailgate.cobol.copybook.clauses import parse_entries
from trailgate.cobol.copybook.copying import expand
from trailgate.cobol.copybook.dialect import Dialect
from trailgate.cobol.copybook.layout_passes import build
from trailgate.cobol.copybook.layouts import Layout
from trailgate.cobol.copybook.scanner import Token, scan
from trailgate.cobol.copybook.source_lines import read_lines
from trailgate.errors import DefinitionError, Where

DIALECT = Dialect()


def read_copybook(
    text: str,
    *,
    source: str = "copybook",
    dialect: Dialect = DIALECT,
    member: Callable[[str], str | None] = lambda _: None,
) -> list[Layout]:
    """Return the layout of every record (level 01, or the outermost level) of a copybook.

    ``member`` gives the text of a COPY member by its name, or None. Raises DefinitionError with
    file, line and column.
    """

    def tokens_of(content: str, name: str) -> list[Token]:
        return scan(read_lines(content, dialect.source_format), name)

    def members(name: str) -> list[Token] | None:
        content = member(name)
        return None if content is None else tokens_of(content, name)

    entries = parse_entries(expand(tokens_of(text, source), members))
    if not entries:
        raise DefinitionError("the copybook has no item", where=Where(source=source))
    stem = source.replace("\\", "/").rpartition("/")[2].partition(".")[0].upper()
    return build(entries, dialect, stem)
