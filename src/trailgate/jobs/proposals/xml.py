"""Rules proposed from XML messages: which elements are operations, transactions and columns, by their names, values and repetition.

Elements of one path are looked at together. Operations are those that have an operation's type in an attribute, in an element below, or as their name; without any, those
that are repeated. Their columns are elements with a name of their own, elements below a ``before`` or ``after``, or else each attribute and element that has a text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from trailgate.formats.xml.documents import Element, parse_document
from trailgate.jobs.proposals.drafts import (
    FILL_IN,
    IDENTIFIER,
    SCHEMA,
    TABLE,
    WORDS,
    Draft,
    TableDraft,
    counted,
    date_format,
    operation_style,
)

Steps = tuple[str, ...]
Group = list[Element]

_NAMES: Final = re.compile(
    r"(?:col(?:umn)?|field)?[_-]?(?:name|key|id)?|column|col|field", re.IGNORECASE
)
_OPERATIONS: Final = re.compile(r"op|type|action|event|kind|dml|verb|mode", re.IGNORECASE)
_ANY: Final = re.compile("")
_TABLES: Final = re.compile(r"table|entity|object", re.IGNORECASE)
_SCHEMAS: Final = re.compile(r"schema|owner|library", re.IGNORECASE)
_TIMES: Final = re.compile(r"ts|time|stamp|commit", re.IGNORECASE)
_IDS: Final = re.compile(r"(?:tx|xid|trans\w*)?[_-]?(?:id|no|number)|xid|tx", re.IGNORECASE)
_BEFORE: Final = re.compile(r"before|old|prev", re.IGNORECASE)
_AFTER: Final = re.compile(r"after|new|curr", re.IGNORECASE)
_VALUES: Final = re.compile(r"val|data|content", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Source:
    """Where elements of a path have a value: a path from them, the name that it ends in, and the values of all of them."""

    path: str
    name: str
    values: tuple[str, ...]


@dataclass(slots=True)
class Rule:
    """A rule of the properties."""

    name: str
    type: str
    match: str = ""
    values: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    below: list[Rule] = field(default_factory=list)


def propose_xml(bodies: Sequence[bytes]) -> str:
    """Return properties with rules for messages such as these; raises DecodeError for one that is not well-formed."""
    return _Messages([next(iter(parse_document(body).top.children)) for body in bodies]).text()


def has_text_only(element: Element) -> bool:
    """Return whether an element has no elements below it."""
    return not element.children


def sources_of(group: Sequence[Element], prefix: str = "") -> list[Source]:
    """Return the values that all elements of a group have once: of attributes, and of elements with text alone."""
    found: dict[tuple[str, str], list[str]] = {}
    for element in group:
        for attribute in element.attributes:
            found.setdefault((f"@{attribute.name}", attribute.name), []).append(attribute.value)
        names = [child.name for child in element.children]
        for child in element.children:
            text = child.text()
            if has_text_only(child) and names.count(child.name) == 1 and text is not None:
                found.setdefault((f"./{child.name}/text()", child.name), []).append(text)
    return [
        Source(f"{prefix}{path.removeprefix('./') if prefix else path}", name, tuple(values))
        for (path, name), values in found.items()
        if len(values) == len(group)
    ]


class _Messages:
    """What is seen in documents, by their roots."""

    def __init__(self, roots: Sequence[Element]) -> None:
        self.roots = roots
        self.groups: dict[Steps, Group] = {}
        for root in roots:
            self._group(root, ())
        self.tables: dict[str, TableDraft] = {}
        self.rules: dict[str, Rule] = {}
        self.used: set[str] = set()

    def _group(self, root: Element, above: Steps) -> None:
        """Put each element to those of its path."""
        left = [(root, above)]
        while left:
            element, steps = left.pop()
            own = (*steps, element.name)
            self.groups.setdefault(own, []).append(element)
            left += [(child, own) for child in reversed(element.children)]

    def text(self) -> str:
        """Return the properties."""
        tops = self._tops()
        draft = Draft()
        count = counted(len(self.roots), "XML message")
        draft.note(f"Proposed from {count}. Check each line; trailgate explain shows what")
        draft.note("the rules find.")
        draft.put("parser.type", "xml")
        draft.put("xml.rules", ",".join(rule.name for rule in tops))
        written: set[str] = set()
        for rule in tops:
            self._write(rule, draft, written)
        draft.tables("xml", self.tables.values())
        return draft.text()

    def _write(self, rule: Rule, draft: Draft, written: set[str]) -> None:
        if rule.name in written:
            return
        written.add(rule.name)
        draft.blank()
        for note in rule.notes:
            draft.note(note)
        draft.put(f"{rule.name}.type", rule.type)
        if rule.match:
            draft.put(f"{rule.name}.match", rule.match)
        for name, value in rule.values.items():
            draft.put(f"{rule.name}.{name}", value)
        if rule.below:
            draft.put(f"{rule.name}.subrules", ",".join(below.name for below in rule.below))
        for below in rule.below:
            self._write(below, draft, written)

    def _tops(self) -> list[Rule]:
        """Return the rules at the top: a transaction's, or the operations' where they are the whole message."""
        found = self._typed(_OPERATIONS) or self._named() or self._typed(_ANY) or self._plain()
        steps = min((steps for steps, _ in found), key=len)
        around, rule = self._transaction(steps[:-1])
        operations = [self._operation(at, steps, found) for at, (steps, _) in enumerate(found)]
        for operation, (steps, _) in zip(operations, found, strict=True):
            if rule is None:
                operation.match = "/" + "/".join(steps)
            else:
                operation.match = "./" + "/".join(steps[len(around) :])
        if rule is None:
            return operations
        rule.below = operations
        return [rule]

    def _typed(self, names: re.Pattern[str]) -> list[tuple[Steps, Source | str]]:
        """Return the elements that have an operation's type, in a place of such a name; the most, and of as many the outermost."""
        found = [
            (steps, source)
            for steps, group in self.groups.items()
            for source in sources_of(group)
            if names.search(source.name) and operation_style(source.values) is not None
        ]
        best = min(found, key=lambda one: (-len(one[1].values), len(one[0])), default=None)
        return [] if best is None else [best]

    def _named(self) -> list[tuple[Steps, Source | str]]:
        """Return the elements whose names are operation types, as ``insert`` and ``delete``."""
        found: dict[Steps, list[str]] = {}
        for steps in self.groups:
            if len(steps[-1]) > 1 and operation_style([steps[-1]]) is not None:
                found.setdefault(steps[:-1], []).append(steps[-1])
        above = next((one for one, names in found.items() if operation_style(names)), None)
        if above is None:
            return []
        style = operation_style(found[above]) or ()
        return [((*above, name), "IUDT"[style.index(name)]) for name in found[above]]

    def _plain(self) -> list[tuple[Steps, Source | str]]:
        """Return the outermost elements that are repeated, and are not only texts; the whole message where there are none."""
        repeated = [
            steps
            for steps, group in self.groups.items()
            if len(group) > 1 and any(one.children or one.attributes for one in group)
        ]
        return [(min(repeated, key=len, default=(self.roots[0].name,)), "")]

    def _transaction(self, above: Steps) -> tuple[Steps, Rule | None]:
        """Return the path of the transactions around operations, and their rule; None where operations are the whole message."""
        if not above:
            return (), None
        for end in range(len(above), 0, -1):
            steps = above[:end]
            sources = sources_of(self.groups[steps])
            time = self._time(sources, sure=True)
            txid = next((one for one in sources if _IDS.fullmatch(one.name)), None)
            if time or txid:
                break
        else:
            steps, sources, time, txid = above, [], None, None
        rule = Rule("txrule", "tx", "/" + "/".join(steps))
        rule.notes.append("Transactions: each such element is one.")
        self._put_time(rule, time)
        if txid is not None:
            rule.values["txid"] = txid.path
        return steps, rule

    def _time(self, sources: Iterable[Source], *, sure: bool) -> tuple[Source, str] | None:
        """Return where a time is, and its format; those with the name of one first, and with ``sure`` others too."""
        found = [(source, form) for source in sources if (form := date_format(source.values))]
        named = [one for one in found if _TIMES.search(one[0].name)]
        return next(iter(named or (found if sure else [])), None)

    def _put_time(self, rule: Rule, time: tuple[Source, str] | None) -> None:
        if time is not None:
            source, form = time
            rule.values |= {"timestamp": source.path, "timestamp.format": form}
            self.used.add(source.path)

    def _operation(
        self, number: int, steps: Steps, found: Sequence[tuple[Steps, Source | str]]
    ) -> Rule:
        """Return the rule of operations."""
        kind = found[number][1]
        rule = self._rule("oprule", "op", steps[-1] if len(found) > 1 else "")
        group = self.groups[steps]
        own = sources_of(group)
        self.used = {kind.path} if isinstance(kind, Source) else set()
        if number == 0:
            rule.notes.append("Operations.")
        self._put_type(rule, kind)
        if kind:
            self._put_time(rule, self._time(own, sure=False))
        names = self._put_table(rule, group, own, steps)
        self._put_columns(rule, group, names, nested=not kind)
        return rule

    def _put_type(self, rule: Rule, kind: Source | str) -> None:
        if isinstance(kind, Source):
            rule.values["optype"] = kind.path
            style = operation_style(kind.values) or ()
            for word, value in zip(WORDS, style, strict=True):
                rule.values[f"optype.{word}val"] = value
            return
        if not kind:
            rule.notes.append(f"{FILL_IN}no operation types were seen: all are taken for inserts.")
        rule.values["optype"] = f'"{kind or "I"}"'

    def _put_table(self, rule: Rule, group: Group, own: list[Source], steps: Steps) -> list[str]:
        """Add the sources of the table to a rule, and return each element's table."""
        sources = list(own)
        above, prefix = group, ""
        for _ in steps[:-1]:
            above = [one.parent for one in above if one.parent is not None]
            prefix += "../"
            sources += sources_of(above, prefix)
        whole = [one for one in sources if all(map(TABLE.fullmatch, one.values))]
        named = [one for one in whole if _TABLES.search(one.name)] or whole
        if named:
            rule.values["schemaandtable"] = named[0].path
            self.used.add(named[0].path)
            return list(named[0].values)
        simple = [one for one in sources if all(map(IDENTIFIER.fullmatch, one.values))]
        table = next((one for one in simple if _TABLES.search(one.name)), None)
        if table is None:
            name = f"{SCHEMA}.{_plain_name(steps[-1])}"
            rule.notes.append(f"{FILL_IN}no table's name was seen; {name} is of the element.")
            rule.values["schemaandtable"] = f'"{name}"'
            return [name] * len(group)
        schema = next((one for one in simple if _SCHEMAS.search(one.name)), None)
        if schema is None and not self.rules.keys() - {rule.name}:
            rule.notes.append(f"{FILL_IN}the schema, which the message does not have.")
        rule.values["schema"] = f'"{SCHEMA}"' if schema is None else schema.path
        rule.values["table"] = table.path
        self.used |= {table.path} if schema is None else {table.path, schema.path}
        schemas = [SCHEMA] * len(group) if schema is None else schema.values
        return [f"{one}.{two}" for one, two in zip(schemas, table.values, strict=True)]

    def _rule(self, name: str, kind: str, more: str = "") -> Rule:
        """Return a new rule with a name that no other one has."""
        base = re.sub(r"[^\w-]", "_", f"{name}_{more}" if more else name)
        known, number = base, 2
        while known in self.rules or known == "txrule":
            known, number = f"{base}{number}", number + 1
        return self.rules.setdefault(known, Rule(known, kind))

    def _put_rule(self, rule: Rule, name: str, match: str, values: dict[str, str]) -> None:
        """Add a rule of columns; one that is the same as that of other operations is shared."""
        for known in self.rules.values():
            if (known.type, known.match, known.values) == ("col", match, values):
                found = known
                break
        else:
            found = self._rule(name, "col")
            found.match, found.values = match, values
        if found not in rule.below:
            rule.below.append(found)

    def _table(self, name: str) -> TableDraft:
        return self.tables.setdefault(name.upper(), TableDraft(name))

    def _put_columns(self, rule: Rule, group: Group, names: list[str], *, nested: bool) -> None:
        """Add the rules of the columns of operations, and of the operations that are nested in them."""
        tables = [self._table(name) for name in names]
        direct = dict(zip(map(id, group), tables, strict=True))
        self._put_attributes(rule, group, direct, "")
        for name in dict.fromkeys(child.name for one in group for child in one.children):
            below = [child for one in group for child in one.children if child.name == name]
            owner = {id(child): direct[id(child.parent)] for child in below}
            several = len({id(child.parent) for child in below}) < len(below)
            path = f"./{name}"
            if self._put_cells(rule, below, owner, path, ""):
                continue
            if all(map(has_text_only, below)) and not several:
                if f"{path}/text()" not in self.used and not any(one.attributes for one in below):
                    self._put_one(rule, name, path, "value", "text()")
                    for one in below:
                        owner[id(one)].add(name, one.text())
                continue
            if several and nested:
                rule.below.append(self._nested(below, path))
            elif not several:
                self._put_container(rule, below, owner, path)
        for table in dict.fromkeys(map(id, tables)):
            known = next(one for one in tables if id(one) == table)
            if not known.sizes:
                known.add("COL1", "")

    def _put_attributes(
        self, rule: Rule, group: Group, owner: dict[int, TableDraft], path: str, image: str = ""
    ) -> None:
        """Add a rule for each attribute that is not metadata."""
        for name in dict.fromkeys(one.name for element in group for one in element.attributes):
            value = f"{path}@{name}" if path else f"@{name}"
            if value in self.used:
                continue
            self._put_one(rule, name, "", f"{image}value", value)
            for element in group:
                for one in element.attributes:
                    if one.name == name:
                        owner[id(element)].add(name, one.value)

    def _put_one(self, rule: Rule, column: str, match: str, name: str, value: str) -> None:
        """Add the rule of one column."""
        own = f"{rule.name.removeprefix('oprule_')}_{column}"
        self._put_rule(rule, own, match, {"name": f'"{column}"', name: value})

    def _nested(self, group: Group, path: str) -> Rule:
        """Return the rule of operations within operations, of a table of their own."""
        name = group[0].name
        found = self._rule("oprule", "op", name)
        found.match = path
        table = f"{SCHEMA}.{_plain_name(name)}"
        found.notes = [f"{FILL_IN}repeated within an operation: taken for rows of {table}."]
        found.values = {"schemaandtable": f'"{table}"', "optype": '"I"'}
        kept, self.used = self.used, set()
        if all(map(has_text_only, group)) and not any(one.attributes for one in group):
            self._put_one(found, name, "", "value", "text()")
            for one in group:
                self._table(table).add(name, one.text())
        else:
            self._put_columns(found, group, [table] * len(group), nested=True)
        self.used = kept
        return found

    def _put_container(
        self, rule: Rule, group: Group, owner: dict[int, TableDraft], path: str
    ) -> None:
        """Add the rules of columns within an element of operations, which may be their before or after."""
        image = _image(group[0].name)
        below = [child for one in group for child in one.children]
        of = {id(child): owner[id(child.parent)] for child in below}
        self._put_attributes(rule, group, owner, f"{path}/", image)
        if not below:
            return
        names = {child.name for child in below}
        if len(names) == 1 and self._put_cells(rule, below, of, f"{path}/{below[0].name}", image):
            return
        if not all(map(has_text_only, below)):
            for name in dict.fromkeys(child.name for child in below):
                own = [child for child in below if child.name == name]
                inner = f"{path}/{name}"
                if all(map(has_text_only, own)):
                    self._put_one(rule, name, inner, f"{image}value", "text()")
                    for one in own:
                        of[id(one)].add(name, one.text())
                elif not self._put_cells(rule, own, of, inner, image):
                    self._put_container(rule, own, of, inner)
            return
        values = {"name": "name()", f"{image}value": "text()"}
        self._put_rule(rule, f"colrule_{group[0].name}", f"{path}/*", values)
        for child in below:
            of[id(child)].add(child.name, child.text())

    def _put_cells(
        self, rule: Rule, group: Group, owner: dict[int, TableDraft], path: str, image: str
    ) -> bool:
        """Add the rule of columns that are elements with names; return whether these are."""
        sources = sources_of(group)
        name = next((one for one in sources if _is_name(one, group)), None)
        if name is None:
            return False
        own = group[0].parent.name if image and group[0].parent is not None else ""
        values = {"name": name.path, **_cell_values(group, name, image)}
        self._put_rule(rule, f"colrule_{own}" if own else "colrule", path, values)
        for element, column in zip(group, name.values, strict=True):
            owner[id(element)].add(column, max(_strings(element), key=len, default=""))
        return True


