"""Tests of the Spack package and the environments that do not need Spack; tests/spack/run tests them with Spack."""

import ast
import functools
import os
import pathlib
import re
import runpy
import shutil
import subprocess
import sys
import types

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from reframe.core.exceptions import ReframeError

from isthmus_reframe import spack_build

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
REPOSITORY = ROOT / "spack/spack_repo/isthmus"
PACKAGES = sorted(REPOSITORY.glob("packages/*/package.py"))
ALL_ENVIRONMENTS = sorted(path.parent for path in ROOT.glob("environments/*/spack.yaml"))
#: Environment of programs to compare with, which is not a site's environment.
YARDSTICKS = ROOT / "environments/yardsticks"
ENVIRONMENTS = [folder for folder in ALL_ENVIRONMENTS if folder != YARDSTICKS]


def loaded(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


# --- the package repository ---


class Package:
    """Directives of a package.py. Constants are evaluated; a loop's variable is represented as '{name}'."""

    def __init__(self, path):
        self.tree = ast.parse(path.read_text(encoding="utf-8"))
        self.calls = [node for node in ast.walk(self.tree) if isinstance(node, ast.Call)]

    def directives(self, name):
        """Yields (arguments, keywords) of each call of the directive `name`."""
        for call in self.calls:
            if isinstance(call.func, ast.Name) and call.func.id == name:
                yield [constant(a) for a in call.args], {k.arg: constant(k.value) for k in call.keywords}

    @functools.cached_property
    def workloads(self):
        assigned = {n.targets[0].id: n.value for n in self.tree.body if isinstance(n, ast.Assign)}
        return ast.literal_eval(assigned["WORKLOADS"])

    @property
    def variants(self):
        fixed = {arguments[0] for arguments, _ in self.directives("variant") if arguments[0]}
        return fixed | set(self.workloads) | {"cuda", "cuda_arch", "rocm", "amdgpu_target"}


def constant(node):
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


@pytest.fixture(scope="module")
def isthmus():
    return Package(REPOSITORY / "packages/isthmus/package.py")


def test_the_repository_says_what_it_is():
    assert loaded(REPOSITORY / "repo.yaml") == {"repo": {"namespace": "isthmus", "api": "v2.2"}}
    assert {path.parent.name for path in PACKAGES} >= {
        "isthmus", "py_duckdb", "py_plotly", "py_reframe_hpc", "py_rpds_py"
    }  # fmt: skip


@pytest.mark.parametrize("path", PACKAGES, ids=lambda path: path.parent.name)
def test_every_package_has_a_class_of_its_name_and_says_why_it_conflicts(path):
    package = Package(path)
    name = "".join(word.capitalize() for word in path.parent.name.split("_"))
    assert [n.name for n in package.tree.body if isinstance(n, ast.ClassDef)] == [name]
    for arguments, keywords in package.directives("conflicts"):
        assert "msg" in keywords, f"conflicts({arguments}) does not say what to do"
    for arguments, keywords in package.directives("version"):
        assert arguments[0] == "main" or "sha256" in keywords or "commit" in keywords, arguments


def recorded(path, monkeypatch):
    """Returns the directives (name, arguments, keywords) that a package's wheels(…) adds, without using Spack."""
    said = []
    spack = types.ModuleType("spack.package")
    for name in ("conflicts", "depends_on", "version"):
        setattr(spack, name, lambda *arguments, _name=name, **keywords: said.append((_name, arguments, keywords)))
    monkeypatch.setitem(sys.modules, "spack.package", spack)
    wheels = runpy.run_path(str(REPOSITORY / "build_systems/wheels.py"))["wheels"]
    (call,) = (c for c in Package(path).calls if isinstance(c.func, ast.Name) and c.func.id == "wheels")
    wheels(*map(ast.literal_eval, call.args))
    return said


OF_WHEELS = [path for path in PACKAGES if "\n    wheels(" in path.read_text()]


@pytest.mark.parametrize("path", OF_WHEELS, ids=lambda path: path.parent.name)
def test_there_is_a_wheel_for_each_python_and_processor_and_none_is_taken_for_another(path, monkeypatch):
    said = recorded(path, monkeypatch)
    versions = {arguments[0]: keywords for name, arguments, keywords in said if name == "version"}
    assert {v.split("-", 1)[1] for v in versions} == {
        f"cp3{minor}-{processor}" for minor in range(10, 15) for processor in ("aarch64", "x86_64")
    }
    for version, keywords in versions.items():
        _, python, processor = version.split("-")
        assert re.fullmatch("[0-9a-f]{64}", keywords["sha256"]) and not keywords["expand"]
        folder, file = re.fullmatch(r"https://[^/]+/packages/(.*)/([^/]+)\.whl", keywords["url"]).groups()
        assert re.fullmatch("[0-9a-f]{2}/[0-9a-f]{2}/[0-9a-f]{60}", folder)
        assert f"-{python}-{python}-" in file and file.endswith(f"_{processor}")
        needs = [a[0] for name, a, k in said if name == "depends_on" and k["when"] == f"@={version}"]
        assert needs == [f"python@3.{python.removeprefix('cp3')}"]
        refuses = [a[0] for name, a, k in said if name == "conflicts" and k.get("when") == f"@={version}"]
        assert refuses == [f"target={'x86_64' if processor == 'aarch64' else 'aarch64'}:"]
    assert len({k["sha256"] for k in versions.values()}) == len({k["url"] for k in versions.values()}) == len(versions)


def test_groups_of_workloads_are_those_of_the_build(isthmus):
    text = "".join((ROOT / path).read_text() for path in ("src/CMakeLists.txt", "src/microbench/CMakeLists.txt"))
    assert set(re.findall(r"^isthmus_workloads\((\w+)", text, re.MULTILINE)) == set(isthmus.workloads)


def test_every_check_belongs_to_a_group(isthmus):
    """Checks that every check is in a group, because it would otherwise be installed without its workloads."""
    checks = [check for _, checks in isthmus.workloads.values() for check in checks]
    assert sorted(checks) == sorted(path.name for path in (ROOT / "reframe/checks").glob("*.py"))


def test_the_package_sets_options_that_the_build_has(isthmus):
    text = "".join(p.read_text() for p in [ROOT / "CMakeLists.txt", *(ROOT / "cmake").glob("*.cmake")])
    source = (REPOSITORY / "packages/isthmus/package.py").read_text()
    for option in set(re.findall(r'"(ISTHMUS_\w+)"', source)) - {"ISTHMUS_BENCH", "ISTHMUS_GIT", "ISTHMUS_SHARE"}:
        assert re.search(rf"\b{option}\b", text), option


def test_python_packages_are_those_of_pyproject(isthmus):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = {}
    for requirement in [*project["dependencies"], *extras["analysis"], *extras["checks"]]:
        name, lowest = re.match(r"([\w-]+)(?:>=([\d.]+))?", requirement).groups()
        wanted[f"py-{name}"] = lowest
    given = {}
    for arguments, _ in isthmus.directives("depends_on"):
        name, _, versions = (arguments[0] or "").partition("@")
        if name.startswith("py-"):
            given[name] = versions.rstrip(":") or None
    assert given == wanted


def test_releases_are_the_tags(isthmus):
    listed = {a[0]: k for a, k in isthmus.directives("version") if a[0] != "main"}
    tags = subprocess.run(["git", "tag", "--list", "v*"], cwd=ROOT, capture_output=True, text=True, check=False)
    if tags.returncode != 0:
        pytest.skip("not a git clone: there are no tags to compare with")
    shallow = subprocess.check_output(["git", "rev-parse", "--is-shallow-repository"], cwd=ROOT, text=True)
    if shallow.strip() == "true":
        pytest.skip("a shallow clone has neither tags nor the commits of releases")
    tags = set(tags.stdout.split())
    assert tags <= {f"v{version}" for version in listed}, "a tag is no version of the package"
    for version, keywords in listed.items():
        assert keywords["tag"] == f"v{version}"
        # A release is listed before it is tagged, because the tagged tree must contain the release's line.
        command = ["git", "merge-base", "--is-ancestor", keywords["commit"], "HEAD"]
        assert subprocess.run(command, cwd=ROOT, check=False).returncode == 0, f"{version} is no commit of this history"
        if keywords["tag"] in tags:
            command = ["git", "rev-list", "-n", "1", keywords["tag"]]
            assert keywords["commit"] == subprocess.check_output(command, cwd=ROOT, text=True).strip()


def _tree_of(commit):
    listed = subprocess.check_output(["git", "ls-tree", "-r", "--name-only", commit], cwd=ROOT, text=True)
    return set(listed.splitlines())


def unfit(isthmus, commit):
    """Returns what the recipe needs but a commit lacks: groups of workloads, and files to install."""
    files = _tree_of(commit)
    command = ["git", "grep", "-hoE", "isthmus_workloads\\([a-z]+", commit, "--", "src"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    missing = sorted(set(isthmus.workloads) - set(re.findall(r"\((\w+)", found)))
    checks = [f"reframe/checks/{check}" for _, checks in isthmus.workloads.values() for check in checks]
    return missing + [
        path for path in (*checks, "scripts/run-checks", "schema/record.schema.json") if path not in files
    ]


def test_the_recipe_fits_every_version_that_it_offers(isthmus):
    """Checks every version, because Spack builds all of them with the same recipe."""
    for arguments, keywords in isthmus.directives("version"):
        assert unfit(isthmus, keywords.get("commit", "HEAD")) == [], arguments


def test_a_version_that_the_recipe_does_not_fit_is_found_out(isthmus):
    first = subprocess.check_output(["git", "rev-list", "--max-parents=0", "HEAD"], cwd=ROOT, text=True).split()[-1]
    assert "apps" in unfit(isthmus, first)


def test_a_spec_without_a_version_is_this_tree(isthmus):
    """Checks that main is preferred. By default, Spack prefers releases, but environments' `develop` refers to main."""
    assert [a[0] for a, k in isthmus.directives("version") if k.get("preferred")] == ["main"]


def test_the_package_says_whose_it_is(isthmus):
    names = {
        n.targets[0].id for n in ast.walk(isthmus.tree) if isinstance(n, ast.Assign) if hasattr(n.targets[0], "id")
    }
    assert {"git", "homepage"} <= names
    assert [arguments for arguments, _ in isthmus.directives("maintainers")] == [["isthmus"]]


def function(path, name, **known):
    """Returns a function of a package.py, without using Spack."""
    [node] = [n for n in Package(path).tree.body if isinstance(n, ast.FunctionDef) and n.name == name]
    exec(compile(ast.Module([node], []), str(path), "exec"), known)
    return known[name]


def test_the_source_is_the_clone_that_the_package_lies_in_or_what_is_named(tmp_path, monkeypatch):
    monkeypatch.delenv("ISTHMUS_GIT", raising=False)
    own = REPOSITORY / "packages/isthmus/package.py"
    source = {"os": os, "pathlib": pathlib}
    assert function(own, "clone", __file__=str(own), **source)() == ROOT or not (ROOT / ".git").exists()
    copied = tmp_path / "a/b/c/d/e/package.py"
    copied.parent.mkdir(parents=True)
    shutil.copy(own, copied)
    (tmp_path / "a/.git").mkdir()  # a clone of something else
    clone = function(copied, "clone", __file__=str(copied), **source)
    told = subprocess.run(["git", "clone", clone(), tmp_path / "x"], capture_output=True, text=True, check=False)
    assert told.returncode != 0 and "set ISTHMUS_GIT to a clone of Isthmus" in told.stderr
    monkeypatch.setenv("ISTHMUS_GIT", str(tmp_path / "mine"))
    assert clone() == tmp_path / "mine"


@pytest.mark.parametrize(
    ("left_out", "tests", "says"),
    [
        ("MICROBENCH", "OFF", "ISTHMUS_WORKLOADS_INTERJOB needs ISTHMUS_WORKLOADS_MICROBENCH: leave both out or none"),
        ("APPS", "ON", "The tests need all workloads, but apps are left out"),
        ("MEMORY", "ON", "The tests need all workloads, but memory are left out"),
    ],
)
def test_a_group_that_cannot_be_left_out_says_why(left_out, tests, says, tmp_path):
    options = ["-DISTHMUS_BACKEND=host", f"-DISTHMUS_TESTS={tests}", f"-DISTHMUS_WORKLOADS_{left_out}=OFF"]
    result = script("cmake", "-S", ROOT, "-B", tmp_path, "-G", "Ninja", *options)
    assert result.returncode != 0 and says in " ".join(result.stderr.split())


def test_groups_use_nothing_of_groups_that_may_be_left_out(isthmus):
    """Checks that groups use only common sources and groups declared by NEEDS. Otherwise, a build without a group would
    not link."""
    build = (ROOT / "src/microbench/CMakeLists.txt").read_text()
    group_of, known = {}, set()
    for group, rest in re.findall(r'^isthmus_workloads\((\w+) "[^"]*"\s+([\w\s]+)\)', build, re.MULTILINE):
        folders, _, needed = rest.partition("NEEDS")
        group_of |= dict.fromkeys(folders.split(), group)
        known |= {(group, other) for other in needed.split()}
    assert {*group_of.values(), "apps"} == set(isthmus.workloads)
    assert set(group_of) == {path.name for path in (ROOT / "src/microbench").iterdir() if path.is_dir()}
    for path in (ROOT / "src/apps").rglob("*.[ch]pp"):
        assert '#include "microbench/' not in path.read_text(), path.relative_to(ROOT)
    for path in (ROOT / "src/microbench").rglob("*.[ch]pp"):
        own = group_of.get(path.relative_to(ROOT / "src/microbench").parts[0])
        for folder in re.findall(r'#include "microbench/(\w+)/', path.read_text()):
            other = group_of[folder]
            assert own == other or (own, other) in known, f"{path.relative_to(ROOT)} uses {folder}"
    for group, needed in known:
        assert any(a[0] == f"~{needed}" and k.get("when") == f"+{group}" for a, k in isthmus.directives("conflicts"))


# --- the environments ---

EXTERNAL = {
    "type": "object",
    "properties": {
        "spec": {"type": "string", "pattern": r"^[a-z0-9-]+@[\w.]+( |$)"},
        "prefix": {"type": "string", "pattern": "^/"},
        "extra_attributes": {
            "type": "object",
            "properties": {
                "compilers": {
                    "type": "object",
                    "propertyNames": {"enum": ["c", "cxx", "fortran"]},
                    "additionalProperties": {"type": "string", "pattern": "^/"},
                    "required": ["c", "cxx"],
                }
            },
            "required": ["compilers"],
            "additionalProperties": False,
        },
    },
    "required": ["spec", "prefix"],
    "additionalProperties": False,
}
#: Schema with the words of Spack's configuration that are used here; any other word is probably a mistake.
SCHEMA = {
    "type": "object",
    "minProperties": 1,
    "additionalProperties": False,
    "properties": {
        "spack": {
            "type": "object",
            "required": ["include", "specs"],
            "additionalProperties": False,
            "properties": {
                "include": {
                    "type": "array",
                    "items": {
                        "anyOf": [
                            {"type": "string"},
                            {
                                "type": "object",
                                "required": ["path", "when"],
                                "properties": {"path": {"type": "string"}, "when": {"type": "string"}},
                                "additionalProperties": False,
                            },
                        ]
                    },
                },
                "specs": {"type": "array", "minItems": 1, "items": {"type": "string"}},
            },
        },
        "packages": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "additionalProperties": False,
                "properties": {
                    "buildable": {"const": False},
                    "externals": {"type": "array", "minItems": 1, "items": EXTERNAL},
                    "require": {"type": "array", "items": {"type": "string"}},
                    "providers": {"type": "object", "additionalProperties": {"type": "array"}},
                },
            },
        },
        "concretizer": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "unify": {"enum": [True, "when_possible"]},
                "reuse": {"const": False},
                "targets": {
                    "type": "object",
                    "properties": {"host_compatible": {"type": "boolean"}},
                    "additionalProperties": False,
                },
            },
        },
        "view": {"const": False},
        "repos": {"type": "object", "additionalProperties": {"type": "string"}},
        "repos:": {"type": "object", "additionalProperties": {"type": "string"}},
        "develop": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "required": ["spec", "path"],
                "properties": {"spec": {"type": "string"}, "path": {"type": "string"}},
                "additionalProperties": False,
            },
        },
    },
}
YAML_FILES = sorted(p for p in ROOT.glob("environments/**/*.yaml") if ".spack-env" not in p.parts)


