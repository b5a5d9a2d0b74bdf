"""Turn options into a ``Framing``, which defines how a file is divided into records.

``_FORMATS`` states for which record formats an option exists; ``check_formats`` rejects options of
other formats. Record lengths may be stated by items or derived from layouts, and a header or trailer
record may be given by its name in the copybook.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from trailgate.cobol.copybook.layouts import CopybookLayout
from trailgate.cobol.copybook.segment_layouts import (
    SegmentLength,
    find_layout_or_segment,
    layout_or_segment_to_write,
)
from trailgate.cobol.records.framing import FrameKind, Framing
from trailgate.cobol.records.kind_rules import RecordKinds
from trailgate.cobol.records.length_rules import (
    RecordLengths,
    layout_lengths,
    lengths_by_value,
    parse_length_expression,
)
from trailgate.cobol.records.record_options import DependingLength
from trailgate.cobol.values.codec import ValueOptions
from trailgate.errors import OptionError
from trailgate.options import Options

LENGTH_WIDTH: Final = 4  # the default width of a length field in bytes
_DESCRIBED: Final = (FrameKind.RDW, FrameKind.BDW)
_BLOCKED: Final = (FrameKind.BDW, FrameKind.SPANNED)
_COUNTED: Final = (*_DESCRIBED, FrameKind.SPANNED, FrameKind.LENGTH_FIELD)
# The record formats that have an option. All formats have the options that are not listed.
_FORMATS: Final[Mapping[str, tuple[FrameKind, ...]]] = MappingProxyType(
    {
        "record_length": (FrameKind.FIXED,),
        "delimiter": (FrameKind.LINE,),
        "little_endian": _COUNTED,
        "adjustment": _COUNTED,
        "twisted": _DESCRIBED,
        "bdw_little_endian": _BLOCKED,
        "bdw_adjustment": _BLOCKED,
        "bdw_twisted": (FrameKind.BDW,),
        "block_length": _BLOCKED,
        "block_records": _BLOCKED,
        "length_offset": (FrameKind.LENGTH_FIELD,),
        "length_width": (FrameKind.LENGTH_FIELD,),
        "length_field": (FrameKind.LENGTH_FIELD,),
        "length_map": (FrameKind.LENGTH_FIELD,),
    }
)

# The options that skip the header or trailer: as records, or as bytes.
_ENDS: Final = {
    "header": ("skip_first", "header_bytes"),
    "trailer": ("skip_last", "trailer_bytes"),
}


def _length(options: Mapping[str, Any], layouts: Sequence[CopybookLayout]) -> int:
    """Return the length of records in bytes, from the option recordLength or the longest layout.

    Raises OptionError if the option is 2 GB or more, or if fixed-length records of several kinds
    have different lengths.
    """
    if options["record_length"] is not None:
        length = int(options["record_length"])
        if length >= 1 << 31:
            raise OptionError("recordLength must be below 2 GB (2^31 bytes)")
        return length
    kinds: RecordKinds | None = options["kinds"]
    names = [options["record"]] if kinds is None else kinds.records
    sizes = {name: find_layout_or_segment(layouts, name).size for name in names}
    if len(set(sizes.values())) > 1 and options["record_format"] is FrameKind.FIXED:
        sizes_shown = ", ".join(f"{name} {size}" for name, size in sizes.items())
        hint = "State recordLength, or a recordFormat in which each record has its own length"
        raise OptionError(f"the kinds of records differ in length: {sizes_shown} bytes", hint=hint)
    return max(sizes.values())


def skip_named_ends(
    options: Mapping[str, Any], layouts: tuple[CopybookLayout, ...]
) -> tuple[Mapping[str, Any], tuple[CopybookLayout, ...]]:
    """Replace the options that name a header and a trailer record by the options that skip their bytes.

    Returns the options, and the layouts of the remaining records.
    """
    changed = dict(options)
    ends = {
        name: find_layout_or_segment(layouts, options[name])
        for name in _ENDS
        if options[name] is not None
    }
    for name, layout in ends.items():
        records, size = _ENDS[name]
        if options[records] or options[size]:
            problem = f"{name} cannot be combined with options that skip records or bytes"
            raise OptionError(problem, hint="Omit one of them")
        # A header of fixed-length records may have a different length, so it is skipped as bytes.
        if options["record_format"] is FrameKind.FIXED and options["record_length"] is None:
            changed[size] = layout.size
        else:
            changed[records] = 1
    # Without a named record and without kinds, a file has a single layout, so the layouts of the
    # header and trailer must not be candidates for it.
    others = tuple(layout for layout in layouts if layout not in ends.values())
    return changed, others if options["record"] is options["kinds"] is None else layouts


def _lengths(
    options: Mapping[str, Any], layouts: Sequence[CopybookLayout], values: ValueOptions
) -> RecordLengths | None:
    """Return the rules for record lengths that items or layouts define.

    Returns None if the record format states lengths otherwise. Raises OptionError.
    """
    kinds: RecordKinds | None = options["kinds"]
    item, lengths = options["length_field"], options["length_map"]
    is_layout = options["record_format"] is FrameKind.LAYOUT
    if not is_layout and item is None:
        if lengths is not None:
            raise OptionError("lengthMap needs lengthField, the item whose values it maps")
        return None
    names = [options["record"]] if kinds is None else kinds.records
    # A segment ends after its own last item, if nothing follows it in its record.
    is_own = options["segment_length"] is SegmentLength.OWN
    named = layout_or_segment_to_write if is_layout and is_own else find_layout_or_segment
    layouts_used = [named(layouts, name) for name in names]
    if is_layout:
        if options["depending"] is DependingLength.MOST:
            problem = "depending=most cannot be combined with recordFormat=layout"
            raise OptionError(problem, hint="Omit one of them")
        if options["count_map"]:
            problem = "countMap cannot be combined with recordFormat=layout"
            raise OptionError(problem, hint="Choose a recordFormat that states lengths")
        return layout_lengths(layouts_used, kinds, values)
    position = options["length_offset"], options["length_width"], options["little_endian"]
    if position != (0, LENGTH_WIDTH, False):
        problem = (
            "lengthField names an item, which determines lengthOffset, lengthWidth and littleEndian"
        )
        raise OptionError(problem, hint="Omit these options")
    if lengths is None:
        return parse_length_expression(item, layouts_used, values.dialect)
    return lengths_by_value(item, lengths, layouts_used, values)


def check_formats(stated: Mapping[str, Any], options: Options) -> None:
    """Raise OptionError if an option was set that does not apply to the record format.

    ``stated`` are the values of the options by name.
    """
    record_format: FrameKind = stated["record_format"]
    for row in options:
        kinds = _FORMATS.get(row.name)
        if kinds is not None and record_format not in kinds and stated[row.name] != row.default:
            problem = f"{row.spelling} is not an option of recordFormat={record_format.value}"
            raise OptionError(
                problem, hint=f"It is one of {', '.join(kind.value for kind in kinds)}"
            )


def framing_of(
    options: Mapping[str, Any], layouts: Sequence[CopybookLayout], values: ValueOptions
) -> Framing:
    """Return the ``Framing`` of record files with records of these layouts, from parsed options.

    Raises OptionError if options conflict.
    """
    framing = Framing(
        kind=options["record_format"],
        length=_length(options, layouts),
        delimiter=options["delimiter"] or b"\n",
        returns=options["delimiter"] is None,
        little=options["little_endian"],
        adjustment=options["adjustment"],
        field_offset=options["length_offset"],
        field_width=options["length_width"],
        skip_first=options["skip_first"],
        skip_last=options["skip_last"],
        header_bytes=options["header_bytes"],
        trailer_bytes=options["trailer_bytes"],
        twisted=options["twisted"],
        block_little=options["bdw_little_endian"],
        block_adjustment=options["bdw_adjustment"],
        block_twisted=options["bdw_twisted"],
        least=options["minimum_length"],
        most=options["maximum_length"],
        skips=options["other_lengths"],
        lengths=_lengths(options, layouts, values),
    )
    if framing.skips and not framing.least and framing.most is None:
        problem = "otherLengths=skip needs minimumLength or maximumLength"
        raise OptionError(problem, hint="State the allowed lengths")
    framing.check()
    return framing
