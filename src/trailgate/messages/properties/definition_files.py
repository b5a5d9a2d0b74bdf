"""The files that properties name, as a parser asks for them; the jobs open them."""

from __future__ import annotations

from typing import Protocol

from trailgate.cobol.copybook.dialect import Dialect
from trailgate.cobol.copybook.layouts import Layout
from trailgate.messages.properties.reader import PropertyReader
from trailgate.model.tables import Definitions, Table


class DefinitionFiles(Protocol):
    """Reads definitions by the paths that properties give."""

    def chosen(self, path: str) -> str:
        """Return the path of the definitions file: that of the properties, or one put before it."""
        ...

    def sourcedefs(self, path: str) -> Definitions:
        """Return the tables of a definitions file."""
        ...

    def copybook(self, path: str, dialect: Dialect) -> list[Layout]:
        """Return the records of a copybook."""
        ...


def with_userdefs(
    read: PropertyReader, files: DefinitionFiles, path: str, userdefs: tuple[Table, ...]
) -> Definitions:
    """Return the tables of a definitions file and those of the properties; one in both is an error."""
    path = files.chosen(path)
    if not path:
        return Definitions(userdefs)
    found = files.sourcedefs(path)
    for table in userdefs:
        if found.get(table.name) is not None:
            problem = f"table {table.name} is defined in {path} too"
            raise read.error(problem, "userdefs.tables", "Leave one of the definitions out")
    return Definitions((*found.tables, *userdefs), found.database)
