"""Patterns of tables that no table fits are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from trailgate.cli.commands.demo import unpack
from trailgate.cli.main import run


def test_a_pattern_that_fits_no_table_is_noted_with_the_nearest_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    unpack(Path())
    capture = ["capture", "--properties", "dirprm/shop.properties", "--from", "messages"]
    assert run([*capture, "--to", "dirdat/ot"]) == 0
    publish = ["publish", "dirdat/ot", "--format", "json", "--to", "out"]

    assert run([*publish, "--tables", "GG.SHOP_ORDER"]) == 0

    noted = capsys.readouterr().err
    assert "no table in the data matches GG.SHOP_ORDER. Did you mean GG.SHOP_ORDERS?" in noted


def test_a_file_that_is_not_there_is_named_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    unpack(Path())

    capture = ["capture", "--properties", "dirprm/shop.properties", "--from", "nosuch.txt"]
    assert run([*capture, "--to", "dirdat/ot"]) == 1

    assert "there is no such file or folder (nosuch.txt)" in capsys.readouterr().err
