"""Tests that ReFrame starts without stack walks for suppressed warnings.

All other warnings must still appear, with the right source line.
"""

import inspect
import warnings

import pytest
import reframe.core.fields as fields
import reframe.core.variables as variables
import reframe.core.warnings as reframe_warnings

from isthmus_reframe.gates import quick_start


@pytest.fixture
def walks(monkeypatch):
    """Installs quick_start and returns a list that has an element for each stack walk."""
    quick_start.install()
    found = []
    walk = inspect.stack
    monkeypatch.setattr(inspect, "stack", lambda *args: found.append(1) or walk(*args))
    return found


@pytest.mark.parametrize("module", [fields, variables])
def test_a_suppressed_warning_costs_nothing(module, walks):
    with warnings.catch_warnings(record=True) as given, reframe_warnings.suppress_deprecations():
        module.user_deprecation_warning("old")
    assert not walks and not given


@pytest.mark.parametrize("module", [fields, variables])
def test_any_other_is_given_as_ever(module, walks):
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        with reframe_warnings.suppress_deprecations():
            pass
        module.user_deprecation_warning("old")
        module.user_deprecation_warning("later", "99.0.0")
    assert len(walks) == 2 and [str(each.message) for each in given] == ["old"]


def test_installing_again_changes_nothing_and_a_reframe_without_it_is_taken(walks, monkeypatch):
    once = variables.user_deprecation_warning
    quick_start.install()
    assert variables.user_deprecation_warning is once
    monkeypatch.delattr(variables, "user_deprecation_warning")
    quick_start.install()
    assert not hasattr(variables, "user_deprecation_warning")


def test_checks_are_made_without_one_walk(walks):
    """Checks that creating checks does not walk the stack; if it did, it would take several times as long."""
    import reframe.core.builtins as builtins
    from reframe.core.exceptions import ReframeFatalError
    from reframe.core.pipeline import RunOnlyRegressionTest

    class Check(RunOnlyRegressionTest):
        size = builtins.parameter(range(3))

    for number in range(Check.num_variants):
        with pytest.raises(ReframeFatalError, match="no runtime"):  # raised after the check's variables are created
            Check(variant_num=number)
    assert not walks
