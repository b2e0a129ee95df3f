"""Tests that `isthmus site check` reports each mistake in one sentence, and nothing for a site without mistakes."""

import copy
import json
import os
import pathlib
import runpy
import shutil
import string
import subprocess
import sys
import tempfile

import pytest
import reframe
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from isthmus import Error, cli, exits, inputs
from isthmus.references import site_tree
from isthmus.site import capabilities
from isthmus.site import check as site_check
from isthmus.site import settings as site_settings

ROOT = pathlib.Path(__file__).resolve().parents[2]

GOOD = {
    "systems": [
        {
            "name": "atlantis",
            "hostnames": [r"^atl\d+"],
            "modules_system": "nomod",
            "partitions": [
                {
                    "name": "gpu",
                    "scheduler": "squeue",
                    "launcher": "srun",
                    "access": ["--partition=gpu"],
                    "environs": ["gnu"],
                    "max_jobs": 4,
                    "time_limit": "1h",
                    "features": ["gpu", "cuda", "peer"],
                    "extras": {"isthmus": {"maintainers": ["triton"]}},
                    "devices": [{"type": "gpu", "arch": "sm_90", "num_devices": 4}],
                    "resources": [{"name": "gpu", "options": ["--gpus-per-node={num_gpus_per_node}"]}],
                }
            ],
        }
    ],
    "environments": [{"name": "gnu", "target_systems": ["atlantis"], "features": ["mpi"]}],
}
LAUNCH = "- {workload: driver/launch, metrics: {submit: [1.0e-6, null, 0.1, s]}}\n"
REFERENCE = "- {workload: microbench/saxpy, metrics: {in: [0.25, -0.1, 0.1, s]}}\n"


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "reframe/checks").mkdir(parents=True)
    shutil.copy(ROOT / "reframe/checks/catalogue.json", tmp_path / "reframe/checks")
    (tmp_path / "site-configs").mkdir()
    return tmp_path


def put(tree, configuration, name="atlantis", references=None, readme="# A site"):
    folder = tree / "site-configs" / name
    (folder / "references").mkdir(parents=True, exist_ok=True)
    (folder / "reframe.py").write_text(
        configuration if isinstance(configuration, str) else f"site_configuration = {configuration!r}\n"
    )
    if readme:
        (folder / "README.md").write_text(readme)
    if references is not None:
        (folder / "references/all.yaml").write_text(references)


def check(tree, capsys, *arguments):
    capsys.readouterr()
    status = cli.main(["site", "check", "--root", str(tree), *arguments])
    shown = capsys.readouterr()
    assert all(len(line) <= 80 for line in shown.out.splitlines())
    return status, shown.out.replace("\n  ", " ") + shown.err


def assert_refused(tree, capsys, why, *arguments):
    status, shown = check(tree, capsys, *arguments)
    assert status == exits.FOUND
    assert why in shown
    assert "Traceback" not in shown


def changed(**settings):
    """Returns the good configuration with changed settings of its partition. A value of None removes a setting."""
    configuration = copy.deepcopy(GOOD)
    partition = configuration["systems"][0]["partitions"][0]
    for key, value in settings.items():
        if value is None:
            del partition[key]
        else:
            partition[key] = value
    return configuration


@pytest.fixture(autouse=True)
def no_program(monkeypatch):
    monkeypatch.delenv("ISTHMUS_BENCH", raising=False)


def test_a_good_site_has_no_errors_and_no_notes(tree, capsys):
    put(tree, GOOD, references=REFERENCE)
    status, shown = check(tree, capsys)
    assert status == exits.PASSED
    assert shown == "1 site, 0 errors\n"


@pytest.mark.parametrize("key", sorted(site_settings._COMPILING))
def test_what_the_build_does_not_read_is_an_error(tree, capsys, key):
    configuration = copy.deepcopy(GOOD)
    configuration["environments"][0][key] = "x" if key in ("cc", "cxx", "ftn", "nvcc") else ["-O3"]
    put(tree, configuration)
    assert_refused(tree, capsys, f"{key} has no effect, because the build does not read it")


def test_each_key_that_reframe_knows_is_read_or_refused():
    """Compares all keys of ReFrame's schema with those handled here, so that a new key fails until it is handled."""
    schema = json.loads((pathlib.Path(reframe.__file__).parent / "schemas/config.json").read_text())
    environment = schema["properties"]["environments"]["items"]["properties"]
    partition = schema["properties"]["systems"]["items"]["properties"]["partitions"]["items"]["properties"]
    read = {
        "env_vars",
        "extras",
        "features",
        "modules",
        "name",
        "prepare_cmds",
        "resources",
        "target_systems",
        "variables",
    }
    assert set(environment) == read | set(site_settings._COMPILING)
    read = {
        "access",
        "descr",
        "devices",
        "env_vars",
        "environs",
        "extras",
        "features",
        "launcher",
        "max_jobs",
        "modules",
        "name",
        "prepare_cmds",
        "processor",
        "resources",
        "sched_options",
        "scheduler",
        "time_limit",
        "variables",
    }
    assert set(partition) == read | {"container_platforms"}


def gpu(**settings):
    return [{"type": "gpu", "arch": "sm_90", "num_devices": 4} | settings]


