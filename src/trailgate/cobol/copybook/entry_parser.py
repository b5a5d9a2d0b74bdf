"""Parse a copybook's tokens into entries.

Each clause is a method of ``_Cursor``, which is selected by the clause's first word.

An entry is a level number, an optional name, and clauses up to the period. The cursor moves through
the tokens once. It looks up the next word in ``_CLAUSES``; the method for that clause consumes the
clause's tokens and fills in the entry. Comments belong to the entry after them. For example, ``05 A
PIC 9(3) COMP-3.`` calls ``picture`` and then ``usage``.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final

from trailgate.cobol.copybook.entries import (
    CONDITION,
    CONSTANT,
    RECORD,
    RENAMES,
    STAND_ALONE,
    CopybookEntry,
    apply_comments,
    expand_typedefs,
    nest_entries,
)
from trailgate.cobol.copybook.layouts import (
    UNBOUNDED,
    ConditionName,
    CopybookLayout,
    Occurs,
    SignPosition,
    Usage,
)
from trailgate.cobol.copybook.level_78 import Constants, ItemsBefore, evaluate_constant
from trailgate.cobol.copybook.pictures import PictureError, parse_picture
from trailgate.cobol.copybook.source import CopybookToken, CopybookTokenType
from trailgate.cobol.copybook.sql_types import BYTES, describe_sql_type
from trailgate.errors import OptionError

# Each spelling of a USAGE with its usual short name. ``reader`` computes the sizes.
USAGES: Final[Mapping[str, str]] = MappingProxyType(
    {
        **{
            f"{word}{n}": f"COMP{n}"
            for word in ("COMP", "COMPUTATIONAL")
            for n in ("", *(f"-{digit}" for digit in "1234569NX"))
        },
        "COMP-3U": "COMP-6",
        "BINARY": "COMP",
        "COMP-4": "COMP",
        "COMPUTATIONAL-4": "COMP",
        "PACKED-DECIMAL": "COMP-3",
        "DISPLAY": "DISPLAY",
        "DISPLAY-1": "DISPLAY-1",
        "NATIONAL": "NATIONAL",
        "UTF-8": "UTF-8",
        "POINTER": "POINTER",
        "POINTER-32": "POINTER",
        "PROCEDURE-POINTER": "PROCEDURE-POINTER",
        "FUNCTION-POINTER": "POINTER",
        "INDEX": "INDEX",
        "FLOAT-SHORT": "COMP-1",
        "FLOAT-LONG": "COMP-2",
        **{word: word for word in ("BINARY-CHAR", "BINARY-SHORT", "BINARY-LONG", "BINARY-DOUBLE")},
        "BINARY-INT": "BINARY-LONG",
        "BINARY-LONG-LONG": "BINARY-DOUBLE",
    }
)
# Words that can follow a number in VALUE. A number before one of them is a value, not a level.
_AFTER_VALUE: Final = re.compile(
    r"[-+]?[\d.,]*\d|THRU|THROUGH|(ZERO|SPACE)(S|ES)?|(HIGH|LOW)-VALUES?|QUOTES?|ALL|NULLS?",
    re.IGNORECASE,
)
_NAMED: Final = re.compile(r"\(([A-Za-z][\w-]*)\)")  # the repetition of a picture
_NOISE: Final = frozenset({"IS", "ARE", "TIMES", "ON", "WHEN", "CHARACTER", "MODE", "KEY"})


Measure = Callable[[list[CopybookEntry]], list[CopybookLayout]]

# By the word of SIGN IS, and whether SEPARATE follows.
_SIGNS: Final = MappingProxyType(
    {
        ("LEADING", False): SignPosition.LEADING,
        ("LEADING", True): SignPosition.LEADING_SEPARATE,
        ("TRAILING", False): SignPosition.TRAILING,
        ("TRAILING", True): SignPosition.TRAILING_SEPARATE,
    }
)

_LOG: Final = logging.getLogger(__name__)
# Bytes of the binary usages that have no picture.
BYTES_OF: Final[Mapping[str, int]] = MappingProxyType(
    {"BINARY-CHAR": 1, "BINARY-SHORT": 2, "BINARY-LONG": 4, "BINARY-DOUBLE": 8}
)
# By the word after USAGE, which is optional: PIC S9(5) COMP-3.
USAGE_OF: Final[Mapping[str, Usage]] = MappingProxyType(
    {
        "COMP": Usage.BINARY,
        "COMP-5": Usage.NATIVE,
        "COMP-9": Usage.LITTLE,
        "COMP-N": Usage.NATIVE_SHORT,
        "COMP-X": Usage.SHORT,
        **dict.fromkeys(BYTES_OF, Usage.NATIVE),
        "COMP-1": Usage.FLOAT,
        "COMP-2": Usage.DOUBLE,
        "COMP-3": Usage.PACKED,
        "COMP-6": Usage.UNSIGNED_PACKED,
        "POINTER": Usage.RAW,
        "PROCEDURE-POINTER": Usage.RAW,
        "INDEX": Usage.RAW,
        BYTES: Usage.RAW,
    }
)


def parse_entries(
    tokens: list[CopybookToken],
    measure: Measure,
    constants: Constants = MappingProxyType({}),
    *,
    comma: bool = False,
) -> list[CopybookEntry]:
    """Parse the tokens of a copybook into its records, each an entry with its items below it. Raises DefinitionError.

    ``measure`` computes the layouts of the entries so far, for constants such as LENGTH OF.
    ``constants`` are those of ``$SET CONSTANT``. ``comma`` means DECIMAL-POINT IS COMMA.
    """
    cursor = _Cursor(tokens, measure, constants, comma=comma)
    return expand_typedefs(nest_entries(list(cursor.entries())))


class _Cursor:
    """Reads the entries of a copybook from its tokens.

    Comments are stored separately, by the index of the token after them. A level-78 name is a
    constant: it is replaced by its number in later entries, like a constant of ``$SET CONSTANT``.
    """

    def __init__(
        self,
        tokens: list[CopybookToken],
        measure: Measure,
        constants: Constants,
        *,
        comma: bool,
    ) -> None:
        self._tokens: list[CopybookToken] = []
        self._constants = dict(constants)
        self._entries: list[CopybookEntry] = []
        self._types: set[str] = set()
        self._measure = measure
        self._measured: tuple[int, list[CopybookLayout]] = 0, []
        self._comma = comma
        self._comments: dict[int, list[CopybookToken]] = {}
        for token in tokens:
            if token.kind is CopybookTokenType.COMMENT:
                self._comments.setdefault(len(self._tokens), []).append(token)
            else:
                self._tokens.append(token)
        self._position = 0

    def entries(self) -> Iterator[CopybookEntry]:
        """Yield the copybook's entries in order, and store the values of constants."""
        comments: list[CopybookToken] = []
        while self._position < len(self._tokens):
            comments += self._comments.get(self._position, [])
            token = self._tokens[self._position]
            if token.kind is CopybookTokenType.PERIOD:
                self._position += 1
            elif self._at_constant(token):
                self._constant(token)
            else:
                entry = self._entry()
                apply_comments(comments, entry)
                comments = []
                self._entries.append(entry)
                yield entry

    def _at_constant(self, token: CopybookToken) -> bool:
        """Return True if the token begins a constant: level 78, or ``01 name CONSTANT``."""
        after = [one.upper for one in self._tokens[self._position + 2 : self._position + 3]]
        stated = token.text in ("01", "1") and after == ["CONSTANT"]
        return token.first and (token.upper == CONSTANT or stated)

    def _constant(self, token: CopybookToken) -> None:
        """Parse a constant of level 78 or 01, and store its value for later entries."""
        # 78 MAX VALUE 10.  or  01 MAX CONSTANT AS 10.
        self._position += 1
        name = self._expect("a name", token)
        self._skip("CONSTANT")
        self._noise()
        self._skip("GLOBAL")
        if not self._skip("VALUE", "AS") and token.upper == CONSTANT:
            raise token.error(f"the constant {name.text} has no VALUE")
        self._noise()
        words = [self._expect("a value", token)]
        while (more := self._peek()) is not None and more.kind is not CopybookTokenType.PERIOD:
            words.append(more)
            self._position += 1
        before = ItemsBefore(self._layouts, self._next_level())
        self._constants[name.upper] = evaluate_constant(words, self._constants, before)

    def _layouts(self) -> list[CopybookLayout]:
        """Return the layouts of the entries parsed so far, for constants such as LENGTH OF.

        They are computed again only if entries were added.
        """
        count = len(self._entries)
        if self._measured[0] != count:
            self._measured = count, self._measure(self._entries)
        return self._measured[1]

    def _next_level(self) -> int:
        """Return the level number of the copybook's next item. Level 77 and the end count as 1."""
        for token in self._tokens[self._position :]:
            if token.first and token.upper.isdecimal() and len(token.text) <= 2:
                level = int(token.text)
                # 77 % 77 is 0: an item of level 77 is a record of its own, like one of level 01.
                if level in range(1, 50) or level == STAND_ALONE:
                    return level % STAND_ALONE or RECORD
        return RECORD

    def _entry(self) -> CopybookEntry:
        """Parse one data description entry, from its level number to its period."""
        token = self._tokens[self._position]
        if token.kind is not CopybookTokenType.WORD or not token.text.isdecimal():
            raise token.error(f"a level number was expected, not {token.text}")
        level = int(token.text)
        if not (1 <= level <= 49 or level in (RENAMES, STAND_ALONE, CONDITION)):
            raise token.error(
                f"{token.text} is not a level number", "1 to 49, 66, 77, 78 and 88 are"
            )
        self._position += 1
        entry = CopybookEntry(level, "", token)
        # The name may be missing: ``05 PIC X.`` is FILLER.
        named = self._word()
        if named is not None and named.upper not in _CLAUSES and not self._at_entry():
            self._position += 1
            entry.name = named.text
        entry.filler = not entry.name or entry.name.upper() == "FILLER"
        entry.name = entry.name or "FILLER"
        self._clauses(entry)
        return entry

    def _clauses(self, entry: CopybookEntry) -> None:
        """Parse an entry's clauses (PIC, OCCURS, ...) up to its period.

        The period may be missing if another entry follows.
        """
        while (token := self._peek()) is not None:
            if token.kind is CopybookTokenType.PERIOD:
                self._position += 1
                return
            if self._at_entry():
                break  # the period is missing, as in the manual's own examples
            clause = _CLAUSES.get(token.upper)
            if clause is None:
                hint = "PIC, USAGE, OCCURS, REDEFINES, SIGN, VALUE, ... or the period at its end"
                raise token.error(f"a clause of {entry.name} was expected, not {token.text}", hint)
            self._position += 1
            clause(self, entry, token)
        last = self._tokens[self._position - 1]
        if last.cut.endswith("."):
            raise last.error(f"the entry of {entry.name} has no period")

    def _at_entry(self) -> bool:
        """Return True if the next token can be a level number: one or two digits, first on its line."""
        token = self._peek()
        if token is None:
            return False
        return token.first and token.upper.isdecimal() and len(token.text) <= 2

    def _peek(self) -> CopybookToken | None:
        return self._tokens[self._position] if self._position < len(self._tokens) else None

    def _word(self) -> CopybookToken | None:
        token = self._peek()
        return token if token is not None and token.kind is CopybookTokenType.WORD else None

    def _skip(self, *words: str) -> bool:
        """Skip the copybook's next word if it is one of ``words``. Return True if it was."""
        token = self._word()
        if token is not None and token.upper in words:
            self._position += 1
            return True
        return False

    def _noise(self) -> None:
        """Skip optional words such as IS and TIMES."""
        while self._skip(*_NOISE):
            pass

    def _expect(self, what: str, after: CopybookToken) -> CopybookToken:
        """Consume and return the entry's next token. Raises DefinitionError if the entry ends here.

        The error states that ``what`` was expected after the token ``after``.
        """
        token = self._peek()
        if token is None or token.kind is CopybookTokenType.PERIOD:
            raise (token or after).error(f"{what} was expected after {after.text}")
        self._position += 1
        return token

    def _number(self, what: str, after: CopybookToken) -> int:
        """Consume the number of a clause: an integer, or a constant, whose value is returned.

        Raises DefinitionError if there is neither. ``what`` and ``after`` are the same as for
        ``_expect``.
        """
        token = self._expect(what, after)
        constant = self._constants.get(token.upper)
        if constant is not None:
            return constant
        if not token.text.isdecimal():
            raise token.error(f"{what} was expected after {after.text}, not {token.text}")
        return int(token.text)

    # The clauses. Each is called after its first word.

    def picture(self, entry: CopybookEntry, token: CopybookToken) -> None:
        # PIC S9(5)V99, or with a constant PIC X(LEN)
        self._skip("IS")
        text = self._expect("a picture", token)
        if entry.picture is not None:
            raise text.error(f"{entry.name} has two pictures")
        try:
            counted = _NAMED.sub(partial(self._count, text), text.text)
            entry.picture = parse_picture(counted, comma=self._comma)
        except PictureError as error:
            raise text.error(str(error), error.hint) from None

    def _count(self, picture: CopybookToken, match: re.Match[str]) -> str:
        """Replace a constant's name in a picture's repetition by its number: ``(LEN)`` becomes ``(8)``."""
        number = self._constants.get(match[1].upper())
        if number is None:
            hint = "Define it before, by level 78 or $SET CONSTANT"
            problem = f"{match[1]} in the picture {picture.text} is not a constant with a number"
            raise picture.error(problem, hint)
        return f"({number})"

    def usage_is(self, entry: CopybookEntry, token: CopybookToken) -> None:
        # USAGE IS COMP-3, USAGE IS SQL TYPE IS CLOB(100), USAGE a-typedef
        self._skip("IS")
        named = self._expect("a usage", token)
        if named.upper == "SQL":
            self.sql_type(entry, named)
            return
        if named.upper in self._types:
            entry.type = named.upper
            return
        if named.upper not in USAGES:
            raise named.error(f"{named.text} is not a usage", f"known: {', '.join(sorted(USAGES))}")
        self.usage(entry, named)

    def usage(self, entry: CopybookEntry, token: CopybookToken) -> None:
        # COMP-3 without the word USAGE; BINARY-LONG UNSIGNED
        entry.usage = USAGES[token.upper]
        if entry.usage in BYTES_OF and not self._skip("SIGNED"):
            entry.unsigned = self._skip("UNSIGNED")

    def sql_type(self, entry: CopybookEntry, token: CopybookToken) -> None:
        """Parse ``SQL TYPE IS CLOB(100)``, which the Db2 precompiler replaces by items."""
        self._skip("TYPE")
        self._skip("IS")
        words = [self._expect("a type of SQL", token)]
        while (word := self._word()) is not None and not self._at_entry():
            if word.upper in _CLAUSES:
                break
            words.append(word)
            self._position += 1
        try:
            describe_sql_type(entry, " ".join(word.text for word in words))
        except OptionError as error:
            raise words[0].error(error.problem, error.hint) from None
        except PictureError as error:
            raise words[0].error(str(error)) from None

    def type_is(self, entry: CopybookEntry, token: CopybookToken) -> None:
        # TYPE TO AMOUNT, or TYPE AMOUNT
        self._skip("TO")
        named = self._expect("a type", token)
        if named.upper not in self._types:
            hint = "A type is an item with TYPEDEF before it"
            raise named.error(f"{named.text} is not a type", hint)
        entry.type = named.upper

    def typedef(self, entry: CopybookEntry, token: CopybookToken) -> None:
        # 01 AMOUNT TYPEDEF STRONG PIC S9(9)V99 COMP-3.
        self._skip("STRONG")
        if entry.level != 1:
            raise token.error(f"{entry.name} has TYPEDEF, but is not of level 01")
        entry.is_type = True
        self._types.add(entry.name.upper())

    def group_usage(self, entry: CopybookEntry, token: CopybookToken) -> None:
        self._skip("IS")
        entry.usage = USAGES.get(self._expect("NATIONAL or UTF-8", token).upper)

    def byte_length(self, entry: CopybookEntry, token: CopybookToken) -> None:
        self._skip("IS")
        entry.byte_length = self._number("a number of bytes", token)

    def redefines(self, entry: CopybookEntry, token: CopybookToken) -> None:
        entry.redefines = self._expect("the item redefined", token).text

    def occurs(self, entry: CopybookEntry, token: CopybookToken) -> None:
        # OCCURS 5 TIMES, OCCURS 1 TO 9 DEPENDING ON N OF HEAD, OCCURS UNBOUNDED DEPENDING ON N
        unbounded = self._skip("UNBOUNDED")
        least = most = 0 if unbounded else self._number("a number", token)
        ranged = self._skip("TO")
        if ranged:
            unbounded = self._skip("UNBOUNDED")
            most = 0 if unbounded else self._number("a number", token)
        self._noise()
        counter, groups = None, None
        if self._skip("DEPENDING"):
            self._noise()
            counter, groups = self._qualify("the counter", token)
            # ``OCCURS 5 DEPENDING ON N`` allows 0 to 5.
            least = least if ranged else 0
        if unbounded:
            if counter is None:
                raise token.error(f"{entry.name} occurs UNBOUNDED without DEPENDING ON")
            entry.occurs = Occurs(least, UNBOUNDED, counter, groups)
            self._occurs_keys()
            return
        if most < 1 or least > most:
            raise token.error(f"{entry.name} occurs {least} to {most} times")
        if counter is None and least < most:
            problem = f"{entry.name} occurs {least} to {most} times without DEPENDING ON"
            _LOG.warning("%s", token.error(problem, f"It is read with {most} elements"))
        entry.occurs = Occurs(least if counter else most, most, counter, groups)
        self._occurs_keys()

    def _qualify(self, what: str, after: CopybookToken) -> tuple[str, tuple[str, ...]]:
        """Parse an item's name and its qualifying groups (``OF GROUP``), innermost group first."""
        name = self._expect(what, after).text
        groups = []
        while self._skip("OF", "IN"):
            groups.append(self._expect("a group", after).text)
        return name, tuple(groups)

    def _occurs_keys(self) -> None:
        """Skip ``ASCENDING KEY IS names`` and ``INDEXED BY names`` of an OCCURS clause."""
        while self._skip("ASCENDING", "DESCENDING", "INDEXED"):
            self._skip("BY")
            self._noise()
            while (word := self._word()) is not None:
                if word.upper in _CLAUSES or self._at_entry():
                    break
                if word.upper in ("ASCENDING", "DESCENDING", "INDEXED"):
                    break
                self._position += 1

    def sign_is(self, entry: CopybookEntry, token: CopybookToken) -> None:
        # SIGN IS LEADING SEPARATE CHARACTER
        self._noise()
        where = self._expect("LEADING or TRAILING", token)
        if where.upper not in ("LEADING", "TRAILING"):
            raise where.error(f"LEADING or TRAILING was expected, not {where.text}")
        self.sign(entry, where)

    def sign(self, entry: CopybookEntry, token: CopybookToken) -> None:
        # LEADING SEPARATE without the word SIGN
        separate = self._skip("SEPARATE")
        self._noise()
        entry.sign = _SIGNS[token.upper, separate]

    def sync(self, entry: CopybookEntry, _: CopybookToken) -> None:
        self._skip("LEFT", "RIGHT")
        entry.sync = True

    def justified(self, entry: CopybookEntry, _: CopybookToken) -> None:
        self._skip("RIGHT")
        entry.justified = True

    def blank(self, entry: CopybookEntry, token: CopybookToken) -> None:
        # BLANK WHEN ZERO
        self._noise()
        if not self._skip("ZERO", "ZEROS", "ZEROES"):
            raise token.error("BLANK WHEN ZERO was expected")
        entry.blank_when_zero = True

    def values(self, entry: CopybookEntry, token: CopybookToken) -> None:
        # VALUE 5, VALUES ARE "A" "B", VALUE 1 THRU 9 12
        self._noise()
        ranges: list[tuple[str, str | None]] = []
        while (value := self._peek()) is not None and not self._ends_values(value, bool(ranges)):
            self._position += 1
            # ``ALL "x"`` is read as "x".
            if value.upper == "ALL":
                continue
            until = None
            if self._skip("THRU", "THROUGH"):
                until = self._expect("the range's end", token).text
            ranges.append((value.text, until))
        if not ranges:
            raise token.error("a value was expected")
        if entry.level == CONDITION:
            entry.conditions.append(ConditionName(entry.name, tuple(ranges)))

    def _ends_values(self, value: CopybookToken, some: bool) -> bool:
        """Return True if the VALUE list ends before this token.

        ``some`` means that the list already has a value.
        """
        if value.kind is CopybookTokenType.PERIOD or value.upper in _CLAUSES:
            return True
        return some and self._at_entry() and not self._more_values()

    def _more_values(self) -> bool:
        """Return True if a number at the start of a line is a value, since no name or clause follows it."""
        # A list of values may continue on the next line, where 05 can be a value, or the level of an item:
        # 05 NAME or 05 PIC is an item.
        after = self._position + 1
        following = self._tokens[after] if after < len(self._tokens) else None
        if following is None or following.kind is not CopybookTokenType.WORD:
            return True
        return _AFTER_VALUE.fullmatch(following.text) is not None

    def when_false(self, _: CopybookEntry, token: CopybookToken) -> None:
        """Skip ``WHEN SET TO FALSE IS value`` of a condition."""
        while self._skip("SET", "TO", "FALSE", "IS"):
            pass
        self._expect("the value for FALSE", token)

    def renames(self, _: CopybookEntry, token: CopybookToken) -> None:
        # 66 PART RENAMES FIRST OF GROUP THRU LAST. It adds no bytes.
        self._qualify("an item", token)
        if self._skip("THRU", "THROUGH"):
            self._qualify("an item", token)

    def external(self, _: CopybookEntry, token: CopybookToken) -> None:
        if self._skip("AS"):
            self._expect("a name", token)

    def nothing(self, entry: CopybookEntry, token: CopybookToken) -> None:
        """Skip a clause of one word that does not affect the layout, such as GLOBAL."""


