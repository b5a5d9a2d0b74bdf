"""The workbench shows what a capture makes of what is typed, at the place of each fault; it reads and writes no more than the command names."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trailgate
from browse.trails import HOSTILE, plain_trail
from laws import examples
from trailgate.browse.index import TrailIndex
from trailgate.browse.message_views import format_message
from trailgate.cli.commands.demo import unpack
from trailgate.cli.main import run

testing = pytest.importorskip("starlette.testclient")
server = pytest.importorskip("trailgate.browse.server")
workbench = pytest.importorskip("trailgate.browse.workbench")

TOKEN = "a-token"
HERE = "http://127.0.0.1:8000"
PAGE = f"/{TOKEN}/workbench"
FORM = "application/x-www-form-urlencoded"
ORDER = "I,GG.SHOP_ORDERS,2026-01-05 09:12:30,T-2,NULL,{},NULL,JANE,NULL,BOAT,NULL,2,NULL,{},NULL,2026-01-05 09:12:28\n"
COPYBOOK = """\
       01  HEADER.
           05  HDR-FUNCTION       PIC X.
           05  HDR-RECORD         PIC X(7).
       01  ACCOUNT.
           05  ACCOUNT-ID         PIC 9(4).
           05  BALANCE            PIC S9(5)V99 COMP-3.
"""
FIXED = """\
parser.type=fixed
fixed.copybook=account.cpy
fixed.header=HEADER
fixed.schema=BANK
fixed.optype=HDR-FUNCTION
fixed.table=HDR-RECORD
fixed.codepage=cp037
fixed.records=message
"""
XML = """\
parser.type=xml
xml.userdefs.tables=A.B
xml.userdefs.A.B.columns=ID
xml.userdefs.A.B.ID=vchar 10
xml.rules=op
op.type=op
op.match=/row
op.optype="I"
op.schemaandtable="A.B"
op.subrules=col
col.type=col
col.match=./id
col.name="ID"
col.value=text()
"""


class Page(HTMLParser):
    """A page's fields with their values, and the texts of elements by class."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.fields: dict[str, list[str]] = {}
        self.ids: dict[str, str] = {}
        self.labels: list[str] = []
        self.tags: list[str] = []
        self.handlers: list[str] = []
        self.area: str | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = {name: value or "" for name, value in attrs}
        self.tags.append(tag)
        self.handlers += [name for name in known if name.startswith("on")]
        if tag == "label":
            self.labels.append(known.get("for", ""))
        if tag in ("textarea", "input", "select") and known.get("type") not in (
            "hidden",
            "checkbox",
        ):
            self.ids[known["id"]] = known["name"]
        if tag == "input":
            self.fields.setdefault(known["name"], []).append(known.get("value", ""))
        if tag == "textarea":
            self.area = known["name"]
            self.fields.setdefault(self.area, []).append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea":
            self.area = None

    def handle_data(self, data: str) -> None:
        if self.area is not None:
            self.fields[self.area][-1] += data

    def value(self, name: str) -> str:
        return self.fields[name][0].removeprefix("\n")


def client_of(bench: Any) -> Any:
    application = server.application(None, TOKEN, bench=bench)
    return testing.TestClient(application, base_url=HERE, follow_redirects=False)


def post(client: Any, origin: str | None = HERE, path: str = PAGE, **given: Any) -> Any:
    headers = {"content-type": FORM} | ({} if origin is None else {"origin": origin})
    return client.post(path, content=urlencode(given, doseq=True), headers=headers)


def result(client: Any, **given: Any) -> str:
    answer = post(client, part="result", **given)
    assert answer.status_code == 200
    return str(answer.text)


def faults(text: str) -> list[tuple[str, int, int, int]]:
    """Return where the faults of a result are: field, line, column and length."""
    listed = text.partition('<ul class="faults">')[2].partition("</ul>")[0]
    found = re.findall(
        r'class="go" data-pane="(\w+)" data-line="(\d+)" data-column="(\d+)" data-length="(\d+)"',
        listed,
    )
    return [(pane, *map(int, place)) for pane, *place in found]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    unpack(tmp_path / "shop")
    monkeypatch.chdir(tmp_path / "shop")
    return tmp_path / "shop"


@pytest.fixture
def client(shop: Path) -> Any:
    return client_of(workbench.Workbench("dirprm/shop.properties", "messages"))