@pytest.mark.parametrize("path", YAML_FILES, ids=lambda path: str(path.relative_to(ROOT / "environments")))
def test_configuration_has_only_words_that_we_use(path):
    jsonschema.Draft202012Validator(SCHEMA).validate(loaded(path))


@pytest.mark.parametrize(
    "wrong",
    [
        {"packages": {"cuda": {"external": []}}},
        {"packages": {"cuda": {"externals": [{"spec": "cuda@12.4"}]}}},
        {"packages": {"cuda": {"externals": [{"spec": "cuda", "prefix": "/usr"}]}}},
        {"spack": {"specs": ["isthmus"]}},
        {"spack": {"specs": [], "include": []}},
        {"concretiser": {"unify": True}},
        {},
    ],
)
def test_slips_are_found(wrong):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(SCHEMA).validate(wrong)


def includes(folder):
    return [i if isinstance(i, str) else i["path"] for i in loaded(folder / "spack.yaml")["spack"]["include"]]


@pytest.mark.parametrize("folder", ALL_ENVIRONMENTS, ids=lambda folder: folder.name)
def test_an_environment_shares_the_common_parts(folder):
    assert all((folder / path).exists() for path in includes(folder))
    # The first entry wins: first the repository of ISTHMUS_SPACK_BUILTIN, if set, and then the site's packages.
    own = ["packages.yaml"] if (folder / "packages.yaml").exists() else []
    assert includes(folder) == ["../common/offline", *own, "../common"]


