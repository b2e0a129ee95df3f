"""Reading, judging and comparing Isthmus records. One folder a room; a room imports from those above it only:

records      what is a record, reading files of them, one table of many, on what machine they were measured
statistics   figures over jobs: series, how sure a figure is, what may be dealt out anew, the test that compares
tables       tables for people and for programs: medians, matrices, cache levels, counters; every format of output
verdicts     what a change did, noise, trials, drift, nodes unlike their equals, systems side by side
profiles     profilers' outputs in one form
references   what figures are held to: a site's references; the tree that sites are kept in
figures      pictures and pages: the report, and what notebooks draw with
faults       page faults of any CUDA program: recording them, what happened, what to do about it
advise       placements, batches of jobs and staging, from what a machine measured
site         a site's configuration: its mistakes, a first version, its node-hours

Beside them are what every room may use (exits, groups, inputs, options, plugins, spelling, start, streams, tools,
units, variables) and the command line (cli), which uses all.
"""

__version__ = "0.1.0"


class Error(ValueError):
    """What a user can mend: one sentence that says what, why and what to do."""


def frame(*paths, library: str | None = None, emulated: bool = False, everything: bool = False):
    """Record files or folders as a data frame of pandas, or of polars: one row for each metric of each record.

    `library` is "pandas" or "polars"; without it, whichever is installed, pandas first. Only what counts is taken
    (measured, verified, spoilt by nothing, on real hardware) unless `emulated` and `everything` say otherwise.
    Times are in seconds, rates in B/s, sizes in bytes; docs/output.md lists the columns. Raises Error.
    """
    from isthmus.tables import output, readings  # here: reading records needs neither DuckDB nor a library of frames

    table = readings.rows_of(paths, emulated=emulated, everything=everything)
    return output.frame(table.columns, table.rows, library)
