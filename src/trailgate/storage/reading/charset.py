"""Which character set a trail file's texts are in."""

from __future__ import annotations

from typing import Final

from trailgate.errors import OptionError
from trailgate.model.tables import Definitions
from trailgate.trail.format.file_header import FileHeader
from trailgate.trail.values.charsets import UTF_8, charset_named

# Assumed: this number in the header is UTF-8. The others of the printed headers are not public.
UTF_8_NUMBER: Final = 0x20000000


def usual_charset(header: FileHeader | None, definitions: Definitions) -> str:
    """Return the character set of the source: as the header has it, else as the definitions have.

    Where neither has one, it is UTF-8. Raises OptionError for a name that is not known.
    """
    named = definitions.database.character_set
    if (header is not None and header.database.charset == UTF_8_NUMBER) or not named:
        return UTF_8
    try:
        return charset_named(named)
    except OptionError as error:
        error.hint = f"The definitions name it; the option charset overrules them. {error.hint}"
        raise
