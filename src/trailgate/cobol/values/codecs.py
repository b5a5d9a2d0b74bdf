"""The table of value codecs: one row per usage, each with both directions.

``decoder``, ``encoder`` and ``explainer`` look up the codec of a field, and wrap it if the options
ask for numbers as text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Octets
from trailgate.cobol.copybook.layouts import CopybookField, Endian, NumberFormat, Usage
from trailgate.cobol.values.binary import decode_binary, decode_float, encode_binary, encode_float
from trailgate.cobol.values.codec import (
    CobolValueCodec,
    DecodedColumn,
    Decoder,
    Encoder,
    Explain,
    IntegerRepresentation,
    NumberRepresentation,
    ValueOptions,
    encode_error,
)
from trailgate.cobol.values.decimals import DECIMAL_DIGITS, number_of, text_of
from trailgate.cobol.values.edited import decode_edited, encode_edited
from trailgate.cobol.values.packed import decode_packed, encode_packed
from trailgate.cobol.values.printed_floats import decode_float_text, encode_float_text
from trailgate.cobol.values.reasons import (
    explain_binary,
    explain_bytes,
    explain_float_text,
    explain_number,
    explain_text,
)
from trailgate.cobol.values.text import decode_raw, decode_text, encode_raw, encode_text
from trailgate.cobol.values.zoned import decode_zoned, encode_zoned
from trailgate.columnar.numbers import parse_decimals
from trailgate.errors import DecodeError, DefinitionError, OptionError, Where

ASCII: Final = "iso8859-1"  # the code page of the low bytes of national characters


NO_DIGIT: Final = 0xFF


# National usages, and the usage of their low bytes alone.
_NARROW: Final = MappingProxyType(
    {
        Usage.NATIONAL_DIGITS: Usage.ZONED,
        Usage.NATIONAL_EDITED: Usage.EDITED,
        Usage.NATIONAL_FLOAT: Usage.FLOAT_TEXT,
    }
)


def _narrow(field: CopybookField) -> CopybookField:
    """Return the field of single bytes that remains if each national character is reduced to its low byte."""
    return replace(field, usage=_NARROW[field.usage], size=field.size // 2, code_page=ASCII)


def wrap_national(codec: CobolValueCodec) -> CobolValueCodec:
    """Wrap a codec of numbers in single bytes as that of numbers in national characters (UTF-16)."""

    def decode_national(field: CopybookField, options: ValueOptions) -> Decoder:
        decode = codec.decoder(_narrow(field), options)
        # The column of the first high byte: 1 in little-endian UTF-16, 0 in big-endian.
        first = options.national is Endian.LITTLE

        def decode_pairs(matrix: Octets) -> DecodedColumn:
            # If a high byte is not zero, the character is not ASCII, and NO_DIGIT makes the codec
            # refuse it.
            high, low = matrix[:, first::2], matrix[:, 1 - first :: 2]
            return decode(np.where(high == 0, low, NO_DIGIT).astype(np.uint8))

        return decode_pairs

    def encode_national(field: CopybookField, options: ValueOptions) -> Encoder:
        encode = codec.encoder(_narrow(field), options)

        def encode_pairs(values: pa.Array) -> Octets:
            narrow = encode(values)
            wide = np.zeros((len(narrow), field.size), np.uint8)
            wide[:, options.national is Endian.BIG :: 2] = narrow
            return wide

        return encode_pairs

    return CobolValueCodec(decode_national, encode_national, codec.explainer)


_TEXT = CobolValueCodec(decode_text, encode_text, explain_text)
_ZONED = CobolValueCodec(decode_zoned, encode_zoned, explain_number)
_EDITED = CobolValueCodec(decode_edited, encode_edited, explain_number)
_PRINTED_FLOAT = CobolValueCodec(decode_float_text, encode_float_text, explain_float_text)
_PACKED = CobolValueCodec(decode_packed, encode_packed, explain_number)
_BINARY = CobolValueCodec(decode_binary, encode_binary, explain_binary)
_FLOAT = CobolValueCodec(decode_float, encode_float, explain_bytes)

CODECS: Final[Mapping[Usage, CobolValueCodec]] = MappingProxyType(
    {
        Usage.TEXT: _TEXT,
        Usage.NATIONAL: _TEXT,
        Usage.UTF8: _TEXT,
        Usage.DBCS: _TEXT,
        Usage.ZONED: _ZONED,
        Usage.EDITED: _EDITED,
        Usage.NATIONAL_EDITED: wrap_national(_EDITED),
        Usage.PACKED: _PACKED,
        Usage.UNSIGNED_PACKED: _PACKED,
        Usage.BINARY: _BINARY,
        Usage.NATIVE: _BINARY,
        Usage.SHORT: _BINARY,
        Usage.NATIVE_SHORT: _BINARY,
        Usage.LITTLE: _BINARY,
        Usage.NATIONAL_DIGITS: wrap_national(_ZONED),
        Usage.FLOAT_TEXT: _PRINTED_FLOAT,
        Usage.NATIONAL_FLOAT: wrap_national(_PRINTED_FLOAT),
        Usage.FLOAT: _FLOAT,
        Usage.DOUBLE: _FLOAT,
        Usage.RAW: CobolValueCodec(decode_raw, encode_raw, explain_bytes),
    }
)

OPTIONS: Final = ValueOptions()
# Integers of these usages can be read as text with leading zeros, such as account numbers.
_DECIMAL: Final = (Usage.ZONED, Usage.NATIONAL_DIGITS, Usage.PACKED, Usage.UNSIGNED_PACKED)


def codec_of(field: CopybookField) -> CobolValueCodec:
    """Return the value codec of an elementary field. Raises DefinitionError for a group."""
    codec = CODECS.get(field.usage)
    if codec is None:
        raise DefinitionError("a group is not a value", where=Where(field=field.name))
    return codec


def decoder(field: CopybookField, options: ValueOptions = OPTIONS) -> Decoder:
    """Return the decoder of a field's codec, which decodes a byte matrix (one row per record) into a column.

    See ``DecodedColumn``.
    """
    if _is_text(field, options):
        as_decimal = replace(options, integers=IntegerRepresentation.DECIMAL)
        return _as_text(number_of(field), codec_of(field).decoder(field, as_decimal))
    decode = codec_of(field).decoder(field, options)
    return _with_zeros(field, decode) if _keeps_zeros(field, options) else decode


def encoder(field: CopybookField, options: ValueOptions = OPTIONS) -> Encoder:
    """Return the encoder of a field's codec, which encodes a column into the field's bytes. It raises EncodeError with the row."""
    encode = codec_of(field).encoder(field, options)
    text = _is_text(field, options) or _keeps_zeros(field, options)
    return _from_text(field, encode) if text else encode


def explainer(field: CopybookField, options: ValueOptions = OPTIONS) -> Explain:
    """Return the explainer of a field's codec, which explains why bytes are not a value of the field."""
    return codec_of(field).explainer(field, options)


