"""Find the fields of delimited text, for delimiters and quotes of any length; copy and compare their values.

A quote opens a quoted value only at the start of a field; elsewhere it is data. Within a quoted
value delimiters are data, and an escaped quote does not close it. If two delimiters begin at the
same byte, the longer one counts.

`scan` jumps from one interesting byte to the next: ``marks_of_any`` compares 64 bytes at once with the
first bytes of all delimiters (or quotes) and returns a word with a bit for each match.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from trailgate.arrays import Longs, Mask, Octets, Offsets, Words
from trailgate.columnar.compiling import inner, kernel
from trailgate.columnar.strings_kernels import spans_equal
from trailgate.columnar.word_kernels import (
    SPARE,
    first_mark,
    load8,
    marks_of_any,
    move32,
    padded_word,
)

# The rows of ``bounds``: a token is tokens[bounds[row]:bounds[row + 1]].
FIELD, LINE, QUOTE, ESCAPED_QUOTE, OTHERS = range(5)
# What a byte begins. ``SEVERAL``: more bytes are needed to decide.
NO_DELIMITER, FIELD_DELIMITER, LINE_DELIMITER, SEVERAL = range(4)
SLOTS: Final = 256  # of a hash table of texts
MOST_KNOWN: Final = 64  # distinct texts of a column of which each gets a code
WINDOW: Final = 64  # bytes compared at once; the data must have at least as many
UNQUOTED: Final = 0
QUOTED: Final = 1  # flags of a field
ESCAPES: Final = 2
NONE: Final = 0
UNCLOSED: Final = 1  # problems of a body
TRAILING: Final = 2
BLOCK: Final = 2048  # rows processed for all columns before the next ones
FULL: Final = -1
OUTSIDE: Final = -2


class DelimitedBodies(NamedTuple):
    """Bodies of delimited text, which ascend and do not overlap, within the first ``size`` bytes of the data."""

    data: Octets
    size: int
    body_starts: Longs
    body_ends: Longs


class DelimitedTokens(NamedTuple):
    """The tokens of a dialect: its delimiters and quotes, and their escaped forms.

    ``tokens`` has their bytes; token i is ``tokens[bounds[i]:bounds[i + 1]]``. ``kinds[b]`` is the
    type of the delimiter that begins with the byte b, or ``SEVERAL`` if more bytes must be
    compared. ``delimiter_bytes`` are the first bytes of delimiters and of escaped delimiters,
    ``quote_bytes`` the first bytes of quotes and escaped quotes (none if text has no quotes).
    """

    tokens: Octets
    bounds: Longs
    kinds: Octets
    delimiter_bytes: Octets
    quote_bytes: Octets


class FieldArrays(NamedTuple):
    """The fields of delimited text to be written: the span and the flags of each, and the fields of each record.

    Record r has the fields first[r] to first[r + 1] - 1 and belongs to the body number body[r].
    ``first`` has one item more than there are records.
    """

    starts: Offsets
    ends: Offsets
    flags: Octets
    first: Longs
    body: Longs


class BrokenBodies(NamedTuple):
    """For each body with wrong quotes: its number, the offset of the fault in the data, and the problem."""

    broken: Longs
    broken_at: Longs
    problem: Octets


@kernel(writes=("into", "faults"))
def scan(
    bodies: DelimitedBodies,
    dialect: DelimitedTokens,
    returns: bool,
    into: FieldArrays,
    faults: BrokenBodies,
) -> tuple[int, int, int]:
    """Write the fields of bodies of delimited text in any dialect. Return the number of fields, of records and of bodies with wrong quotes.

    With ``returns``, a carriage return may be between a closing quote and the line feed that ends a
    record. A body with wrong quotes gets no records, and is added to ``faults`` instead.

    Instead of the number of fields, returns ``FULL`` if the arrays of fields or records are too
    short, or ``OUTSIDE`` if a body is not within the first ``size`` bytes, or if the data are
    shorter than ``size`` or than a ``WINDOW``.
    """
    # Example: the body 1,"a,b"\n2, has the fields [0, 1) [2, 7) [8, 9) [10, 10), first = 0, 2, 4, and the
    # second field is QUOTED. At its quote the loop searches only for quotes, so the comma at 4 is data.
    # ``delimiters`` and ``quotes`` are the marks of the 64 bytes from ``base`` on. Shifted right by
    # offset - base, their lowest bit is the next match at or after ``offset``.
    data, size, body_starts, body_ends = bodies
    tokens, bounds, kinds, delimiter_bytes, quote_bytes = dialect
    starts, ends, flags, first, body = into
    broken, broken_at, problem = faults
    fields = records = wrong = last = 0
    room, records_room = len(starts) - 1, len(first) - 1
    field_size, line_size = bounds[1] - bounds[0], bounds[2] - bounds[1]
    quote_at, escaped_at = bounds[QUOTE], bounds[ESCAPED_QUOTE]
    quote_size, escaped_size = escaped_at - quote_at, bounds[OTHERS] - escaped_at
    quoted = quote_size > 0
    quote = quote_end = escaped = escaped_end = np.uint8(0)
    if quoted:
        quote, quote_end = tokens[quote_at], tokens[quote_at + quote_size - 1]
        escaped, escaped_end = tokens[escaped_at], tokens[escaped_at + escaped_size - 1]
    base = -WINDOW  # offset of the bytes whose marks are known; none yet
    delimiters = quotes = np.uint64(0)
    if len(data) < max(size, WINDOW):
        return OUTSIDE, 0, 0
    for number in range(len(body_starts)):
        at, end = body_starts[number], body_ends[number]
        if at < last or end < at or end > size:
            return OUTSIDE, 0, 0
        last = end
        fields_before, records_before, begin = fields, records, fields
        trouble = NONE
        more = at < end
        while more:
            if fields >= room or records >= records_room:
                return FULL, 0, 0
            offset = at
            flag = UNQUOTED
            kind = NO_DELIMITER
            skipped_return = 0
            if (
                quoted
                and at < end
                and data[at] == quote
                and is_token(data, at, end, quote, quote_end, quote_size, tokens, quote_at)
            ):
                # Find the end of the quoted value: the first quote that is not escaped.
                flag = QUOTED
                trouble = UNCLOSED
                offset += quote_size
                while offset < end:
                    if offset - base >= WINDOW:
                        base = offset
                        delimiters = marks_of_any(data, base, delimiter_bytes)
                        quotes = marks_of_any(data, base, quote_bytes)
                    left = quotes >> np.uint64(offset - base)
                    if left == 0:
                        offset = base + WINDOW
                        continue
                    offset += first_mark(left)
                    if offset >= end:
                        break
                    if is_token(
                        data, offset, end, escaped, escaped_end, escaped_size, tokens, escaped_at
                    ):
                        flag = QUOTED | ESCAPES
                        offset += escaped_size
                    elif is_token(
                        data, offset, end, quote, quote_end, quote_size, tokens, quote_at
                    ):
                        trouble = NONE
                        break
                    else:
                        offset += 1
                if trouble:
                    broken_at[wrong] = at
                    break
                offset += quote_size
                if offset < end:
                    kind = np.int64(kinds[data[offset]])
                    if kind == SEVERAL:
                        kind = delimiter(data, offset, end, tokens, bounds)
                    if returns and kind == NO_DELIMITER and is_crlf(data, offset, end):
                        kind, skipped_return = LINE_DELIMITER, 1
                    if kind == NO_DELIMITER:
                        trouble = TRAILING
                        broken_at[wrong] = offset - quote_size
                        break
            else:
                # Find the next delimiter that is not part of an escape.
                while offset < end:
                    if offset - base >= WINDOW:
                        base = offset
                        delimiters = marks_of_any(data, base, delimiter_bytes)
                        if quoted:
                            quotes = marks_of_any(data, base, quote_bytes)
                    left = delimiters >> np.uint64(offset - base)
                    if left == 0:
                        offset = base + WINDOW
                        continue
                    offset += first_mark(left)
                    if offset >= end:
                        break
                    kind = np.int64(kinds[data[offset]])
                    if kind != SEVERAL:
                        break
                    skipped = escape(data, offset, end, tokens, bounds)
                    kind = NO_DELIMITER
                    if skipped == 0:
                        kind = delimiter(data, offset, end, tokens, bounds)
                        if kind != NO_DELIMITER:
                            break
                    offset += max(skipped, 1)
                offset = min(offset, end)
            starts[fields], ends[fields], flags[fields] = at, offset, flag
            fields += 1
            if kind == FIELD_DELIMITER:
                at = offset + field_size
            else:
                first[records], body[records] = begin, number
                records += 1
                begin = fields
                at = offset + skipped_return + line_size
                more = kind == LINE_DELIMITER and at < end
        if trouble:
            broken[wrong], problem[wrong] = number, trouble
            wrong += 1
            fields, records = fields_before, records_before
    first[records] = fields
    return fields, records, wrong


@kernel(writes=("ends",))
def drop_returns(
    data: Octets,
    body_ends: Longs,
    starts: Offsets,
    ends: Offsets,
    flags: Octets,
    first: Longs,
    body: Longs,
) -> int:
    """Cut the carriage return before a line feed off each record's last field. Return the number of returns.

    After a quoted field the return is already outside the field. Returns ``OUTSIDE`` for a field or
    body that does not exist.
    """
    # Example: the record a,b\r\n has the last field [2, 4), "b\r", and a line feed at 4: its end becomes 3.
    # The end of a quoted field is its closing quote, so there the return is at the end, not before it.
    count = 0
    for record in range(len(first) - 1):
        last = first[record + 1] - 1
        if last < 0 or last >= len(ends):
            return OUTSIDE
        end = np.int64(ends[last])
        if end < 1 or end >= len(data) or (data[end - 1] != 13 and data[end] != 13):
            continue
        number = body[record]
        if number < 0 or number >= len(body_ends):
            return OUTSIDE
        stop = min(body_ends[number], len(data))
        if flags[last] & QUOTED:
            count += is_crlf(data, end, stop)
        elif end > starts[last] and is_crlf(data, end - 1, stop):
            ends[last] = end - 1
            count += 1
    return count


@inner
def is_crlf(data: Octets, offset: int, end: int) -> bool:
    """Return whether a carriage return and a line feed are at an offset."""
    return bool(offset + 1 < end and data[offset] == 13 and data[offset + 1] == 10)


@inner
def is_token(
    data: Octets,
    offset: int,
    end: int,
    first: np.uint8,
    last: np.uint8,
    size: int,
    tokens: Octets,
    token: int,
) -> bool:
    """Return whether a token of a dialect is at an offset of the text, and ends at ``end`` at the latest.

    ``first`` and ``last`` are its first and last byte, ``size`` its length, and ``token`` its
    offset in ``tokens``. Most tokens have one or two bytes.
    """
    return bool(
        data[offset] == first
        and offset + size <= end
        and data[offset + size - 1] == last
        and (size <= 2 or has_token(data, offset, end, tokens, token, size))
    )


@inner
def has_token(data: Octets, offset: int, end: int, tokens: Octets, token: int, size: int) -> bool:
    """Return whether a delimiter or quote, tokens[token:token + size], is at an offset of delimited text, and ends at ``end`` at the latest."""
    if offset + size > end:
        return False
    for at in range(size):
        if data[offset + at] != tokens[token + at]:
            return False
    return True


@inner
def delimiter(data: Octets, offset: int, end: int, tokens: Octets, bounds: Longs) -> int:
    """Return the type of the delimiter at an offset, or ``NO_DELIMITER``.

    If both the field and the line delimiter fit, the longer one counts.
    """
    field_size, line_size = bounds[1] - bounds[0], bounds[2] - bounds[1]
    is_field = has_token(data, offset, end, tokens, bounds[FIELD], field_size)
    if is_field and line_size <= field_size:
        return FIELD_DELIMITER
    if has_token(data, offset, end, tokens, bounds[LINE], line_size):
        return LINE_DELIMITER
    return FIELD_DELIMITER if is_field else NO_DELIMITER


@inner
def escape(data: Octets, offset: int, end: int, tokens: Octets, bounds: Longs) -> int:
    """Return the length of the escaped delimiter that begins at an offset, or 0."""
    for row in range(OTHERS, len(bounds) - 1):
        size = bounds[row + 1] - bounds[row]
        if has_token(data, offset, end, tokens, bounds[row], size):
            return size
    return 0


class FieldSpans(NamedTuple):
    """The fields of delimited text to be read: the span of each in the data, and its flags."""

    data: Octets
    starts: Offsets
    ends: Offsets
    flags: Octets


class FieldTexts(NamedTuple):
    """The bytes with which delimited text writes a quote, an escaped quote within quotes, and a null."""

    quote: Octets
    escaped: Octets
    null: Octets


class MeasuredFields(NamedTuple):
    """The measured fields of some columns of delimited text, column by column.

    ``offsets`` are the Arrow offsets. ``begins`` are the offsets in the data at which the values
    begin, after an opening quote. If a value has escapes, its item is ~offset, which is negative.
    ``nulls`` is empty, or a mask to be set for unquoted fields whose text is that of a null; it
    must be all False before. ``seen`` has for each column the bitwise OR of its fields' flags.
    """

    offsets: Offsets
    begins: Offsets
    nulls: Mask
    seen: Octets


@kernel(writes=("measured",))
def measure_fields(
    fields: FieldSpans, first: Longs, columns: Longs, texts: FieldTexts, measured: MeasuredFields
) -> int:
    """Measure the values of some columns of delimited text: write the Arrow offsets that they have once quotes and escapes are removed.

    ``first`` is the number of each row's first field, so column c of a row is the field first[row]
    + c. Rows are processed in blocks, each for all columns, so that the offsets of a block's fields
    stay in cache. Returns the number of nulls, or -1 for a field that does not exist.
    """
    # Example: 3 rows and 2 columns. ``offsets`` has 4 items per column, so the second column's begin at 4;
    # ``begins`` has 3 per column, so the second column's begin at 3.
    offsets, begins, nulls, seen = measured
    count = 0
    rows, nullable = len(first), len(nulls) > 0
    for number in range(len(columns)):
        offsets[number * (rows + 1)] = 0
    for block in range(0, rows, BLOCK):
        records = first[block : block + BLOCK]
        for number in range(len(columns)):
            slot, value = number * (rows + 1) + block, number * rows + block
            null_count, every = measure_part(
                fields,
                records,
                columns[number],
                texts,
                offsets[slot : slot + len(records) + 1],
                begins[value : value + len(records)],
                nulls[value : value + len(records)] if nullable else nulls,
            )
            if null_count < 0:
                return -1
            count += null_count
            seen[number] |= every
    return count


@inner
def measure_part(
    fields: FieldSpans,
    first: Longs,
    column: int,
    texts: FieldTexts,
    offsets: Offsets,
    begins: Offsets,
    nulls: Mask,
) -> tuple[int, np.uint8]:
    """Measure the values of one column of delimited text in some records: write their offsets, begins and nulls.

    Returns the number of nulls and the combined flags, or -1 for a field that does not exist. The
    arrays are slices with one item per record (``offsets`` has one more, and its first item is
    set).
    """
    # Example: the fields AB and "C""D" have the begins 0 and ~4 (after the quote, with an escape), the
    # sizes 2 and 3, and the offsets 0, 2, 5.
    data, starts, ends, flags = fields
    quote, escaped, null = texts
    count = 0
    around, nullable = len(quote), len(nulls) > 0
    total, every = np.int64(offsets[0]), np.uint8(0)
    for row in range(len(first)):
        field = first[row] + column
        if field < 0 or field >= len(starts):
            return -1, every
        begin, flag = np.int64(starts[field]), flags[field]
        size = ends[field] - begin
        every |= flag
        if flag:
            begin += around
            size -= 2 * around
            if flag & ESCAPES:
                size = np.int64(unescaped_size(data, begin, begin + size, quote, escaped))
                begin = ~begin
        elif nullable and size == len(null):
            same = True
            for at in range(size):
                same = same and data[begin + at] == null[at]
            if same:
                nulls[row] = True
                count += 1
                size = np.int64(0)
        begins[row] = begin
        total += size
        offsets[row + 1] = total
    return count, every


@kernel(writes=("out",))
def copy_fields(
    data: Octets,
    ends: Offsets,
    first: Longs,
    columns: Longs,
    quote: Octets,
    escaped: Octets,
    offsets: Offsets,
    begins: Offsets,
    bases: Longs,
    out: Octets,
) -> None:
    """Copy the values of delimited text that ``measure_fields`` has measured to Arrow columns.

    The values of the i-th of ``columns`` begin at out[bases[i]]. Each column has ``SPARE`` more
    bytes after its values.
    """
    # ``offsets`` has rows + 1 items per column, and ``begins`` has rows, as in ``measure_fields``.
    # Example: the records ab,x and cde,y have offsets = 0 2 5, 0 1 2 and begins = 0 5, 3 9. With the
    # bases 0 and 5 + SPARE, "abcde" is written to out[0:5] and "xy" to out[5 + SPARE:7 + SPARE].
    rows = len(first)
    for block in range(0, rows, BLOCK):
        records = first[block : block + BLOCK]
        for number in range(len(columns)):
            slot, value = number * (rows + 1) + block, number * rows + block
            copy_part(
                data,
                ends,
                records,
                columns[number],
                quote,
                escaped,
                offsets[slot : slot + len(records) + 1],
                begins[value : value + len(records)],
                out[bases[number] :],
            )


@inner
def copy_part(
    data: Octets,
    ends: Offsets,
    first: Longs,
    column: int,
    quote: Octets,
    escaped: Octets,
    offsets: Offsets,
    begins: Offsets,
    out: Octets,
) -> None:
    """Copy the measured values of one column of delimited text in some records. The arrays are like those of ``measure_part``."""
    # Copies write 32 bytes at a time and so overwrite later values, which are copied afterwards. The rows
    # that cannot be copied this way are counted in ``left``, and ``copy_rest`` writes them last. A copy
    # ends less than 32 bytes after its value, and SPARE = 32: what the last value overwrites is spare, and
    # a value that begins at or before ``limit`` minus its size is read within the data.
    at, limit, left = np.int64(offsets[0]), len(data) - SPARE, 0
    for row in range(len(begins)):
        end, begin = np.int64(offsets[row + 1]), np.int64(begins[row])
        if 0 <= begin <= limit - (end - at):
            move32(out, at, data, begin)
            for done in range(32, end - at, 32):
                move32(out, at + done, data, begin + done)
        else:
            left += 1
        at = end
    if left:
        copy_rest(data, ends, first, column, quote, escaped, offsets, begins, out)


@inner
def copy_rest(
    data: Octets,
    ends: Offsets,
    first: Longs,
    column: int,
    quote: Octets,
    escaped: Octets,
    offsets: Offsets,
    begins: Offsets,
    out: Octets,
) -> None:
    """Copy, byte by byte, the values that have escapes or are too near the end of the data for words."""
    for row in range(len(first)):
        at, end, begin = np.int64(offsets[row]), np.int64(offsets[row + 1]), np.int64(begins[row])
        # A negative begin marks a value with escapes, and is the complement of its offset: ~begin.
        if begin < 0:
            stop = ends[first[row] + column] - len(quote)
            unescape(data, ~begin, stop, quote, escaped, out, at)
        # Copied in words before, unless a word could have been read beyond the end of the data.
        elif begin > len(data) - SPARE - (end - at):
            for byte in range(end - at):
                out[at + byte] = data[begin + byte]


@inner
def unescaped_size(data: Octets, start: int, end: int, quote: Octets, escaped: Octets) -> int:
    """Return the length of a field's value after unescaping its quotes."""
    size, begins = end - start, escaped[0]
    while start < end:
        if data[start] == begins and has_token(data, start, end, escaped, 0, len(escaped)):
            size += len(quote) - len(escaped)
            start += len(escaped)
        else:
            start += 1
    return size


