"""Spares ReFrame what takes most of its start: a walk over the whole call stack for each warning that it then drops.

ReFrame 4.10 reads the defaults of its own deprecated variables twice for each check, with the warnings about that
suppressed. Each of these still looks for the line to be named, with the source text of every frame on the way. Here a
warning that is suppressed returns at once; all others are what they were.
"""

import functools
import warnings

import reframe.core.fields as fields
import reframe.core.variables as variables
from reframe.core.warnings import ReframeDeprecationWarning, suppress_deprecations

with suppress_deprecations():
    _SUPPRESSED = warnings.filters[0]  # what suppress_deprecations puts first


def install():
    """Also of a ReFrame that has changed this: then there is nothing to spare, and nothing to fail for."""
    for module in (fields, variables):
        original = getattr(module, "user_deprecation_warning", None)
        if original is None or hasattr(original, "isthmus_quick") or _SUPPRESSED[2] is not ReframeDeprecationWarning:
            continue

        @functools.wraps(original)
        def user_deprecation_warning(*args, original=original, **kwargs):
            if not warnings.filters or warnings.filters[0] != _SUPPRESSED:
                original(*args, **kwargs)

        user_deprecation_warning.isthmus_quick = True
        module.user_deprecation_warning = user_deprecation_warning
