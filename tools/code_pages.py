"""Write the code page tables that Python lacks: ``python tools/code_pages.py``.

Facts come from OpenJDK's charsets (any version from 17 on; Debian's openjdk-17 was used), which follow IBM's own
conversion tables, and for the pages that Java lacks (880, 1388, 1390, ...) from glibc's iconv. Where
Python has a codec that agrees with them, that codec is used and no table is written. The tables of 838, 933, 1160,
1390 and 1399 were compared with those of ICU 72, and agree. Of 274 and 275 glibc has the characters of RFC 1345, and no others.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import zlib
from pathlib import Path

import numpy as np

NONE = 0xFFFE  # no character; also what Python's charmap codecs take for "undefined"
HERE = Path(__file__).parent
TABLES = HERE.parent / "src" / "trailgate" / "reference" / "code_pages"
PLAIN = {str(n): f"IBM{n}" for n in (273, 277, 278, 280, 284, 285, 297, 420, 870, 871, 1047)}
EURO = {str(n): f"IBM0{n}" for n in range(1141, 1150)}
MIXED = {str(n): f"x-IBM{n}" for n in (930, 933, 935, 937, 939, 1364)}
THAI = {"838": "IBM-Thai"}
JAVA = {**PLAIN, **EURO, **MIXED, **THAI, "875": "x-IBM875", "1025": "x-IBM1025", "300": "x-IBM300"}
GLIBC_MIXED = ("1388", "1390", "1399")
GLIBC = ("274", "275", "880", "1160", *GLIBC_MIXED)
# 930 and 939 have the double bytes of 300; 930 has one character of its own. 1399 has those of 1390.
DOUBLE = ("300", "933", "935", "937", "1364", "1388", "1390")
SHIFTS = (14, 15)
SUBSTITUTE, SUBSTITUTE_BYTE = 0x1A, 0x3F  # glibc's tables have it for bytes without a character too
FIRST_SEQUENCE = (
    0xD800  # the code of the first pair of UTF-16 units that one pair of bytes stands for
)


def from_java() -> dict[str, list[int]]:
    """Return the characters of 256 bytes and of 65,536 pairs, for each page."""
    command = ["java", str(HERE / "CodePages.java"), *JAVA.values()]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    lines = (line.split() for line in printed.splitlines())
    found = {name: [NONE if c == "-" else int(c, 16) for c in codes] for name, *codes in lines}
    return {page: found[name] for page, name in JAVA.items()}


def from_glibc(page: str, sequences: list[str]) -> list[int]:
    """Return the same of a page by this machine's iconv; adds what has two UTF-16 units to ``sequences``."""
    libc = ctypes.CDLL(None)
    libc.iconv_open.restype = ctypes.c_void_p
    libc.iconv.argtypes = [ctypes.c_void_p, *[ctypes.c_void_p] * 4]
    handle = libc.iconv_open(b"UTF-16LE", b"IBM" + page.encode())

    def code(raw: bytes) -> int:
        libc.iconv(handle, None, None, None, None)
        source, target = ctypes.create_string_buffer(raw, len(raw)), ctypes.create_string_buffer(16)
        places = [ctypes.c_void_p(ctypes.addressof(b)) for b in (source, target)]
        sizes = [ctypes.c_size_t(len(raw)), ctypes.c_size_t(16)]
        arguments = (places[0], sizes[0], places[1], sizes[1])
        failed = libc.iconv(handle, *[ctypes.addressof(a) for a in arguments])
        libc.iconv(handle, None, None, *[ctypes.addressof(a) for a in arguments[1::2]])
        text = target.raw[: 16 - sizes[1].value]
        if len(text) == 4 and not failed:
            own = text.decode("utf-16-le")
            if own not in sequences:
                sequences.append(own)
            return FIRST_SEQUENCE + sequences.index(own)
        found = int.from_bytes(text, "little")
        absent = found == SUBSTITUTE and raw != bytes([SUBSTITUTE_BYTE])
        return NONE if failed or len(text) != 2 or absent else found

    pairs = [NONE] * 65536
    if page in GLIBC_MIXED:
        for first in range(0x40, 0xFF):
            for second in range(0x40, 0xFF):
                pairs[first << 8 | second] = code(bytes([14, first, second, 15]))
    return [code(bytes([b])) for b in range(256)] + pairs


def single(codes: list[int], *, mixed: bool) -> str:
    """Return the 256 characters of a page."""
    found = codes[:256]
    # Java swaps these two so that a new line of z/OS becomes "\n"; Python's codecs, glibc and IBM's tables do not.
    found[0x15], found[0x25] = 0x85, 0x0A
    if mixed:
        for shift in SHIFTS:
            found[shift] = NONE
    return "".join(map(chr, found))


def double(codes: list[int]) -> bytes:
    """Return the 65,536 codes packed: differences, low bytes then high bytes, by zlib."""
    found = np.array(codes[256:], np.int64)
    found[found == NONE] = 0
    steps = np.diff(found, prepend=0).astype("<u2").view(np.uint8)
    halves = steps[0::2].tobytes() + steps[1::2].tobytes()
    return zlib.compress(halves, 9)


def main() -> None:
    """Write all tables."""
    sequences: list[str] = []
    pages = {**from_java(), **{page: from_glibc(page, sequences) for page in GLIBC}}
    mixed = (*MIXED, *GLIBC_MIXED)
    own = {page: single(codes, mixed=page in mixed) for page, codes in pages.items()}
    del own["300"]
    # The character of each byte; U+FFFE is none.
    rows = {page: own[page] for page in sorted(own, key=int)}
    (TABLES / "single_byte.json").write_text(json.dumps(rows, indent=1) + "\n")
    (TABLES / "sequences.json").write_text(json.dumps(sequences) + "\n")
    for page in DOUBLE:
        (TABLES / f"double_{page}.bin").write_bytes(double(pages[page]))
    differences = {
        hex(i): hex(pages["930"][256 + i])
        for i in range(65536)
        if pages["930"][256 + i] != pages["300"][256 + i]
    }
    print("1399 beside 1390:", pages["1399"][256:] == pages["1390"][256:])
    print("930 beside 300:", differences, "939:", pages["939"][256:] == pages["300"][256:])


if __name__ == "__main__":
    main()