def test_paths_of_the_common_parts_lead_somewhere():
    common = ROOT / "environments/common"
    assert (common / loaded(common / "repos.yaml")["repos"]["isthmus"]).resolve() == REPOSITORY
    offline = common / "offline"
    assert (offline / loaded(offline / "repos.yaml")["repos:"]["isthmus"]).resolve() == REPOSITORY
    # The path is relative to an environment, which is at the same depth in the tree as this folder.
    assert (common / loaded(common / "develop.yaml")["develop"]["isthmus"]["path"]).resolve() == ROOT


@pytest.mark.parametrize("folder", ENVIRONMENTS, ids=lambda folder: folder.name)
def test_specs_have_variants_that_exist_and_say_for_which_gpus(folder, isthmus):
    for spec in loaded(folder / "spack.yaml")["spack"]["specs"]:
        name, *words = re.sub(r"([+~])", r" \1", spec).split()
        assert name == "isthmus"
        settings = dict(word.split("=") for word in words if "=" in word)
        toggles = {word[1:]: word[0] == "+" for word in words if word[0] in "+~"}
        assert set(toggles) | set(settings) <= isthmus.variants | {"target"}, spec
        assert toggles.get("cuda", False) == ("cuda_arch" in settings), spec
        assert toggles.get("rocm", False) == ("amdgpu_target" in settings), spec
        if (folder / "packages.yaml").exists():
            packages = loaded(folder / "packages.yaml")["packages"]
            assert packages["all"]["require"] == [f"target={settings['target']}"]
            assert ("cuda" in packages) or not toggles.get("cuda"), spec
            assert {"hip", "hsa-rocr-dev", "llvm-amdgpu"} <= set(packages) or not toggles.get("rocm"), spec
            assert ("mpi" in packages) == toggles.get("mpi", False), spec
            for provider in packages["all"].get("providers", {}).get("mpi", []):
                # Otherwise `+cuda +mpi` does not concretise, because an external has exactly the variants it states.
                toolkits = {toolkit for toolkit in ("cuda", "rocm") if toggles.get(toolkit)}
                assert all(f"+{each}" in e["spec"] for each in toolkits for e in packages[provider]["externals"]), spec


