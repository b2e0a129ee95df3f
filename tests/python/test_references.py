"""Tests of reference files: what is read, refused and found.

Without a reference, a figure must be a plausible share of its limit.
"""

import collections
import copy
import json
import pathlib
import statistics

import histories
import hypothesis
import pytest
import yaml
from hypothesis import strategies as st

from isthmus.records import load
from isthmus.references import lookup, selectors

ROOT = pathlib.Path(__file__).resolve().parents[2]
CATALOGUE = json.loads((ROOT / "reframe/checks/catalogue.json").read_text(encoding="utf-8"))
ENTRY = "- {workload: microbench/saxpy, metrics: {in: [0.25, -0.1, 0.1, s]}}\n"


def entries(tmp_path, text, name="a.yaml"):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return lookup.load_file(path)


def refused(tmp_path, text):
    with pytest.raises(lookup.BadReference) as error:
        entries(tmp_path, text)
    assert "\n" not in str(error.value)
    return str(error.value)


def case(**changes):
    return lookup.case_of(copy.deepcopy(histories.BASE), "main") | changes


# --- reading ---


def test_an_entry_holds_for_its_case_only(tmp_path):
    found = entries(tmp_path, ENTRY)
    assert lookup.find(found, case())["in"] == (0.25, -0.1, 0.1, "s")
    assert not lookup.find(found, case(workload="microbench/saxpy2"))


def test_numbers_are_written_as_people_write_them(tmp_path):
    (entry,) = entries(tmp_path, "- metrics: {in_rate: [55.5e9, -0.03, null, B/s], rate: [1E3, 0, 0, 1]}")
    assert entry.metrics["in_rate"].value == 55.5e9
    assert entry.metrics["rate"] == (1000.0, 0, 0, "1")


def test_index_and_ref(tmp_path):
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared/h200.yaml").write_text(ENTRY)
    text = """
$index: [partition, arch, driver]
main:
  sm_90:
    '580[.].*':
      - $ref: shared/h200.yaml
      - {workload: other/w, metrics: {time: [1.0, null, 0.1, s]}}
    '570[.].*': {$ref: shared/h200.yaml}
"""
    found = entries(tmp_path, text)
    assert len(found) == 3
    new = case(partition="main", arch="sm_90", driver="580.1")
    assert "in" in lookup.find(found, new)
    assert "in" in lookup.find(found, new | {"driver": "570.1"})
    for change in ({"driver": "550.1"}, {"arch": "sm_80"}, {"partition": "other"}):
        assert not lookup.find(found, new | change)


def test_what_an_entry_says_and_its_index_must_both_fit(tmp_path):
    text = "$index: [driver]\n'5.*':\n- {driver: '.*80[.].*', metrics: {in: [1, null, 0.1, s]}}\n"
    found = entries(tmp_path, text)
    assert lookup.find(found, case(driver="580.1"))
    assert not lookup.find(found, case(driver="570.1")) and not lookup.find(found, case(driver="x80.1"))


def test_files_that_each_name_the_next_one_twice_end(tmp_path, monkeypatch):
    """Writes few small files that would expand to very many entries. Each file must be read only once."""
    reads = []
    read = lookup.read_yaml
    monkeypatch.setattr(lookup, "read_yaml", lambda path: reads.append(path) or read(path))
    for width, depth, last, why in (
        (2, 19, ENTRY, "names files by [$]ref more than 2000 times"),
        (2001, 1, ENTRY, "names files by [$]ref more than 2000 times"),
        (30, 2, ENTRY * 100, "more than 50000 bounds, counting a file each time"),
    ):
        (tmp_path / f"p{depth}.yaml").write_text(last)
        for number in range(depth):
            (tmp_path / f"p{number}.yaml").write_text(f"- $ref: p{number + 1}.yaml\n" * width)
        reads.clear()
        with pytest.raises(lookup.BadReference, match=why):
            lookup.load_file(tmp_path / "p0.yaml")
        assert len(reads) == len(set(reads)) == depth + 1


