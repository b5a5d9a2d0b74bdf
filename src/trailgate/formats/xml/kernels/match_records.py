"""The records of XML rules' matches: write them by executing the scanner's actions, and read them.

`start_element` and `end_element` open the records of rules that match an element, and store the
spans of their values. `word_ids` and `mark_rules` read the records of a batch after its scan.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from trailgate.arrays import Longs, Mask, Octets, Offsets
from trailgate.columnar.compiling import inner, kernel
from trailgate.formats.xml.kernels.characters import is_blank
from trailgate.formats.xml.kernels.names import find_name, insert_name
from trailgate.formats.xml.kernels.tables import (
    ABSENT_CELL,
    ACTION,
    ATTRIBUTES,
    BASE,
    CHILDREN,
    COLUMNS,
    COUNT,
    DEPTH,
    EMPTY,
    END,
    FIELD,
    FIRST,
    FRAME,
    FULL,
    INNER,
    INSTANCE,
    KIND,
    LEVEL,
    LINE,
    LITERALS,
    MESSAGE,
    NAMES,
    NO_ROOM,
    NOTHING,
    NUMBER,
    ORDER,
    OWNER,
    PHASES,
    PIECES,
    PLACE,
    PLACED,
    PLAIN,
    REFUSED,
    ROOM,
    RULE,
    SECOND,
    SHAPE,
    START,
    TAG_START,
    TEXT,
    TEXT_END,
    TEXT_START,
    TO_DECODE,
    TRANSACTION,
    UNREAD,
    VALUE_END,
    VALUE_START,
    WIDTH,
    ActionType,
    MatchArrays,
    NameArrays,
    RuleArrays,
    WorkArrays,
)
from trailgate.formats.xml.kernels.tags import attribute_of
from trailgate.formats.xml.kernels.text import OF_ATTRIBUTE, decode_references, join_pieces

RECORD = int(ActionType.RECORD)
EXISTS = int(ActionType.EXISTS)
NAMED = int(ActionType.NAME)
POSITION = int(ActionType.POSITION)
LITERAL = int(ActionType.LITERAL)
TEXTUAL = int(ActionType.TEXT)
EXACT = int(ActionType.EXACT_TEXT)
CONTENT = int(ActionType.CONTENT)
DIGITS = 20
NO_WORD: Final = -1


@inner
def row_of(depth: int, level: int) -> int:
    """Return the row of `instances` for an action's level at an XML element of a depth.

    An element at depth d has the row d + 1. A level of 0 is the element itself, 1 its parent,
    and so on. Negative levels do not depend on the element: `LOOSE` is row 0, and `DOCUMENT`
    minus a depth is the row of that depth.
    """
    return depth - level + 1 if level >= 0 else -1 - level


@inner
def record_of(actions: Longs, row: int, depth: int, instances: Longs, width: int) -> int:
    """Return the offset of the match record that an action of the XML scanner writes to."""
    level = row_of(depth, actions[row + LEVEL])
    return instances[(level * width + actions[row + INSTANCE]) * PLACED + PLACE]


@inner
def store(
    records: Offsets, record: int, actions: Longs, row: int, start: int, size: int, begin: int
) -> None:
    """Store the span of an XML value in the slot of an action.

    `size` is `EMPTY` for an element without content. `begin` is the offset of the value's element.
    If a path finds several elements, the element that begins first counts. A repeated value clears
    the action's bit, if it has one.
    """
    place = record + actions[row + FIELD]
    ordered = actions[row + ORDER]
    if records[place + 1] < 0:
        records[place], records[place + 1] = start, size
        if ordered and size >= 0:
            records[record + ordered] = begin
        return
    # An element that began earlier ended later (it is around the other): its value counts.
    if ordered and size >= 0 and begin < records[record + ordered]:
        records[place], records[place + 1] = start, size
        records[record + ordered] = begin
    if size >= 0 and actions[row + SECOND]:
        records[record + actions[row + FIRST] + 1] &= ~actions[row + SECOND]


@inner
def store_once(records: Offsets, place: int, start: int, size: int) -> None:
    """Store the span of an XML value in a slot, unless it is already filled."""
    if records[place + 1] < 0:
        records[place], records[place + 1] = start, size


@inner
def open_record(
    actions: Longs,
    row: int,
    depth: int,
    message: int,
    place: int,
    frames: Longs,
    instances: Longs,
    width: int,
    records: Offsets,
    shape: Longs,
) -> int:
    """Open the match record of an action: a rule matches the current XML element.

    Return 0, `FULL`, or `REFUSED` if it would be nested in another record illegally.

    The record is a new row of its type, filled with -1. It gets the rule, its owner (the record of
    the enclosing match), the transaction, the message and the offset of its element. `instances`
    then refers to it, so that actions of elements inside find it.

    Example: `<tx><row/><row/></tx>` with a transaction rule and an operation rule opens one record
    of type OUTER, number 0, and two of type OPERATIONS whose OWNER is 0.
    """
    kind = actions[row + KIND]
    own = kind * SHAPE
    number = shape[own + COUNT]
    if number >= shape[own + ROOM]:
        return FULL
    size = shape[own + WIDTH]
    record = shape[own + BASE] + number * size
    # A width that is a multiple of LINE lets the compiler fill a record with vector stores.
    for line in range(record, record + size, LINE):
        for field in range(LINE):
            records[line + field] = -1
    records[record + RULE] = actions[row + FIRST]
    # A transaction's record is its own transaction; others take that of their owner.
    transaction = number if actions[row + SECOND] else -1
    if actions[row + FIELD] >= 0:
        level = row_of(depth, actions[row + LEVEL])
        owner = (level * width + actions[row + FIELD]) * PLACED
        records[record + OWNER] = instances[owner + NUMBER]
        if kind != COLUMNS:
            transaction = records[instances[owner + PLACE] + TRANSACTION]
    if kind != COLUMNS:
        records[record + TRANSACTION] = transaction
        records[record + MESSAGE] = message
        records[record + START] = place
        records[record + END] = place
    opened = ((depth + 1) * width + actions[row + INSTANCE]) * PLACED
    instances[opened + PLACE], instances[opened + NUMBER] = record, number
    if actions[row + ORDER]:
        last = actions[row + INSTANCE] * PLACED
        before = instances[last + DEPTH]
        # The last instance of this rule began at a smaller depth. If that element is still open,
        # its start in the message is the one in its record: the new match would be inside it.
        if 0 <= before < depth:
            begun = frames[before * FRAME + TAG_START] - frames[depth * FRAME + TAG_START] + place
            if records[instances[last + PLACE] + START] == begun:
                return REFUSED
        instances[last + PLACE], instances[last + NUMBER] = record, number
        instances[last + DEPTH] = depth
    shape[own + COUNT] = number + 1
    return 0


@inner
def start_element(
    text: Octets,
    state: int,
    depth: int,
    message: int,
    place: int,
    name: int,
    name_size: int,
    rules: RuleArrays,
    names: NameArrays,
    work: WorkArrays,
    found: MatchArrays,
    side: int,
) -> int:
    """Open the match records of an element's rules, and store the spans of values that its start tag contains.

    Positions are written as text at `side`, after the messages. Returns the offset after them (the
    next `side`), `FULL` or `REFUSED`. The phases of a state's actions in
    `bounds` are: open records, values of the start tag, attributes, values of the end tag. Example:
    for `/tx/row` with the value `name()`, the element `<row>` opens a record (phase 0) and stores
    the span of "row" (phase 1).
    """
    bounds, actions, width = rules.bounds, rules.actions, rules.instances
    frames, instances, records = work.frames, work.instances, found.records
    for number in range(bounds[state * PHASES], bounds[state * PHASES + 1]):
        row = number * ACTION
        opened = open_record(
            actions, row, depth, message, place, frames, instances, width, records, found.shape
        )
        if opened < 0:
            return opened
    for number in range(bounds[state * PHASES + 1], bounds[state * PHASES + 2]):
        row = number * ACTION
        what = actions[row]
        slot = record_of(actions, row, depth, instances, width) + actions[row + FIELD]
        if what == EXISTS:
            store_once(records, slot, 0, 0)
        elif what == NAMED:
            store_once(records, slot, name, name_size)
        elif what == LITERAL:
            literal = names.used[LITERALS] + actions[row + FIRST]
            store_once(records, slot, literal, actions[row + SECOND])
        elif what == POSITION:
            if side + DIGITS > len(text):
                return FULL
            # The parent counts its children.
            position = frames[(depth - 1) * FRAME + CHILDREN] if depth else 0
            start = side
            side = put_number(text, position, side)
            store_once(records, slot, start, side - start)
        # POINT: store the number of the anchor's record, the element at which a path begins.
        else:
            level = row_of(depth, actions[row + SECOND])
            anchor = (level * width + actions[row + FIRST]) * PLACED + NUMBER
            if level > 0:
                records[slot] = instances[anchor]
    return side


@inner
def store_attributes(
    text: Octets,
    state: int,
    depth: int,
    count: int,
    rules: RuleArrays,
    info: Longs,
    work: WorkArrays,
    records: Offsets,
    side: int,
) -> int:
    """Store the spans of an XML tag's attributes in the match records of the rules that name them. Return the next `side`, or `FULL`.

    An attribute with references, such as `a="x&amp;y"`, is decoded to the offset `side`, after the
    messages. The next `side` is the offset after the last decoded value.

    Example: for the value `@id` of a rule, `<row id="7">` stores the span of "7" in the value's slot.
    """
    bounds, actions, attributes = rules.bounds, rules.actions, work.attributes
    for number in range(bounds[state * PHASES + 2], bounds[state * PHASES + 3]):
        row = number * ACTION
        each = attribute_of(actions[row], count, attributes, info)
        if each < 0:
            continue
        start = attributes[each * ATTRIBUTES + VALUE_START]
        end = attributes[each * ATTRIBUTES + VALUE_END]
        if attributes[each * ATTRIBUTES + TO_DECODE]:
            # Decoding never makes a value longer, so this room is enough.
            if side + end - start > len(text):
                return FULL
            end = decode_references(text, start, end, OF_ATTRIBUTE, side)
            start, side = side, end
        record = record_of(actions, row, depth, work.instances, rules.instances)
        store(records, record, actions, row, start, end - start, 0)
    return side


@inner
def end_element(
    text: Octets,
    state: int,
    depth: int,
    tag: int,
    place: int,
    rules: RuleArrays,
    work: WorkArrays,
    records: Offsets,
    side: int,
) -> int:
    """Store the text, content and end of an XML element in the match records.

    Text that must be decoded or joined is written to the offset `side`, after the messages. Returns
    the offset after it (the next `side`), or `FULL`.

    `tag` is the offset of its end tag; `place` is the offset after that, relative to the message.

    Example: for `<id> 7 </id>` TEXT stores the span of "7", EXACT_TEXT the span of " 7 ", and CONTENT
    the span between the tags, including nested tags.
    """
    bounds, actions, frames = rules.bounds, rules.actions, work.frames
    frame = depth * FRAME
    kind = frames[frame + TEXT]
    if kind == UNREAD:
        return side
    begin = frames[frame + TAG_START]
    start, end = frames[frame + TEXT_START], frames[frame + TEXT_END]
    # The text before blanks are removed.
    exact, exact_end = start, end
    if kind == PLAIN:
        while start < end and is_blank(text[start]):
            start += 1
        while end > start and is_blank(text[end - 1]):
            end -= 1
    elif kind == PIECES:
        exact = side
        side, start, end = join_pieces(text, frames, frame, work.pieces, side)
        if side < 0:
            return FULL
        exact_end = side
    for number in range(bounds[state * PHASES + 3], bounds[state * PHASES + 4]):
        row = number * ACTION
        what = actions[row]
        record = record_of(actions, row, depth, work.instances, rules.instances)
        if what == TEXTUAL:
            # Without text, TEXT_START was never written.
            size = end - start if kind != NOTHING else EMPTY
            store(records, record, actions, row, start if size != EMPTY else 0, size, begin)
        elif what == EXACT:
            size = exact_end - exact if kind != NOTHING else 0
            store(records, record, actions, row, exact if size else 0, size, begin)
        elif what == CONTENT:
            within = frames[frame + INNER]
            size = tag - within if tag > within else EMPTY
            store(records, record, actions, row, within, size, begin)
        else:
            records[record + END] = place
    return side


@inner
def put_number(text: Octets, number: int, to: int) -> int:
    """Write an XML element's position, a value of match records, in decimal digits. Return the offset after it."""
    size, rest = 1, number // 10
    while rest:
        size += 1
        rest //= 10
    for place in range(size):
        text[to + size - 1 - place] = 48 + number % 10
        number //= 10
    return to + size


