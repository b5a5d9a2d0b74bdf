"""Check transaction indicators, to detect missing records inside transactions of a trail.

A transaction is torn if the next one begins before it has ended, or if it continues without having
begun. Each of its records may be valid, so only the sequence of indicators reveals the loss. It
does not reveal the loss of a middle record.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from trailgate.errors import DecodeError, TrailgateError, Where
from trailgate.model.kernels import APART
from trailgate.model.transactions import follow
from trailgate.storage.files.trail_files import TrailFiles, TrailPosition
from trailgate.storage.reading.record_runs import RecordRun
from trailgate.storage.reading.trail_file import LONGEST, TrailFileReader
from trailgate.storage.reading.transaction_spans import find_last_begin, may_be_inside_transaction
from trailgate.trail.format.tokens import TRANID
from trailgate.trail.records.record import decode_record
from trailgate.trail.records.transactions import find_contradictions

UNENDED: Final = "records are missing: the transaction before this record has not ended"
HEADLESS: Final = "records are missing: this record continues a transaction that does not begin"
AFTER: Final = ". The transaction before it{} begins at position {}:{}"
HINT: Final = "Copy the files again. trailgate check {0} lists all such places, and trailgate check {0} --salvage OUT copies the complete transactions"


class SequenceCheck:
    """Checks that a trail's transaction indicators are consistent, to detect missing records.

    The trail's records must be passed in order, each once, in runs of complete operations.
    """

    def __init__(self, trail: TrailFiles) -> None:
        self._trail = trail
        self._is_first = True  # no record of a transaction was seen yet
        self._is_open = False
        self._begin: TrailPosition | None = None  # of the last transaction

    def find_loss(self, run: RecordRun, following: TrailPosition | None) -> DecodeError | None:
        """Check a trail's next records, and return an error if records are missing, or None.

        Records may be missing inside ``run``, or between it and the previous call. ``following``
        is the position of the next transaction if it begins directly after these records.
        """
        error = self._find(run)
        if error is None and following is not None and self._is_open:
            error = self._error(UNENDED, following, self._begin)
        return error

    def _find(self, run: RecordRun) -> DecodeError | None:
        followed = follow(run.marks, is_open=self._is_open)
        headless, unended = find_contradictions(followed)
        plain = np.flatnonzero(~run.has(APART))
        if self._is_first and len(plain):
            self._is_first = False
            first = self._position(run, int(plain[0]))
            # Reading may begin inside a transaction, whose first record is then before the trail:
            # that loses nothing.
            if (
                len(headless)
                and headless[0] == plain[0]
                and may_be_inside_transaction(self._trail, first)
            ):
                headless = headless[1:]
        error: DecodeError | None = None
        if len(headless) or len(unended):
            # The earliest contradiction of either kind: ``union1d`` sorts.
            row = int(np.union1d(headless, unended)[0])
            earlier = followed.firsts[followed.firsts < row]
            place = self._position(run, row)
            begin = self._position(run, int(earlier[-1])) if len(earlier) else self._begin
            if row in unended:
                error = self._error(UNENDED, place, begin)
            else:
                error = self._error(HEADLESS, place, begin or self._last_begin(place))
        if len(followed.firsts):
            self._begin = self._position(run, int(followed.firsts[-1]))
        self._is_open = followed.is_open
        return error

    def _position(self, run: RecordRun, row: int) -> TrailPosition:
        return TrailPosition(run.number, int(run.starts[row]))

    def _error(
        self, problem: str, place: TrailPosition, before: TrailPosition | None
    ) -> DecodeError:
        """Build the error for records missing before ``place``.

        ``before`` is the beginning of the transaction before ``place``, if known.
        """
        named = "" if before is None else AFTER.format(self._name(before), *before)
        hint = HINT.format(self._trail.prefix)
        return DecodeError(problem + named, where=Where(offset=place.offset), hint=hint)

    def _last_begin(self, place: TrailPosition) -> TrailPosition | None:
        """Return the position of the last transaction that begins before a position.

        Returns None if its records are damaged or missing.
        """
        try:
            return find_last_begin(self._trail, place)
        except TrailgateError:
            return None

    def _name(self, begin: TrailPosition) -> str:
        """Return the id of the transaction that begins at a position, as text between commas.

        Returns "" if it cannot be read.
        """
        try:
            with TrailFileReader(self._trail.file(begin.number)) as reader:
                data = reader.read(begin.offset, LONGEST)
                raw = decode_record(data, order=reader.order, base=begin.offset).token(TRANID)
        except TrailgateError:
            return ""  # the loss is reported without a name
        return "" if raw is None else f", {raw.decode('utf-8', 'replace')},"
