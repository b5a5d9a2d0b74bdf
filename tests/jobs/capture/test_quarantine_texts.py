"""Promises about the lines of a quarantine: each bad message has its body, its place and the text of its own error.

``quarantine_texts.txt`` has the lines for several messages of each kind of error in each format, and the counts of the reasons.
Run this module as a program to write it again, and read what has changed.
"""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
import pytest

import trailgate
from held_captures import SHOP
from messages.test_byte_order_marks import COPYBOOK, EVENT, FIXED, RULES
from publication_files import TABLE, column, message, row, transaction
from publication_strings import STRINGS, record
from trailgate.definitions.defgen import read_sourcedefs, write_sourcedefs
from trailgate.definitions.defgen_layout import complete_table
from trailgate.errors import TrailgateError
from trailgate.model.tables import Column, Definitions, Table
from trailgate.storage.files.json_lines import parse_message_line

TEXTS: Final = Path(__file__).parent / "quarantine_texts.txt"
HEAD: Final = "==== "
TYPES: Final = complete_table(
    Table(
        "OGG.TYPES",
        (
            Column("ID", 132, 10, key=True, nullable=False),
            Column("C", 0, 3),
            Column("V", 64, 5),
            Column("D", 192, 10),
            Column("TS", 192, 26),
            Column("N", 134, 9, scale=2),
            Column("F", 143, 8),
            Column("B", 64, 4, sub_type=4),
        ),
    )
)
TABLES: Final = write_sourcedefs(
    Definitions((*read_sourcedefs(SHOP.encode()), TYPES, TABLE, *STRINGS))
)
TIME: Final = "2020-01-01 00:00:00"
LONG: Final = "a" * 70
ODD: Final = [
    "x@",
    " x@ ",
    "x'@",
    "x\\@",
    'x"@',
    "ü@",
    "\x01@",
    "ftp://u:p@h/@",
    LONG + "@",
    "\u00a0@",
]


class Form(NamedTuple):
    """One format: its properties, the files that these name, a good message, and bad ones; ``@`` is a number."""

    properties: str
    good: str | bytes
    bad: list[str | bytes]
    files: Mapping[str, str] = MappingProxyType({})
    source: str = "messages"


def text_form(
    properties: str, good: str, bad: list[str | bytes], header: str = "op,table,ts"
) -> Form:
    head = (
        f"delim.header={header}\ndelim.optype=op\ndelim.schemaandtable=table\ndelim.timestamp=ts\n"
    )
    return Form(f"parser.type=delim\ndelim.sourcedefs=shop.def\n{head}{properties}", good, bad)


def pair(values: str, table: str = "OGG.PAIR", kind: str = "I", time: str = TIME) -> str:
    return f"{kind},{table},{time},{values}"


def types(name: str, value: str) -> str:
    names = [one.name for one in TYPES.columns]
    values = ["1", "a", "b", "2020-01-01", TIME, "1.5", "2.5", "0A"]
    values[names.index(name)] = value
    return pair(",".join(values), table="OGG.TYPES")


DELIMITED: Final[list[str | bytes]] = [
    "I", "I,OGG.PAIR", "@", "I,OGG.PAIR,,1,a", "X@,OGG.PAIR,2020-01-01 00:00:00,1,a", "X,OGG.PAIR,t,1,a",
    pair("1,a", table="OGG.NO@"), pair("1,a", table="OGG.PAIRS"), pair("1,a", table=""),
    *(pair(f"{one.replace(',', '')},a") for one in ODD), pair(",a"), pair(""),
    *(pair("1,a", time=one.replace(",", "")) for one in ODD), pair("1,a", time="2020-13-01 00:00:00"), pair("1,a", time="@@@"),
    pair("99999999999999999999@,a"), pair("1.5,a"), pair("1," + "é" * 21), pair("1," + LONG), pair("1,a,b,c@"), "I,OGG.PAIR,2020-01-01 00:00:00",
    pair("1,x@,1,2020-01-01 00:00:00", table="OGG.ORDERS", kind="U"), pair("x@", table="OGG.LAST_KEY"), pair("a,x@", table="OGG.LAST_KEY"),
    *(types(name, one) for name in ("ID", "C", "V", "D", "TS", "N", "F", "B") for one in ("x@y@z@w", "99999999999@", "2020-02-30")),
    pair("1,a", kind="D", time="x@"), pair("x@,a", kind="D"), pair("x@,a", kind="U"), "\ufeffI,OGG.PAIR,x@,1,a",
    b"I,OGG.PAIR,\xff@,1,a", b"\x00\x00\x00\x00\x01abc\xff@", b"\xff\xfeI\x00,\x00@\x00", b"\xfe\xff\x00I\x00,\x00@", b"I,OGG.PAIR,2020-01-01 00:00:00,1,\xe9@",
]  # fmt: skip


