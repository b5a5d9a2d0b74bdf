"""Write the records of a group: first compute the size of each, then write all of them at their offsets in the body.

A record is written part by part, and each part for all records at once: head, before image, image,
tokens, trailer. The token areas are GGS tokens (T), then user tokens (U). LOGCSN and TRANID are
only in a transaction's first record. The tokens of an operation are written to the record of each
of its images, as in printed examples with ROWID tokens (trail format §8, §9 and §14).
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from trailgate.arrays import Longs, Mask, Octets, octets
from trailgate.columnar.strings import StringBytes
from trailgate.columnar.word_kernels import SPARE
from trailgate.model.changes import Image
from trailgate.trail.format.header_fields import JULIAN_EPOCH
from trailgate.trail.format.record_header import FROM_LOG, H_FIXED, INDICATOR, RECORD_HEADS
from trailgate.trail.format.record_types import ImagePrefix
from trailgate.trail.format.tokens import (
    FRAME,
    GGS_TOKENS,
    HEADER,
    LOGCSN,
    RECORD,
    RECORD_INFO,
    TRANID,
    USER_TOKENS,
    ByteOrder,
)
from trailgate.trail.records.record import NO_NODE
from trailgate.trail.values.codec import CellTarget, CellWriter, RecordValues
from trailgate.trail.values.codec_table import explain_unreadable, select_codecs
from trailgate.trail.writing.kernels import (
    add_token_sizes,
    write_area_frames,
    write_heads,
    write_lengths,
    write_tokens,
    write_trailers,
)
from trailgate.trail.writing.record_groups import RecordImages, TrailRecordGroup
from trailgate.trail.writing.token_maps import check_size

# Assumed: AuditPos and AuditRBA are 0 for a source without a redo log, as in DDL records of MySQL
# (trail format §5.2).
AUDIT_POS: Final = 0
AUDIT_RBA: Final = 0


class _CarriedToken(NamedTuple):
    """A token (LOGCSN or TRANID) whose text is in a column of the operations, not in their token maps.

    ``shown`` marks the records that get the token: the first of each transaction.
    """

    code: int
    shown: Mask
    strings: StringBytes


class TokenAreas:
    """Writes the token areas (T and U) of a group's trail records.

    ``sizes`` are the sizes of the areas with their frames, ``ggs_sizes`` and ``user_sizes`` those
    of the tokens in T and U without frames.

    ``lengths`` are the lengths of the records' data, which RECORDLENGTH tokens contain.
    """

    def __init__(self, group: TrailRecordGroup, lengths: Longs) -> None:
        block, self.group, self.lengths = group.block, group, lengths
        self.ggs_sizes, self.user_sizes = np.zeros((2, len(group.rows)), np.int64)
        if group.tokens is not None:
            group.tokens.measure(group.rows, lengths, self.ggs_sizes, self.user_sizes)
        self.carried = []
        for code, values in ((LOGCSN, block.csn), (TRANID, block.tx_id)):
            shown = group.first
            if values.null_count:
                shown = shown & values.is_valid().to_numpy(zero_copy_only=False)[group.rows]
            token = _CarriedToken(code, shown, StringBytes.of(values))
            add_token_sizes(group.rows, token.shown, token.strings.offsets, self.ggs_sizes)
            self.carried.append(token)
        check_size(block, self.ggs_sizes)
        # trail format §2: a record without tokens has no T.
        frames = FRAME * ((self.ggs_sizes > 0) + np.int64(1) * (self.user_sizes > 0))
        self.sizes = self.ggs_sizes + self.user_sizes + frames

    def write(self, body: Octets, places: Longs) -> None:
        """Write the token areas T and U of the records that have such tokens.

        ``places`` are their offsets; they are advanced to the ends of the areas.
        """
        rows, tokens = self.group.rows, self.group.tokens
        big = self.group.reference.order is ByteOrder.BIG
        write_area_frames(body, places, GGS_TOKENS, self.ggs_sizes, big)
        if tokens is not None:
            tokens.write_ggs(body, places, rows)
        for code, shown, strings in self.carried:
            write_tokens(body, places, rows, shown, code, strings.offsets, strings.data, big)
        if tokens is not None:
            write_area_frames(body, places, USER_TOKENS, self.user_sizes, big)
            tokens.write_user(body, places, rows, self.lengths)


class ImageWriter:
    """Writes one image of a group's records. ``sizes`` are the sizes of the images."""

    def __init__(self, group: TrailRecordGroup, image: Image) -> None:
        self.sizes = np.zeros(len(group.rows), np.int64)
        self.cells: list[CellWriter] = []
        for index, column in enumerate(image):
            if column.values is not None:
                cells = _cell_writer(
                    group, index, RecordValues(column.values, group.rows, column.missing)
                )
                cells.measure(self.sizes)
                self.cells.append(cells)

    def write(self, body: Octets, places: Longs, following: int = 0) -> None:
        """Write the cells of one image of each of the group's trail records.

        ``places`` are their offsets; they are advanced to the ends of the images.

        At least ``following`` bytes after each image belong to its record and are written later.
        """
        # After the cell of a column come at least the smallest cells of all later columns.
        following += sum(cells.least for cells in self.cells)
        for cells in self.cells:
            following -= cells.least
            cells.write(body, places, following)


