"""Copybooks and their COPY members, found in folders."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from trailgate.errors import StorageError, Where

SUFFIXES: Final = ("", ".cpy", ".cbl", ".cob", ".copy", ".inc")


def read_source(path: Path) -> str:
    """Return a copybook's text: UTF-8, or else Latin-1, which every byte fits."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        problem = f"cannot read the copybook: {error.strerror}"
        raise StorageError(problem, where=Where(source=str(path))) from error
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def copy_members(folders: Iterable[Path]) -> Callable[[str], str | None]:
    """Return what finds a member's text by its name in folders, whatever case and suffix it has."""
    places = list(folders)

    def member(name: str) -> str | None:
        wanted = {(name + suffix).casefold() for suffix in SUFFIXES}
        for folder in places:
            if not folder.is_dir():
                continue
            # Only names in the folder itself: a member named ../x is not there.
            for path in sorted(folder.iterdir()):
                if path.name.casefold() in wanted and path.is_file():
                    return read_source(path)
        return None

    return member
