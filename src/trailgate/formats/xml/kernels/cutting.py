"""Find the offsets at which an XML message too large for memory can be cut: after transactions.

The kernel tokenizes like the main scan and uses the same tables, but stores no values.
"""

from __future__ import annotations

import numpy as np

from trailgate.arrays import Longs, Octets
from trailgate.columnar.compiling import inner, kernel
from trailgate.formats.xml.kernels.characters import after_blanks
from trailgate.formats.xml.kernels.names import element_letter, unbind_prefixes
from trailgate.formats.xml.kernels.predicates import choose_state
from trailgate.formats.xml.kernels.scan import child_number, open_frame
from trailgate.formats.xml.kernels.tables import (
    CUT,
    CUT_AT,
    CUT_BEGUN,
    CUT_DEPTH,
    CUT_INSIDE,
    CUT_SCOPED,
    CUT_WRITTEN,
    DECODED,
    DONE,
    FRAME,
    FULL,
    INNER,
    NAME_SIZE,
    NEEDS_MORE,
    OPENED,
    PHASES,
    REFUSED,
    STATE,
    TAG_START,
    NameArrays,
    RuleArrays,
    WorkArrays,
)
from trailgate.formats.xml.kernels.tags import after_end_tag, instruction_end, start_tag
from trailgate.formats.xml.kernels.text import after_marked, text_end


@kernel(writes=("text", "names", "work", "now", "cuts"))
def find_cuts(
    text: Octets,
    end: int,
    last: bool,
    names: NameArrays,
    rules: RuleArrays,
    work: WorkArrays,
    now: Longs,
    cuts: Longs,
) -> int:
    """Find the ends of XML elements that match a rule and are not inside another match.

    Return `DONE` at the end of the document.

    Each cut is written to `cuts` with the bounds of the start tags of the elements around it, so
    that the parts can be made complete documents. `now` is the state between calls: the offset of
    the next token, and the numbers of elements and prefixes that are open there.

    Other results: `NEEDS_MORE` if a token is incomplete and more text follows (`last` is not set).
    `REFUSED` if a token is not accepted; it may also be incomplete. `FULL` if `cuts` or `scopes` is
    full and must be emptied or enlarged. `MANY_NAMES` if the table of names is full. The text is
    `text[:end]`; as many bytes must follow it, for working space.

    Example with a rule for `/all/tx`: in `<all><tx>1</tx><tx>2</tx></all>` the first cut is at 15,
    at depth 1, inside `<all>`; the second is at 25.
    """
    info = names.info
    step, bounds = rules.step, rules.bounds
    frames, pieces, scopes = work.frames, work.pieces, work.scopes
    side = names.used[DECODED]
    at, depth, scoped = now[CUT_AT], now[CUT_DEPTH], now[CUT_SCOPED]
    while True:
        now[CUT_AT], now[CUT_DEPTH], now[CUT_SCOPED] = at, depth, scoped
        start = at
        at, _ = text_end(text, at, end)
        if at < 0 or (depth == 0 and after_blanks(text, start, at) < at):
            return REFUSED
        if at + 1 >= end:
            if not last:
                return NEEDS_MORE
            return DONE if depth == 0 and now[CUT_BEGUN] and at >= end else REFUSED
        tag, byte, closed = at, text[at + 1], 0
        # `</`
        if byte == 0x2F:
            at = after_end_tag(text, at, end, depth, frames, names)
            closed = 1
        # `<!`: a comment or a CDATA section.
        elif byte == 0x21:
            at, _ = after_marked(text, at, end, depth, frames, pieces, 0)
        # `<?`
        elif byte == 0x3F:
            at = instruction_end(text, at, end, names)
        else:
            # A second root element.
            if depth == 0 and now[CUT_BEGUN]:
                return REFUSED
            at, name, count, closed, scoped = start_tag(
                text, at, end, depth, names, work, scoped, side
            )
            if at >= 0:
                now[CUT_BEGUN] = 1
                child_number(frames, depth)
                above = np.int64(frames[depth * FRAME + STATE])
                state = np.int64(step[step[above] + element_letter(name, info, rules.letters)])
                if state < 0:
                    state = choose_state(
                        text, -1 - state, depth, count, rules, names, work, side, -1, end, 0
                    )
                depth += 1
                open_frame(depth, name, state, at, rules, work)
                frames[depth * FRAME + TAG_START] = tag
                # The first phase of a state's actions opens records: this element begins a match.
                # Matches inside it do not count.
                if now[CUT_INSIDE] == 0 and bounds[state * PHASES + 1] > bounds[state * PHASES]:
                    now[CUT_INSIDE] = depth
        if at < 0:
            return at
        if closed:
            scoped = unbind_prefixes(scopes, scoped, depth, info)
            depth -= 1
            # The outermost match has ended: this is a cut.
            if now[CUT_INSIDE] == depth + 1:
                now[CUT_INSIDE] = 0
                write_cut(at, depth, frames, now, cuts)
            # Stop while there is still room for one more cut at the greatest depth.
            if now[CUT_WRITTEN] + CUT + len(frames) // FRAME * OPENED > len(cuts):
                now[CUT_AT], now[CUT_DEPTH], now[CUT_SCOPED] = at, depth, scoped
                return FULL


@inner
def write_cut(at: int, depth: int, frames: Longs, now: Longs, cuts: Longs) -> None:
    """Write an offset to cut an XML message at, and the start tags of the elements open there."""
    place = now[CUT_WRITTEN]
    cuts[place], cuts[place + 1] = at, depth
    place += CUT
    # Level 0 is the document, which has no tag.
    for level in range(1, depth + 1):
        frame = level * FRAME
        cuts[place] = frames[frame + TAG_START]
        cuts[place + 1] = frames[frame + INNER]
        cuts[place + 2] = frames[frame + NAME_SIZE]
        place += OPENED
    now[CUT_WRITTEN] = place