def operation(image: str, table: str = "OGG.PAIR", kind: str = "I", time: str = TIME) -> str:
    return f'{{"table":"{table}","op_type":"{kind}","op_ts":"{time}","after":{image}}}'


JSON_VALUES: Final = [
    '"x@"',
    "[@]",
    '{"a":@}',
    "true",
    '"é@"',
    '" @x"',
    '"x\'@"',
    '"a\\nb@"',
    '"a\\"b@"',
    "1e400",
    f'"{LONG}@"',
    '"http://u:p@h/@"',
    '"a,b@"',
]
JSON: Final[list[str | bytes]] = [
    '{"table":@', "[@]", "@", '"@"', "null", '{"a":1}@', '{"a":@', '{"a":"\\x@"}', '{"a":01}', '{"a":"\x01@"}', "{" * 3, '{"a":' * 600 + "@" + "}" * 600,
    operation('{"ID":1}', table="OGG.NO@"), operation('{"ID":1}', kind="X@"), operation('{"ID":1}', time="x@"), operation('{"ID":1}', time=""), operation('{"ID":1}', table=""),
    operation('{"ID":1}').replace('"op_type":"I",', ""), operation('{"ID":1}').replace('"I"', "[@]"), operation('{"ID":1}').replace('"op_ts"', '"ts"'),
    *(operation(f'{{"ID":{one}}}') for one in JSON_VALUES), *(operation(f'{{"ID":1,"NAME":{one}}}') for one in JSON_VALUES),
    operation("{}"), operation('{"NAME":"@"}'), operation("[@]"), operation("null"), operation("@"), operation('{"ID":1,"NO":@}'), operation('{"ID":1,"ID":@}'), operation('{"ID":null}'),
    operation('{"ID":1}').replace('"after"', '"before"'), operation('{"ID":1}', kind="D"), operation('{"ID":"x@"}', kind="U"),
    *(operation(f'{{"ID":1,"{name}":{one}}}', table="OGG.TYPES") for name in ("C", "V", "D", "TS", "N", "F", "B") for one in ('"x@y@z@w"', "99999999999@", "false")),
    '{"a":"' + LONG + '",@', "\ufeff{@", b'{"a":"\xff@"}', b"\x00\x00\x00\x00\x01abc@", b"\xff\xfe{\x00@\x00", '{"a":"é@"', '{"table":1,"b":@,}',
]  # fmt: skip


def event(image: str, op: str = "c", time: object = 1, more: str = "") -> str:
    source = f'{{"ts_ms":{time},"schema":"OGG","table":"PAIR"{more}}}'
    return f'{{"before":null,"after":{image},"op":"{op}","source":{source}}}'


