"""Read lines that a user types at the prompt of a session, as in ``trailgate logdump`` and ``trailgate sql``.

Python's readline adds the history of earlier lines, which is kept in a file, and the completion of
words with the tab key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Final

MOST_HISTORY: Final = 1000  # lines in the file of a prompt's history


def read_typed_lines(
    history: str,
    prompt: Callable[[], str],
    *,
    default: Callable[[], str] = str,
    complete: Callable[[str], list[str]] | None = None,
) -> Iterator[str]:
    """Yield lines typed at a prompt until the input ends.

    Ctrl-C discards the line and yields "" for it, and Ctrl-D ends the input.

    ``history`` is a file, in which ``~`` is the home folder. ``prompt`` and ``default`` (a text to
    edit) are called before each line. ``complete`` lists possible completions of the last word of a
    line. A Python without readline has neither history nor completion.
    """
    try:
        import readline  # noqa: PLC0415  only a terminal needs it
    except ImportError:
        yield from _typed(prompt)
        return
    path = Path(history).expanduser()
    # readline has one history for the process, and an earlier prompt may have left its lines.
    readline.clear_history()
    with suppress(OSError):  # there is none yet
        readline.read_history_file(path)
    readline.set_history_length(MOST_HISTORY)
    readline.set_completer_delims(" ,;")
    readline.set_completer(None if complete is None else _matches(readline, complete))
    # Python may be built with libedit instead of GNU readline. It has other commands, and shows
    # only in the docstring of the module.
    of_libedit = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if of_libedit else "tab: complete")
    readline.set_startup_hook(lambda: readline.insert_text(default()))
    try:
        for line in _typed(prompt):
            # Written before the line runs, so that it is in the history if the process is killed.
            with suppress(OSError):  # a home folder that is read-only
                readline.write_history_file(path)
            yield line
    finally:
        readline.set_completer(None)
        readline.set_startup_hook(None)


def _typed(prompt: Callable[[], str]) -> Iterator[str]:
    while True:
        try:
            yield input(prompt())
        except KeyboardInterrupt:
            # The cursor is still in the line that was typed.
            print()
            yield ""
        except EOFError:
            print()
            return


def _matches(
    readline: ModuleType, complete: Callable[[str], list[str]]
) -> Callable[[str, int], str | None]:
    """Return a completer in the form that readline expects: called for the first match, then for each further match until it returns None."""
    found: list[str] = []

    def match(_word: str, number: int) -> str | None:
        if number == 0:
            # Only the text up to the cursor. The arguments of readline have just its last word.
            found[:] = complete(readline.get_line_buffer()[: readline.get_endidx()])
        return found[number] if number < len(found) else None

    return match
