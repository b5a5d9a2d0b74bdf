"""The site at the width of a phone, in a real Chromium: nothing is cut off, output keeps its lines, and words of code stay whole."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

pytest.importorskip("mkdocs")
playwright = pytest.importorskip(
    "playwright.sync_api", reason="needs playwright: the group browser"
)
CHROMIUM: Final = shutil.which("chromium")
ROOT: Final = Path(__file__).parents[1]
WIDTH: Final = 400
PAGES: Final = (
    "index",
    "cli",
    "spark",
    "howto/apply",
    "tutorials/delimited",
    "reference/copybooks",
)
FLAGS: Final = ("--no-sandbox", "--disable-background-networking", "--disable-component-update")

pytestmark = [
    pytest.mark.servers,
    pytest.mark.skipif(CHROMIUM is None, reason="needs chromium: apt install chromium"),
    pytest.mark.xdist_group("chromium"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

# The runs of letters and digits of an element's code that are on more than one line.
BROKEN: Final = """
selector => [...document.querySelectorAll(selector)].flatMap(code => {
  const texts = document.createTreeWalker(code, NodeFilter.SHOW_TEXT), found = [];
  while (texts.nextNode()) {
    for (const word of texts.currentNode.data.matchAll(/[A-Za-z0-9]{2,}/g)) {
      const range = document.createRange();
      range.setStart(texts.currentNode, word.index);
      range.setEnd(texts.currentNode, word.index + word[0].length);
      const lines = new Set([...range.getClientRects()].map(one => Math.round(one.top)));
      if (lines.size > 1) found.push(word[0]);
    }
  }
  return found;
})
"""
# How many lines of output are folded: a block's height in lines, less the lines of its text.
FOLDED: Final = """
() => [...document.querySelectorAll("pre > code.language-console, pre > code.language-text")].map(
  code => {
    const style = getComputedStyle(code);
    const height = code.clientHeight - parseFloat(style.paddingTop) - parseFloat(style.paddingBottom);
    const lines = code.innerText.replace(/\\n$/, "").split("\\n").length;
    return Math.round(height / parseFloat(style.lineHeight)) - lines;
  })
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    subprocess.run(command, cwd=ROOT, env=environment, check=True)
    return folder


@pytest.fixture(scope="module")
def page(site: Path) -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield browser.new_page(viewport={"width": WIDTH, "height": 900})
        browser.close()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_can_be_read_on_a_phone(page: Any, site: Path, name: str) -> None:
    page.goto((site / f"{name}.html").as_uri(), wait_until="load")

    assert page.evaluate("document.documentElement.scrollWidth") <= WIDTH
    assert page.evaluate(BROKEN, ".md-typeset table code") == []
    assert max(page.evaluate(FOLDED), default=0) <= 0