EVENTS: Final[list[str | bytes]] = [
    '{"a":@', "[@]", '{"a":@}', '{"before":null,"after":null,"op":"c"}', event('{"ID":1}', op="x@"), event('{"ID":1}', time='"x@"'),
    event('{"ID":1}', time="9999999999999999"), event('{"ID":1}', time="null"), event('{"ID":1}', time="1.5"), event('{"ID":1}', time="[@]"),
    event('{"ID":1}', more=',"x":1').replace("PAIR", "NO@"), event('{"ID":1}').replace('"source"', '"src@"'), event("null"), event("[@]"), event("{}"),
    *(event(f'{{"ID":{one}}}') for one in JSON_VALUES), *(event(f'{{"ID":1,"NAME":{one}}}') for one in JSON_VALUES), event('{"ID":1,"NO":@}'),
    event('{"ID":"x@"}', op="u"), event('{"ID":null}', op="d"), event('{"ID":null}').replace('"before":null', '"before":{"ID":null}').replace('"c"', '"u"'),
    *(event(f'{{"ID":1,"{name}":{one}}}').replace("PAIR", "TYPES") for name in ("C", "V", "D", "TS", "N", "F", "B") for one in ('"x@y@z@w"', "99999999999@", "false")),
    b'{"a":"\xff@"}', b"\x00\x00\x00\x00\x01abc@",
]  # fmt: skip
XML_ROOT: Final = "<t><o>{}</o></t>"
XML: Final[list[str | bytes]] = [
    "<t><o@>", "<t>", "@", "<t></u@>", "<t><o><ID>@</ID></o></t>@", "<t a=1/>", "<t><o>&no@;</o></t>", "<t>\x01@</t>", "<t:@/>", "<t a='1' a='@'/>", "<t>&#0;</t>", "<!DOCTYPE t><t/>",
    "<?xml version='1.0' encoding='UTF-16'?><t>@</t>", "<?xml version='1.0' encoding='no@'?><t/>", "<?xml version='2@'?><t/>", "<?xml encoding='UTF-8'?><t>@</t>", "<t><![CDATA[@</t>", "<t><!-- -- @--></t>",
    "<é@></t>", "<t>é</u@>", "<t>" * 300 + "@", "<t" + "".join(f" a{i}='@'" for i in range(300)) + "/>",
    *(XML_ROOT.format(f"<ID>{one}</ID>") for one in ODD), *(XML_ROOT.format(f"<ID>1</ID><NAME>{one}</NAME>") for one in (LONG, "é" * 30)), XML_ROOT.format("<NAME>@</NAME>"), XML_ROOT.format("<ID>1</ID><ID>@</ID>"),
    XML_ROOT.format("<ID></ID>"), "<t><o/></t>", XML_ROOT.format("<ID> </ID>"), b"<t>\xff@</t>", b"\xff\xfe<\x00t\x00@\x00", b"<?xml version='1.0' encoding='windows-1252'?><t>\x81@</t>",
]  # fmt: skip
XML_RULES: Final = RULES.replace(
    'one.type=col\none.match=./ID\none.name="ID"', "one.type=col\none.match=./*\none.name=name()"
)
XML_HEADER: Final = (
    RULES.replace('op.schemaandtable="OGG.PAIR"', "op.schemaandtable=@table")
    .replace(
        'op.optype="I"', "op.optype=@op\nop.timestamp=@ts\nop.timestamp.format=YYYY-MM-DD HH:MI:SS"
    )
    .replace("xml.rules", "xml.rules")
)
XML_FIELDS: Final[list[str | bytes]] = [
    f"<t><o {given}><ID>{value}</ID></o></t>"
    for value in ("1", "x@")
    for given in (
        "", "table='OGG.PAIR'", "table='OGG.NO@' op='I' ts='2020-01-01 00:00:00'", "table='OGG.PAIR' op='X@' ts='2020-01-01 00:00:00'",
        "table='OGG.PAIR' op='I' ts='x@'", "table='OGG.PAIR' op='I' ts='2020-01-01 00:00:00'", "table='OGG.PAIR' op='I'", "table='' op='' ts=''", "op='I' ts='@'",
    )
]  # fmt: skip
FIXED_BAD: Final[list[str | bytes]] = [
    "I", "@", "IROW x@@ abcd", "IROW", "IROW 1", "IROW 001", "IROW 001 ab", "IROW 001 abcd   x@", "INO@ 001 abcd", "XROW 001 abcd", "IROW     abcd", "DROW x@@ abcd", "", "IROW @@x ü", b"IROW \xff@@ abcd",
    "IROW é@@ abcd", "IROW '@@ abcd", "IROW 00",
]  # fmt: skip
HEADERS: Final[list[dict[str, Any]]] = [
    {}, {"word": "REPL"}, {"word": "DLET"}, {"word": "X@"}, {"table": "NO@"}, {"lsn": ""}, {"segment": 7}, {"flag": "X@"}, {"flag": "IBM@@"},
]  # fmt: skip
PUBLISHED: Final[list[str | bytes]] = [
    *(record(values, tx="@", **given)[:-1]
    for values in (',,"a",', ',,"a",,,', '"a"', ',,"a","b@"', ',,"' + LONG * 7 + '",', '"a",,,', ",,,", ',,"a@', ',,"é@",,')
    for given in HEADERS),
    '10,"IBM",@', "11,@", "@", "<msg>@", '10,"IBM","x@","x","S","T","ISRT"', b'10,"IBM",\xff@',
]  # fmt: skip
COL: Final = column("ID", "<integer>1</integer>", key=True)
XML_PUBLISHED: Final[list[str | bytes]] = [
    "<msg>@", "@", "<a>@</a>", message(""), message("<no@/>"), transaction("<no@/>"), transaction("", more=' isLast="x@"'), transaction(row("insertRow", COL), segment=7),
    transaction(row("insertRow", COL)).replace(' cmitLSN="0000:00AA"', ""), transaction(row("insertRow", COL)).replace("cmitTime", "time"), transaction(row("insertRow", COL), commit="x@"),
    transaction(row("insertRow", COL)).replace("2026-01-31", "x@"), transaction(row("insertRow", COL)).replace("T1", "NO@"), transaction(row("insertRow", COL)).replace("srcName", "x"), transaction(row("noRow", COL)),
    *(transaction(row(kind, inner)) for kind in ("insertRow", "updateRow", "deleteRow") for inner in (
        column("ID", ""), column("ID", "<integer>x@</integer>", key=True), column("ID", "<no>1</no>"), column("NO@", "<integer>1</integer>"), COL + COL, "", column("ID", "x@"), "<x@/>",
        column("ID", "<integer>1</integer><integer>@</integer>"), column("ID", "<afterVal><integer>x@</integer></afterVal>"), column("ID", "<beforeVal><integer>1</integer></beforeVal>"), column("ID", "<integer xsi:nil='1'/>", key=True),
        COL + column("V", f"<varchar>{LONG}</varchar>"), COL + column("TS", "<timestamp>x@</timestamp>"), COL + column("D", "<date>2020-02-30</date>"), COL + column("N", "<decimal>x@</decimal>"), COL + column("F", "<double>x@</double>"),
        COL + column("B", "<varchar bitData='1'>x@</varchar>"), COL.replace('name="ID"', ""), COL.replace("integer>1", "integer>'@"),
    )),
    transaction(row("insertRow", COL, more=' hasLOBCols="x@"')), transaction(row("insertRow", COL, more=' hasLOBCols="1"')), b"<msg>\xff@</msg>", "<!DOCTYPE a><msg/>", b"\xff\xfe<\x00@\x00",
    message('<heartbeat sendQName="Q" lastCommitTime="x@"/>'), message('<lob isLast="1" @/>'), message("<subSchema/>"), message("<errorRpt msgText='@'/>"), transaction(row("insertRow", COL))[:-9],
]  # fmt: skip