@pytest.mark.parametrize("folder", [f for f in ENVIRONMENTS if f.name != "generic"], ids=lambda folder: folder.name)
def test_no_site_claims_to_have_been_run(folder):
    if folder.name != "example-slurm":
        texts = [(folder / name).read_text() for name in ("spack.yaml", "packages.yaml")]
        assert all("Not run there yet" in text for text in texts)


def test_the_yardsticks_are_of_one_chip_and_one_toolkit(isthmus):
    """Checks that all yardsticks are built alike, so that figures are comparable, and with Spack's own packages."""
    specs = loaded(YARDSTICKS / "spack.yaml")["spack"]["specs"]
    names = {spec.split()[0] for spec in specs}
    assert names == {"isthmus", "nvbandwidth", "babelstream", "osu-micro-benchmarks"}
    assert all("+cuda cuda_arch=90" in spec for spec in specs)
    assert names - {"isthmus"} == names - {path.parent.name.replace("_", "-") for path in PACKAGES}


def test_every_site_has_its_environment():
    for config in ROOT.glob("site-configs/*/reframe.py"):
        named = set(re.findall(r"""^[^#\n]*["']spack_environment["']:\s*["']([^"']+)""", config.read_text(), re.M))
        for path in named or {f"environments/{config.parent.name}"}:
            assert (ROOT / path / "spack.yaml").is_file(), f"{config.parent.name} names {path}"


