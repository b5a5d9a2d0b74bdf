"""Write docs/modules.md: every module of src/trailgate with the first line of its docstring, by package.

A test compares the page with the sources.
"""

from __future__ import annotations

import ast
from itertools import groupby
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = ROOT / "docs/modules.md"
HEAD: Final = """\
# Modules

Every module below `src/trailgate`, by package. Search this page for the words of a task: the first lines say what a module holds, and for which format or layer. [Architecture](architecture.md) explains how the packages fit together.
"""


def first_line(path: Path) -> str:
    """Return the first line of a module's docstring, for a page: with code marked by single backticks."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0].replace("``", "`").replace("<", "&lt;")


def page() -> str:
    """Return the page, whose lines are those of the modules in the order of their paths."""
    source = ROOT / "src/trailgate"
    paths = sorted(source.rglob("*.py"), key=lambda path: (path.parent, path.name))
    parts = [HEAD]
    for folder, modules in groupby(paths, key=lambda path: path.parent):
        name = folder.relative_to(source).as_posix()
        lines = {path.name: first_line(path) for path in modules}
        about = lines.pop("__init__.py", "")
        parts.append(f"\n## {'trailgate' if name == '.' else name}\n\n{about}\n")
        listed = [f"- `{module}`: {line}\n" for module, line in lines.items() if line]
        if listed:
            parts.append("\n" + "".join(listed))
    return "".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
