"""Reading of whole records from files and folders, for commands that need more than the table of records contains."""

from __future__ import annotations

import os
import pathlib

from isthmus import Error, exits, spelling
from isthmus.records import compacted, copies, jobs, load, places, validate


def read_files(paths, asked=None) -> tuple[list[dict], int]:
    """Returns the records in files and folders, with printable texts, and the command's exit code.

    Files that cannot be read are reported before anything else; `asked` contains the command's arguments. Raises Error
    if no record remains.
    """
    cases, absent, total = [], [], 0
    seen = copies.Seen()
    for files, skipped in _find(paths):
        total += len(files) + len(skipped)
        absent += skipped
        for file in files:
            bad: list[validate.RecordError] = []
            records = [spelling.spelt(record) for _, record in load.sound_lines(file, bad)]
            skipped_here = [load.in_part(file, bad, len(records))] if bad else []
            absent += skipped_here
            if not any(each.newer for each in skipped_here):
                cases += [record for record in records if not seen.is_copy(record, file)]
    if not cases:
        if absent:
            raise Error(load.nothing_taken(paths, absent))
        raise Error(load.no_record(paths))
    load.say_absent(absent, total, asked)
    copies.say(seen.pairs)
    places.name_hosts_of(cases)
    jobs.name_jobs_of(cases)
    return cases, exits.with_absence(exits.PASSED, absent)


def _find(paths):
    """Yields, for each path, its files and those that cannot be read.

    The last pair reports records that are only in compacted tables, which lack samples.
    """
    met, found = [], []
    for path in paths:
        if compacted.find(path):
            raise Error(
                f"{path}: a compacted table, which lacks the samples needed here; name the folder that it was made from"
            )
        here: list[str] = []
        files, skipped = load.find(path, here)
        own = pathlib.Path(path) / compacted.COMPACTED
        if table := compacted.find(own):
            present = {os.path.relpath(file, path): file for file in files}
            skipped += compacted.lost(table, path, present, compacted.changed(table, present), skipped)
        elif len(paths) > 1 and not here:
            skipped += load.without_files(path, files, skipped)
        met += [folder for folder in here if pathlib.Path(folder) != own]
        found += files
        yield files, skipped
    elsewhere, skipped = compacted.unread(met, paths, found)
    why = "a compacted table of {}, which lacks the samples needed here; name that folder as well, or move this away"
    yield [], [*skipped, *(load.Skipped(str(table.folder), why.format(source)) for table, source in elsewhere)]