@pytest.mark.parametrize(
    "settings, why",
    [
        ({"features": ["gpu", "cuda", "wc"]}, "states 'wc', which is now called 'write_combined'; write that"),
        ({"extras": {"isthmus": {"capabilities": ["malloc"]}}}, "which is now called 'pageable'; write that"),
        ({"features": ["gpu", "cuda", "peeer"]}, "'peeer' is a feature that no check asks for; did you mean 'peer'?"),
        ({"extras": {"isthmus": {"capabilities": ["managd"]}}}, "did you mean 'managed'?"),
        ({"extras": {"isthmus": {"require_refernce": True}}}, "did you mean 'require_reference'?"),
        ({"extras": {"isthmus": {"require_reference": "in"}}}, "write True, False or a list of metrics"),
        ({"extras": {"isthmus": {"device_memory": "much"}}}, "'much'; write an amount such as '80GiB'"),
        ({"features": ["gpu", "cuda", "hip"]}, "both CUDA and HIP"),
        ({"features": ["gpu", "hip"]}, "'sm_90' is not of the vendor"),
        ({"devices": None}, "states a GPU but no devices"),
        ({"devices": [{"type": "gpu", "arch": "sm_90"}]}, "without 'num_devices'"),
        ({"devices": [{"type": "gpu", "num_devices": 4}]}, "without 'arch'"),
        ({"devices": gpu(arch="hopper")}, "neither like sm_90 nor like gfx942"),
        ({"devices": gpu(num_devices=1)}, "states 'peer' with fewer than two GPUs"),
        ({"features": ["peer"], "devices": None}, "states 'peer' but no GPU"),
        ({"features": []}, "not the feature 'gpu'"),
        ({"features": ["gpu", "hip", "xnack"], "devices": gpu(arch="gfx942")}, "'xnack' without ['HSA_XNACK', '1']"),
        ({"resources": []}, "no resource 'gpu', so jobs request none"),
        ({"resources": [{"name": "gpus", "options": []}]}, "did you mean 'gpus'?"),
        ({"resources": [{"name": "gpu", "options": ["--gpus={gpus}"]}]}, "{gpus} is never filled in"),
        ({"launcher": "local"}, "launcher 'local' under squeue"),
        ({"launcher": "flux-run"}, "'flux-run' is a command of flux-batch, but the scheduler is 'squeue'"),
        ({"scheduler": "pbs"}, "'srun' is a command of slurm, but the scheduler is 'pbs'"),
        ({"scheduler": "pbs", "launcher": "mpiexec"}, "'--partition=gpu': qsub of PBS has no options with two dashes"),
        ({"extras": {"isthmus": {"maintainers": "triton"}}}, "maintainers is 'triton'; write a list of names"),
        ({"launcher": "srnu"}, "did you mean 'srun'?"),
        ({"scheduler": "sqeue"}, "did you mean 'squeue'?"),
        ({"scheduler": "flux"}, "use 'flux-batch'"),
        ({"scheduler": "local", "launcher": "local", "max_jobs": 4}, "set max_jobs to 1"),
        ({"scheduler": "local", "launcher": "local", "max_jobs": None}, "set max_jobs to 1"),
        ({"environs": []}, "lists no environment"),
        ({"environs": ["gnnu"]}, "environment 'gnnu' is not defined for this system; did you mean 'gnu'?"),
        ({"access": ["--partition=gpu --qos=debug"]}, "one string for each"),
        ({"no_such_key": 1}, "ReFrame refuses it"),
        # Settings that have no effect.
        ({"extras": {"istmus": {"maintainers": ["t"]}}}, "'istmus', which nothing reads; did you mean 'isthmus'?"),
        ({"extras": {"Isthmus": {}}}, "did you mean 'isthmus'?"),
        ({"extras": {"device_memory": "80GiB"}}, "write {'isthmus': {'device_memory': …}}"),
        ({"extras": {"isthmus": {"device_memry": "80GiB"}}}, "did you mean 'device_memory'?"),
        ({"extras": {"isthmus": {"colour": "red"}}}, "'colour', which is not a setting of the checks; there are"),
        ({"extras": {"isthmus": ["triton"]}}, "not a mapping of settings"),
        (
            {"extras": {"isthmus": {"capabilities": ["warehouse"]}}},
            "'warehouse' is a capability that no check asks for",
        ),
        ({"extras": {"isthmus": {"capabilities": "peer"}}}, "write a list of names"),
        ({"extras": {"isthmus": {"device_memory": "80"}}}, "device_memory is '80'; write an amount such as '80GiB'"),
        ({"extras": {"isthmus": {"device_memory": 80}}}, "device_memory is 80; write an amount"),
        ({"extras": {"isthmus": {"host_memory": "0GiB"}}}, "host_memory is '0GiB'; write an amount"),
        ({"extras": {"isthmus": {"host_memory": "-1GiB"}}}, "host_memory is '-1GiB'; write an amount"),
        ({"extras": {"isthmus": {"host_memory": "80GB"}}}, "host_memory is '80GB'; write an amount"),
        ({"extras": {"isthmus": {"shared_nodes": "no"}}}, "shared_nodes is 'no'; write True or False"),
        ({"extras": {"isthmus": {"links": "18"}}}, "links is '18'; write their number"),
        ({"extras": {"isthmus": {"links": 0}}}, "links is 0; write their number"),
        ({"extras": {"isthmus": {"pcie": "5x16"}}}, "pcie is '5x16'; write generation and lanes"),
        ({"extras": {"isthmus": {"pcie": "9 x16"}}}, "pcie is '9 x16'; write generation and lanes"),
        ({"extras": {"isthmus": {"require_reference": []}}}, "write True, False or a list of metrics"),
        ({"extras": {"isthmus": {"require_reference": ["in_ratte"]}}}, "did you mean 'in_rate'?"),
        ({"modules": "cuda"}, "modules is the text 'cuda', and must be a list: write ['cuda']"),
        ({"modules": ["cuda/99.9"]}, "modules (cuda/99.9) are never loaded: modules_system is 'nomod'"),
        ({"access": ["--partition=gpu", "--account=FILL_IN"]}, "access '--account=FILL_IN' is still to be filled in"),
        ({"env_vars": [["PROJECT_HOME", "/p/FILL_IN"]]}, "env_vars '/p/FILL_IN' is still to be filled in"),
        ({"devices": gpu(arch="FILL_IN")}, "devices is still to be filled in (FILL_IN)"),
        ({"devices": gpu(num_devices=0)}, "num_devices is 0; write a whole number of at least 1"),
        ({"devices": gpu(num_devices=-4)}, "num_devices is -4; write a whole number"),
        ({"devices": gpu(num_devices=2.5)}, "num_devices is 2.5; write a whole number"),
        ({"devices": gpu(num_devices="4")}, "num_devices is '4'; write a whole number"),
        ({"devices": gpu(type="GPUs")}, "a device of type 'GPUs', which no check looks at; did you mean 'gpu'?"),
        ({"devices": [{"type": "gpu", "arch": "sm_90", "num_device": 4}]}, "a device has 'num_device', which nothing"),
        ({"sched_options": {"use_node_option": True}}, "did you mean 'use_nodes_option'?"),
        ({"max_jobs": 0}, "max_jobs is 0; write a whole number of at least 1"),
        ({"max_jobs": "4"}, "max_jobs is '4'; write a whole number of at least 1"),
        ({"time_limit": "0m"}, "time_limit is '0m'; write an amount of time"),
        ({"time_limit": "60"}, "time_limit is '60'; write an amount of time"),
        ({"access": ["partition=gpu"]}, "is not an option of sbatch, because it does not begin with '-'"),
        ({"access": ["--partition=gpu", "--acount=p42"]}, "sbatch has no such option; did you mean '--account'?"),
        ({"scheduler": "local", "launcher": "mpirun", "max_jobs": 1}, "the scheduler 'local' takes no options"),
        ({"scheduler": "lsf", "launcher": "mpirun"}, "'--partition=gpu': bsub of LSF has no options with two dashes"),
        ({"launcher": "local"}, "environment gnu states 'mpi', but launcher 'local' starts one process"),
        ({"features": ["gpu", "cuda", "write-combined"]}, "did you mean 'write_combined'?"),
        ({"features": ["gpu", "cuda", "Peer"]}, "did you mean 'peer'?"),
        ({"features": ["gpu", "cuda", "manageed"]}, "did you mean 'managed'?"),
        ({"features": ["gpu", "cuda", "maanged"]}, "did you mean 'managed'?"),
        # Variables named ISTHMUS_… that nothing reads, in every setting in which a site can set variables.
        ({"env_vars": [["ISTHMUS_HOSTMEMORY", "8GiB"]]}, "env_vars names ISTHMUS_HOSTMEMORY, which nothing reads; did"),
        ({"env_vars": [["ISTHMUS_RESULT", "/s/r"]]}, "which nothing reads; did you mean ISTHMUS_RESULTS?"),
        ({"env_vars": [["ISTHMUS_RESULTS", "/s/r"]]}, "sets ISTHMUS_RESULTS, which no job reads: leave it out, or"),
        ({"env_vars": [["ISTHMUS_HOST_MEMORY", "8G"]]}, "sets ISTHMUS_HOST_MEMORY to '8G'; write a number of bytes"),
        ({"env_vars": [["ISTHMUS_BACKEND", "nvidia"]]}, "to 'nvidia'; choose cuda, hip or host"),
        ({"prepare_cmds": ["export ISTHMUS_NETWROK=/n"]}, "did you mean ISTHMUS_NETWORK?"),
        ({"prepare_cmds": ["source x; export A=$ISTHMUS_GRAHP"]}, "did you mean ISTHMUS_GRAPH?"),
        ({"access": ["--partition=gpu", "--export=ALL,ISTHMUS_HOSTMEM=1"]}, "names ISTHMUS_HOSTMEM, which nothing"),
        (
            {"resources": [{"name": "gpu", "options": ["--gpus=4", "--export=ISTHMUS_UVMS=1"]}]},
            "did you mean ISTHMUS_UVM?",
        ),
        ({"container_platforms": [{"type": "Singularity", "env_vars": [["ISTHMUS_NVLM", "/x"]]}]}, "ISTHMUS_NVML?"),
        ({"container_platforms": [{"type": "Singularity"}]}, "container_platforms has no effect"),
    ],
)
def test_each_mistake_of_a_partition_is_an_error(tree, capsys, settings, why):
    put(tree, changed(**settings))
    assert_refused(tree, capsys, why)


