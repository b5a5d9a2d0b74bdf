"""Read lines at a prompt, with history and completion (prompt_toolkit)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prompt_toolkit.completion import Completer


def read_typed_lines(
    history: str,
    prompt: Callable[[], str],
    *,
    default: Callable[[], str] = str,
    completer: Completer | None = None,
) -> Iterator[str]:
    """Yield lines until the input ends. Ctrl-C drops the line, Ctrl-D ends the input.

    ``history`` is a file, in which ``~`` is the home folder. ``prompt`` and ``default`` (a text to
    edit) are called before each line.
    """
    from prompt_toolkit import PromptSession  # noqa: PLC0415  only a terminal needs it
    from prompt_toolkit.history import FileHistory  # noqa: PLC0415

    session: PromptSession[str] = PromptSession(
        history=FileHistory(str(Path(history).expanduser())), completer=completer
    )
    while True:
        try:
            yield session.prompt(prompt(), default=default())
        except KeyboardInterrupt:
            yield ""
        except EOFError:
            return
