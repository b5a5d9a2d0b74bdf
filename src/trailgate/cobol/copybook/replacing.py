"""Carry out COPY and REPLACE: insert members, and replace text words by others.

Rules compare text words, as the COBOL standard defines them: ``==9(2)==`` is the four words ``9 ( 2
)``. It matches in ``9(2)V99``, but not in ``S9(2)``, whose first word is ``S9``. A rule that never
matches is logged with its line, since the text is then not what its author expected.

``CopybookText.tokens`` is the entry point. It inserts the members of COPY, ``EXEC SQL INCLUDE``,
``++INCLUDE`` and ``-INC``, applies the rules of REPLACE, and finally joins text words to tokens.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from trailgate.cobol.copybook.conditional_text import CompileConstants, select_compiled_text
from trailgate.cobol.copybook.layouts import CobolDialect
from trailgate.cobol.copybook.source import (
    CopybookToken,
    CopybookTokenType,
    SourceLine,
    join_adjacent_words,
)

_LOG: Final = logging.getLogger(__name__)
MAX_DEPTH: Final = 20  # of nested members; deeper nesting means that a member copies itself
Members = Callable[[str], "tuple[list[SourceLine], str] | None"]

_PARTS: Final = frozenset({"LEADING", "TRAILING"})
_SQL_AREAS: Final = frozenset({"SQLCA", "SQLDA"})  # the precompiler's areas, not part of a record


@dataclass(slots=True)
class ReplaceRule:
    """A rule of COPY REPLACING or REPLACE: it replaces the text words ``old`` by ``new``.

    ``part`` is LEADING or TRAILING if only the beginning or the end of a word is replaced.
    ``begin`` is the rule's first token, for warnings, and ``used`` whether the rule has matched.
    """

    old: tuple[CopybookToken, ...]
    new: tuple[CopybookToken, ...]
    begin: CopybookToken
    part: str = ""
    used: bool = False

    def match(self, tokens: Sequence[CopybookToken], index: int) -> _Match | None:
        """Match the words of a REPLACING rule with the tokens at ``index``.

        Returns the end of the match and the comments inside it, or None.
        """
        if not self.old:
            return None
        at, comments = index, list[CopybookToken]()
        for number, wanted in enumerate(self.old):
            # Comments between matched words are skipped, and kept after the replacement.
            while number and at < len(tokens) and tokens[at].kind is CopybookTokenType.COMMENT:
                comments.append(tokens[at])
                at += 1
            if at == len(tokens) or not self._is(tokens[at], wanted, number):
                return None
            at += 1
        return _Match(at, comments)

    def _is(self, token: CopybookToken, wanted: CopybookToken, number: int) -> bool:
        """Return True if a token matches the word ``wanted``, which is ``old[number]``."""
        if token.kind is not wanted.kind:
            return False
        if token.kind is CopybookTokenType.LITERAL:
            return token.text == wanted.text
        text, wanted_text = token.upper or token.text, wanted.upper or wanted.text
        if self.part and number and not token.glued:
            return False
        if self.part == "LEADING" and number == len(self.old) - 1:
            return text.startswith(wanted_text)
        if self.part == "TRAILING" and not number:
            return text.endswith(wanted_text)
        return text == wanted_text

    def replace_match(
        self, tokens: Sequence[CopybookToken], index: int, match: _Match
    ) -> list[CopybookToken]:
        """Return the rule's new words for a match, with the position of the first matched token."""
        first_token, last = tokens[index], tokens[match.end - 1]
        replaced_words = [
            replace(
                token,
                source=first_token.source,
                line=first_token.line,
                column=first_token.column,
                cut=first_token.cut,
                first=first_token.first and not number,
                # A word that replaces a period must not be joined to the word before it.
                glued=token.glued
                if number
                else first_token.glued and first_token.kind is CopybookTokenType.WORD,
            )
            for number, token in enumerate(self.new)
        ]
        # The rest of the first word stays before the replacement: for TRAILING ==-OLD==, A-OLD
        # keeps A.
        if self.part == "TRAILING" and (kept := first_token.text[: -len(self.old[0].text)]):
            replaced_words = [replace(first_token, text=kept), *_glue_first(replaced_words)]
        if self.part == "LEADING" and (kept := last.text[len(self.old[-1].text) :]):
            rest = replace(last, text=kept, glued=bool(replaced_words) or first_token.glued)
            replaced_words.append(
                rest if replaced_words else replace(rest, first=first_token.first)
            )
        return [*replaced_words, *match.comments]


@dataclass(frozen=True, slots=True)
class _Match:
    """A match of a REPLACING rule: the index after it, and the comments inside it."""

    end: int
    comments: list[CopybookToken]