@pytest.fixture
def empty() -> Any:
    return client_of(workbench.Workbench())


@pytest.fixture
def texts(client: Any) -> dict[str, Any]:
    """Return the fields of the page as it is opened."""
    page = Page(client.get(PAGE).text)
    return {
        "properties": page.value("properties"),
        "file_name": page.fields["file_name"],
        "file_text": [text.removeprefix("\n") for text in page.fields["file_text"]],
    }


def test_the_page_shows_files_as_they_are_and_what_they_make_of_the_first_message(
    client: Any, shop: Path
) -> None:
    answer = client.get(PAGE)
    page = Page(answer.text)

    assert page.value("properties") == (shop / "dirprm/shop.properties").read_text()
    assert page.value("file_name") == "dirdef/shop.def"
    assert page.value("file_text") == (shop / "dirdef/shop.def").read_text()
    assert page.value("message") == (shop / "messages/0001-customers.txt").read_text()
    assert "5 operations of 1 table" in answer.text
    assert "BG SOFTWARE CO." in answer.text


def test_each_field_has_a_label(client: Any) -> None:
    page = Page(client.get(PAGE).text)

    assert len(page.ids) >= 7
    assert set(page.ids) <= set(page.labels)


def test_before_and_after_of_a_columns_fields_are_named(client: Any, texts: dict[str, Any]) -> None:
    text = result(client, message=ORDER.format(1, "1.50"), **texts)

    assert not faults(text)
    assert 'title="PRICE, before">NULL<' in text
    assert 'title="PRICE, after">1.50<' in text
    assert 'title="tx, transaction">T-2<' in text


def test_an_update_shows_before_and_after(client: Any, texts: dict[str, Any]) -> None:
    row = "U,GG.JMSCAP_TCUSTMER,2026-01-06 08:00:11,T-4,ANN,ANN,A,A,SEATTLE,NEW YORK,WA,\n"
    text = result(client, message=row, **texts)

    assert re.search(
        r'class="changed"><dt>CITY</dt><dd><span class="old">SEATTLE</span>.*NEW YORK', text
    )
    assert '<span class="empty">empty</span>' in text


def test_each_line_of_properties_that_is_wrong_is_a_fault_at_it(empty: Any) -> None:
    properties = "parser.type=delim\ndelim.headr=a\n\nnonsense\ndelim.hasbefores=maybe\n"

    found = faults(result(empty, properties=properties, message="x"))

    assert [place[:2] for place in found] == [
        ("properties", 2),
        ("properties", 4),
        ("properties", 5),
    ]


def test_properties_that_contradict_each_other_are_a_fault_at_their_line(
    client: Any, texts: dict[str, Any]
) -> None:
    texts["properties"] = texts["properties"].replace("delim.optype=optype", "delim.optype=kind")

    ((pane, line, *_),) = faults(result(client, message="I", **texts))

    assert pane == "properties"
    assert texts["properties"].split("\n")[line - 1] == "delim.optype=kind"


def test_each_record_that_is_wrong_is_a_fault_at_its_value(
    client: Any, texts: dict[str, Any]
) -> None:
    rows = [ORDER.format(1, "x.5"), ORDER.format(2, "2.50"), ORDER.format("é", "1")]

    text = result(client, message="".join(rows), **texts)

    price, number = rows[0].index("x.5") + 1, rows[2].index("é") + 1
    assert faults(text) == [("message", 1, price, 3), ("message", 3, number, 1)]
    assert "<mark>x.5</mark>" in text
    assert "a capture refuses this message" in text
    assert 'class="damaged"' in text


@pytest.mark.parametrize(
    ("form", "message", "place"),
    [
        ("lf", "{0}{1}", ("message", 2)),
        ("crlf", "{0}{1}", ("message", 2)),
    ],
)
def test_a_fault_is_at_its_line_however_lines_end(
    client: Any, texts: dict[str, Any], form: str, message: str, place: tuple[str, int]
) -> None:
    rows = ORDER.format(1, "1.50"), ORDER.format(2, "2,5")
    text = message.format(rows[0], rows[1].replace("2,5", "2x5"))

    (found,) = faults(result(client, message=text, form=form, **texts))

    assert found == (*place, rows[1].index("2,5") + 1, 3)


