"""Exit codes of the command `isthmus` and their meanings, which `isthmus --help` prints.

In every command, code 0 becomes 3 if a file is unreadable, cut short, not a record file, gone since it was compacted,
or changed while it was read, because nobody knows what the missing jobs would have shown. The same happens if a command
prints figures next to cases that failed or are wrong, or next to results that disagree.
"""

LOST_OUTPUT = 1  # results could not be written, so nobody has read them; isthmus-bench has the same code
PASSED, FOUND, BAD_INPUT, UNDECIDED = 0, 1, 2, 3
FAULT = 4  # unexpected error; not 1, Python's code for an uncaught exception, since 1 is a verdict
CLOSED_PIPE = 141  # code that shells report for a program ended by SIGPIPE; not 0, since nobody read all results
EXIT_CODES = """\
exit codes:
  0  all is well, and every file was read
  1  what the command looks for was found; `isthmus compact`: a file was skipped; or stdout could not be written
  2  bad input; nothing was done
  3  too little is known to decide, or files could not be read or are gone; the rest shows nothing bad
  4  an error in Isthmus or in a plug-in, so nothing is known: please report the text on stderr"""


def with_absence(status: int, absent) -> int:
    """Returns `status`, or UNDECIDED instead of PASSED if `absent` lists anything that was not read or is in doubt."""
    return UNDECIDED if absent and status == PASSED else status