def _glue_first(tokens: list[CopybookToken]) -> list[CopybookToken]:
    """Mark the first token as following the token before it without a blank."""
    return [replace(token, glued=True, first=False) for token in tokens[:1]] + tokens[1:]


def no_member_hint(_: str) -> str:
    """Return an empty hint for the error that a member that COPY names does not exist: the default of ``missing``."""
    return ""


@dataclass(slots=True)
class CopybookText:
    """Expands copybook text: carries out COPY and REPLACE, and selects conditional text.

    ``members`` returns the lines of a member and its name, or None if the member does not exist;
    ``missing`` then returns a hint for the error. ``constants`` are the constants of conditional
    text; all members share them.
    """

    members: Members
    dialect: CobolDialect
    constants: CompileConstants
    missing: Callable[[str], str] = no_member_hint
    _depth: int = 0
    _rules: list[ReplaceRule] = field(default_factory=list)  # of the COPY statements around

    def tokens(self, lines: Sequence[SourceLine], source: str) -> list[CopybookToken]:
        """Return the tokens of a copybook after COPY and REPLACE.

        Raises DefinitionError if a member is missing or copies itself, or if a statement is not
        understood.
        """
        tokens_found: list[CopybookToken] = []
        replaces = _Replaces()
        copied = self._insert_members(lines, source)
        begin = index = 0
        while index < len(copied):
            starts = (
                copied[index].first
                or not index
                or copied[index - 1].kind is CopybookTokenType.PERIOD
            )
            # The rules apply to the text up to the next REPLACE statement.
            if copied[index].upper == "REPLACE" and starts:
                tokens_found += replace_words(copied[begin:index], replaces.rules)
                statement, index = _statement(copied, index)
                replaces.obey(statement)
                begin = index
            else:
                index += 1
        tokens_found += replace_words(copied[begin:], replaces.rules)
        warn_of_unused(replaces.seen)
        return join_adjacent_words(tokens_found)

    def _insert_members(self, lines: Sequence[SourceLine], source: str) -> list[CopybookToken]:
        """Return the text words of a file, with each COPY statement replaced by its member."""
        expanded: list[CopybookToken] = []
        for piece in select_compiled_text(lines, source, self.dialect.text_words, self.constants):
            expanded += self._with_members(replace_words(piece, self._rules))
        return expanded

    def _with_members(self, tokens: Sequence[CopybookToken]) -> list[CopybookToken]:
        """Replace each COPY, ``++INCLUDE``, ``-INC`` and ``EXEC SQL INCLUDE`` by its member."""
        expanded: list[CopybookToken] = []
        index = 0
        while index < len(tokens):
            token = tokens[index]
            if token.upper == "COPY" and not _is_in_word(tokens, index):
                statement, index = _statement(tokens, index)
                expanded += self._copy(statement)
            elif token.first and (words := _include_words(tokens, index)):
                end = _end_of_line(tokens, index)
                expanded += self._copy([token, *tokens[index + words : end]])
                index = end + (end < len(tokens) and tokens[end].kind is CopybookTokenType.PERIOD)
            elif [one.upper for one in tokens[index : index + 2]] == ["EXEC", "SQL"]:
                statement, index = _sql_statement(tokens, index)
                expanded += self._include(statement)
            else:
                expanded.append(token)
                index += 1
        return expanded

    def _include(self, statement: list[CopybookToken]) -> list[CopybookToken]:
        """Return the tokens of the member that EXEC SQL INCLUDE names.

        Other SQL statements, such as DECLARE TABLE, do not describe items and are dropped.
        """
        words = _without_comments(statement)
        if [token.upper for token in words[2:3]] != ["INCLUDE"]:
            return []
        named = join_adjacent_words(words[3:])
        is_own = len(named) == 1 and named[0].upper in _SQL_AREAS
        return [] if is_own and self.members(named[0].text) is None else self._copy(words[2:])

    def _copy(self, statement: list[CopybookToken]) -> list[CopybookToken]:
        """Return the text of the member that a COPY statement (without its period) names."""
        words = _without_comments(statement)
        if len(words) < 2:
            raise words[0].error("COPY needs the name of a member")
        at = next((i for i, token in enumerate(words) if token.upper == "REPLACING"), len(words))
        named, *rest = join_adjacent_words(words[1:at])
        if words[0].upper == "COPY":
            _check_rest(named, rest)
        name = named.text.strip("\"'")
        if self._depth >= MAX_DEPTH:
            raise named.error(
                f"members inside members, {self._depth} deep: does {name} copy itself?"
            )
        content = self.members(name)
        if content is None:
            raise named.error(f"the member {name} was not found", self.missing(name))
        own_rules = read_rules(words[at + 1 :])
        # Rules also apply to members copied inside this member, those of the innermost COPY first.
        inner = replace(self, _depth=self._depth + 1, _rules=[*own_rules, *self._rules])
        member_tokens = inner._insert_members(*content)  # noqa: SLF001  of the same class
        warn_of_unused(own_rules)
        return member_tokens