def test_a_definitions_file_is_edited_and_its_faults_are_at_its_lines(
    client: Any, texts: dict[str, Any]
) -> None:
    whole = texts["file_text"][0]
    message = ORDER.format(1, "1.50")
    texts["file_text"][0] = whole.replace("PRICE ", "COST  ")
    assert 'title="COST, after">1.50<' in result(client, message=message, **texts)

    texts["file_text"][0] = whole.replace("ORDER_ID    134", "ORDER_ID    x34")
    ((pane, line, *_),) = faults(result(client, message=message, **texts))

    assert pane == "file0"
    assert "x34" in texts["file_text"][0].split("\n")[line - 1]


def test_fixed_width_fields_are_shown_over_their_bytes(empty: Any) -> None:
    body = "IACCOUNT0001".encode("cp037") + bytes.fromhex("0010050c")
    given = {"properties": FIXED, "file_name": "account.cpy", "file_text": COPYBOOK, "form": "hex"}

    text = result(empty, message=body.hex(" "), **given)

    assert not faults(text)
    assert 'title="HDR-RECORD, table">ACCOUNT<' in text
    assert re.search(r'12-15</td><th scope="row">BALANCE.*packed.*<code>00 10 05 0c</code>', text)
    assert "<dt>BALANCE</dt><dd>100.50</dd>" in text

    bad = result(empty, message=body.hex(" ").replace("05 0c", "\n05 0a"), **given)
    assert not faults(bad)  # a sign as mainframes print it
    wrong = result(empty, message=body.hex(" ").replace("05 0c", "\nfx 0c"), **given)
    assert faults(wrong) == [("message", 2, 1, 1)]
    unpacked = result(empty, message=body.hex(" ").replace("00 10 05 0c", "\n00 1a 05 0c"), **given)
    assert faults(unpacked)[0][:3] == ("message", 2, 1)


def test_matches_of_rules_and_rules_without_a_match_are_shown(empty: Any) -> None:
    found = result(empty, properties=XML, message="<row>\n<id>7</id></row>")
    missed = result(empty, properties=XML.replace("./id", "./Id"), message="<row><id>7</id></row>")

    assert 'data-pane="message" data-line="2"' in found
    assert "1 operation of 1 table" in found
    assert "matches nothing: <code>./Id</code>; the message has id" in missed
    assert 'data-pane="properties" data-line="12"' in missed


def test_a_message_that_is_not_well_formed_is_a_fault_at_its_line(empty: Any) -> None:
    assert faults(result(empty, properties=XML, message="<row>\n<id>7</x></row>"))[0][:3] == (
        "message",
        2,
        8,
    )


def test_headers_of_the_message_are_taken(empty: Any) -> None:
    properties = XML.replace('op.schemaandtable="A.B"', "op.schemaandtable=$TABLE")

    text = result(empty, properties=properties, message="<row/>", headers="TABLE = A.B\n")

    assert "1 operation of 1 table" in text


def test_a_file_that_is_not_on_the_page_is_not_read(client: Any, shop: Path) -> None:
    other = shop / "other.def"
    other.write_text((shop / "dirdef/shop.def").read_text())
    properties = (shop / "dirprm/shop.properties").read_text()
    changed = properties.replace("dirdef/shop.def", str(other))

    text = result(client, properties=changed, message=ORDER.format(1, "1"))

    assert faults(text)[0][:2] == ("properties", 3)
    assert f"the page has no file {other}" in text
    assert "operations of" not in text


def test_members_of_a_copybook_are_those_of_the_commands_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.properties").write_text(FIXED)
    (tmp_path / "account.cpy").write_text(
        COPYBOOK.partition("       01  ACCOUNT")[0] + " COPY REST.\n"
    )
    (tmp_path / "REST.cpy").write_text("       01  ACCOUNT" + COPYBOOK.partition("01  ACCOUNT")[2])
    own = client_of(workbench.Workbench("p.properties"))
    page = Page(own.get(PAGE).text)
    given = {
        "properties": FIXED,
        "file_name": "account.cpy",
        "file_text": page.value("file_text"),
    }

    assert "The properties can be read" in result(own, **given)
    assert faults(result(client_of(workbench.Workbench()), **given))