@pytest.mark.parametrize(
    "settings, why",
    [
        ({"access": ["--account=ACCOUNT"]}, "is a placeholder"),
        ({"time_limit": None}, "no time_limit"),
        ({"extras": {}}, "no maintainers in extras.isthmus"),
        ({"features": ["gpu", "cuda", "warehouse"]}, "'warehouse' is a feature that no check asks for"),
        # Features that the site's other checks may use, although they are similar to features of these checks.
        *(
            ({"features": ["gpu", "cuda", word]}, f"note: atlantis:gpu: {word!r} is a feature that no check asks for")
            for word in ("cpu", "offline", "remote", "vm", "puma", "bull", "manager", "hm", "gpus", "cuda12", "disk")
        ),
        ({"extras": {"isthmus": {"maintainers": ["t"], "require_reference": ["in_rte"]}}}, "which is not known"),
        ({"extras": {"isthmus": {"maintainers": ["t"], "device_memory": "80 GiB"}}}, ""),
        ({"extras": {"isthmus": {"maintainers": ["t"], "pcie": "5 x16", "links": 18}, "rack": 7}}, ""),
        ({"access": ["--partition=gpu", "--acc=p42", "--our-own-plugin=1", "-C nvme"]}, ""),
        ({"env_vars": [["ISTHMUS_HOST_MEMORY", "8 GiB"], ["ISTHMUS_GRAPH", "$HOME/g"], ["ISTHMUS_ROOT", "/x"]]}, ""),
        ({"prepare_cmds": ["module load isthmus_tools", "mkdir $ISTHMUS_RESULTS", "isthmus_of_ours=1"]}, ""),
    ],
)
def test_what_may_be_meant_is_a_note(tree, capsys, settings, why):
    put(tree, changed(**settings))
    status, shown = check(tree, capsys)
    assert status == exits.PASSED
    assert f"note: atlantis:gpu: {why}" in shown or why in shown
    assert check(tree, capsys, "--quiet")[1] == "1 site, 0 errors\n"


def test_settings_are_of_partitions(tree, capsys):
    configuration = changed()
    configuration["environments"][0]["extras"] = {"isthmus": {"maintainers": ["t"]}, "spack_enviroment": "x"}
    put(tree, configuration)
    assert_refused(tree, capsys, "environment gnu: extras has 'isthmus', which is read only from partitions")
    assert_refused(tree, capsys, "did you mean 'spack_environment'?")


def two_partitions(*access):
    configuration = changed()
    first = configuration["systems"][0]["partitions"][0]
    configuration["systems"][0]["partitions"] = [
        {**first, "name": name, "access": list(options)} for name, options in zip(("gpu", "debug"), access, strict=True)
    ]
    return configuration


@pytest.mark.parametrize(
    "access",
    [(["--partition=gpu"], ["--account=p"]), (["-p gpu"], []), ([], ["-pdebug"]), (["--partition gpu"], ["--qos=d"])],
)
def test_one_of_two_partitions_without_its_queue(tree, capsys, access):
    put(tree, two_partitions(*access))
    assert_refused(tree, capsys, "its jobs go to the default queue, and are recorded as this one's")


@pytest.mark.parametrize(
    "access", [(["--partition=gpu"], ["--reservation=r"]), (["--constraint=a"], ["-C b"]), ([], [])]
)
def test_a_partition_may_be_chosen_otherwise(tree, capsys, access):
    put(tree, two_partitions(*access))
    assert check(tree, capsys)[0] == exits.PASSED


def test_two_partitions_of_the_same_nodes_are_a_note(tree, capsys):
    put(tree, two_partitions(["-p gpu"], ["-p gpu"]))
    status, shown = check(tree, capsys)
    assert status == exits.PASSED and "atlantis:debug: requests the same nodes as atlantis:gpu" in shown


