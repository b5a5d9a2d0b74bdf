"""Read the lines of a parameter file: remove comments, insert OBEY and INCLUDE, expand macros.

A macro must be defined before it is used, in the file itself or in a file that INCLUDE names::

    MACRO #digits
    PARAMS (#column)
    BEGIN
    @STRNUM (#column, RIGHTZERO, 10)
    END;
    MAP sales.orders, TARGET dwh.orders, COLMAP (USEDEFAULTS, code = #digits (order_no));

The call becomes ``@STRNUM (order_no, RIGHTZERO, 10)``. Names of macros and parameters are
case-insensitive, and text in quotes is never replaced.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from trailgate.errors import OptionError, Where, count_noun, did_you_mean

ReadFile = Callable[[str], str]
DEEPEST: Final = 20  # the maximum nesting of files and macros
# The most characters that one call may expand to, since nested macros grow exponentially.
LONGEST: Final = 1 << 20
_QUOTED: Final = r""""[^"]*"|'[^']*'"""
# Group 1 is only set outside quotes, as in parameter_files.py.
_COMMENT: Final = re.compile(rf"{_QUOTED}|(--)")
_PARENTHESES: Final = re.compile(rf"{_QUOTED}|([(),])")
_END: Final = re.compile(rf"{_QUOTED}|((?<![\w#@])END\s*;)", re.IGNORECASE)
_WORD: Final = re.compile(r"[\s,;(]")
# INCLUDE dirprm/macros.mac, or OBEY "my file.prm";
_FILE: Final = re.compile(r"[A-Za-z]+\s+(\"[^\"]+\"|'[^']+'|[^\s;]+)\s*;?\s*(.*)")
_HEAD: Final = r"MACRO\s+({sign}\w+)\s*(?:PARAMS\s*\(([^()]*)\)\s*)?BEGIN\b(.*)"


class ParameterLine(NamedTuple):
    """A parameter line without comments: its file ("" for the parameter file itself), number and text."""

    source: str
    number: int
    text: str

    def error(self, problem: str, hint: str = "") -> OptionError:
        """Build an error at this line of a parameter file."""
        word = _WORD.split(self.text, maxsplit=1)[0]
        where = Where(source=self.source or None, line=self.number, field=word)
        return OptionError(problem, where=where, hint=hint)


class Macro(NamedTuple):
    """A macro of a parameter file: the names of its parameters in upper case, and its text."""

    parameters: tuple[str, ...]
    body: str


def expand_macros(text: str, read: ReadFile | None = None) -> Iterator[ParameterLine]:
    """Yield the lines of a parameter file with macros expanded and included files inserted. Raises OptionError.

    ``read`` returns the text of a file that OBEY or INCLUDE names.
    """
    yield from _Lines(read).of_text(text, "", ())