def _is_text(field: CopybookField, options: ValueOptions) -> bool:
    """Return True if the option ``numbers=text`` makes this field a text column.

    Raises OptionError if it is combined with ``integers``.
    """
    if options.numbers is NumberRepresentation.VALUE:
        return False
    if options.integers is not IntegerRepresentation.INT64:
        problem = f"integers={options.integers.value} and numbers=text are both given"
        raise OptionError(problem, hint="Omit one of them: numbers=text applies to all numbers")
    return field.number is not None


def _as_text(number: NumberFormat, decode: Decoder) -> Decoder:
    """Wrap a decoder of numbers so that it returns text such as ``-00123.45``."""

    def decode_text(matrix: Octets) -> DecodedColumn:
        decoded = decode(matrix)
        return decoded._replace(values=text_of(decoded.values, number))

    return decode_text


def _keeps_zeros(field: CopybookField, options: ValueOptions) -> bool:
    """Return True if the option ``integers=text`` makes this field a text column.

    It applies to unsigned decimal fields without a scale.
    """
    number = field.number
    if number is None or number.signed or number.scale or field.usage not in _DECIMAL:
        return False
    return options.integers is IntegerRepresentation.TEXT


def _with_zeros(field: CopybookField, decode: Decoder) -> Decoder:
    """Wrap a decoder of integers so that it returns text with leading zeros: ``00123``."""
    digits = field.number.digits if field.number else 0

    def decode_text(matrix: Octets) -> DecodedColumn:
        decoded = decode(matrix)
        text = pc.utf8_lpad(pc.cast(decoded.values, pa.string()), digits, "0")
        return decoded._replace(values=text)

    return decode_text


def _from_text(field: CopybookField, encode: Encoder) -> Encoder:
    """Wrap an encoder so that it also accepts numbers as text. Other text raises EncodeError."""
    scale = max(field.number.scale, 0) if field.number else 0
    kind = pa.decimal128(DECIMAL_DIGITS, scale)

    def encode_text(values: pa.Array) -> Octets:
        if not pa.types.is_string(values.type):
            return encode(values)
        try:
            numbers = parse_decimals(values, kind)
        except DecodeError as error:
            row = error.where.record or 0
            problem = (
                f"text that is not a number of up to {kind.precision - scale} digits and {scale} decimal "
                f"places in a {field.usage.value} field"
            )
            raise encode_error(problem, row, values[row].as_py()) from None
        return encode(numbers)

    return encode_text