@pytest.mark.parametrize("place", ["system", "partition", "environment"])
def test_modules_that_nothing_loads(tree, capsys, monkeypatch, place):
    monkeypatch.delenv("LMOD_CMD", raising=False)
    monkeypatch.delenv("MODULES_CMD", raising=False)
    configuration = changed()
    system = configuration["systems"][0]
    owner = {"system": system, "partition": system["partitions"][0], "environment": configuration["environments"][0]}
    owner[place]["modules"] = [{"name": "cuda/99.9", "path": "/opt"}, "gcc"]
    put(tree, configuration)
    assert_refused(tree, capsys, "(cuda/99.9, gcc) are never loaded: modules_system is 'nomod'; use 'lmod'")
    system["modules_system"] = "lmod"
    put(tree, configuration)
    assert check(tree, capsys)[0] == exits.PASSED
    put(tree, f"import os\nsite_configuration = {configuration!r}\nif not os.environ.get('LMOD_CMD'):\n"
              "    site_configuration['systems'][0]['modules_system'] = 'nomod'\n")  # fmt: skip
    assert check(tree, capsys)[0] == exits.PASSED  # assumes that a login node has modules
    assert "LMOD_CMD" not in os.environ


def test_environments_that_nobody_uses(tree, capsys):
    configuration = changed()
    configuration["environments"].append({"name": "intel", "target_systems": ["atlantis"]})
    put(tree, configuration)
    status, shown = check(tree, capsys)
    assert status == exits.PASSED
    assert "note: environment intel: no partition lists it under 'environs'" in shown
    configuration["environments"][1]["target_systems"] = ["atlantys:gpu", "atlantis"]
    put(tree, configuration)
    assert_refused(
        tree, capsys, "names 'atlantys:gpu', which is not a system of this file; did you mean 'atlantis:gpu'?"
    )


OWN_LAUNCHER = """
from reframe.core.backends import register_launcher
from reframe.core.launchers import JobLauncher
import adjacent


@register_launcher("wrapped")
class Wrapped(JobLauncher):
    def command(self, job):
        return ["wrap", "-n", str(job.num_tasks)]


with open({count!r}, "a") as file:
    file.write("x")
site_configuration = {configuration!r}
"""


def test_a_file_is_executed_once_and_may_register_what_a_copy_of_it_does(tree, capsys):
    count = tree / "count"
    for name in ("atlantis", "lemuria"):
        configuration = changed(launcher="wrapped")
        configuration["systems"][0] |= {"name": name, "hostnames": [f"^{name}"]}
        configuration["environments"][0]["target_systems"] = [name]
        text = OWN_LAUNCHER.format(count=str(count), configuration=configuration)
        put(tree, f"import pathlib, sys\nsys.path.insert(0, str(pathlib.Path(__file__).parent))\n{text}", name=name)
        (tree / f"site-configs/{name}/adjacent.py").write_text(f"assert {name!r} in __file__\nNAME = {name!r}\n")
        if name == "lemuria":
            with (tree / "site-configs/lemuria/reframe.py").open("a") as file:
                file.write("assert adjacent.NAME == 'lemuria'\n")
    assert check(tree, capsys) == (exits.PASSED, "2 sites, 0 errors\n")
    assert count.read_text() == "xx"
    assert check(tree, capsys) == (exits.PASSED, "2 sites, 0 errors\n")  # the first check left nothing behind
    put(tree, changed(launcher="wrapped"))
    assert_refused(tree, capsys, "launcher 'wrapped': no such launcher", "atlantis")


def test_a_tree_of_sites_only_is_held_to_this_tree_s_catalogue(tree, capsys):
    shutil.rmtree(tree / "reframe")
    put(tree, GOOD, references=REFERENCE.replace("saxpy", "saxpi"))
    assert_refused(tree, capsys, "did you mean 'microbench/saxpy'?")


def places(value, path=()):
    """Yields the path of keys to every value in a configuration."""
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield (*path, key)
        yield from places(value[key], (*path, key))


SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(string.printable, max_size=6)
VALUES = SCALARS | st.lists(SCALARS, max_size=3) | st.dictionaries(st.text(string.ascii_letters), SCALARS, max_size=2)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.sampled_from(list(places(GOOD))), value=VALUES, reframe=st.booleans())
@example(place=("systems", 0), value=None, reframe=True)
def test_any_configuration_is_read_or_refused(tree, place, value, reframe):
    configuration = copy.deepcopy(GOOD)
    inner = configuration
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    put(tree, repr(configuration).join(["site_configuration = ", "\n"]))
    files = site_check.read(tree)
    site = site_check.Site(tree, "atlantis", site_check.Known(tree, None), files, site_check.host_patterns(files))
    if not reframe:
        site._against_schema = lambda: None
    for finding in site.findings():
        assert finding.level in ("error", "note") and "\n" not in str(finding)


@pytest.mark.parametrize(
    "line, why",
    [
        ("p['extras']['isthmus']['maintainers'] = p", "'systems' of site_configuration contains itself"),
        ("p['env_vars'] = p['env_vars'] = v = []; v.append(v)", "'systems' of site_configuration contains itself"),
        ("site_configuration['general'] = [site_configuration]", "'general' of site_configuration contains itself"),
        ("v = []\nfor _ in range(5000): v = [v]\np['extras']['x'] = v", "has more than 100 levels"),
        ("v = [1]\nfor _ in range(40): v = [v, v]\np['extras']['x'] = v", "unfolds to more than 1000000 values"),
    ],
)
def test_a_configuration_that_contains_itself_is_one_error(tree, capsys, line, why):
    text = f"site_configuration = {GOOD!r}\np = site_configuration['systems'][0]['partitions'][0]\n{line}\n"
    put(tree, text)
    status, shown = check(tree, capsys)
    assert status == exits.FOUND and why in shown and shown.endswith("1 site, 1 error\n"), shown


def test_an_object_that_cannot_be_shown_is_one_error(tree, capsys):
    lines = [
        "class Loop:",
        "    def __repr__(self):",
        "        return repr(self)",
        f"site_configuration = {GOOD!r}",
        "site_configuration['systems'][0]['partitions'][0]['extras']['x'] = Loop()",
    ]
    put(tree, "\n".join(lines))
    assert_refused(tree, capsys, "not a configuration of ReFrame (RecursionError")


