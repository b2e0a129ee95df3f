"""Cases of a run: workloads with the values of the axes that vary in the run."""

import contextlib
import itertools
import typing

from reframe.core.exceptions import SanityError


class Point(typing.NamedTuple):
    """Case of a run: a workload, and the values of the axes that vary in the run."""

    workload: str
    settings: tuple[tuple[str, int | str], ...] = ()

    def __str__(self):
        return " ".join([self.workload, *(f"{axis}={value}" for axis, value in self.settings)])


def points_of(workload: str, varied: dict[str, list]) -> list[Point]:
    return [Point(workload, tuple(zip(varied, values, strict=True))) for values in itertools.product(*varied.values())]


@contextlib.contextmanager
def naming(point):
    """Prefixes a sanity error that is raised in its block with the name of the case."""
    try:
        yield
    except SanityError as error:
        raise type(error)(f"{point}: {error}") from None