def test_files_that_name_each_other_in_a_row_end(tmp_path):
    entries(tmp_path, ENTRY, "p2000.yaml")
    for number in range(2000):
        (tmp_path / f"p{number}.yaml").write_text(f"- $ref: p{number + 1}.yaml\n")
    assert len(lookup.load_file(tmp_path / "p1985.yaml")) == 1
    with pytest.raises(lookup.BadReference, match="more than 20 files that name each other"):
        lookup.load_file(tmp_path / "p0.yaml")


def aliases(first, each):
    """Returns 40 YAML keys. Each value contains the previous value twice."""
    lines = [f"a0: &a0 {first}", *(f"a{n}: &a{n} {each.replace('*', f'*a{n - 1}')}" for n in range(1, 40))]
    return "".join(f"  {line}\n" for line in lines)


@pytest.mark.parametrize(
    "text, why",
    [
        ("$fingerprints:\n" + aliases("[1, 1]", "[*, *]") + "w:\n  - metrics: {in: *a39}\n", "unfolds to more than"),
        ("$fingerprints:\n" + aliases("{a: 1}", "{a: *, b: *}") + "w:\n  - {axes: *a39}\n", "unfolds to more than"),
        ("w:\n  - &a {metrics: {in: *a}}\n", "contains itself"),
        ("w:\n  - &a [*a]\n", "contains itself"),
        (f"w: {'[' * 120}{']' * 120}\n", "has more than 100 levels"),
    ],
)
def test_aliases_that_repeat_each_other_are_one_sentence(tmp_path, text, why):
    assert f"it {why}" in refused(tmp_path, f"$index: [workload]\n{text}")


def test_aliases_that_repeat_little_are_read(tmp_path):
    text = "- metrics: {in: &a [1.0, -0.1, null, s], out: *a}\n" + "- metrics: {in: *a}\n" * 500
    assert len(entries(tmp_path, text)) == 501


def test_folders_below_are_read_through_ref_only(tmp_path):
    entries(tmp_path, ENTRY, "shared/h200.yaml")
    assert lookup.load(tmp_path) == ()
    assert lookup.load() == ()


def test_unknown_fields_of_a_case_may_be_anything(tmp_path):
    found = entries(tmp_path, ENTRY.replace("workload", "driver: '580.*', workload"))
    assert not lookup.find(found, case(driver="570"))
    assert lookup.find(found, {"workload": "microbench/saxpy"})


