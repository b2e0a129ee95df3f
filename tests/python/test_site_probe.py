"""`isthmus site probe` writes what stand-ins for a machine's tools show, and FILL_IN where they are silent."""

import json
import pathlib
import shutil
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus import cli, exits
from isthmus.references import site_tree
from isthmus.site import check, probe

ROOT = pathlib.Path(__file__).resolve().parents[2]

NVIDIA_SMI = """case "$*" in
  *query-gpu*) echo 'NVIDIA H200, 9.0'; echo 'NVIDIA H200, 9.0' ;;
  *p2p*) printf ' \\tGPU0\\tGPU1\\n GPU0\\tX\\tOK\\n GPU1\\t%s\\tX\\n\\nLegend:\\n' "${PEER:-OK}" ;;
  -q) echo "    Addressing Mode                       : ${MODE:-HMM}" ;;
esac"""
SLURM = {
    "sinfo": """case "$*" in
  *'-n '*) echo gpu ;;
  *%l*) echo 'cpu|2-00:00:00|(null)'; echo 'gpu|30:00|gpu:h200:2'; echo 'old|infinite|gpu:v100:4(S:0-1)' ;;
  *) echo cpu; echo gpu; echo old ;;
esac""",
    "sacct": "true",
    "srun": "true",
    "mpicxx": "true",
}


@pytest.fixture
def machine(tmp_path):
    """machine(tools, files, **environment) → a Machine whose commands and files are these alone."""

    def make(tools=None, files=None, bench=None, is_root=False, **environment):
        root = tmp_path / "root"
        commands = tmp_path / "commands"
        for folder in (root, commands):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        for name, script in (tools or {}).items():
            (commands / name).write_text(f"#!/bin/bash\n{script}\n")
            (commands / name).chmod(0o755)
        for name, text in (files or {}).items():
            path = root / name.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return probe.Machine(bench, root, {"PATH": str(commands), **environment}, is_root)

    return make


def written(machine, tmp_path, name="atlantis", partition=None):
    """The system, its partitions and its environments, read back."""
    text = probe.configuration(name, machine, partition)
    folder = tmp_path / "tree/site-configs" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "reframe.py").write_text(text)
    (folder / "README.md").write_text("# x")
    configuration = site_tree.load(folder / "reframe.py")
    [system] = configuration["systems"]
    return system, {p["name"]: p for p in system["partitions"]}, configuration["environments"], text


def complaints(tmp_path, name="atlantis"):
    """What the linter says of it."""
    root = tmp_path / "tree"
    path = root / "site-configs" / name / "reframe.py"
    return check.Site(root, name, path, check.Known(ROOT, None), check.host_patterns(root)).findings()


def test_a_bare_machine(machine, tmp_path):
    _, partitions, environments, _ = written(machine(), tmp_path)
    assert list(partitions) == ["local"]
    local = partitions["local"]
    assert (local["scheduler"], local["launcher"], local["max_jobs"]) == ("local", "local", 1)
    assert local["features"] == [] and "devices" not in local
    assert environments[0]["features"] == []
    assert not [f for f in complaints(tmp_path) if f.level == "error"]


