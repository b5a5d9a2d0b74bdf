"""The program ``trailgate``: find the command, run it, and turn errors into exit codes.

Each command is a module below ``cli.commands`` with a function ``command``. Only the module that
the command line names is imported, so that ``trailgate --help`` stays fast.

Exit codes: 0 done, 1 bad input, 2 wrong usage, 3 a file or the output cannot be written, 4 only a
part was processed, and the output lists the rest, 5 the target does not work now, 130 interrupted.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import wraps
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final

import trailgate
from trailgate.cli.startup import (
    QuickExit,
    compile_dataclasses_late,
    convert_without_pydantic,
    hide_pandas,
    shorten_compute_help,
)
from trailgate.errors import OptionError, TargetUnavailableError, TrailgateError, WriteError
from trailgate.terminal.output import quiet_pipe, say, terminal_width

# The commands with their summaries. The module of a command has the function ``command``.
COMMANDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "init": "Propose the properties of a capture from messages.",
        "capture": "Capture messages into a trail.",
        "apply": "Apply the operations of a trail to tables.",
        "publish": "Publish the operations of a trail as messages.",
        "show": "Show the operations of a trail.",
        "sql": "Run a SELECT statement over trails.",
        "analyze": "Show every byte of a trail file with its meaning.",
        "check": "Check a trail for damage, and salvage the rest.",
        "browse": "Show a trail in a browser.",
        "report": "Write an overview of a trail as one HTML file.",
        "redact": "Write a copy of a trail with its values replaced, to share.",
        "copybook": "Show the layout of a copybook's records.",
        "explain": "Show what XML rules match in a message.",
        "gendef": "Write the definitions file of a capture's tables.",
        "logdump": "Inspect trail files with Logdump's commands.",
        "assumptions": "List the assumptions about formats, with reasons and tests.",
        "journal": "Show the messages received from a broker.",
        "records": "Show files of fixed-width records, convert, verify or edit them.",
        "demo": "Capture the sample messages into a trail and show it.",
        "warm": "Compile everything ahead of time, for this machine.",
    }
)

# Commands whose module is in the package of a feature; the others are in ``cli.commands``.
MODULES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "apply": "trailgate.apply.commands.apply",
        "journal": "trailgate.live.commands.journal",
        "publish": "trailgate.publish.commands.publish",
        "copybook": "trailgate.mainframe.commands.copybook",
        "records": "trailgate.mainframe.commands.records",
        "browse": "trailgate.browse.commands.browse",
        "logdump": "trailgate.logdump.command",
        "report": "trailgate.browse.commands.report",
        "sql": "trailgate.sql.command",
    }
)

# Commands that only print, and so have nothing to close when they exit.
PRINTING: Final = frozenset({"analyze", "assumptions", "copybook", "explain", "show"})

# Former names of options, which are still accepted but not listed in the help.
_AS_ROWS: Final = {"--json": "--format=json"}
ALIASES: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "analyze": {
            "--from": "--from-position",
            "--offset": "--from-position",
            "--records": "--limit",
        },
        "copybook": _AS_ROWS,
        "gendef": {
            "--prop": "--properties",
            "-prop": "--properties",
            "--out": "--to",
            "-out": "--to",
        },
        "journal": {"--from": "--from-message", **_AS_ROWS},
        "publish": {"--table": "--tables"},
        "records": _AS_ROWS,
        "redact": {"--records": "--limit"},
        "show": _AS_ROWS,
        "sql": _AS_ROWS,
    }
)
FIRST_STEPS: Final = """\
Read, write and query GoldenGate trail files, and capture messages into them.

  trailgate demo                    capture sample messages, show the trail
  trailgate show dirdat/ot          a trail that you have
  trailgate sql "SELECT * FROM 'dirdat/ot' LIMIT 5"
  trailgate logdump                 Logdump's commands
  trailgate init --from messages    properties that fit your messages
  trailgate capture --help          messages from files or a broker into a trail

