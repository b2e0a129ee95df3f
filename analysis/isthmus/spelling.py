"""Texts of records, files and command lines as a terminal can show them."""

from __future__ import annotations

import difflib
import re
import textwrap

WIDTH = 80  # of text for people


def printable(text: str) -> str:
    """Text of a record or a file name for a terminal: control characters, which could steer it, are spelt out."""
    text = str(text)
    if text.isprintable():  # nearly every text is, and all at once is many times faster
        return text
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


def fold(text: str, width: int = WIDTH, indent: str = "") -> list[str]:
    """A sentence as lines; those behind the first are indented by two more than `indent`, and than the sentence is."""
    text = printable(text)
    below = indent or text[: len(text) - len(text.lstrip())]
    return textwrap.wrap(text, width, subsequent_indent=f"{below}  ", break_on_hyphens=False)


def shorten(text: str, length: int = 160) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


_OF_ONE = {"are": "is", "were": "was", "have": "has", "hold": "holds"}


def counted(number: int, what: str, verb: str = "") -> str:
    """1 record, 2 records; with a verb, too: 1 record is, 2 records are."""
    words = [str(number), what if number == 1 else f"{what}s", _OF_ONE.get(verb, verb) if number == 1 else verb]
    return " ".join(filter(None, words))


def spelt(value):
    """A record for a terminal: every text in it as printable() has it."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {printable(key): spelt(inner) for key, inner in value.items()}
    return [spelt(inner) for inner in value] if isinstance(value, list) else value


def distance(a: str, b: str) -> int:
    """Letters that are added, left out, replaced or, side by side, exchanged; isthmus-bench counts the same."""
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, letter in enumerate(a):
        following = [i + 1]
        for j, other in enumerate(b):
            least = min(row[j + 1] + 1, following[j] + 1, row[j] + (letter != other))
            if i and j and letter == b[j - 1] and a[i - 1] == other:
                least = min(least, before[j - 1] + 1)
            following.append(least)
        before, row = row, following
    return row[-1]


def nearest(word: str, known) -> str | None:
    """The known word that may be meant: the fewest letters away, or begun so; None where none is near."""
    begun = [each for each in known if len(word.lstrip("-")) > 2 and each.startswith(word)]
    near = [each for each in known if distance(word, each) <= max(2, len(word) // 3) < len(each)]
    return min([*near, *begun], key=lambda each: (distance(word, each), each), default=None)


def did_you_mean(word: str, known) -> str:
    """ ", did you mean …?" where a known word is near, else "": so that a sentence can end with it."""
    near = difflib.get_close_matches(str(word), list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def slip_of(word: str, known) -> str | None:
    """The known word of which this is one for certain: other capitals or hyphens, a letter doubled, or two that changed
    places in a word of five or more. Of words that are only near nobody can say that they are not meant."""
    plain = re.sub(r"[\W_]", "", word.lower())
    for each in known:
        meant = re.sub(r"[\W_]", "", each.lower())
        swapped = [meant[:i] + meant[i + 1] + meant[i] + meant[i + 2 :] for i in range(len(meant) - 1)]
        doubled = [meant[: i + 1] + meant[i:] for i in range(len(meant))]
        if plain == meant or (len(plain) >= 4 and plain in doubled) or (len(plain) >= 5 and plain in swapped):
            return each
    return None


def is_node_name(text: str) -> bool:
    """Whether a scheduler's command takes this for one node: it is no option, list or pattern."""
    return re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", text) is not None
