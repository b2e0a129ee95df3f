"""Compacted table of a folder: reading its manifests, and checking that its parts are unaltered."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Iterable
from time import time_ns

from isthmus import Error, inputs, spelling
from isthmus.records import load, validate
from isthmus.records.load import Skipped
from isthmus.records.measurements import COLUMNS, columns_of, list_of, literal

COMPACTED = "compacted"  # name of the folder, inside a folder of records, in which `isthmus compact` stores its table


REPLACED = "its records differ from the compacted ones, which no longer count; give each file its own name"


@dataclasses.dataclass
class Compacted:
    """Contents of a compacted folder's manifests."""

    folder: pathlib.Path
    files: dict[str, list]  # name → size, time, inode and SHA-256 of a source file when it was last compacted
    parts: list[str]
    outdated: list[tuple[str, str]]  # (part, file) whose rows a later part replaces, or whose file is gone
    source: str | None = None  # folder from which the table was made, as in source_of(); None if no manifest names it


_MOST_OF_MANIFEST = 1024 * inputs.MIB  # maximum size of a manifest, which needs about 300 bytes per file
_AT_ONCE = 2_000_000_000  # ns; two edits within this time may leave the file with the same time stamp


def entry(path, signature: list[int]) -> list:
    """Returns a manifest's entry for a file with this signature.

    The entry's time is null if a later edit could have the same time stamp.
    """
    digest = inputs.sha256(path)
    size, changed, inode = signature
    return [size, changed if time_ns() - changed > _AT_ONCE else None, inode, digest]


def seal(path) -> list:
    """Returns a manifest's entry for a part, for unchanged(). It always has a time, since parts are never rewritten."""
    signature = load.signature(path)
    return [*signature, entry(path, signature)[3]]


def unchanged(path, known: list) -> bool:
    """Returns whether a file still matches its entry in a manifest.

    If only time or inode differ, the hash decides. An empty file never counts as unchanged, so that it is reported
    whenever it is read.
    """
    try:
        size, *when = load.signature(path)
        return size > 0 and size == known[0] and (when == known[1:3] or entry(path, [size, *when])[3] == known[3])
    except OSError:
        return False


def has_grown(path, known: list) -> bool:
    """Returns whether a file that changed still begins with the content that its manifest entry describes.

    Otherwise it is another file with the same name.
    """
    try:
        return inputs.sha256(path, first=known[0]) == known[3]
    except OSError:
        return True  # an unreadable file, which is reported when it is read


def source_of(root, folder) -> str:
    """Returns a manifest's name for the folder from which a table is made.

    The name of the table's parent folder is "..", so that both can be moved together.
    """
    root = os.path.realpath(root)
    return ".." if os.path.dirname(os.path.realpath(folder)) == root else root


def _manifest(path: pathlib.Path) -> tuple[dict[str, list], dict[str, list], list[str], str | None]:
    """Reads a manifest: files, parts with their seals, files that are gone, and the source folder."""
    try:
        manifest = inputs.json_of(inputs.read_small(path, _MOST_OF_MANIFEST))
        files, gone = dict(manifest["files"]), list(manifest.get("gone", ()))
        ours = manifest["columns"] == list(COLUMNS) and manifest.get("schema") == validate.SCHEMA
        parts = dict(manifest["parts"]) if ours else {}
        source = manifest.get("source")
        if not all(isinstance(name, str) for name in (*files, *parts, *gone, source or "")):
            raise TypeError("a name is not text")
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        why = spelling.shorten(str(getattr(error, "strerror", None) or error))
        raise Error(f"{path}: not a manifest of a compacted table ({why}); remove it and compact again") from None
    known = [*files.values(), *parts.values()]
    if not ours or not all(isinstance(each, list) and len(each) == 4 for each in known):
        raise Error(f"{path.parents[1]}: compacted by another version of Isthmus; remove this folder and compact again")
    for part in parts:
        if pathlib.PurePosixPath(part).is_absolute() or ".." in pathlib.PurePosixPath(part).parts:
            raise Error(f"{path.parents[1]}: a manifest names a part outside of it ({spelling.shorten(part)})")
    return files, parts, gone, source


def _refuse_gap(manifests: list[pathlib.Path]) -> None:
    """Raises Error unless the numbers of a table's manifests are consecutive from 1."""
    for number, path in enumerate(manifests, start=1):
        if path.stem != f"{number:08d}":
            missing = path.with_name(f"{number:08d}.json")
            raise Error(
                f"{missing}: a manifest of this compacted table is gone, so the parts that it names would be left out; "
                "restore it, or remove the table and compact its files again"
            )


def unnamed(table: Compacted) -> list[Skipped]:
    """Returns the parts in the table's folder that no manifest names, so that they are never read."""
    why = (
        "a part that no manifest of this compacted table names; unless files are being compacted, restore it, or "
        "compact the files again and remove this part"
    )
    known = set(table.parts)
    found = [path.relative_to(table.folder) for path in table.folder.glob("family=*/month=*/*.parquet")]
    return [Skipped(str(table.folder / part), why) for part in sorted(found) if str(part) not in known]


