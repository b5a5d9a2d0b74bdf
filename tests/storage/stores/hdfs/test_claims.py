"""Claims to replace a file, in every order in which the steps of writers can follow each other, killed anywhere."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from trailgate.storage.stores.hdfs_claims import (
    CLAIM,
    WRITING,
    ListStep,
    RemoveStep,
    RenameResult,
    RenameStep,
    Step,
    TagStep,
    complete_claim,
    replace_file,
    writing_name,
)

KEY = "a/k"
FIRST = "1-0"
OWN = [f"{number:032x}" for number in range(4)]


@dataclass(frozen=True)
class Tree:
    """Paths of files and their tags; folders are what paths begin with, or kept in ``empty``. ``history`` are the tags that KEY had."""

    files: tuple[tuple[str, str], ...]
    empty: frozenset[str] = frozenset()
    history: tuple[str, ...] = (FIRST,)

    def tag(self, key: str) -> str | None:
        found = dict(self.files).get(key)
        return "0-0" if found is None and self.has(key) else found

    def has(self, path: str) -> bool:
        below = f"{path}/"
        names = [name for name, _ in self.files]
        return path in self.empty or any(name == path or name.startswith(below) for name in names)

    def taken(self, step: Step) -> tuple[Tree, Any]:
        """Return the tree after a step, and the answer."""
        match step:
            case TagStep(key):
                return self, self.tag(key)
            case ListStep(folder):
                if not self.has(folder):
                    return self, None
                above = f"{folder}/"
                return self, tuple(n[len(above) :] for n, _ in self.files if n.startswith(above))
            case RemoveStep(key):
                if any(name.startswith(f"{key}/") for name, _ in self.files):
                    return self, False
                kept = tuple(file for file in self.files if file[0] != key)
                emptied = self._emptied(key) if len(kept) < len(self.files) else self.empty
                return replace(self, files=kept, empty=emptied - {key}), True
            case RenameStep(source, target, over):
                return self._renamed(source, target, over=over)

    def _emptied(self, path: str) -> frozenset[str]:
        """Return the empty folders where a path is no more."""
        above = path.rpartition("/")[0]
        others = [n for n, _ in self.files if n.startswith(f"{above}/") and n != path]
        return self.empty if others or above == "a" else self.empty | {above}

    def _renamed(self, source: str, target: str, *, over: bool) -> tuple[Tree, RenameResult]:
        if not self.has(source):
            return self, RenameResult.GONE
        if self.has(target) and not over:
            return self, RenameResult.TAKEN
        below = f"{source}/"
        moved = tuple(
            (f"{target}{name[len(source) :]}", tag)
            if name == source or name.startswith(below)
            else (name, tag)
            for name, tag in self.files
            if name != target
        )
        was_file = any(name == source for name, _ in self.files)
        emptied = self._emptied(source) if was_file else self.empty
        if source in emptied:
            emptied = emptied - {source} | {target}
        made = Tree(tuple(sorted(moved)), emptied, self.history)
        tag = made.tag(KEY)
        if tag is not None and tag != made.history[-1]:
            made = replace(made, history=(*made.history, tag))
        return made, RenameResult.DONE


@dataclass(frozen=True)
class Writer:
    """Steps, by what makes them and the answers so far; ``again`` repeats each rename, as clients do whose answer was lost."""

    own: str
    over: str = FIRST
    again: bool = False
    answers: tuple[Any, ...] = ()

    def next(self) -> tuple[Step | None, bool]:
        """Return the next step; None where there is none, and what came of all."""
        steps: Generator[Step, Any, Any] = (
            replace_file(KEY, self.over, self.own) if self.own else complete_claim(KEY, self.over)
        )
        try:
            step = next(steps)
            for answer in self.answers:
                step = steps.send(answer)
        except StopIteration as end:
            return None, bool(end.value)
        return step, False

    def stepped(self, tree: Tree) -> tuple[Tree, Writer] | None:
        step, _ = self.next()
        if step is None or self.over not in tree.history:  # a writer has read what it replaces
            return None
        tree, answer = tree.taken(step)
        if self.again and isinstance(step, RenameStep):
            tree, answer = tree.taken(step)
        return tree, replace(self, answers=(*self.answers, answer))


def began(*writers: Writer) -> Tree:
    """Return a tree with the file that writers replace, and what each has written."""
    staged = [(f"{writing_name(KEY, w.own)}/{w.own}", tag_of(w)) for w in writers if w.own]
    return Tree(tuple(sorted([(KEY, FIRST), *staged])))


def tag_of(writer: Writer) -> str:
    """Return the tag of what a writer puts: those of rivals can be the same."""
    return f"{int(writer.over.partition('-')[0]) + 1}-0"


def states(tree: Tree, *writers: Writer) -> Iterator[tuple[Tree, tuple[Writer, ...]]]:
    """Yield every state that some order of steps leads to; each writer may be killed in any of them."""
    left = [(tree, writers)]
    seen = {(tree, writers)}
    while left:
        tree, writers = left.pop()
        yield tree, writers
        for at, writer in enumerate(writers):
            found = writer.stepped(tree)
            if found is not None:
                state = (found[0], (*writers[:at], found[1], *writers[at + 1 :]))
                if state not in seen:
                    seen.add(state)
                    left.append(state)


def alone(tree: Tree, writer: Writer) -> tuple[Tree, bool]:
    """Return what a writer comes to that is alone."""
    while (found := writer.stepped(tree)) is not None:
        tree, writer = found
    return tree, writer.next()[1]


RACES = {
    "two": (Writer(OWN[1]), Writer(OWN[2])),
    "three": (Writer(OWN[1]), Writer(OWN[2]), Writer(OWN[3])),
    "two and a reader": (Writer(OWN[1]), Writer(OWN[2]), Writer("")),
    "answers are lost": (Writer(OWN[1], again=True), Writer(OWN[2], again=True)),
    "a lost answer and a reader": (Writer(OWN[1], again=True), Writer(OWN[2]), Writer("")),
    "the next one": (Writer(OWN[1]), Writer(OWN[2]), Writer(OWN[3], over="2-0")),
}


@pytest.mark.parametrize("race", RACES)
def test_of_writers_one_wins_in_any_order_of_steps(race: str) -> None:
    writers = RACES[race]
    count = 0
    for tree, now in states(began(*writers), *writers):
        count += 1
        times = [int(tag.partition("-")[0]) for tag in tree.history]
        assert times == sorted(set(times)), tree  # nothing old comes back
        assert tree.tag(KEY) is not None
        wins = [one.next() for one in now if one.own]
        won = [w for w, (step, result) in zip(now, wins, strict=False) if step is None and result]
        for over in {writer.over for writer in writers}:
            assert len([one for one in won if one.over == over]) <= 1, now
        if all(one.next()[0] is None for one in now):
            # Whose answer was lost, and whose claim another writer has ended, knows it by the bytes, as puts do anywhere.
            lost = sum(one.again for one in writers)
            assert 0 <= len(tree.history) - 1 - len(won) <= lost, (tree, now)
            assert tree.files == ((KEY, tree.history[-1]),), tree  # nothing is left
    assert count > 20


@pytest.mark.parametrize("race", RACES)
def test_whoever_is_killed_holds_up_nobody(race: str) -> None:
    writers = RACES[race]
    for tree, _ in states(began(*writers), *writers):
        # Who reads the file ends a claim to replace it, and then replaces what was read.
        after, _ = alone(tree, Writer("", over=str(tree.tag(KEY))))
        read = str(after.tag(KEY))
        next_one = Writer(OWN[0], over=read)
        staged = (f"{writing_name(KEY, OWN[0])}/{OWN[0]}", "9-0")
        after, won = alone(replace(after, files=tuple(sorted([*after.files, staged]))), next_one)

        assert won, (tree, after)
        assert after.tag(KEY) == "9-0"
        for path, _ in after.files:
            hidden = path.split("/")[1]
            assert hidden == "k" or WRITING.fullmatch(hidden) or CLAIM.fullmatch(hidden)
