"""An index of record boundaries at which splits of a file can start, for records that vary in length.

One pass over all record lengths creates it. It can be stored beside the file as ``.NAME.records``
for later reads. A stored index is only used if the file's size and modification time, and the
framing, are unchanged.
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


class SplitStart(NamedTuple):
    """A possible start of a split of a record file: its offset, and the number of records before it (None if unknown).

    If it is inside a block, ``left`` is the number of bytes up to the block's end.
    """

    start: int
    first: int | None
    left: int = 0


@dataclass(frozen=True, slots=True)
class RecordIndex:
    """The index of a record file: offsets at which splits can start, in order, and the number of records."""

    cuts: Sequence[SplitStart]
    count: int

    def choose(self, step: int, framing: Framing) -> list[SplitStart]:
        """Choose from the index the starts of splits of about ``step`` bytes.

        All header records are in the first split, and all trailer records in the last one.
        """
        chosen = [self.cuts[0]]
        for cut in self.cuts:
            if cut.start >= chosen[-1].start + step and (cut.first or 0) >= framing.skip_first:
                chosen.append(cut)
        while len(chosen) > 1 and self.count - (chosen[-1].first or 0) < framing.skip_last:
            chosen.pop()
        return chosen


class IndexKey(NamedTuple):
    """Identifies a record index: the state of its record file, and the framing of the records."""

    path: str
    size: int
    modified: int | None
    framing: Framing

    @property
    def facts(self) -> dict[str, object]:
        """The values in the index file that show whether the record file has changed."""
        framing = sha256(repr(self.framing).encode()).hexdigest()
        return {"size": self.size, "modified": self.modified, "framing": framing}

    @property
    def place(self) -> tuple[fs.FileSystem, str]:
        """The store and path of the file of the record index."""
        store, path = locate(self.path)
        folder, slash, name = path.rpartition("/")
        return store, f"{folder}{slash}.{name}{SUFFIX}"


@dataclass(frozen=True, slots=True)
class StoredIndex:
    """A record index that is stored in a file beside the record file."""

    key: IndexKey
    index: RecordIndex

    @classmethod
    def load(cls, key: IndexKey) -> Self | None:
        """Read the stored index of a record file. Returns None if it does not exist or is out of date."""
        store, path = key.place
        with suppress(OSError, ValueError, TypeError, KeyError):
            with store.open_input_stream(path) as file:
                content = json.loads(file.read())
            if key.modified is not None and content["about"] == key.facts:
                cuts = [SplitStart(*map(int, cut)) for cut in content["cuts"]]
                return cls(key, RecordIndex(cuts, int(content["count"]))) if cuts else None
        return None

    def keep(self) -> None:
        """Write the record index beside the record file. Raises StorageError if that fails."""
        store, path = self.key.place
        # A unique name, since other runs may write the index at the same time.
        temporary = f"{path}.{uuid.uuid4().hex[:12]}{_UNFINISHED}"
        content = {"about": self.key.facts, "count": self.index.count, "cuts": self.index.cuts}
        try:
            with store.open_output_stream(temporary) as file:
                file.write(json.dumps(content).encode())
            store.move(temporary, path)
        except (OSError, NotImplementedError, StorageError) as error:
            with suppress(OSError):
                store.delete_file(temporary)
            problem = f"the index of the file's records cannot be stored: {error}"
            hint = "splitSearch=index finds splits without storing an index"
            raise StorageError(problem, where=Where(source=self.key.path), hint=hint) from error
