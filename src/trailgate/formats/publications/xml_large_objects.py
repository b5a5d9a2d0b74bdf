"""Join large objects, which XML publications send in `lob` messages, and insert them into rows.

A `lob` message contains a part of one value. Its rowNum and colName name the row and the column.
The row belongs to the transaction of the last preceding message with rows. IBM's documentation
describes only the fields, so this order is inferred (event publishing §3). If a bad message was
removed in between, the part may belong to a row in that message, and is an error.

No message states that the last part of a row was sent. `count_complete` therefore finds the first
message of a transaction with such rows (hasLOBCols): from there on, messages wait until a message
of another transaction arrives or the input ends. They form one unit, whether or not they had to
wait.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from trailgate.arrays import Longs, Mask, Octets, octets
from trailgate.errors import TrailgateError
from trailgate.formats.publications.xml_cell_kernels import ImageSpans, has_set_attribute
from trailgate.formats.publications.xml_envelopes import Envelopes, add_errors, whole_numbers
from trailgate.formats.publications.xml_rows import RowCells
from trailgate.formats.publications.xml_vocabulary import (
    KINDS,
    LARGE_OBJECT,
    LARGE_OBJECTS,
    OF_ROWS,
    ROOT,
    TYPES,
)
from trailgate.formats.xml.kernels.cells import MISSING
from trailgate.formats.xml.kernels.tables import SPARE
from trailgate.messages.message_batch import CompleteMessages, MessageBatch
from trailgate.messages.problems import Lookahead
from trailgate.model.changes import DELETE

_LARGE: Final = np.array([row.large for row in TYPES])
_HINT: Final = "lob messages follow the message of their row"
Errors = dict[int, TrailgateError]


_FLAG: Final = octets(b"hasLOBCols")
_HEAD: Final = 1 << 16  # bytes at the start of a message in which its envelope must be
_OTHERS: Final = [kind for kind in KINDS if kind not in OF_ROWS]
# Attributes in the head of a message: cmitLSN="0000:0123", and isLast="1"
_COMMIT: Final = re.compile(rb"cmitLSN\s*=\s*[\"']([^\"']*)")
_LAST: Final = re.compile(rb"isLast\s*=\s*[\"']\s*(?:1|true)\b")
_ROWS: Final = re.compile(rb"<(?:%b)\b" % "|".join(OF_ROWS).encode())


@dataclass(frozen=True, slots=True)
class LargeObjectRows:
    """The rows of XML publications that large objects may belong to.

    `around` is a row's envelope, `number` its rowNum, `which` its index into `table`, and `large`
    states whether large objects follow (hasLOBCols). `removed` is the number of bad messages that
    were removed anywhere before each message: 0, 1, 1 if one was removed after the first message.
    It is None if none was removed.
    """

    message: Longs
    around: Longs
    number: Longs
    table: list[tuple[str, str]]
    which: Longs  # each row's table
    large: Mask
    letters: Octets
    removed: Longs | None


@dataclass(slots=True)
class _Object:
    """One large object: the envelopes of its parts, and whether the last part is among them (`ended`)."""

    parts: list[int] = field(default_factory=list)
    ended: bool = False


def add_large_objects(
    text: Octets,
    envelopes: Envelopes,
    rows: LargeObjectRows,
    cells: RowCells,
    errors: Errors,
    refuse: Callable[[int, str, str], None],
) -> tuple[Octets, RowCells]:
    """Add cells for large objects of XML publications.

    Return the text with the joined values, and the cells. `refuse` is called with a row, a problem
    and a hint.
    """
    lobs = np.flatnonzero(envelopes.mask_types(LARGE_OBJECT))
    if not len(lobs) and not rows.large.any():
        return text, cells
    # The order of messages decides which row a part belongs to.
    lobs = lobs[np.argsort(envelopes.message[lobs], kind="stable")]
    found = _Gathered(text, envelopes, rows, errors).gather_objects(lobs)
    _check_whole(found, envelopes, errors, refuse)
    awaited = _find_awaited(rows, cells)
    _check_awaited(awaited, found, rows, cells, refuse)
    made = _Cells(text, envelopes, found)
    # Empty cells that a large object replaces.
    dropped = np.array([cell for (row, name), cell in awaited.items() if (row, name) in found], int)
    return made.text(), made.add_to(cells, dropped)


class _Gathered:
    """Finds the row that each part of a large object belongs to, and groups the parts by object.

    Each part (a `lob` message) states its table, row number and column.
    """

    def __init__(
        self, text: Octets, envelopes: Envelopes, rows: LargeObjectRows, errors: Errors
    ) -> None:
        self.text, self.envelopes, self.rows, self.errors = text, envelopes, rows, errors
        self.found: dict[tuple[int, str], _Object] = {}

    def gather_objects(self, lobs: Longs) -> dict[tuple[int, str], _Object]:
        """Return the large objects by (row, column), each with its parts.

        `lobs` are the envelopes of parts in the order of messages. Parts without a row get an
        error.
        """
        envelopes = self.envelopes
        numbers = whole_numbers(
            self.text, envelopes.values["row"], envelopes.message, "rowNum", self.errors, least=1
        )
        names = envelopes.strings("column", lobs).to_pylist()
        tables = zip(
            envelopes.strings("schema", lobs).to_pylist(),
            envelopes.strings("table", lobs).to_pylist(),
            strict=True,
        )
        before = self._rows_before_messages()
        for lob, name, table in zip(lobs.tolist(), names, tables, strict=True):
            message = int(envelopes.message[lob])
            if message not in self.errors:
                self._put(lob, name, table, before(message).get(int(numbers[lob])))
        return self.found

    def _rows_before_messages(self) -> Callable[[int], dict[int, int]]:
        """Return a function that finds the rows that the large objects in a message can belong to.

        For a message number it returns a dict from ``rowNum`` to row, for the last transaction
        before the message. The dict is empty if a bad message was removed in between. Call the
        function with ascending message numbers.
        """
        waiting = self._rows_in_order()
        transaction, known, last = -1, dict[int, int](), -1
        ahead = next(waiting, None)
        removed = self.rows.removed

        def before(message: int) -> dict[int, int]:
            nonlocal transaction, ahead, last
            while ahead is not None and ahead[0] < message:
                last, own, number, row = ahead
                if own != transaction:
                    known.clear()
                    transaction = own
                if row >= 0:
                    known[number] = row
                ahead = next(waiting, None)
            # `removed` counts the bad messages before each message. If the count has not grown
            # since the last row, no message between the two was removed.
            whole = removed is None or last < 0 or removed[last] == removed[message]
            return known if whole else {}

        return before

    def _rows_in_order(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield (message, transaction, rowNum, row) of rows with large objects.

        For each message with rows, a row of -1 comes first.
        """
        envelopes, rows = self.envelopes, self.rows
        of_rows = np.flatnonzero(envelopes.mask_types(*OF_ROWS))
        transaction, _ = envelopes.values.words(self.text, "commit")
        large = np.flatnonzero(rows.large)
        around = rows.around[large]
        events = [
            *zip(
                envelopes.message[of_rows].tolist(),
                # Row -1 sorts before the rows of its message, and announces the transaction.
                [-1] * len(of_rows),
                of_rows.tolist(),
                strict=True,
            ),
            *zip(rows.message[large].tolist(), large.tolist(), around.tolist(), strict=True),
        ]
        for message, row, envelope in sorted(events):
            number = int(rows.number[row]) if row >= 0 else 0
            yield message, int(transaction[envelope]), number, row

    def _put(self, lob: int, name: str, table: tuple[str, str], row: int | None) -> None:
        message = int(self.envelopes.message[lob])
        # There is no such row, or it is in another table.
        if row is None or self.rows.table[self.rows.which[row]] != table:
            detail = f"a part of large object {name} of {'.'.join(table)} has no row before it"
            self._refuse(message, detail, _HINT)
            return
        if self.rows.letters[row] == DELETE:
            self._refuse(message, f"a part of large object {name} is for a deleteRow")
            return
        own = self.found.setdefault((row, name), _Object())
        if own.ended:
            self._refuse(message, f"a part of large object {name} follows its last part")
            return
        own.parts.append(lob)
        own.ended = bool(self.envelopes.last[lob])

    def _refuse(self, message: int, problem: str, hint: str = "") -> None:
        add_errors(self.errors, np.array([message]), lambda _: (problem, hint))


