"""Find the COPY members of a copybook in folders, by their names.

A member may be in any folder of an option or in the copybook's own folder. Its file's name may be in
upper or lower case, and may end in one of ``SUFFIXES``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Self

from pyarrow import fs

from trailgate.errors import did_you_mean, mask_logins
from trailgate.storage.files.addresses import Address, locate, make_address_speller, name_of
from trailgate.storage.files.file_search import list_names
from trailgate.storage.files.text_files import read_source

SUFFIXES: Final = ("", ".cpy", ".cbl", ".cob", ".copy", ".inc")


@dataclass(frozen=True)
class MemberFinder:
    """Finds COPY members in folders by their names, in any case and with any of ``SUFFIXES``.

    ``adding`` is the end of the hint for a missing member: how the user adds a folder.
    """

    folders: tuple[str, ...]
    adding: str

    @classmethod
    def of(cls, folders: Iterable[Address], adding: str) -> Self:
        """Return the finder of COPY members in folders, each of which is searched once."""
        return cls(tuple(dict.fromkeys(map(str, folders))), adding)

    def __call__(self, name: str) -> str | None:
        """Return the text of a COPY member, or None if no folder has it."""
        wanted = {(name + suffix).casefold() for suffix in SUFFIXES}
        # Only names in the folder itself are compared, so a member named ../x is not found.
        for address in self._files():
            if name_of(address).casefold() in wanted:
                return read_source(address)
        return None

    def missing(self, name: str) -> str:
        """Return a hint for a COPY member that was not found: the folders searched, and what to do."""
        alone = re.split(r"[/\\]", name)[-1]
        if alone != name:
            own = f"COPY finds members by their names without folders: write COPY {alone}"
            return f"{own}. {self._searched()}"
        names = list(map(name_of, self._files()))
        stem = name.rpartition(".")[0] or name
        like = [one for one in names if one.rpartition(".")[0].casefold() == stem.casefold()]
        near = did_you_mean(name, {one.partition(".")[0] for one in names})
        if like:
            suffixes = ", ".join(filter(None, SUFFIXES))
            near = f"{like[0]} exists, but a member's file ends in {suffixes} or in nothing."
        return f"{near} {self._searched()}".lstrip()

    def _searched(self) -> str:
        searched = f"Searched: {mask_logins(', '.join(self.folders))}. " if self.folders else ""
        return searched + self.adding

    def _files(self) -> Iterator[str]:
        """Yield the addresses of the files in the folders of COPY members."""
        for folder in self.folders:
            store, path_in_store = locate(folder)
            spell = make_address_speller(folder, path_in_store)
            entries = list_names(store, path_in_store or ".")[0]
            for entry in sorted(entries, key=lambda one: one.base_name):
                if entry.type == fs.FileType.File:
                    yield spell(entry.path)