def test_environments_are_looked_at(tree, capsys):
    configuration = copy.deepcopy(GOOD)
    environment = configuration["environments"][0]
    environment["features"] = ["mpii"]
    environment["extras"] = {"spack_environment": "environments/atlantis"}
    configuration["environments"].append({"name": "gnu"})
    configuration["environments"].append({"name": "gnu", "target_systems": ["*"]})
    put(tree, configuration)
    assert "is missing" not in check(tree, capsys)[1]  # as in an installation by Spack, where nothing is built
    (tree / "scripts").mkdir()
    (tree / "scripts/spack-environment").touch()
    status, shown = check(tree, capsys)
    assert status == exits.FOUND
    assert "did you mean 'mpi'?" in shown
    assert "environments/atlantis/spack.yaml is missing" in shown
    (tree / "environments/atlantis").mkdir(parents=True)
    (tree / "environments/atlantis/spack.yaml").symlink_to("/gone")
    assert_refused(tree, capsys, "Spack environment environments/atlantis cannot be read (a link whose target is")
    shutil.rmtree(tree / "environments")
    assert "defined twice" in shown
    (tree / "environments/atlantis").mkdir(parents=True)
    (tree / "environments/atlantis/spack.yaml").write_text("spack: {}\n")
    assert "is missing" not in check(tree, capsys)[1]


@pytest.mark.parametrize("module", ["PrgEnv-gnu", {"name": "cray-mpich/8.1", "path": "/opt"}])
def test_the_launcher_of_another_mpi(tree, capsys, module):
    configuration = changed(scheduler="pbs", launcher="mpiexec", access=["-q debug"])
    put(tree, configuration)
    assert check(tree, capsys)[0] == exits.PASSED
    configuration["environments"][0]["modules"] = ["gcc", module]
    put(tree, configuration)
    assert_refused(tree, capsys, "HPE's MPI is started by 'srun' under Slurm, else by 'pals'")


def test_a_pattern_is_compared_from_the_beginning(tree, capsys):
    configuration = changed()
    configuration["systems"][0]["hostnames"] = [r"\.atlantis\.example$"]
    put(tree, configuration)
    assert_refused(tree, capsys, "matches no host")


@pytest.mark.parametrize("text", [b"{", b"[" * 100_000, b"\xff", b'{"a":1,"a":1}'])
def test_a_catalogue_that_is_none_is_one_sentence(tree, capsys, text):
    put(tree, GOOD)
    (tree / "reframe/checks/catalogue.json").write_bytes(text)
    assert cli.main(["site", "check", "atlantis", "--root", str(tree)]) == exits.BAD_INPUT
    said = capsys.readouterr().err
    assert "not a list of what the suite measures (" in said and said.count("\n") == 1


def closed(place):
    place.mkdir()
    place.chmod(0)


def holding(name):
    def make(place):
        place.mkdir()
        (place / name).touch()

    return make


MISSING = "a link whose target is missing, so this site is not read; repair or remove it"
NO_SITES = {
    "a link to a folder": (lambda place: place.symlink_to("/gone"), f"site-configs/north: {MISSING}"),
    "a link to itself": (lambda place: place.symlink_to("north"), "site-configs/north: Too many levels of symbolic"),
    "a link to a file": (
        lambda place: (place.mkdir(), (place / "reframe.py").symlink_to("/gone/reframe.py")),
        f"site-configs/north/reframe.py: {MISSING}",
    ),
    "a folder as file": (
        lambda place: (place / "reframe.py").mkdir(parents=True),
        "site-configs/north/reframe.py: a directory, not a file",
    ),
    "a FIFO": (
        lambda place: (place.mkdir(), os.mkfifo(place / "reframe.py")),
        "site-configs/north/reframe.py: a FIFO, not a file",
    ),
    "other letters": (holding("ReFrame.py"), "site-configs/north/ReFrame.py: not read under this name; call it"),
    "a slip": (holding("refame.py"), "site-configs/north/refame.py: not read under this name; call it reframe.py"),
}


@pytest.mark.parametrize("make, why", NO_SITES.values(), ids=NO_SITES)
def test_a_site_that_cannot_be_read_is_an_error_and_not_absent(tree, capsys, make, why):
    put(tree, GOOD)
    make(tree / "site-configs/north")
    status, shown = check(tree, capsys)
    assert status == exits.FOUND and f"north: error: {why}" in shown and "2 sites, 1 error\n" in shown
    status, shown = check(tree, capsys, "north")
    assert status == exits.BAD_INPUT and why in shown and "there is no site" not in shown
    status, shown = check(tree, capsys, "atlantis")
    assert status == exits.PASSED and "north: note: its host names are not compared with others: " in shown
    shutil.rmtree(tree / "site-configs/atlantis")
    assert check(tree, capsys)[0] == exits.FOUND


def test_a_site_of_another_user_is_an_error():
    with tempfile.TemporaryDirectory() as name:  # not tmp_path, which only its owner may enter
        root = pathlib.Path(name)
        root.chmod(0o755)
        put(root, GOOD)
        closed(root / "site-configs/north")
        put(root, GOOD, "south")
        (root / "site-configs/south").chmod(0o711)
        if not os.geteuid():
            os.seteuid(65534)
        try:
            entries = site_tree.entries(root)
            with pytest.raises(Error, match=r"north/reframe[.]py: Permission denied, so this site is not read"):
                site_tree.configuration_of(root, "north")
        finally:
            if not os.getuid():
                os.seteuid(0)
            (root / "site-configs/north").chmod(0o755)
    assert list(entries) == ["atlantis", "north", "south"] and entries["atlantis"] is entries["south"] is None
    assert entries["north"].is_error


def test_a_folder_without_a_configuration_is_a_note(tree, capsys):
    holding("README.md")(tree / "site-configs/attic")
    status, shown = check(tree, capsys)
    assert status == exits.BAD_INPUT and "no site in" in shown
    put(tree, GOOD)
    holding("site_common.pyc")(tree / "site-configs/__pycache__")
    (tree / "site-configs/README.md").touch()
    status, shown = check(tree, capsys)
    assert status == exits.PASSED
    assert shown == (
        "attic: note: site-configs/attic: no reframe.py in it, so it is not a site; write one, or "
        "move the folder away\n1 site, 0 errors\n"
    )
    assert check(tree, capsys, "--quiet") == (exits.PASSED, "1 site, 0 errors\n")
    (tree / "site-configs/__pycache__/Reframe.py").touch()
    assert_refused(tree, capsys, "__pycache__/Reframe.py: not read under this name")


def test_a_link_to_a_tree_that_is_gone_does_not_lead_to_another(tree, capsys, monkeypatch):
    put(tree, GOOD)
    (tree / "below").mkdir()
    (tree / "below/site-configs").symlink_to("/gone")
    monkeypatch.chdir(tree / "below")
    assert cli.main(["site", "check"]) == exits.BAD_INPUT
    assert "below/site-configs: a link whose target is missing" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["atlantis/", ".", "..", "x" * 300])
def test_what_is_no_name_of_a_site_is_refused(tree, capsys, name):
    put(tree, GOOD)
    status, shown = check(tree, capsys, name)
    assert status == exits.BAD_INPUT and "there is no site" in shown