def _cell_writer(group: TrailRecordGroup, index: int, column_values: RecordValues) -> CellWriter:
    table = group.block.table
    assert len(column_values.values) == len(group.block)
    target = CellTarget(table.name, table.columns[index], index, group.reference.order)
    codec = select_codecs(table)[index]
    if codec is None:
        raise target.error(explain_unreadable(target.column))
    return codec.encode(target, column_values)


class RecordWriter:
    """Writes a group's trail records with all their parts.

    ``sizes`` are their sizes, which may exceed the limit of a record.
    """

    def __init__(self, group: TrailRecordGroup) -> None:
        self.group = group
        self.before, self.image = make_before_writer(group), make_image_writer(group)
        data = self.image.sizes
        self.data_sizes = (
            data if self.before is None else data + self.before.sizes + ImagePrefix.SHORT
        )
        self.tokens = TokenAreas(group, self.data_sizes)
        data_area = self.data_sizes + FRAME * (self.data_sizes > 0)
        self.sizes = head_size(group) + data_area + self.tokens.sizes + FRAME

    def write(self, body: Octets, places: Longs) -> None:
        """Write the group's trail records, part by part.

        ``places`` are their offsets; they are advanced to the ends of the records.
        """
        group = self.group
        big = group.reference.order is ByteOrder.BIG
        write_heads(
            body,
            places,
            make_record_template(group),
            head_size(group),
            self.sizes,
            self.data_sizes,
            group.io_type,
            header_times(group),
            group.trans_ind,
            big,
        )
        if self.before is not None:
            write_lengths(body, places, self.before.sizes, big)
            self.before.write(body, places)
        # After the image come at least the smallest token areas and the trailer. SPARE is the most
        # that matters for wide copies.
        self.image.write(body, places, int(self.tokens.sizes.min(initial=SPARE)) + FRAME)
        self.tokens.write(body, places)
        write_trailers(body, places, self.sizes, big)


def make_before_writer(group: TrailRecordGroup) -> ImageWriter | None:
    """Create the writer of the before image if the group's records contain both images, otherwise return None.

    Assumed (trail format §10.4): the before image of a key update may have more columns than the
    key, as in a unified update.
    """
    if group.images not in (RecordImages.KEY_AND_AFTER, RecordImages.BOTH):
        return None
    return ImageWriter(group, group.block.before)


def make_image_writer(group: TrailRecordGroup) -> ImageWriter:
    """Create the writer of the group's only image, or of the second image."""
    # All other records, those with both images too, end with the after image.
    images = {RecordImages.NONE: (), RecordImages.BEFORE: group.block.before}
    return ImageWriter(group, images.get(group.images, group.block.after))


def header_times(group: TrailRecordGroup) -> Longs:
    """Return the IO times for the headers of the group's records, in microseconds since Julian Date 0.0."""
    times: Longs = group.block.op_ts[group.rows] + JULIAN_EPOCH
    return times


def head_size(group: TrailRecordGroup) -> int:
    """Return the size of the heads of the group's records: everything up to the end of the name area."""
    return RECORD_HEADS[group.reference.order].itemsize + len(group.reference.area)


def make_record_template(group: TrailRecordGroup, io_type: int = 0) -> Octets:
    """Build the bytes with which all records of the group begin: the frames of G and H, GHDR and the name area.

    Fields that differ between records are 0 (trail format §5), also the I/O type unless ``io_type``
    states it. ``SPARE`` more bytes follow, because the template is copied 32 bytes at a time.
    """
    area = group.reference.area
    model = np.zeros(1, RECORD_HEADS[group.reference.order])
    for field, value in (
        ("g_id", RECORD),
        ("g_info", RECORD_INFO),
        ("h_id", HEADER),
        ("h_length", H_FIXED + len(area)),
        ("indicator", INDICATOR),
        ("partition", group.partition),
        ("image", group.image_letter),
        ("io_type", io_type),
        ("node", NO_NODE),
        ("audit_pos", AUDIT_POS),
        ("audit_rba", AUDIT_RBA),
        ("format", FROM_LOG),
        ("record_count", 1),
    ):
        model[field] = value
    return octets(model.tobytes() + area + bytes(SPARE))
