"""Read small files completely: text, copybooks, definitions of tables, and state files beside a trail.

Text must be in UTF-8, or in another encoding in which ASCII characters are single bytes.
``read_text_file`` recognizes files in UTF-16, UTF-32 and EBCDIC, and raises an error with a hint how
to convert them.
"""

from __future__ import annotations

import codecs
import string
from typing import Final

from pyarrow import fs

from trailgate.definitions.defgen import read_sourcedefs
from trailgate.errors import StorageError, Where
from trailgate.model.tables import Definitions
from trailgate.storage.files.addresses import Address, locate

_WIDE_MARKS: Final = (
    (codecs.BOM_UTF32_LE, "UTF-32"),  # before UTF-16, whose mark is its first two bytes
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)
_ASCII: Final = bytes(range(0x80))
# The same bytes in all code pages of EBCDIC. The blank is @ in ASCII, all others are above ASCII.
_EBCDIC_WORDS: Final = f"{string.ascii_letters}{string.digits} ".encode("cp037")


def read_file(address: Address, subject: str = "file") -> bytes:
    """Read the complete file at an address. Raises StorageError, in which the file is called ``subject``."""
    store, path = locate(address)
    try:
        with store.open_input_file(path) as file:
            return bytes(file.read())
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        reason = "the file does not exist" if missing else error
        where = Where(source=str(address))
        raise StorageError(f"cannot read the {subject}: {reason}", where=where) from error


def read_text_file(address: Address, subject: str = "file") -> bytes:
    """Read a text file as bytes. Its encoding must be UTF-8, or another one in which ASCII characters are single bytes.

    Raises StorageError if the file cannot be read or is in UTF-16, UTF-32 or EBCDIC. Editors on
    Windows and binary transfers from a mainframe make such files.
    """
    raw = read_file(address, subject)
    name = _other_encoding(raw)
    if name:
        hint = f"Save it as UTF-8, for example with iconv -f {name} -t UTF-8"
        where = Where(source=str(address))
        raise StorageError(f"the {subject} is {name} text, not UTF-8", where=where, hint=hint)
    return raw


def read_source(address: Address, subject: str = "copybook") -> str:
    """Read a text file such as a copybook as UTF-8, or as Latin-1 if it is not UTF-8.

    Raises StorageError as ``read_text_file`` does; its text calls the file ``subject``.
    """
    raw = read_text_file(address, subject)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _other_encoding(raw: bytes) -> str:
    """Return the encoding of a text that is not based on ASCII (UTF-16, UTF-32 or EBCDIC), otherwise "".

    Examples: "UTF-16LE" and "IBM1047". EBCDIC is a guess from the frequency of its bytes.
    """
    for mark, name in _WIDE_MARKS:
        if raw.startswith(mark):
            return name
    if 0 in raw[:2]:
        return "UTF-16BE" if raw[:1] == b"\0" else "UTF-16LE"
    return "IBM1047" if _is_ebcdic(raw) else ""


def _is_ebcdic(raw: bytes) -> bool:
    """Return whether a text consists mostly of letters, digits and blanks of EBCDIC.

    Cyrillic or Japanese text without blanks has many of these bytes too, but also many others above
    ASCII: in Windows-1251, half of all letters.
    """
    words = len(raw) - len(raw.translate(None, _EBCDIC_WORDS))
    others = len(raw.translate(None, _EBCDIC_WORDS + _ASCII))
    return b" " not in raw and 2 * words > len(raw) and 4 * others < words and not _is_utf_8(raw)


def _is_utf_8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def read_if_exists(store: fs.FileSystem, path: str) -> bytes | None:
    """Read a complete file in a store, such as a manifest, or return None if it does not exist."""
    if store.get_file_info(path).type != fs.FileType.File:
        return None
    with store.open_input_file(path) as file:
        return bytes(file.read())


def read_definitions_file(address: Address) -> Definitions:
    """Read and parse the file of table definitions at an address. Raises StorageError or DefinitionError."""
    return read_sourcedefs(read_file(address), source=str(address))