trailgate --help lists all commands."""
RENAME: Final = "Rename the file, or link to it by another name"
NARROW: Final = 72  # columns of a terminal in which the table of options would be cut
HELP: Final[dict[str, Any]] = {"help_option_names": ["-h", "--help"]}
# The first class that an error is an instance of decides; docs/cli.md lists the codes.
EXIT_CODES: Final[Mapping[type[Exception], int]] = MappingProxyType(
    {
        OptionError: 2,
        WriteError: 3,
        TargetUnavailableError: 5,
        TrailgateError: 1,
        OSError: 3,
    }
)

# Errors of pydantic, which typer uses to parse numbers, with our own wording.
FAULTS: Final = MappingProxyType(
    {
        "int_parsing": "{!r} is not a whole number",
        "int_from_float": "{!r} is not a whole number",
        "float_parsing": "{!r} is not a number",
        "greater_than_equal": "{!r} is below {ge}",
        "less_than_equal": "{!r} is above {le}",
    }
)


def main(arguments: list[str] | None = None) -> None:
    """Run the program and exit (the console entry point)."""
    exiting = QuickExit()
    compile_dataclasses_late()
    hide_pandas()
    shorten_compute_help()
    _open_closed()
    _log_compiling()
    words = sys.argv[1:] if arguments is None else arguments
    code = run(words)
    if words and words[0] in PRINTING:
        exiting.code = code
    sys.exit(code)


def _open_closed() -> None:
    """Replace streams that the shell has closed by /dev/null, so that printing does nothing."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123


def _log_compiling() -> None:
    """Print log messages about compiling kernels to stderr, because compiling takes seconds."""
    log = logging.getLogger("trailgate.columnar.compiling")
    log.setLevel(logging.INFO)
    log.addHandler(logging.StreamHandler())
    log.propagate = False


def run(arguments: list[str]) -> int:
    """Run a command line and return its exit code. An error is printed without a traceback."""
    try:
        _check_text(arguments)
        if not arguments and not _complete():
            for line in FIRST_STEPS.splitlines():
                say(line, indent=" " * 36)
            return 2
        arguments = _without_verbs(arguments)
        code = _program(arguments)(arguments, prog_name="trailgate")
        return code if isinstance(code, int) else 0
    except SystemExit as done:
        # a text as the code is an error message, and None means success
        return done.code if isinstance(done.code, int) else int(done.code is not None)
    except KeyboardInterrupt:
        return 130
    except (TrailgateError, OSError) as error:
        if os.environ.get("TRAILGATE_DEBUG") == "1":
            raise
        with suppress(OSError):  # stderr may be closed or full
            print(f"error: {_text(error)}", file=sys.stderr)
        # EXIT_CODES lists subclasses before their bases, so the first match is the most specific
        return next(code for kind, code in EXIT_CODES.items() if isinstance(error, kind))


def _without_verbs(arguments: list[str]) -> list[str]:
    """Translate ``help COMMAND`` and ``version``, which many programs understand, to ``--help`` and ``--version``."""
    if arguments[:1] == ["help"]:
        return [*arguments[1:2], "--help"]
    return ["--version"] if arguments == ["version"] else arguments


def _check_text(arguments: list[str]) -> None:
    """Raise OptionError for an argument that is not UTF-8, because it could not be printed or found."""
    for argument in arguments:
        # Python decodes bytes that are not UTF-8 to lone surrogates (PEP 383)
        if any("\udc80" <= character <= "\udcff" for character in argument):
            shown = os.fsencode(argument).decode("utf-8", "backslashreplace")
            raise OptionError(f"the argument {shown} is not UTF-8", hint=RENAME)


def _text(error: TrailgateError | OSError) -> str:
    if isinstance(error, TrailgateError) or error.strerror is None:
        return str(error)
    return error.strerror if error.filename is None else f"{error.strerror} ({error.filename})"


def program_for(arguments: list[str]) -> Any:
    """Build the Click group of all commands, and import only the command that the arguments name.

    If the program's own help will be shown, the other commands are stubs with a summary; otherwise
    they are omitted.
    """
    import typer  # noqa: PLC0415  no other module loads it

    width = terminal_width()
    plain: dict[str, Any] = {"rich_markup_mode": None} if width < NARROW else {}
    program = typer.Typer(
        pretty_exceptions_enable=False,
        help="Read, write and query GoldenGate trail files, and capture messages into them.",
        **plain,
    )
    words = arguments or _complete()
    asked = next((argument for argument in words if not argument.startswith("-")), "")
    # The program imports only the requested command, because importing all would make --help slow.
    # If the first word is a command, the help of the program is not shown, so no other is needed.
    names = [asked] if asked in COMMANDS and words[0] == asked else COMMANDS
    for name in names:
        summary = COMMANDS[name]
        function, examples = _import(name) if name == asked else (_stub, "")
        program.command(name, help=summary, epilog=examples, context_settings=HELP)(function)
    version = typer.Option(
        False, "--version", help="Print the version.", callback=_version, is_eager=True
    )

    @program.callback(context_settings=HELP)
    def options(*, version: bool = version) -> None:
        """Process the options of the program itself, before the command: ``--version``."""

    made: Any = typer.main.get_command(program)
    for command in (made, *made.commands.values()):
        for parameter in (*command.params, command.get_help_option(typer.Context(command, **HELP))):
            convert_without_pydantic(parameter)
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""  # the type of a switch is not shown
            elif parameter.param_type_name == "argument":
                parameter.display_type_rich = _no_type  # users need no <str> beside TRAIL
    if plain:
        from trailgate.cli.narrow_help import (  # noqa: PLC0415  only narrow terminals need it
            print_narrow_help,
        )

        print_narrow_help(made, width)
    return made


