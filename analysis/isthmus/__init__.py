"""Reading and, later, comparing Isthmus records."""

__version__ = "0.1.0"
