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

#: End of a table's name that identifies its process: rocpd_string_00006409_00d1_70d1_a5cb_b5ab88214544.
_SUFFIX = re.compile(r"_[0-9a-f_]{8,}$")


_ROW = 6  # fewest bytes of a row: a cell and the pointer to it
_RECENT = 256  # most recent texts that are kept as strings
_STEPS = 1_000_000  # SQLite instructions between two checks of their number


def _locked(error: Exception) -> str | None:
    """Explains an error that another program's lock causes; None for other errors."""
    if isinstance(error, sqlite3.OperationalError) and "is locked" in str(error):
        return "another program writes in it, as the profiler does until it ends; wait for that, or copy the file"
    return None


class Texts:
    """Texts by number, stored contiguously: a dict of a million short ones would take many times their file's size."""

    def __init__(self, numbered: Iterable[tuple[object, object]]):
        self._text = bytearray()
        self._numbers, self._ends = array.array("q"), array.array("q")
        self._recent: dict[object, str] = {}  # a trace names few things many times
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
        """Returns the text of a number; the last if several have it, `otherwise` if none has."""
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
    """Tables of an SQLite file, which may be absent or lack columns; values are returned as they are stored.

    Some tools write each table once per process, with the process at the end of its name: `suffixes` lists these ends,
    and "" for tables without one. A view that joins such tables is not read in addition.

    Reading ends whatever the file contains. Views and virtual tables, which compute their rows, are never queried, and
    neither the rows of a table nor its texts may exceed what the file's size allows.
    """

    def __init__(self, path: pathlib.Path):
        self.path = path
        self._steps = 0  # millions of instructions of the current statement
        try:
            inputs.open_file(path).close()  # SQLite would wait for a FIFO
            real = path.resolve()
            parts = (real, real.with_name(f"{real.name}-wal"))  # the WAL has what was written last
            self._size = sum(part.stat().st_size for part in parts if part.exists())
            self.connection = sqlite3.connect(f"{real.as_uri()}?mode=ro", uri=True)
            self.connection.set_progress_handler(self._goes_on_too_long, _STEPS)
            self.connection.execute("PRAGMA query_only = 1")
            # SQLite refuses a schema whose type and name are not those in the SQL.
            found = self.connection.execute(
                "SELECT name, type = 'table' AND sql LIKE 'CREATE TABLE%' FROM sqlite_master "
                "WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite~_%' ESCAPE '~'"
            )
            are_tables = dict(found.fetchall())
        except OSError as error:
            raise ProfileError(f"{path}: {error.strerror}") from None
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise ProfileError(
                f"{path.name}: {_locked(error) or f'no SQLite database, or cut short ({error})'}"
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
        """Returns rows by table, of tables that are neither known, nor begin as one without events, nor are empty."""
        found: dict[str, int] = {}
        for table in self.tables:
            plain = _SUFFIX.sub("", table)
            if plain in known or plain.startswith(tuple(ignored)):
                continue
            if rows := self.count(table):
                found[plain] = found.get(plain, 0) + rows
        return found

    def has(self, table: str) -> bool:
        """Returns whether there is such a table. Raises ProfileError for a view or a virtual table of this name."""
        if table in self._computed:
            raise ProfileError(
                f"{self.path.name}: {table} is a view or a virtual table, so not what the profiler writes"
            )
        return table in self.tables

    def count(self, table: str) -> int:
        """Returns the number of rows of a table; 0 if there is no such table."""
        if not self.has(table):
            return 0
        with self._readable(table):
            limited = f"SELECT 1 FROM {output.identifier(table)} LIMIT {self._most_rows() + 1}"
            [rows] = self._execute(f"SELECT count(*) FROM ({limited})").fetchone()
        self._refuse(table, rows > self._most_rows())
        return rows

    def rows(self, table: str, columns) -> Iterator[dict]:
        """Yields rows with the given columns, None for those the table lacks; nothing if there is no such table.

        Rows come one at a time, so that memory does not grow with the table.
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
        """Returns the texts of a table by their number."""
        return Texts((row[number], row[text]) for row in self.rows(table, (number, text)))

    def _most_rows(self) -> int:
        return self._size // _ROW

    def _refuse(self, table: str, is_more: bool) -> None:
        if is_more:
            raise ProfileError(f"{self.path.name}: {table} has more than {self._size} bytes can hold, so its pages "
                               "lead in circles; export it again")  # fmt: skip

    def _execute(self, statement: str) -> sqlite3.Cursor:
        self._steps = 0
        return self.connection.execute(statement)

    def _goes_on_too_long(self) -> bool:
        """Counts millions of instructions of one statement, and returns whether they are too many.

        A row takes fewer than 50.
        """
        self._steps += 1
        return self._steps > 10 + 50 * self._most_rows() // _STEPS

    @contextlib.contextmanager
    def _readable(self, table: str):
        try:
            yield
        except (sqlite3.Error, OverflowError, UnicodeDecodeError) as error:
            why = _locked(error) or f"{table} cannot be read, cut short perhaps ({error})"
            raise ProfileError(f"{self.path.name}: {why}") from None