def test_only_messages_of_the_folder_are_loaded(client: Any, shop: Path) -> None:
    (shop / "secret").write_text("SECRET")
    (shop / "messages/.hidden").write_text("SECRET")

    loaded = post(client, do="load", chosen="0003-order.txt")
    refused = [
        post(client, do="load", chosen=name) for name in ("../secret", "/etc/passwd", ".hidden", "")
    ]

    assert Page(loaded.text).value("message").startswith("I,GG.SHOP_ORDERS")
    assert all("the folder has no message" in answer.text for answer in refused)
    assert not any("SECRET" in answer.text or "root:" in answer.text for answer in refused)


@pytest.mark.parametrize("origin", [None, "null", "http://evil.example", "http://127.0.0.1:9"])
def test_only_a_page_of_the_server_posts(client: Any, origin: str | None) -> None:
    assert post(client, origin, message="x").status_code == 403


@pytest.mark.parametrize("path", ["", "workbench.js", "workbench/", "operations"])
def test_nothing_else_is_posted_to(client: Any, path: str) -> None:
    assert post(client, path=f"/{TOKEN}/{path}").status_code == 405
    assert post(client, path="/b-token/workbench").status_code == 404
    assert client.put(PAGE, headers={"origin": HERE}).status_code == 405


def test_a_trail_without_the_workbench_takes_nothing(tmp_path: Path) -> None:
    with TrailIndex(plain_trail(tmp_path)) as index:
        own = testing.TestClient(server.application(index, TOKEN), base_url=HERE)
        assert post(own, message="x").status_code == 405
        assert own.get(PAGE).status_code == 404
        assert "Workbench" not in own.get(f"/{TOKEN}/").text


def test_a_trail_with_the_workbench_has_both(tmp_path: Path) -> None:
    with TrailIndex(plain_trail(tmp_path)) as index:
        index.build()
        application = server.application(index, TOKEN, bench=workbench.Workbench())
        own = testing.TestClient(application, base_url=HERE)
        assert 'href="workbench"' in own.get(f"/{TOKEN}/").text
        assert 'href="operations"' in own.get(PAGE).text


def test_more_than_the_limit_is_refused(empty: Any) -> None:
    assert post(empty, message="x" * (workbench.POSTED + 1)).status_code == 413


@pytest.mark.parametrize("content", [b"\xff\xfe", b"message=%ff", b"&".join([b"a=b"] * 200)])
def test_what_is_not_the_form_is_refused(empty: Any, content: bytes) -> None:
    headers = {"content-type": FORM, "origin": HERE}

    assert empty.post(PAGE, content=content, headers=headers).status_code == 400


@pytest.mark.parametrize("text", [HOSTILE, "</textarea><script>", "'\"><img src=x onerror=1>"])
def test_hostile_texts_are_shown_as_they_are(empty: Any, text: str) -> None:
    plain = text.replace("\0", "")
    given: dict[str, Any] = {
        "message": f"I|A.B|{plain}|{plain}",
        "properties": f"parser.type=delim\n{plain}={plain}\ndelim.header={plain}\n",
        "headers": plain,
        "earlier": plain,
        "file_name": [plain, plain],
        "file_text": [plain, plain],
        "chosen": plain,
        "save_name": plain,
    }
    for asked in ("try", "load", "save", "back", "propose"):
        answer = post(empty, do=asked, **given)
        page = Page(answer.text)

        assert answer.status_code == 200
        assert page.tags.count("script") == 2  # the page's own
        assert "img" not in page.tags
        assert page.value("message") == given["message"]
        assert not page.handlers


def test_hostile_values_are_shown_as_they_are(empty: Any) -> None:
    message = "I|A.B|<script>alert(1)</script>|x\nI|A.B|</pre><b>|y\n"
    page = Page(post(empty, do="propose", message=message).text)
    text = result(empty, properties=page.value("properties"), message=message)

    assert "2 operations" in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "<script" not in text
    assert "<b>" not in text


def test_the_page_forbids_what_is_from_elsewhere_and_its_form_states_its_origin(
    client: Any,
) -> None:
    answer = client.get(PAGE)

    assert "form-action 'self'" in answer.headers["content-security-policy"]
    assert '<meta name="referrer" content="same-origin">' in answer.text
    assert not re.findall(r"<script(?! type=\"module\" src=)|\son\w+=|style=", answer.text)
    for name in ("workbench.js", "workbench.css"):
        assert client.get(f"/{TOKEN}/{name}").status_code == 200