_Clause = Callable[[_Cursor, CopybookEntry, CopybookToken], None]
# By the first word of a clause, which the method has consumed already.
_CLAUSES: Final[Mapping[str, _Clause]] = MappingProxyType(
    {
        **dict.fromkeys(USAGES, _Cursor.usage),
        "PIC": _Cursor.picture,
        "PICTURE": _Cursor.picture,
        "USAGE": _Cursor.usage_is,
        "SQL": _Cursor.sql_type,
        "GROUP-USAGE": _Cursor.group_usage,
        "TYPE": _Cursor.type_is,
        "TYPEDEF": _Cursor.typedef,
        "REDEFINES": _Cursor.redefines,
        "OCCURS": _Cursor.occurs,
        "SIGN": _Cursor.sign_is,
        "LEADING": _Cursor.sign,
        "TRAILING": _Cursor.sign,
        "SYNC": _Cursor.sync,
        "SYNCHRONIZED": _Cursor.sync,
        "JUST": _Cursor.justified,
        "JUSTIFIED": _Cursor.justified,
        "BLANK": _Cursor.blank,
        "VALUE": _Cursor.values,
        "VALUES": _Cursor.values,
        "RENAMES": _Cursor.renames,
        "BYTE-LENGTH": _Cursor.byte_length,
        "WHEN": _Cursor.when_false,
        "FALSE": _Cursor.when_false,
        "IS": _Cursor.nothing,
        "EXTERNAL": _Cursor.external,
        "GLOBAL": _Cursor.nothing,
        "VOLATILE": _Cursor.nothing,
    }
)
