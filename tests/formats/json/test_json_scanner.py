"""The scanner of JSON text reads what Python's own module reads, refuses what RFC 8259 does, and says where."""

from __future__ import annotations

import json
import math
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from held_captures import messages_of
from trailgate.formats.json.records import document_records
from trailgate.formats.json.scanner import DEPTH, JsonNodes, JsonScanner
from trailgate.formats.json.scanner_kernels import ARRAY, OBJECT, STRING
from trailgate.messages.records import BadMessagesError

_TEXT: Final = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
_NAMES: Final = (
    st.sampled_from(["a", "b", "before", "é", "", "a long name of a member", 'q"\\']) | _TEXT
)
_LEAVES: Final = (
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _TEXT
)
_VALUES: Final = st.recursive(
    _LEAVES,
    lambda below: st.lists(below, max_size=4) | st.dictionaries(_NAMES, below, max_size=5),
    max_leaves=20,
)
_DOCUMENTS: Final = st.dictionaries(_NAMES, _VALUES, max_size=6)
_SCANNER: Final = JsonScanner(2)  # shared, so that names of earlier strings are known


def _value(nodes: JsonNodes, node: int, levels: int) -> Any:
    """Return a node's value, by its nodes as far as there are any."""
    kind, raw = int(nodes.kind[node]), nodes.raw(node)
    if kind == OBJECT and levels:
        found, at = {}, node + 1
        while at < nodes.last[node]:
            found[nodes.names[nodes.name[at]]] = _value(nodes, at, levels - 1)
            at = int(nodes.last[at])
        return found
    assert nodes.last[node] == node + 1
    return raw.decode() if kind == STRING else json.loads(raw)


def _documents(bodies: list[bytes], scanner: JsonScanner = _SCANNER) -> list[list[Any]]:
    nodes = scanner.scan(messages_of(bodies))
    found: list[list[Any]] = [[] for _ in bodies]
    for root, message in zip(nodes.root.tolist(), nodes.message.tolist(), strict=True):
        found[message].append(_value(nodes, root, scanner.levels))
    return found


@given(
    st.lists(st.tuples(_DOCUMENTS, st.booleans(), st.sampled_from([None, 1, "\t"])), max_size=5),
)
def test_documents_are_what_pythons_module_wrote(
    written: list[tuple[dict[str, Any], bool, int | str | None]],
) -> None:
    bodies = [
        json.dumps(document, ensure_ascii=ascii_, indent=indent).encode()
        for document, ascii_, indent in written
    ]
    assert _documents(bodies) == [[document] for document, _, _ in written]


@given(st.lists(_DOCUMENTS, max_size=4), st.sampled_from([b"", b" ", b"\n", b"\r\n\t "]))
def test_a_message_holds_documents_one_after_the_other_or_in_an_array(
    documents: list[dict[str, Any]], between: bytes
) -> None:
    strings = [json.dumps(document).encode() for document in documents]
    listed = json.dumps(documents, indent=1).encode()

    assert _documents([between.join(strings), listed]) == [documents, documents]


def _python_reads(body: bytes) -> bool:
    """Return whether the documents of a text are read by Python's module, strictly, each an object."""

    def pairs(members: list[tuple[str, Any]]) -> dict[str, Any]:
        return dict(members)

    def refuse(_: str) -> Any:
        raise ValueError("not JSON")

    decoder = json.JSONDecoder(object_pairs_hook=pairs, parse_constant=refuse)
    try:
        text = body.decode().removeprefix("\ufeff")
        at = 0
        while text[at:].strip(" \t\r\n"):
            while text[at] in " \t\r\n":
                at += 1
            value, at = decoder.raw_decode(text, at)
            json.dumps(value, ensure_ascii=False).encode()  # half a pair of surrogates has no bytes
    except (ValueError, RecursionError):
        return False
    return True


def _is_read(body: bytes) -> bool:
    try:
        _SCANNER.scan(messages_of([body]))
    except BadMessagesError:
        return False
    return True


