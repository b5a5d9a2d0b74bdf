"""Propose rules for XML messages: which elements are transactions, operations and columns.

Elements with the same path are examined together. Operations are elements with an operation type:
in an attribute, in a child element, or as their name. Without any of these, they are the elements
that repeat. Their columns are elements with a name, elements inside a ``before`` or ``after``, or
otherwise every attribute and every element with text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from trailgate.errors import count_noun
from trailgate.formats.xml.documents import XmlElement, parse_document
from trailgate.jobs.proposals.drafts import (
    FILL_IN,
    IDENTIFIER,
    SCHEMA,
    TABLE,
    WORDS,
    PropertiesDraft,
    TableDraft,
    propose_date_format,
    propose_operation_codes,
)

Steps = tuple[str, ...]
Group = list[XmlElement]

# Names of elements and attributes that are likely to have a column's name, and below, other things.
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
class ProposedSource:
    """A candidate for the source of a value in an XML rule: a path, and its values in the samples.

    There is one value for each element of a group of sample elements. ``path`` is relative to an
    element, such as ``@name`` or ``./name/text()``; ``name`` is its last name.
    """

    path: str
    name: str
    values: tuple[str, ...]


@dataclass(slots=True)
class ProposedRule:
    """A proposed XML rule: its type, the path that it matches, and the paths of its values.

    ``below`` are its subrules, and ``notes`` are comments that are written above it.
    """

    name: str
    type: str
    match: str = ""
    values: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    below: list[ProposedRule] = field(default_factory=list)


def propose_xml(bodies: Sequence[bytes]) -> str:
    """Propose properties with rules for XML messages. Raises DecodeError if one is not well-formed."""
    return _Messages([next(iter(parse_document(body).top.children)) for body in bodies]).text()


def has_text_only(element: XmlElement) -> bool:
    """Return True if an XML element has no child elements."""
    return not element.children


def sources_of(group: Sequence[XmlElement], prefix: str = "") -> list[ProposedSource]:
    """Return the candidates for sources: values that every XML element of a group has exactly once.

    ``prefix``, such as "../", begins their paths. They are attributes, and child elements that have
    only text.
    """
    values_by_path: dict[tuple[str, str], list[str]] = {}
    for element in group:
        for attribute in element.attributes:
            values_by_path.setdefault((f"@{attribute.name}", attribute.name), []).append(
                attribute.value
            )
        names = [child.name for child in element.children]
        for child in element.children:
            text = child.text()
            if has_text_only(child) and names.count(child.name) == 1 and text is not None:
                values_by_path.setdefault((f"./{child.name}/text()", child.name), []).append(text)
    return [
        ProposedSource(
            f"{prefix}{path.removeprefix('./') if prefix else path}", name, tuple(values)
        )
        for (path, name), values in values_by_path.items()
        if len(values) == len(group)
    ]


class _Messages:
    """The structure that is recognized in XML sample messages, and the proposed rules for it.

    ``groups`` are the elements by their path from the root, ``tables`` and ``rules`` the proposal
    so far, and ``used`` the paths in the current operation that are not columns.
    """

    def __init__(self, roots: Sequence[XmlElement]) -> None:
        self.roots = roots
        self.groups: dict[Steps, Group] = {}
        for root in roots:
            self._group(root, ())
        self.tables: dict[str, TableDraft] = {}
        self.rules: dict[str, ProposedRule] = {}
        self.used: set[str] = set()

    def _group(self, root: XmlElement, above: Steps) -> None:
        """Add each element of an XML message to the group of its path."""
        waiting = [(root, above)]
        while waiting:
            element, steps = waiting.pop()
            path = (*steps, element.name)
            self.groups.setdefault(path, []).append(element)
            # Reversed, because the stack returns the last one first: groups then are in document
            # order.
            waiting += [(child, path) for child in reversed(element.children)]

    def text(self) -> str:
        """Return the proposed properties for the XML messages: rules and tables."""
        tops = self._tops()
        draft = PropertiesDraft()
        count = count_noun(len(self.roots), "XML message")
        draft.note(f"Proposed from {count}. Check each line; trailgate explain shows what")
        draft.note("the rules find.")
        draft.put("parser.type", "xml")
        draft.put("xml.rules", ",".join(rule.name for rule in tops))
        written: set[str] = set()
        for rule in tops:
            self._write(rule, draft, written)
        draft.tables("xml", self.tables.values())
        return draft.text()

    def _write(self, rule: ProposedRule, draft: PropertiesDraft, written: set[str]) -> None:
        """Add an XML rule and its subrules to the draft, unless ``written`` has its name."""
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

    def _tops(self) -> list[ProposedRule]:
        """Propose all XML rules, and return the top ones: of transactions, or else of operations.

        The rules of operations are at the top if a message is an operation.
        """
        # From the most to the least certain sign of an operation.
        operations_found = (
            self._find_typed(_OPERATIONS)
            or self._find_named()
            or self._find_typed(_ANY)
            or self._find_repeating()
        )
        steps = min((steps for steps, _ in operations_found), key=len)
        around, rule = self._transaction(steps[:-1])
        operations = [
            self._operation(at, steps, operations_found)
            for at, (steps, _) in enumerate(operations_found)
        ]
        for operation, (steps, _) in zip(operations, operations_found, strict=True):
            if rule is None:
                operation.match = "/" + "/".join(steps)
            else:
                operation.match = "./" + "/".join(steps[len(around) :])
        if rule is None:
            return operations
        rule.below = operations
        return [rule]

    def _find_typed(self, names: re.Pattern[str]) -> list[tuple[Steps, ProposedSource | str]]:
        """Find the XML elements that have an operation type inside.

        Returns their path, and the source of the type. The source is an attribute or child element
        whose name matches ``names``. If elements of several paths have one, the path with the most
        elements is chosen, then the outermost. The list has one item, or none.
        """
        candidates = [
            (steps, source)
            for steps, group in self.groups.items()
            for source in sources_of(group)
            if names.search(source.name) and propose_operation_codes(source.values) is not None
        ]
        best = min(candidates, key=lambda one: (-len(one[1].values), len(one[0])), default=None)
        return [] if best is None else [best]

    def _find_named(self) -> list[tuple[Steps, ProposedSource | str]]:
        """Find the XML elements whose names are operation types, such as ``insert``: their paths.

        Each path has its operation type as a letter (I, U, D or T).
        """
        names_by_parent: dict[Steps, list[str]] = {}
        for steps in self.groups:
            if len(steps[-1]) > 1 and propose_operation_codes([steps[-1]]) is not None:
                names_by_parent.setdefault(steps[:-1], []).append(steps[-1])
        above = next(
            (one for one, names in names_by_parent.items() if propose_operation_codes(names)), None
        )
        if above is None:
            return []
        style = propose_operation_codes(names_by_parent[above]) or ()
        return [((*above, name), "IUDT"[style.index(name)]) for name in names_by_parent[above]]

    def _find_repeating(self) -> list[tuple[Steps, ProposedSource | str]]:
        """Find the XML elements that are taken for operations if nothing has an operation type.

        These are the outermost repeating elements with attributes or children, or the root. Their
        operation type is unknown, so it is "" in the result.
        """
        repeated = [
            steps
            for steps, group in self.groups.items()
            if len(group) > 1 and any(one.children or one.attributes for one in group)
        ]
        return [(min(repeated, key=len, default=(self.roots[0].name,)), "")]

    def _transaction(self, above: Steps) -> tuple[Steps, ProposedRule | None]:
        """Propose the XML rule ``txrule``: find elements around operations that are transactions.

        ``above`` is the path of the elements around operations. Returns the path of transactions
        and the rule, or an empty path and None if operations are at the root.
        """
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
        rule = ProposedRule("txrule", "tx", "/" + "/".join(steps))
        rule.notes.append("Transactions: each such element is one.")
        self._put_time(rule, time)
        if txid is not None:
            rule.values["txid"] = txid.path
        return steps, rule

    def _time(
        self, sources: Iterable[ProposedSource], *, sure: bool
    ) -> tuple[ProposedSource, str] | None:
        """Find the XML source of commit times, and their format. Returns None if there is none.

        Sources with a name such as ``timestamp`` are preferred. With ``sure``, a source with any
        other name is accepted too.
        """
        times = [
            (source, form) for source in sources if (form := propose_date_format(source.values))
        ]
        named = [one for one in times if _TIMES.search(one[0].name)]
        return next(iter(named or (times if sure else [])), None)

    def _put_time(self, rule: ProposedRule, time: tuple[ProposedSource, str] | None) -> None:
        if time is not None:
            source, form = time
            rule.values |= {"timestamp": source.path, "timestamp.format": form}
            self.used.add(source.path)

    def _operation(
        self, number: int, steps: Steps, found: Sequence[tuple[Steps, ProposedSource | str]]
    ) -> ProposedRule:
        """Propose the XML rule of operations, ``oprule``, with its sources, subrules and tables.

        ``found`` are the paths of operations with their types, of which ``steps`` is the path to
        propose for, and ``number`` its index.
        """
        kind = found[number][1]
        rule = self._rule("oprule", "op", steps[-1] if len(found) > 1 else "")
        group = self.groups[steps]
        direct_sources = sources_of(group)
        self.used = {kind.path} if isinstance(kind, ProposedSource) else set()
        if number == 0:
            rule.notes.append("Operations.")
        self._put_type(rule, kind)
        if kind:
            self._put_time(rule, self._time(direct_sources, sure=False))
        names = self._put_table(rule, group, direct_sources, steps)
        self._put_columns(rule, group, names, nested=not kind)
        return rule

    def _put_type(self, rule: ProposedRule, kind: ProposedSource | str) -> None:
        if isinstance(kind, ProposedSource):
            rule.values["optype"] = kind.path
            style = propose_operation_codes(kind.values) or ()
            for word, value in zip(WORDS, style, strict=True):
                rule.values[f"optype.{word}val"] = value
            return
        if not kind:
            rule.notes.append(f"{FILL_IN}no operation types were seen: all are taken for inserts.")
        rule.values["optype"] = f'"{kind or "I"}"'

    def _put_table(
        self, rule: ProposedRule, group: Group, own: list[ProposedSource], steps: Steps
    ) -> list[str]:
        """Add the sources of the table's name to an XML rule. Returns the table of each element.

        ``own`` are the candidates in the elements themselves; elements around them are searched
        too.
        """
        sources = list(own)
        # Sources of the elements around it have paths such as ../@table and ../../name/text().
        above, prefix = group, ""
        for _ in steps[:-1]:
            above = [one.parent for one in above if one.parent is not None]
            prefix += "../"
            sources += sources_of(above, prefix)
        qualified = [one for one in sources if all(map(TABLE.fullmatch, one.values))]
        named = [one for one in qualified if _TABLES.search(one.name)] or qualified
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

    def _rule(self, name: str, kind: str, more: str = "") -> ProposedRule:
        """Create an XML rule of type ``kind`` with a unique name: NAME_MORE, NAME_MORE2."""
        base = re.sub(r"[^\w-]", "_", f"{name}_{more}" if more else name)
        known, number = base, 2
        # Names are made unique by a number: row, row2, row3.
        while known in self.rules or known == "txrule":
            known, number = f"{base}{number}", number + 1
        return self.rules.setdefault(known, ProposedRule(known, kind))

    def _put_rule(self, rule: ProposedRule, name: str, match: str, values: dict[str, str]) -> None:
        """Add an XML column rule below ``rule``. An identical rule is reused."""
        for known in self.rules.values():
            if (known.type, known.match, known.values) == ("col", match, values):
                col_rule = known
                break
        else:
            col_rule = self._rule(name, "col")
            col_rule.match, col_rule.values = match, values
        if col_rule not in rule.below:
            rule.below.append(col_rule)

    def _table(self, name: str) -> TableDraft:
        return self.tables.setdefault(name.upper(), TableDraft(name))

    def _put_columns(
        self, rule: ProposedRule, group: Group, names: list[str], *, nested: bool
    ) -> None:
        """Add the XML rules of the columns of operations, and enlarge the proposed tables.

        ``group`` are the elements of the operations, and ``names`` their tables. With ``nested``,
        elements that repeat inside an operation become rules of operations too.
        """
        tables = [self._table(name) for name in names]
        direct = dict(zip(map(id, group), tables, strict=True))
        self._put_attributes(rule, group, direct, "")
        for name in dict.fromkeys(child.name for one in group for child in one.children):
            below = [child for one in group for child in one.children if child.name == name]
            owner = {id(child): direct[id(child.parent)] for child in below}
            # True if an operation has this child more than once.
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
                rule.below.append(self._nested_rule(below, path))
            elif not several:
                self._put_container(rule, below, owner, path)
        for table in dict.fromkeys(map(id, tables)):
            known = next(one for one in tables if id(one) == table)
            if not known.sizes:
                known.add("COL1", "")

    def _put_attributes(
        self,
        rule: ProposedRule,
        group: Group,
        owner: dict[int, TableDraft],
        path: str,
        image: str = "",
    ) -> None:
        """Add an XML column rule for each attribute of a group's elements.

        ``path`` leads from the operation to these elements, and ``owner`` maps the ``id`` of each
        to its table.
        """
        for name in dict.fromkeys(one.name for element in group for one in element.attributes):
            value = f"{path}@{name}" if path else f"@{name}"
            if value in self.used:
                continue
            self._put_one(rule, name, "", f"{image}value", value)
            for element in group:
                for one in element.attributes:
                    if one.name == name:
                        owner[id(element)].add(name, one.value)

    def _put_one(self, rule: ProposedRule, column: str, match: str, name: str, value: str) -> None:
        """Add the XML rule of one column: ``name`` is the kind of value, and ``value`` its path."""
        rule_name = f"{rule.name.removeprefix('oprule_')}_{column}"
        self._put_rule(rule, rule_name, match, {"name": f'"{column}"', name: value})

    def _nested_rule(self, group: Group, path: str) -> ProposedRule:
        """Propose the XML rule of elements that repeat in an operation: rows of another table."""
        name = group[0].name
        nested_rule = self._rule("oprule", "op", name)
        nested_rule.match = path
        table = f"{SCHEMA}.{_plain_name(name)}"
        nested_rule.notes = [f"{FILL_IN}repeated within an operation: taken for rows of {table}."]
        nested_rule.values = {"schemaandtable": f'"{table}"', "optype": '"I"'}
        outer_used, self.used = self.used, set()
        if all(map(has_text_only, group)) and not any(one.attributes for one in group):
            self._put_one(nested_rule, name, "", "value", "text()")
            for one in group:
                self._table(table).add(name, one.text())
        else:
            self._put_columns(nested_rule, group, [table] * len(group), nested=True)
        self.used = outer_used
        return nested_rule

    def _put_container(
        self, rule: ProposedRule, group: Group, owner: dict[int, TableDraft], path: str
    ) -> None:
        """Add the XML rules of columns in a child element, which may be a before or after image.

        ``owner`` maps the ``id`` of each element of the group to its table.
        """
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
                members = [child for child in below if child.name == name]
                inner = f"{path}/{name}"
                if all(map(has_text_only, members)):
                    self._put_one(rule, name, inner, f"{image}value", "text()")
                    for one in members:
                        of[id(one)].add(name, one.text())
                elif not self._put_cells(rule, members, of, inner, image):
                    self._put_container(rule, members, of, inner)
            return
        values = {"name": "name()", f"{image}value": "text()"}
        self._put_rule(rule, f"colrule_{group[0].name}", f"{path}/*", values)
        for child in below:
            of[id(child)].add(child.name, child.text())

    def _put_cells(
        self, rule: ProposedRule, group: Group, owner: dict[int, TableDraft], path: str, image: str
    ) -> bool:
        """Add one XML rule for columns that are elements with a name inside: ``<col name="ID">``.

        Returns False, and adds nothing, if the elements of the group have no such name.
        """
        sources = sources_of(group)
        name = next((one for one in sources if _is_name(one, group)), None)
        if name is None:
            return False
        parent_name = group[0].parent.name if image and group[0].parent is not None else ""
        values = {"name": name.path, **_cell_values(group, name, image)}
        self._put_rule(rule, f"colrule_{parent_name}" if parent_name else "colrule", path, values)
        for element, column in zip(group, name.values, strict=True):
            owner[id(element)].add(column, max(_strings(element), key=len, default=""))
        return True


def _strings(element: XmlElement) -> Iterator[str]:
    """Yield the texts of an XML element, of its attributes, and of all elements below it."""
    for one in (element, *element.below()):
        yield one.text() or ""
        yield from (attribute.value for attribute in one.attributes)


def _is_name(source: ProposedSource, group: Group) -> bool:
    """Return True if the values of an XML source are column names.

    The source's name must suggest it, and its values must be identifiers that occur once per
    operation.
    """
    if not _NAMES.fullmatch(source.name) or not all(map(IDENTIFIER.fullmatch, source.values)):
        return False
    # Each operation may use a column name only once.
    pairs = {
        (id(one.parent), value.upper()) for one, value in zip(group, source.values, strict=True)
    }
    return len(pairs) == len(group) and (len(group) > 1 or "name" in source.name.lower())


def _cell_values(group: Group, name: ProposedSource, image: str) -> dict[str, str]:
    """Return the paths of the values of XML columns that have a name inside, for their rule.

    The paths are by the names of the rule's properties, for example ``{"before.value": "@old",
    "after.value": "@new"}`` if names suggest images, or else one value such as ``{"value":
    "text()"}``. ``image`` is "before.", "after." or "".
    """
    names_by_path: dict[str, str] = {}
    for element in group:
        for attribute in element.attributes:
            names_by_path.setdefault(f"@{attribute.name}", attribute.name)
        for child in element.children:
            names_by_path.setdefault(f"./{child.name}/text()", child.name)
    names_by_path.pop(name.path, None)
    images: dict[str, str] = {}
    for path, own in names_by_path.items():
        side = _image(own)
        if side and not image:
            images.setdefault(f"{side}value", path)
    if images:
        return images
    if any(one.text() for one in group) or not names_by_path:
        return {f"{image}value": "text()"}
    value = next(
        (path for path, own in names_by_path.items() if _VALUES.search(own)),
        next(iter(names_by_path)),
    )
    return {f"{image}value": value}


def _image(name: str) -> str:
    """Return "before." or "after." if the name of an XML element suggests an image, else ""."""
    if _BEFORE.search(name):
        return "before."
    return "after." if _AFTER.search(name) else ""


def _plain_name(name: str) -> str:
    """Convert the name of an XML element to the name of a table."""
    return re.sub(r"\W", "_", name).upper()
