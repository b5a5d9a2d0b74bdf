"""The functions of expressions, such as @STRCAT and @IF.

``FUNCTIONS`` has one row per function: the number of its arguments, the function that computes its
value for all rows of a block, and a check that runs when the expression is parsed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Mask
from trailgate.columnar.strings import text_view
from trailgate.columnar.strings_kernels import hash_strings
from trailgate.errors import count_noun
from trailgate.expressions.comparing import compare_values, text_for_comparison
from trailgate.expressions.environment_items import check_environment, environment_value
from trailgate.expressions.syntax import (
    CONDITIONS,
    ColumnName,
    Comparison,
    FunctionCall,
    Node,
    NumberLiteral,
    TextLiteral,
    expression_error,
)
from trailgate.expressions.unsupported_parameters import expand_reasons
from trailgate.expressions.values import (
    EvaluationScope,
    ExpressionValueType,
    Value,
    Verdicts,
    missing_of,
    number_value,
    text_value,
)

Check = Callable[[FunctionCall, str], None]
# More arguments than any call has.
ANY_NUMBER: Final = 99
BETWEEN_KEYS: Final = "\x1f"  # separates the columns of @RANGE; NULL_KEY stands for NULL
NULL_KEY: Final = "\x1e"
NULL: Final = Value(pa.scalar(None, pa.string()), ExpressionValueType.TEXT)
SEPARATOR: Final = pa.scalar(BETWEEN_KEYS, pa.string())
LONGEST: Final = 4000  # the maximum width of @STRNUM
# By the second argument of @STRNUM.
PADDED: Final[Mapping[str, Callable[[pa.Array, int], pa.Array]]] = MappingProxyType(
    {
        "LEFT": lambda text, _: text,
        "LEFTSPACE": lambda text, width: pc.utf8_rpad(text, width, " "),
        "RIGHT": lambda text, width: pc.utf8_lpad(text, width, " "),
        "RIGHTZERO": lambda text, width: pc.if_else(
            pc.starts_with(text, "-"),
            pc.binary_join_element_wise(
                "-", pc.utf8_lpad(pc.utf8_slice_codeunits(text, 1), width - 1, "0"), ""
            ),
            pc.utf8_lpad(text, width, "0"),
        ),
    }
)

_STATES: Final = ("PRESENT", "NULL", "MISSING", "INVALID")

REFUSED_FUNCTIONS: Final = expand_reasons(
    {
        "stored procedures and queries are not supported": "GETVAL SQLEXEC",
        "expressions return text, not bytes": "BINARY HEXTOBIN NUMBIN",
        "it is for NonStop, and for bytes at the limits of a type": "HIGHVAL LOWVAL",
        "the bytes that it hashes are not documented": "OGG_SHA1",
        "DDL is not applied": "DDL",
    }
)


def _nothing(call: FunctionCall, text: str) -> None:
    """Do nothing: the check of functions that accept any arguments."""


def _no_condition(_: int) -> bool:
    return False


def _first(at: int) -> bool:
    return at == 0


def _every_other(at: int) -> bool:
    return at % 2 == 0


class FunctionSpec(NamedTuple):
    """A function of expressions, such as @IF: how it is called, computed and checked.

    It has ``least`` to ``most`` arguments, and ``apply`` computes its value for all rows. ``check``
    runs when the expression is parsed. ``takes_condition`` states which arguments may be
    conditions.
    """

    least: int
    most: int
    apply: Callable[[EvaluationScope, FunctionCall], Value]
    check: Check = _nothing
    takes_condition: Callable[[int], bool] = _no_condition

    @property
    def taken(self) -> str:
        """The number of arguments in words, for errors: "2 to 3 arguments"."""
        if self.least == self.most:
            return count_noun(self.least, "argument")
        if self.most == ANY_NUMBER:
            return f"at least {self.least} arguments"
        return f"{self.least} to {self.most} arguments"


def _values(scope: EvaluationScope, call: FunctionCall) -> list[Value]:
    return [scope.value(argument) for argument in call.arguments]


def _find(scope: EvaluationScope, call: FunctionCall) -> Value:
    """@STRFIND: the position of a text in another, from 1, or 0 if it does not occur."""
    # @STRFIND ('abcabc', 'c', 4) searches from the 4th character on, and returns 6.
    value, sought = scope.value(call.arguments[0]), _literal(scope, call, 1)
    skipped = _whole_number(scope, call, 2) - 1 if len(call.arguments) > 2 else 0
    within = _column(value.text(), len(scope.block))
    if skipped:
        within = pc.utf8_slice_codeunits(within, skipped)
    # Arrow returns offsets in bytes. If the text is not ASCII, the characters before the match are
    # counted.
    positions = pc.find_substring(within, sought)
    if not pc.all(pc.string_is_ascii(within), min_count=0).as_py():
        heads = pc.list_element(pc.split_pattern(within, sought, max_splits=1), 0)
        positions = pc.if_else(pc.less(positions, 0), -1, pc.utf8_length(heads))
    return number_value(pc.if_else(pc.less(positions, 0), 0, pc.add(positions, skipped + 1)), value)


def _literal(scope: EvaluationScope, call: FunctionCall, index: int) -> str:
    node = call.arguments[index]
    if not isinstance(node, TextLiteral) or not node.text:
        raise scope.error("expected a literal, as in 'text'", node)
    return node.text


def _whole_number(scope: EvaluationScope, call: FunctionCall, index: int) -> int:
    node = call.arguments[index]
    if (
        not isinstance(node, NumberLiteral)
        or not node.text.isdigit()
        or not 0 < int(node.text[:9]) < 10**8
    ):
        raise scope.error("expected a whole number from 1", node)
    return int(node.text)


def _equal(scope: EvaluationScope, call: FunctionCall) -> Value:
    # @STREQ (A, 'x'): 1 if the texts are equal, else 0.
    left, right = (scope.value(argument) for argument in call.arguments)
    return number_value(compare_values("=", _as_text(left), _as_text(right)), left, right)


def _as_text(value: Value) -> Value:
    """Convert an argument of a function to text.

    A text still refers to its column, because the column's padding is ignored in comparisons.
    """
    kind = (
        ExpressionValueType.TEXT
        if value.kind is not ExpressionValueType.LITERAL
        else ExpressionValueType.LITERAL
    )
    column = value.column if value.kind is ExpressionValueType.TEXT else None
    return Value(value.text(), kind, value.missing, column)


def _compare(scope: EvaluationScope, call: FunctionCall) -> Value:
    """@STRCMP and @STRNCMP: -1, 0 or 1 if the first text is less, equal or greater."""
    values = _values(scope, call)
    strings = [_as_text(value) for value in values]
    if len(values) > 2:
        size = _whole_number(scope, call, 2)
        strings = [
            Value(pc.utf8_slice_codeunits(t.text(), 0, size), ExpressionValueType.TEXT)
            for t in strings[:2]
        ]
    # True and false are 1 and 0: after minus before is -1, 0 or 1.
    before, after = (compare_values(sign, strings[0], strings[1]) for sign in ("<", ">"))
    number = pc.subtract(pc.cast(after, pa.int8()), pc.cast(before, pa.int8()))
    return number_value(number, *values)


def _change(
    change: Callable[[pa.Array], pa.Array],
) -> Callable[[EvaluationScope, FunctionCall], Value]:
    def apply(scope: EvaluationScope, call: FunctionCall) -> Value:
        value = scope.value(call.arguments[0])
        return text_value(change(value.text()), value)

    return apply


def _length(scope: EvaluationScope, call: FunctionCall) -> Value:
    value = scope.value(call.arguments[0])
    return number_value(pc.utf8_length(value.text()), value)


def _join(scope: EvaluationScope, call: FunctionCall) -> Value:
    # @STRCAT (FIRST, ' ', LAST)
    values = _values(scope, call)
    return text_value(pc.binary_join_element_wise(*(v.text() for v in values), ""), *values)


def _join_parts(scope: EvaluationScope, call: FunctionCall) -> Value:
    """@STRNCAT: join texts, each cut to the number of characters that the next argument states."""
    # @STRNCAT (FIRST, 3, LAST, 5)
    values = [scope.value(argument) for argument in call.arguments[::2]]
    sizes = [_whole_number(scope, call, index) for index in range(1, len(call.arguments), 2)]
    parts = [
        pc.utf8_slice_codeunits(value.text(), 0, size)
        for value, size in zip(values, sizes, strict=True)
    ]
    return text_value(pc.binary_join_element_wise(*parts, ""), *values)


def _check_sizes(call: FunctionCall, text: str) -> None:
    if len(call.arguments) % 2:
        problem = f"@{call.function} takes pairs of a text and a number of characters"
        raise expression_error(problem, text, call.at)


def _hexadecimal(scope: EvaluationScope, call: FunctionCall) -> Value:
    """@BINTOHEX: return bytes as hexadecimal digits, in which form they are already stored."""
    value = scope.value(call.arguments[0])
    if value.kind is not ExpressionValueType.BYTES:
        hint = "The digits of text would depend on its character set"
        raise scope.error("@BINTOHEX takes a column of bytes", call, hint)
    return text_value(value.text(), value)


def _extract(scope: EvaluationScope, call: FunctionCall) -> Value:
    # @STREXT ('abcdef', 2, 4) is 'bcd'.
    value = scope.value(call.arguments[0])
    first, last = (_whole_number(scope, call, index) for index in (1, 2))
    return text_value(pc.utf8_slice_codeunits(value.text(), first - 1, max(last, first - 1)), value)


def _range(scope: EvaluationScope, call: FunctionCall) -> Value:
    """@RANGE: divide the rows into ranges, and return 1 for the rows in one of them, else 0.

    The range of a row is a hash of the given columns, or of the key, modulo the number of ranges.
    """
    # @RANGE (1, 3, ID), or @RANGE (1, 3) by the key
    number, total = (_whole_number(scope, call, index) for index in (0, 1))
    table = scope.block.table
    nodes = call.arguments[2:] or tuple(
        ColumnName(table.columns[key].name, None, call.at) for key in table.keys
    )
    values = [scope.value(node) for node in nodes]
    rows = len(scope.block)
    parts = [_column(pc.fill_null(text_for_comparison(value), NULL_KEY), rows) for value in values]
    joined = pc.binary_join_element_wise(*parts, SEPARATOR)
    # The hash only depends on the text, so a row is always in the same range.
    offsets, data = text_view(joined)
    hashes = np.empty(rows, np.int64)
    hash_strings(data, offsets, hashes)
    selected = pa.array((hashes % total == number - 1).astype(np.int64))
    return Value(selected, ExpressionValueType.NUMBER, missing_of(values))


def _column(data: pa.Array | pa.Scalar, rows: int) -> pa.Array:
    return pa.repeat(data, rows) if isinstance(data, pa.Scalar) else data


def _check_range(call: FunctionCall, text: str) -> None:
    numbers = call.arguments[:2]
    for node in numbers:
        if (
            not isinstance(node, NumberLiteral)
            or not node.text.isdigit()
            or not 0 < len(node.text) < 9
        ):
            hint = "As in @RANGE (1, 3, ID): the first of three"
            raise expression_error("expected a whole number", text, node.at, hint)
    first, total = (int(node.text) for node in numbers if isinstance(node, NumberLiteral))
    if not 0 < first <= total:
        problem = f"range {first} is not one of {total}"
        raise expression_error(problem, text, numbers[0].at)


def _date(scope: EvaluationScope, call: FunctionCall) -> Value:
    from trailgate.expressions.dates import date_value  # noqa: PLC0415  most expressions have none

    return date_value(scope, call)


def _check_date(call: FunctionCall, text: str) -> None:
    from trailgate.expressions.dates import check_date  # noqa: PLC0415  as above

    check_date(call, text)


def _date_difference(scope: EvaluationScope, call: FunctionCall) -> Value:
    from trailgate.expressions.dates import date_difference  # noqa: PLC0415  as above

    return date_difference(scope, call)


def _check_difference(call: FunctionCall, text: str) -> None:
    node = call.arguments[0]
    if not isinstance(node, TextLiteral) or node.text.upper() not in ("DD", "SS"):
        hint = "As in @DATEDIFF ('DD', '2011-01-01', SOLD)"
        raise expression_error("expected 'DD' or 'SS'", text, node.at, hint)


def _now(scope: EvaluationScope, call: FunctionCall) -> Value:
    """@DATENOW: the time at which a batch is applied."""
    now = scope.environment.now
    if now is None:
        hint = "It can be used in the COLMAP of a MAP statement"
        raise scope.error("@DATENOW would differ from run to run here", call, hint)
    return Value(pa.scalar(now, pa.string()), ExpressionValueType.LITERAL)


def _compute(scope: EvaluationScope, call: FunctionCall) -> Value:
    """@COMPUTE: a computed number; for a condition, 1 if it is true, else 0."""
    (node,) = call.arguments
    if not isinstance(node, CONDITIONS):
        value = scope.value(node)
        return Value(value.text(), ExpressionValueType.NUMBER, value.missing)
    verdicts = scope.verdicts(node)
    data = pc.if_else(pa.array(verdicts.true_rows), "1", "0")
    return Value(data, ExpressionValueType.NUMBER, verdicts.undecided_rows)


def _if(scope: EvaluationScope, call: FunctionCall) -> Value:
    # @IF (A > 0, 'yes', 'no')
    condition, *values = call.arguments
    return _choose(scope, [(scope.verdicts(condition), values[0])], values[1])


def _evaluate(scope: EvaluationScope, call: FunctionCall) -> Value:
    """@EVAL: the value after the first true condition; otherwise the default, or NULL without one."""
    # @EVAL (A > 9, 'many', A > 0, 'some', 'none'): an odd number of arguments ends with the default.
    arguments = call.arguments
    pairs = [
        (scope.verdicts(arguments[at]), arguments[at + 1]) for at in range(0, len(arguments) - 1, 2)
    ]
    return _choose(scope, pairs, arguments[-1] if len(arguments) % 2 else None)


def _check_default(call: FunctionCall, text: str) -> None:
    last = call.arguments[-1]
    if len(call.arguments) % 2 and isinstance(last, CONDITIONS):
        raise expression_error("expected a value after the condition", text, last.at)


def _case(scope: EvaluationScope, call: FunctionCall) -> Value:
    """@CASE: the value after the first argument that equals the tested value; otherwise the default, or NULL without one."""
    # @CASE (STATE, 'A', 'active', 'C', 'closed', 'other')
    value, *rest = call.arguments
    pairs = [
        (scope.verdicts(Comparison("=", value, rest[at], call.at)), rest[at + 1])
        for at in range(0, len(rest) - 1, 2)
    ]
    return _choose(scope, pairs, rest[-1] if len(rest) % 2 else None)


def _choose(
    scope: EvaluationScope, pairs: Sequence[tuple[Verdicts, Node]], default: Node | None
) -> Value:
    """Choose for each row the value of the first true condition, otherwise the default.

    This is the value of @IF, @EVAL and @CASE. The default None is NULL.

    The result is missing in a row if the chosen value is missing, or if a missing column decides
    which condition is true. The pairs are applied in reverse order, so that the first true
    condition overrides the others.
    """
    rows = len(scope.block)
    last = NULL if default is None else scope.value(default)
    values = [scope.value(node) for _, node in pairs]
    data = last.text()
    missing = _missing(last, rows)
    for (verdicts, _), value in zip(reversed(pairs), reversed(values), strict=True):
        true = verdicts.true_rows
        data = pc.if_else(pa.array(true), value.text(), data)
        missing = np.where(true, _missing(value, rows), missing) | verdicts.undecided_rows
    # The result is a number only if all possible values are.
    kinds = {value.kind for value in (*values, *([last] if default is not None else ()))}
    return Value(
        data,
        ExpressionValueType.NUMBER
        if kinds == {ExpressionValueType.NUMBER}
        else ExpressionValueType.TEXT,
        missing,
    )


def _missing(value: Value, rows: int) -> Mask:
    return np.zeros(rows, bool) if value.missing is None else value.missing


def _one_of(scope: EvaluationScope, call: FunctionCall) -> Value:
    """@VALONEOF: 1 if the first argument equals one of the others, else 0."""
    value, *others = call.arguments
    result = reduce(
        Verdicts.__or__,
        (scope.verdicts(Comparison("=", value, other, call.at)) for other in others),
    )
    true = pa.array(result.true_rows.astype(np.int64))
    return Value(true, ExpressionValueType.NUMBER, result.undecided_rows)


def _column_state(scope: EvaluationScope, call: FunctionCall) -> Value:
    """@COLSTAT (NULL): NULL in all rows. @COLSTAT (MISSING): a value that is missing in all rows."""
    node = call.arguments[0]
    assert isinstance(node, ColumnName)
    rows = len(scope.block)
    missing = np.full(rows, node.name.upper() == "MISSING")
    return Value(pa.nulls(rows, pa.string()), ExpressionValueType.TEXT, missing)


def _check_column_state(call: FunctionCall, text: str) -> None:
    node = call.arguments[0]
    if not isinstance(node, ColumnName) or node.name.upper() not in ("NULL", "MISSING"):
        raise expression_error("expected NULL or MISSING", text, node.at)


def _substitute(scope: EvaluationScope, call: FunctionCall) -> Value:
    # @STRSUB (NAME, 'a', 'b', 'b', 'c') replaces one pair after the other: "ab" becomes "cc".
    value = scope.value(call.arguments[0])
    data = value.text()
    for at in range(1, len(call.arguments), 2):
        node = call.arguments[at + 1]
        if not isinstance(node, TextLiteral):
            raise scope.error("expected a literal, as in 'text'", node)
        data = pc.replace_substring(data, _literal(scope, call, at), node.text)
    return text_value(data, value)


def _check_pairs(call: FunctionCall, text: str) -> None:
    if len(call.arguments) % 2 == 0:
        problem = f"@{call.function} takes a text, and pairs of old and new text"
        raise expression_error(problem, text, call.at)


def _number_of_text(scope: EvaluationScope, call: FunctionCall) -> Value:
    # @NUMSTR ('  12 ')
    value = scope.value(call.arguments[0])
    return Value(pc.utf8_trim(value.text(), " "), ExpressionValueType.NUMBER, value.missing)


def _text_of_number(scope: EvaluationScope, call: FunctionCall) -> Value:
    """@STRNUM: return a number as text of a given width. A longer number is not cut."""
    # @STRNUM (7, RIGHTZERO, 3) is '007'.
    value = scope.value(call.arguments[0])
    width = _whole_number(scope, call, 2) if len(call.arguments) > 2 else 0
    return text_value(PADDED[_word(call, 1)](value.text(), width), value)


def _word(call: FunctionCall, index: int) -> str:
    """Return an argument of a function that is a word, quoted or not, in upper case, or else ""."""
    node = call.arguments[index]
    if isinstance(node, TextLiteral):
        return node.text.upper()
    return node.name.upper() if isinstance(node, ColumnName) and node.image is None else ""


def _check_width(call: FunctionCall, text: str) -> None:
    alignment = _word(call, 1)
    if alignment not in PADDED:
        problem = f"expected one of {', '.join(PADDED)}"
        raise expression_error(problem, text, call.arguments[1].at)
    if alignment != "LEFT" and len(call.arguments) < 3:
        hint = "As in @STRNUM (ID, RIGHTZERO, 10)"
        raise expression_error(f"{alignment} needs a length here", text, call.at, hint)
    for node in call.arguments[2:]:
        if isinstance(node, NumberLiteral) and (len(node.text) > 4 or float(node.text) > LONGEST):
            raise expression_error(f"expected a length of {LONGEST} at most", text, node.at)


def _token(scope: EvaluationScope, call: FunctionCall) -> Value:
    """@TOKEN: the record's token of this name, or NULL."""
    name, tokens = _literal(scope, call, 0), scope.block.tokens
    if tokens is None:
        return NULL
    return Value(pc.map_lookup(tokens, pa.scalar(name), "first"), ExpressionValueType.TEXT)