def _check_whole(
    found: dict[tuple[int, str], _Object],
    envelopes: Envelopes,
    errors: Errors,
    refuse: Callable[[int, str, str], None],
) -> None:
    """Add errors to rows whose large objects have missing or wrong parts, and to these parts."""
    if not found:
        return
    text = envelopes.text
    total, size = (
        whole_numbers(text, envelopes.values[name], envelopes.message, detail, errors)
        for name, detail in (("total", "totalDataLen"), ("size", "dataLen"))
    )
    for (row, name), own in found.items():
        present, wanted = int(size[own.parts].sum()), int(total[own.parts[0]])
        if not own.ended:
            detail = f"the last part of large object {name} is missing: the parts have a length of {present}, not {wanted}"
        elif (total[own.parts] != wanted).any() or present != wanted:
            detail = f"the parts of large object {name} have a length of {present}, but totalDataLen is {wanted}"
        else:
            continue
        refuse(row, detail, "")
        add_errors(errors, envelopes.message[own.parts], lambda _, detail=detail: (detail, ""))  # type: ignore[misc]


def _find_awaited(rows: LargeObjectRows, cells: RowCells) -> dict[tuple[int, str], int]:
    """Find the cells whose values must follow in `lob` messages. Returns them by (row, column name).

    They are the empty cells of a large type in rows that are marked hasLOBCols.
    """
    # In the row, a value that follows in lob messages is an empty element.
    empty = (cells.after.lengths == 0) & (cells.types >= 0)
    candidates = np.flatnonzero(empty)
    candidates = candidates[
        _LARGE[cells.types[candidates]] & rows.large[cells.operation[candidates]]
    ]
    return {
        (row, cells.name(cell)): cell
        for row, cell in zip(cells.operation[candidates].tolist(), candidates.tolist(), strict=True)
    }


