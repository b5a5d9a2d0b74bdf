"""The pages of SQL and of the quarantine."""

from __future__ import annotations

import html
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from browse.test_operation_pages import asking, plain
from browse.trails import plain_trail
from trailgate.browse.index import TrailIndex
from trailgate.errors import OptionError
from trailgate.sql.job import query

pytest.importorskip("starlette.testclient")
LINES = [
    {
        "body": "X,<b>bold</b>,one",
        "headers": {},
        "source": "messages/2.txt",
        "position": "00000000010000000000",
        "reason": "unknown optype value 'X' (messages/2.txt, record 1, byte 0, text '<b>bold</b>'). Known: 'I'",
    },
    {"body": "U,two", "reason": "not a date (messages/3.txt, field WHEN, text 'two'). It is none"},
    {"body": "U,tri", "reason": "not a date (messages/4.txt, field WHEN, text 'tri'). It is none"},
    {"body_base64": "WP8=", "reason": "the message is not UTF-8 text"},
    {"nobody": 1},
]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TrailIndex]:
    prefix = plain_trail(tmp_path_factory.mktemp("sql"))
    Path(f"{prefix}.quarantine.jsonl").write_text("".join(json.dumps(one) + "\n" for one in LINES))
    with TrailIndex(prefix) as found:
        found.build()
        yield found


@pytest.fixture(scope="module")
def ask(index: TrailIndex) -> Any:
    return asking(index)


def sql(statement: str) -> str:
    from urllib.parse import quote  # noqa: PLC0415  of this function alone

    return f"sql?sql={quote(statement)}"


def test_a_statement_is_answered_as_a_table(ask: Any) -> None:
    page = ask(sql("SELECT op_type, count(*) AS n FROM operations GROUP BY 1 ORDER BY 1"))

    assert "op_type n D 1 I 3 U 3" in plain(page)
    assert "3 rows." in plain(page)


def test_a_table_has_the_types_of_its_columns(ask: Any) -> None:
    page = ask(sql("SELECT max(ID) + 1 AS next, min(NAME) AS x FROM 'MY.ORDERS'"))

    assert "next x 4" in plain(page)


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("SELEC 1", "the statement cannot be understood"),
        ("DELETE FROM operations", "the statement is not a SELECT"),
        ("COPY operations TO 'x.csv'", "the statement is not a SELECT"),
        ("SELECT 1; SELECT 2", "only one statement is run at a time, not 2"),
        ("SELECT * FROM nothing", "nothing does not exist"),
        ("SELECT * FROM 'dirdat/ot'", "FROM operations has all operations, FROM 'MY."),
        ("SELECT * FROM 'MY.ORDER'", "SHOW TABLES lists the tables. Did you mean MY.ORDERS?"),
        ("SELECT * FROM read_csv('x.csv')", "trailgate sql can read them"),
        ("DROP TABLE x", "FROM operations has all operations"),
        ("SELECT * FROM '/etc/passwd.csv'", "DuckDB refuses the statement"),
        ("SELECT * FROM read_text('/etc/passwd')", "DuckDB refuses the statement"),
        ("SELECT * FROM read_csv('/etc/passwd')", "DuckDB refuses the statement"),
        ("SELECT * FROM glob('/*')", "DuckDB refuses the statement"),
        ("SELECT * FROM 'https://example.org/a.csv'", "DuckDB refuses the statement"),
        ("SET enable_external_access = true", "the statement is not a SELECT"),
    ],
)
def test_a_statement_that_is_refused_has_its_reason(ask: Any, statement: str, problem: str) -> None:
    assert problem in plain(ask(sql(statement)))


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("show tables", ["operations", "MY.NOTES", "MY.ORDERS"]),
        ("SELECT count(*) AS n FROM MY.ORDERS", ["<td>6</td>"]),
        ('SELECT count(*) AS n FROM "MY"."ORDERS" o JOIN my.notes n USING ("ID")', ["<td>0</td>"]),
        ("SELECT position FROM operations LIMIT 1", ['<a href="bytes?at=0']),
        (
            "SELECT count(*) AS n FROM information_schema.tables WHERE table_name = 'x'",
            ["<td>0</td>"],
        ),
    ],
)
def test_names_are_found_as_people_write_them(
    ask: Any, statement: str, expected: list[str]
) -> None:
    page = ask(sql(statement))

    assert [text for text in expected if text not in page] == []


def test_each_example_gives_rows(ask: Any) -> None:
    page = ask("sql")
    targets = re.findall(r'<a href="(sql\?sql=[^"]+)"', page)

    assert len(targets) == 5
    for target in targets:
        answer = ask(html.unescape(target))
        assert 'role="alert"' not in answer
        assert "<td>" in answer


def test_tables_and_columns_are_listed(ask: Any) -> None:
    page = ask("sql")

    assert 'data-insert="&#39;MY.ORDERS&#39;"' in page or "data-insert=\"'MY.ORDERS'\"" in page
    assert 'data-insert="&quot;NAME&quot;"' in page