@pytest.mark.parametrize(
    "text, why",
    [
        ("$index: [partition, arhc]\nmain: {}", "$index names 'arhc'"),
        ("$index: []", "needs $index"),
        ("main: {}", "needs $index"),
        ("$index: [partition]\nmain: 3", "not a list of entries"),
        ("$index: [partition, arch]\nmain: []", "the level of 'arch' is not a mapping"),
        ("- {$ref: none.yaml}", "not a file next to"),
        ("- {$ref: a.yaml}", "names itself"),
        ("$index: [workload, workload]\na: {b: []}", "$index names 'workload' twice"),
        ("- {axes: {size: [1, 2]}, metrics: {in: [1, -0.1, null, s]}}", "axis size is neither a word nor a number"),
        ("- {$ref: 3}", "must be the only key and name a file"),
        ("- {$ref: b.yaml, workload: x}", "must be the only key"),
        (ENTRY.replace("0.25", "zero"), "is not [value, lower, upper, unit]"),
        (ENTRY.replace("0.25", ".nan"), "not a number"),
        (ENTRY.replace("0.25", "true"), "not a number"),
        (ENTRY.replace("-0.1", "0.1"), "must be at most 0"),
        (ENTRY.replace(" 0.1", " -0.1"), "must be at least 0"),
        (ENTRY.replace("-0.1", "-5"), "5% is written -0.05"),
        (ENTRY.replace(", s]", ", ms]"), "is in 'ms'"),
        (ENTRY.replace("microbench/saxpy", "'micro(bench'"), "not a regular expression"),
        (
            ENTRY.replace("[0.25, -0.1, 0.1, s]", "{value: 1, lower: 0, upper: 0, unit: s, fingerprint: f1}"),
            "is not in $fingerprints",
        ),
        (ENTRY.replace("workload", "axes: 3, workload"), "'axes' is not a mapping"),
        (ENTRY.replace("[0.25, -0.1, 0.1, s]", "{value: 1, unit: s}"), "lacks 'lower'"),
        (ENTRY.replace("[0.25, -0.1, 0.1, s]", "{value: 1, lower: 0, upper: 0, unit: s, m: 3}"), "unknown key 'm'"),
        ("- {workload: x, workload: y, metrics: {}}", "appears twice"),
        ("- {metrics: {in: [1, 0, 0, s], in: [2, 0, 0, s]}}", "appears twice"),
        ("- {shares: {in: 1.5}}", "write 0.7"),
        ("- {shares: {in: 0.5}, metrics: {in: [1, 0, 0, s]}}", "not a mapping with 'metrics'"),
        ("- {limit: x, metrics: {}}", "unknown key 'limit'"),
        ("- {limit: pcie, shares: {rate: 0.8}}", "'pcie' matches no limit that a record has; did you mean 'PCIe'?"),
        ("- {limit: PCI-Express, shares: {rate: 0.8}}", "did you mean 'PCIe'?"),
        ("- {limit: PCIe 9, shares: {rate: 0.8}}", "did you mean 'PCIe'?"),
        ("- {limit: HBM, shares: {rate: 0.8}}", "a limit begins with one of PCIe, NVLink, xGMI, peak device memory"),
        ("- {bytes_least: -1, shares: {rate: 0.8}}", "bytes_least is -1"),
        ("- {bytes_least: 1.0e+18, shares: {rate: 0.8}}", "but no figure moves that much"),
        ("a: &a [*a]", "it contains itself"),
        ("- !!python/object/apply:os.system ['true']", "not YAML"),
        ("- [", "not YAML"),
    ],
)
def test_what_cannot_hold_is_refused(tmp_path, text, why):
    assert why in refused(tmp_path, text)


LEVELS = f"$index: [partition, arch]\nlocal:\n  sm_90:\n  {ENTRY}"


@pytest.mark.parametrize("text, where", [
    ("", "a.yaml"), ("# to be written\n", "a.yaml"), ("[]", "a.yaml"), ("{}", "a.yaml: a mapping needs $index"),
    (LEVELS[: LEVELS.index("local")], "a.yaml"), (LEVELS[: LEVELS.index("sm_90")], "a.yaml, partition 'local'"),
    (LEVELS[: LEVELS.index("-")], "a.yaml, arch 'sm_90'"), (LEVELS + "gh200: {}\n", "a.yaml, partition 'gh200'"),
    (LEVELS + "gh200: {sm_90: []}\n", "a.yaml, arch 'sm_90'"), ("- {workload: x, metrics: {}}", "a.yaml, entry 1"),
    ("- {workload: x, shares: {}}", "a.yaml, entry 1, shares"),
])  # fmt: skip
def test_a_file_that_was_cut_short_is_refused(tmp_path, text, where):
    assert refused(tmp_path, text).startswith(where)
    assert "empty, like a file" in refused(tmp_path, text) or "needs $index" in where
    assert len(entries(tmp_path, LEVELS)) == 1


def test_a_cut_file_that_another_names_is_refused(tmp_path):
    (tmp_path / "below").mkdir()
    (tmp_path / "below/b.yaml").touch()
    assert "b.yaml: empty" in refused(tmp_path, "- $ref: below/b.yaml\n")


