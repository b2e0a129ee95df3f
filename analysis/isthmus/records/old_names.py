"""Names of memories as earlier versions spelt them, in the words of this one.

Records of versions 1 and 2 said `wc`, `malloc` and `system` where memory::name() has write_combined and pageable, and
of faults/* the kind of memory and the size of its pages in one word. Converted are a record's workload and its axes,
and whatever else chooses records by them: references, weights, files of `isthmus noise`. Sentences (skipped, error,
notes, warnings), run.command and names of files stay as they were written. Every conversion leaves names of this
version as they are. src/harness/plan/old_names.cpp has the same rules; tests/data/old_names.json holds both to them.
"""

from __future__ import annotations

import functools
import re

#: Of each old name the new one; the placement and the capability `system` are called so still.
KINDS = {"malloc": "pageable", "system": "pageable", "wc": "write_combined"}
_FAMILIES = ("accounting", "alloc", "latency", "transfer")  # with memories in their names
_PAGES_APART = ("faults/random", "faults/regular", "faults/strided")
_PAGES = ("small", "huge")

_WORD = rf"\b({'|'.join(KINDS)})\b"
# Of axes as JSON: old texts and new ones. `\1` is what stands before the value.
_BEFORE = r'([{,]\s*"memory"\s*:\s*)'
_TEXTS = tuple((rf'{_BEFORE}"{old}"', rf'\1"{new}"') for old, new in KINDS.items())
_PAGES_TEXTS = (
    (rf'{_BEFORE}"({"|".join(_PAGES)})"', r'\1"pageable","pages":"\2"'),
    (rf'{_BEFORE}"managed"', rf'\1"managed","pages":"{_PAGES[0]}"'),
)


def _of_words(text: str) -> str:
    return re.sub(rf"(?<!\\){_WORD}", lambda word: KINDS[word[0]], text)


# --- names and axes ---


@functools.lru_cache(maxsize=4096)
def workload(name: str) -> str:
    """A workload by its name in this version."""
    family, *rest = name.split("/")
    if family not in _FAMILIES or not rest:
        return name
    return "/".join([family, _of_words(rest[0]), *rest[1:]])


def axes(of: str, values: dict) -> dict:
    """The axes of a case of the workload `of`, by either name of it; the same object where nothing changes."""
    memory = values.get("memory")
    if not isinstance(memory, str):
        return values
    if of in _PAGES_APART and "pages" not in values and memory in ("managed", *_PAGES):
        kind, pages = (memory, _PAGES[0]) if memory == "managed" else ("pageable", memory)
        changed: dict = {}
        for name, value in values.items():  # in the order of the names, as the program writes them
            changed |= {"memory": kind, "pages": pages} if name == "memory" else {name: value}
        return changed
    return {**values, "memory": KINDS[memory]} if memory in KINDS else values


def axes_text(of: str, text: str) -> str:
    """The same of axes as JSON."""
    for old, new in (*_TEXTS, *(_PAGES_TEXTS if of in _PAGES_APART and '"pages"' not in text else ())):
        text = re.sub(old, new, text)
    return text


def record(case: dict) -> dict:
    """A record of an earlier version with the names of this one."""
    return {**case, "workload": workload(case["workload"]), "axes": axes(case["workload"], case["axes"])}


# --- what chooses records ---


def pattern(text: str) -> str:
    """A pattern of workloads, a glob or a regular expression, in this version's names."""
    families = set(re.findall(r"[a-z0-9_]+(?=/)", text))
    return text if families and not families & set(_FAMILIES) else _of_words(text)


def chosen_axes(of: str | None, values: dict) -> dict:
    """Axes that choose among the cases of a pattern of workloads; only of _PAGES_APART were pages a memory."""
    apart = of in _PAGES_APART or values.get("memory") in _PAGES
    return axes(_PAGES_APART[0] if apart else "", values)


def selection(words: str) -> str:
    """`WORKLOAD METRIC AXIS=VALUE …` in this version's names."""
    if len(words.split()) < 2:
        return words
    of, metric, *others = words.split()
    pairs = {name: value for name, equals, value in (other.partition("=") for other in others) if equals}
    plain = [other for other in others if "=" not in other]
    return " ".join(
        [pattern(of), metric, *plain, *(f"{name}={value}" for name, value in chosen_axes(of, pairs).items())]
    )


# --- the same in SQL ---


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _replaced(expression: str, old: str, new: str) -> str:
    return f"regexp_replace({expression}, {_literal(old)}, {_literal(new)}, 'g')"


def workload_sql(column: str) -> str:
    """An expression for the name in this version of the workload in a column."""
    memories = f"regexp_extract({column}, '^[^/]+/([^/]*)', 1)"
    for old, new in KINDS.items():
        memories = _replaced(memories, rf"\b{old}\b", new)
    rest = f"regexp_extract({column}, '^[^/]+/[^/]*(.*)$', 1)"
    converted = f"split_part({column}, '/', 1) || '/' || {memories} || {rest}"
    old_ones = _literal(f"^({'|'.join(_FAMILIES)})/[^/]*{_WORD}")
    return f"CASE WHEN regexp_matches({column}, {old_ones}) THEN {converted} ELSE {column} END"


def axes_sql(of: str, column: str) -> str:
    """An expression for axes, a column of JSON as text, of the workload in the column `of`."""
    kinds = column
    for old, new in _TEXTS:
        kinds = _replaced(kinds, old, new)
    pages = kinds
    for old, new in _PAGES_TEXTS:
        pages = _replaced(pages, old, new)
    apart = f"{of} IN ({', '.join(map(_literal, _PAGES_APART))}) AND NOT contains({column}, '\"pages\"')"
    return f"CASE WHEN NOT contains({column}, '\"memory\"') THEN {column} WHEN {apart} THEN {pages} ELSE {kinds} END"
