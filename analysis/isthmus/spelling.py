"""Spelling of text from records, files and command lines: escapes for a terminal, folding, and suggestions."""

from __future__ import annotations

import difflib
import re
import textwrap

WIDTH = 80  # columns of text for people


def printable(text: str) -> str:
    """Returns text with control characters escaped, since they could steer a terminal."""
    text = str(text)
    if text.isprintable():  # nearly every text is, and this test is many times faster than the next line
        return text
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


def fold(text: str, width: int = WIDTH, indent: str = "") -> list[str]:
    """Wraps a sentence; indents further lines two columns more than `indent` or, without it, than the sentence."""
    text = printable(text)
    below = indent or text[: len(text) - len(text.lstrip())]
    return textwrap.wrap(text, width, subsequent_indent=f"{below}  ", break_on_hyphens=False)


def shorten(text: str, length: int = 160) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


_OF_ONE = {"are": "is", "were": "was", "have": "has", "hold": "holds"}


def counted(number: int, what: str, verb: str = "") -> str:
    """Returns a number with its noun, and with a verb if given: "1 record is", "2 records are"."""
    words = [str(number), what if number == 1 else f"{what}s", _OF_ONE.get(verb, verb) if number == 1 else verb]
    return " ".join(filter(None, words))


def spelt(value):
    """Returns a copy of a record in which all text is printable."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {printable(key): spelt(inner) for key, inner in value.items()}
    return [spelt(inner) for inner in value] if isinstance(value, list) else value


def distance(a: str, b: str) -> int:
    """Returns the number of letters added, omitted, replaced or swapped with a neighbour between two words.

    isthmus-bench counts the same way.
    """
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
    """Returns the known word that may be meant: the nearest among similar words and words that begin with `word`.

    Returns None if there are no such words.
    """
    begun = [each for each in known if len(word.lstrip("-")) > 2 and each.startswith(word)]
    near = [each for each in known if distance(word, each) <= max(2, len(word) // 3) < len(each)]
    return min([*near, *begun], key=lambda each: (distance(word, each), each), default=None)


def did_you_mean(word: str, known) -> str:
    """Returns "; did you mean …?", the end of a sentence, if a known word is near, else ""."""
    near = difflib.get_close_matches(str(word), list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def slip_of(word: str, known) -> str | None:
    """Returns the known word of which `word` is certainly a misspelling, or None.

    The difference must be capitals, hyphens, a doubled letter (in four letters or more) or two swapped letters (in five
    or more). A word that is merely similar may be intended.
    """
    plain = re.sub(r"[\W_]", "", word.lower())
    for each in known:
        meant = re.sub(r"[\W_]", "", each.lower())
        swapped = [meant[:i] + meant[i + 1] + meant[i] + meant[i + 2 :] for i in range(len(meant) - 1)]
        doubled = [meant[: i + 1] + meant[i:] for i in range(len(meant))]
        if plain == meant or (len(plain) >= 4 and plain in doubled) or (len(plain) >= 5 and plain in swapped):
            return each
    return None


def is_node_name(text: str) -> bool:
    """Returns whether a scheduler's command reads this as the name of one node, not as an option, list or pattern."""
    return re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", text) is not None
