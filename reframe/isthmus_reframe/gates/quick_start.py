"""Patch that avoids most of ReFrame's start-up time: a walk over the whole call stack for each suppressed warning.

ReFrame 4.10 reads the defaults of its own deprecated variables twice for each check, and suppresses the resulting
warnings. Each suppressed warning still searches the call stack for the line that caused it, and reads the source text
of every frame on the way. With this patch, a suppressed warning returns at once; all others are unchanged.
"""

import functools
import warnings

import reframe.core.fields as fields
import reframe.core.variables as variables
from reframe.core.warnings import ReframeDeprecationWarning, suppress_deprecations

with suppress_deprecations():
    _SUPPRESSED = warnings.filters[0]  # the filter that suppress_deprecations puts first


def install():
    """Installs the patch. Does nothing if ReFrame's code has changed, because ReFrame works without the patch."""
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
