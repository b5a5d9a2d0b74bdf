"""The tables of JSON messages: the properties that define them."""

from __future__ import annotations

from typing import Final

from trailgate.messages.properties.definition_files import DefinitionFiles, with_userdefs
from trailgate.messages.properties.file import Properties
from trailgate.messages.properties.reader import PropertyReader
from trailgate.model.tables import Definitions

_NEEDED: Final = "Messages do not say of what type and length columns are, or which are keys"


def json_definitions(
    properties: Properties, files: DefinitionFiles, parser: str, hint: str = _NEEDED
) -> Definitions:
    """Return the tables that a parser's properties define; raises OptionError where they define none."""
    read = PropertyReader(properties, parser)
    entry = properties.get(f"{parser}.sourcedefs")
    tables = read.userdefs()
    if entry is None and not tables:
        problem = f"{parser}.sourcedefs or {parser}.userdefs.tables is required"
        raise properties.error(problem, hint=hint)
    return with_userdefs(read, files, "" if entry is None else entry.value, tables)
