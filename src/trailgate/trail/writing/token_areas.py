"""The token areas of many records at once: GGS tokens (T), and user tokens after them (U).

LOGCSN and TRANID are on a transaction's first record alone; what an operation's tokens map holds is on each of its
images, as printed ROWIDs are (trail format §8, §9 and §14).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trailgate.arrays import Longs, Mask, Octets
from trailgate.trail.format.byte_order import ByteOrder
from trailgate.trail.format.tokens import FRAME, GGS_TOKENS, LOGCSN, TRANID, USER_TOKENS
from trailgate.trail.values.cell_writers import TextBytes
from trailgate.trail.writing.operation_tokens import check_size
from trailgate.trail.writing.record_groups import RecordGroup
from trailgate.trail.writing.token_kernels import (
    add_token_sizes,
    write_area_frames,
    write_tokens,
)


class _CarriedToken(NamedTuple):
    """A token whose value is a column of the operations, on the records that show it."""

    code: int
    shown: Mask
    texts: TextBytes


class TokenAreas:
    """Writes the token areas of a group's records; ``sizes`` are their bytes with frames."""

    def __init__(self, group: RecordGroup) -> None:
        block, self.group = group.block, group
        self.ggs_sizes, self.user_sizes = np.zeros((2, len(group.rows)), np.int64)
        if group.tokens is not None:
            group.tokens.measure(group.rows, self.ggs_sizes, self.user_sizes)
        self.carried = []
        for code, values in ((LOGCSN, block.csn), (TRANID, block.tx_id)):
            shown = group.first
            if values.null_count:
                shown = shown & values.is_valid().to_numpy(zero_copy_only=False)[group.rows]
            token = _CarriedToken(code, shown, TextBytes.of(values))
            add_token_sizes(group.rows, token.shown, token.texts.offsets, self.ggs_sizes)
            self.carried.append(token)
        check_size(block, self.ggs_sizes)
        # trail format §2: a record without tokens has no T.
        frames = FRAME * ((self.ggs_sizes > 0) + np.int64(1) * (self.user_sizes > 0))
        self.sizes = self.ggs_sizes + self.user_sizes + frames

    def write(self, body: Octets, places: Longs) -> None:
        """Write T and U where a record has such tokens; each place becomes the end of the areas."""
        rows, tokens = self.group.rows, self.group.tokens
        big = self.group.reference.order is ByteOrder.BIG
        write_area_frames(body, places, GGS_TOKENS, self.ggs_sizes, big)
        if tokens is not None:
            tokens.write_ggs(body, places, rows)
        for code, shown, texts in self.carried:
            write_tokens(body, places, rows, shown, code, texts.offsets, texts.data, big)
        if tokens is not None:
            write_area_frames(body, places, USER_TOKENS, self.user_sizes, big)
            tokens.write_user(body, places, rows)