def test_a_file_that_is_no_text(tmp_path):
    (tmp_path / "a.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(lookup.BadReference):
        lookup.load_file(tmp_path / "a.yaml")


@hypothesis.given(st.binary(max_size=200))
@hypothesis.settings(deadline=None, max_examples=200)
def test_any_bytes_are_taken_or_refused(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "fuzz.yaml"
    path.write_bytes(content)
    try:
        lookup.load_file(path)
    except lookup.BadReference as error:
        assert str(error)


WORDS = st.sampled_from(
    ["workload", "metrics", "shares", "axes", "$index", "$ref", "$fingerprints", "fingerprint", "in", "driver", "value"]
)
TREES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5) | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=20,
)


@hypothesis.given(TREES)
@hypothesis.example([{"metrics": None, "shares": {}}])
@hypothesis.settings(deadline=None, max_examples=300)
def test_any_tree_is_taken_or_refused(tmp_path_factory, tree):
    path = tmp_path_factory.getbasetemp() / "tree.yaml"
    path.write_text(yaml.safe_dump(tree), encoding="utf-8")
    try:
        found = lookup.load_file(path)
    except lookup.BadReference as error:
        assert str(error)
    else:
        lookup.problems(found, CATALOGUE)


# --- finding ---


def test_two_references_for_one_figure_are_refused(tmp_path):
    with pytest.raises(lookup.BadReference, match="two references for in"):
        lookup.find(entries(tmp_path, ENTRY + ENTRY), case())


def test_axes_are_compared_by_value(tmp_path):
    found = entries(tmp_path, ENTRY.replace("workload", "axes: {n: 1024}, workload"))
    assert lookup.find(found, case(), {"n": 1024})
    assert not lookup.find(found, case(), {"n": 2048})
    with pytest.raises(lookup.BadReference, match="there is no axis 'n'"):
        lookup.find(found, case(), {"m": 1})
    with pytest.raises(lookup.BadReference, match="has values like"):
        lookup.find(found, case(), {"n": "1024"})


# --- shares of the nominal limit ---


def copy_at(generation, width, share, *, best=(5, 16), bytes_=1 << 30):
    """Returns a record of a page-locked copy over a link with the given trained generation and width, at `share` of the
    limit of this link."""
    record = copy.deepcopy(histories.BASE)
    record["workload"], record["axes"] = "transfer/pinned-gpu0/ce", {"bytes": bytes_}
    record["devices"][0]["pcie"] = dict(zip(("gen", "width", "gen_max", "width_max"), (generation, width, *best)))
    record["metrics"] = [
        histories.SECOND
        | {
            "name": "rate", "unit": "B/s", "better": "higher", "share": share,
            "limit": {"value": 1.0, "unit": "B/s", "source": f"PCIe {generation} x{width}"},
        }
    ]  # fmt: skip
    return record


def verdict(record, own=(), stated=None):
    return lookup.insane(own, record["metrics"][0], record, lookup.case_of(record, "main"), stated)


def test_a_link_trained_to_half_its_width_is_caught():
    assert verdict(copy_at(5, 16, 0.88)) is None
    why = verdict(copy_at(5, 8, 0.88))
    assert "44% of what PCIe 5 x16 (it runs as PCIe 5 x8) allows" in why and "70%" in why
    assert verdict(copy_at(4, 16, 0.88))  # trained to an older generation
    assert verdict(copy_at(5, 16, 0.6))  # trained correctly, but slow


def test_a_slot_of_half_the_width_is_caught_where_the_site_states_the_link():
    narrow = copy_at(5, 8, 0.88, best=(5, 8))
    assert verdict(narrow) is None
    assert "44% of what PCIe 5 x16" in verdict(narrow, stated={"pcie": "5 x16"})
    with pytest.raises(lookup.BadReference, match="'5 x16'"):
        verdict(narrow, stated={"pcie": "gen5"})


def test_small_copies_and_emulated_ones_are_not_held():
    assert verdict(copy_at(5, 8, 0.2, bytes_=4096)) is None
    assert verdict(copy_at(5, 8, 0.2) | {"emulated": True}) is None


