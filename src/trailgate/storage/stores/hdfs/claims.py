"""How a file is replaced only where it is the one that was read, in a tree that has atomic renames and nothing else (decision 0045).

A tag of a file is never that of another one which has had its name: times rise along the files of a name. Who replaces the one with a
tag makes the folder that claims it, with the new file in it, by a rename that fails where the folder is there; then looks that
the tag is still that of the file, and renames the new one over it. What a claim has was chosen before the tag is looked at, and gets
the key's name at most once, so that whoever finds a claim can end it: a writer that was killed holds up nobody.

Nothing here sends a request: the steps are yielded, and the answers to them are sent in.
"""

from __future__ import annotations

from collections.abc import Generator
from enum import Enum
from typing import Any, NamedTuple

from trailgate.storage.stores.hdfs.names import claim_name, writing_name


class Moved(Enum):
    """What came of a rename."""

    DONE = "done"
    GONE = "what was to be renamed is not there"
    TAKEN = "the name is taken"


class Rename(NamedTuple):
    """Rename a file, or a folder; ``over`` replaces the file that is there. The answer is a Moved."""

    source: str
    target: str
    over: bool


class TagOf(NamedTuple):
    """The tag of a file; None where there is none."""

    key: str


class NamesIn(NamedTuple):
    """The names in a folder; None where it is not there."""

    folder: str


class Remove(NamedTuple):
    """Delete a file or an empty folder; nothing happens where it is not there, or not empty."""

    key: str


Step = Rename | TagOf | NamesIn | Remove
Steps = Generator[Step, Any, bool]


def replaced(key: str, over: str, own: str) -> Steps:
    """Replace the file with the tag ``over`` by the one at ``writing_name(key, own)``, a folder that has it as ``own``.

    Return whether it was; otherwise it is deleted, or somebody has deleted it.
    """
    staged, claim = writing_name(key, own), claim_name(key, over)
    if (yield Rename(staged, claim, False)) is not Moved.DONE:
        names = yield from ended(key, over)
        # A client sends a request again whose answer was lost: then the claim is ours.
        if own not in names:
            yield Remove(f"{staged}/{own}")
            yield Remove(staged)
            return False
    return (yield from _decided(key, over, own))


def _decided(key: str, over: str, own: str) -> Steps:
    """End a claim of one's own; return whether its file has got the key's name."""
    staged, claim = writing_name(key, own), claim_name(key, over)
    mine = f"{claim}/{own}"
    if (yield TagOf(key)) == over:
        # Where it is gone, somebody else has ended the claim, by the same rename.
        yield Rename(mine, key, True)
        won = True
    else:
        # The file is withdrawn, unless somebody else was faster to give it the key's name.
        moved = yield Rename(mine, staged, False)
        won = moved is Moved.GONE and (yield TagOf(staged)) is None
        yield Remove(staged)
    yield Remove(claim)
    return won


def ended(key: str, over: str) -> Generator[Step, Any, tuple[str, ...]]:
    """End the claim to replace a file, whoever made it, and return what was in it."""
    claim = claim_name(key, over)
    names: tuple[str, ...] | None = yield NamesIn(claim)
    if names is None:
        return ()
    if names and (yield TagOf(key)) == over:
        for name in names:
            yield Rename(f"{claim}/{name}", key, True)
    yield Remove(claim)
    return names
