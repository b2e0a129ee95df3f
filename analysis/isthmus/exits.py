"""Exit codes of the command `isthmus`: the one place that says what they mean; `isthmus --help` shows it.

What cannot be read changes them all: a file that is unreadable, cut short, no record file, gone since it was compacted,
or changed while it was read. Then 0 becomes 3, because what the missing jobs would have shown is not known. So it does
where a command gives figures beside cases that failed or are wrong, or beside results that disagree.
"""

LOST_OUTPUT = 1  # as of isthmus-bench: what was found could not be written, so nobody has read it
PASSED, FOUND, BAD_INPUT, UNDECIDED = 0, 1, 2, 3
FAULT = 4  # Python's own end by an exception is 1, which would be a verdict
CLOSED_PIPE = 141  # as shells say it of a program that SIGPIPE ended: a gate that nobody read has not passed
EXIT_CODES = """\
exit codes:
  0  all is well, and every file was read
  1  what the command looks for was found; `isthmus compact`: a file could not be taken; or stdout could not be written
  2  bad input, nothing was done
  3  too little is known to say, or files could not be read: what was read shows nothing bad
  4  a fault of Isthmus or of a plug-in, so nothing is known: please report what is on stderr"""


def with_absence(status: int, absent) -> int:
    """The exit code of a command that would end with `status`, but has not seen what is in `absent`, or doubts it."""
    return UNDECIDED if absent and status == PASSED else status
