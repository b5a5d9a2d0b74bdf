"""Encode the token maps of operations as the tokens of trail records.

Names of GGS tokens become GGS tokens, all other names user tokens.

For example ``{"ORAROWID": "AAAR3sAAEAAAACXAAA", "JOB": "nightly"}`` is one GGS token and one user
token. LOGCSN and TRANID in a map are skipped, because they are written from the columns ``csn`` and
``tx_id``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.hex_digits import from_hex
from trailgate.columnar.strings import StringBytes
from trailgate.errors import DecodeError, EncodeError, Where
from trailgate.model.changes import RECORD_LENGTH, ChangeBlock
from trailgate.trail.format.tokens import (
    DDL,
    GGS_TOKEN_ROWS,
    MAX_LENGTH,
    ORAROWID,
    ORATAG,
    ByteOrder,
    encode_user_tokens,
    token_name,
)
from trailgate.trail.writing.kernels import (
    CARRIED_TOKEN,
    LENGTH_TOKEN,
    USER_TOKEN,
    add_entry_sizes,
    write_entries,
    write_user_entries,
)

ROWID_TAIL: Final = b"\0\1"  # of unknown meaning, the same in both byte orders (trail format §9)
# Oracle's extended ROWID: six characters for the object, three for the file, six for the block, three for the row.
ROWID_CHARACTERS: Final = 18
EMPTY_TAG_INFO: Final = 1  # info of an empty ORATAG (trail format §2)
FROM_COLUMNS: Final = frozenset({"LOGCSN", "TRANID"})  # written from csn and tx_id
UNNAMED: Final = re.compile(r"x([0-9a-f]{2})")  # how the reader names an id that is not public


# What each name of a token means: its id, or that its value comes from a column.
CODES: Final[Mapping[str, int]] = MappingProxyType(
    {row.name: CARRIED_TOKEN if row.name in FROM_COLUMNS else row.code for row in GGS_TOKEN_ROWS}
)


class _Entries(NamedTuple):
    """The entries of a column of token maps: the entries of row i are ``starts[i]`` to ``starts[i + 1] - 1``."""

    starts: Longs
    names: pa.Array
    values: pa.Array

    @classmethod
    def of(cls, tokens: pa.MapArray) -> _Entries:
        offsets = tokens.offsets.to_numpy().astype(np.int64)
        begin, end = int(offsets[0]), int(offsets[-1])
        names, values = (part.slice(begin, end - begin) for part in (tokens.keys, tokens.items))
        return cls(offsets - begin, names, values)


def select_written_tokens(tokens: pa.MapArray | None) -> pa.MapArray | None:
    """Return the map column of tokens, or None if there is none or it only has LOGCSN and TRANID."""
    if tokens is None:
        return None
    names = set(pc.unique(_Entries.of(tokens).names).to_pylist())
    return tokens if names - FROM_COLUMNS else None


class OperationTokens:
    """The encoded tokens of a block's token maps. Raises EncodeError if an entry cannot be a token."""

    def __init__(self, block: ChangeBlock, order: ByteOrder) -> None:
        self.table, self.big = block.table.name, order is ByteOrder.BIG
        self.entries = entries = _Entries.of(block.tokens)
        names = entries.names.dictionary_encode()
        # Token names repeat in every row, so each distinct name is looked up once.
        codes = np.array([_code(name) for name in names.dictionary.to_pylist()], np.int64)
        self.codes = codes[names.indices.to_numpy()] if len(entries.names) else codes
        self.codes = codes = np.where(_is_length(self.codes, entries), LENGTH_TOKEN, self.codes)
        self.names = StringBytes.of(entries.names)
        values = _payloads(block, self.codes, entries)
        self.infos = np.zeros(len(values), np.uint8)
        empty_tags = (self.codes == ORATAG) & (pc.binary_length(values).to_numpy() == 0)
        self.infos[empty_tags] = EMPTY_TAG_INFO
        self.values = StringBytes.of(values)

    def measure(self, rows: Longs, lengths: Longs, ggs_sizes: Longs, user_sizes: Longs) -> None:
        """Add the sizes of each record's GGS and user tokens to the two arrays of sizes.

        ``rows`` has the operation of each record, and ``lengths`` the length of its data.
        """
        bad = add_entry_sizes(
            rows,
            self.entries.starts,
            self.codes,
            self.names.offsets,
            self.names.data,
            self.values.offsets,
            self.values.data,
            lengths,
            ggs_sizes,
            user_sizes,
        )
        if bad >= 0:
            self._refuse(int(rows[bad]), int(lengths[bad]))

    def write_ggs(self, body: Octets, places: Longs, rows: Longs) -> None:
        """Write the GGS tokens in the token map of each record's operation.

        ``places`` are their offsets; they are advanced to the ends of the tokens.
        """
        write_entries(
            body,
            places,
            rows,
            self.entries.starts,
            self.codes,
            self.infos,
            self.values.offsets,
            self.values.data,
            self.big,
        )

    def write_user(self, body: Octets, places: Longs, rows: Longs, lengths: Longs) -> None:
        """Write the user tokens in the token map of each record's operation.

        ``places`` are their offsets; they are advanced to the ends of the tokens.
        """
        write_user_entries(
            body,
            places,
            rows,
            self.entries.starts,
            self.codes,
            self.names.offsets,
            self.names.data,
            self.values.offsets,
            self.values.data,
            lengths,
        )

    def _refuse(self, row: int, length: int) -> None:
        """Raise EncodeError about the user tokens of the operation at ``row``, whose data have ``length`` bytes."""
        starts, names, values = self.entries
        pairs = []
        for entry in range(int(starts[row]), int(starts[row + 1])):
            if self.codes[entry] == USER_TOKEN:
                pairs.append((names[entry].as_py(), values[entry].as_py()))
            elif self.codes[entry] == LENGTH_TOKEN:
                pairs.append((names[entry].as_py(), str(length)))
        try:
            encode_user_tokens(pairs)
        except EncodeError as error:
            raise error.with_place(table=self.table) from None