@pytest.mark.parametrize("name", ["login-nodes.txt", "references/h200/more"])
def test_a_link_in_a_site_whose_target_is_missing_is_an_error(tree, capsys, name):
    put(tree, GOOD, references=REFERENCE)
    path = tree / "site-configs/atlantis" / name
    path.parent.mkdir(exist_ok=True)
    path.symlink_to("/gone")
    assert_refused(tree, capsys, "a link whose target is missing")


def test_the_list_of_the_suite_is_not_taken_from_elsewhere_if_its_link_leads_nowhere(tree, capsys):
    put(tree, GOOD)
    (tree / "reframe/checks/catalogue.json").unlink()
    (tree / "reframe/checks/catalogue.json").symlink_to("/gone")
    status, shown = check(tree, capsys)
    assert status == exits.BAD_INPUT and "catalogue.json: a link whose target is missing" in shown


def test_names_of_login_nodes_are_tried(tree, capsys):
    put(tree, GOOD)
    names = tree / "site-configs/atlantis/login-nodes.txt"
    names.write_text("# seen\natl07\n\natl1.sea  # by a user\n")
    assert check(tree, capsys) == (exits.PASSED, "1 site, 0 errors\n")
    names.write_text("login07\n")
    assert_refused(tree, capsys, "no pattern of 'hostnames' matches login07")
    names.write_bytes(b"login\xff\n")
    assert_refused(tree, capsys, "it cannot be read ('utf-8' codec")
    names.write_bytes(b"#" * (inputs.MIB + 1))
    assert_refused(tree, capsys, "it cannot be read (larger than 1 MiB")
    other = copy.deepcopy(GOOD)
    other["systems"][0] |= {"name": "lemuria", "hostnames": ["^a"]}
    other["environments"][0]["target_systems"] = ["lemuria"]
    put(tree, other, name="lemuria")
    names.write_text("atl07\n")
    assert_refused(tree, capsys, "atl07 is also a host of lemuria")


def test_two_sites_for_one_host(tree, capsys):
    put(tree, GOOD)
    other = copy.deepcopy(GOOD)
    other["systems"][0]["name"] = "lemuria"
    other["environments"][0]["target_systems"] = ["lemuria"]
    put(tree, other, name="lemuria")
    assert_refused(tree, capsys, "is also that of lemuria", "atlantis")


def test_two_partitions_of_one_name_and_a_pattern_that_is_none(tree, capsys):
    configuration = changed()
    configuration["systems"][0]["partitions"] *= 2
    configuration["systems"][0]["hostnames"] = ["("]
    put(tree, configuration)
    shown = check(tree, capsys)[1]
    assert "two partitions have this name" in shown
    assert "'(' is not a regular expression" in shown


def test_a_missing_page_is_an_error(tree, capsys):
    put(tree, GOOD, readme=None)
    assert_refused(tree, capsys, "README.md: missing")


