"""The record of a publication that is decided: whoever finds it carries it out, with the same bytes.

A store has no renames, and whoever holds a trail there may be gone. So a run writes down all that it is going to do, and then replaces
the manifest by one that names the record, on the condition that it is still the one that the run read. That decides between two
writers, and nothing was given a name of the trail before. From then on the steps are the record's, whoever does them (decision 0040).
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any

from trailgate.errors import StorageError, Where
from trailgate.storage.stores.object_store import Pending
from trailgate.storage.writing.places.publication import PlacedFile


@dataclass(frozen=True, slots=True)
class Beside:
    """A whole file beside the trail, and the tag of the one that it replaces, None: there is none."""

    name: str
    over: str | None
    data: bytes


@dataclass(frozen=True, slots=True)
class Decided:
    """Files by the names of the staged ones, what is beside them, parts of a quarantine file, and the next manifest.

    ``folder`` is what the keys of the files begin with. ``uploads`` have their names already, and are completed first.
    """

    staging: str
    folder: str
    files: tuple[PlacedFile, ...]
    beside: tuple[Beside, ...]
    quarantine: str
    parts: tuple[tuple[str, int], ...]
    after: bytes
    uploads: tuple[Pending, ...] = ()


def encode_decided(decided: Decided) -> bytes:
    """Return the record's content."""
    fields = {
        "staging": decided.staging,
        "folder": decided.folder,
        "files": [
            [file.staged, file.name, file.size, [[at, _text(data)] for at, data in file.patches]]
            for file in decided.files
        ],
        "beside": [[one.name, one.over, _text(one.data)] for one in decided.beside],
        "quarantine": decided.quarantine,
        "parts": decided.parts,
        "after": decided.after.decode(),
        "uploads": decided.uploads,
    }
    return json.dumps(fields).encode()


def parse_decided(data: bytes, path: str) -> Decided:
    """Return the record that is an object's content; raises StorageError."""
    try:
        fields: dict[str, Any] = json.loads(data)
        return Decided(
            fields["staging"],
            fields["folder"],
            tuple(
                PlacedFile(staged, name, size, tuple((at, _bytes(text)) for at, text in patches))
                for staged, name, size, patches in fields["files"]
            ),
            tuple(Beside(name, over, _bytes(text)) for name, over, text in fields["beside"]),
            fields["quarantine"],
            tuple((name, size) for name, size in fields["parts"]),
            fields["after"].encode(),
            tuple(
                Pending(key, upload, tuple(tags)) for key, upload, tags in fields.get("uploads", ())
            ),
        )
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        problem = f"the record of what is being published cannot be understood: {error!r}"
        raise StorageError(problem, where=Where(source=path)) from error


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