def _code(name: str) -> int:
    """Return the id of the GGS token with this name, ``CARRIED_TOKEN`` for LOGCSN and TRANID, or ``USER_TOKEN``."""
    if name in CODES:
        return CODES[name]
    unnamed = UNNAMED.fullmatch(name)
    if unnamed is None:
        return USER_TOKEN
    code = int(unnamed[1], 16)
    known = next((row.name for row in GGS_TOKEN_ROWS if row.code == code), None)
    if known is not None:
        raise EncodeError(f"the token {name} is {known}", where=Where(field=name))
    return code


def _is_length(codes: Longs, entries: _Entries) -> Mask:
    """Return a mask of the user tokens whose value is the length of their record's data."""
    same = pc.equal(entries.values, RECORD_LENGTH).fill_null(False)
    is_length: Mask = same.to_numpy(zero_copy_only=False) & (codes == USER_TOKEN)
    return is_length


def _payloads(block: ChangeBlock, codes: Longs, entries: _Entries) -> pa.Array:
    """Return the payload of each token in a block's token maps."""
    rows_by_code, parts = [], []
    for code in sorted(np.unique(codes).tolist(), key=lambda code: code < 0):
        at = np.flatnonzero(codes == code)
        index = pa.array(at)
        chosen = entries.names.take(index), entries.values.take(index)
        rows_by_code.append(at)
        parts.append(_payloads_of(block, code, *chosen))
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return pa.array([], pa.binary())
    # The parts are in the order of codes. argsort of the rows is the inverse of that order, and
    # brings the payloads back into the order of entries.
    return pa.concat_arrays(parts).take(pa.array(np.argsort(np.concatenate(rows_by_code))))


def _payloads_of(block: ChangeBlock, code: int, names: pa.Array, values: pa.Array) -> pa.Array:
    if code == CARRIED_TOKEN:
        return _text(values.fill_null(""))
    if values.null_count:
        name = names.filter(values.is_null())[0].as_py()
        raise EncodeError("a token has no value", where=Where(table=block.table.name, field=name))
    try:
        payloads = _PAYLOADS.get(code, from_hex)(values)
    except (DecodeError, EncodeError) as error:
        where = Where(table=block.table.name, field=token_name(code), raw=error.where.raw)
        raise EncodeError(error.problem, where=where) from None
    check_size(block, pc.binary_length(payloads).to_numpy())
    return payloads


def _text(values: pa.Array) -> pa.Array:
    return values.view(pa.binary())


def _nothing(values: pa.Array) -> pa.Array:
    return pa.repeat(pa.scalar(b"", pa.binary()), len(values))


def _rowid(values: pa.Array) -> pa.Array:
    raw = values.view(pa.binary())
    good = pc.equal(pc.binary_length(raw), ROWID_CHARACTERS)
    if not pc.all(good).as_py():
        bad = raw.filter(pc.invert(good))[0].as_py()
        problem = f"a ROWID has {ROWID_CHARACTERS} characters, not {len(bad)}"
        raise EncodeError(problem, where=Where(raw=bad))
    return pc.binary_join_element_wise(
        raw, pa.scalar(ROWID_TAIL, pa.binary()), pa.scalar(b"", pa.binary())
    )


# How values become payloads; values of other ids are hexadecimal digits.
_PAYLOADS: Final[Mapping[int, Callable[[pa.Array], pa.Array]]] = MappingProxyType(
    {ORAROWID: _rowid, ORATAG: from_hex, DDL: _text, USER_TOKEN: _text, LENGTH_TOKEN: _nothing}
)


def check_size(block: ChangeBlock, sizes: Longs) -> None:
    """Raise EncodeError if the tokens of a record are too long for a u16 length."""
    if len(sizes) and sizes.max() > MAX_LENGTH:
        problem = f"{sizes.max()} bytes of tokens do not fit in a record"
        raise EncodeError(problem, where=Where(table=block.table.name))
