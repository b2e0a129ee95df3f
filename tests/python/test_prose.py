"""No sentence of the documentation is longer than 30 words: one idea a sentence, read once.

Counted are the sentences of paragraphs and list items. Left out are code, tables, headings, pictures and HTML. A code
span counts as one word, however much it holds, and a link as its text. Semicolons and colons end no sentence.

    python tests/python/test_prose.py [PAGE…]     prints each long sentence with its place
"""

import pathlib
import re
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LONGEST = 30
FOLDERS = ("docs", "src", "site-configs", "papers", "analysis/notebooks")
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
    *sorted(page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md")),
]

#: Page, beginning of a sentence: why it may be longer. None is needed so far.
EXCEPTIONS: dict[tuple[str, str], str] = {}

FENCE = re.compile(r"^\s*(```|~~~)")
NO_PROSE = re.compile(r"^\s*(\||#|>|!\[|<|\[[^]]+\]:)|^\s*(-{3,}|={3,})\s*$")
ITEM = re.compile(r"^\s*([-*+]|\d+[.)])\s+")
# A full stop ends a sentence where whitespace follows, and then no small letter ("e.g. this", "of 5. of these").
END = re.compile(r"""[.!?][)"”*_]*(?=\s+(?![a-zäöü])|$)""")


def paragraphs(lines):
    """Each paragraph or list item of a page, as (number, line) pairs."""
    found, fenced, was_blank, in_list = [[]], False, True, False
    for number, line in enumerate(lines, 1):
        fence = FENCE.match(line)
        fenced ^= bool(fence)
        # After a blank line four columns make code of a line, but in a list a further paragraph of the item.
        in_list = bool(ITEM.match(line)) or (in_list and not (was_blank and re.match(r"\S", line)))
        indented = line.startswith("    ") and was_blank and not in_list
        was_blank = not line.strip() or indented
        if fence or fenced or indented or not line.strip() or NO_PROSE.match(line):
            found.append([])
        elif ITEM.match(line):
            found.append([(number, line)])
        else:
            found[-1].append((number, line))
    return [each for each in found if each]


def plain(text):
    """The text with code spans as one word each and links as what is read of them; its length stays as it is."""
    same = lambda found, kept: kept + "\0" * (len(found[0]) - len(kept))  # noqa: E731
    text = re.sub(r"(`+)(.+?)\1", lambda found: same(found, "Code"), text, flags=re.DOTALL)
    text = re.sub(r"\]\([^)\s]*\)", lambda found: same(found, ""), text)
    return re.sub(ITEM, lambda found: " " * len(found[0]), text)


def sentences(lines):
    """(line number, sentence, words) of each sentence of a page."""
    for paragraph in paragraphs(lines):
        text = "\n".join(line for _, line in paragraph)
        counted = plain(text)
        begin = 0
        for end in [each.end() for each in END.finditer(counted)] + [len(text)]:
            piece = counted[begin:end].replace("\0", "")
            words = [word for word in piece.split() if re.search(r"\w", word)]
            if words:
                begin += len(counted[begin:end]) - len(counted[begin:end].lstrip())
                number = paragraph[0][0] + text.count("\n", 0, begin)
                yield number, " ".join(text[begin:end].split()), len(words)
            begin = end


def too_long(page):
    lines = page.read_text(encoding="utf-8").splitlines()
    name = page.relative_to(ROOT).as_posix() if page.is_relative_to(ROOT) else page.name
    for number, sentence, words in sentences(lines):
        if words > LONGEST and not any(name == of and sentence.startswith(begin) for of, begin in EXCEPTIONS):
            yield f"{name}:{number}: {words} words: {sentence}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_no_sentence_is_longer_than_30_words(page):
    found = list(too_long(page))
    assert not found, "split these, one idea a sentence:\n" + "\n".join(found)


LONG = "It " + "is " * 29 + "long."  # 31 words
SHORT = "It " + "is " * 28 + "short."  # 30 words


@pytest.mark.parametrize(
    "text, line",
    [
        (f"# Page\n\n{LONG}\n", 3),
        (f"{SHORT}\n{LONG}\n", 2),
        (f"- {SHORT}\n- {SHORT} {LONG}\n", 2),
        (f"1. {LONG}", 1),
        (f"- an item,\n  going on.\n\n    {LONG}", 4),
        (LONG.replace(" is", "\nis", 3), 1),
        (LONG.replace("long", "`a b c`"), 1),
        (LONG.replace("long", "[long](page.md)"), 1),
        (LONG.replace(" is", " 3.5; e.g. is:", 1), 1),
        (f"```\n{LONG}\n```\n\n{LONG}", 5),
    ],
)
def test_a_long_sentence_is_found_with_its_line(tmp_path, text, line):
    page = tmp_path / "page.md"
    page.write_text(text, encoding="utf-8")
    [found] = too_long(page)
    assert found.startswith(f"page.md:{line}: ")


@pytest.mark.parametrize(
    "text",
    [
        SHORT,
        f"{SHORT} {SHORT}",
        f"- {SHORT}\n- {SHORT}",
        f"# {LONG}",
        f"| {LONG} |",
        f"```\n{LONG}\n```",
        f"Type:\n\n    {LONG}\n",
        f"![{LONG}](a.png)",
        SHORT.replace("short", "`" + "short " * 9 + "`"),
    ],
)
def test_what_is_short_or_no_prose_passes(tmp_path, text):
    page = tmp_path / "page.md"
    page.write_text(text, encoding="utf-8")
    assert not list(too_long(page))


def test_each_exception_is_needed_and_has_its_reason():
    for (name, begin), reason in EXCEPTIONS.items():
        lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
        assert reason and any(text.startswith(begin) and words > LONGEST for _, text, words in sentences(lines))


if __name__ == "__main__":
    long = [found for page in map(pathlib.Path, sys.argv[1:] or PAGES) for found in too_long(page.resolve())]
    print(*long, sep="\n")
    sys.exit(bool(long))