def test_a_gpu_node_under_slurm(machine, tmp_path):
    nodes = {f"/sys/devices/system/node/node{n}/{f}": t for n in range(2)
             for f, t in (("cpulist", f"{n}"), ("meminfo", f"Node {n} MemTotal: 8 kB"))}  # fmt: skip
    memory_of_a_gpu = {
        "/sys/devices/system/node/node2/cpulist": "",
        "/sys/devices/system/node/node2/meminfo": "MemTotal: 9",
    }
    tools = SLURM | {"nvidia-smi": NVIDIA_SMI, "nsys": "true", "ncu": "true"}
    here = machine(tools, nodes | memory_of_a_gpu, SLURM_SUBMIT_HOST="login3.atl.example", LMOD_CMD="/lmod",
                   LOADEDMODULES="gcc/13:cuda/12.9")  # fmt: skip
    system, partitions, environments, text = written(here, tmp_path)
    assert system["hostnames"] == [r"^login\d+\.atl\.example"]
    assert system["modules_system"] == "lmod"
    assert environments[0]["modules"] == ["gcc/13", "cuda/12.9"]
    assert environments[0]["features"] == ["mpi"]
    assert list(partitions) == ["gpu", "cpu", "old"]  # this node's first
    gpu = partitions["gpu"]
    assert (gpu["scheduler"], gpu["launcher"], gpu["time_limit"]) == ("slurm", "srun", "30m")
    assert gpu["access"] == ["--partition=gpu", "--account=FILL_IN"]
    assert gpu["features"] == ["gpu", "cuda", "hmm", "managed", "peer", "numa", "ncu", "nsys"]
    assert gpu["devices"] == [{"type": "gpu", "arch": "sm_90", "num_devices": 2}]
    assert gpu["resources"] == [{"name": "gpu", "options": ["--gpus-per-node={num_gpus_per_node}"]}]
    assert partitions["old"]["devices"] == [{"type": "gpu", "arch": "FILL_IN", "num_devices": 4}]
    assert partitions["cpu"]["features"] == []
    assert "2 × NVIDIA H200, by nvidia-smi" in text
    errors = [f.what for f in complaints(tmp_path) if f.level == "error"]
    assert errors == ["arch 'FILL_IN' is neither like sm_90 nor like gfx942"]


@pytest.mark.parametrize("peer, mode, words", [
    ("NS", "None", ["gpu", "cuda", "managed"]),
    ("CNS", "ATS", ["gpu", "cuda", "ats", "managed"]),
    ("OK", "None", ["gpu", "cuda", "managed", "peer"]),
])  # fmt: skip
def test_what_is_not_there_is_not_stated(machine, tmp_path, peer, mode, words):
    script = f"PEER={peer} MODE={mode}\n{NVIDIA_SMI}"
    _, partitions, _, _ = written(machine({"nvidia-smi": script}), tmp_path)
    assert partitions["local"]["features"] == words


def test_gpus_that_the_job_did_not_ask_for_are_missed(machine, tmp_path):
    _, partitions, _, text = written(machine(SLURM), tmp_path)
    assert partitions["gpu"]["devices"] == [{"type": "gpu", "arch": "FILL_IN", "num_devices": 2}]
    assert "gpu:h200:2; none was seen: ask for them and probe again" in text


def test_without_accounting_squeue(machine, tmp_path):
    _, partitions, _, _ = written(machine(SLURM | {"sacct": "exit 1"}), tmp_path)
    assert partitions["gpu"]["scheduler"] == "squeue"


def test_a_partition_is_named_or_refused(machine, tmp_path):
    _, partitions, _, _ = written(machine(SLURM), tmp_path, partition="cpu")
    assert list(partitions)[0] == "cpu"
    with pytest.raises(probe.Error, match="did you mean 'gpu'"):
        probe.configuration("x", machine(SLURM), "gpuu")


def test_amd_by_the_drivers_topology(machine, tmp_path):
    kfd = "/sys/class/kfd/kfd/topology/nodes"
    files = {f"{kfd}/0/properties": "cpu_cores_count 64\ngfx_target_version 0\n"}
    for node, other in ((1, 2), (2, 1)):
        files[f"{kfd}/{node}/properties"] = "cpu_cores_count 0\ngfx_target_version 90010\n"
        files[f"{kfd}/{node}/io_links/0/properties"] = f"type 11\nnode_from {node}\nnode_to {other}\n"
    _, partitions, _, _ = written(machine(files=files, HSA_XNACK="1"), tmp_path)
    local = partitions["local"]
    assert local["features"] == ["gpu", "hip", "peer", "xnack"]
    assert local["devices"] == [{"type": "gpu", "arch": "gfx90a", "num_devices": 2}]
    assert local["env_vars"] == [["HSA_XNACK", "1"]]
    assert not [f for f in complaints(tmp_path) if f.level == "error"]
    del files[f"{kfd}/2/io_links/0/properties"]
    assert "peer" not in written(machine(files=files), tmp_path)[1]["local"]["features"]