def _strings(element: Element) -> Iterator[str]:
    """Yield the texts of an element, of its attributes, and of what is below it."""
    for one in (element, *element.below()):
        yield one.text() or ""
        yield from (attribute.value for attribute in one.attributes)


def _is_name(source: Source, group: Group) -> bool:
    """Return whether a value names columns: identifiers, each once in its operation, where the source has a name for that."""
    if not _NAMES.fullmatch(source.name) or not all(map(IDENTIFIER.fullmatch, source.values)):
        return False
    pairs = {
        (id(one.parent), value.upper()) for one, value in zip(group, source.values, strict=True)
    }
    return len(pairs) == len(group) and (len(group) > 1 or "name" in source.name.lower())


def _cell_values(group: Group, name: Source, image: str) -> dict[str, str]:
    """Return where elements with names have their values: before and after, or one."""
    places: dict[str, str] = {}
    for element in group:
        for attribute in element.attributes:
            places.setdefault(f"@{attribute.name}", attribute.name)
        for child in element.children:
            places.setdefault(f"./{child.name}/text()", child.name)
    places.pop(name.path, None)
    found: dict[str, str] = {}
    for path, own in places.items():
        side = _image(own)
        if side and not image:
            found.setdefault(f"{side}value", path)
    if found:
        return found
    if any(one.text() for one in group) or not places:
        return {f"{image}value": "text()"}
    value = next((path for path, own in places.items() if _VALUES.search(own)), next(iter(places)))
    return {f"{image}value": value}


def _image(name: str) -> str:
    """Return which image an element's name is of, as the beginning of a property's name; empty for either."""
    if _BEFORE.search(name):
        return "before."
    return "after." if _AFTER.search(name) else ""


def _plain_name(name: str) -> str:
    """Return an element's name as that of a table."""
    return re.sub(r"\W", "_", name).upper()