def test_from_a_message_alone_to_a_trail(empty: Any, tmp_path: Path) -> None:
    message = ORDER.format(1, "1.50")
    proposed = Page(post(empty, do="propose", message=message).text)
    kept = post(empty, do="download", properties=proposed.value("properties"))

    assert kept.headers["content-disposition"] == 'attachment; filename="capture.properties"'
    (tmp_path / "p.properties").write_bytes(kept.content)
    (tmp_path / "messages").mkdir()
    (tmp_path / "messages/1").write_text(message)
    paths = ["--from", str(tmp_path / "messages"), "--to", str(tmp_path / "ot")]
    assert run(["capture", "--properties", str(tmp_path / "p.properties"), *paths]) == 0
    rows = [row for one in trailgate.read_trail(str(tmp_path / "ot")) for row in one.to_pylist()]
    assert [row["table"] for row in rows] == ["GG.SHOP_ORDERS"]
    assert dict(rows[0]["after"])["COL5"] == "1.50"


def test_the_properties_before_a_proposal_can_be_taken_back(empty: Any) -> None:
    page = Page(post(empty, do="propose", message="I|A.B|1", properties="# mine\n").text)
    assert page.value("properties").startswith("# Proposed")
    assert page.value("earlier") == "# mine\n"

    fields = {name: page.value(name) for name in ("properties", "earlier", "message")}
    back = Page(post(empty, do="back", **fields).text)

    assert back.value("properties") == "# mine\n"
    assert back.value("earlier") == fields["properties"]


def test_a_failed_proposal_keeps_the_properties(empty: Any) -> None:
    answer = post(empty, do="propose", message="nothing", properties="# mine\n")

    assert "no delimiter occurs" in answer.text
    assert Page(answer.text).value("properties") == "# mine\n"


