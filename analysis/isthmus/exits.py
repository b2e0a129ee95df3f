"""Exit codes of the command `isthmus` and their meanings, which `isthmus --help` prints.

Every command's code depends on what could not be read: a file that is unreadable, cut short, not a record file, gone
since it was compacted, or changed while it was read. Code 0 then becomes 3, because nobody knows what the missing jobs
would have shown. The same happens where a command gives figures next to cases that failed or are wrong, or next to
results that disagree.
"""

LOST_OUTPUT = 1  # same as isthmus-bench's: results could not be written, so nobody has read them
PASSED, FOUND, BAD_INPUT, UNDECIDED = 0, 1, 2, 3
FAULT = 4  # differs from 1, Python's own code of an exception, which would be a verdict
CLOSED_PIPE = 141  # code that shells give to a program ended by SIGPIPE: a gate that nobody read has not passed
EXIT_CODES = """\
exit codes:
  0  all is well, and every file was read
  1  what the command looks for was found; `isthmus compact`: a file could not be taken; or stdout could not be written
  2  bad input, nothing was done
  3  too little is known to say, or files could not be read: what was read shows nothing bad
  4  a fault of Isthmus or of a plug-in, so nothing is known: please report what is on stderr"""


def with_absence(status: int, absent) -> int:
    """Returns `status`, but UNDECIDED for PASSED if `absent` lists anything that was not seen or is in doubt."""
    return UNDECIDED if absent and status == PASSED else status