# --- which spec a partition gets ---

TWO_KINDS = ["isthmus +mpi +cuda cuda_arch=80 target=zen3", "isthmus +mpi ~cuda target=zen3"]


@pytest.mark.parametrize(
    ("specs", "backend", "architectures", "mpi", "wanted"),
    [
        (TWO_KINDS, "cuda", ["80"], True, TWO_KINDS[0]),
        (TWO_KINDS, "cuda", [], True, TWO_KINDS[0]),
        (TWO_KINDS, None, [], True, TWO_KINDS[1]),
        (["isthmus"], None, [], False, "isthmus"),
        (["isthmus"], "gpu", [], False, "isthmus"),
        (["isthmus"], "cuda", ["80", "90"], True, "isthmus +cuda cuda_arch=80,90 +mpi"),
        (["isthmus-bench-data", "isthmus@main"], "hip", ["gfx90a"], False, "isthmus@main +rocm amdgpu_target=gfx90a"),
    ],
)
def test_spec_of_a_partition(specs, backend, architectures, mpi, wanted):
    assert spack_build.spec_for(specs, backend, architectures, mpi) == wanted


@pytest.mark.parametrize(
    ("specs", "backend", "architectures", "says"),
    [
        (["cmake"], None, [], "no spec of isthmus"),
        (TWO_KINDS, "cuda", ["90"], "the partition states 90"),
        (["isthmus"], "hip", [], "give its devices an 'arch'"),
    ],
)
def test_a_partition_without_a_spec_is_told_what_to_do(specs, backend, architectures, says):
    with pytest.raises(ReframeError, match=says):
        spack_build.spec_for(specs, backend, architectures, False)