@pytest.mark.parametrize(
    "text, why",
    [
        ("site_configuration = {", "SyntaxError"),
        ("import no_such_module\n", "ModuleNotFoundError"),
        ("site_configuration = []\n", "not a mapping with a list of systems"),
        ("x = 1\n", "AttributeError"),
        ("raise SystemError('no')\n", "SystemError: no"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_sentence(tree, capsys, text, why):
    put(tree, text)
    assert_refused(tree, capsys, why)


SHARE = "- {workload: microbench/saxpy, shares: {in: 0.7}}\n"


@pytest.mark.parametrize(
    "references, why",
    [
        (REFERENCE.replace("saxpy", "saxpi"), "did you mean 'microbench/saxpy'?"),
        (REFERENCE.replace("microbench/saxpy", "driver/launhc"), "did you mean 'driver/launch'?"),
        (LAUNCH.replace("submit", "sumbit"), "reports 'sumbit'; did you mean 'submit'?"),
        (REFERENCE.replace(", s]", ", ms]"), "in is in 'ms', which no metric has; choose from s, B/s"),
        (REFERENCE.replace(", s]", "]"), "is not [value, lower, upper, unit]"),
        (REFERENCE.replace("0.25", "fast"), "is not [value, lower, upper, unit]"),
        (REFERENCE.replace("-0.1", "0.1"), "lower tolerance is 0.1; it must be at most 0"),
        (REFERENCE.replace("-0.1, 0.1", "null, null"), "bounds nothing"),
        (REFERENCE.replace("-0.1, 0.1", "-0.1, 10"), "in's upper tolerance is 10; 10% is written 0.1"),
        (REFERENCE.replace("-0.1, 0.1", "-1, 0.1"), "in's lower tolerance is -1; 1% is written -0.01"),
        (REFERENCE.replace("-0.1, 0.1", "-5, 0.1"), "in's lower tolerance is -5; 5% is written -0.05"),
        (SHARE.replace("0.7", "70"), "in's share is 70; 70% is written 0.7"),
        (SHARE.replace("0.7", "[0.7, 105]"), "in's largest share is 105; 105% is written 1.05"),
        (REFERENCE.replace("workload", "wrkload"), "unknown key 'wrkload'"),
        (REFERENCE.replace("microbench/saxpy", "'('"), "is not a regular expression"),
        (REFERENCE.replace("workload:", "partition: gpuu, workload:"), "no partition is called 'gpuu'; did you mean"),
        (REFERENCE.replace("workload:", "size: huge, workload:"), "no size matches 'huge'"),
        (REFERENCE.replace("workload:", "axes: [1], workload:"), "'axes' is not a mapping"),
        (REFERENCE * 2, "a second reference for in"),
        (REFERENCE.replace("workload:", "arch: sm_80, workload:"), "it is for arch 'sm_80', but gpu states sm_90"),
        ("just text", "not a list of entries"),
        ("- just text", "not a mapping with 'metrics'"),
        ("- [", "not YAML"),
        ("", "all.yaml: empty, like a file that was cut short"),
        ("$index: [partition, arch]\ngpu:\n  sm_90:\n", "all.yaml, arch 'sm_90': empty"),
    ],
)
def test_each_mistake_of_a_reference_is_an_error(tree, capsys, references, why):
    put(tree, GOOD, references=references)
    assert_refused(tree, capsys, why)


@pytest.mark.parametrize(
    "arch, settings, is_held",
    [
        ("sm_90", {"features": [], "devices": None, "resources": None}, False),
        ("sm_90", {"features": ["gpu"], "devices": [{"type": "gpu", "num_devices": 4}]}, True),  # no arch is stated
        ("sm_90", {}, True),
        ("'sm_(80|90)'", {}, True),
        ("sm_80", {}, False),
        ("sm_80", {"devices": [*gpu(), *gpu(arch="sm_80")]}, True),
        ("null", {}, True),
        ("gfx942:sramecc\\+:xnack-", {"features": ["gpu", "hip"], "devices": gpu(arch="gfx942")}, True),
    ],
)
def test_a_reference_for_a_gpu_that_no_partition_has(tree, capsys, arch, settings, is_held):
    reference = REFERENCE.replace("workload:", f"arch: {arch}, workload:")
    put(tree, changed(**settings), references=reference)
    shown = check(tree, capsys)[1]
    assert ("never applies" not in shown) == is_held, shown
    capsys.readouterr()
    status = cli.main(["references", "check", "--site", f"{tree}/site-configs/atlantis"])
    assert ("never applies" not in capsys.readouterr().out.replace("\n  ", " ")) == is_held
    assert is_held or status == exits.FOUND


def test_a_reference_file_that_nothing_reads_is_an_error(tree, capsys):
    put(tree, GOOD, references=REFERENCE)
    (tree / "site-configs/atlantis/references/more.yml").write_text(REFERENCE)
    assert "more.yml: not read" in check(tree, capsys)[1]


def test_a_file_of_references_that_no_file_names_is_an_error(tree, capsys):
    put(tree, GOOD, references="- {$ref: shared/a.yaml}\n")
    folder = tree / "site-configs/atlantis/references"
    for name, text in (("shared/a.yaml", "- {$ref: deep/b.yaml}\n"), ("shared/deep/b.yaml", REFERENCE)):
        (folder / name).parent.mkdir()
        (folder / name).write_text(text)
    (folder / "shared/README.md").write_text("what they are")
    assert check(tree, capsys)[0] == exits.PASSED
    for name in ("h200/all.yaml", "h200/x.YML"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(LAUNCH)
    why = "nothing in it applies, because no file that is read names it by $ref"
    capsys.readouterr()
    status, shown = check(tree, capsys)
    assert status == exits.FOUND and shown.count(why) == 2
    assert all(f"references/{name}: {why}" in shown for name in ("h200/all.yaml", "h200/x.YML"))
    assert cli.main(["references", "check", "--site", str(folder.parent)]) == exits.FOUND
    assert capsys.readouterr().out.replace("\n  ", " ").count(why) == 2


UNREADABLE = [
    (
        lambda place: place.symlink_to("moved-away"),
        "references: a link that leads nowhere, so no reference in it would",
    ),
    (lambda place: place.symlink_to("references"), "references: Too many levels of symbolic links, so no reference"),
    (lambda place: place.write_text(REFERENCE), "references: Not a directory, so no reference in it would apply"),
]


@pytest.mark.parametrize("make, why", UNREADABLE)
def test_references_that_cannot_be_read_are_not_a_site_without_any(tree, capsys, make, why):
    """Makes the references unreadable, which is an error, although a site without references is valid."""
    put(tree, GOOD)
    folder = tree / "site-configs/atlantis"
    (folder / "references").rmdir()
    assert check(tree, capsys)[0] == exits.PASSED
    make(folder / "references")
    assert_refused(tree, capsys, why)
    for command in (["check"], ["update", str(tree)]):
        assert cli.main(["references", *command, "--site", str(folder)]) == exits.BAD_INPUT
        assert why in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("name", ["reference", "References", "refrences", "references.yaml", "refernces.yml"])
def test_a_name_that_is_nearly_that_of_the_references_is_an_error(tree, capsys, name):
    put(tree, GOOD, references=REFERENCE)
    (tree / "site-configs/atlantis" / name).mkdir()
    assert_refused(tree, capsys, f"{name}: not read under this name; did you mean 'references'")


@pytest.mark.parametrize("name", ["references.old", "preferred.yaml", "reframe_common.py"])
def test_other_names_in_a_site_are_its_own(tree, capsys, name):
    put(tree, GOOD, references=REFERENCE)
    (tree / "site-configs/atlantis" / name).mkdir()
    assert check(tree, capsys)[0] == exits.PASSED


@pytest.mark.parametrize(
    "reference, why",
    [
        ("{workload: transfer/pinned-gpu0/ce, metrics: {rate: [1, -0.1, null, B/s]}}", None),
        ("{workload: transfer/pinned-gpu0/cee, metrics: {rate: [1, -0.1, null, B/s]}}", "did you mean"),
        ("{workload: transfer/pinned-gpu0/ce, metrics: {rat: [1, -0.1, null, B/s]}}", "did you mean 'rate'?"),
        ("{workload: transfer/pinned-gpu0/ce, axes: {bites: 1}, metrics: {rate: [1, -0.1, null, B/s]}}", "'bytes'?"),
    ],
)
def test_with_the_program_references_of_made_workloads_are_looked_at(tree, capsys, reference, why, monkeypatch):
    monkeypatch.setenv("FAKE_CATALOGUE", str(ROOT / "reframe/checks/catalogue.json"))
    put(tree, GOOD, references=f"- {reference}\n")
    # Without the program, only the metrics of a family are known, and not its workloads and axes.
    assert check(tree, capsys)[0] == (exits.FOUND if "rat:" in reference else exits.PASSED)
    status, shown = check(tree, capsys, "--bench", str(ROOT / "tests/reframe/fake_bench.py"))
    assert status == (exits.FOUND if why else exits.PASSED)
    assert why is None or why in shown


@pytest.mark.parametrize("bench", ["/no/such/program", "/bin/false", "/bin/true"])
def test_a_program_that_lists_nothing_is_bad_input(tree, capsys, bench):
    put(tree, GOOD)
    status, shown = check(tree, capsys, "--bench", bench)
    assert status == exits.BAD_INPUT
    assert "name a built isthmus-bench" in shown and shown.count("\n") == 1


def test_an_unknown_site_is_one_sentence(tree, capsys):
    put(tree, GOOD)
    status, shown = check(tree, capsys, "atlantiss")
    assert status == exits.BAD_INPUT
    assert "did you mean 'atlantis'?" in shown and shown.count("\n") == 1
    status, shown = check(tree, capsys, "x")
    assert "choose from atlantis" in shown


def test_no_tree_is_one_sentence(tmp_path, capsys):
    status, shown = check(tmp_path, capsys)
    assert status == exits.BAD_INPUT
    assert "no site-configs/" in shown


# --- accounting ---


@pytest.mark.parametrize(
    "commands, why",
    [
        ({}, None),
        ({"sinfo": "true"}, "there is no sacct"),
        ({"sinfo": "true", "sacct": "echo no database >&2; exit 1"}, "no database"),
        ({"sinfo": "true", "sacct": "true"}, None),
    ],
)
def test_slurm_without_accounting(tree, capsys, tmp_path, monkeypatch, commands, why):
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, line in commands.items():
        (tools / name).write_text(f"#!/bin/sh\n{line}\n")
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tools))
    configuration = changed(scheduler="slurm")
    put(tree, configuration)
    assert check(tree, capsys)[0] == exits.PASSED  # not tested, because this machine is not one of the site's
    configuration["systems"][0]["hostnames"] = [".*"]
    put(tree, configuration)
    status, shown = check(tree, capsys)
    assert status == (exits.FOUND if why else exits.PASSED)
    assert why is None or f"needs accounting, but {why}" in shown.replace(
        "sacct -n -X -j 1 ends with exit code 1 (", ""
    )


# --- the sites of this tree, and the words ---


def test_what_sites_share(monkeypatch):
    for name in ("ISTHMUS_ACCOUNT", "LMOD_CMD", "MODULES_CMD"):
        monkeypatch.delenv(name, raising=False)
    shared = runpy.run_path(str(ROOT / "site-configs/site_common.py"))
    assert site_check.PLACEHOLDER.search(shared["account"]("--account="))
    assert shared["modules_system"]() == "nomod"
    monkeypatch.setenv("ISTHMUS_ACCOUNT", "p42")
    monkeypatch.setenv("LMOD_CMD", "/usr/share/lmod")
    assert (shared["account"]("-A "), shared["modules_system"]()) == ("-A p42", "lmod")


def test_the_backend_that_was_found_is_said_once(monkeypatch):
    monkeypatch.setenv("ISTHMUS_BACKEND", "host")
    words = [sys.executable, "-m", "isthmus", "site", "check", "--root", ROOT]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stderr
    assert said.count("detect-backend: host, because ISTHMUS_BACKEND is set") == 1


GPU_0 = "echo 'GPU 0: NVIDIA H200 (UUID: GPU-0)'"


@pytest.mark.parametrize(
    "smi, why",
    [
        (
            f"{GPU_0}; echo 'Unable to determine the device handle for GPU1' >&2; exit 15",
            "ends with exit code 15 (Unable",
        ),
        (f"{GPU_0}; echo 'Unable to determine the device handle for GPU1'", "says 'Unable to determine the device"),
        ("echo 'Failed to initialize NVML' >&2; exit 17", "ends with exit code 17 (Failed to initialize NVML)"),
        (f"{GPU_0}; echo '  MIG 1g.12gb     Device  0: (UUID: MIG-0)'", None),
        ("echo No devices were found; exit 6", None),
    ],
)
def test_the_generic_site_states_no_gpus_of_a_list_that_is_cut(tmp_path, smi, why):
    (tmp_path / "nvidia-smi").write_text(f"#!/bin/bash\n{smi}\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    environment = {key: value for key, value in os.environ.items() if key != "CUDA_VISIBLE_DEVICES"}
    environment |= {"ISTHMUS_BACKEND": "cuda", "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    words = [sys.executable, "-m", "isthmus", "site", "check", "generic", "--root", ROOT]
    for chosen in ({}, {"CUDA_VISIBLE_DEVICES": "0"}):
        done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment | chosen)
        shown = " ".join(done.stdout.split())
        is_refused = why is not None and not chosen
        assert (f"how many GPUs there are is not known: nvidia-smi -L {why}" in shown) == is_refused, shown
        assert ("cannot be read" in shown) == is_refused


@pytest.mark.parametrize("site", site_tree.sites(ROOT))
def test_the_sites_here_have_no_errors(site, capsys, monkeypatch):
    folder = ROOT / "site-configs" / site
    assert site.startswith(site_check.PATTERNS) or (folder / site_check.LOGIN_NODES).is_file()
    if "Not run there yet" in (folder / "README.md").read_text():
        assert not (folder / "references").exists(), (
            "figures of another machine are no references: papers/data/published"
        )
    monkeypatch.setattr(site_check, "no_accounting", lambda: None)
    path = sys.path[:]
    status, shown = check(ROOT, capsys, site)
    assert [each for each in path if each not in sys.path] == []
    assert status == exits.PASSED, shown


def test_every_word_that_checks_ask_for_is_known():
    from isthmus_reframe.families import memory_families, transfer_pairs

    catalogue = json.loads((ROOT / "reframe/checks/catalogue.json").read_text())
    asked = {word for w in catalogue["workloads"] for word in [*w["placements"], *w["stagings"]]}
    asked |= transfer_pairs.RECENT_CALLS | transfer_pairs.PEER | memory_families.ON_HOST
    for pairs in transfer_pairs.PAIRS.values():
        for pattern in pairs.patterns:
            ends, _, way = pattern.partition("/")
            named = "-".join("gpu0" if end == "*" else end.replace("*", "0") for end in ends.split("-"))
            asked |= transfer_pairs.needs(f"{transfer_pairs.FAMILY}{named}/{way.replace('*', 'ce')}") | pairs.needs
    asked |= {"unified", "host_atomics", "hmm", "system", "numa", "huge_pages", "gpu_aware_mpi"}
    assert asked - {"none", "pack"} <= set(capabilities.CAPABILITIES)


def test_what_follows_is_known_and_of_a_gpu():
    for word, implied in capabilities.IMPLIED.items():
        assert {word, *implied} <= set(capabilities.CAPABILITIES)
        assert capabilities.with_implied({word}) >= {word, *implied}


def test_variables_of_systems_environments_and_spack_are_looked_at(tree, capsys):
    configuration = copy.deepcopy(GOOD)
    configuration["systems"][0]["env_vars"] = [["ISTHMUS_NETWROK", "/n"]]
    configuration["environments"][0] |= {
        "env_vars": [["ISTHMUS_HOSTMEMORY", "8GiB"]], "extras": {"spack_environment": "environments/atlantis"}
    }  # fmt: skip
    folder = tree / "environments/atlantis"
    folder.mkdir(parents=True)
    (folder / "spack.yaml").write_text("spack:\n  env_vars: {set: {ISTHMUS_LIBARIES: /l}}\n  specs: [isthmus]\n")
    put(tree, configuration)
    _, shown = check(tree, capsys)
    assert "error: system atlantis: env_vars names ISTHMUS_NETWROK" in shown
    assert "error: environment gnu: env_vars names ISTHMUS_HOSTMEMORY" in shown
    assert "error: atlantis/spack.yaml: names ISTHMUS_LIBARIES, which nothing reads; did you mean" in shown
    assert "3 errors" in shown
