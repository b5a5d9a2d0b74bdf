"""Commands of Logdump that mean nothing here, each with the reason: one row a command."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from trailgate.errors import OptionError
from trailgate.logdump.session.results import Note, Result
from trailgate.logdump.session.session import Command, Session
from trailgate.logdump.terms.words import Words

NONSTOP: Final = "it applies only to NonStop systems"
ENCRYPTION: Final = (
    "the encryption of trails is not public, and the file holds no key; records of an encrypted"
    " trail are shown as bytes"
)
BLOCKS: Final = "files are read in portions of 4 MB; there is no block size to set"
EXACT: Final = "counts per table are always exact; there is no hash table to set or clear"


class Other(NamedTuple):
    """A command that is not carried out; ``refused`` is an error, else a remark."""

    names: tuple[str, ...]
    reason: str
    refused: bool = True


OTHERS: Final = (
    Other(("DECRYPT",), ENCRYPTION),
    Other(("ENCRYPT",), ENCRYPTION),
    Other(("TMFBEFOREIMAGE",), NONSTOP),
    Other(("TMFGETRECADDR",), NONSTOP),
    Other(("NOTMFGETRECADDR",), NONSTOP),
    Other(("TMFIGNORERECCOUNT",), NONSTOP),
    Other(("DATAFILE",), NONSTOP),
    Other(("RECORD", "REC"), NONSTOP),
    Other(("GGSAUDITREAD",), NONSTOP),
    Other(("BULKIOSTATS",), NONSTOP),
    Other(("CALCTLFKEY",), NONSTOP),
    Other(("PRINTMXCOLUMNINFO",), NONSTOP),
    Other(("ARGETNONDATACHANGES",), NONSTOP),
    Other(("ARSTOPNONDATACHANGES",), NONSTOP),
    Other(("ESBLOCK",), BLOCKS, refused=False),
    Other(("BIO",), BLOCKS, refused=False),
    Other(("HASHSTATS",), EXACT, refused=False),
    Other(("HASHCLEAR",), EXACT, refused=False),
    Other(
        ("TRAILFORMAT",),
        "a file states its format; the one before release 6 is not public",
    ),
    Other(
        ("DEBUG",), "there is no debugger; TRAILGATE_DEBUG=1 in the environment shows tracebacks"
    ),
    Other(("X",), "a session runs no other programs"),
)


def _command(row: Other) -> Command:
    def run(session: Session, words: Words) -> Iterator[Result]:
        del session, words
        if row.refused:
            raise OptionError(f"{row.names[0]}: {row.reason}")
        yield Note(f"{row.names[0]}: {row.reason}", {"ignored": row.names[0]})

    verb = "Refused" if row.refused else "Accepted without effect"
    return Command(row.names, row.names[0], f"{verb}: {row.reason}.", run)


ROWS: Final = tuple(_command(row) for row in OTHERS)