ARCHITECTURES = st.lists(st.sampled_from(["80", "90", "gfx90a", "gfx942"]), max_size=3, unique=True)
SPECS = st.lists(
    st.sampled_from([*TWO_KINDS, "isthmus", "isthmus +rocm amdgpu_target=gfx90a,gfx942", "cmake"]), max_size=4
)


@given(SPECS, st.sampled_from([None, "gpu", "cuda", "hip"]), ARCHITECTURES, st.booleans())
def test_a_spec_has_what_the_partition_states_or_is_refused(specs, backend, architectures, mpi):
    try:
        spec = spack_build.spec_for(specs, backend, architectures, mpi)
    except ReframeError:
        return
    words = spec.split()
    assert ("+cuda" in words) == (backend == "cuda")
    assert ("+rocm" in words) == (backend == "hip")
    if backend in ("cuda", "hip"):
        built = next(w for w in words if w.startswith(("cuda_arch=", "amdgpu_target="))).partition("=")[2].split(",")
        assert set(architectures) <= set(built)
    assert "+mpi" in words or not mpi


@pytest.mark.parametrize("folder", ENVIRONMENTS, ids=lambda folder: folder.name)
def test_no_mpi_is_built_where_the_site_names_none(folder):
    specs = loaded(folder / "spack.yaml")["spack"]["specs"]
    named = any("+mpi" in spec for spec in specs)
    # The environment generic is not a site's, so that the user's Spack configuration decides what is installed.
    assert spack_build.may_use_mpi(folder) == (named or folder.name == "generic")


