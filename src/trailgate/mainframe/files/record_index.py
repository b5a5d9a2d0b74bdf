"""Where splits of a file can begin whose records have lengths of their own: an index, which one pass over all lengths makes.

It can be kept beside the file, as ``.NAME.records``, for the next reading. A kept index is used for the same bytes only: as many as it states, modified when it states,
and cut into records in the same way.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, NamedTuple, Self

from pyarrow import fs

from trailgate.cobol.records.framing import Framing
from trailgate.errors import StorageError, Where
from trailgate.storage.files.addresses import locate

SUFFIX: Final = ".records"
_UNFINISHED: Final = ".unfinished"


class Cut(NamedTuple):
    """Where a split begins, how many records precede it, None if that is unknown, and how much is left of its block."""

    start: int
    first: int | None
    left: int = 0


@dataclass(frozen=True, slots=True)
class RecordIndex:
    """Offsets at which splits of a file can begin, in their order, and how many records the file has."""

    cuts: Sequence[Cut]
    count: int

    def choose(self, step: int, framing: Framing) -> list[Cut]:
        """Return the cuts of splits of about ``step`` bytes; the first and the last one have the records of a header and trailer."""
        chosen = [self.cuts[0]]
        for cut in self.cuts:
            if cut.start >= chosen[-1].start + step and (cut.first or 0) >= framing.skip_first:
                chosen.append(cut)
        while len(chosen) > 1 and self.count - (chosen[-1].first or 0) < framing.skip_last:
            chosen.pop()
        return chosen


class IndexKey(NamedTuple):
    """What an index is about: a file as it is, and how it is cut into records."""

    path: str
    size: int
    modified: int | None
    framing: Framing

    @property
    def stated(self) -> dict[str, object]:
        """Return what an index states that it is about."""
        framing = sha256(repr(self.framing).encode()).hexdigest()
        return {"size": self.size, "modified": self.modified, "framing": framing}

    @property
    def place(self) -> tuple[fs.FileSystem, str]:
        """Return the store and the path of the index."""
        store, path = locate(self.path)
        folder, slash, name = path.rpartition("/")
        return store, f"{folder}{slash}.{name}{SUFFIX}"


@dataclass(frozen=True, slots=True)
class KeptIndex:
    """An index in a file."""

    key: IndexKey
    index: RecordIndex

    @classmethod
    def load(cls, key: IndexKey) -> Self | None:
        """Return the index beside a file; None where there is none, or it is about other bytes."""
        store, path = key.place
        with suppress(OSError, ValueError, TypeError, KeyError):
            with store.open_input_stream(path) as file:
                held = json.loads(file.read())
            if key.modified is not None and held["about"] == key.stated:
                cuts = [Cut(*map(int, cut)) for cut in held["cuts"]]
                return cls(key, RecordIndex(cuts, int(held["count"]))) if cuts else None
        return None

    def keep(self) -> None:
        """Write the index beside the file; raises StorageError where that cannot be."""
        store, path = self.key.place
        own = f"{path}.{uuid.uuid4().hex[:12]}{_UNFINISHED}"  # of this run: another one may keep an index, too
        held = {"about": self.key.stated, "count": self.index.count, "cuts": self.index.cuts}
        try:
            with store.open_output_stream(own) as file:
                file.write(json.dumps(held).encode())
            store.move(own, path)
        except (OSError, NotImplementedError, StorageError) as error:
            with suppress(OSError):
                store.delete_file(own)
            problem = f"the index of the file's records cannot be kept: {error}"
            hint = "splitSearch=index finds splits without keeping them"
            raise StorageError(problem, where=Where(source=self.key.path), hint=hint) from error