@inner
def unescape(
    data: Octets, start: int, end: int, quote: Octets, escaped: Octets, out: Octets, at: int
) -> None:
    """Write the value of a field of delimited text with its quotes unescaped."""
    begins = escaped[0]
    while start < end:
        if data[start] == begins and has_token(data, start, end, escaped, 0, len(escaped)):
            for byte in range(len(quote)):
                out[at + byte] = quote[byte]
            at += len(quote)
            start += len(escaped)
        else:
            out[at] = data[start]
            at += 1
            start += 1


class TextSlots(NamedTuple):
    """The hash tables of ``code_fields``: for each column ``SLOTS`` slots, one column after the other.

    ``slots`` has the code of the text in each slot, or -1. ``words`` and ``sizes`` are a hash of the
    text's first and last bytes, and its length, which suffice to tell most texts apart.
    """

    slots: Longs
    words: Words
    sizes: Longs
    begins: Longs


@kernel(writes=("codes", "known", "counts", "table"))
def code_fields(
    fields: FieldSpans,
    first: Longs,
    columns: Longs,
    codes: Longs,
    known: Longs,
    counts: Longs,
    table: TextSlots,
) -> int:
    """Write codes for the texts of some columns of delimited text: the texts of a column are numbered in order of appearance.

    A column's field in a record is first[row] + column. The arrays contain one column after the other:
    in ``codes`` one item for each record, in ``known`` ``MOST_KNOWN`` items, of which number ``code``
    becomes the first row with this text. ``counts`` becomes the number of distinct texts of each
    column, or ``FULL`` if there are more than ``MOST_KNOWN``: its codes are then not valid. All slots
    of ``table`` are -1 at first, and three quarters of a column's stay empty. Returns ``OUTSIDE`` for
    a field that does not exist or arrays that are too short, otherwise 0.
    """
    # Example: the fields I, U, I, D get the codes 0, 1, 0, 2 and known = 0, 1, 3. The third one finds its
    # code in the slot of its hash, or in one of the slots after it if other texts have the same hash.
    # All columns of a record are coded before the next record, since they are in the same cache lines.
    data, starts, ends, _ = fields
    slots, words, sizes, begins = table
    rows, wide = len(first), len(columns)
    if min(len(slots), len(words), len(sizes), len(begins)) < wide * SLOTS:
        return OUTSIDE
    if len(counts) < wide or len(known) < wide * MOST_KNOWN or len(codes) < wide * rows:
        return OUTSIDE
    for number in range(wide):
        counts[number] = 0
    for row in range(rows):
        for number in range(wide):
            if counts[number] == FULL:
                continue
            field = first[row] + columns[number]
            if field < 0 or field >= len(ends) or field >= len(starts):
                return OUTSIDE
            begin = np.int64(starts[field])
            size = ends[field] - begin
            word = padded_word(data, begin, size)
            if size > 8:
                # Longer texts often begin alike, for example times, so their last bytes count too.
                word ^= load8(data, begin + size - 8)
            base = number * SLOTS
            slot = base + hash_slot(word)
            while slots[slot] >= 0 and (
                words[slot] != word
                or sizes[slot] != size
                or (size > 8 and not spans_equal(data, begin, begins[slot], size))
            ):
                slot = base + ((slot + 1) & (SLOTS - 1))
            if slots[slot] < 0:
                code = counts[number]
                if code == MOST_KNOWN:
                    counts[number] = FULL
                    continue
                known[number * MOST_KNOWN + code] = row
                slots[slot], words[slot], sizes[slot], begins[slot] = code, word, size, begin
                counts[number] = code + 1
            codes[number * rows + row] = slots[slot]
    return 0


