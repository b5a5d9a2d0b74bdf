"""The picture of the landing page is what ``trailgate show`` prints for the sample, in a terminal of 80 columns.

``python tests/test_picture.py`` draws it anew.
"""

from __future__ import annotations

import io
import os
import re
import tempfile
from pathlib import Path
from typing import Final

import pytest
from rich.console import Console
from rich.text import Text

from test_pages import CAPTURE, as_on_one_machine, printed
from trailgate.cli.commands.demo import unpack

PICTURE: Final = Path(__file__).parents[1] / "docs/images/show.svg"
SHOW: Final = ("show", "dirdat/ot", "--table", "GG.SHOP_ORDERS")


def drawn() -> str:
    """Return the picture; the working folder is empty."""
    with as_on_one_machine(), pytest.MonkeyPatch.context() as patch:
        unpack(Path())
        printed([*CAPTURE, "--from", "messages", "--to", "dirdat/ot", "--update-befores"])
        for module in ("output", "batches"):
            patch.setattr(f"trailgate.terminal.{module}.shows_colours", lambda _=None: True)
        shown = printed([*SHOW])
    console = Console(record=True, width=84, file=io.StringIO(), force_terminal=True)
    console.print(f"[bold]$ trailgate {' '.join(SHOW)}[/bold]")
    console.print(Text.from_ansi(shown.rpartition("Not shown")[0].rstrip()))
    picture = console.export_svg(title="trailgate", unique_id="show")
    return re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)  # fonts of other sites


def test_the_picture_is_what_the_command_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert drawn() == PICTURE.read_text()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        PICTURE.parent.mkdir(exist_ok=True)
        PICTURE.write_text(drawn())
        os.chdir("/")
