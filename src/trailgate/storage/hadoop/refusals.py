"""What a namenode, or the way to it, refuses: one line of text, and what to try."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

# Errors of the client are printed as Rust prints them: RPCError("org.apache.hadoop.x.YException", "text\n\tat a.place(...)").
PRINTED: Final = re.compile(r"(?P<kind>\w+)\((?P<texts>.*)\)", re.DOTALL)
QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"')
BACKED: Final = re.compile(r"\\(.)")
NAMES: Final = "Name the namenode, as hdfs://host:8020/path, or have HADOOP_CONF_DIR name the folder of core-site.xml and hdfs-site.xml"
UNREACHED: Final = "OSError"  # of the connection, which the client raises itself
SPACE: Final = "Have the quota raised, or delete what is not needed"
# What to try, by the name of the exception that the namenode raised, or of the client's own.
HINTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "AccessControlException": "HADOOP_USER_NAME names another user, where the cluster has no Kerberos",
        "SafeModeException": "Run it again when hdfs dfsadmin -safemode get answers OFF",
        "StandbyException": "Name the active namenode, or the name service of hdfs-site.xml, where HADOOP_CONF_DIR names its folder",
        "NSQuotaExceededException": SPACE,
        "DSQuotaExceededException": SPACE,
        "QuotaByStorageTypeExceededException": SPACE,
        "InvalidPathException": "Names in HDFS have no colon",
        "NoDatanodes": "See hdfs dfsadmin -report: a datanode has to be live, have space left, and be reached from here",
        "InvalidArgument": NAMES,
        UNREACHED: NAMES,
    }
)


class RefusedError(OSError):
    """A request that the namenode refuses, or that does not reach it.

    ``kind`` is the name of the exception that was raised there, or of the client's own; ``hint`` is what to try.
    """

    def __init__(self, problem: str, kind: str) -> None:
        self.problem, self.kind, self.hint = problem, kind, HINTS.get(kind, "")
        super().__init__(f"{problem}. {self.hint}" if self.hint else problem)

    def __reduce__(self) -> tuple[type[RefusedError], tuple[str, str]]:
        return type(self), (self.problem, self.kind)


def refusal(error: BaseException) -> RefusedError:
    """Return the error of a client of Hadoop in one line."""
    kind, text = _parts(error)
    line = " ".join(text.partition("\n")[0].split())
    if "could only be written to 0 of" in line or "NotEnoughReplicas" in kind:
        kind = "NoDatanodes"
    return RefusedError(line or kind, kind)


def _parts(error: BaseException) -> tuple[str, str]:
    """Return the short name of the exception that was raised, and its text."""
    text = str(error)
    printed = PRINTED.fullmatch(text)
    if printed is None:
        own = UNREACHED if isinstance(error, OSError) else type(error).__name__
        return own, text
    texts = [_unquoted(one) for one in QUOTED.findall(printed["texts"])]
    if len(texts) > 1:
        return texts[0].rpartition(".")[2], texts[-1]
    return printed["kind"], texts[0] if texts else printed["texts"]


def _unquoted(text: str) -> str:
    return BACKED.sub(lambda found: {"n": "\n", "t": "\t"}.get(found[1], found[1]), text)
