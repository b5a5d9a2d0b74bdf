"""Bad messages: noted by their places, read again and written when their range is done."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from trailgate.errors import StorageError, masked
from trailgate.jobs.capture.range_reader import place_of
from trailgate.storage.files.durable import writing
from trailgate.storage.files.quarantine import write_line
from trailgate.storage.reading.messages.batches import read_messages
from trailgate.storage.reading.messages.files import MessageFiles, MessagePlace

SMALL: Final = 1 << 16  # bytes read at once where single messages are read again


def write_quarantine(path: Path, files: MessageFiles, reasons: Mapping[MessagePlace, str]) -> None:
    """Write the messages at these places and why they were quarantined, as JSON lines."""
    with writing(path), path.open("wb") as file:
        for place, body, headers in _read_again(files, sorted(reasons)):
            name = masked(files.files[place.file].path)
            file.write(write_line(body, headers, (name, *place), reasons[place]))


def _read_again(
    files: MessageFiles, places: Sequence[MessagePlace]
) -> Iterator[tuple[MessagePlace, bytes, Mapping[str, str]]]:
    """Yield the messages at ascending places; an unreadable one as its raw bytes."""
    done = 0
    while done < len(places):
        for batch, problems in read_messages(files, places[done], SMALL):
            raw = {problem.message: problem.error.where.raw for problem in problems}
            index = {place_of(batch, i): i for i in range(len(batch))}
            before = done
            while done < len(places) and places[done] in index:
                i = index[places[done]]
                body = bytes(batch.data[int(batch.starts[i]) : int(batch.ends[i])])
                headers = {} if batch.headers is None else batch.headers[i]
                yield places[done], raw.get(i) or body, headers
                done += 1
            # A compressed file would be unpacked from its beginning again: it is read on instead.
            if done == len(places) or (done == before and files.splittable(places[done].file)):
                break
        else:
            if done < len(places) and places[done] not in index:
                raise StorageError("the messages changed during the run")
