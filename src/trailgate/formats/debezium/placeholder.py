"""Find the value that Debezium writes for a column that was not logged (`unavailable.value.placeholder`).

A connector writes the placeholder in the type of the column. The forms of the placeholder `none`:

    text                "none"
    bytes               by binary.handling.mode: "bm9uZQ==" or "6e6f6e65"
    arrays of text      ["none"]
    arrays of bytes     ["bm9uZQ=="]
    arrays of uuid      the UUID of its MD5 hash
    arrays of numbers   its bytes: [110, 111, 110, 101]
    hstore              {"none": "none"}, or that object as text (hstore.handling.mode=json)
    geometry            a point far outside of all coordinates
"""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64encode
from collections.abc import Iterable
from typing import Final
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Mask
from trailgate.columnar.hex_digits import to_hex
from trailgate.columnar.strings import text_view
from trailgate.formats.json.images import JsonValues
from trailgate.formats.json.scanner import CONTAINERS
from trailgate.formats.json.scanner_kernels import OBJECT, STRING
from trailgate.model.types import TypeFamily

# An encoded placeholder shorter than this may be a normal value of a text column: "0" is "30" in hex.
_UNMISTAKABLE: Final = 12
# The points that stand for missing geometries, in well-known binary: POINT(-99999999 -99999999) and
# POINT(179.999999 89.999999) with the SRID 4326 (geometry, geography), and the first one without an
# SRID (point).
_POINTS: Final = (
    "0101000020E6100000000000FC83D797C1000000FC83D797C1",
    "0101000020E61000000C21E7FDFF7F66401842CEFBFF7F5640",
    "0101000000000000FC83D797C1000000FC83D797C1",
)
_BLANKS: Final = r"[ \t\r\n]+"  # between the tokens of JSON

_POINT_PATTERN: Final = '"wkb":"({})"'.format(
    "|".join(b64encode(bytes.fromhex(point)).decode().replace("+", r"\+") for point in _POINTS)
)


def _encodings(raw: bytes) -> dict[str, list[str]]:
    """Return the encoded forms of Debezium's placeholder as bytes, by `binary.handling.mode`."""
    base64 = b64encode(raw).decode()
    digits: str = to_hex(pa.array([raw], pa.binary()))[0].as_py()
    return {
        "bytes": [base64],
        "base64": [base64],
        "base64-url-safe": [base64.replace("+", "-").replace("/", "_")],
        "hex": [digits.lower(), digits],
    }


class PlaceholderFinder:
    """Finds Debezium's placeholder among the values of one column. These values were not logged.

    `raw` is the placeholder's bytes, `family` the column's type family. `schema_type` is the
    column's type in the event's schema ("" without a schema), and `binary` the
    `binary.handling.mode` if it is known. Both limit the forms in which bytes may be written.
    """

    def __init__(self, raw: bytes, family: TypeFamily, schema_type: str, binary: str) -> None:
        plain = raw.decode(errors="replace")
        encodings = _encodings(raw)
        every = list(dict.fromkeys(form for forms in encodings.values() for form in forms))
        if schema_type == "bytes":
            encoded = encodings["bytes"]
        elif binary:
            encoded = encodings[binary]
        elif family is TypeFamily.BYTES or len(raw) >= _UNMISTAKABLE:
            encoded = every
        else:
            encoded = []
        self._strings = pa.array([plain, *encoded, *_map_strings(plain)], pa.string())
        self._lengths = np.unique(pc.binary_length(self._strings))  # ascending
        self._nested = pa.array(_nested_forms(raw, [plain, *every]), pa.string())

    def find(self, values: JsonValues) -> Mask | None:
        """Return a mask of the values that are Debezium's placeholder, or None if there are none."""
        strings = self._find_strings(values)
        nested = self._find_nested(values) if values.nested else None
        if strings is None or nested is None:
            return nested if strings is None else strings
        return strings | nested

    def _find_strings(self, values: JsonValues) -> Mask | None:
        # Most columns have no value as long as a placeholder: then only lengths are compared.
        sizes = np.diff(text_view(values.strings)[0])
        if sizes.max(initial=0) < self._lengths[0] or not np.isin(sizes, self._lengths).any():
            return None
        matches = pc.is_in(values.strings, self._strings)
        if not pc.any(matches).as_py():
            return None
        mask: Mask = np.asarray(matches) & (values.kinds == STRING)
        return mask if mask.any() else None

    def _find_nested(self, values: JsonValues) -> Mask | None:
        kinds = values.kinds
        nested = np.isin(kinds, CONTAINERS)
        if not nested.any():
            return None
        containers = pc.if_else(pa.array(nested), values.strings, pa.scalar(None, pa.string()))
        # Connectors differ in the blanks of JSON text, so none are compared.
        compact = pc.replace_substring_regex(containers, _BLANKS, "")
        mask: Mask = np.asarray(pc.is_in(compact, self._nested, skip_nulls=True))
        objects = kinds == OBJECT
        if objects.any():
            points = pc.match_substring_regex(compact, _POINT_PATTERN).fill_null(False)
            mask |= objects & np.asarray(points)
        return mask if mask.any() else None


def _map_strings(plain: str) -> list[str]:
    """Return the placeholder's forms for an hstore column that is written as JSON text."""
    pairs = {plain: plain}
    return [_compact(pairs), json.dumps(pairs, ensure_ascii=False)]


def _nested_forms(raw: bytes, strings: Iterable[str]) -> list[str]:
    """Return the placeholder's forms for columns of arrays and maps, as JSON text without blanks.

    A map is an object, or an array of pairs if Connect's converter does not write its keys as
    member names.
    """
    plain = raw.decode(errors="replace")
    uuid = str(UUID(bytes=hashlib.md5(raw, usedforsecurity=False).digest(), version=3))
    numbers = np.frombuffer(raw, np.int8).tolist()  # Java's bytes have a sign
    values: list[object] = [[text] for text in strings]
    values += [[uuid], numbers, {plain: plain}, [[plain, plain]]]
    forms = [_compact(value) for value in values]
    forms += [json.dumps(value, separators=(",", ":")) for value in values]
    return [re.sub(_BLANKS, "", form) for form in dict.fromkeys(forms)]


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
