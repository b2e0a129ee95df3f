"""Tests of selections: a pattern that selects nothing is red, even if other patterns select something."""

import re
import types

import pytest
from reframe.core.exceptions import ReframeError
from reframe.frontend import filters

import isthmus_reframe.check  # noqa: F401, installs the gate
from conftest import ROOT
from isthmus_reframe.gates import selections

CHECKS = "transfer_modes.py"


@pytest.mark.parametrize(
    "pattern, parts",
    [
        ("saxpy", ["saxpy"]),
        ("saxpy|gemm", ["saxpy", "gemm"]),
        ("(saxpy|gemm)%.*tiny|InterJob", ["(saxpy|gemm)%.*tiny", "InterJob"]),
        (r"a\|b[|]c[\]|]d", [r"a\|b[|]c[\]|]d"]),
        ("/1234abcd", ["/1234abcd"]),
        ("", [""]),
    ],
)
def test_the_parts_of_a_pattern(pattern, parts):
    assert selections.alternatives(pattern) == parts
    for part in filter(None, parts):
        re.compile(part)


@pytest.mark.parametrize(
    "pattern, parts",
    [
        ("T.*(saxpy|gemm).*", ["T.*(saxpy|gemm).*", "T.*(saxpy).*", "T.*(gemm).*"]),
        ("(?:a|b)?c|d", ["(?:a|b)?c", "(?:a)?c", "(?:b)?c", "d"]),
        ("(?P<n>a|b)", ["(?P<n>a|b)", "(?P<n>a)", "(?P<n>b)"]),
        ("(a(b|c)|d)", ["(a(b|c)|d)", "(a(b|c))", "(a(b))", "(a(c))", "(d)"]),
        ("x(a|b)+y(a|b){2}", ["x(a|b)+y(a|b){2}"]),  # not split: repetitions may match different alternatives
        (r"\(a|b[(|)]", [r"\(a", "b[(|)]"]),
        (r"((a)|(b))\3", [r"((a)|(b))\3"]),
        ("", []),
    ],
)
def test_the_alternatives_of_groups(pattern, parts):
    assert selections.narrowed(pattern) == parts


def case(name, tags=(), environ="gnu"):
    check = types.SimpleNamespace(
        display_name=name, tags=set(tags), maintainers=["site"], hashcode="1234abcd", unique_name=name,
        is_fixture=lambda: False,
    )  # fmt: skip
    return types.SimpleNamespace(check=check, environ=types.SimpleNamespace(name=environ))


@pytest.fixture
def asked(monkeypatch):
    """Clears what earlier command lines selected. Returns ReFrame's options, which a test may set."""
    for name, empty in (("_asked", []), ("_filters", []), ("_seen", {})):
        monkeypatch.setattr(selections, name, empty)
    options = {"general/0/valid_env_names": [".*"]}
    monkeypatch.setattr(selections.runtime, "runtime", lambda: types.SimpleNamespace(get_option=options.get))
    return options


CASES = [case("saxpy tiny", {"smoke"}), case("gemm tiny", {"smoke", "micro"})]


@pytest.mark.parametrize(
    "names",
    [["saxpy", "gemm"], ["saxpy|gemm"], ["/1234abcd"], ["s[a|x]xpy"], ["(saxpy|gemm).*(tiny|)"], ["(?!conv|gemx)"]],
)
def test_names_that_each_select_something(asked, names):
    filters.have_any_name(names)
    selections.refuse_misses(CASES)


@pytest.mark.parametrize(
    "names, missed",
    [
        (["saxpy", "gem_m"], "-n 'gem_m' selects"),
        (["saxpy|gem_m"], "-n 'gem_m' of -n 'saxpy|gem_m' selects"),
        (["(saxpy|gem_m).*tiny"], "-n '(gem_m).*tiny' of -n '(saxpy|gem_m).*tiny' selects"),
        (["((sax|conv)py|gemm)"], "-n '((conv)py)' of"),
        (["/0000abcd", "gemm"], "-n '/0000abcd' selects"),
        (["saxpy", "gemm\r"], "selects no check"),
    ],
)
def test_a_name_that_selects_nothing_is_refused(asked, names, missed):
    filters.have_any_name(names)
    with pytest.raises(ReframeError, match=re.escape(missed)):
        selections.refuse_misses(CASES)