ROWS: Final = "parser.type=json\njson.sourcedefs=shop.def\n"
PUBLICATION: Final = "parser.type=event_publishing\nevent_publishing.sourcedefs=shop.def\n"
FORMS: Final = {
    "delimited": text_form("", pair("1,a"), DELIMITED),
    "delimited, quotes": text_form('delim.quote="\n', pair("1,a"), [*DELIMITED, 'I,"OGG.PAIR,@', pair('"1"x,@'), pair('x@,"a""b"'), '"x@","OGG.PAIR",t,1', pair('"x,@",a')]),
    "delimited, befores and names": text_form(
        "delim.hasbefores=true\ndelim.hasnames=true\n", pair("ID,,1,NAME,,a"),
        [pair("ID,,x@,NAME,,a"), pair("ID,x@,1,NAME,,a"), pair("ID,x@,1,NAME,,a", kind="U"), pair("ID,,1,NAME,b", kind="U"), pair("IDX@,,1,NAME,,a"), pair("ID,,1,NO@,,a"), pair("ID,,1,NAME,@,a", kind="U"), pair("ID,,1"), pair("ID,,1,NAME,,a", kind="D")],
    ),
    "delimited, several records": text_form("delim.linedelim=;\n", pair("1,a"), [f"{pair('1,a')};{one}" for one in (pair("x@,a"), "I", pair("1,a", time="x@"), pair("1,a", table="NO@"), pair("x@,a") + ";" + pair("y@,a"), pair("1,a,b,c"))]),
    "delimited, formats": text_form("delim.timestamp.format=YYYY-MM-DD HH:MI:SS.FFF\ndelim.dateformat=DD.MM.YYYY\n", pair("1,a", time="2020-01-01 00:00:00.000"), [pair("1,a", time="x@"), pair("1,a"), types("D", "x@").replace(TIME, TIME + ".000", 1), types("TS", "2020-01-01").replace(TIME, TIME + ".000", 1)]),
    "delimited, indicators": text_form("delim.txind=ind\ndelim.txid=tx\n", f"I,OGG.PAIR,{TIME},1,W,1,a", [f"I,OGG.PAIR,{TIME},{tx},{ind},{value},a" for tx, ind, value in (("1", "X@", 1), ("1", "B", 1), ("1", "M", "x@"), ("2", "E", 1), ("", "W", 1), ("3", "M", 1), ("3", "E", 1), ("4", "B", 1), ("5", "B", 1), ("5", "E", 1), ("@", "W", "x@"), ("6", "B", "x@"), ("6", "M", 1), ("6", "E", 1))], "op,table,ts,tx,ind"),
    "fixed width": Form(f"parser.type=fixed\n{FIXED}", "IROW 001 abcd", FIXED_BAD, {"a.cpy": COPYBOOK}),
    "fixed width, UTF-8": Form(f"parser.type=fixed\n{FIXED}fixed.codepage=utf-8\n", "IROW 001 abcd", FIXED_BAD, {"a.cpy": COPYBOOK}),
    "JSON": Form(f"{ROWS}json.model=op\n", operation('{"ID":1}'), JSON),
    "JSON, rows": Form(f"{ROWS}json.model=row\n", '{"table":"OGG.PAIR","op_type":"I","op_ts":"2020-01-01 00:00:00","ID":1}', [*JSON, *('{"table":"OGG.PAIR","op_type":"I","op_ts":"2020-01-01 00:00:00",' + one for one in ('"ID":"x@"}', '"ID":1,"NO@":1}', '"NAME":"@"}', '"ID":{"a":@}}'))]),
    "change events": Form("parser.type=debezium\ndebezium.sourcedefs=shop.def\ndebezium.txid=*txid\n", EVENT, EVENTS),
    "change events of transactions": Form("parser.type=debezium\ndebezium.sourcedefs=shop.def\ndebezium.txid=source.txId\n", event('{"ID":1}', more=',"txId":1'), [*EVENTS, *(event(image, more=f',"txId":{tx}') for image, tx in (('{"ID":"x"}', 5), ('{"ID":1}', 5), ('{"ID":1}', "null"), ('{"ID":"x@"}', "6@"), ('{"ID":1}', "7")))]),
    "XML": Form(f"parser.type=xml\nxml.sourcedefs=shop.def\n{RULES}", "<t><o><ID>1</ID></o></t>", XML),
    "XML, names": Form(f"parser.type=xml\nxml.sourcedefs=shop.def\n{XML_RULES}", "<t><o><ID>1</ID></o></t>", [*XML, XML_ROOT.format("<NO@>1</NO@>"), XML_ROOT.format("<ID>1</ID><X/>")]),
    "XML, fields": Form(f"parser.type=xml\nxml.sourcedefs=shop.def\n{XML_HEADER}", "<t><o table='OGG.PAIR' op='I' ts='2020-01-01 00:00:00'><ID>1</ID></o></t>", XML_FIELDS),
    "publications": Form(PUBLICATION, record(',,"a",', tx="9")[:-1], PUBLISHED),
    "publications of rows": Form(f"{PUBLICATION}event_publishing.content=row\n", record(',,"a",', tx="9")[:-1], PUBLISHED),
    "XML publications": Form(PUBLICATION, transaction(row("insertRow", COL)), XML_PUBLISHED),
    "JSON, headers": Form(f"{ROWS}json.model=row\njson.optype=$op\njson.txid=$tx\n", '{"body":"{\\"table\\":\\"OGG.PAIR\\",\\"op_ts\\":\\"2020-01-01 00:00:00\\",\\"ID\\":1}","headers":{"op":"I","tx":"1"}}', ["@", "[@]", '{"a":@}', '{"body":@}', '{"body":null}', '{"body":"\\ud800@"}', '{"body_base64":"x@"}', '{"body":"@","headers":[1]}', '{"body":"@","headers":{"a":@,"é":"\\n\\u0001"}}', '{"body":"{\\"table\\":\\"OGG.PAIR\\"}"}', '{"body":"{\\"table\\":\\"OGG.NO\\"}","headers":{"op":"I","tx":""}}', '{"body_base64":"//79/A==","headers":{"op":"X@"}}', '{"body":"a\\tb\\u007f@\\u0001"}'], source="messages.jsonl"),
}  # fmt: skip