def test_a_site_may_state_other_shares(tmp_path):
    own = entries(tmp_path, "- {workload: transfer/.*, shares: {rate: 0.4}}")
    assert verdict(copy_at(5, 8, 0.88), own) is None
    assert verdict(copy_at(5, 8, 0.7), own)
    assert verdict(copy_at(5, 8, 0.1), entries(tmp_path, "- {workload: transfer/.*, shares: {rate: null}}")) is None
    assert "more than 90%" in verdict(copy_at(5, 16, 0.95), entries(tmp_path, "- {shares: {rate: [0.5, 0.9]}}"))


def test_links_between_gpus_that_are_down():
    record = copy_at(5, 16, 0.82)
    record["workload"] = "transfer/gpu0-gpu1/ce"
    record["metrics"][0]["limit"]["source"] = "12 NVLinks of 26.56 GB/s"
    assert verdict(record) is None
    assert "18 NVLinks (12 are up)" in verdict(record, stated={"links": 18})


@pytest.mark.parametrize("path", sorted((ROOT / "papers/data").rglob("*.jsonl*")), ids=lambda p: p.name)
def test_what_was_measured_on_good_machines_is_sane(path):
    cases = collections.defaultdict(list)  # combines processes with one sample each if they measured the same case
    for record in load.iterate(path):
        selectors = lookup.case_of(record, "main")
        for metric in [] if record["profiler"] else record["metrics"]:  # omits profiled times
            case = record["host"].get("boot_id"), str(selectors), str(record["axes"]), record["preset"], metric["name"]
            if len(metric["samples"]) > 1 or not case[0]:
                case = (*case, len(cases))  # not combined with other records
            cases[case].append((metric["median"], len(cases[case]), metric, record, selectors))
    for measured in cases.values():
        _, _, metric, record, selectors = statistics.median_low(measured)
        assert lookup.insane((), metric, record, selectors) is None


def test_the_nominal_share_never_exceeds_that_of_the_trained_link():
    for generation in range(1, 7):
        for width in (1, 4, 8, 16):
            record = copy_at(generation, width, 0.8, best=(6, 16))
            share, _ = lookup.nominal(record["metrics"][0], record)
            assert 0 < share <= 0.8


# --- the catalogue ---