@pytest.mark.parametrize(
    "text, why",
    [
        ("spack: {specs: [isthmus], specs: []}", "the key 'specs' appears twice"),
        ("spack: &a {specs: [*a]}", "it contains itself"),
        ("spack:\n", "has no specs of spack: write it as docs/spack.md says"),
        ("[]", "has no specs of spack"),
    ],
)
def test_an_environment_that_cannot_be_read_is_one_sentence(tmp_path, text, why):
    (tmp_path / "spack.yaml").write_text(text)
    with pytest.raises(ReframeError, match=re.escape(why)):
        spack_build._section(tmp_path / "spack.yaml", ["spack", "specs"], list)


# --- the scripts ---


def script(*arguments, **options):
    return subprocess.run(list(map(str, arguments)), capture_output=True, text=True, check=False, **options)


def test_a_copy_of_an_environment_leaves_the_tree_alone(tmp_path):
    copied = script(ROOT / "scripts/spack-environment", "generic", tmp_path / "copy")
    assert copied.returncode == 0, copied.stderr
    copy = tmp_path / "copy/environments/generic"
    assert not copy.is_symlink() and (copy / "spack.yaml").is_file()
    assert all((copy / path).exists() for path in includes(ROOT / "environments/generic"))
    assert (copy / "../../spack/spack_repo/isthmus/repo.yaml").resolve() == REPOSITORY / "repo.yaml"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["spack-environment", "atlantis", "copy"], "there is no environment 'atlantis'; choose from "),
        (["spack-environment", "common", "copy"], "there is no environment 'common'"),
        (["spack-environment", "generic"], "usage: "),
        (["airgap"], "no command is given; choose from pack|"),
        (["airgap", "unpack"], "no command 'unpack'"),
        (["airgap", "mirror", "generic"], "mirror takes a site and a folder"),
    ],
)
def test_wrong_arguments_get_one_sentence(arguments, says, tmp_path):
    result = script(ROOT / "scripts" / arguments[0], *arguments[1:], cwd=tmp_path)
    assert result.returncode == 2 and says in result.stderr and len(result.stderr.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_installing_from_an_empty_folder_is_refused(tmp_path):
    result = script(ROOT / "scripts/airgap", "install", "generic", tmp_path / "nothing")
    assert result.returncode == 1 and "run 'scripts/airgap pack'" in result.stderr