@inner
def hash_slot(word: np.uint64) -> int:
    """Return the slot of the hash table of field texts at which the search for a text begins: a hash of ``word``, below ``SLOTS``."""
    # The upper bits of the product depend on all bytes (Fibonacci hashing).
    return np.int64((word * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(56))


@kernel(writes=("places",))
def find(data: Octets, size: int, token: Octets, places: Longs) -> int:
    """Write the offsets of a token in the first ``size`` bytes, from left to right without overlaps.

    Returns their number, ``FULL`` if there is no room for them, or ``OUTSIDE`` if the data have
    fewer bytes than ``size`` or than a ``WINDOW``.
    """
    # Example: in a||b|||c the token || is at 1 and 4. The marks of its first byte are 1, 2, 4, 5 and 6: those
    # at 2 and 5 are within a match (before ``free``), and at 6 the second byte is a "c".
    if len(data) < max(size, WINDOW):
        return OUTSIDE
    count = 0
    offset = 0
    begins = token[:1]
    while offset + len(token) <= size:
        # ``free`` is the end of the last match; marks before it would overlap with it.
        left = marks_of_any(data, offset, begins)
        base, free = offset, offset
        while left != 0:
            offset = base + first_mark(left)
            left &= left - np.uint64(1)
            if offset < free or offset + len(token) > size:
                continue
            same = True
            for at in range(1, len(token)):
                same = same and data[offset + at] == token[at]
            if same:
                if count == len(places):
                    return FULL
                places[count] = offset
                count += 1
                free = offset + len(token)
        offset = max(base + WINDOW, free)
    return count
