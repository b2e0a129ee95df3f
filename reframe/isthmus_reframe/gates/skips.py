"""Report of cases that were skipped by checks that measured other cases, because ReFrame counts only whole checks."""

from isthmus import spelling

MOST_SHOWN = 10  # checks; ReFrame's report, which `isthmus nightly` reads, contains all of them


def report(checks, printer) -> None:
    """Shows the partly skipped checks at the end of a session."""
    partly = [check for check in checks if check.has_measured and check.skipped_cases]
    for check in partly[:MOST_SHOWN]:
        count = spelling.counted(len(check.skipped_cases), "case", "were")
        printer.warning(f"{check.display_name}: {count} skipped, the first is {check.skipped_cases[0]}")
    if len(partly) > MOST_SHOWN:
        printer.warning(f"cases were skipped in {spelling.counted(len(partly) - MOST_SHOWN, 'more check')}")