@pytest.mark.parametrize(
    "text, why",
    [
        (ENTRY.replace("saxpy", "saxpie"), "no workload of the catalogue"),
        (ENTRY.replace("workload", "mode: pmm, workload"), "no mode matches 'pmm'"),
        (ENTRY.replace("workload", "size: huge, workload"), "no size matches 'huge'"),
        ("- {workload: alloc/device, metrics: {aloc: [1, null, 0.9, s]}}", "reports 'aloc'"),
        *(
            (ENTRY.replace("workload", f"{selector}, workload"), why)
            for selector, why in (
                ("placement: pined", "no placement matches 'pined'; did you mean 'pinned'?"),
                ("staging: sync", "no staging matches 'sync'"),
                ("profiler: nsight", "no profiler matches 'nsight'"),
                ("ranks: 0", "no ranks matches '0'"),
                ("version: v1", "no version matches 'v1'"),
                ("driver: R580", "a record's is a version such as '580.159.04'"),
                ("driver: 570", "a record's is a version such as '580.159.04': write '570[.].*'"),
                ("driver: '570|580'", "no driver matches '570|580'"),
                ("driver: '5[78]0'", "no driver matches '5[78]0'; a record's is a version such as"),
                (r"driver: '5\d+'", "no driver matches"),
                ("driver: '570[.]'", "no driver matches '570[.]'"),
                ("compiler: gcc 13.*", "no compiler matches 'gcc 13.*'"),
                ("arch: sm90", "no arch matches 'sm90'; did you mean 'sm_90'?"),
                ("axes: {lenght: 3}", "no axis 'lenght' here"),
                ("axes: {n: many}", "axis n is 'many', but a record has values such as"),
            )
        ),
        (ENTRY.replace("microbench", "micorbench"), "no family of workloads called 'micorbench'; did you mean 'microb"),
        ("- {workload: transfer/pinned-gpu0/ce, shares: {rat: 0.8}}", "no workload of transfer/ reports 'rat'"),
        *(
            (ENTRY.replace("workload", f"{selector}, workload"), None)
            for selector in (
                "placement: managed.*",
                "staging: null",
                "ranks: 2|4",
                "driver: '5[78]0[.].*'",
                "driver: 570.86.10",
                "driver: '570[.]86'",
                "driver: '580.*'",
                "driver: '(570|580)[.].*'",
                "driver: '(?!570).*'",
                "driver: 'kernel 6[.]1[.]0-site'",
                "driver: kernel 6.*",
                "driver: 'CUDA 12[.].*'",
                "driver: null",
                "arch: 'gfx9[05]a?.*'",
                "compiler: 'NVIDIA 12[.]4[.].*'",
                "compiler: '.*GNU 12[.]2[.]0'",
                "profiler: null",
                "axes: {n: 7}",
            )
        ),
        (ENTRY, None),
        ("- {workload: transfer/pinned-gpu0/ce, metrics: {rate: [1, -0.9, null, B/s]}}", None),
        ("- {workload: alloc/device, metrics: {alloc: [1, null, 0.9, s]}}", None),
    ],
)
def test_typing_errors_are_found_by_the_catalogue(tmp_path, text, why):
    told = lookup.problems(entries(tmp_path, text), CATALOGUE)
    assert not told if why is None else len(told) == 1 and why in told[0]


@pytest.mark.parametrize("level, refused", [("'580'", True), ("580", True), ("'580[.].*'", False)])
def test_a_level_that_matches_no_driver_is_found(tmp_path, level, refused):
    told = lookup.problems(entries(tmp_path, f"$index: [driver]\n{level}:\n{ENTRY}"), CATALOGUE)
    assert ["write '580[.].*'" in each for each in told] == [True] * refused


def test_the_shares_of_this_package_name_what_there_is():
    assert lookup.problems(lookup.default_shares(), CATALOGUE) == []


def test_a_limit_is_found_by_its_kind_whatever_number_it_begins_with(tmp_path):
    """Checks that `limit: NVLink` matches "18 NVLinks of 26.56 GB/s", which does not begin with it."""
    (own,) = entries(tmp_path, "- {limit: NVLink, shares: {rate: 0.9}}")
    record = copy_at(5, 16, 0.8)
    record["metrics"][0]["limit"]["source"] = "18 NVLinks of 26.56 GB/s"
    assert "less than the 90%" in verdict(record, own=[own])


def test_every_limit_of_the_records_here_can_be_written():
    sources = set()
    for path in (ROOT / "papers/data").glob("h200*/*.jsonl.gz"):
        for record in load.iterate(path):
            sources |= {metric["limit"]["source"] for metric in record["metrics"] if metric.get("limit")}
    assert len(sources) > 5
    for source in sources:
        assert selectors.wrong_limit(source) is None
        assert selectors.wrong_limit(f"{source}$") is None
        assert any(selectors.meets_limit(kind, source) for kind in selectors.LIMITS)


def test_every_metric_of_a_made_family_can_be_written():
    found = {}
    for path in (ROOT / "papers/data").glob("*/*.jsonl.gz"):
        for record in load.iterate(path):
            family = record["workload"].partition("/")[0]
            found.setdefault(family, set()).update(metric["name"] for metric in record["metrics"])
    assert set(selectors.MADE) <= set(found)
    plain = {family: [n for n in names if not n.startswith(lookup.PROFILED)] for family, names in found.items()}
    assert {family: selectors.unknown_metrics(family, plain[family]) for family in selectors.MADE} == {
        family: [] for family in selectors.MADE
    }
