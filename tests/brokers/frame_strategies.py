"""Frames to be tried, and the shortest reading of them."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import strategies as st

Frame = tuple[str, dict[str, str], bytes]
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
HEADERS = st.dictionaries(
    TEXT.filter(lambda name: name not in {"", "content-length"}), TEXT, max_size=4
)
COMMANDS = st.sampled_from(["MESSAGE", "RECEIPT", "ERROR", "SURPRISE"])


@st.composite
def frames(draw: st.DrawFn) -> Frame:
    """Return a command, headers, and a body: of any bytes where its length is stated."""
    headers, body = draw(HEADERS), draw(st.binary(max_size=20))
    if draw(st.booleans()):
        headers["content-length"] = str(len(body))
    else:
        body = body.replace(b"\0", b"")
    return draw(COMMANDS), headers, body


def naive_frames(data: bytes) -> Iterator[Frame]:
    """Yield the frames of whole data, read as the specification has it."""
    while data := data.lstrip(b"\n"):
        head, _, rest = data.partition(b"\n\n")
        command, *lines = head.decode().split("\n")
        headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[_plain(name)] = _plain(value)
        size = int(headers.get("content-length", rest.find(b"\0")))
        yield command, headers, rest[:size]
        data = rest[size + 1 :]


def _plain(text: str) -> str:
    for escape, character in (("\\c", ":"), ("\\n", "\n"), ("\\r", "\r")):
        text = text.replace("\\\\", "\0").replace(escape, character).replace("\0", "\\\\")
    return text.replace("\\\\", "\\")