def _no_type(ctx: object) -> None:
    """Return an empty type name for the help of an argument, in place of ``<str>``."""


def _program(arguments: list[str]) -> Callable[..., object]:
    """Return a function that runs the command named by the arguments."""
    import typer  # noqa: PLC0415  no other module loads it

    made = program_for(arguments)
    aliases = ALIASES.get(next((one for one in arguments if not one.startswith("-")), ""), {})
    # The base of all usage errors; typer may import it from click or from its own copy.
    usage: Any = typer.BadParameter.__base__  # whichever package it is from

    def running(given: list[str], prog_name: str) -> object:
        try:
            # standalone_mode=False: raise errors instead of printing them and exiting
            return made(_rename(given, aliases), prog_name=prog_name, standalone_mode=False)
        except usage as error:
            path = prog_name if error.ctx is None else error.ctx.command_path
            problem = _usage_problem(error)
            hint = "" if problem.endswith("?") else f"{path} --help shows the usage"
            raise OptionError(problem, hint=hint) from None
        except typer.Abort:
            raise KeyboardInterrupt from None

    return running


def _usage_problem(error: Any) -> str:
    """Return the text of a usage error of typer, with our words for the wrong value."""
    # typer's text contains pydantic's message, which is replaced by ours
    problem: str = error.format_message().rstrip(".")
    faults: list[Any] = getattr(error.__cause__, "errors", list)()
    for fault in faults[:1]:
        template = FAULTS.get(fault["type"])
        if template is not None:
            text = template.format(fault["input"], **fault.get("ctx", {}))
            problem = problem.replace(str(fault["msg"]), text)
    return problem.replace("Value error, ", "")


def _rename(arguments: list[str], aliases: Mapping[str, str]) -> list[str]:
    """Replace former names of options (``aliases``) by their current names in the command line."""
    # words after -- are not options
    end = arguments.index("--") if "--" in arguments else len(arguments)
    parts = [argument.partition("=") for argument in arguments[:end]]
    _check_values(arguments[:end], aliases)
    return ["".join((aliases.get(one[0], one[0]), *one[1:])) for one in parts] + arguments[end:]


def _check_values(words: list[str], aliases: Mapping[str, str]) -> None:
    """Raise OptionError if a former name that stands for a value, as --json does, is combined with another value."""
    for former, current in aliases.items():
        name, _, value = current.partition("=")
        if not value or former not in words:
            continue
        found = [after for word, after in pairwise(words) if word == name]
        found += [word.partition("=")[2] for word in words if word.startswith(f"{name}=")]
        other = next((one for one in found if one != value), None)
        if other is not None:
            raise OptionError(f"{former} and {name} {other} exclude each other")


def _complete() -> list[str]:
    """Return the words of the command line that the shell wants to complete, without the program's name.

    Returns no words if it does not ask for completion.
    """
    line = os.environ.get("COMP_WORDS", os.environ.get("_TYPER_COMPLETE_ARGS", ""))
    return line.split()[1:] if "_TRAILGATE_COMPLETE" in os.environ else []


def import_command(name: str) -> Any:
    """Import the module of a command."""
    return importlib.import_module(MODULES.get(name, f"trailgate.cli.commands.{name}"))


def _import(name: str) -> tuple[Callable[..., object], str]:
    """Import a command of the program.

    Returns its function, which ignores a closed pipe, and the end of its help: exit codes and
    examples.
    """
    module = import_command(name)
    function: Callable[..., object] = module.command
    lines = [
        line
        for title, name in (("Exit codes:", "EXIT_CODES"), ("Examples:", "EXAMPLES"))
        if hasattr(module, name)
        for line in (title, *getattr(module, name), "")
    ][:-1]

    @wraps(function)
    def printing(*arguments: object, **options: object) -> object:
        with quiet_pipe():
            return function(*arguments, **options)

    return printing, "\n".join(lines)


def _stub() -> None:
    """Stand for a command that the program's help only lists; it is never called."""


def _version(*, asked: bool) -> None:
    if asked:
        print(f"trailgate {trailgate.__version__}")
        raise SystemExit(0)
