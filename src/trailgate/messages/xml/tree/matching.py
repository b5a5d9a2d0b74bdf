"""Paths followed in the tree of a document."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from trailgate.messages.xml.paths import ANY, Accessor, Name, Part, Path, Predicate, Step
from trailgate.messages.xml.tree.documents import Attribute, Document, Element


class Matcher:
    """Follows paths; ``namespaces`` are those of the prefixes that paths may have.

    A name without a prefix matches elements and attributes of any namespace.
    """

    def __init__(self, namespaces: Mapping[str, str]) -> None:
        self.namespaces = namespaces

    def elements(self, path: Path, here: Element) -> list[Element]:
        """Return the elements that a path leads to from an element, in the document's order."""
        found: list[Element] = [here]
        if path.absolute:
            found = [_top(here)]
        for _ in range(path.up):
            found = [element.parent for element in found if element.parent is not None]
        for step in path.steps:
            found = self._stepped(step, found)
        return found

    def value(self, path: Path, here: Element, document: Document) -> str | None:
        """Return the first value that a path leads to, or None.

        A path without an accessor gives an empty text where it leads to an element.
        """
        for element in self.elements(path, here):
            value = self._accessed(path.accessor, element, document)
            if value is not None:
                return value
        return None

    def finds_empty(self, path: Path, here: Element) -> bool:
        """Return whether a path without a value leads to an element, which then has no content."""
        contents = path.accessor is not None and path.accessor.part in {Part.TEXT, Part.CONTENT}
        return contents and bool(self.elements(path, here))

    def _stepped(self, step: Step, found: list[Element]) -> list[Element]:
        reached: dict[int, Element] = {}
        for parent in self._parents(step, found):
            here = [child for child in parent.children if self._is(step.name, child)]
            for predicate in step.predicates:
                here = self._chosen(predicate, here)
            reached.update((child.start, child) for child in here)
        return [reached[start] for start in sorted(reached)]

    @staticmethod
    def _parents(step: Step, found: list[Element]) -> Iterator[Element]:
        for element in found:
            yield element
            if step.anywhere:
                yield from element.below()

    def _is(self, name: Name, thing: Element | Attribute) -> bool:
        if name.prefix and thing.namespace != self.namespaces[name.prefix]:
            return False
        return name.local in (ANY.local, thing.name)

    def _chosen(self, predicate: Predicate, here: list[Element]) -> list[Element]:
        if predicate.part is Part.POSITION:
            at = int(predicate.value) - 1
            return here[at : at + 1]
        if predicate.part is Part.ATTRIBUTE:
            name = predicate.attribute
            return [e for e in here if self._attribute(name, e) == predicate.value]
        if predicate.part is Part.NAME:
            return [e for e in here if e.name == predicate.value]
        return [e for e in here if e.text() == predicate.value]

    def _accessed(
        self, accessor: Accessor | None, element: Element, document: Document
    ) -> str | None:
        if accessor is None:
            return ""
        if accessor.part is Part.ATTRIBUTE:
            return self._attribute(accessor.attribute, element)
        return _PARTS[accessor.part](element, document)

    def _attribute(self, name: Name, element: Element) -> str | None:
        """Return an attribute's value; without a prefix in the path, one that has none comes first."""
        found: Iterable[Attribute] = (a for a in element.attributes if self._is(name, a))
        first = next(iter(sorted(found, key=lambda a: bool(a.prefix))), None)
        return None if first is None else first.value


def _top(element: Element) -> Element:
    while element.parent is not None:
        element = element.parent
    return element


_PARTS: Final[Mapping[Part, Callable[[Element, Document], str | None]]] = MappingProxyType(
    {
        Part.TEXT: lambda element, _: element.text(),
        Part.EXACT_TEXT: lambda element, _: element.exact_text(),
        Part.CONTENT: lambda element, document: document.content(element),
        Part.NAME: lambda element, _: element.name,
        Part.POSITION: lambda element, _: str(element.position),
    }
)