def test_properties_are_saved_only_where_the_command_allows_it(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    folder.mkdir()
    client = client_of(workbench.Workbench(save_to=str(folder)))
    given = {"do": "save", "save_name": "p.properties"}

    assert "Saved as" in post(client, properties="# one", **given).text
    assert "exists already" in post(client, properties="# two", **given).text
    assert (folder / "p.properties").read_text() == "# one\n"
    assert "Saved as" in post(client, properties="# two", overwrite="on", **given).text
    assert (folder / "p.properties").read_text() == "# two\n"
    for name in ("../p", "/tmp/p", "a/b", ".x", "", "a\0b"):
        answer = post(client, properties="# x", do="save", save_name=name, overwrite="on")
        assert "is not a valid name" in answer.text
    assert "is not a valid name" in post(client_of(workbench.Workbench()), **given).text
    assert [path.name for path in folder.rglob("*")] == ["p.properties"]


@pytest.mark.parametrize("overwrite", ["on", ""])
@pytest.mark.parametrize("exists", [True, False])
def test_properties_are_not_saved_through_a_link(
    tmp_path: Path, overwrite: str, *, exists: bool
) -> None:
    folder, other = tmp_path / "kept", tmp_path / "other.properties"
    folder.mkdir()
    if exists:
        other.write_text("# other\n")
    (folder / "p.properties").symlink_to(other)
    client = client_of(workbench.Workbench(save_to=str(folder)))
    given = {"do": "save", "save_name": "p.properties", "overwrite": overwrite}

    assert "is a link to another file" in post(client, properties="# x", **given).text
    assert other.exists() == exists
    assert not exists or other.read_text() == "# other\n"


@settings(max_examples=examples(200))
@given(st.one_of(st.binary(), st.text(alphabet="a\r\n\0é\ufeff").map(str.encode)))
def test_a_message_on_the_page_is_the_same_message(raw: bytes) -> None:
    text, form = format_message(raw)
    sheet = workbench.Sheet(message=text, form=form)

    assert "\r" not in text  # which a page's field would lose
    assert sheet.body == raw
    assert [sheet.index(at) for at in range(len(raw))] == sorted(map(sheet.index, range(len(raw))))


LINES = st.sampled_from(
    [
        *XML.splitlines(),
        *FIXED.splitlines(),
        "parser.type=delim",
        "delim.header=op,table",
        "delim.optype=op",
        "delim.schemaandtable=table",
        "delim.sourcedefs=x.def",
        "delim.userdefs.tables=A.B",
        "delim.userdefs.A.B.columns=ID",
        "delim.userdefs.A.B.ID=vchar 3",
        "parser.type=json",
        "parser.type=debezium",
        "parser.type=event_publishing",
        "=",
        "\\x",
    ]
)


@settings(max_examples=examples(150))
@given(
    st.lists(LINES, max_size=12).map("\n".join),
    st.sampled_from(
        ["", "I,A.B,1\n", "I,A.B,longer\nx", "<row><id>1</id></row>", "{}", "f2 0", "\0"]
    ),
    st.sampled_from(["lf", "crlf", "hex", "other"]),
)
def test_any_texts_give_a_page(properties: str, message: str, form: str) -> None:
    client = client_of(workbench.Workbench())

    text = result(
        client,
        properties=properties,
        message=message,
        form=form,
        file_name=["x.def", "account.cpy"],
        file_text=["*", COPYBOOK],
    )

    assert 'role="status"' in text


def test_the_command_serves_the_workbench_alone(shop: Path) -> None:
    line = [sys.executable, "-m", "trailgate", "browse", "--properties", "dirprm/shop.properties"]
    with subprocess.Popen(
        [*line, "--no-open"], cwd=shop, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        with urlopen(process.stdout.readline().strip()) as answer:
            assert answer.url.endswith("/workbench")
            assert "dirprm/shop.properties" in answer.read().decode()
        process.send_signal(2)

    assert process.returncode == 0


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ([], "there is nothing to show"),
        (["--properties", "absent"], "cannot read the properties"),
        (["--messages", "absent"], "no such folder"),
        (["--save-to", "absent"], "no such folder"),
    ],
)
def test_what_is_not_there_is_an_error_of_the_command(
    given: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["browse", *given, "--no-open"]) != 0
    assert problem in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ("I,GG", "X,GG", "optype"),
        ("GG.SHOP_ORDERS", "GG.SHIPS", "tablename"),
        ("2026-01-05 09:12:30", "2026-13-05", "ts"),
        ("2026-01-05 09:12:30", '"2026-13-05"', "ts"),
        ("2026-01-05 09:12:30", "", "ts"),
        ("T-2", "", "tx"),
    ],
)
@pytest.mark.parametrize("before", ["", ORDER.format(1, "1.50")], ids=["first", "second"])
def test_a_bad_value_of_the_header_is_marked_at_its_field(
    client: Any, texts: dict[str, Any], old: str, new: str, name: str, before: str
) -> None:
    good = ORDER.format(2, "2.50")
    bad = good.replace(old, new, 1)
    value = new.removesuffix(",GG")

    text = result(client, message=before + bad, **texts)

    assert faults(text) == [("message", 2 if before else 1, good.index(old) + 1, len(value) or 1)]
    assert value in re.findall("<mark>(.*?)</mark>", text.replace("&#34;", '"')) or not value
    (damaged,) = re.findall(
        r'<tr class="damaged"><td class="n">(\d+).*?<th scope="row">(\w+)', text
    )
    assert damaged == (str(len(before) + good.index(old)), name)


def test_a_form_of_times_that_fits_no_message_is_marked_at_the_times(
    client: Any, texts: dict[str, Any]
) -> None:
    texts["properties"] = re.sub(
        r"(delim.timestamp.format)=.*", r"\1=DD.MM.YYYY", texts["properties"]
    )

    text = result(client, message=ORDER.format(1, "1.50"), **texts)

    assert faults(text) == [("message", 1, 18, 19)]
    assert re.search(r'<tr class="damaged"><td class="n">17-35</td><th scope="row">ts ', text)


@pytest.mark.parametrize(
    ("bad", "field"), [("XACCOUNT", "HDR-FUNCTION"), ("IACCOUNX", "HDR-RECORD")]
)
def test_a_bad_value_of_a_fixed_header_is_marked_at_its_field(
    empty: Any, bad: str, field: str
) -> None:
    body = f"{bad}0001".encode("cp037") + bytes.fromhex("0010050c")
    given = {"properties": FIXED, "file_name": "account.cpy", "file_text": COPYBOOK, "form": "hex"}

    text = result(empty, message=body.hex(" "), **given)

    begin, size = (0, 1) if field == "HDR-FUNCTION" else (1, 7)
    assert faults(text) == [("message", 1, 3 * begin + 1, 3 * size)]
    assert re.search(rf'<tr class="damaged"><td class="n">{begin}\b.*?>{field} ', text)
