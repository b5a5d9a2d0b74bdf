"""Which codec a usage has: one row a kind of value, both directions, bound once a field."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from trailgate.cobol.copybook.layouts import Field, Usage
from trailgate.cobol.values.binary import decode_binary, encode_binary, explain_binary
from trailgate.cobol.values.codec import Decoder, Encoder, Explain, ValueCodec
from trailgate.cobol.values.edited import decode_edited, encode_edited, explain_edited
from trailgate.cobol.values.floats import decode_float, encode_float, explain_float
from trailgate.cobol.values.leading_zeros import from_text, keeps_zeros, with_zeros
from trailgate.cobol.values.options import ValueOptions
from trailgate.cobol.values.packed import (
    decode_packed,
    decode_unsigned_packed,
    encode_packed,
    encode_unsigned_packed,
    explain_packed,
)
from trailgate.cobol.values.raw import decode_raw, encode_raw, explain_raw
from trailgate.cobol.values.text import decode_text, encode_text, explain_text
from trailgate.cobol.values.zoned import decode_zoned, encode_zoned, explain_zoned
from trailgate.errors import DefinitionError, Where

_TEXT = ValueCodec(decode_text, encode_text, explain_text)
_BINARY = ValueCodec(decode_binary, encode_binary, explain_binary)
_FLOAT = ValueCodec(decode_float, encode_float, explain_float)

CODECS: Final[Mapping[Usage, ValueCodec]] = MappingProxyType(
    {
        Usage.TEXT: _TEXT,
        Usage.NATIONAL: _TEXT,
        Usage.DBCS: _TEXT,
        Usage.ZONED: ValueCodec(decode_zoned, encode_zoned, explain_zoned),
        Usage.EDITED: ValueCodec(decode_edited, encode_edited, explain_edited),
        Usage.PACKED: ValueCodec(decode_packed, encode_packed, explain_packed),
        Usage.UNSIGNED_PACKED: ValueCodec(
            decode_unsigned_packed, encode_unsigned_packed, explain_packed
        ),
        Usage.BINARY: _BINARY,
        Usage.NATIVE: _BINARY,
        Usage.FLOAT: _FLOAT,
        Usage.DOUBLE: _FLOAT,
        Usage.RAW: ValueCodec(decode_raw, encode_raw, explain_raw),
    }
)

OPTIONS: Final = ValueOptions()


def codec_of(field: Field) -> ValueCodec:
    """Return the codec of an elementary field; raises DefinitionError for a group."""
    codec = CODECS.get(field.usage)
    if codec is None:
        raise DefinitionError("a group is no value", where=Where(field=field.name))
    return codec


def decoder(field: Field, options: ValueOptions = OPTIONS) -> Decoder:
    """Return what turns a field's bytes, a row a record, into a column; see Decoded."""
    decode = codec_of(field).decoder(field, options)
    return with_zeros(field, decode) if keeps_zeros(field, options) else decode


def encoder(field: Field, options: ValueOptions = OPTIONS) -> Encoder:
    """Return what turns a column into a field's bytes; it raises EncodeError with the row."""
    encode = codec_of(field).encoder(field, options)
    return from_text(field, encode) if keeps_zeros(field, options) else encode


def explainer(field: Field, options: ValueOptions = OPTIONS) -> Explain:
    """Return what tells why bytes are no value of the field."""
    return codec_of(field).explainer(field, options)
