"""The character sets of databases: find the character set of a column's strings, and decode and encode them.

Character sets have many names: Oracle's (WE8ISO8859P1), IANA's (ISO-8859-1) and Python's
(iso8859-1). `find_charset` accepts all of them.
"""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from trailgate.columnar.code_pages import code_page, decode_column
from trailgate.columnar.rows import mask_as_null
from trailgate.errors import DecodeError, EncodeError, OptionError, Where
from trailgate.model.tables import Column
from trailgate.model.types import INTERVAL_TYPES, UTF_8_SUB_TYPES, UTF_16_SUB_TYPE

UTF_8: Final = "utf-8"
UTF_16: Final = "utf-16-be"
# Assumed: the number of UTF-16BE. A header has it as DbNCharset (trail format §4.3) if Logdump prints UTF-16BE for the
# database's national character set.
UTF_16_NUMBER: Final = 1
NATIONAL_TYPES: Final = frozenset({2, 66})  # NCHAR, NVARCHAR (capture properties §9.3)


class DatabaseCharset(NamedTuple):
    """One character set of databases: its Python codec, and its names in databases and standards."""

    codec: str
    names: tuple[str, ...]


# IANA's and Oracle's names. ``find_charset`` accepts Python's aliases as well.
ROWS: Final = (
    DatabaseCharset(UTF_8, ("UTF-8", "UTF8", "AL32UTF8")),
    DatabaseCharset(UTF_16, ("UTF-16", "UTF-16BE", "AL16UTF16")),
    DatabaseCharset("utf-16-le", ("UTF-16LE", "AL16UTF16LE")),
    DatabaseCharset("ascii", ("US-ASCII", "ASCII", "US7ASCII")),
    DatabaseCharset("iso8859-1", ("ISO-8859-1", "WE8ISO8859P1")),
    DatabaseCharset("iso8859-2", ("ISO-8859-2", "EE8ISO8859P2")),
    DatabaseCharset("iso8859-5", ("ISO-8859-5", "CL8ISO8859P5")),
    DatabaseCharset("iso8859-7", ("ISO-8859-7", "EL8ISO8859P7")),
    DatabaseCharset("iso8859-9", ("ISO-8859-9", "WE8ISO8859P9")),
    DatabaseCharset("iso8859-15", ("ISO-8859-15", "WE8ISO8859P15")),
    DatabaseCharset("cp1250", ("windows-1250", "EE8MSWIN1250")),
    DatabaseCharset("cp1251", ("windows-1251", "CL8MSWIN1251")),
    DatabaseCharset("cp1252", ("windows-1252", "WE8MSWIN1252")),
    DatabaseCharset("cp1253", ("windows-1253", "EL8MSWIN1253")),
    DatabaseCharset("cp1254", ("windows-1254", "TR8MSWIN1254")),
    DatabaseCharset("cp1255", ("windows-1255", "IW8MSWIN1255")),
    DatabaseCharset("cp1256", ("windows-1256", "AR8MSWIN1256")),
    DatabaseCharset("cp1257", ("windows-1257", "BLT8MSWIN1257")),
    DatabaseCharset("cp437", ("IBM437", "US8PC437")),
    DatabaseCharset("cp850", ("IBM850", "WE8PC850")),
    DatabaseCharset("koi8-r", ("KOI8-R", "CL8KOI8R")),
    DatabaseCharset("cp037", ("IBM037", "WE8EBCDIC37")),
    DatabaseCharset("cp500", ("IBM500", "WE8EBCDIC500")),
    DatabaseCharset("cp1140", ("IBM1140", "WE8EBCDIC1140")),
    DatabaseCharset("cp932", ("Shift_JIS", "windows-31j", "JA16SJIS", "JA16SJISTILDE")),
    DatabaseCharset("euc_jp", ("EUC-JP", "JA16EUC")),
    DatabaseCharset("gb2312", ("GB2312", "ZHS16CGB231280")),
    DatabaseCharset("gbk", ("GBK", "ZHS16GBK")),
    DatabaseCharset("gb18030", ("GB18030", "ZHS32GB18030")),
    DatabaseCharset("big5", ("Big5", "ZHT16BIG5")),
    DatabaseCharset("cp950", ("windows-950", "ZHT16MSWIN950")),
    DatabaseCharset("big5hkscs", ("Big5-HKSCS", "ZHT16HKSCS")),
    DatabaseCharset("euc_kr", ("EUC-KR", "KO16KSC5601")),
    DatabaseCharset("cp949", ("windows-949", "KO16MSWIN949")),
)
# By Python's name of the character set.
CHARSETS: Final[Mapping[str, DatabaseCharset]] = MappingProxyType({row.codec: row for row in ROWS})
_BY_NAME: Final[Mapping[str, str]] = MappingProxyType(
    {name.casefold(): row.codec for row in ROWS for name in row.names}
)


def find_charset(name: str) -> str:
    """Return Python's codec for a trail's character set, by Oracle's, IANA's or Python's name.

    Raises OptionError if the name is unknown.
    """
    codec = _BY_NAME.get(name.strip().casefold())
    if codec is not None:
        return codec
    try:
        canonical = codecs.lookup(name).name
    except (LookupError, ValueError):
        canonical = ""
    for row in ROWS:
        if canonical == codecs.lookup(row.codec).name:
            return row.codec
    raise OptionError(
        f"the character set {name!r} is not known",
        hint="Known: " + ", ".join(row.names[0] for row in ROWS),
    )


def column_charset(column: Column, usual: str) -> str | None:
    """Return the character set of a column's values, or None if it is unknown.

    The definition of a column can state it, for example by a sub type (capture properties §9.4).
    Otherwise it is ``usual``, the character set of the source. It is unknown for a national type
    such as NCHAR whose definition does not state it.
    """
    if column.sub_type == UTF_16_SUB_TYPE or column.character_set == UTF_16_NUMBER:
        return UTF_16
    if column.sub_type in UTF_8_SUB_TYPES or column.data_type in INTERVAL_TYPES:
        return UTF_8
    return None if column.data_type in NATIONAL_TYPES else usual


def decode_strings(values: pa.BinaryArray, charset: str) -> pa.StringArray:
    """Decode trail strings from a character set. Null stays null.

    Raises DecodeError, with the row in ``where.record``, if bytes are not valid in the character set.
    """
    decoded = decode_column(code_page(charset), values)
    if decoded.bad is not None and decoded.bad.any():
        row = int(np.argmax(decoded.bad))
        where = Where(record=row, raw=values[row].as_py())
        raise DecodeError(f"text is not {charset}", where=where)
    return decoded.values


def encode_strings(values: pa.StringArray, charset: str) -> pa.BinaryArray:
    """Encode strings in a trail's character set.

    Null stays null. Raises EncodeError for a character that the character set does not have.
    """
    try:
        raw = code_page(charset).encode(values.fill_null(""))
    except EncodeError as error:
        text = values[error.where.record or 0].as_py()
        problem = f"{text!r} has characters that {charset} does not have"
        raise EncodeError(problem, where=Where(raw=text.encode())) from None
    return mask_as_null(raw, values.is_null().to_numpy(zero_copy_only=False))
