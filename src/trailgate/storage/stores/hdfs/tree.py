"""One cluster's tree of files, by keys: the paths without their first slash."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Final

from trailgate.errors import Where, WriteError
from trailgate.storage.hadoop.namenode import ask
from trailgate.storage.hadoop.refusals import UNREACHED, RefusedError
from trailgate.storage.stores.hdfs.claims import Moved, NamesIn, Remove, Rename, Step, TagOf
from trailgate.storage.stores.hdfs.names import key_of

NOT_EMPTY: Final = "PathIsNotEmptyDirectoryException"


class _NotEmptyError(Exception):
    """The folder to delete is not empty."""


@dataclass(frozen=True)
class HdfsTree:
    """A cluster, and how it is reached."""

    authority: str

    def shown(self, key: str) -> str:
        """Return the address of a file."""
        return f"hdfs://{self.authority}/{key}"

    def call(self, operation: str, key: str, *given: Any) -> Any:
        """Return the cluster's answer; raises FileNotFoundError, FileExistsError and WriteError."""
        try:
            return ask(self.authority, operation, f"/{key}", *given)
        except RefusedError as error:
            if error.kind == NOT_EMPTY:
                raise _NotEmptyError from None
            where = Where(source=self.shown(key_of(key)))
            what = "refuses it" if error.kind != UNREACHED else "cannot be reached"
            problem = f"the store {what}: {error.problem}"
            raise WriteError(problem, where=where, hint=error.hint) from None

    def error(self, problem: str, key: str) -> WriteError:
        """Return an error about a file."""
        return WriteError(problem, where=Where(source=self.shown(key)))

    def status(self, key: str) -> Any:
        """Return what there is; None where there is nothing."""
        try:
            return self.call("status", key)
        except FileNotFoundError:
            return None

    def tag(self, key: str) -> str | None:
        """Return the tag of a file; None where there is none."""
        found = self.status(key)
        return None if found is None else tag_of(found)

    def entries(self, folder: str) -> list[Any] | None:
        """Return what is in a folder; None where it is not there."""
        try:
            return list(self.call("entries", folder))
        except FileNotFoundError:
            return None

    def rename(self, source: str, target: str, *, over: bool) -> Moved:
        """Rename a file or a folder; ``over`` replaces the file that is there."""
        try:
            self.call("rename", source, f"/{target}", over)
        except FileNotFoundError:
            return Moved.GONE
        except FileExistsError:
            return Moved.TAKEN
        return Moved.DONE

    def remove(self, key: str) -> bool:
        """Delete a file or an empty folder; return whether it is not there now."""
        try:
            self.call("delete", key, False)
        except FileNotFoundError:
            return True
        except _NotEmptyError:
            return False
        return True

    def take(self, steps: Generator[Step, Any, object]) -> bool:
        """Take steps to their end, and return what comes of them."""
        answer: Any = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as end:
                return bool(end.value)
            answer = self._answer(step)

    def _answer(self, step: Step) -> Any:
        match step:
            case Rename(source, target, over):
                return self.rename(source, target, over=over)
            case TagOf(key):
                return self.tag(key)
            case NamesIn(folder):
                found = self.entries(folder)
                return None if found is None else tuple(name_in(entry.path) for entry in found)
            case Remove(key):
                return self.remove(key)


def tag_of(status: Any) -> str:
    """Return the tag of a file: when it was written, in milliseconds, and how long it is."""
    return f"{status.modification_time}-{status.length}"


def name_in(path: str) -> str:
    """Return the last part of a path."""
    return path.rpartition("/")[2]