@pytest.mark.parametrize("version, arch", [("90010", "gfx90a"), ("90402", "gfx942"), ("110000", "gfx1100")])
def test_names_of_amd_architectures(machine, version, arch):
    files = {"/sys/class/kfd/kfd/topology/nodes/1/properties": f"gfx_target_version {version}\n"}
    assert probe.gpus(machine(files=files)).arch == arch


def info(**changes):
    device = {"backend": "cuda", "arch": "sm_90", "name": "NVIDIA GH200"} | changes
    capabilities = (["managed", "concurrent_managed", "pageable_access"], ["managed", "pageable_access"])
    return {"emulated": False, "devices": [{**device, "capabilities": words} for words in capabilities]}


def test_the_program_knows_best_and_all_gpus_must_agree(machine, tmp_path):
    said = info()
    for device, memory in zip(said["devices"], (96, 95.5), strict=True):
        device["memory_bytes"] = int(memory * 2**30)
    tools = {"isthmus-bench": f"echo '{json.dumps(said)}'", "nvidia-smi": NVIDIA_SMI}
    here = machine(tools, bench="isthmus-bench")
    _, partitions, _, text = written(here, tmp_path)
    assert partitions["local"]["features"] == ["gpu", "cuda", "hmm", "managed", "peer", "system"]
    assert partitions["local"]["extras"] == {"isthmus": {"device_memory": "95.5GiB"}}
    assert "by isthmus-bench info" in text


def test_an_emulator_is_no_gpu(machine, tmp_path):
    tools = {"isthmus-bench": f"echo '{json.dumps(info() | {'emulated': True})}'"}
    assert "devices" not in written(machine(tools, bench="isthmus-bench"), tmp_path)[1]["local"]


@pytest.mark.parametrize("script", ["exit 1", "echo no json", "echo '{}'", "echo '[]'"])
def test_a_program_that_does_not_answer_is_an_error(machine, script):
    with pytest.raises(probe.Error, match="info --json"):
        probe.configuration("x", machine({"isthmus-bench": script}, bench="isthmus-bench"), None)


def test_profilers_that_cannot_be_used_are_not_stated(machine, tmp_path):
    files = {"/proc/driver/nvidia/params": "RmProfilingAdminOnly: 1\n", "/proc/sys/kernel/perf_event_paranoid": "4\n"}
    tools = {"ncu": "true", "perf": "true", "nsys": "true"}
    _, partitions, _, text = written(machine(tools, files), tmp_path)
    assert partitions["local"]["features"] == ["nsys"]
    assert "only root may read" in text and "perf_event_paranoid is 4" in text


def test_cupti_lies_in_the_toolkit(machine, tmp_path):
    files = {"/opt/cuda/extras/CUPTI/lib64/libcupti.so.13": ""}
    assert written(machine(files=files, CUDA_HOME="/opt/cuda"), tmp_path)[1]["local"]["features"] == ["cupti"]
    assert written(machine(files=files), tmp_path)[1]["local"]["features"] == []


@pytest.mark.parametrize("kinds, variables", [
    ("MPI plugin types are...\n\tpmix\n\tcray_shasta", [["SLURM_MPI_TYPE", "pmix"], ["SLURM_CPU_BIND", "none"]]),
    ("MPI plugin types are...\n\tpmi2", [["SLURM_CPU_BIND", "none"]]),
])  # fmt: skip
def test_open_mpi_is_started_by_pmix_where_slurm_has_it(machine, tmp_path, kinds, variables):
    tools = SLURM | {"srun": f"printf '{kinds}' >&2", "ompi_info": "true"}
    _, partitions, _, _ = written(machine(tools), tmp_path)
    assert partitions["gpu"]["env_vars"] == variables