def test_the_answer_is_saved_as_a_file(index: TrailIndex) -> None:
    from starlette.testclient import TestClient  # noqa: PLC0415  an extra

    from trailgate.browse.server import application  # noqa: PLC0415  an extra

    client = TestClient(application(index, "t"), base_url="http://127.0.0.1")
    statement = {"sql": "SELECT ID, NAME FROM 'MY.ORDERS' ORDER BY _position"}

    text = client.get("/t/answer", params={**statement, "to": "csv"})
    assert text.text.splitlines()[:3] == ["ID,NAME", "1,one", "2,"]
    raw = client.get("/t/answer", params={**statement, "to": "parquet"}).content
    assert pq.read_table(io.BytesIO(raw)).num_rows == 6
    assert client.get("/t/answer", params={**statement, "to": "exe"}).status_code == 400
    assert client.get("/t/answer", params={"sql": "DROP", "to": "csv"}).status_code == 400


def test_messages_of_the_quarantine_are_counted_by_reason(ask: Any) -> None:
    page = ask("quarantine")

    assert "not a date (field WHEN) 2" in plain(page)
    assert "unknown optype value 'X' 1" in plain(page)
    assert "Messages 1 to 5 of 5" in plain(page)
    assert "the line has no body" in plain(page)


def test_the_place_of_the_fault_is_marked(ask: Any) -> None:
    page = ask("quarantine")

    assert "<mark>X</mark>,&lt;b&gt;bold&lt;/b&gt;,one" in page
    assert "<mark>two</mark>" in page
    assert "messages/2.txt, byte 0" in page


def test_messages_of_one_reason_are_shown_alone(ask: Any) -> None:
    page = ask("quarantine?reason=not+a+date+(field+WHEN)&from=1")

    assert "Messages 2 to 2 of 2" in plain(page)
    assert "<mark>tri</mark>" in page
    assert "<mark>two</mark>" not in page


@pytest.mark.parametrize("query", ["from=x", "from=-1", "from=99999999999"])
def test_a_number_of_messages_is_one(ask: Any, query: str) -> None:
    assert "is not a number" in plain(ask(f"quarantine?{query}", 400))


def test_a_trail_without_a_quarantine_has_none(tmp_path: Path) -> None:
    with TrailIndex(plain_trail(tmp_path)) as index:
        index.build()
        assert "There is none" in asking(index)("quarantine")


@given(st.binary(max_size=200))
def test_any_quarantine_has_a_page(index: TrailIndex, raw: bytes) -> None:
    path = Path(f"{index.found.prefix}.quarantine.jsonl")
    kept = path.read_bytes()
    try:
        path.write_bytes(raw)
        asking(index)("quarantine")
    finally:
        path.write_bytes(kept)


EXTENSIONS = {
    "sqlite_scan('x.db', 't')": "sqlite_scanner",
    "delta_scan('lake')": "delta",
    "iceberg_scan('lake')": "iceberg",
    "read_xlsx('a.xlsx')": "excel",
    "read_csv('https://example.org/a.csv')": "httpfs",
    "read_parquet('s3://bucket/a.parquet')": "httpfs",
}


@pytest.mark.parametrize("table", EXTENSIONS)
def test_no_statement_loads_an_extension(ask: Any, table: str) -> None:
    """Loading one that is not installed downloads it, and one that is installed may use the network."""
    page = plain(ask(sql(f"SELECT * FROM {table}")))

    assert "DuckDB refuses the statement" in page
    with pytest.raises(
        OptionError, match=f"(?s){EXTENSIONS[table]} extension|extension {EXTENSIONS[table]}"
    ) as error:
        query(f"SELECT * FROM {table}").read_all()
    assert "so that no query uses the network" in str(error.value)


@pytest.mark.parametrize("setting", ["autoinstall", "autoload"])
def test_extensions_are_closed_wherever_users_ask(ask: Any, setting: str) -> None:
    statement = f"SELECT current_setting('{setting}_known_extensions') AS closed"

    assert "closed false" in plain(ask(sql(statement))).lower()
    assert query(statement).read_all()["closed"].to_pylist() == [False]


def test_a_file_of_rows_has_no_two_columns_of_a_name_and_no_number_that_json_lacks(
    index: TrailIndex,
) -> None:
    from starlette.testclient import TestClient  # noqa: PLC0415  an extra

    from trailgate.browse.server import application  # noqa: PLC0415  an extra

    client = TestClient(application(index, "t"), base_url="http://127.0.0.1")

    def ask(statement: str) -> Any:
        return client.get("/t/answer", params={"sql": statement, "to": "jsonl"})

    refused = ask("SELECT ID, ID AS ID FROM 'MY.ORDERS'")
    assert refused.status_code == 400
    assert "2 columns are named ID" in refused.text
    numbers = ask("SELECT 'NaN'::double AS a, 1e308 * 10 AS b, ['-inf'::double, 2.5] AS c")
    assert numbers.text == '{"a": "NaN", "b": "Infinity", "c": ["-Infinity", 2.5]}\n'