def _test(scope: EvaluationScope, call: FunctionCall) -> Value:
    """@COLTEST: 1 for the rows in which a column is in one of the states, else 0. It is never missing."""
    column = scope.value(call.arguments[0])
    rows = len(scope.block)
    missing = np.zeros(rows, bool) if column.missing is None else column.missing
    # A missing value is null in ``data`` too.
    null = np.asarray(_column(column.data, rows).is_null()) & ~missing
    # A value that cannot be converted is an error of its message, so none is INVALID here.
    states = {
        "PRESENT": ~null & ~missing,
        "NULL": null,
        "MISSING": missing,
        "INVALID": np.zeros(rows, bool),
    }
    matched = np.zeros(rows, bool)
    for node in call.arguments[1:]:
        assert isinstance(node, ColumnName)
        matched |= states[node.name.upper()]
    return Value(pa.array(matched.astype(np.int64)), ExpressionValueType.NUMBER)


def _check_test(call: FunctionCall, text: str) -> None:
    if not isinstance(call.arguments[0], ColumnName):
        raise expression_error("expected a column", text, call.arguments[0].at)
    for node in call.arguments[1:]:
        if not isinstance(node, ColumnName) or node.name.upper() not in _STATES:
            raise expression_error(f"expected one of {', '.join(_STATES)}", text, node.at)


