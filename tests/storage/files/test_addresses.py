"""Addresses: paths on this machine, and those of stores."""

from __future__ import annotations

from pathlib import Path

import pytest

from trailgate.storage.files.addresses import address_exists
from trailgate.storage.files.text_files import read_file


def test_a_path_with_a_colon_is_one_on_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ot:a").write_bytes(b"x")

    assert read_file("ot:a") == b"x"
    assert not address_exists("ot:b")