@pytest.mark.parametrize("option", ["-n", "-t", "-p"])
def test_an_empty_pattern_is_refused(asked, option):
    """Passes an empty pattern, such as an unset variable of a script. Otherwise, it would select every check."""
    if option == "-p":
        asked["general/0/valid_env_names"] = [""]
    else:
        {"-n": filters.have_any_name, "-t": filters.have_tag}[option]([""] if option == "-n" else "")
    with pytest.raises(ReframeError, match=f"{option} was given an empty pattern"):
        selections.refuse_misses(CASES)


@pytest.mark.parametrize("tag, missed", [("smoke", None), ("smoke|micro", None), ("smoke|defualt", "'defualt' of -t")])
def test_a_tag_that_selects_nothing_is_refused(asked, tag, missed):
    filters.have_tag(tag)
    if missed is None:
        selections.refuse_misses(CASES)
    else:
        with pytest.raises(ReframeError, match=missed):
            selections.refuse_misses(CASES)


def chosen_of(*kept, cases=None):
    """Returns the test cases that remain after ReFrame has applied the filters `kept` in order."""
    for keeps in kept:
        cases = list(filter(keeps, CASES if cases is None else cases))
    return cases


@pytest.mark.parametrize(
    "pattern, names, missed",
    [
        ("saxpy", ["tiny"], None),
        ("sax.y|saxpy", ["tiny"], None),  # both alternatives match the same checks
        ("NoSuchCheck", ["tiny"], "-x 'NoSuchCheck' excludes no check that is chosen without it"),
        ("saxpy|gem_m", ["tiny"], "-x 'gem_m' of -x 'saxpy|gem_m' excludes"),
        ("sax(py|pi)", ["tiny"], "-x 'sax(pi)' of"),
        ("saxpy", ["gemm"], "-x 'saxpy' excludes"),
        ("", ["tiny"], "-x was given an empty pattern"),
    ],
)
def test_a_name_that_excludes_nothing_is_refused(asked, pattern, names, missed):
    chosen = chosen_of(filters.have_not_name(pattern), filters.have_any_name(names))
    if missed is None:
        selections.refuse_misses(chosen)
    else:
        with pytest.raises(ReframeError, match=re.escape(missed)):
            selections.refuse_misses(chosen)


def test_checks_that_reframe_makes_of_chosen_ones_hide_nothing(asked):
    """Replaces the chosen checks by checks with other names and hashes, as --repeat and --distribute do."""
    assert chosen_of(filters.have_any_name(["/1234abcd"])) == CASES
    repeated = case("another")
    repeated.check.hashcode = "00000000"
    selections.refuse_misses([repeated])


def test_two_exclusions_may_exclude_the_same(asked):
    kept = [filters.have_not_name("saxpy"), filters.have_not_name("saxpytiny"), filters.have_any_name(["tiny"])]
    selections.refuse_misses(chosen_of(*kept))


@pytest.mark.parametrize(
    "tag, missed", [("micro", None), ("micro|miicro", "-T 'miicro' of"), ("nosuch", "-T 'nosuch'")]
)
def test_a_tag_that_excludes_nothing_is_refused(asked, tag, missed):
    chosen = chosen_of(filters.have_not_tag(tag))
    if missed is None:
        selections.refuse_misses(chosen)
    else:
        with pytest.raises(ReframeError, match=missed):
            selections.refuse_misses(chosen)


@pytest.mark.parametrize(
    "expression, missed",
    [
        ("mode == 'baseline' or mode == 'pm'", None),
        ("mode == 'baseline' or mode == 'uvm_asnc'", """-E "mode == 'uvm_asnc'" of -E "mode == 'baseline' or"""),
        ("mode in ('pm', 'uvm_asnc')", """-E "mode == 'uvm_asnc'" of"""),
        ("size == 'tiny' and (mode == 'pm' or mod == 'pm')", """-E "size == 'tiny' and mod == 'pm'" of"""),
        ("mode != 'pm'", None),
        ("mode != 'uvm_asnc'", """-E "mode == 'uvm_asnc'" of -E "mode != 'uvm_asnc'" excludes no check"""),
        ("mode not in ('pm', 'uvm_asnc')", """-E "mode == 'uvm_asnc'" of"""),
        ("size", None),
    ],
)
def test_a_part_of_an_expression_that_does_nothing_is_refused(asked, expression, missed):
    cases = [case("saxpy tiny"), case("gemm tiny")]
    for each, mode in zip(cases, ("baseline", "pm")):
        each.check.mode, each.check.size = mode, "tiny"
    chosen = chosen_of(filters.validates(expression), cases=cases)
    if missed is None:
        selections.refuse_misses(chosen)
    else:
        with pytest.raises(ReframeError, match=re.escape(missed)):
            selections.refuse_misses(chosen)


