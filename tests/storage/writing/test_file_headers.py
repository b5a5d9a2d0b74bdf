"""What the headers of a run's files name: the host, the home folder and the first file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trailgate.storage.writing import file_headers


@pytest.mark.parametrize(
    ("prefix", "home"),
    [
        ("/home/oracle/goldengate/dirdat/ex", ":home:oracle:goldengate"),
        ("/data/trails/ex", ":data:trails"),
        ("dirdat/ex", ":work:shop"),
        ("ex", ":work:shop"),
    ],
)
def test_the_uri_has_the_form_that_is_printed(
    prefix: str, home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "uname", lambda: ("Linux", "vm4.juliandyke.com", "", "", ""))
    monkeypatch.setattr(Path, "absolute", lambda path: Path("/work/shop") / path)

    header = file_headers.build_file_header(prefix, 9, 0)

    assert header.trail.uri == f"uri:vm4:juliandyke:com:{home}"
    assert header.trail.filename == f"{prefix}000000000"
