"""Numbers as tools write them in the locale of their user: 1,234.5 and 1.234,5 are the same amount."""

from __future__ import annotations

import re

from isthmus import spelling
from isthmus.profiles.profile import ProfileError, real

_BLANKS = "\u00a0\u202f\u2009' ’"  # which group thousands and nothing else
_GROUPED = re.compile(r"\d{1,3}(?:[.,]\d{3})+")
_POINT = {",": ".", ".": ","}


def _decimal_sign(text: str) -> str | None:
    """The sign of a file's fractions, as one of its numbers shows by itself; None where it shows nothing."""
    signs = re.findall("[.,]", text)
    if not signs or not re.fullmatch(r"[+-]?[\d.,]+", text):
        return None
    if len(set(signs)) == 2:
        return signs[-1]
    if len(signs) > 1:
        return _POINT[signs[0]]
    before, _, after = text.lstrip("+-").replace(",", ".").partition(".")
    return None if len(after) == 3 and 1 <= len(before) <= 3 and before != "0" else signs[0]


class Numerals:
    """Reads the numbers of one file. Some of them show which sign its fractions have; that decides about the others."""

    def __init__(self, texts):
        signs = {sign for text in texts if (sign := _decimal_sign(_plain(text)))}
        self.sign = signs.pop() if len(signs) == 1 else None

    def number(self, text: str, where: str, *, whole: bool = False) -> float:
        """The amount; `whole` says that it has no fraction, so that a sign in it groups thousands.

        Raises ProfileError for what is no number, or can be two.
        """
        plain = _plain(text)
        sign = _decimal_sign(plain)
        if sign is None and re.search("[.,]", plain) and _GROUPED.fullmatch(plain.lstrip("+-")):
            sign = self._sign_of_ambiguous(plain, where, whole)
        if sign is None or not re.search(r"\d", plain):
            return real(plain, where)
        integer, _, fraction = plain.partition(sign) if plain.count(sign) == 1 else (plain, "", "")
        if re.search("[.,]", integer) and not _GROUPED.fullmatch(integer.lstrip("+-")):
            raise ProfileError(f"{where}: {spelling.shorten(repr(text), 40)} is no number")
        return real(f"{re.sub('[.,]', '', integer)}.{fraction or 0}", where)

    def _sign_of_ambiguous(self, plain: str, where: str, whole: bool) -> str:
        """Of a number with one sign and three digits behind it."""
        seen = re.findall("[.,]", plain)[0]
        if whole and self.sign == seen:
            raise ProfileError(f"{where}: a count of {plain!r} has a fraction, or its thousands are grouped by the "
                               "sign of fractions; run the tool with LC_ALL=C")  # fmt: skip
        if whole:
            return _POINT[seen]
        if self.sign is None and seen == ",":
            raise ProfileError(f"{where}: {plain!r} can be {plain.replace(',', '')} or {plain.replace(',', '.')}; "
                               "run the tool with LC_ALL=C")  # fmt: skip
        return self.sign or seen


def _plain(text: str) -> str:
    """Without the blanks that group thousands; other blanks stay, and make it no number."""
    text = text.strip()
    return re.sub(f"(?<=\\d)[{_BLANKS}](?=\\d{{3}}(?!\\d))", "", text)
