"""What each mode of apply keeps of a log, row by row: the shortest reading of a mode that one can check by eye.

A state is what a reader of the target sees: for current rows ``{key: values}``, for soft delete ``{key: (values, operation that deleted it)}``, for history a list of versions, and
for append a list of operations. Operations are named by their numbers in the log, which stand for times and positions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from oracles.apply_naive import CollisionError, NaiveTable, Operation

Values = dict[str, Any]
Make = Callable[[], "CurrentRows"]
LAST = "_position"  # the column of the operation that wrote a row last


class CurrentRows(NaiveTable):
    """The rows as they are."""

    def __init__(self, policy: str, columns: Sequence[str]) -> None:
        super().__init__({}, policy, columns)

    def commit(self, touched: Collection[int], number: int) -> None:
        """End a transaction, of which ``number`` is the last operation."""
        del number
        for key in touched:
            self.settle(key, end=True)

    @property
    def rows(self) -> dict[int, Values]:
        """Return the rows by their keys."""
        return {key: held[0].values for key, held in self.held.items() if held}

    def state(self) -> Any:
        """Return what a reader sees."""
        return self.rows


class RowsWithMeta(CurrentRows):
    """The rows, and which operation wrote each last."""

    def __init__(self, policy: str, columns: Sequence[str]) -> None:
        super().__init__(policy, (*columns, LAST))

    def do(self, one: Operation, number: int = -1) -> None:
        """Do one operation, which logs itself."""
        super().do(one._replace(logged={**one.logged, LAST: number}), number)


class RowsWithDeleted(CurrentRows):
    """The rows, and those that were deleted."""

    def __init__(self, policy: str, columns: Sequence[str]) -> None:
        super().__init__(policy, columns)
        self.gone: dict[int, tuple[Values, int]] = {}

    def do(self, one: Operation, number: int = -1) -> None:
        """Do one operation; a row that is deleted stays, until its key is used again."""
        if one.kind == "T":
            for key in list(self.held):
                self.settle(key, end=True)
        leaving = self.rows if one.kind == "T" else {}
        if one.kind == "D":
            self.settle(one.key, end=False)
            leaving = {key: row for key, row in self.rows.items() if key == one.key}
        if any(set(row) != set(self.columns) for row in leaving.values()):
            raise CollisionError(number)  # nobody knows the whole row
        super().do(one, number)
        self.gone |= {key: (dict(row), number) for key, row in leaving.items()}
        if self.held.get(one.key):
            self.gone.pop(one.key, None)

    def state(self) -> Any:
        """Return what a reader sees."""
        return {key: (row, None) for key, row in self.rows.items()} | self.gone


class Versions(CurrentRows):
    """Every version of each row, as transactions leave it: a truncate closes all that are open."""

    def __init__(self, policy: str, columns: Sequence[str]) -> None:
        super().__init__(policy, columns)
        self.open: dict[int, tuple[Values, int]] = {}
        self.closed: list[tuple[int, Values, int, int | None]] = []
        self.last: dict[int, int] = {}  # the last operation on each key of the transaction

    def do(self, one: Operation, number: int = -1) -> None:
        """Do one operation."""
        super().do(one, number)
        if one.kind == "T":
            for key in list(self.open):
                self._close(key, number)
            self.last.clear()
        else:
            self.last |= {one.old: number, one.key: number}

    def commit(self, touched: Collection[int], number: int) -> None:
        """Compare the rows that were touched with their open versions."""
        super().commit(touched, number)
        for key, at in self.last.items():
            row, known = self.rows.get(key), self.open.get(key)
            if known is not None and known[0] != row:
                self._close(key, at)
            if row is not None and key not in self.open:
                self.open[key] = dict(row), at
        self.last.clear()

    def _close(self, key: int, number: int) -> None:
        row, since = self.open.pop(key)
        self.closed.append((key, row, since, number))

    def state(self) -> Any:
        """Return what a reader sees."""
        still = [(key, row, since, None) for key, (row, since) in self.open.items()]
        return sorted([*self.closed, *still], key=lambda one: (one[0], one[2]))


class EveryOperation(CurrentRows):
    """Every operation: its number, and what it logs, of a delete what it logs before it."""

    def __init__(self, policy: str, columns: Sequence[str]) -> None:
        super().__init__(policy, columns)
        self.log: list[tuple[int, str, int | None, Values]] = []

    def do(self, one: Operation, number: int = -1) -> None:
        """Add one operation."""
        logged = one.earlier if one.kind == "D" else one.logged
        self.log.append((number, one.kind, None if one.kind == "T" else one.key, dict(logged)))

    def commit(self, touched: Collection[int], number: int) -> None:
        """Do nothing: operations fit whatever was before them."""

    def state(self) -> Any:
        """Return what a reader sees."""
        return self.log


KEPT: Mapping[str, type[CurrentRows]] = {
    "current": CurrentRows,
    "meta": RowsWithMeta,
    "soft-delete": RowsWithDeleted,
    "history": Versions,
    "append": EveryOperation,
}


def kept(
    log: Sequence[Operation],
    make: Mapping[str, Make],
    on_error: str = "stop",
    misfits: Callable[[Operation], bool] = lambda _: False,
) -> tuple[dict[str, CurrentRows], set[int]]:
    """Return each table after a log, and the operations that could not be carried out: they do not fit the rows, or ``misfits`` states that a value does not fit its column.

    One stops everything (CollisionError), or the log is carried out without it, or without its transaction.
    """
    dropped: set[int] = set()
    numbered = list(enumerate(log))
    while True:
        tables = {name: one() for name, one in make.items()}
        try:
            carry_out([one for one in numbered if one[0] not in dropped], tables, misfits)
        except CollisionError as error:
            if on_error == "stop":
                raise
            gone = {error.number}
            if on_error == "discard-transaction":
                own = log[error.number].transaction
                gone = {at for at, one in enumerate(log) if one.transaction == own}
            # What comes later is tried again: it may fit now.
            dropped = {at for at in dropped if at < min(gone)} | gone
            continue
        return tables, dropped


def carry_out(
    log: Sequence[tuple[int, Operation]],
    tables: Mapping[str, CurrentRows],
    misfits: Callable[[Operation], bool] = lambda _: False,
) -> None:
    """Carry out operations with their numbers; raises CollisionError."""
    touched: dict[str, dict[int, None]] = {name: {} for name in tables}
    for at, (number, one) in enumerate(log):
        if misfits(one):
            raise CollisionError(number)
        tables[one.table].do(one, number)
        touched[one.table][one.key] = None
        if at + 1 == len(log) or log[at + 1][1].transaction != one.transaction:
            for name, keys in touched.items():
                tables[name].commit(keys, number)
                keys.clear()