def _check_awaited(
    awaited: dict[tuple[int, str], int],
    found: dict[tuple[int, str], _Object],
    rows: LargeObjectRows,
    cells: RowCells,
    refuse: Callable[[int, str, str], None],
) -> None:
    """Add errors to rows of XML publications whose large objects were not sent."""
    for row, name in awaited:
        if (row, name) not in found:
            refuse(row, f"no lob message has the large object {name}", _HINT)
    given = {row for row, _ in found}
    # Rows with a large object in the row itself. Type -1 (unknown) reads the last item of the
    # table, which the second condition excludes.
    inline = set(cells.operation[_LARGE[cells.types] & (cells.types >= 0)].tolist())
    for row in np.flatnonzero(rows.large).tolist():
        if row not in given and row not in inline:
            refuse(row, "no lob message has a large object of the row (hasLOBCols)", _HINT)


class _Cells:
    """Creates the cells of rows' large objects, and the text with their joined parts."""

    def __init__(
        self, text: Octets, envelopes: Envelopes, found: dict[tuple[int, str], _Object]
    ) -> None:
        self.envelopes, self.found = envelopes, found
        self.kept = text
        self.made = bytearray()
        self.places = [self._place(own) for own in found.values()]

    def _place(self, own: _Object) -> tuple[int, int, int]:
        """Return the type, start and length of a large object's value.

        Several parts are joined after the text.
        """
        values = self.envelopes.values
        kind, parts = -1, []
        for part in own.parts:
            for name in LARGE_OBJECTS:
                size = int(values[name].lengths[part])
                if size >= 0:
                    kind = next(i for i, row in enumerate(TYPES) if row.name == name)
                    parts.append((int(values[name].starts[part]), size))
        # A single part is used where it is, without copying.
        if len(parts) == 1:
            return kind, *parts[0]
        start = len(self.kept) + len(self.made)
        for at, size in parts:
            self.made += self.kept[at : at + size].tobytes()
        return kind, start, len(self.kept) + len(self.made) - start

    def text(self) -> Octets:
        """Return the text of the XML publications, followed by the joined large objects."""
        if not self.made:
            return self.kept
        return np.concatenate([self.kept, np.frombuffer(bytes(self.made) + bytes(SPARE), np.uint8)])

    def add_to(self, cells: RowCells, dropped: Longs) -> RowCells:
        """Return `cells` with the cells of large objects added. `dropped` are the indexes of the empty cells that they replace; these become missing."""
        if not self.found:
            return cells
        lengths = cells.after.lengths.copy()
        lengths[dropped] = MISSING
        types, starts, sizes = np.array(self.places, np.int64).T
        rows = np.array([row for row, _ in self.found], np.int64)
        names = [name for _, name in self.found]
        operation = np.concatenate([cells.operation, rows])
        # The cells of large objects are appended, then sorted to the cells of their rows.
        order = np.argsort(operation, kind="stable")
        none = ImageSpans.empty(len(rows))
        after = cells.after.starts, lengths
        mine = starts.astype(np.int32), sizes.astype(np.int32)
        return RowCells(
            operation=operation[order],
            names=np.concatenate([cells.names, np.arange(len(names)) + len(cells.words)])[order],
            words=[*cells.words, *names],
            types=np.concatenate([cells.types, types])[order],
            before=ImageSpans(
                *(np.concatenate(both)[order] for both in zip(cells.before, none, strict=True))
            ),
            after=ImageSpans(
                *(np.concatenate(both)[order] for both in zip(after, mine, strict=True))
            ),
            rows=cells.rows,
        )


