"""MAP statements with conditions, conversions and modes make of a source's operations what a reading row by row makes, however the trail is cut into batches."""

from __future__ import annotations

import operator
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import duckdb

from apply.naive_batches import TABLE
from apply.test_net_effects import history
from laws import LONG, chance, examples, histories
from oracles.apply_naive import COLUMNS, Operation, replayed
from trail.batches import batch_of
from trailgate import TrailAppender, apply_trail, verify_tables
from trailgate.model.tables import Definitions

Values = dict[str, Any]
Truth = bool | None
RECORDS = {"I": "INSERT", "U": "SQL COMPUPDATE", "K": "PK UPDATE", "D": "DELETE"}
OP = "@GETENV ('GGHEADER', 'OPTYPE')"
NUMBER = f"@CASE ({OP}, 'INSERT', 1, 'SQL COMPUPDATE', 2, 'PK UPDATE', 3, 'DELETE', 4)"
NUMBERS = {name: str(at) for at, name in enumerate(RECORDS.values(), 1)}
DEFINITIONS = Definitions((TABLE,))
CONVERSIONS = {
    "INSERTUPDATES": ("U", "I"),
    "INSERTDELETES": ("D", "I"),
    "UPDATEDELETES": ("D", "U"),
}
SIGNS: dict[str, Callable[[int, int], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    ">=": operator.ge,
}


class Logged(NamedTuple):
    """An operation with the whole row before it and after it."""

    kind: str
    transaction: int
    before: Values
    after: Values

    @property
    def row(self) -> Values:
        """Return the row that a condition sees."""
        return self.before if self.kind == "D" else self.after


class Statement(NamedTuple):
    """A MAP statement: its text, its target, the letters it ignores, its conditions, its conversions, and whether each operation is a row."""

    text: str
    target: str
    ignored: str
    conditions: list[tuple[str, Callable[[Logged], Truth]]]
    conversions: dict[str, str]
    appends: bool


def logged(log: Sequence[Operation]) -> list[Logged]:
    """Return the operations of a naive source with whole rows."""
    # A statement that moves several rows writes a key before its own row has left it: then a key has two rows, the first of which is the older one.
    rows: dict[int, list[Values]] = defaultdict(list)
    found = []
    for one in log:
        before: Values = {}
        if one.kind in "UKD":
            before = rows[one.old].pop(0)
        if one.kind == "T":
            rows.clear()
        after: Values = {}
        if one.kind in "IUK":
            after = before | one.logged | {"id": one.key}
            rows[one.key].append(after)
        found.append(Logged(one.kind, one.transaction, before, after))
    return found


def comparison(own: random.Random) -> tuple[str, Callable[[Logged], Truth]]:
    name, value = own.choice(("id", *COLUMNS)), own.randrange(5)
    sign = own.choice(list(SIGNS))

    def truth(one: Logged) -> Truth:
        left = one.row[name]
        return None if left is None else SIGNS[sign](left, value)

    return f"{name} {sign} {value}", truth


def of_header(own: random.Random) -> tuple[str, Callable[[Logged], Truth]]:
    wanted = own.choice(list(RECORDS.values()))
    return f"{OP} <> '{wanted}'", lambda one: RECORDS[one.kind] != wanted


def condition(own: random.Random, depth: int = 2) -> tuple[str, Callable[[Logged], Truth]]:
    """Return a condition and what it is of an operation: true, false or, because of a NULL, unknown."""
    if not depth or own.random() < 0.4:
        return own.choice((comparison, comparison, of_header))(own)
    left, of_left = condition(own, depth - 1)
    right, of_right = condition(own, depth - 1)
    if own.random() < 0.3:
        return f"NOT ({left})", lambda one: None if of_left(one) is None else not of_left(one)
    word, stops = own.choice((("AND", False), ("OR", True)))

    def truth(one: Logged) -> Truth:
        sides = {of_left(one), of_right(one)}
        if stops in sides:
            return stops
        return None if None in sides else not stops

    return f"({left} {word} {right})", truth


def statement(own: random.Random, *, ignored: str, appends: bool) -> Statement:
    """Return a random MAP statement, after parameters that ignore some operations."""
    within, conditions, clauses = (
        dict[str, str](),
        [],
        [f"COLMAP (id = id, a = a, b = b, c = {NUMBER})"],
    )
    for _ in range(own.choice((0, 1, 1, 2))):
        text, truth = condition(own)
        letters = "IUD"
        clause = f"WHERE ({text})"
        if own.random() < 0.6:
            on, letter = own.choice(("ON", "IGNORE")), own.choice("IUD")
            word = {"I": "INSERT", "U": "UPDATE", "D": "DELETE"}[letter]
            letters = letter if on == "ON" else "IUD".replace(letter, "")
            clause = f"FILTER ({on} {word}, {text})"
        clauses.append(clause)
        conditions.append((letters, truth))
    for name, (old, new) in CONVERSIONS.items():
        if own.random() < 0.15 and old not in within:
            within[old] = new
            clauses.append(name)
    if own.random() < 0.2:
        ignored += "T"
        clauses.append("IGNORETRUNCATES")
    if appends:
        clauses.append("INSERTALLRECORDS")
    target = f"b.{'log' if appends else 't'}{own.randrange(2)}"
    own.shuffle(clauses)
    text = f"MAP hr.t, TARGET {target}, KEYCOLS (id), {', '.join(clauses)};"
    return Statement(
        text=text,
        target=target,
        ignored=ignored,
        conditions=conditions,
        conversions=within,
        appends=appends,
    )


def parameters(own: random.Random) -> tuple[str, list[Statement]]:
    """Return a random file and its statements."""
    lines, statements, ignored = ["HANDLECOLLISIONS"], list[Statement](), ""
    for _ in range(own.randint(1, 4)):
        if own.random() < 0.3:
            letter, word = own.choice((("I", "INSERTS"), ("U", "UPDATES"), ("D", "DELETES")))
            ignored = ignored.replace(letter, "")
            if own.random() < 0.6:
                ignored += letter
            lines.append(f"{'IGNORE' if letter in ignored else 'GET'}{word}")
        statements.append(statement(own, ignored=ignored, appends=own.random() < 0.3))
        lines.append(statements[-1].text)
    return "\n".join(lines), statements


def takes(one: Statement, operation: Logged) -> bool:
    letter = operation.kind.replace("K", "U")
    return letter not in one.ignored and all(
        truth(operation) is True for letters, truth in one.conditions if letter in letters
    )


def expected(
    statements: Sequence[Statement], operations: Sequence[Logged]
) -> tuple[dict[str, dict[int, Values]], dict[str, Counter[tuple[Any, ...]]]]:
    """Return the current rows of the targets, and the rows of those that have one for each operation."""
    current: dict[str, list[Operation]] = defaultdict(list)
    appended: dict[str, Counter[tuple[Any, ...]]] = defaultdict(Counter)
    for operation in operations:
        done = set()
        for one in statements:
            if one.target in done or not takes(one, operation):
                continue
            done.add(one.target)
            kind = one.conversions.get(operation.kind.replace("K", "U"), operation.kind)
            row = operation.before if operation.kind == "D" else operation.after
            values = {name: row.get(name) for name in COLUMNS}
            if operation.kind != "T":
                values["c"] = NUMBERS[RECORDS[operation.kind]]
            if one.appends:
                appended[one.target][kind, row.get("id"), *values.values()] += 1
                continue
            key = row.get("id", 0)
            old = operation.before["id"] if kind == "K" else key
            current[one.target].append(
                Operation(kind, old, key, values if kind in "IUK" else {}, operation.transaction)
            )
    tables = {name: replayed({}, own, "overlay")[0] for name, own in current.items()}
    return tables, appended


def write(prefix: Path, operations: Sequence[Logged], first: int) -> None:
    """Append whole transactions to the trail."""
    groups: dict[int, list[Logged]] = defaultdict(list)
    for one in operations:
        groups[one.transaction].append(one)
    rows = []
    for number, own in enumerate(groups.values(), first):
        indicators = ["B", *("M" * (len(own) - 2)), "E"] if len(own) > 1 else ["W"]
        rows += [
            {
                "table": TABLE.name, "op_type": one.kind, "op_ts": 0, "tx_ind": indicator,
                "tx_id": str(number), "csn": str(number),
                "before": {name.upper(): value for name, value in one.before.items()},
                "after": {name.upper(): value for name, value in one.after.items()},
            }
            for one, indicator in zip(own, indicators, strict=True)
        ]  # fmt: skip
    with TrailAppender(str(prefix), DEFINITIONS) as trail:
        trail.append(batch_of(DEFINITIONS, rows))
        trail.commit(str(first))


@LONG
def test_statements_are_obeyed_row_by_row(tmp_path: Path) -> None:
    tried = Counter[str]()
    for number in range(histories(examples(16))):
        own = chance(f"map conditions {number}")
        folder = tmp_path / str(number)
        folder.mkdir()
        operations = logged(history(own, 10).log)
        text, statements = parameters(own)
        (folder / "rep.prm").write_text(text)
        ends = [
            at
            for at in range(1, len(operations) + 1)
            if at == len(operations) or operations[at].transaction != operations[at - 1].transaction
        ]
        cuts = sorted({*own.sample(ends, min(len(ends), own.randint(1, 3))), ends[-1]})
        to, params = f"duckdb:{folder}/x.duckdb", str(folder / "rep.prm")
        begin = 0
        for end in cuts:
            write(folder / "ot", operations[begin:end], 1 + 100 * begin)
            apply_trail(folder / "ot", to, params=params, batch_bytes=own.choice((400, None)))
            begin = end

        tables, appended = expected(statements, operations)
        with duckdb.connect(str(folder / "x.duckdb"), read_only=True) as connection:
            for name, rows in tables.items():
                found = {
                    row[0]: dict(zip(COLUMNS, row[1:], strict=True))
                    for row in connection.sql(f"SELECT id, a, b, c FROM x.{name}").fetchall()
                }
                assert found == rows, (text, name)
            for name, counted in appended.items():
                got = Counter(
                    connection.sql(f"SELECT _op_type, id, a, b, c FROM x.{name}").fetchall()
                )
                assert got == counted, (text, name)
        if tables or appended:
            assert verify_tables(folder / "ot", to, params=params).is_equal, text
        tried.update(name for name in [*tables, *appended])
    assert set(tried) >= {"b.t0", "b.t1"}