@pytest.mark.parametrize("says, is_root, allowed", [
    ("mpirun (Open MPI) 4.1.4", True, True), ("mpirun (Open MPI) 4.1.4", False, False), ("HYDRA", True, False),
])  # fmt: skip
def test_open_mpi_that_is_started_by_root_is_told_to(machine, tmp_path, says, is_root, allowed):
    _, partitions, _, text = written(machine({"mpirun": f"echo '{says}'"}, is_root=is_root), tmp_path)
    variables = [["OMPI_ALLOW_RUN_AS_ROOT", "1"], ["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"]] if allowed else None
    assert partitions["local"].get("env_vars") == variables
    assert ("the probe ran as root" in text) == allowed
    assert not [f for f in complaints(tmp_path) if f.level == "error"]


@pytest.mark.parametrize("tools, environment, expected", [
    ({"flux": "true"}, {"FLUX_JOB_QUEUE": "pdebug"}, ("flux-batch", "flux-run", "--queue=pdebug")),
    ({"qsub": "true"}, {"PBS_QUEUE": "debug"}, ("pbs", "mpiexec", "-q debug")),
    ({"qsub": "true"}, {}, ("pbs", "mpiexec", "-q FILL_IN")),
    ({"qsub": "true"}, {"CRAY_MPICH_DIR": "/opt"}, ("pbs", "pals", "-q FILL_IN")),
])  # fmt: skip
def test_other_schedulers(machine, tmp_path, tools, environment, expected):
    _, partitions, _, text = written(machine(tools, **environment), tmp_path)
    [partition] = partitions.values()
    assert (partition["scheduler"], partition["launcher"], partition["access"][0]) == expected
    assert "FILL_IN" in text
    if expected[1] in ("flux-run", "pals"):  # its plugins lie in the tree
        assert "reframe/plugins" in text
    else:
        assert not [f for f in complaints(tmp_path) if f.level == "error"]


@pytest.mark.parametrize("allowed, written_as", [
    (None, "1h"), ("30:00", "30m"), ("1:30:00", "1h"), ("2-00:00:00", "1h"), ("0:20:00", "20m"), ("odd", "1h"),
])  # fmt: skip
def test_limits_of_time(allowed, written_as):
    assert probe._limit(allowed) == written_as


@given(st.text())
def test_any_host_is_a_pattern_that_fits_it_or_left_open(host):
    pattern = probe.host_pattern(host)
    assert pattern == probe.FILL_IN or probe.re.fullmatch(pattern, host)
    assert '"' not in pattern and "\n" not in pattern


# --- the command ---


def test_the_command_writes_once(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("ISTHMUS_BENCH", raising=False)
    (tmp_path / "site-configs").mkdir()
    arguments = ["site", "probe", "atlantis", "--root", str(tmp_path)]
    assert cli.main(arguments) == exits.PASSED
    assert "site_configuration" in capsys.readouterr().out
    assert cli.main([*arguments, "--write"]) == exits.PASSED
    folder = tmp_path / "site-configs/atlantis"
    assert socket.gethostname() in (folder / "README.md").read_text()
    site_tree.load(folder / "reframe.py")
    before = (folder / "reframe.py").read_text()
    assert cli.main([*arguments, "--write"]) == exits.BAD_INPUT
    assert "is there already" in capsys.readouterr().err
    assert (folder / "reframe.py").read_text() == before


@pytest.mark.parametrize("name", ["../x", "A b", "", "-x"])
def test_a_name_that_is_no_folder_is_refused(name, capsys):
    assert cli.main(["site", "probe", name]) == exits.BAD_INPUT
    assert capsys.readouterr().err.count("\n") == 1
