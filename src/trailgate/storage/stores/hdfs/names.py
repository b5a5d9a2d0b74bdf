"""Hidden names beside a key: of what is written for it, and of claims to replace it.

``.ot.manifest.json.0123...ef.writing`` is a file, or a folder with one, that becomes the key's by a rename.
``.ot.manifest.json.1700000000000-512.over`` is a folder that claims to replace the file with the tag 1700000000000-512 by the one in it.
"""

from __future__ import annotations

import re
from typing import Final

WRITING: Final = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{32}\.writing")
CLAIM: Final = re.compile(r"\.(?P<name>.+)\.(?P<over>\d+-\d+)\.over")
# Folders of staged files: of runs, of streaming queries, and of published messages. Nobody else makes them.
STAGING: Final = re.compile(r"\..+\.staging|\..+\.stream-.+|\.publishing")


def writing_name(key: str, own: str) -> str:
    """Return where a file is written that becomes a key's; ``own`` are 32 hexadecimal digits that no other writer has."""
    folder, slash, name = key.rpartition("/")
    return f"{folder}{slash}.{name}.{own}.writing"


def claim_name(key: str, over: str) -> str:
    """Return the folder that claims to replace the file with a tag."""
    folder, slash, name = key.rpartition("/")
    return f"{folder}{slash}.{name}.{over}.over"


def is_claim(name: str) -> bool:
    """Return whether the last part of a path is that of a claim."""
    return CLAIM.fullmatch(name) is not None


def is_hidden(name: str) -> bool:
    """Return whether the last part of a path is one of these names."""
    return bool(WRITING.fullmatch(name) or CLAIM.fullmatch(name))


def key_of(path: str) -> str:
    """Return the key that a path is of: itself, or the one that it was written for, or claims to replace."""
    folder = ""
    for part in path.split("/"):
        found = WRITING.fullmatch(part) or CLAIM.fullmatch(part)
        if found:
            return f"{folder}{found['name']}"
        folder += f"{part}/"
    return path


def staging_folders(keys: set[str]) -> list[str]:
    """Return the folders of staged files that keys are in, and those in them on the way, the deepest first."""
    found: set[str] = set()
    for key in keys:
        parts = key.split("/")[:-1]
        first = next((at for at, part in enumerate(parts) if STAGING.fullmatch(part)), len(parts))
        found.update("/".join(parts[: end + 1]) for end in range(first, len(parts)))
    return sorted(found, key=lambda folder: (-folder.count("/"), folder))
