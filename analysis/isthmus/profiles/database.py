"""SQLite files of profilers."""

from __future__ import annotations

import pathlib
import re
import sqlite3

from isthmus import inputs
from isthmus.profiles.profile import ProfileError
from isthmus.tables import output


class Database:
    """Tables of an SQLite file that may be absent or lack columns; every value is given as it stands."""

    def __init__(self, path: pathlib.Path):
        self.path = path
        try:
            inputs.open_file(path).close()  # SQLite would wait for a FIFO
            self.connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
            self.connection.execute("PRAGMA query_only = 1")
            names = self.connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')").fetchall()
        except OSError as error:
            raise ProfileError(f"{path}: {error.strerror}") from None
        except sqlite3.Error as error:
            raise ProfileError(f"{path.name}: no SQLite database, or cut short ({error})") from None
        self.tables = [name for (name,) in names]

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_) -> None:
        self.connection.close()

    def table(self, name: str) -> str | None:
        """This table, or the one that has a suffix of the process behind its name, as rocpd's have."""
        if name in self.tables:
            return name
        return next((t for t in self.tables if re.fullmatch(re.escape(name) + r"_[0-9a-f_]{8,}", t)), None)

    def unread(self, known, ignored) -> dict[str, int]:
        """Rows of each table that is not known, nor begins as one that is no list of events; empty tables are none."""
        found: dict[str, int] = {}
        for table in self.tables:
            plain = re.sub(r"_[0-9a-f]{8}_[0-9a-f_]{8,}$", "", table)
            if plain in known or plain.startswith(tuple(ignored)) or (plain != table and plain in self.tables):
                continue
            try:
                (rows,) = self.connection.execute(f"SELECT count(*) FROM {output.identifier(table)}").fetchone()
            except (sqlite3.Error, OverflowError, UnicodeDecodeError):
                raise ProfileError(f"{self.path.name}: {table} cannot be read, cut short perhaps") from None
            if rows:
                found[plain] = found.get(plain, 0) + rows
        return found

    def rows(self, name: str, columns) -> list[dict]:
        """The columns of a table that it has, null for those it lacks; none where there is no such table."""
        table = self.table(name)
        if table is None:
            return []
        quoted = output.identifier(table)
        try:
            there = {row[1] for row in self.connection.execute(f"PRAGMA table_info({quoted})")}
            selected = ", ".join(f'"{c}"' if c in there else "NULL" for c in columns)
            found = self.connection.execute(f"SELECT {selected} FROM {quoted}").fetchall()
        except (sqlite3.Error, OverflowError, UnicodeDecodeError) as error:
            raise ProfileError(f"{self.path.name}: {name} cannot be read, cut short perhaps ({error})") from None
        return [dict(zip(columns, row)) for row in found]