# By the name after @: the number of arguments, what computes the value, and what checks the call.
FUNCTIONS: Final[Mapping[str, FunctionSpec]] = MappingProxyType(
    {
        "BINTOHEX": FunctionSpec(1, 1, _hexadecimal),
        "CASE": FunctionSpec(3, ANY_NUMBER, _case),
        "COLSTAT": FunctionSpec(1, 1, _column_state, _check_column_state),
        "COLTEST": FunctionSpec(2, 5, _test, _check_test),
        "COMPUTE": FunctionSpec(1, 1, _compute, takes_condition=_first),
        "DATE": FunctionSpec(3, ANY_NUMBER, _date, _check_date),
        "DATEDIFF": FunctionSpec(3, 3, _date_difference, _check_difference),
        "DATENOW": FunctionSpec(0, 0, _now),
        "EVAL": FunctionSpec(2, ANY_NUMBER, _evaluate, _check_default, _every_other),
        "GETENV": FunctionSpec(1, 2, environment_value, check_environment),
        "IF": FunctionSpec(3, 3, _if, takes_condition=_first),
        "NUMSTR": FunctionSpec(1, 1, _number_of_text),
        "RANGE": FunctionSpec(2, ANY_NUMBER, _range, _check_range),
        "STRCAT": FunctionSpec(1, ANY_NUMBER, _join),
        "STRCMP": FunctionSpec(2, 2, _compare),
        "STREQ": FunctionSpec(2, 2, _equal),
        "STREXT": FunctionSpec(3, 3, _extract),
        "STRFIND": FunctionSpec(2, 3, _find),
        "STRLEN": FunctionSpec(1, 1, _length),
        "STRLTRIM": FunctionSpec(1, 1, _change(lambda text: pc.utf8_ltrim(text, " "))),
        "STRNCAT": FunctionSpec(2, ANY_NUMBER, _join_parts, _check_sizes),
        "STRNCMP": FunctionSpec(3, 3, _compare),
        "STRNUM": FunctionSpec(2, 3, _text_of_number, _check_width),
        "STRRTRIM": FunctionSpec(1, 1, _change(lambda text: pc.utf8_rtrim(text, " "))),
        "STRSUB": FunctionSpec(3, ANY_NUMBER, _substitute, _check_pairs),
        "STRTRIM": FunctionSpec(1, 1, _change(lambda text: pc.utf8_trim(text, " "))),
        "STRUP": FunctionSpec(1, 1, _change(pc.utf8_upper)),
        "TOKEN": FunctionSpec(1, 1, _token),
        "VALONEOF": FunctionSpec(2, ANY_NUMBER, _one_of),
    }
)