def _envelope(*kinds: str) -> re.Pattern[bytes]:
    return re.compile(rb"<%b\b[^<]*<(?:%b)\b([^>]*)>" % (ROOT.encode(), "|".join(kinds).encode()))


_OF_ROWS: Final = _envelope(*OF_ROWS)
_OF_OTHERS: Final = _envelope(*_OTHERS)


def count_complete(messages: MessageBatch) -> CompleteMessages:
    """Count the XML publications (in UTF-8) at the beginning of the batch that can be read without later messages."""
    count, commit = len(messages), None
    data = octets(messages.data)
    if not count or not has_set_attribute(
        data, int(messages.starts[0]), int(messages.ends[-1]), _FLAG
    ):
        return CompleteMessages(count)
    awaiting = _awaiting(messages)
    first_waiting = count
    # Go back through the last transaction, whose messages all have the same cmitLSN and none but
    # the last has isLast. The first of its messages with large objects is where waiting begins.
    for number in reversed(range(count)):
        envelope = _envelope_of(messages, number)
        if envelope is None:
            continue
        own_commit = _COMMIT.search(envelope)
        if commit is not None and (
            own_commit is None or own_commit[1] != commit or _LAST.search(envelope) is not None
        ):
            break
        commit = b"" if own_commit is None else own_commit[1]
        if awaiting[number]:
            first_waiting = number
    following = _commit(commit) if first_waiting < count and commit is not None else None
    return CompleteMessages(first_waiting, Lookahead(following, awaiting))


def _commit(written: bytes) -> str | None:
    """Parse the commit LSN of an XML publication.

    Returns None if it contains references or other characters that only a complete XML parser can
    decode.
    """
    known = written.isascii() and b"&" not in written
    return written.decode().strip() or None if known else None


def keeps_waiting(messages: MessageBatch) -> bool:
    """Return whether XML publications (in UTF-8) have no rows, but for example parts of large objects.

    All of them must then wait for later messages.
    """
    return not any(_envelope_of(messages, number) is not None for number in range(len(messages)))


def transaction_of_bad(messages: MessageBatch, number: int) -> tuple[str, ...] | None:
    """Return the commit LSN of a bad XML publication in UTF-8: an empty tuple if the message has no rows, or None if it is unknown."""
    start, end = int(messages.starts[number]), int(messages.ends[number])
    body = bytes(memoryview(messages.data)[start:end])
    elements = len(_ROWS.findall(body))
    if not elements:
        return None if _OF_OTHERS.search(body[:_HEAD]) is None else ()
    envelope = _OF_ROWS.search(body[:_HEAD]) if elements == 1 else None
    commit = None if envelope is None else _COMMIT.search(envelope[1])
    commit_lsn = None if commit is None else _commit(commit[1])
    return None if commit_lsn is None else (commit_lsn,)


def _awaiting(messages: MessageBatch) -> Mask:
    """Return a mask of the XML publications with rows for which large objects may follow."""
    data = octets(messages.data)
    awaiting = np.zeros(len(messages), bool)
    bounds = zip(messages.starts.tolist(), messages.ends.tolist(), strict=True)
    for number, (start, end) in enumerate(bounds):
        awaiting[number] = (
            has_set_attribute(data, start, end, _FLAG)
            and _envelope_of(messages, number) is not None
        )
    return awaiting


def _envelope_of(messages: MessageBatch, number: int) -> bytes | None:
    """Return the attributes of an XML publication's `trans` or `rowOp`, or None if it has neither."""
    start, end = int(messages.starts[number]), int(messages.ends[number])
    whole = memoryview(messages.data)
    envelope = _OF_ROWS.search(whole[start : min(end, start + _HEAD)])
    return None if envelope is None else bytes(envelope[1])
