"""Analysis of Isthmus records: reading, judging and comparing them. A folder imports only from those above it:

records      records: validating and reading them, one table of many, the machines they were measured on
statistics   figures over jobs: series, intervals, what may be permuted, the test that compares
tables       tables for people and for programs: medians, matrices, cache levels, counters; every format of output
verdicts     effects of a change, noise, trials, drift, nodes that differ from their equals, systems side by side
profiles     profilers' outputs in one form
references   references that a site's figures are compared with; the tree that sites are kept in
figures      figures and pages: the report, and plots for notebooks
faults       page faults of any CUDA program: recording them, what happened, what to do about it
advise       placements, batches of jobs and staging, from what a machine measured
site         a site's configuration: its mistakes, a first version, its node-hours

Next to them are modules that every folder may use (exits, groups, inputs, options, plugins, spelling, start, streams,
tools, units, variables) and the command line (cli), which uses all of them.
"""

__version__ = "0.1.0"


class Error(ValueError):
    """Error that the user can correct: one sentence that says what is wrong, why, and what to do."""


def frame(*paths, library: str | None = None, emulated: bool = False, everything: bool = False):
    """Returns record files or folders as a data frame of pandas or polars, with a row for each metric of each record.

    `library` is "pandas" or "polars", by default whichever is installed, pandas first. Only figures that count are
    included (measured, verified, valid, on real hardware) unless `emulated` and `everything` say otherwise. Times are
    in seconds, rates in B/s, sizes in bytes; docs/output.md lists the columns. Raises Error if there are no records,
    or if no such library is installed.
    """
    from isthmus.tables import output, readings  # here: reading records needs neither DuckDB nor data frames

    table = readings.rows_of(paths, emulated=emulated, everything=everything)
    return output.frame(table.columns, table.rows, library)