@given(_DOCUMENTS, st.data())
def test_a_text_with_a_byte_changed_or_cut_is_read_where_pythons_module_reads_it(
    document: dict[str, Any], data: st.DataObject
) -> None:
    whole = bytearray(json.dumps(document, ensure_ascii=data.draw(st.booleans())).encode())
    at = data.draw(st.integers(0, len(whole) - 1))
    if data.draw(st.booleans()):
        del whole[at:]
    else:
        whole[at] = data.draw(st.sampled_from(b'{}[]",:\\u0123-+eE.tfn \n\x00\x1f\x80\xff'))
    body = bytes(whole)

    try:
        _SCANNER.scan(messages_of([body]))
    except BadMessagesError as several:
        # Of names that occur twice Python takes the last one.
        assert "twice" in str(several.errors[0]) or not _python_reads(body)  # noqa: PT017  either is right
    else:
        assert _python_reads(body)


@given(
    st.lists(
        st.binary(max_size=60) | st.text('{}[]":,\\u01ed \n', max_size=30).map(str.encode),
        max_size=4,
    )
)
def test_any_bytes_give_nodes_or_errors_of_their_messages(bodies: list[bytes]) -> None:
    try:
        nodes = _SCANNER.scan(messages_of(bodies, b""))
    except BadMessagesError as several:
        found = several.errors
    else:
        found = {}
        assert (np.diff(nodes.message) >= 0).all()
    assert set(found) <= set(range(len(bodies)))
    for message, error in found.items():
        assert 0 <= (error.where.offset or 0) <= len(bodies[message])


_BAD: Final = [
    (b'{"a":1,"a":2}', "twice", 9),
    (b'{"a":{"b":1,"b":2}}', "twice", 14),
    (b'{"a" 1}', "colon", 5),
    (b"{a:1}", "name of a member in quotes", 1),
    (b'{"a":1,}', "name of a member in quotes", 7),
    (b'{"a":[1,]}', "expected a JSON value", 8),
    (b'{"a":[1 2]}', "comma", 8),
    (b'{"a":1]', "comma", 6),
    (b'{"a":1', "ends too early", 6),
    (b"[", "ends too early", 1),
    (b'{"a":', "ends too early", 5),
    (b'{"a":01}', "not a JSON number", 5),
    (b'{"a":-}', "not a JSON number", 6),
    (b'{"a":1.}', "not a JSON number", 7),
    (b'{"a":1e+}', "not a JSON number", 8),
    (b'{"a":+1}', "expected a JSON value", 5),
    (b'{"a":tru}', "true, false or null", 5),
    (b'{"a":NaN}', "expected a JSON value", 5),
    (b'{"a":"\x01"}', "control character", 6),
    (b'{"a":"b\nc"}', "control character", 7),
    (b'{"a":"\\x"}', "escape", 6),
    (b'{"a":"\\u12g4"}', "escape", 6),
    (b'{"a":"\\ud800"}', "surrogate", 6),
    (b'{"a":"\\ud800\\u0041"}', "surrogate", 6),
    (b'{"a":"\\udc00\\ud800"}', "surrogate", 6),
    (b'{"a":"b', "closing quote", 7),
    (b'{"a":"b\\', "closing quote", 8),
    (b'{"a":{"b":{"c":"\\q"}}}', "escape", 16),
    (b"{} x", "expected true", 3),
    (b"\xef\xbb\xbf{} \xef", "UTF-8", 6),
]


@pytest.mark.parametrize(("body", "problem", "at"), _BAD)
def test_an_error_states_the_problem_and_the_byte(body: bytes, problem: str, at: int) -> None:
    with pytest.raises(BadMessagesError) as raised:
        _SCANNER.scan(messages_of([b"{}", body, b"[]"]))

    (message, error), *others = raised.value.errors.items()
    assert (message, others) == (1, [])
    assert problem in error.problem
    assert error.where.offset == at


