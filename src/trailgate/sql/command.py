"""``trailgate sql``: run SELECT statements over trails, once or at a prompt."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from typing import Annotated, Final, NamedTuple

import typer

from trailgate.errors import OptionError, TrailgateError
from trailgate.terminal.flags import (
    DefinitionsFile,
    Limit,
    OutputFormat,
    RowFormat,
    RowsFile,
    Wide,
    takes,
)

ROWS: Final = 100  # rows of a table by default
HISTORY: Final = "~/.trailgate_sql_history"
BANNER: Final = "SELECT statements over trails, each ended by ;  Leave with \\q or Ctrl-D."
ENDS: Final = frozenset({"\\q", "exit", "quit"})
# A string, a quoted name, a comment (each of which may still be open), a semicolon, or other text.
TOKENS: Final = re.compile(
    r"""'(?:[^']|'')*(?:'|\Z)|"[^"]*(?:"|\Z)|--[^\n]*|/\*.*?(?:\*/|\Z)|;|[^;'"/-]+|.""", re.DOTALL
)
EXAMPLES: Final = (
    "trailgate sql \"SELECT op_type, count(*) FROM 'dirdat/ot' GROUP BY 1\"",
    "trailgate sql \"SELECT * FROM 'dirdat/ot:HR.JOBS'\" --to jobs.csv",
    "trailgate sql - < report.sql",
)


@takes
def command(
    statement: Annotated[
        str | None,
        typer.Argument(
            metavar="SELECT",
            help="The statement, such as SELECT count(*) FROM 'dirdat/ot'. 'dirdat/ot:HR.JOBS' is one table of the trail, with its own columns. "
            "- reads statements from standard input; without one, a terminal gets a prompt.",
        ),
    ] = None,
    *,
    format: RowFormat = OutputFormat.TABLE,  # noqa: A002  the option's name
    to: RowsFile = None,
    definitions: DefinitionsFile = None,
    limit: Limit = None,
    wide: Wide = False,
) -> None:
    """Print the result of SELECT statements over trails. DuckDB runs them."""
    from trailgate.terminal.files import check_target
    from trailgate.terminal.standard_input import STANDARD, standard_input

    output = _Output(format, to, definitions, limit, wide)
    if to is not None:
        check_target(to, format, wide=wide)  # before anything is read
    if statement == STANDARD:
        statements, last = split_statements(_decode(standard_input().read()))
        statements += [last] if last.text else []
        if not statements:
            raise OptionError("standard input has no statement")
        if to is not None and len(statements) != 1:
            raise OptionError(
                f"--to writes the rows of one statement, but there are {len(statements)}"
            )
        for number, one in enumerate(statements, 1):
            try:
                output.answer(one.text)
            except TrailgateError as error:
                error.problem = f"statement {number} (line {one.line}): {error.problem}"
                raise
    elif statement is not None:
        output.answer(statement)
    elif sys.stdin is not None and sys.stdin.isatty():
        _converse(output)
    else:
        hint = "- reads statements from standard input"
        raise OptionError("a SELECT statement is missing", hint=hint)


def _decode(text: bytes) -> str:
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        problem = f"standard input is not UTF-8: byte {error.start} is 0x{text[error.start]:02x}"
        raise OptionError(problem) from None


@dataclass(frozen=True, slots=True)
class _Output:
    """Where and in which form ``trailgate sql`` prints or writes the rows of a statement."""

    format: OutputFormat
    to: str | None
    definitions: str | None
    limit: int | None
    wide: bool

    def answer(self, statement: str) -> None:
        """Run a SQL statement over trails, and print or write its rows."""
        from trailgate.sql.job import query
        from trailgate.terminal.batches import RowForm, print_batches
        from trailgate.terminal.files import write_and_count

        rows = query(statement, definitions=self.definitions)
        if self.to is not None:
            write_and_count(self.to, rows, self.limit)
            return
        names = rows.schema.names
        form = RowForm.of_columns(names, ROWS)
        print_batches(rows, names, form, format=self.format, limit=self.limit, wide=self.wide)


class SqlStatement(NamedTuple):
    """A SQL statement without its semicolon, and the line on which it starts."""

    text: str
    line: int


def split_statements(text: str) -> tuple[list[SqlStatement], SqlStatement]:
    """Split a text into the SQL statements that end with a semicolon, and the rest after the last statement.

    ``"SELECT 1; SELECT ';"`` is split into the statement ``SELECT 1`` and the rest ``SELECT ';``,
    because the second semicolon is inside an open string.
    """
    statements, pending, begin, line = list[SqlStatement](), "", 1, 1
    # Comments are dropped, because a semicolon in a comment does not end a statement.
    for token in TOKENS.findall(text):
        if token == ";":  # noqa: S105  no password
            statements.append(SqlStatement(pending.strip(), begin))
            pending = ""
        elif not token.startswith(("--", "/*")):
            if not pending and token.strip():
                blanks = len(token) - len(token.lstrip())
                begin = line + token[:blanks].count("\n")
            pending = (pending + token).lstrip()
        line += token.count("\n")
    return [one for one in statements if one.text], SqlStatement(pending, begin)


def _converse(output: _Output) -> None:
    """Run the SQL statements typed at the prompt of ``trailgate sql``. An error ends only its statement."""
    from trailgate.terminal.prompt import read_typed_lines

    print(BANNER)
    pending = ""
    for line in read_typed_lines(HISTORY, lambda: "  ...> " if pending else "trail> "):  # noqa: B023  asked before each line
        # Inside a statement, "exit" may be a column's name on its own line.
        if not pending and line.strip().rstrip(";").lower() in ENDS:
            return
        if not line.strip():
            pending = ""  # Ctrl-C, or an empty line, drops what was typed
        statements, rest = split_statements(f"{pending}{line}\n")
        pending = rest.text
        for statement in statements:
            try:
                output.answer(statement.text)
            except TrailgateError as error:
                print(f"error: {error}", file=sys.stderr)
            except KeyboardInterrupt:
                print("interrupted", file=sys.stderr)
