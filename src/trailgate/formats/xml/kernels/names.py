"""Names in XML messages and their namespaces, and the scanner's table of names.

Names of elements and attributes become numbers: a name is checked once, when it is first seen.
Afterwards it is found by its first and last eight bytes and its length, which are two word reads
and a comparison for names of up to 16 bytes. Prefixes and namespaces are words of the same table: a
tag that declares a prefix binds its word to the namespace's word until the element ends.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from trailgate.arrays import Longs, Octets, Offsets, Words
from trailgate.columnar.compiling import inner, instruction, kernel
from trailgate.columnar.word_kernels import EVERY, first_mark, load8
from trailgate.formats.xml.kernels.characters import (
    CONTINUES,
    LAST_CHARACTER,
    NAME_CHARACTERS,
    STARTS,
    code_point,
)
from trailgate.formats.xml.kernels.tables import (
    ATTRIBUTE,
    ATTRIBUTES,
    BOUND,
    ELEMENT,
    FULL,
    INFO,
    LOCAL,
    MANY_NAMES,
    NAMES,
    NAMESPACE,
    NO_ROOM,
    POOL,
    POOLED,
    PREFIX,
    REFUSED,
    SCOPE,
    SCOPED,
    SEEN,
    SERIAL,
    SIZE,
    TO_DECODE,
    VALUE_END,
    VALUE_START,
    XML,
    XML_SPACE,
    XMLNS,
    XMLNS_SPACE,
    NameArrays,
)
from trailgate.formats.xml.kernels.text import OF_ATTRIBUTE, decode_references

NO_NAME: Final = -1


@inner
def first_place(first: int, last: int, size: int, places: int) -> int:
    """Return the first slot of the XML name table to search for a word.

    `first` and `last` are the word's first and last eight bytes, `size` is its length, and `places`
    the number of slots.
    """
    mixed = np.uint64(first) ^ (np.uint64(last) * np.uint64(0x9E3779B97F4A7C15)) ^ np.uint64(size)
    return np.int64((mixed * np.uint64(0xD6E8FEB86659FD93)) >> np.uint64(40)) & (places - 1)


@kernel(writes=("table",))
def fill_table(keys: Words, info: Longs, names: int, table: Offsets) -> None:
    """Insert the words 0 to `names` - 1 into an empty XML name table."""
    for number in range(names):
        size = info[number * INFO + SIZE]
        place = first_place(keys[2 * number], keys[2 * number + 1], size, len(table))
        while table[place]:
            place = (place + 1) & (len(table) - 1)
        table[place] = number + 1


@inner
def find_name(text: Octets, at: int, size: int, names: NameArrays) -> int:
    """Return the number of a non-empty XML name in the table of names.

    For a new name, return -1 - i, where i is the free slot for it in the hash table.
    """
    table, keys, info, pool = names.table, names.keys, names.info, names.pool
    first, last = load8(text, at), np.uint64(0)
    # A shorter word is masked to its own bytes. For 8 to 16 bytes, the first and last eight bytes
    # overlap or meet, so the loop below has nothing left to compare.
    if size < 8:
        first &= EVERY >> np.uint64(64 - 8 * size)
    else:
        last = load8(text, at + size - 8)
    place = first_place(first, last, size, len(table))
    while True:
        number = np.int64(table[place]) - 1
        if number < 0:
            return -1 - place
        if (
            keys[2 * number] == first
            and keys[2 * number + 1] == last
            and info[number * INFO + SIZE] == size
        ):
            alike = True
            pooled = info[number * INFO + POOLED]
            for byte in range(8, size - 8):
                alike &= text[at + byte] == pool[pooled + byte]
            if alike:
                return number
        place = (place + 1) & (len(table) - 1)


@inner
def insert_name(
    text: Octets,
    at: int,
    size: int,
    place: int,
    names: NameArrays,
) -> int:
    """Add an XML name at a free slot of the hash table. Return its number, or `NO_ROOM`."""
    table, keys, info, pool, used = names
    number, pooled = used[NAMES], used[POOL]
    if (number + 1) * INFO > len(info) or pooled + size > len(pool):
        return NO_ROOM
    first, last = load8(text, at), np.uint64(0)
    # The same keys as in `find_name`.
    if size < 8:
        first &= EVERY >> np.uint64(64 - 8 * size)
    else:
        last = load8(text, at + size - 8)
    keys[2 * number], keys[2 * number + 1] = first, last
    for byte in range(size):
        pool[pooled + byte] = text[at + byte]
    row = number * INFO
    info[row + SIZE], info[row + POOLED] = size, pooled
    info[row + PREFIX], info[row + LOCAL] = -1, -1
    info[row + ELEMENT], info[row + ATTRIBUTE] = 0, 0
    info[row + SEEN], info[row + BOUND] = -1, 0
    info[row + NAMESPACE] = 0
    table[place] = number + 1
    used[NAMES], used[POOL] = number + 1, pooled + size
    return number


@inner
def add_name(
    text: Octets,
    at: int,
    size: int,
    place: int,
    names: NameArrays,
) -> int:
    """Check a new XML name, and add it and its parts before and after the colon.

    Return its number, `NO_NAME` or `NO_ROOM`.
    """
    info = names.info
    colon = check_name(text, at, at + size)
    if colon < 0:
        return NO_NAME
    number = insert_name(text, at, size, place, names)
    if number < 0 or colon == 0:
        return number
    # For "p:id" the words "p" and "id" are added too, and the new name refers to both.
    prefix = find_name(text, at, colon, names)
    if prefix < 0:
        prefix = insert_name(text, at, colon, -1 - prefix, names)
    start, rest = at + colon + 1, size - colon - 1
    local = find_name(text, start, rest, names)
    if local < 0:
        local = insert_name(text, start, rest, -1 - local, names)
    if prefix < 0 or local < 0:
        return NO_ROOM
    info[number * INFO + PREFIX], info[number * INFO + LOCAL] = prefix, local
    info[number * INFO + ELEMENT] = info[local * INFO + ELEMENT]
    if prefix != XMLNS:
        info[number * INFO + ATTRIBUTE] = info[local * INFO + ATTRIBUTE]
    return number


@inner
def check_name(text: Octets, at: int, end: int) -> int:
    """Check the characters of an XML name, such as `id` or `p:id`.

    Return the length of its prefix, 0 without one, or -1 if it is not a name with at most one
    colon.
    """
    start, colon = at, 0
    begins = True
    while at < end:
        point, size = code_point(text, at)
        if point == 0x3A:
            if begins or colon:
                return -1
            colon = at - start
            begins = True
        # STARTS is above CONTINUES: what may begin a name may also be inside it.
        elif point > LAST_CHARACTER or NAME_CHARACTERS[point] < (STARTS if begins else CONTINUES):
            return -1
        else:
            begins = False
        at += size
    return -1 if begins else colon


@inner
def name_end(text: Octets, at: int, end: int) -> int:
    """Return the end of an XML name. 16 bytes are tested at a time."""
    while at < end:
        marks = name_end_marks(text, at)
        if marks:
            return min(at + first_mark(marks), end)
        at += 16
    return end


@inner
def name_at(
    text: Octets,
    at: int,
    end: int,
    names: NameArrays,
) -> int:
    """Return the number of the XML name in [at, end), `REFUSED` or `MANY_NAMES`.

    A new name is added.
    """
    if end <= at:
        return REFUSED
    number = find_name(text, at, end - at, names)
    if number < 0:
        number = add_name(text, at, end - at, -1 - number, names)
        if number < 0:
            return MANY_NAMES if number == NO_ROOM else REFUSED
    return number


@inner
def bind_prefixes(
    text: Octets,
    count: int,
    depth: int,
    attributes: Longs,
    names: NameArrays,
    scopes: Longs,
    scoped: int,
    side: int,
) -> int:
    """Bind the namespace prefixes that an XML tag declares, and check the prefixes of its attributes.

    `scoped` is the number of rows of `scopes`, which has one for each prefix declared in an open
    element. Returns this number with the tag's own prefixes, or the reason to refuse the tag.

    Example: `<a xmlns:p="urn:x" p:id="1">` binds the word "p" to the word "urn:x" until the element
    ends, and `p:id` is allowed.
    """
    info = names.info
    first, last = attributes[VALUE_START], attributes[(count - 1) * ATTRIBUTES + VALUE_END]
    if (scoped + count) * SCOPE > len(scopes) or side + last - first > len(text):
        return FULL
    opened = scoped
    for each in range(count):
        row = each * ATTRIBUTES
        number = attributes[row]
        prefix = info[number * INFO + PREFIX]
        if number != XMLNS and prefix != XMLNS:
            continue
        start, end = attributes[row + VALUE_START], attributes[row + VALUE_END]
        if attributes[row + TO_DECODE]:
            end = decode_references(text, start, end, OF_ATTRIBUTE, side)
            start = side
        local = XMLNS if number == XMLNS else info[number * INFO + LOCAL]
        bound = find_namespace(text, start, end, names)
        # A prefix cannot be unbound, and "xmlns" cannot be declared.
        if number != XMLNS and (bound == 0 or local == XMLNS):
            bound = REFUSED
        # No prefix may have the namespace of xmlns, and only "xml" may (and must) have its own.
        if bound == XMLNS_SPACE + 1 or (bound == XML_SPACE + 1) != (local == XML):
            bound = min(bound, REFUSED)
        if bound < 0:
            unbind_prefixes(scopes, opened, depth, info)
            return bound
        place = SCOPE * opened
        scopes[place], scopes[place + 1] = depth, local
        scopes[place + 2] = info[local * INFO + BOUND]
        info[local * INFO + BOUND] = bound
        opened += 1
    for each in range(count):
        if not is_one_attribute(each, attributes, info):
            unbind_prefixes(scopes, opened, depth, info)
            return REFUSED
    return opened


@inner
def find_namespace(
    text: Octets,
    start: int,
    end: int,
    names: NameArrays,
) -> int:
    """Return 1 + the word number of an XML namespace, or 0 if it is empty.

    Returns `REFUSED` if it has blanks, or `MANY_NAMES` if the table of words is full.
    """
    for place in range(start, end):
        if text[place] == 0x20:
            return REFUSED
    if start == end:
        return 0
    word = find_name(text, start, end - start, names)
    if word < 0:
        word = insert_name(text, start, end - start, -1 - word, names)
    return MANY_NAMES if word < 0 else word + 1


@inner
def is_one_attribute(each: int, attributes: Longs, info: Longs) -> bool:
    """Return whether an attribute of an XML tag has no prefix, or a declared one and a name that no attribute before it in the tag has.

    Two attributes of a tag must not have the same local name in the same namespace.
    """
    number = attributes[each * ATTRIBUTES]
    prefix = info[number * INFO + PREFIX]
    if prefix < 0 or prefix == XMLNS:
        return True
    bound, local = info[prefix * INFO + BOUND], info[number * INFO + LOCAL]
    if bound == 0:
        return False
    # Attributes without a prefix are in no namespace, so only those with one can be the same: a:id
    # and b:id are, if a and b are bound to the same namespace. Repeated names are found elsewhere.
    for other in range(each):
        before = attributes[other * ATTRIBUTES]
        its = info[before * INFO + PREFIX]
        if its < 0 or its == XMLNS or info[before * INFO + LOCAL] != local:
            continue
        if info[its * INFO + BOUND] == bound:
            return False
    return True


@inner
def unbind_prefixes(scopes: Longs, scoped: int, depth: int, info: Longs) -> int:
    """Unbind the namespace prefixes that an XML element declares.

    Return the number of prefixes left.
    """
    # Declarations are a stack: restore each prefix's previous binding.
    while scoped and scopes[SCOPE * (scoped - 1)] == depth:
        scoped -= 1
        info[scopes[SCOPE * scoped + 1] * INFO + BOUND] = scopes[SCOPE * scoped + 2]
    return scoped


@inner
def element_letter(name: int, info: Longs, letters: int) -> int:
    """Return the automaton's input letter for an element, by its local name and its namespace's number in the rules."""
    prefix = info[name * INFO + PREFIX]
    letter = np.int64(info[name * INFO + ELEMENT])
    return letter + letters * rule_namespace(XMLNS if prefix < 0 else prefix, info)


@inner
def rule_namespace(prefix: int, info: Longs) -> int:
    """Return the number of a prefix's namespace in the rules, from 1, or 0 if they do not use it."""
    bound = info[prefix * INFO + BOUND]
    return np.int64(info[(bound - 1) * INFO + NAMESPACE]) if bound else 0


