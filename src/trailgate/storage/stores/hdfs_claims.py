"""Claims make replacements of HDFS files conditional: names of hidden files, and the steps of a replacement (decision 0045).

HDFS has atomic renames but no conditional writes. To replace a file only if it is still the one
that was read, each file has a tag: its modification time and length. Each new file of a name (key)
gets a later time than the previous one, so a name never gets the same tag twice. To replace the
file with a certain tag, a writer

1. writes the new file into a separate folder,
2. renames that folder to the claim on the tag, which fails if the claim exists,
3. checks that the file still has the tag, and renames the new file over it.

A claim contains the complete new file. Once that is renamed, the name has another tag, so a claim
takes effect at most once. Any process that finds a claim can therefore perform step 3, and a killed
writer delays nobody. The functions for these steps are generators: they yield each step and are
sent its answer, so they can be tested without a cluster.

- ``.ot.manifest.json.0123...ef.writing`` is a file, or a folder with one, that a rename will give
  the key's name.
- ``.ot.manifest.json.1700000000000-512.over`` is a claim to replace the file with the tag
  1700000000000-512 by the file in it.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from enum import Enum
from typing import Any, Final, NamedTuple

# .manifest.json.0123456789abcdef0123456789abcdef.writing
WRITING: Final = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{32}\.writing")
# .manifest.json.1712345678901-42.over
CLAIM: Final = re.compile(r"\.(?P<name>.+)\.(?P<over>\d+-\d+)\.over")
# Folders of staged files: of runs, of streaming queries, and of published messages. Only Trailgate creates them.
STAGING: Final = re.compile(r"\..+\.staging|\..+\.stream-.+|\.publishing")


def writing_name(key: str, own: str) -> str:
    """Return the hidden HDFS path at which the file for a key is written.

    ``own`` are 32 unique hex digits.
    """
    folder, slash, name = key.rpartition("/")
    return f"{folder}{slash}.{name}.{own}.writing"


def claim_name(key: str, over: str) -> str:
    """Return the HDFS path of the folder that claims to replace the file with a tag."""
    folder, slash, name = key.rpartition("/")
    return f"{folder}{slash}.{name}.{over}.over"


def is_claim_name(name: str) -> bool:
    """Return whether the last part of an HDFS path is the name of a claim."""
    return CLAIM.fullmatch(name) is not None


def is_hidden_name(name: str) -> bool:
    """Return whether the last part of an HDFS path is hidden: the name of a file being written, or a claim."""
    return bool(WRITING.fullmatch(name) or CLAIM.fullmatch(name))


def key_of(path: str) -> str:
    """Return the key of an HDFS path.

    A hidden file, used while a key is written or claimed, has the key in its name.
    """
    folder = ""
    for part in path.split("/"):
        match = WRITING.fullmatch(part) or CLAIM.fullmatch(part)
        if match:
            return f"{folder}{match['name']}"
        folder += f"{part}/"
    return path


def staging_folders(keys: set[str]) -> list[str]:
    """Return the HDFS folders of staged files that contain these keys, with their subfolders, the deepest first."""
    folders: set[str] = set()
    for key in keys:
        parts = key.split("/")[:-1]
        first = next((at for at, part in enumerate(parts) if STAGING.fullmatch(part)), len(parts))
        folders.update("/".join(parts[: end + 1]) for end in range(first, len(parts)))
    return sorted(folders, key=lambda folder: (-folder.count("/"), folder))


class RenameResult(Enum):
    """The result of a rename in HDFS."""

    DONE = "done"
    GONE = "the source does not exist"
    TAKEN = "the name is taken"


class RenameStep(NamedTuple):
    """A step of a plan for HDFS: rename a file or folder.

    ``over`` replaces an existing file. The answer is a ``RenameResult``.
    """

    source: str
    target: str
    over: bool


class TagStep(NamedTuple):
    """A step of a plan for HDFS: get the tag of a file. The answer is None if it does not exist."""

    key: str


class ListStep(NamedTuple):
    """A step of a plan for HDFS: list a folder. The answer is None if it does not exist."""

    folder: str


class RemoveStep(NamedTuple):
    """A step of a plan for HDFS: delete a file or an empty folder.

    Does nothing if it does not exist or is not empty.
    """

    key: str


Step = RenameStep | TagStep | ListStep | RemoveStep


Steps = Generator[Step, Any, bool]


def replace_file(key: str, over: str, own: str) -> Steps:
    """Plan to replace the file with the tag ``over`` by the file ``own`` in the folder ``writing_name(key, own)``.

    Returns whether it was replaced. If not, the new file is deleted.
    """
    # HDFS has no conditional put, but renaming a folder succeeds for only one of several clients.
    # So the folder with the new file is renamed to the claim on the old tag; whoever has it, or
    # finds it, then renames the file in it to the key.
    staged, claim = writing_name(key, own), claim_name(key, over)
    if (yield RenameStep(staged, claim, False)) is not RenameResult.DONE:
        names = yield from complete_claim(key, over)
        # A client repeats a request whose answer was lost. Then the first rename may have succeeded, and the
        # claim contains our file.
        if own not in names:
            yield RemoveStep(f"{staged}/{own}")
            yield RemoveStep(staged)
            return False
    return (yield from _decide(key, over, own))


def _decide(key: str, over: str, own: str) -> Steps:
    """Plan to complete the writer's own claim. Returns whether the writer's file got the name of the key."""
    staged, claim = writing_name(key, own), claim_name(key, over)
    our_file = f"{claim}/{own}"
    if (yield TagStep(key)) == over:
        # If our file is gone from the claim, somebody else has completed the claim by the same rename.
        yield RenameStep(our_file, key, True)
        won = True
    else:
        # Another file has the key's name: withdraw ours, unless it got the name because somebody else
        # completed the claim.
        moved = yield RenameStep(our_file, staged, False)
        won = moved is RenameResult.GONE and (yield TagStep(staged)) is None
        yield RemoveStep(staged)
    yield RemoveStep(claim)
    return won


def complete_claim(key: str, over: str) -> Generator[Step, Any, tuple[str, ...]]:
    """Yield the steps that complete a claim to replace the file ``key`` whose tag is ``over``.

    Any process may complete it, not only the one that made it. Returns the names of the files that
    the claim contained, or () if there is no claim.
    """
    claim = claim_name(key, over)
    names: tuple[str, ...] | None = yield ListStep(claim)
    if names is None:
        return ()
    if names and (yield TagStep(key)) == over:
        for name in names:
            yield RenameStep(f"{claim}/{name}", key, True)
    yield RemoveStep(claim)
    return names
