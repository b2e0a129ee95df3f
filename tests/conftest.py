"""Process settings and options that apply to every Python test."""

import pathlib
import signal
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[1]
LAST = ROOT / "build/reports/pytest.xml"  # report of the last `make test`

# A shell makes the commands it starts in the background ignore Ctrl-C. The default is restored here, because every
# process that the tests start would inherit this.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser):
    parser.addoption(
        "--at-most", type=float, metavar="SECONDS", help="leave out tests that took longer in the last `make test`"
    )


def slow(report: pathlib.Path, seconds: float) -> set[str]:
    """Returns the tests that took longer than `seconds`, as `tests.python.test_x::test_y` without slashes.

    Returns an empty set if the report does not exist.
    """
    if not report.is_file():
        return set()
    cases = xml.etree.ElementTree.parse(report).iter("testcase")
    took = {
        f"{case.get('classname')}::{case.get('name')}".replace("/", "."): float(case.get("time", 0)) for case in cases
    }
    return {name for name, time in took.items() if time > seconds}


def pytest_collection_modifyitems(config, items):
    limit = config.getoption("--at-most")
    if limit is None:
        return
    those = slow(LAST, limit)
    left_out = [item for item in items if item.nodeid.replace("/", ".").replace(".py::", "::", 1) in those]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in set(left_out)]
