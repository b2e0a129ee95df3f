"""Reading, judging and comparing Isthmus records."""

__version__ = "0.1.0"


class Error(ValueError):
    """What a user can mend: one sentence that says what, why and what to do."""