def find(folder) -> Compacted | None:
    """Returns the compacted table in this folder, or None if there is none.

    Raises Error if a manifest or a part is missing, altered or unreadable, or if two folders were compacted into the
    table.
    """
    folder = pathlib.Path(folder)
    result = Compacted(folder, {}, [], [])
    held: dict[str, list[list[str]]] = {}  # file → parts of each of its versions
    seals: dict[str, list] = {}
    try:
        found = load.manifests(folder)
    except OSError as error:
        raise Error(f"{folder / load.MANIFESTS}: {error.strerror}; make it readable, or move it away") from None
    _refuse_gap(found)
    for path in found:
        files, parts, gone, source = _manifest(path)
        if result.source and source and source != result.source:
            raise Error(
                f"{folder}: this table was made from two folders ({result.source} and {source}), whose files of the "
                "same name hide each other; remove it, and compact each folder into its own table"
            )
        result.source = result.source or source
        for file, known in files.items():
            held.setdefault(file, []).append(list(parts))
            result.files[file] = known
        for file in gone:
            held.setdefault(file, []).append([])
            result.files.pop(file, None)
        seals |= parts
    for file, versions in held.items():
        older = {part for parts in versions[:-1] for part in parts} - set(versions[-1])
        result.outdated += [(part, file) for part in sorted(older)]
    result.parts = list(seals)
    for part, known in seals.items():
        try:
            there = inputs.status_of(folder / part)
        except OSError as error:
            raise Error(f"{folder / part}: {error.strerror}; restore this part of the compacted table") from None
        if not there:
            raise Error(f"{folder / part}: a part of the compacted table is gone; remove the folder and compact again")
        if not unchanged(folder / part, known):
            raise Error(
                f"{folder / part}: this part of the compacted table has been altered since it was written (its SHA-256 "
                "differs); remove the folder and compact again"
            )
    return result if found else None


def changed(table: Compacted, present: dict[str, str]) -> list[str]:
    """Returns the names of compacted files that are gone or have changed since they were compacted.

    `present` maps the names of existing files, relative to the source folder, to their paths.
    """
    return [name for name, known in table.files.items() if name not in present or not unchanged(present[name], known)]


def lost(table: Compacted, path, present: dict[str, str], names: list[str], skipped: list[Skipped]) -> list[Skipped]:
    """Reports those of the changed files `names` below `path` that are gone or no longer begin with their old content.

    `names` is the result of changed() for `present`; `skipped` contains files that could not be examined.
    """
    found = []
    for name in names:
        file = os.path.join(path, name)
        if name not in present:
            if not hidden(file, skipped):
                found.append(Skipped(file, "compacted, but gone since then; `isthmus compact` drops it from the table"))
        elif not has_grown(present[name], table.files[name]):
            found.append(Skipped(file, f"{REPLACED} (`isthmus compact` takes it as it is now)", has_part=True))
    return found


def unread(
    met: Iterable[str], tops: Iterable, files: Iterable[str]
) -> tuple[list[tuple[Compacted, str]], list[Skipped]]:
    """Finds compacted tables with records that are not in any of the files being read.

    `met` contains the tables' folders, which are below the folders `tops` that are read; `files` are the files that are
    read from `tops`. Returns two lists: the tables that were made from a folder outside `tops`, each with that folder,
    because their records are not in any other input; and reports about the other tables.
    """
    folders: dict[str, str] = {}

    def real(path: str) -> str:
        folder, name = os.path.split(path)
        if folder not in folders:
            folders[folder] = os.path.realpath(folder)
        return os.path.join(folders[folder], name)

    elsewhere, skipped = [], []
    tables = {os.path.realpath(folder): folder for folder in met}
    present = set(map(real, files)) if tables else set()
    for place, folder in tables.items():
        try:
            table = find(folder)
        except Error as error:
            skipped.append(Skipped(folder, f"a compacted table that cannot be read ({error})"))
            continue
        if table is None:
            continue
        source = os.path.realpath(os.path.join(place, table.source or ".."))
        missing = [name for name in table.files if real(os.path.join(source, name)) not in present]
        is_elsewhere = not any(load.is_below(source, os.path.realpath(top)) for top in tops)
        if missing and is_elsewhere and len(missing) == len(table.files):
            elsewhere.append((table, source))
            skipped += unnamed(table)
        elif missing:
            why = (
                f"a compacted table with {spelling.counted(len(missing), 'file')} of {source} that are gone or not "
                f"being read, such as {missing[0]}; name the table to read it, or update it with `isthmus compact`"
            )
            skipped.append(Skipped(folder, why))
    return elsewhere, skipped


def parts(table: Compacted, changed: list[str], wanted) -> str:
    """Returns SQL for the rows of the parts, without outdated rows and rows of `changed` files, which are read raw."""
    names = ", ".join(f'"{name}"' for name in COLUMNS if name in {*columns_of(wanted), "metric_index", *wanted})
    paths = list_of(table.folder / part for part in table.parts)
    query = f"SELECT {names} FROM read_parquet({paths}, filename = '_part', hive_partitioning = false)"
    without = []
    if changed:
        without.append(f"file NOT IN ({', '.join(map(literal, changed))})")
    if table.outdated:
        pairs = ", ".join(f"({literal(table.folder / part)}, {literal(file)})" for part, file in table.outdated)
        without.append(f"(_part, file) NOT IN ({pairs})")
    return query + (" WHERE " + " AND ".join(without) if without else "")


def hidden(path: str, skipped: list[Skipped]) -> bool:
    """Returns whether a path is in `skipped` or inside a folder in it, so that the file may exist unseen."""
    return any(path == each.path or path.startswith(each.path + os.sep) for each in skipped)
