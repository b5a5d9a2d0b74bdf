"""What clients of Hadoop print of errors, in one line and with what to try; the strings are those of Hadoop's sources."""

from __future__ import annotations

import pickle
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trailgate.storage.files.hdfs_client import to_refused_error

NO_DATANODE: Final = (
    "File /a/x could only be written to 0 of the 1 minReplication nodes. "
    "There are 2 datanode(s) running and 2 node(s) are excluded in this operation."
)
STANDBY: Final = (
    "Operation category READ is not supported in state standby. "
    "Visit https://s.apache.org/sbnn-error"
)
TRACE: Final = r"\n\tat org.apache.hadoop.A.b(A.java:1)\n\tat c.D.e(D.java:2)"


@pytest.mark.parametrize(
    ("printed", "problem", "hint"),
    [
        (
            f'RPCError("java.io.IOException", "{NO_DATANODE}{TRACE}")',
            NO_DATANODE,
            "a datanode must be live",
        ),
        (
            f'RPCError("org.apache.hadoop.ipc.StandbyException", "{STANDBY}{TRACE}")',
            STANDBY,
            "Name the active namenode",
        ),
        (r'FatalRPCError("org.apache.X", "a \"quoted\" text")', 'a "quoted" text', ""),
        ('InvalidArgument("No NameNode hosts found")', "No NameNode hosts found", "Name the name"),
        ("anything\nelse", "anything", ""),
        ("", "RuntimeError", ""),
    ],
)
def test_errors_are_one_line_with_what_to_try(printed: str, problem: str, hint: str) -> None:
    found = to_refused_error(RuntimeError(printed))

    assert found.problem == problem
    assert hint in found.hint
    assert "\n" not in str(found)
    again = pickle.loads(pickle.dumps(found))
    assert (str(again), again.kind) == (str(found), found.kind)


@given(st.text())
def test_any_text_of_an_error_is_one_line(text: str) -> None:
    assert len(str(to_refused_error(OSError(text))).splitlines()) == 1