def test_an_error_shows_line_and_column_and_the_text_around() -> None:
    with pytest.raises(BadMessagesError) as raised:
        _SCANNER.scan(messages_of([b'{\n  "\xc3\xa4": tru\n}']))

    text = str(raised.value.errors[0])
    assert "line 2, column 8, byte 10" in text
    assert text.endswith(f'"ä": tru }}\n{" " * 11}^')


@pytest.mark.parametrize("value", [b"\x02\x06abc", b"\xc8\x01\xff"])
def test_a_body_of_a_schema_registry_is_named_so(value: bytes) -> None:
    with pytest.raises(BadMessagesError) as raised:
        _SCANNER.scan(messages_of([b"\0\0\0\x01\x02" + value]))

    assert "a schema registry (schema 258): Avro" in str(raised.value.errors[0])


def test_values_may_be_within_each_other_to_a_limit() -> None:
    deepest = b"[" * DEPTH + b"]" * DEPTH
    assert _is_read(b'{"a":' + deepest[1:-1] + b"}")
    assert not _is_read(b'{"a":' + deepest + b"}")


def test_a_value_may_begin_a_message_with_a_byte_order_mark_and_be_anything() -> None:
    assert _documents([b'\xef\xbb\xbf{"a":1}', b"1 2", b"null", b'"x"', b"", b" \n", b"[[]]"]) == [
        [{"a": 1}], [1, 2], [None], ["x"], [], [], [[]],
    ]  # fmt: skip


def test_messages_that_are_next_to_each_other_do_not_run_together() -> None:
    nodes = _SCANNER.scan(messages_of([b"1", b"2", b'{"a":3}', b"4"], b""))
    assert [nodes.raw(node) for node in nodes.root.tolist()] == [b"1", b"2", b'{"a":3}', b"4"]


def test_numbers_of_any_size_keep_their_digits() -> None:
    numbers = ["0", "-0", "1" * 400, "1e999", "-1.50E-7", "0.10"]
    nodes = _SCANNER.scan(messages_of([f'{{"n":{number}}}'.encode() for number in numbers]))
    members = nodes.members(nodes.root, ["n"])[0]
    assert nodes.strings(members).to_pylist() == numbers
    assert math.isinf(float(numbers[3]))


def test_many_nodes_and_many_names_find_room() -> None:
    """More names than there is room for at first, then more than are kept for the next batch."""
    scanner = JsonScanner(2)
    documents = [{f"name {i}.{j}": {str(i): j} for j in range(300)} for i in range(3)]
    bodies = [json.dumps(document).encode() for document in documents]
    assert _documents(bodies, scanner) == [[document] for document in documents]
    again = [json.dumps({f"{i}": i for i in range(17_000)}).encode()]
    assert _documents(again, scanner)[0] == [json.loads(again[0])]
    assert _documents(bodies, scanner) == [[document] for document in documents]


def test_members_of_an_opaque_one_are_checked_but_are_no_nodes() -> None:
    scanner = JsonScanner(3, "schema")
    body = b'{"schema":{"a":[{"schema":1}],"a":2},"payload":{"schema":{"b":1}}}'
    nodes = scanner.scan(messages_of([body] * 3))
    assert [nodes.names[name] for name in nodes.name.tolist()] == [
        "", "schema", "payload", "schema", "b",
    ] * 3  # fmt: skip
    with pytest.raises(BadMessagesError):
        scanner.scan(messages_of([body, b'{"schema":{"a":[{]},"payload":{}}', body]))


def test_a_path_leads_through_members_unless_one_has_the_whole_name() -> None:
    messages = messages_of([b'{"a":{"b":1}}', b'{"a.b":2,"a":{"b":3}}', b"{}", b"5"])
    nodes = _SCANNER.scan(messages)
    records = document_records(messages, nodes)
    assert nodes.strings(records.node_at("a.b")).to_pylist() == ["1", "2", None, None]
    assert nodes.strings_and_nested(records.node_at("a"))[1] == 2
    assert int((nodes.kinds(nodes.root) == ARRAY).sum()) == 0
