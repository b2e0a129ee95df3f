"""Reader of profilers' SQLite files."""

from __future__ import annotations

import array
import bisect
import contextlib
import pathlib
import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence

from isthmus import inputs
from isthmus.profiles.profile import ProfileError
from isthmus.tables import output

#: Ending of a table's name that identifies its process: rocpd_string_00006409_00d1_70d1_a5cb_b5ab88214544.
_SUFFIX = re.compile(r"_[0-9a-f_]{8,}$")


_ROW = 6  # minimum number of bytes of a row: a cell and the pointer to it
_RECENT = 256  # maximum number of recently used texts that are cached as strings
_STEPS = 1_000_000  # number of SQLite instructions between two calls of _goes_on_too_long()


def _locked(error: Exception) -> str | None:
    """Returns an explanation of an error that another program's lock caused; None for other errors."""
    if isinstance(error, sqlite3.OperationalError) and "is locked" in str(error):
        return "another program is writing to it, as the profiler does until it ends; wait for that, or copy the file"
    return None


class Texts:
    """Texts keyed by number, stored contiguously: a dict of a million short texts would take many times the space."""

    def __init__(self, numbered: Iterable[tuple[object, object]]):
        self._text = bytearray()
        self._numbers, self._ends = array.array("q"), array.array("q")
        self._recent: dict[object, str] = {}  # cache, since a trace uses few names many times
        for number, text in numbered:
            if isinstance(number, int) and text is not None:
                self._text += str(text).encode()
                self._numbers.append(number)
                self._ends.append(len(self._text))
        numbers = self._numbers
        self._order: Sequence[int] = range(len(numbers))
        if any(numbers[i - 1] > numbers[i] for i in range(1, len(numbers))):
            self._order = array.array("q", sorted(range(len(numbers)), key=numbers.__getitem__))

    def __len__(self) -> int:
        return len(self._numbers)

    def get(self, number: object, otherwise: str = "") -> str:
        """Returns the text with a number (the last one if there are several), or `otherwise` if there is none."""
        if number not in self._recent:
            text = self._find(number) if isinstance(number, int) else None
            if text is None:
                return otherwise
            if len(self._recent) >= _RECENT:
                self._recent.clear()
            self._recent[number] = text
        return self._recent[number]

    def _find(self, number: int) -> str | None:
        place = bisect.bisect_right(self._order, number, key=self._numbers.__getitem__) - 1
        if place < 0 or self._numbers[self._order[place]] != number:
            return None
        at = self._order[place]
        return self._text[self._ends[at - 1] if at else 0 : self._ends[at]].decode()


