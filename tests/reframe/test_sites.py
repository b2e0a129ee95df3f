"""Tests that every site's configuration can list checks and write job scripts on any machine, for each scheduler."""

import os
import pathlib
import re
import shlex
import subprocess

import pytest

from conftest import FAKE, ROOT, environment, site_configuration
from isthmus.references import site_tree
from isthmus_reframe import jobs

CHECKS = "transfer_modes.py"
FILES = [CHECKS, "transfer.py", "mpi_transfer.py"]
SELECT = "saxpy%mode=pm%size=tiny|pairs=latency%size=tiny|host-host/send%size=tiny"
LAUNCHERS = {
    "flux-run": "flux run",
    "local": "",
    "pals": "mpiexec -n [12] --ppn [12]",
}  # other launchers are called by their names

SITES = site_tree.sites(ROOT)


@pytest.fixture
def reframe_at(tmp_path, reframe):
    """Returns reframe_at(site, *options), which runs ReFrame as that site's engineer would and returns the result."""

    def run(site, *options, **env):
        checks = [word for name in FILES for word in ("-c", str(ROOT / "reframe/checks" / name))]
        command = [reframe, "-C", str(ROOT / "site-configs" / site / "reframe.py"), *checks, "--nocolor", *options]
        result = subprocess.run(
            command, cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, timeout=300, check=False,
            env=environment(**{"ISTHMUS_BENCH": FAKE, "ISTHMUS_BACKEND": "host", "TMPDIR": tmp_path, **env}),
        )  # fmt: skip
        print(shlex.join(command), result.stdout, sep="\n")
        return result

    return run


def system_of(site):
    [system] = site_tree.load(ROOT / "site-configs" / site / "reframe.py")["systems"]
    return system


def test_there_are_sites():
    assert len(SITES) >= 6
    schedulers = {p["scheduler"] for site in SITES for p in system_of(site)["partitions"]}
    assert {"local", "slurm", "squeue", "pbs", "flux-batch"} <= schedulers


def test_every_launcher_that_starts_ranks_is_told_to_bind_them():
    """Checks that launchers are told to bind ranks. Exceptions are Flux's launcher, because it always binds, and ibrun,
    because it follows the site's rules."""
    launchers = {p["launcher"] for site in SITES for p in system_of(site)["partitions"]}
    assert launchers - {"local", "flux-run", "ibrun"} <= set(jobs.BIND_TO_CORES)


@pytest.mark.parametrize("site", SITES)
def test_every_site_has_modes_and_somebody_to_ask(site):
    configuration = site_tree.load(ROOT / "site-configs" / site / "reframe.py")
    assert {mode["name"] for mode in configuration["modes"]} >= {"smoke", "nightly"}
    for partition in system_of(site)["partitions"]:
        assert partition["extras"]["isthmus"]["maintainers"]


@pytest.mark.parametrize("site", SITES)
def test_lists(reframe_at, site):
    system = system_of(site)["name"]
    result = reframe_at(site, f"--system={system}", "--mode=smoke", "-l", "-n", "saxpy%mode=pm%size=tiny")
    assert result.returncode == 0
    assert "TransferModes %workload=saxpy %mode=pm %size=tiny" in result.stdout
    assert "skipping test file" not in result.stdout


def has_mpi(site) -> bool:
    """Returns whether an environment that a partition of the site uses has MPI."""
    used = {name for partition in system_of(site)["partitions"] for name in partition["environs"]}
    configuration = site_tree.load(ROOT / "site-configs" / site / "reframe.py")
    return any("mpi" in each.get("features", []) for each in configuration["environments"] if each["name"] in used)


@pytest.mark.parametrize("site", SITES)
def test_dry_run_writes_scripts_that_ask_for_what_is_stated(reframe_at, tmp_path, site):
    system = system_of(site)
    # Omits the check that needs MPI if the site has no MPI, because a pattern that selects nothing ends the session.
    selected = SELECT if has_mpi(site) else SELECT.rpartition("|")[0]
    result = reframe_at(
        site, f"--system={system['name']}", "--dry-run", "-n", selected, f"--prefix={tmp_path}", ISTHMUS_ACCOUNT="p42"
    )
    assert result.returncode == 0 and "FAILED" not in result.stdout
    assert not (tmp_path / "results").exists()
    for partition in system["partitions"]:
        folder = tmp_path / "stage" / system["name"] / partition["name"]
        scripts = {path.parent.name: path.read_text() for path in folder.glob("*/*/rfm_job.sh")}
        modes, transfer, send = (
            next((text for name, text in scripts.items() if name.startswith(f"{check}_")), None)
            for check in ("TransferModes", "Transfer", "MpiTransfer")
        )
        for script in (modes, transfer):
            judge(script, partition)
            assert "ACCOUNT" not in script
        gpus = sum(device["num_devices"] for device in partition.get("devices", []))
        for script, number in ((modes, 1), (transfer, gpus)):
            for resource in partition.get("resources", []) if gpus else []:
                for option in resource["options"]:
                    assert option.format(num_gpus_per_node=number) in script
        if send:  # the check with two ranks on one node, if the environment has MPI
            judge(send, partition)
            assert re.search(r"--ntasks-per-node=2|mpiprocs=2|--tasks-per-node=2|-np? 2", send)
            bound = jobs.BIND_TO_CORES.get(partition["launcher"])
            assert bound is None or re.search(rf"^\w+ .*{bound} .* run mpi/", send, re.MULTILINE)


