"""A hook of MkDocs: pages of the site that are files of the repository's root, such as README.md.

The repository links them by their places in the repository; on the site they are pages beside those of ``docs``.
"""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PAGES = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "LICENSE": "license.md",
}
LINK = re.compile(r"\]\(([^)#\s]+)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages to the site's files."""
    for name, page in PAGES.items():
        text = (ROOT / name).read_text()
        if page == "license.md":
            text = f"# License\n\n```text\n{text}```\n"
        files.append(File.generated(config, page, content=LINK.sub(_from_root, text)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let links of a page to files of the root lead to their pages."""
    up = "../" * page.file.src_uri.count("/")
    return LINK.sub(lambda found: _from_page(found, up), markdown)


def _from_root(found: re.Match[str]) -> str:
    target = found.group(1)
    return f"]({PAGES.get(target, target.removeprefix('docs/'))}"


def _from_page(found: re.Match[str], up: str) -> str:
    target = found.group(1)
    page = PAGES.get(target.removeprefix(f"{up}../"), "") if target.startswith("../") else ""
    return f"]({up}{page}" if page else found.group(0)
