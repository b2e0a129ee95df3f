"""Parsing of numbers that tools write in the user's locale: 1,234.5 and 1.234,5 are the same number."""

from __future__ import annotations

import re

from isthmus import spelling
from isthmus.profiles.profile import ProfileError, real

_BLANKS = "\u00a0\u202f\u2009' ’"  # characters that can only group thousands
_GROUPED = re.compile(r"\d{1,3}(?:[.,]\d{3})+")
_POINT = {",": ".", ".": ","}


def _decimal_sign(text: str) -> str | None:
    """Returns the decimal sign of a number if the number alone reveals it, otherwise None."""
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
    """Parser of the numbers of one file. Numbers that reveal the file's decimal sign decide how others are parsed."""

    def __init__(self, texts):
        signs = {sign for text in texts if (sign := _decimal_sign(_plain(text)))}
        self.sign = signs.pop() if len(signs) == 1 else None

    def number(self, text: str, where: str, *, whole: bool = False) -> float:
        """Parses a number; `whole` means that it has no fraction, so that a sign in it groups thousands.

        Raises ProfileError for text that is not a number, or that may be either of two numbers.
        """
        plain = _plain(text)
        sign = _decimal_sign(plain)
        if sign is None and re.search("[.,]", plain) and _GROUPED.fullmatch(plain.lstrip("+-")):
            sign = self._sign_of_ambiguous(plain, where, whole)
        if sign is None or not re.search(r"\d", plain):
            return real(plain, where)
        integer, _, fraction = plain.partition(sign) if plain.count(sign) == 1 else (plain, "", "")
        if re.search("[.,]", integer) and not _GROUPED.fullmatch(integer.lstrip("+-")):
            raise ProfileError(f"{where}: {spelling.shorten(repr(text), 40)} is not a number")
        return real(f"{re.sub('[.,]', '', integer)}.{fraction or 0}", where)

    def _sign_of_ambiguous(self, plain: str, where: str, whole: bool) -> str:
        """Returns the decimal sign of a number such as 1,234, in which the sign may group thousands or be decimal."""
        seen = re.findall("[.,]", plain)[0]
        if whole and self.sign == seen:
            raise ProfileError(f"{where}: a count of {plain!r} has a fraction, or its thousands are grouped by the "
                               "decimal sign; run the tool with LC_ALL=C")  # fmt: skip
        if whole:
            return _POINT[seen]
        if self.sign is None and seen == ",":
            raise ProfileError(f"{where}: {plain!r} can mean {plain.replace(',', '')} or {plain.replace(',', '.')}; "
                               "run the tool with LC_ALL=C")  # fmt: skip
        return self.sign or seen


def _plain(text: str) -> str:
    """Removes blanks that group thousands. Other blanks remain; text with such blanks is not a number."""
    text = text.strip()
    return re.sub(f"(?<=\\d)[{_BLANKS}](?=\\d{{3}}(?!\\d))", "", text)
