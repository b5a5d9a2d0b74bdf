"""What gendef writes: the definitions file that a consumer of the trail gets (capture properties §8)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from trailgate.definitions.defgen.sourcedefs import write_sourcedefs
from trailgate.model.tables import Database, Definitions

# capture properties §8: the header that gendef itself writes is not public; the 19-attribute form of
# version 2.0 "is the safe choice". The character sets are those of the trails written here.
GENERATED: Final = Database(
    version="2.0",
    character_set="UTF-8",
    national_character_set="UTF-16",
    locale="neutral",
)


def generated(definitions: Definitions) -> bytes:
    """Return the file's bytes; database lines that the tables' own file has are kept."""
    given = definitions.database
    database = given if given.version else replace(GENERATED, time_zone=given.time_zone)
    return write_sourcedefs(Definitions(definitions.tables, database))