@dataclass(slots=True)
class _Lines:
    """Reads the lines of a parameter file, and executes MACRO, MACROCHAR, OBEY and INCLUDE.

    ``macros`` are the macros defined so far, and ``sign`` is the character with which their names
    start.
    """

    read: ReadFile | None
    sign: str = "#"
    macros: dict[str, Macro] = field(default_factory=dict)

    def of_text(self, text: str, source: str, opened: tuple[str, ...]) -> Iterator[ParameterLine]:
        """Yield the lines of a parameter file's text with macros expanded.

        ``opened`` are the files that include it, outermost first, and the file itself.
        """
        lines = _plain_lines(text, source)
        continues = False  # a continuation line may start with INCLUDE, as a DDL option
        for line in lines:
            word = "" if continues else _WORD.split(line.text, maxsplit=1)[0].upper()
            continues = line.text.endswith("&")
            if word == "COMMENT":
                yield line
            elif word == "MACROCHAR":
                self._set_sign(line)
            elif word == "MACRO":
                self._define(_until(lines, line, _END, "END;"))
            elif word in ("OBEY", "INCLUDE"):
                yield from self._of_file(line, opened)
            else:
                yield from self._expand(line, lines)

    def _set_sign(self, line: ParameterLine) -> None:
        """Execute MACROCHAR, which changes the first character of macro names."""
        words = line.text.split()
        if len(words) != 2 or len(words[1]) != 1 or words[1].isalnum():
            raise line.error(
                "expected one character other than a letter or a digit after MACROCHAR"
            )
        if self.macros:
            raise line.error("MACROCHAR follows a macro", "Write it before the first macro")
        self.sign = words[1]

    def _define(self, line: ParameterLine) -> None:
        """Define the macro of a MACRO statement, whose lines are joined in ``line``."""
        head = re.compile(_HEAD.format(sign=re.escape(self.sign)), re.IGNORECASE | re.DOTALL)
        match = head.match(line.text)
        if match is None:
            example = f"MACRO {self.sign}name PARAMS ({self.sign}value) BEGIN ... END;"
            raise line.error("expected the name of a macro, its PARAMS, BEGIN and END;", example)
        end = _first(_END, match[3])
        body, rest = match[3][:end], match[3][end:].partition(";")[2]
        if rest.strip():
            raise line.error(f"expected a new line after END;, found {rest.strip()!r}")
        names = tuple(one.strip().upper() for one in (match[2] or "").split(",") if one.strip())
        strange = [one for one in names if not re.fullmatch(rf"{re.escape(self.sign)}\w+", one)]
        if strange:
            problem = f"the parameter {strange[0]} does not begin with {self.sign}"
            raise line.error(problem)
        self.macros[match[1].upper()] = Macro(names, body.strip())

    def _of_file(self, line: ParameterLine, opened: tuple[str, ...]) -> Iterator[ParameterLine]:
        """Yield the lines of the parameter file that OBEY or INCLUDE names."""
        match = _FILE.fullmatch(line.text)
        if match is None or match[2]:
            raise line.error("expected one file name")
        path = match[1].strip("\"'")
        if path in opened or len(opened) > DEEPEST:
            chain = " includes ".join((*opened, path))
            raise line.error(f"a file includes itself: {chain}")
        if self.read is None:
            raise line.error(f"{path} cannot be read here", "Write its lines into this file")
        try:
            text = self.read(path)
        except OptionError as error:
            raise error.with_place(source=line.source or None, line=line.number) from None
        yield from self.of_text(text, path, (*opened, path))

    def _expand(
        self, line: ParameterLine, more: Iterator[ParameterLine]
    ) -> Iterator[ParameterLine]:
        """Yield a line with its macro calls expanded. A call may continue on the next lines."""
        if self.sign not in line.text:
            yield line
            return
        text = self._replace(line, line.text, more, ())
        for one in text.split("\n"):
            if one.strip():
                yield line._replace(text=one.strip())

    def _replace(
        self, line: ParameterLine, text: str, more: Iterator[ParameterLine], called: tuple[str, ...]
    ) -> str:
        """Expand the macro calls in a text of a parameter file.

        ``line`` is the text's line, for errors, and ``more`` are the lines after it, on which a call
        may continue. ``called`` are the macros that are being expanded, innermost first: a call of one
        of them is an error.
        """
        calls = re.compile(rf"{_QUOTED}|(?<![\w$@.])({re.escape(self.sign)}\w+)(\s*\()?")
        done, at = "", 0
        while (match := calls.search(text, at)) is not None:
            done, at = done + text[at : match.start()], match.end()
            if match[1] is None:  # in quotes
                done += match[0]
                continue
            name = match[1].upper()
            macro = self.macros.get(name)
            # An unknown #word is only an error if it looks like a call or starts the line;
            # elsewhere it may be a name.
            if macro is None:
                if match[2] or not done.strip():
                    hint = did_you_mean(name, self.macros) or "A macro is defined before its use"
                    raise line.error(f"the macro {match[1]} is not defined", hint)
                done += match[0]
                continue
            if name in called or len(called) > DEEPEST:
                raise line.error(f"a macro contains itself: {' in '.join((name, *called))}")
            values: tuple[str, ...] = ()
            if match[2]:
                while (close := _closing(text, at)) is None:
                    text += "\n" + _next(more, line, ")").text
                values, at = _arguments(text[at:close]), close + 1
            body = self._with_values(line, name, macro, values)
            done += self._replace(line, body, more, (name, *called))
            if len(done) > LONGEST:
                raise line.error(f"{name} expands to more than {LONGEST} characters")
        return done + text[at:]

    def _with_values(
        self, line: ParameterLine, name: str, macro: Macro, values: tuple[str, ...]
    ) -> str:
        """Return a macro's text with its parameters replaced by the values of a call.

        Raises OptionError if the number of values is wrong.
        """
        if len(values) != len(macro.parameters):
            count = len(macro.parameters)
            wanted = count_noun(count, "value")
            raise line.error(f"the macro {name} takes {wanted}, not {len(values)}")
        if not values:
            return macro.body
        known: Mapping[str, str] = dict(zip(macro.parameters, values, strict=True))
        # Longer names first, so that #ab is not replaced as #a followed by b.
        names = "|".join(re.escape(one) for one in sorted(known, key=len, reverse=True))
        sought = re.compile(rf"{_QUOTED}|({names})(?!\w)", re.IGNORECASE)
        return sought.sub(lambda one: known[one[1].upper()] if one[1] else one[0], macro.body)


def _plain_lines(text: str, source: str) -> Iterator[ParameterLine]:
    """Yield the lines of a parameter file without comments and empty lines."""
    for number, raw in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        at = _first(_COMMENT, raw)
        line = (raw if at is None else raw[:at]).strip()
        if line:
            yield ParameterLine(source, number, line)


def _until(
    lines: Iterator[ParameterLine], line: ParameterLine, mark: re.Pattern[str], due: str
) -> ParameterLine:
    """Join a line of a parameter file with the following lines, up to a line that contains the mark.

    ``due`` is the mark as text, for the error at the end of the file.
    """
    parts = [line.text]
    while _first(mark, parts[-1]) is None:
        parts.append(_next(lines, line, due).text)
    return line._replace(text="\n".join(parts))


def _next(lines: Iterator[ParameterLine], line: ParameterLine, due: str) -> ParameterLine:
    """Return the next line of a parameter file.

    Raises OptionError at its end: ``due`` was expected.
    """
    next_line = next(lines, None)
    if next_line is None:
        raise line.error(f"expected '{due}', found the end of the file")
    return next_line


def _first(pattern: re.Pattern[str], text: str) -> int | None:
    """Return the offset of a pattern's first match outside quotes in a parameter line, or None."""
    return next((match.start(1) for match in pattern.finditer(text) if match[1]), None)


def _closing(text: str, at: int) -> int | None:
    """Return the offset at which the parenthesis before ``at``, of a macro call, is closed, or None."""
    depth = 1
    for match in _PARENTHESES.finditer(text, at):
        depth += {"(": 1, ")": -1}.get(match[1] or "", 0)
        if not depth:
            return match.start()
    return None


def _arguments(text: str) -> tuple[str, ...]:
    """Split the values of a macro call at its commas, except commas in quotes or parentheses."""
    values, begin, depth = [], 0, 0
    for sign in _PARENTHESES.finditer(text):
        if sign[1] == "," and not depth:
            values.append(text[begin : sign.start()].strip())
            begin = sign.end()
        depth += {"(": 1, ")": -1}.get(sign[1] or "", 0)
    last = text[begin:].strip()
    return (*values, last) if values or last else ()
