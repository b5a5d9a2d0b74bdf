"""The encoding of a message: of its mark, of the property, or declared; where two can be right it is an error."""

from __future__ import annotations

import pytest

from held_captures import xml_capture
from trailgate.errors import DecodeError, OptionError
from trailgate.formats.xml import reader as reading
from trailgate.formats.xml.encodings import utf8_of
from trailgate.messages.message_batch import messages_from

RULES = """xml.rules=o
o.type=op
o.match=/t/o
o.schemaandtable="OGG.PAIR"
o.optype="I"
o.txid=*txid
o.subrules=id,name
id.type=col
id.name="ID"
id.value=@id
name.type=col
name.name="NAME"
name.value=./text()
"""
TEXT = "<t><o id='1'>Grüße</o></t>"


def declared(encoding: str, text: str = TEXT) -> str:
    return f'<?xml version="1.0" encoding="{encoding}"?>{text}'


@pytest.fixture(params=["scanner", "tree"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read the messages by the scanner, or by their trees."""
    most = -1 if request.param == "scanner" else 1 << 30
    monkeypatch.setattr(reading, "INTERPRETED", most)


def names(body: bytes | str, properties: str = "") -> list[object]:
    """Return the names that messages give, or the text of the error."""
    parsed = xml_capture(RULES + properties).parse(messages_from([body]))
    if parsed.problems:
        return [str(problem.error) for problem in parsed.problems]
    rows = parsed.operations().to_pylist(maps_as_pydicts="strict")
    return [row["after"]["NAME"] for row in rows]


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("encoding", ["ISO-8859-1", "windows-1252", "GB18030", "UTF-16", "IBM037"])
def test_text_that_declares_another_encoding_is_an_error_unless_one_is_given(encoding: str) -> None:
    (refused,) = names(declared(encoding))
    taken = names(declared(encoding), "xml.encoding=utf-8")

    assert f"the message declares {encoding}, but its bytes are UTF-8 text" in str(refused)
    assert "xml.encoding" in str(refused)
    assert taken == ["Grüße"]


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("encoding", ["ISO-8859-1", "UTF-16", "gb18030"])
def test_bytes_of_the_declared_encoding_are_read_as_declared(encoding: str) -> None:
    assert names(declared(encoding).encode(encoding)) == ["Grüße"]


@pytest.mark.usefixtures("way")
def test_the_property_is_obeyed_whatever_is_declared() -> None:
    assert names(declared("IBM037").encode("cp037"), "xml.encoding=cp037") == ["Grüße"]
    assert names(TEXT.encode("latin-1"), "xml.encoding=ISO-8859-1") == ["Grüße"]
    assert "not utf-8 text" in str(names(TEXT.encode("latin-1"), "xml.encoding=utf-8"))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-be"])
def test_what_is_not_text_is_named_with_its_line_and_column(encoding: str) -> None:
    begin, end = "<?xml version='1.0'?>\n<t>\nüb".encode(encoding), "</t>".encode(encoding)
    wrong = b"\xff" if encoding == "utf-8" else "\udc00".encode(encoding, "surrogatepass")[-2:]

    (refused,) = names(begin + wrong + end.removeprefix(b"\xff\xfe"))

    assert f"line 3, column 3, byte {len(begin)}" in str(refused)


@pytest.mark.usefixtures("way")
def test_a_mark_is_right_whatever_the_property_is() -> None:
    assert names(b"\xef\xbb\xbf" + TEXT.encode(), "xml.encoding=ISO-8859-1") == ["Grüße"]
    assert names(declared("ISO-8859-1").encode("utf-8-sig")) == ["Grüße"]


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(
    "encoding",
    ["undefined", "idna", "punycode", "unicode_escape", "charmap", "base64", "rot13", "x"],
)
def test_what_is_not_an_encoding_of_documents_is_refused(encoding: str) -> None:
    (refused,) = names(declared(encoding))

    assert f"the encoding {encoding} is unknown" in str(refused)
    with pytest.raises(OptionError, match=f"the encoding {encoding} is unknown"):
        xml_capture(f"{RULES}xml.encoding={encoding}")


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_long_messages_are_read_in_the_same_encoding(size: int) -> None:
    def read(body: bytes, given: str = "auto") -> str:
        chunks = (body[at : at + size] for at in range(0, len(body), size))
        return b"".join(utf8_of(chunks, given)).decode()

    text = declared("ISO-8859-1", "<t>" + "a" * 2000 + "Grüße</t>")

    assert read(text.encode("latin-1")) == text
    assert read(text.encode(), "utf-8") == text
    with pytest.raises(DecodeError, match="declares ISO-8859-1, but its bytes are UTF-8 text"):
        read(text.encode())