def numbered(text: str | bytes, number: int) -> bytes:
    raw = text if isinstance(text, bytes) else text.encode()
    return raw.replace(b"@", str(number).encode())


def lines_of(form: Form) -> list[bytes]:
    """Return good and bad messages: two of each bad one, with a good one before every second pair."""
    lines: list[bytes] = []
    for at, bad in enumerate(form.bad):
        lines += [numbered(form.good, 0)] * (1 - at % 2)
        lines += [numbered(bad, 2 * at), numbered(bad, 2 * at + 1)]
    return lines


def quarantined(name: str, folder: Path) -> list[str]:
    """Return the texts of a form's quarantined messages with their places, and the counts of the reasons.

    What is not among them, such as the bodies, is compared with its oracle: the line is what ``json`` writes.
    """
    form = FORMS[name]
    (folder / "shop.def").write_bytes(TABLES)
    (folder / "p.properties").write_text(form.properties)
    for file, content in form.files.items():
        (folder / file).write_text(content)
    messages, lines = folder / form.source, lines_of(form)
    messages.write_bytes(b"\n".join(lines) + b"\n")
    summary = trailgate.capture_files(
        messages,
        folder / "dirdat/ot",
        folder / "p.properties",
        message_per="line",
        on_error="quarantine",
        unordered_ids=True,
        base=folder,
    )
    assert summary.quarantine is not None
    found = [f"{count} {reason}" for reason, count in summary.reasons.items()]
    begins = np.cumsum([0, *(len(line) + 1 for line in lines)]).tolist()
    at_byte = dict(zip(begins, lines, strict=False))
    for line in (folder / "dirdat" / Path(summary.quarantine).name).read_bytes().splitlines():
        fields = json.loads(line)
        place, offset = fields["position"], int(fields["position"][10:])
        own = json_oracle(at_byte[offset], form.source)
        rest = {"source": str(messages), "position": place, "reason": fields["reason"]}
        assert line == json.dumps(own | rest, ensure_ascii=False).encode(
            "utf-8", "backslashreplace"
        )
        found.append(f"{offset} {json.dumps(fields['reason'])}")
    return [text.replace(str(folder), "") for text in found]


def json_oracle(raw: bytes, source: str) -> dict[str, object]:
    """Return the body and the headers of the message in a line."""
    headers: dict[str, str] = {}
    if source.endswith(".jsonl"):
        try:
            raw, headers = parse_message_line(raw)  # type: ignore[assignment]
        except TrailgateError:
            headers = {}
    try:
        return {"body": raw.decode(), "headers": dict(headers)}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(raw).decode(), "headers": dict(headers)}


@pytest.mark.parametrize("name", FORMS)
def test_quarantined_lines_have_the_known_texts(name: str, tmp_path: Path) -> None:
    expected = {
        part.partition("\n")[0]: part.splitlines()[1:] for part in TEXTS.read_text().split(HEAD)[1:]
    }

    assert quarantined(name, tmp_path) == expected[name]


if __name__ == "__main__":
    with TEXTS.open("w") as file:
        for one in FORMS:
            with tempfile.TemporaryDirectory() as made:
                file.write("\n".join([f"{HEAD}{one}", *quarantined(one, Path(made)), ""]))