def _check_rest(named: CopybookToken, rest: Sequence[CopybookToken]) -> None:
    """Raise DefinitionError if a COPY statement contains words that do not belong to it, for example because its period is missing."""
    words, end = [token.upper for token in rest], 0
    end += 2 * (words[:1] in (["OF"], ["IN"]))
    end += words[end : end + 1] == ["SUPPRESS"]
    end += words[end : end + 1] == ["PRINTING"]
    if end < len(rest):
        problem = f"{rest[end].text} follows COPY {named.text}, where its period is expected"
        raise (named, *rest)[end].error(problem, "COPY ends with a period: COPY NAME.")


class _Replaces:
    """The REPLACE rules in force, the rules that LAST OFF restores, and all rules seen so far."""

    def __init__(self) -> None:
        self.rules: list[ReplaceRule] = []
        self.seen: list[ReplaceRule] = []
        self._before: list[list[ReplaceRule]] = []

    def obey(self, statement: list[CopybookToken]) -> None:
        """Apply a REPLACE statement: replace the rules in force, or with ALSO, add rules to them."""
        words = _without_comments(statement)
        named = [token.upper for token in words[1:]]
        if named == ["LAST", "OFF"]:
            self.rules = self._before.pop() if self._before else []
            return
        also = named[:1] == ["ALSO"]
        if also:
            # LAST OFF returns to these.
            self._before.append(self.rules)
        else:
            self._before.clear()
        if named == ["OFF"]:
            self.rules = []
            return
        operands = words[1 + also :]
        first = operands[1:] if operands and operands[0].upper in _PARTS else operands
        if not first or first[0].kind is not CopybookTokenType.PSEUDO:
            hint = "Supported: REPLACE [ALSO] [LEADING] ==text== BY ==text== and REPLACE [LAST] OFF"
            raise words[-1].error("this form of REPLACE is not supported", hint)
        rules = read_rules(operands)
        self.seen += rules
        self.rules = [*rules, *(self.rules if also else ())]


def _include_words(tokens: Sequence[CopybookToken], index: int) -> int:
    """Return how many text words form ``++INCLUDE`` (Panvalet) or ``-INC`` (Librarian) at ``index``.

    Returns 0 if neither is there. Depending on the dialect, ``++INCLUDE`` is one text word or several.
    """
    text = ""
    for count, token in enumerate(tokens[index : index + 3], 1):
        if count > 1 and not token.glued:
            break
        text += token.upper
        if text in ("++INCLUDE", "-INC"):
            return count
    return 0


def _is_in_word(tokens: Sequence[CopybookToken], index: int) -> bool:
    """Return True if a text word is part of a longer word, such as COPY in ``:COPY:``."""
    after = tokens[index + 1 : index + 2]
    return tokens[index].glued or any(
        one.glued and one.kind is CopybookTokenType.WORD for one in after
    )


def _without_comments(tokens: Sequence[CopybookToken]) -> list[CopybookToken]:
    return [token for token in tokens if token.kind is not CopybookTokenType.COMMENT]


def _statement(tokens: Sequence[CopybookToken], index: int) -> tuple[list[CopybookToken], int]:
    """Return the tokens of a COPY or REPLACE statement up to its period, and the index after it.

    A period inside pseudo-text does not end the statement.
    """
    inside = False
    for end in range(index, len(tokens)):
        if tokens[end].kind is CopybookTokenType.PSEUDO:
            inside = not inside
        if tokens[end].kind is CopybookTokenType.PERIOD and not inside:
            return list(tokens[index:end]), end + 1
    raise tokens[index].error(f"{tokens[index].upper} without the period at its end")


def _end_of_line(tokens: Sequence[CopybookToken], index: int) -> int:
    """Return the index at which a line such as ``++INCLUDE NAME`` ends.

    It is the index of the line's first period, or of the first token on a later line.
    """
    end = index
    while end < len(tokens) and tokens[end].line == tokens[index].line:
        if tokens[end].kind is CopybookTokenType.PERIOD:
            break
        end += 1
    return end


def _sql_statement(tokens: Sequence[CopybookToken], index: int) -> tuple[list[CopybookToken], int]:
    """Return the tokens from EXEC SQL to before END-EXEC, and the index after END-EXEC and its period."""
    for end in range(index, len(tokens)):
        if tokens[end].upper == "END-EXEC":
            after = end + 1
            has_period = after < len(tokens) and tokens[after].kind is CopybookTokenType.PERIOD
            return list(tokens[index:end]), after + has_period
    raise tokens[index].error("EXEC SQL without END-EXEC")


