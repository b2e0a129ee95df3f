"""Reading, judging and comparing Isthmus records."""

__version__ = "0.1.0"


class Error(ValueError):
    """What a user can mend: one sentence that says what, why and what to do."""


def frame(*paths, library: str | None = None, emulated: bool = False, everything: bool = False):
    """Record files or folders as a data frame of pandas, or of polars: one row for each metric of each record.

    `library` is "pandas" or "polars"; without it, whichever is installed, pandas first. Only what counts is taken
    (measured, verified, spoilt by nothing, on real hardware) unless `emulated` and `everything` say otherwise.
    Times are in seconds, rates in B/s, sizes in bytes; docs/output.md lists the columns. Raises Error.
    """
    from isthmus import output, readings  # here: reading records needs neither DuckDB nor a library of frames

    table = readings.rows_of(paths, emulated=emulated, everything=everything)
    return output.frame(table.columns, table.rows, library)