def test_an_environment_that_selects_nothing_is_refused(asked):
    asked_of = ((["gnu", "clnag"], "'clnag'"), (["gnu|clnag"], "'clnag' of"), (["(gnu|clnag)"], "'(clnag)' of"))
    for names, missed in asked_of:
        asked["general/0/valid_env_names"] = names
        with pytest.raises(ReframeError, match=re.escape(f"-p {missed}") + ".*selects no programming environment"):
            selections.refuse_misses(CASES)


@pytest.mark.parametrize(
    "name, meant",
    [("ISTHMUS_RESLUTS", "ISTHMUS_RESULTS"), ("ISTHMUS_NETWROK", "ISTHMUS_NETWORK"), ("ISTHMUS_OF_A_SITE", None)],
)
def test_a_misspelt_variable_is_refused(monkeypatch, name, meant):
    monkeypatch.setenv(name, "1")
    if meant is None:
        selections.refuse_misspelt_variables()
    else:
        with pytest.raises(ReframeError, match=f"{name}: did you mean {meant}"):
            selections.refuse_misspelt_variables()


@pytest.mark.parametrize(
    "options, site, why",
    [
        (
            (),
            {"env_vars": [["ISTHMUS_HOSTMEMORY", "8GiB"]]},
            "s:p: env_vars names ISTHMUS_HOSTMEMORY, which nothing reads",
        ),
        (
            ("-S", "env_vars=ISTHMUS_RESULT:/r"),
            None,
            "names ISTHMUS_RESULT, which nothing reads; did you mean ISTHMUS_RES",
        ),
        (("-S", "prerun_cmds=export ISTHMUS_GRAHP=/g"), None, "did you mean ISTHMUS_GRAPH?"),
    ],
)
def test_a_variable_that_jobs_get_and_nothing_reads_is_refused(session, options, site, why):
    outcome = session("-r", *options, site=site)
    assert outcome.returncode == 1 and not outcome.ran and why in outcome.output


def test_variables_of_this_tree_are_not_misspelt(monkeypatch):
    """Checks that every variable which scripts, sources or CI read is known."""
    read = r"""(?:\$\{?|getenv\("|environ\.get\("|environ\[")(ISTHMUS_[A-Z_]*[A-Z])"""
    files = [
        path
        for folder in ("scripts", "src", "reframe", "analysis/isthmus", "site-configs")
        for path in (ROOT / folder).rglob("*")
    ]
    for path in (*files, ROOT / ".ci/run"):
        if path.is_file() and path.suffix in ("", ".py", ".cpp", ".hpp"):
            for name in re.findall(read, path.read_text(encoding="utf-8", errors="replace")):
                monkeypatch.setenv(name, "1")
    selections.refuse_misspelt_variables()


def test_a_line_of_a_selection_that_matches_nothing_is_red(tree, wrapper):
    chosen = tree / "chosen"
    chosen.write_text("# a night\n\nsaxpy%mode=pm%.*tiny  # one\r\ngemm%mode=pm%.*tin_y")  # no newline at the end
    result = wrapper("--select", chosen)
    assert result.returncode == 1 and "Ran" not in result.stdout
    assert "-n 'gemm%mode=pm%.*tin_y' selects no check on this system" in result.stdout
    chosen.write_text(chosen.read_text().replace("tin_y", "tiny"))
    result = wrapper("--select", chosen)
    assert result.returncode == 0 and "Ran 2/2" in result.stdout


def test_a_selection_takes_lines_as_they_are_listed(tree, wrapper):
    listed = wrapper("-l", "-n", "saxpy%mode=pm%").stdout
    [line] = [line for line in listed.splitlines() if line.startswith("- TransferModes")]
    name, _, _hash = line.removeprefix("- ").rpartition(" /")
    chosen = tree / "chosen"
    for text in (line, name, f"\ufeff{name}\r\n", f"{name}  # {line}"):
        chosen.write_text(text, newline="")
        assert "Ran 1/1" in wrapper("--select", chosen).stdout, text
    for text in (name.replace("saxpy", "sapxy"), f"{name}x # a comment"):
        chosen.write_text(text)
        result = wrapper("--select", chosen)
        assert result.returncode == 1 and "no check matches this selection" in result.stdout, text


def test_a_path_without_checks_is_red_beside_one_with_some(session, tmp_path):
    outcome = session("-r", "-c", str(tmp_path / "bundels"))
    assert outcome.returncode == 1 and "bundels has no checks" in outcome.output