def judge(script, partition):
    for option in partition.get("access", []):
        assert option.replace("ACCOUNT", "p42") in script
    for name, value in partition.get("env_vars", []):
        assert f"export {name}={value}" in script
    launched = LAUNCHERS.get(partition["launcher"], partition["launcher"])
    assert re.search(rf"^{launched}.* run .*--record record.jsonl\necho \$\? > exit_code$", script, re.MULTILINE)


def test_an_unknown_site_is_one_sentence(reframe_at):
    result = reframe_at("no-such-site", "-l")
    assert result.returncode != 0
    assert "Traceback" not in result.stdout
    assert len([line for line in result.stdout.splitlines() if "ERROR" in line]) == 1


# --- Flux, with a stub of its command ---

FLUX = """#!/bin/bash
# Runs a batch job at once. The first question fails, at the second it is running, at the third it has ended.
state={state}
case $1 in
  batch)
    out=$(sed -n 's/^#flux: --output=//p' "$2") err=$(sed -n 's/^#flux: --error=//p' "$2")
    bash "$2" >"$out" 2>"$err"
    echo $? >"$state/code"
    echo ƒAbC
    ;;
  jobs)
    if [[ ! -e $state/asked ]]; then touch "$state/asked"; echo 'flux-jobs: broker is away' >&2; exit 1; fi
    if [[ ! -e $state/seen ]]; then touch "$state/seen"; echo 'fAbC|RUN|||node1'; exit; fi
    code=$(<"$state/code")
    echo "fAbC|INACTIVE|{result}|$code|node1"
    rm "$state/seen"
    ;;
  run)
    shift
    while [[ $1 == --* ]]; do shift; done
    exec "$@"
    ;;
esac
"""
CONFIGURATION = """
import sys
sys.path.append({plugins!r})
from isthmus_reframe import flux_batch
site_configuration = {{
    "systems": [{{"name": "s", "hostnames": [".*"], "partitions": [{{
        "name": "p", "scheduler": "flux-batch", "launcher": "flux-run", "environs": ["builtin"],
        "access": ["--queue=pdebug", "--exclusive"], "features": ["gpu", "hip"],
        "devices": [{{"type": "gpu", "arch": "gfx942", "num_devices": 4}}],
        "resources": [{{"name": "gpu", "options": []}}],
    }}]}}],
    "environments": [{{"name": "builtin"}}],
}}
"""


@pytest.mark.parametrize(
    "fake, result, why",
    [
        ("gpu:hip", "COMPLETED", None),
        ("gpu:hip,exit:7", "FAILED", "exit code 7"),
        ("gpu:hip", "TIMEOUT", "hit its time limit"),
        ("gpu:cuda", "COMPLETED", "states hip, but cuda ran"),
    ],
)
def test_flux_runs_jobs_and_tells_how_they_ended(session, tmp_path, fake, result, why):
    tools, state, site = (tmp_path / name for name in ("tools", "state", "flux-site"))
    for folder in (tools, state, site):
        folder.mkdir()
    (tools / "flux").write_text(FLUX.replace("{state}", str(state)).replace("{result}", result))
    (tools / "flux").chmod(0o755)
    (site / "reframe.py").write_text(CONFIGURATION.format(plugins=str(ROOT / "reframe")))
    outcome = session("-C", str(site / "reframe.py"), "-r", fake=fake,
                      PATH=f"{tools}:{os.environ['PATH']}")  # fmt: skip
    assert outcome.green == (why is None)
    assert why is None or why in outcome.output
    [script] = pathlib.Path(tmp_path).glob("stage/s/p/*/*/rfm_job.sh") if why else [None]
    if script:
        assert "#flux: --queue=pdebug" in script.read_text()


def test_checks_load_where_a_configuration_imports_the_gate_first(session, tmp_path):
    """Loads checks with a configuration like those of `isthmus site probe`, without `isthmus` on the Python path."""
    site = tmp_path / "own"
    site.mkdir()
    gate = f"import sys\nsys.path.append({str(ROOT / 'reframe')!r})\nfrom isthmus_reframe.gates import session_gate\n"
    (site / "reframe.py").write_text(gate + site_configuration({}))
    outcome = session("-C", str(site / "reframe.py"), "-r", PYTHONPATH="")
    assert outcome.green and outcome.ran, outcome.output