def read_rules(words: list[CopybookToken]) -> list[ReplaceRule]:
    """Parse the rules of a REPLACING phrase or a REPLACE statement. Raises DefinitionError."""
    rules = []
    index = 0
    while index < len(words):
        begin = words[index]
        part = begin.upper if begin.upper in _PARTS else ""
        old, index = _operand(words, index + bool(part))
        if index >= len(words) or words[index].upper != "BY":
            at = words[min(index, len(words) - 1)]
            raise at.error("REPLACING needs BY between the old and the new text")
        new, index = _operand(words, index + 1)
        if part:
            old, new = _unquote(old), _unquote(new)
        if not old:
            raise begin.error("REPLACING needs a text to replace, but it is empty")
        rules.append(ReplaceRule(old, new, begin, part))
    return rules


def _operand(words: list[CopybookToken], index: int) -> tuple[tuple[CopybookToken, ...], int]:
    """Parse an operand of REPLACING or REPLACE.

    It is pseudo-text, or one word that may be qualified (``A OF B``). Returns its text words, and
    the index after it.
    """
    if index >= len(words):
        raise words[-1].error("REPLACING ends before its new text")
    if words[index].kind is CopybookTokenType.PSEUDO:
        for end in range(index + 1, len(words)):
            if words[end].kind is CopybookTokenType.PSEUDO:
                return tuple(words[index + 1 : end]), end + 1
        raise words[index].error("pseudo text without its closing ==")
    end = index + 1
    while end < len(words) and (words[end].glued or words[end].upper in ("OF", "IN")):
        end += 1 if words[end].glued else 2
    return tuple(words[index:end]), min(end, len(words))


def _unquote(words: tuple[CopybookToken, ...]) -> tuple[CopybookToken, ...]:
    """Turn a literal into the word inside the quotes: ``LEADING "OLD-"`` means ``LEADING ==OLD-==``."""
    if len(words) == 1 and words[0].kind is CopybookTokenType.LITERAL:
        text = words[0].text[1:-1]
        return (replace(words[0], text=text, kind=CopybookTokenType.WORD),) if text.strip() else ()
    return words


def replace_words(
    tokens: Sequence[CopybookToken], rules: Sequence[ReplaceRule]
) -> list[CopybookToken]:
    """Apply rules of REPLACING or REPLACE to text words.

    At each position the first rule that matches replaces the words. Replaced text is not matched
    again.
    """
    if not rules:
        return list(tokens)
    replaced_tokens: list[CopybookToken] = []
    index = 0
    is_glued = True  # False if words were deleted here that had a blank before them
    for begin, rule, match in _matches(tokens, rules):
        replaced_tokens += _after(tokens[index:begin], is_glued)
        new = rule.replace_match(tokens, begin, match)
        if index == begin and new:
            new = _after(new, is_glued)
        replaced_tokens += new
        is_glued = True if new else tokens[begin].glued and (is_glued or index < begin)
        index = match.end
        rule.used = True
    return replaced_tokens + _after(tokens[index:], is_glued)


def _after(tokens: Sequence[CopybookToken], is_glued: bool) -> list[CopybookToken]:
    """Return the words that follow text deleted by a REPLACING rule.

    If ``is_glued`` is False, a blank preceded the deleted text, so the first word is not glued to
    the word before it.
    """
    if is_glued or not tokens:
        return list(tokens)
    return [replace(tokens[0], glued=False), *tokens[1:]]


def _matches(
    tokens: Sequence[CopybookToken], rules: Sequence[ReplaceRule]
) -> Iterator[tuple[int, ReplaceRule, _Match]]:
    """Yield the index, rule and match wherever a REPLACING rule matches. Matches do not overlap."""
    index = 0
    while index < len(tokens):
        for rule in rules:
            match = rule.match(tokens, index)
            if match is not None:
                yield index, rule, match
                index = match.end
                break
        else:
            index += 1


def warn_of_unused(rules: Sequence[ReplaceRule]) -> None:
    """Log a warning for each rule of REPLACING or REPLACE that never matched."""
    for rule in rules:
        if not rule.used:
            text = " ".join([*filter(None, [rule.part]), f"=={_text_of(rule.old)}=="])
            problem = f"{text} replaces nothing: these words do not occur in the text after it"
            _LOG.warning("%s", rule.begin.error(problem))


def _text_of(tokens: Sequence[CopybookToken]) -> str:
    return "".join(
        " " * (not token.glued and number > 0) + token.text for number, token in enumerate(tokens)
    )
