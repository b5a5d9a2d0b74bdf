"""Rename the items of layouts: underscores for hyphens, names from a map, and names for FILLER.

The layouts themselves are changed, including references such as counters and REDEFINES. Reading,
writing, record types and columns then all use the same name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import count

from trailgate.cobol.copybook.flat_columns import column_names
from trailgate.cobol.copybook.layouts import CopybookField, CopybookLayout, Usage
from trailgate.errors import OptionError, did_you_mean


class NameStyle(Enum):
    """The style of column names, such as underscores for hyphens."""

    COBOL = "cobol"  # as in the copybook
    SQL = "sql"  # with underscores for hyphens


class FillerPolicy(Enum):
    """Whether FILLER items become columns, and under which names."""

    DROP = "drop"
    KEEP = "keep"  # columns with the types of their pictures
    BYTES = "bytes"  # columns with their raw bytes


@dataclass(frozen=True, slots=True)
class ItemNames:
    """The options for renaming the items of a copybook.

    ``renamed`` maps names of items, or of elements of an OCCURS, to new names. ``element_names``
    maps the name of an item with OCCURS to names for all its elements.
    """

    style: NameStyle = NameStyle.COBOL
    filler: FillerPolicy = FillerPolicy.DROP
    renamed: Mapping[str, str] = field(default_factory=dict)
    element_names: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def name(self, name: str) -> str:
        """Return the new name of a copybook item."""
        new_names = {old.upper(): new for old, new in self.renamed.items()}
        return new_names.get(name.upper()) or self._apply_style(name)

    def _apply_style(self, name: str) -> str:
        return name.replace("-", "_") if self.style is NameStyle.SQL else name

    def layouts(self, layouts: Sequence[CopybookLayout]) -> tuple[CopybookLayout, ...]:
        """Return copybook layouts with renamed items.

        Raises OptionError if two names become equal, or if ``element_names`` does not fit an item.
        """
        if self == ItemNames():
            return tuple(layouts)
        self._check_elements(layouts)
        # FILLER items get their numbers first, so that ``renamed`` can contain FILLER_1.
        named = [CopybookLayout(_named_fillers(one.root, self.filler)) for one in layouts]
        renamed_layouts = tuple(CopybookLayout(self._of_field(one.root)) for one in named)
        for before, after in zip(named, renamed_layouts, strict=True):
            _check_distinct(before, after)
        return renamed_layouts

    def renamed_columns(self, layouts: Sequence[CopybookLayout]) -> dict[str, str]:
        """Return the new names of flat columns that are named in ``renamed`` but are not items.

        An example is ``AMOUNT_1``, one element of the OCCURS item AMOUNT. The keys are the columns'
        names. ``layouts`` are the layouts before any renaming. Raises OptionError if a name in
        ``renamed`` is neither an item nor a column.
        """
        if not self.renamed:
            return {}
        items = {
            item.name.upper()
            for one in layouts
            for item in _named_fillers(one.root, self.filler).walk()
        }
        rest = {
            self._apply_style(old): new
            for old, new in self.renamed.items()
            if old.upper() not in items
        }
        columns = {name.upper() for one in self.layouts(layouts) for name in column_names(one)}
        for old in rest:
            if old.upper() not in columns:
                hint = did_you_mean(old, items | columns)
                raise OptionError(f"rename: no item or column {old} in the copybook", hint=hint)
        return rest

    def _check_elements(self, layouts: Sequence[CopybookLayout]) -> None:
        items = [item for layout in layouts for item in layout.root.walk()]
        for name, names in self.element_names.items():
            named = [item for item in items if item.name.upper() == name.upper()]
            if not named:
                hint = did_you_mean(name, {item.name for item in items})
                raise OptionError(f"elementNames: no item {name} in the copybook", hint=hint)
            if any(item.repeats != len(names) or item.occurs is None for item in named):
                occurs = " or ".join(sorted({str(item.repeats) for item in named}))
                problem = f"elementNames: {len(names)} names for {name}, which has {occurs}"
                raise OptionError(problem, hint="Name all elements of an OCCURS")
            if not all(names) or len({one.upper() for one in names}) < len(names):
                raise OptionError(
                    f"elementNames: two elements of {name} have the same name, or a name is empty"
                )

    def _of_field(self, item: CopybookField) -> CopybookField:
        occurs = item.occurs
        elements = {name.upper(): tuple(names) for name, names in self.element_names.items()}
        if occurs is not None and item.name.upper() in elements:
            occurs = replace(occurs, names=elements[item.name.upper()])
        if occurs is not None and occurs.counter:
            groups = None if occurs.groups is None else tuple(map(self.name, occurs.groups))
            occurs = replace(occurs, counter=self.name(occurs.counter), groups=groups)
        return replace(
            item,
            name=self.name(item.name),
            redefines=None if item.redefines is None else self.name(item.redefines),
            occurs=occurs,
            children=tuple(map(self._of_field, item.children)),
        )


def _named_fillers(root: CopybookField, filler: FillerPolicy) -> CopybookField:
    """Return the record with its elementary FILLER items named FILLER_1, FILLER_2 and so on.

    With the policy BYTES they become raw bytes. With DROP the record is returned unchanged.
    """
    numbers = count(1)

    def named(item: CopybookField) -> CopybookField:
        if item.children:
            return replace(item, children=tuple(map(named, item.children)))
        if not item.filler:
            return item
        item = replace(item, name=f"FILLER_{next(numbers)}", filler=False)
        return item if filler is FillerPolicy.KEEP else replace(item, usage=Usage.RAW, number=None)

    return root if filler is FillerPolicy.DROP else named(root)


def _check_distinct(before: CopybookLayout, after: CopybookLayout) -> None:
    """Raise OptionError if renaming gives two items of a record the same name."""
    names: dict[str, str] = {}
    for old, new in zip(before.root.walk(), after.root.walk(), strict=True):
        other = names.setdefault(new.name.upper(), old.name.upper())
        # Items with the same name in the copybook may share the new one too. Only two different
        # names must not become equal.
        if other != old.name.upper() and not new.filler:
            problem = f"{other} and {old.name} of {before.name} both become {new.name}"
            raise OptionError(problem, hint="Give one of them another name with the option rename")
