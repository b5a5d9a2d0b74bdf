"""Layouts as GnuCOBOL has them: a copybook is compiled, and the program prints where each item is."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

COBC: Final = shutil.which("cobc")
needs_cobc = pytest.mark.skipif(COBC is None, reason="cobc (GnuCOBOL) is not installed")
_BEFORE: Final = """       IDENTIFICATION DIVISION.
       PROGRAM-ID. LAYOUT.
       DATA DIVISION.
       WORKING-STORAGE SECTION.
"""


def printed(folder: Path, copybook: str, *options: str, items: tuple[str, ...] = ()) -> list[int]:
    """Return the length of each item in a program that has a copybook, compiled with options of cobc."""
    lines = [f'           DISPLAY LENGTH OF {item} ";" WITH NO ADVANCING' for item in items]
    program = folder / "layout.cob"
    program.write_text(
        _BEFORE
        + copybook
        + "       PROCEDURE DIVISION.\n"
        + "\n".join(lines)
        + "\n           STOP RUN.\n"
    )
    command = [str(COBC), "-x", "-o", str(folder / "layout"), *options, str(program)]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    environment = {**os.environ, "TERM": "dumb"}
    made = subprocess.run(
        [str(folder / "layout")], check=True, capture_output=True, text=True, env=environment
    )
    return [int(word) for word in made.stdout.split(";") if word.strip()]


def preprocessed(folder: Path, copybook: str, *options: str) -> list[str]:
    """Return the words of a copybook after COPY, REPLACE and conditional text."""
    program = folder / "text.cob"
    program.write_text(_BEFORE + copybook)
    command = [str(COBC), "-E", *options, str(program)]
    made = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    lines = [line for line in made.stdout.splitlines() if not line.startswith("#")]
    words = " ".join(lines).split()
    return words[words.index("WORKING-STORAGE") + 2 :]