class Database:
    """Tables of an SQLite file. Tables and columns may be missing; values are returned as they are stored.

    Some tools write a table for each process, with the process at the end of its name: `suffixes` lists these endings,
    and "" for tables without an ending. A view that joins such tables is not read in addition.

    Reading always ends, whatever the file contains: views and virtual tables, which compute their rows, are never
    queried, and a table's rows and texts may not exceed what the file's size allows.
    """

    def __init__(self, path: pathlib.Path):
        self.path = path
        self._steps = 0  # number of instructions of the current statement, in millions
        try:
            inputs.open_file(path).close()  # SQLite would wait for a FIFO
            real = path.resolve()
            parts = (real, real.with_name(f"{real.name}-wal"))  # the WAL contains the latest changes
            self._size = sum(part.stat().st_size for part in parts if part.exists())
            self.connection = sqlite3.connect(f"{real.as_uri()}?mode=ro", uri=True)
            self.connection.set_progress_handler(self._goes_on_too_long, _STEPS)
            self.connection.execute("PRAGMA query_only = 1")
            # Type and name can be trusted, since SQLite refuses a schema in which they differ from those in the SQL.
            found = self.connection.execute(
                "SELECT name, type = 'table' AND sql LIKE 'CREATE TABLE%' FROM sqlite_master "
                "WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite~_%' ESCAPE '~'"
            )
            are_tables = dict(found.fetchall())
        except OSError as error:
            raise ProfileError(f"{path}: {error.strerror}") from None
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise ProfileError(
                f"{path.name}: {_locked(error) or f'not an SQLite database, or cut short ({error})'}"
            ) from None
        self.tables = [name for name, is_table in are_tables.items() if is_table]
        ends = {name: match[0] for name in self.tables if (match := _SUFFIX.search(name))}
        self.suffixes = sorted({ends.get(name, "") for name in self.tables})
        joined = {name.removesuffix(end) for name, end in ends.items()}
        self._computed = {name for name, is_table in are_tables.items() if not is_table} - joined

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_) -> None:
        self.connection.close()

    def unread(self, known, ignored) -> dict[str, int]:
        """Returns the number of rows of each nonempty table that is not `known` and has no prefix in `ignored`."""
        found: dict[str, int] = {}
        for table in self.tables:
            plain = _SUFFIX.sub("", table)
            if plain in known or plain.startswith(tuple(ignored)):
                continue
            if rows := self.count(table):
                found[plain] = found.get(plain, 0) + rows
        return found

    def has(self, table: str) -> bool:
        """Returns whether a table exists. Raises ProfileError if a view or a virtual table has its name."""
        if table in self._computed:
            raise ProfileError(
                f"{self.path.name}: {table} is a view or a virtual table, so not what the profiler writes"
            )
        return table in self.tables

    def count(self, table: str) -> int:
        """Returns the number of rows of a table; 0 if it does not exist."""
        if not self.has(table):
            return 0
        with self._readable(table):
            limited = f"SELECT 1 FROM {output.identifier(table)} LIMIT {self._most_rows() + 1}"
            [rows] = self._execute(f"SELECT count(*) FROM ({limited})").fetchone()
        self._refuse(table, rows > self._most_rows())
        return rows

    def rows(self, table: str, columns) -> Iterator[dict]:
        """Yields rows with the given columns; columns that the table lacks are None. A missing table has no rows.

        Rows are read one at a time, so that memory does not grow with the table.
        """
        if not self.has(table):
            return
        quoted = output.identifier(table)
        with self._readable(table):
            there = {row[1] for row in self._execute(f"PRAGMA table_info({quoted})")}
            selected = ", ".join(f'"{c}"' if c in there else "NULL" for c in columns)
            length = 0
            found = self._execute(f"SELECT {selected} FROM {quoted} LIMIT {self._most_rows() + 1}")
            for number, row in enumerate(found, 1):
                length += sum(len(value) for value in row if isinstance(value, (str, bytes)))
                self._refuse(table, number > self._most_rows() or length > self._size)
                yield dict(zip(columns, row))

    def texts(self, table: str, number: str, text: str) -> Texts:
        """Returns the texts of a table, keyed by number; `number` and `text` are names of columns."""
        return Texts((row[number], row[text]) for row in self.rows(table, (number, text)))

    def _most_rows(self) -> int:
        return self._size // _ROW

    def _refuse(self, table: str, is_more: bool) -> None:
        if is_more:
            raise ProfileError(f"{self.path.name}: {table} has more rows than fit in {self._size} bytes, so its pages "
                               "form a cycle; export it again")  # fmt: skip

    def _execute(self, statement: str) -> sqlite3.Cursor:
        self._steps = 0
        return self.connection.execute(statement)

    def _goes_on_too_long(self) -> bool:
        """Counts the instructions of one statement in millions, and returns whether there are too many.

        A row needs fewer than 50 instructions.
        """
        self._steps += 1
        return self._steps > 10 + 50 * self._most_rows() // _STEPS

    @contextlib.contextmanager
    def _readable(self, table: str):
        try:
            yield
        except (sqlite3.Error, OverflowError, UnicodeDecodeError) as error:
            why = _locked(error) or f"{table} cannot be read, perhaps because it is cut short ({error})"
            raise ProfileError(f"{self.path.name}: {why}") from None
