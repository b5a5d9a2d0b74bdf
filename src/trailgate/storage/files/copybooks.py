"""Copybooks and their COPY members, found in folders of a local disk or of any store."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from pyarrow import fs

from trailgate.storage.files.addresses import Address, addresses_like, listed, locate, read_whole

SUFFIXES: Final = ("", ".cpy", ".cbl", ".cob", ".copy", ".inc")


def read_source(address: Address) -> str:
    """Return a copybook's text: UTF-8, or else Latin-1, which every byte fits."""
    raw = read_whole(address, "copybook")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def folder_of(address: Address) -> str:
    """Return the address of the folder that a file is in."""
    text = str(address)
    path = locate(text)[1]
    return addresses_like(text, path)(path.rpartition("/")[0]) or ("/" if path[:1] == "/" else ".")


def copy_members(folders: Iterable[Address]) -> Callable[[str], str | None]:
    """Return what finds a member's text by its name in folders, whatever case and suffix it has."""
    places = [str(folder) for folder in folders]

    def member(name: str) -> str | None:
        wanted = {(name + suffix).casefold() for suffix in SUFFIXES}
        for folder in places:
            store, place = locate(folder)
            spell = addresses_like(folder, place)
            # Only names in the folder itself: a member named ../x is not there.
            for entry in sorted(listed(store, place or ".")[0], key=lambda one: one.base_name):
                if entry.base_name.casefold() in wanted and entry.type == fs.FileType.File:
                    return read_source(spell(entry.path))
        return None

    return member
