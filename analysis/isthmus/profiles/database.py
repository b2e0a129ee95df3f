"""SQLite files of profilers."""

from __future__ import annotations

import contextlib
import pathlib
import re
import sqlite3
from collections.abc import Iterator

from isthmus import inputs
from isthmus.profiles.profile import ProfileError
from isthmus.tables import output

#: End of a table's name that tells the process it is of: rocpd_string_00006409_00d1_70d1_a5cb_b5ab88214544.
_SUFFIX = re.compile(r"_[0-9a-f_]{8,}$")


class Database:
    """Tables of an SQLite file that may be absent or lack columns; every value is given as it stands.

    Some tools write each table once for every process, with the process behind its name: `suffixes` lists these ends,
    and "" for tables without one. A view that joins such tables is not read beside them.
    """

    def __init__(self, path: pathlib.Path):
        self.path = path
        try:
            inputs.open_file(path).close()  # SQLite would wait for a FIFO
            self.connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
            self.connection.execute("PRAGMA query_only = 1")
            found = self.connection.execute("SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view')")
            kinds = dict(found.fetchall())
        except OSError as error:
            raise ProfileError(f"{path}: {error.strerror}") from None
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise ProfileError(f"{path.name}: no SQLite database, or cut short ({error})") from None
        ends = {name: match[0] for name in kinds if (match := _SUFFIX.search(name))}
        joined = {name.removesuffix(end) for name, end in ends.items()}
        self.tables = [name for name, kind in kinds.items() if kind == "table" or name not in joined]
        self.suffixes = sorted({ends.get(name, "") for name in self.tables})

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_) -> None:
        self.connection.close()

    def unread(self, known, ignored) -> dict[str, int]:
        """Rows of each table that is not known, nor begins as one that is no list of events; empty tables are none."""
        found: dict[str, int] = {}
        for table in self.tables:
            plain = _SUFFIX.sub("", table)
            if plain in known or plain.startswith(tuple(ignored)):
                continue
            if rows := self.count(table):
                found[plain] = found.get(plain, 0) + rows
        return found

    def count(self, table: str) -> int:
        """Rows of a table; 0 where there is no such table."""
        if table not in self.tables:
            return 0
        with self._readable(table):
            return self.connection.execute(f"SELECT count(*) FROM {output.identifier(table)}").fetchone()[0]

    def rows(self, table: str, columns) -> Iterator[dict]:
        """The columns of a table that it has, null for those it lacks; none where there is no such table.

        One row at a time, so that memory does not grow with the table.
        """
        if table not in self.tables:
            return
        quoted = output.identifier(table)
        with self._readable(table):
            there = {row[1] for row in self.connection.execute(f"PRAGMA table_info({quoted})")}
            selected = ", ".join(f'"{c}"' if c in there else "NULL" for c in columns)
            found = iter(self.connection.execute(f"SELECT {selected} FROM {quoted}"))
        while True:
            with self._readable(table):
                row = next(found, None)
            if row is None:
                return
            yield dict(zip(columns, row))

    @contextlib.contextmanager
    def _readable(self, table: str):
        try:
            yield
        except (sqlite3.Error, OverflowError, UnicodeDecodeError) as error:
            raise ProfileError(f"{self.path.name}: {table} cannot be read, cut short perhaps ({error})") from None
