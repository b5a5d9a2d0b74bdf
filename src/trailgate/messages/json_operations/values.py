"""Values of columns in GoldenGate's JSON messages."""

from __future__ import annotations

import pyarrow as pa

from trailgate.columnar.hexadecimal import to_hex
from trailgate.columnar.rows import row_error
from trailgate.messages.json_text.base64_text import from_base64
from trailgate.messages.json_text.images import Converted, ConvertValues, Values
from trailgate.model.tables import Column
from trailgate.model.types import Family
from trailgate.operations.values import parser_for

_BINARY_HINT = "Set json.binary to hex or base64"


def converter_for(column: Column, binary: str) -> ConvertValues:
    """Return what makes values of a column from members; ``binary`` is how bytes are written.

    Numbers are taken from their digits, true and false from their letters; an object or array is a value of text columns alone.
    """
    parse = parser_for(column)
    is_text, is_bytes = column.family is Family.TEXT, column.family is Family.BYTES

    def convert(values: Values) -> Converted:
        if values.nested and not is_text:
            values.refuse_nested()
        texts = values.texts
        if is_bytes and texts.null_count < len(texts):
            texts = _bytes(texts, binary)
        return Converted(parse(texts))

    return convert


def _bytes(texts: pa.Array, binary: str) -> pa.Array:
    if not binary:
        row = int(texts.is_valid().index(True).as_py())
        raise row_error("it is not known how bytes are written", texts, row, _BINARY_HINT)
    return texts if binary == "hex" else to_hex(from_base64(texts))
