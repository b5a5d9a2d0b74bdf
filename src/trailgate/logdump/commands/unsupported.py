"""Commands of Logdump that are not supported, each with the reason: one row a command."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from trailgate.errors import OptionError
from trailgate.logdump.session.results import Note, Result
from trailgate.logdump.session.session import Command, Session
from trailgate.logdump.syntax.arguments import Arguments

NONSTOP: Final = "it applies only to NonStop systems"
ENCRYPTION: Final = (
    "the encryption of trails is not public, and the file holds no key; records of an encrypted"
    " trail are shown as bytes"
)
BLOCKS: Final = "files are read in portions of 4 MB; there is no block size to set"
EXACT: Final = "counts per table are always exact; there is no hash table to set or clear"


class Unsupported(NamedTuple):
    """A command that has no effect; it is an error if ``refused``, else a note."""

    names: tuple[str, ...]
    reason: str
    refused: bool = True


UNSUPPORTED: Final = (
    Unsupported(("DECRYPT",), ENCRYPTION),
    Unsupported(("ENCRYPT",), ENCRYPTION),
    Unsupported(("TMFBEFOREIMAGE",), NONSTOP),
    Unsupported(("TMFGETRECADDR",), NONSTOP),
    Unsupported(("NOTMFGETRECADDR",), NONSTOP),
    Unsupported(("TMFIGNORERECCOUNT",), NONSTOP),
    Unsupported(("DATAFILE",), NONSTOP),
    Unsupported(("RECORD", "REC"), NONSTOP),
    Unsupported(("GGSAUDITREAD",), NONSTOP),
    Unsupported(("BULKIOSTATS",), NONSTOP),
    Unsupported(("CALCTLFKEY",), NONSTOP),
    Unsupported(("PRINTMXCOLUMNINFO",), NONSTOP),
    Unsupported(("ARGETNONDATACHANGES",), NONSTOP),
    Unsupported(("ARSTOPNONDATACHANGES",), NONSTOP),
    Unsupported(("ESBLOCK",), BLOCKS, refused=False),
    Unsupported(("BIO",), BLOCKS, refused=False),
    Unsupported(("HASHSTATS",), EXACT, refused=False),
    Unsupported(("HASHCLEAR",), EXACT, refused=False),
    Unsupported(
        ("TRAILFORMAT",),
        "a file states its format; the one before release 6 is not public",
    ),
    Unsupported(
        ("DEBUG",), "there is no debugger; TRAILGATE_DEBUG=1 in the environment shows tracebacks"
    ),
    Unsupported(("X",), "a session runs no other programs"),
)


def _command(row: Unsupported) -> Command:
    def run(_session: Session, _arguments: Arguments) -> Iterator[Result]:
        if row.refused:
            raise OptionError(f"{row.names[0]}: {row.reason}")
        yield Note(f"{row.names[0]}: {row.reason}", {"ignored": row.names[0]})

    verb = "Refused" if row.refused else "Accepted without effect"
    return Command(row.names, "", f"{verb}: {row.reason}.", run)


ROWS: Final = tuple(_command(row) for row in UNSUPPORTED)