@kernel(writes=("ids", "firsts", "names"))
def word_ids(
    text: Octets,
    records: Offsets,
    width: int,
    field: int,
    ids: Longs,
    firsts: Longs,
    names: NameArrays,
) -> int:
    """Assign numbers to the distinct words in a field of XML match records.

    Return the number of words, or `NO_ROOM`.

    `ids` gets each record's word number, or `NO_WORD` if the record has none. `firsts` gets the
    first record with each word. `NO_ROOM` is returned if there are too many words, or one is empty.

    Example: the words ID, NAME, ID get the numbers 0, 1, 0, and firsts is 0, 1.
    """
    used = names.used
    for row in range(len(ids)):
        place = row * width + field
        start, size = np.int64(records[place]), np.int64(records[place + 1])
        if size < 0:
            ids[row] = NO_WORD
            continue
        # The hash reads the first byte, so an empty word cannot be numbered.
        if size == 0:
            return NO_ROOM
        number = find_name(text, start, size, names)
        if number < 0:
            number = insert_name(text, start, size, -1 - number, names)
            if number < 0:
                return NO_ROOM
            firsts[number] = row
        ids[row] = number
    return used[NAMES]


@kernel(writes=("seen",))
def mark_rules(records: Offsets, width: int, lengths: Longs, again: int, seen: Mask) -> None:
    """Mark which XML rules have match records, and which of their paths found one value or several.

    `lengths` are the record fields with the lengths of the paths' values. `seen` has 1 + 2 *
    len(lengths) elements per rule: the rule matched; each path found a value; each path found
    several. `again` is the field with bits of repeated values, or 0.

    Example: with five lengths, rule 3 begins at 3 * 11 = 33. A record of it with a value at the
    second length marks 33 (matched) and 35 (second path).
    """
    paths = len(lengths)
    for record in range(0, len(records), width):
        place = np.int64(records[record]) * (1 + 2 * paths)
        seen[place] = True
        for path in range(paths):
            if lengths[path] and records[record + lengths[path]] != ABSENT_CELL:
                seen[place + 1 + path] = True
        if again and records[record + again] != -1:
            for path in range(paths):
                if records[record + again] >> path & 1 == 0:
                    seen[place + 1 + paths + path] = True