@kernel(writes=("names",))
def intern_word(
    text: Octets,
    start: int,
    end: int,
    names: NameArrays,
) -> int:
    """Return the number of a word in the XML name table, or `NO_ROOM`.

    A new word is added, without a check that it is a name.
    """
    number = find_name(text, start, end - start, names)
    if number >= 0:
        return number
    return insert_name(text, start, end - start, -1 - number, names)


@inner
def unbind_all(scopes: Longs, names: NameArrays) -> None:
    """Unbind all namespace prefixes after an XML message that is not read to its end."""
    info, used = names.info, names.used
    scoped = used[SCOPED]
    while scoped:
        scoped -= 1
        info[scopes[SCOPE * scoped + 1] * INFO + BOUND] = scopes[SCOPE * scoped + 2]
    used[SCOPED] = 0
    # Serial numbers of its attributes may be left in SEEN: skip far ahead, so that none seems to be repeated.
    used[SERIAL] += 1 << 32


@inner
def local_name(at: int, name: int, info: Longs) -> tuple[int, int]:
    """Return the offset and size of an XML name without its prefix."""
    prefix, size = info[name * INFO + PREFIX], info[name * INFO + SIZE]
    if prefix < 0:
        return at, size
    skipped = info[prefix * INFO + SIZE] + 1
    return at + skipped, size - skipped


@inner
def is_bound(prefix: int, info: Longs) -> bool:
    """Return whether an XML element's name may have this prefix; -1 means none."""
    return prefix < 0 or (prefix != XMLNS and info[prefix * INFO + BOUND] > 0)


@instruction
def name_end_marks(data: Any, at: int) -> Any:
    """Compare 16 bytes at once, and return a bit for each that ends a name in an XML tag: ``/``, ``>``, ``=``, blanks and controls."""
    marks = np.uint64(0)
    for index in range(16):
        byte = data[at + index]
        if byte == 0x2F or byte == 0x3E or byte == 0x3D or byte <= 0x20:
            marks |= np.uint64(1) << np.uint64(index)
    return marks
