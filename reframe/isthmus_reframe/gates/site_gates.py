"""Gates on what a site's configuration and references say, which `isthmus site check` would show beforehand."""

import contextlib
import functools
import pathlib

import reframe.core.runtime as runtime
from reframe.core.exceptions import ReframeError

from isthmus import spelling
from isthmus.references import lookup, site_tree
from isthmus.site import settings
from isthmus_reframe import catalogue


def refuse_settings(testcases, printer) -> None:
    """Raises ReframeError for settings without effect: what they were written for would be unmeasured, and unmissed."""
    config = runtime.runtime().site_config  # as a whole: --system leaves out partitions that are looked at, too
    if why := site_tree.unwieldy(config._site_config):
        raise ReframeError(why)
    found = [str(each) for each in settings.problems(config._site_config, runtime.runtime().system.name)]
    if _is_dry(testcases):  # it submits nothing, and may be away from the machine
        for each in found:
            printer.warning(each)
    elif found:
        more = f" ({len(found) - 1} more like this)" if found[1:] else ""
        raise ReframeError(f"{found[0]}{more}; `isthmus site check` shows all that is wrong")


def refuse_job_options(testcases, job_options: list[str]) -> None:
    """Raises ReframeError for a -J that no scheduler of the chosen checks takes, or that one of them would not know."""
    schedulers = {case.partition.scheduler.registered_name for case in testcases}
    takers = schedulers - {"local"} or schedulers
    for option in job_options:
        for scheduler in sorted(takers):
            if why := settings.wrong_option(scheduler, _as_job_option(option), f"-J {option}"):
                raise ReframeError(f"{why}: leave it out" if scheduler == "local" else why)


def _as_job_option(option: str) -> str:
    """Returns what ReFrame makes of the value of -J."""
    name, _, value = option.partition("=")
    if option.startswith(("-", "#")):
        return option
    return f"-{name} {value}" if len(name) == 1 else f"--{name}={value}"


def configuration_files() -> list[str]:
    """The files that this session's configuration was read from, without ReFrame's own."""
    return [source for source in runtime.runtime().site_config.sources if source and source != "<builtin>"]


def _files_of_system() -> list[str]:
    """Configuration files whose references hold here: all but those that define other systems alone."""
    config, name = runtime.runtime().site_config, runtime.runtime().system.name
    defined = config._definitions["systems"]
    if [system["name"] for system in config._site_config["systems"]].count(name) > 1:  # of which it knows the last file
        return configuration_files()
    others = set(defined.values()) - {defined[name]}
    return [file for file in configuration_files() if file not in others]


@functools.cache  # each figure is held to them
def _references() -> tuple[tuple[lookup.Entry, ...], list[str]]:
    """References of the current system, and a sentence for each file that is next to them and never read."""
    places = dict.fromkeys(folder for file in _files_of_system() for folder in lookup.folders(pathlib.Path(file)))
    opened: set[pathlib.Path] = set()
    return lookup.load(*places, opened=opened), lookup.never_read(places, opened)


def references() -> tuple[lookup.Entry, ...]:
    """References of the current system, from next to each of its configuration files. Raises BadReference."""
    return _references()[0]


def idle_references(printer) -> list[str]:
    """References that can hold nothing at this site. They end a session red, but measured: see refuse_idle()."""
    config = runtime.runtime().site_config
    defined, files = config._definitions["systems"], _files_of_system()
    own = [system for system in config._site_config["systems"] if defined[system["name"]] in files]
    found = []
    with contextlib.suppress(lookup.BadReference):  # of which each check says so
        found = lookup.problems(references(), catalogue.load())
        found += lookup.idle(references(), site_tree.partitions_of({"systems": own}))
        found += _references()[1]
    for each in found:
        printer.warning(each)
    return found


def refuse_idle(found: list[str], testcases) -> None:
    """Raises ReframeError, once everything is measured, where idle_references() found some."""
    if found and not _is_dry(testcases):
        which = "it" if len(found) == 1 else f"all {len(found)} such entries"
        raise ReframeError(f"{found[0]}; mend or remove {which}")


_passed_over: dict[str, list[tuple]] = {}  # of each such entry its limit, and the limits of the figures


def note_limits(metric: dict, case: dict, selectors: dict) -> None:
    """Notes the site's shares that a figure without a reference would be held to, were it of another limit."""
    for entry in lookup.passed_over(references(), metric, case, selectors):
        _passed_over.setdefault(entry.where, []).append((entry.limit, metric["limit"]["source"]))


def report_limits(printer) -> None:
    """Shows shares of the site that held no figure of this session for their `limit` alone."""
    for where, noted in _passed_over.items():
        sources = ", ".join(dict.fromkeys(source for _, source in noted))
        figures = spelling.counted(len(noted), "figure")
        printer.warning(
            f"{where}: its limit {noted[0][0]!r} is not that of the {figures} that it is for otherwise ({sources}), so "
            "the usual share held: correct the limit, or leave it out"
        )
    _passed_over.clear()


def _is_dry(testcases) -> bool:
    return all(case.check.is_dry_run() for case in testcases)
