"""A list of message files is what a tuple of them is, and takes few bytes to send."""

from __future__ import annotations

import pickle

from hypothesis import given
from hypothesis import strategies as st

from trailgate.storage.reading.message_files import MessageFile, MessageFileList

FILES = st.builds(
    MessageFile,
    path=st.text(st.characters(codec="utf-8"), max_size=12).map(lambda name: f"s3://in/{name}"),
    size=st.integers(0, 2**62),
    json=st.booleans(),
    begin=st.integers(0, 2**40),
    codec=st.sampled_from([None, "gzip", "zstd"]),
)
BYTES_A_FILE = 40


@given(st.lists(FILES, max_size=8), st.integers(0, 9), st.integers(0, 9))
def test_a_list_has_its_files_in_order(files: list[MessageFile], begin: int, end: int) -> None:
    listed = MessageFileList(files)
    sent = pickle.loads(pickle.dumps(listed))

    assert tuple(sent) == tuple(listed) == tuple(files)
    assert [sent[at] for at in range(len(files))] == files
    assert tuple(sent[begin:end]) == tuple(files[begin:end])
    assert sent == listed == tuple(files)
    assert (repr(sent), hash(sent)) == (repr(listed), hash(tuple(files)))


@given(st.lists(FILES, max_size=3), st.lists(FILES, max_size=3))
def test_lists_of_other_files_are_written_differently(
    one: list[MessageFile], other: list[MessageFile]
) -> None:
    """A run that did not finish is known by what is written of its files."""
    assert (repr(MessageFileList(one)) == repr(MessageFileList(other))) == (one == other)


def test_a_hundred_thousand_files_are_sent_in_few_bytes() -> None:
    files = [
        MessageFile(f"/data/messages/2026-11-22/orders-{number:09}.txt", 1 << 27)
        for number in range(100_000)
    ]

    assert len(pickle.dumps(MessageFileList(files))) < BYTES_A_FILE * len(files)
