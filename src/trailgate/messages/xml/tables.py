"""The tables of XML messages: the ``xml.*`` properties that define them."""

from __future__ import annotations

from typing import Final

from trailgate.messages.properties.definition_files import DefinitionFiles, with_userdefs
from trailgate.messages.properties.file import Properties
from trailgate.messages.properties.reader import PropertyReader
from trailgate.model.tables import Definitions

PARSER: Final = "xml"


def xml_definitions(properties: Properties, files: DefinitionFiles) -> Definitions:
    """Return the tables that XML properties define; raises OptionError where they define none."""
    read = PropertyReader(properties, PARSER)
    entry = properties.get("xml.sourcedefs")
    tables = read.userdefs()
    if entry is None and not tables:
        raise properties.error("xml.sourcedefs or xml.userdefs.tables is required")
    return with_userdefs(read, files, "" if entry is None else entry.value, tables)
