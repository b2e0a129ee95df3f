"""Tests that `isthmus site probe` writes what a machine's tools, here stubs, show, and FILL_IN for what they do not."""

import json
import os
import pathlib
import re
import shutil
import socket
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from isthmus import cli, exits, tools
from isthmus.references import site_tree
from isthmus.site import batch, check, hardware, probe

ROOT = pathlib.Path(__file__).resolve().parents[2]

KNOWN = check.Known(ROOT, None)

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
    """Returns machine(tools, files, **environment), which makes a Machine with only these commands and files."""

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
    """Writes a site. Returns its system, its partitions keyed by name, its environments, and the text of the file."""
    text = probe.configuration(name, machine, partition)
    folder = tmp_path / "tree/site-configs" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "reframe.py").write_text(text)
    (folder / "README.md").write_text("# x")
    configuration = site_tree.load(folder / "reframe.py")
    [system] = configuration["systems"]
    return system, {p["name"]: p for p in system["partitions"]}, configuration["environments"], text


def said(text):
    """Returns a file's text with its folded comment lines joined."""
    return " ".join(text.split()).replace(" # ", " ")


def complaints(tmp_path, name="atlantis"):
    """Returns the findings of `isthmus site check` for the written site."""
    root = tmp_path / "tree"
    files = check.read(root)
    return check.Site(root, name, KNOWN, files, check.host_patterns(files)).findings()


def blanks(tmp_path):
    """Returns what is to be filled in according to `isthmus site check`, after checking that it has no other error."""
    errors = [f.what for f in complaints(tmp_path) if f.level == "error"]
    assert all(what.endswith(" is still to be filled in (FILL_IN)") for what in errors), errors
    return [what.partition(" is still")[0] for what in errors]


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
    assert list(partitions) == ["gpu", "cpu", "old"]  # this node's partition comes first
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
    assert errors == [
        "access '--account=FILL_IN' is still to be filled in (FILL_IN)",
        "access '--account=FILL_IN' is still to be filled in (FILL_IN)",
        "access '--account=FILL_IN' is still to be filled in (FILL_IN)",
        "devices is still to be filled in (FILL_IN)",
    ]


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
    assert "gpu:h200:2; none was seen: request them and probe again" in text


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
    assert [kind.arch for kind in hardware.gpus(machine(files=files), [], []).kinds] == [arch]


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
    if expected[1] in ("flux-run", "pals"):  # launchers whose plug-ins are in this tree
        assert "isthmus_reframe" in text
    else:
        assert not [f for f in complaints(tmp_path) if f.level == "error" and "to be filled in" not in f.what]


@pytest.mark.parametrize("allowed, written_as", [
    (None, "1h"), ("30:00", "30m"), ("1:30:00", "1h"), ("2-00:00:00", "1h"), ("0:20:00", "20m"),
    ("0:30", "30s"), ("1:30", "1m30s"), ("infinite", "1h"), ("odd", "FILL_IN"), ("0:00", "FILL_IN"),
])  # fmt: skip
def test_limits_of_time(allowed, written_as):
    assert batch.Partition("x", allowed).time_limit == written_as


# --- queries that fail, and answers that are not understood ---

NO_DRIVER = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
OLD_SMI = """case "$*" in
  *compute_cap*) echo 'Field "compute_cap" is not a valid field to query.'; exit 2 ;;
  -L) echo 'GPU 0: Tesla K80 (UUID: GPU-11111111)'; echo 'GPU 1: Tesla K80 (UUID: GPU-22222222)' ;;
esac"""


def test_an_old_nvidia_smi_shows_its_gpus(machine, tmp_path):
    _, partitions, _, text = written(machine({"nvidia-smi": OLD_SMI}), tmp_path)
    assert partitions["local"]["devices"] == [{"type": "gpu", "arch": "FILL_IN", "num_devices": 2}]
    assert partitions["local"]["features"] == ["gpu", "cuda", "managed"]
    assert "no architecture is known: nvidia-smi --query-gpu=name,compute_cap" in text
    assert "2 × Tesla K80, by nvidia-smi" in text
    assert blanks(tmp_path) == ["devices"]


@pytest.mark.parametrize("script, why", [
    (f'echo "{NO_DRIVER}"; exit 9', f"ends with exit code 9 ({NO_DRIVER})"),
    ("exit 0", "prints nothing"),
    ("echo 'Segmentation fault'", "nvidia-smi is odd"),
    ("kill -11 $$", "ends by signal 11"),
])  # fmt: skip
def test_a_tool_that_does_not_answer_is_no_answer(machine, tmp_path, script, why):
    _, partitions, _, text = written(machine({"nvidia-smi": script}), tmp_path)
    assert partitions["local"]["features"] == ["FILL_IN"]
    assert "no GPU was seen" not in text
    assert "whether there are NVIDIA GPUs is not known" in said(text) and why in said(text)
    assert blanks(tmp_path) == ["features"]


def test_no_devices_is_an_answer(machine, tmp_path):
    _, partitions, _, text = written(machine({"nvidia-smi": "echo No devices were found; exit 6"}), tmp_path)
    assert partitions["local"]["features"] == [] and "no GPU was seen on this node" in text


@pytest.mark.parametrize("tool, script, why", [
    ("nvidia-smi", "echo 'Unable to determine the device handle for GPU0000:3B:00.0: Unknown Error'\n"
     "echo 'No devices were found'; exit 255", "says 'Unable to determine the device handle for GPU0000:3B:00.0"),
    ("nvidia-smi", "echo No devices were found; echo 'GPU is lost' >&2; exit 6", "says 'GPU is lost'"),
    ("nvidia-smi", "echo No devices were found; exit 15", "ends with exit code 15"),
    ("nvidia-smi", "echo No devices were found; kill -9 $$", "ends by signal 9"),
    ("nvidia-smi", 'case "$*" in -L) echo Unable to determine the handle; exit 255 ;; esac\n'
     "echo No devices were found; exit 6", "not known"),
    ("rocm-smi", "echo 'ERROR: GPU[1] did not answer'; echo 'WARNING: No AMD GPUs specified'",
     "says 'ERROR: GPU[1] did not answer'"),
    ("rocm-smi", "echo 'WARNING: No AMD GPUs specified'; exit 139", "ends with exit code 139"),
    ("amd-smi", "echo 'No AMD GPUs found, driver is not loaded'", "amd-smi lists none"),
])  # fmt: skip
def test_no_devices_beside_a_complaint_is_no_answer(machine, tmp_path, tool, script, why):
    _, partitions, _, text = written(machine({tool: script}), tmp_path)
    assert partitions["local"]["features"] == ["FILL_IN"] and "no GPU was seen" not in text
    assert "GPUs is not known: " in said(text) and why in said(text)
    assert blanks(tmp_path) == ["features"]


@pytest.mark.parametrize("change, why", [
    ({"memory_bytes": "85899345920"}, "memory_bytes of GPU 0 is '85899345920', not a number of bytes"),
    ({"memory_bytes": -1}, "memory_bytes"), ({"memory_bytes": True}, "memory_bytes"), ({"memory_bytes": 1.5}, "bytes"),
    ({"name": None}, "name of GPU 0"), ({"name": 3}, "name of GPU 0"), ({"arch": ["sm_90"]}, "arch of GPU 0"),
    ({"arch": ""}, "arch of GPU 0"), ({"backend": "opencl"}, "backend of GPU 0"), ({"backend": []}, "backend of GPU 0"),
    ({"capabilities": None}, "capabilities of GPU 0"), ({"capabilities": "managed"}, "capabilities of GPU 0"),
    ({"capabilities": [{}]}, "capabilities of GPU 0"), ({"capabilities": {"managed": 1}}, "capabilities of GPU 0"),
])  # fmt: skip
def test_each_field_of_the_program_is_what_it_should_be(machine, change, why):
    told = info()
    told["devices"] = [device | change for device in told["devices"]]
    with pytest.raises(probe.Error, match="not written by isthmus-bench") as error:
        probe.configuration("x", machine({"b": f"echo '{json.dumps(told)}'"}, bench="b"), None)
    assert why in str(error.value) and "is not known" in str(error.value)


@pytest.mark.parametrize("change", [
    {"devices": {}}, {"devices": None}, {"devices": ""}, {"devices": [3]}, {"emulated": "no"}, {"emulated": 0},
    {"emulated": None}, {"emulated": True, "devices": {}},
])  # fmt: skip
def test_what_is_no_list_of_gpus_is_not_no_gpu(machine, change):
    with pytest.raises(probe.Error, match="it is not known whether there are GPUs"):
        probe.configuration("x", machine({"b": f"echo '{json.dumps(info() | change)}'"}, bench="b"), None)


@pytest.mark.parametrize("rows, devices", [
    (["NVIDIA T400 4GB, 7.5", "A100-PCIE-40GB, 8.0", "A100-PCIE-40GB, 8.0"], [("sm_75", 1), ("sm_80", 2)]),
    (["Tesla, K80, 3.7"], [("sm_37", 1)]),
    (["A100, [N/A]", "A100, [N/A]"], [("FILL_IN", 2)]),
    (["H100, 9.0", "H100, [Unknown Error]"], [("sm_90", 1), ("FILL_IN", 1)]),
    (["H100, 9.0", "Unable to determine the device handle for GPU 0000:41:00.0: GPU is lost."],
     [("sm_90", "FILL_IN")]),
])  # fmt: skip
def test_every_gpu_counts(machine, tmp_path, rows, devices):
    lines = "".join(f"echo '{row}';" for row in rows)
    _, partitions, _, text = written(machine({"nvidia-smi": f'case "$*" in *compute_cap*) {lines} ;; esac'}), tmp_path)
    expected = [{"type": "gpu", "arch": arch, "num_devices": count} for arch, count in devices]
    assert partitions["local"]["devices"] == expected
    assert ("the GPUs of this node differ" in text) == (len(devices) > 1)
    assert ("GPU is lost" in said(text)) == ("FILL_IN" in [count for _, count in devices])


def test_gpus_that_differ_are_all_named_by_the_program(machine, tmp_path):
    said = info()
    said["devices"][1] |= {"arch": "sm_75", "name": "NVIDIA T4"}
    here = machine({"isthmus-bench": f"echo '{json.dumps(said)}'"}, bench="isthmus-bench")
    assert [(d["arch"], d["num_devices"]) for d in written(here, tmp_path)[1]["local"]["devices"]] == [
        ("sm_90", 1), ("sm_75", 1),
    ]  # fmt: skip


def test_of_mig_instances_a_program_uses_one(machine, tmp_path):
    script = """case "$*" in
      *compute_cap*) echo 'NVIDIA A100, 8.0'; echo 'NVIDIA A100, 8.0' ;;
      -L) echo 'GPU 0: NVIDIA A100 (UUID: GPU-1)'; echo '  MIG 1g.5gb  Device 0: (UUID: MIG-1)' ;;
    esac"""
    _, partitions, _, text = written(machine({"nvidia-smi": script}), tmp_path)
    assert partitions["local"]["devices"] == [{"type": "gpu", "arch": "sm_80", "num_devices": 1}]
    assert "1 × NVIDIA A100 is split into 1 MIG instance (1g.5gb): a program uses only one" in said(text)


@pytest.mark.parametrize("cut, devices", [
    ((), [("sm_80", 1), ("sm_80", 2), ("sm_90", 1)]),
    ((1,), [("sm_80", 1), ("sm_80", 2), ("sm_90", 1)]),  # one A100 is whole, and the other has instances
    ((1, 2), [("sm_80", 1), ("sm_80", 1), ("sm_90", 1)]),
    ((0, 3), [("sm_80", 1), ("sm_80", 2), ("sm_90", 1)]),
])  # fmt: skip
def test_mig_cuts_the_gpu_above_it_alone(machine, tmp_path, cut, devices):
    names = ["NVIDIA A30", "NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB", "NVIDIA H100"]
    queried = "".join(f"echo '{name}, {'9.0' if 'H' in name else '8.0'}';" for name in names)
    instances = "echo '  MIG 1g.10gb     Device  0: (UUID: MIG-1)'; echo '  MIG 2g.20gb     Device  1: (UUID: MIG-2)';"
    listed = "".join(
        f"echo 'GPU {number}: {name} (UUID: GPU-{number})';{instances if number in cut else ''}"
        for number, name in enumerate(names)
    )
    smi = f'case "$*" in *query-gpu*) {queried} ;; -L) {listed} ;; esac'
    _, partitions, _, text = written(machine({"nvidia-smi": smi}), tmp_path)
    assert [(d["arch"], d["num_devices"]) for d in partitions["local"]["devices"]] == devices
    for name in set(names):
        count = sum(names[number] == name for number in cut)
        assert (f"{name} {'is' if count == 1 else 'are'} split into {2 * count} MIG instances" in said(text)) == bool(
            count
        )


def test_mig_that_nvidia_smi_does_not_tell_is_not_known(machine, tmp_path):
    gpus = "for i in 1 2 3 4; do echo 'NVIDIA A100-SXM4-80GB, 8.0'; done"
    smi = f'case "$*" in *query-gpu*) {gpus} ;; -L) exit 255 ;; *) exit 9 ;; esac'
    _, partitions, _, text = written(machine({"nvidia-smi": smi}), tmp_path)
    assert [d["num_devices"] for d in partitions["local"]["devices"]] == [4]
    assert "MIG: not known, nvidia-smi -L ends with exit code 255" in said(text)


def test_a_list_that_ends_early_gives_no_number_of_gpus(machine, tmp_path):
    smi = OLD_SMI.replace("-L)", "-L) trap 'exit 3' EXIT;")
    _, partitions, _, text = written(machine({"nvidia-smi": smi}), tmp_path)
    assert [d["num_devices"] for d in partitions["local"]["devices"]] == ["FILL_IN"]
    assert "nvidia-smi -L ends with exit code 3" in said(text)
    smi = OLD_SMI.replace("-L)", "-L) trap 'echo GPU 2 is lost' EXIT;")
    _, partitions, _, text = written(machine({"nvidia-smi": smi}), tmp_path)
    assert [d["num_devices"] for d in partitions["local"]["devices"]] == ["FILL_IN"]
    assert "nvidia-smi -L says 'GPU 2 is lost'" in said(text)


def test_links_that_are_told_in_part_state_no_peer(machine, tmp_path):
    smi = NVIDIA_SMI.replace("*p2p*)", "*p2p*) trap 'exit 3' EXIT;")
    _, partitions, _, text = written(machine({"nvidia-smi": smi}), tmp_path)
    assert "peer" not in partitions["local"]["features"]
    assert "peer: not known, nvidia-smi topo -p2p r ends with exit code 3" in said(text)


@pytest.mark.parametrize("says, asked", [
    ("echo 'Field \"compute_cap\" is not a valid field to query.'; exit 2", None),
    ("echo 'No devices were found'; exit 6", None),
    ("echo 9.0; echo 8.0; echo 9.0", "-DCMAKE_CUDA_ARCHITECTURES=80;90"),
])  # fmt: skip
def test_the_build_takes_no_error_for_an_architecture(tmp_path, says, asked):
    for name, script in {"nvidia-smi": says, "cmake": f'echo "$@" >>{tmp_path}/said'}.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{script}\n")
        (tmp_path / name).chmod(0o755)
    command = [ROOT / "scripts/build", "--backend", "cuda", "--build-dir", tmp_path / "build", "--target", "x"]
    path = f"{tmp_path}:{os.environ['PATH']}"
    subprocess.run(command, env=os.environ | {"PATH": path}, capture_output=True, check=True)
    found = re.findall(r"-DCMAKE_CUDA_ARCHITECTURES=\S+", (tmp_path / "said").read_text())
    assert found == ([asked] if asked else [])


def pci(*devices):
    return {f"/sys/bus/pci/devices/{n}/{f}": text for n, device in enumerate(devices)
            for f, text in zip(("vendor", "class"), device, strict=True)}  # fmt: skip


@pytest.mark.parametrize("device, is_gpu", [
    (("0x10de", "0x030200"), True), (("0x10de", "0x068000"), False),  # the second is an NVSwitch
    (("0x1002", "0x038000"), True), (("0x1002", "0x030000"), False), (("0x1a03", "0x030000"), False),
])  # fmt: skip
def test_a_gpu_without_its_tools_is_a_doubt(machine, tmp_path, device, is_gpu):
    _, partitions, _, text = written(machine(files=pci(device)), tmp_path)
    assert partitions["local"]["features"] == (["FILL_IN"] if is_gpu else [])
    assert ("and no tool shows any" in text) == is_gpu


def test_gpus_that_the_job_was_not_given_are_told(machine, tmp_path):
    here = machine({"nvidia-smi": NVIDIA_SMI}, pci(*[("0x10de", "0x030200")] * 4))
    assert "the PCI bus has 4 NVIDIA GPUs: request all GPUs of the node" in written(here, tmp_path)[3]


KFD = "/sys/class/kfd/kfd/topology/nodes"


@pytest.mark.parametrize("given, buses", [(2, 8), (2, 0), (0, 8), (0, 0), (8, 8)])
def test_amd_gpus_that_the_job_was_not_given_are_told(machine, tmp_path, given, buses):
    """Gives a job some of a node's GPUs. Its control group hides the properties of the other GPUs, but not their
    folders in the driver's topology."""
    files = {f"{KFD}/0/properties": "cpu_cores_count 64\nsimd_count 0\ngfx_target_version 0\n"}
    for node in range(1, 9):
        name = "properties" if node <= given else "properties/unreadable"
        files[f"{KFD}/{node}/{name}"] = "simd_count 304\ngfx_target_version 90402\n"
    here = machine(files=files | pci(*[("0x1002", "0x120000")] * buses))
    _, partitions, _, text = written(here, tmp_path)
    assert ("the PCI bus has 8 AMD GPUs: request all GPUs of the node" in said(text)) == (given == 2 and buses == 8)
    assert (f"{8 - given} entries whose properties cannot be read" in said(text)) == (given < 8)
    if given:
        assert partitions["local"]["devices"] == [{"type": "gpu", "arch": "gfx942", "num_devices": given}]
    else:
        assert partitions["local"]["features"] == ["FILL_IN"]


def test_an_old_driver_of_amd_names_no_architecture(machine, tmp_path):
    files = {f"{KFD}/0/properties": "simd_count 0\n", f"{KFD}/1/properties": "simd_count 304\n"}
    assert written(machine(files=files), tmp_path)[1]["local"]["devices"] == [
        {"type": "gpu", "arch": "FILL_IN", "num_devices": 1}
    ]


def test_links_of_amd_that_cannot_be_read_state_no_peer(machine, tmp_path):
    files = {f"{KFD}/{node}/properties": "simd_count 304\ngfx_target_version 90402\n" for node in (1, 2)}
    files |= {f"{KFD}/{node}/io_links/0/properties/unreadable": "" for node in (1, 2)}
    assert "peer" not in written(machine(files=files), tmp_path)[1]["local"]["features"]


def test_amd_gpus_that_differ(machine, tmp_path):
    kfd = "/sys/class/kfd/kfd/topology/nodes"
    files = {f"{kfd}/{n}/properties": f"gfx_target_version {v}\n" for n, v in enumerate((90010, 90402, "odd"), 1)}
    _, partitions, _, _ = written(machine(files=files), tmp_path)
    assert [d["arch"] for d in partitions["local"]["devices"]] == ["gfx90a", "gfx942", "FILL_IN"]


@pytest.mark.parametrize("tools, devices, doubt", [
    ({"rocm-smi": "echo 'GPU[0] : Card Series: AMD Instinct MI300X'"}, [("FILL_IN", 1)], None),
    ({"rocm-smi": "exit 1"}, None, "rocm-smi --showproductname ends with exit code 1"),
    ({"amd-smi": "true"}, None, "amd-smi list prints nothing"),
    ({"rocm-smi": "echo WARNING: No AMD GPUs specified"}, None, None),
])  # fmt: skip
def test_amd_by_its_tools(machine, tmp_path, tools, devices, doubt):
    _, partitions, _, text = written(machine(tools), tmp_path)
    found = partitions["local"].get("devices")
    assert (found and [(d["arch"], d["num_devices"]) for d in found]) == devices
    assert doubt is None or (doubt in text and partitions["local"]["features"] == ["FILL_IN"])


def test_a_profiler_that_does_not_start_is_not_stated(machine, tmp_path):
    tools = {"perf": "echo 'WARNING: perf not found for kernel 6.1' >&2; exit 2", "nsys": "true"}
    _, partitions, _, text = written(machine(tools), tmp_path)
    assert partitions["local"]["features"] == ["nsys"]
    assert "perf is here, but perf --version ends with exit code 2 (WARNING: perf not found" in text
    assert not [f for f in complaints(tmp_path) if f.level == "error"]


# --- Slurm ---

LINES = """batch|7-00:00:00|(null)
gpu|1-00:00:00|gpu:a100:4(S:0-1)
gpu|1-00:00:00|gpu:v100:2(S:0-1),tmpfs:100G
gpu|1-00:00:00|(null)
mixed|12:00:00|gpu:tesla:2,gpu:kepler:2
mig|30:00|gpu:1g.5gb:14(S:0),gpu:3g.20gb:2(S:1)
same|1:00:00|gpu:h100:4
same|1:00:00|gpu:h100:8
mem|infinite|gpu_mem:80000
nocons|2:00:00|gpu:a100:no_consume:4
short|0:30|(null)
odd|2:00:00|gpu:a:b:2
a.b|UNLIMITED|(null)
a_b|UNLIMITED|(null)"""


def slurm(lines, node=""):
    return SLURM | {"sinfo": f"case \"$*\" in *'-n '*) {node or 'true'} ;; *) echo '{lines}' ;; esac"}


def test_every_entry_of_sinfo_counts(machine, tmp_path):
    _, partitions, _, text = written(machine(slurm(LINES)), tmp_path)
    counts = {name: [d["num_devices"] for d in p.get("devices", [])] for name, p in partitions.items()}
    assert counts == {
        "batch": [], "gpu_a100": [4], "gpu_v100": [2], "mixed": [2, 2], "mig": [14, 2], "same": [4], "mem": [],
        "nocons": [4], "short": [], "odd": [], "a_b": [], "a_b1": [],
    }  # fmt: skip
    for name in ("a100", "v100"):
        assert partitions[f"gpu_{name}"]["access"][0] == "--partition=gpu"
        option = partitions[f"gpu_{name}"]["resources"][0]["options"]
        assert option == [f"--gpus-per-node={name}:{{num_gpus_per_node}}"]
    assert partitions["mem"]["features"] == [] and partitions["odd"]["features"] == ["FILL_IN"]
    assert [partitions[name]["time_limit"] for name in ("batch", "mig", "short", "mem")] == ["1h", "30m", "30s", "1h"]
    assert "its nodes differ (gpu:h100:4, gpu:h100:8): the least is stated" in said(text)
    assert "some nodes of the partition have no GPU" in said(text) and "the scheduler says gpu:a:b:2" in said(text)
    assert {f.what for f in complaints(tmp_path) if f.level == "error"} == {
        "devices is still to be filled in (FILL_IN)", "features is still to be filled in (FILL_IN)",
        "access '--account=FILL_IN' is still to be filled in (FILL_IN)",
        "hostnames '^FILL_IN' is still to be filled in (FILL_IN)",
    }  # fmt: skip


def test_this_node_is_of_one_kind_of_its_partition(machine, tmp_path):
    lines = "gpu|1:00:00|gpu:h200:2\ngpu|1:00:00|gpu:v100:4"
    gres = "case \"$*\" in *%G*) echo 'gpu:h200:2' ;; *) echo gpu ;; esac"
    tools = slurm(lines, gres) | {"nvidia-smi": NVIDIA_SMI}
    _, partitions, _, _ = written(machine(tools), tmp_path)
    assert partitions["gpu_h200"]["devices"][0]["arch"] == "sm_90"
    assert partitions["gpu_v100"]["devices"][0]["arch"] == "FILL_IN"
    _, partitions, _, text = written(machine(slurm(lines, "echo gpu") | {"nvidia-smi": NVIDIA_SMI}), tmp_path)
    assert {p["devices"][0]["arch"] for p in partitions.values()} == {"FILL_IN"}
    assert "sinfo does not say which of the partition's kinds of node this is" in text


NO_CONTROLLER = "echo 'Unable to contact slurm controller' >&2; exit 1"


@pytest.mark.parametrize("answer, why", [
    (NO_CONTROLLER, "which partition this node belongs: sinfo -h -n {} -o %R ends with exit code 1 (Unable"),
    ("true", "sinfo lists no partition with this node, {}; give --partition if it belongs to one"),
])  # fmt: skip
def test_a_node_of_no_known_partition_is_still_described(machine, tmp_path, answer, why):
    lines = "cpu|1:00:00|(null)\ngpu|1:00:00|gpu:h200:2"
    here = machine(slurm(lines, answer) | {"nvidia-smi": NVIDIA_SMI}, SLURMD_NODENAME="n1")
    _, partitions, _, text = written(here, tmp_path)
    assert why.format("n1") in said(text) and "give --partition" in said(text)
    assert "this node has 2 × NVIDIA H200 (sm_90); gpu, cuda, hmm, managed, peer" in said(text)
    assert "hmm: nvidia-smi, addressing mode" in said(text)
    assert partitions["gpu"]["devices"][0]["arch"] == "FILL_IN"
    _, partitions, _, text = written(here, tmp_path, partition="gpu")
    assert partitions["gpu"]["devices"][0]["arch"] == "sm_90" and "this node has" not in said(text)


def test_a_kind_of_node_that_sinfo_does_not_tell_has_a_reason(machine, tmp_path):
    gres = f'case "$*" in *%G*) {NO_CONTROLLER} ;; *) echo gpu ;; esac'
    tools = slurm("gpu|1:00:00|gpu:h200:2\ngpu|1:00:00|gpu:v100:4", gres) | {"nvidia-smi": NVIDIA_SMI}
    text = said(written(machine(tools), tmp_path)[3])
    assert "kinds of node this is: sinfo -h -n" in text and "Unable to contact" in text
    assert "this node has 2 × NVIDIA H200 (sm_90)" in text


def test_who_pays_for_this_job_pays_for_others(machine, tmp_path):
    _, partitions, _, _ = written(machine(SLURM, SLURM_JOB_ID="1", SLURM_JOB_ACCOUNT="p42"), tmp_path)
    assert partitions["gpu"]["access"][1] == "--account=p42"


# --- batch systems ---


@pytest.mark.parametrize("tools, environment, scheduler, note", [
    ({"sinfo": "echo unable to contact slurm controller >&2; exit 1"}, {}, "FILL_IN",
     "Slurm may be the batch system, but sinfo -h -o %R ends with exit code 1 (unable to contact slurm controller)"),
    ({}, {"SLURM_JOB_ID": "7", "SLURM_JOB_PARTITION": "gpu"}, "squeue", "does not list its partitions: there is no"),
    ({"sinfo": "true", "sacct": "echo lost connection >&2; exit 1"}, {}, "squeue", "squeue, which needs no accounting"),
    ({"sinfo": "true", "sacct": "true"}, {}, "slurm", "partitions: not known, sinfo -h -o %R|%l|%G prints nothing"),
    ({"flux": "exit 1"}, {}, "FILL_IN", "Flux may be the batch system, but flux resource info ends with exit code 1"),
    ({"bsub": "true", "lsid": "true", "mpirun": "true"}, {"LSB_JOBID": "1"}, "lsf", ""),
    ({"bsub": "true", "jsrun": "true"}, {"LSB_JOBID": "1"}, "lsf", "launcher: ReFrame has none for jsrun"),
    ({"oarsub": "true"}, {}, "oar", "launcher: there is no mpirun"),
    ({"qsub": "true", "qconf": "true"}, {}, "sge", ""),
    ({"qsub": "true", "qstat": "echo 'Version: 6.1.3'"}, {}, "pbs", "qstat --version does not say which PBS this is"),
    ({"qsub": "true", "qstat": "echo 'pbs_version = 22.05'"}, {}, "pbs", ""),
    ({"qsub": "true"}, {"COBALT_JOBID": "1"}, "FILL_IN", "ReFrame has no scheduler for Cobalt"),
    ({"condor_submit": "true"}, {}, "FILL_IN", "ReFrame has no scheduler for HTCondor"),
    ({}, {"ACME_JOB_ID": "1"}, "FILL_IN", "ACME_JOB_ID is set, as in a job of an unknown batch system"),
    ({}, {"CI_JOB_ID": "1"}, "local", ""),
])  # fmt: skip
def test_a_batch_system_is_known_or_left_open(machine, tmp_path, tools, environment, scheduler, note):
    _, partitions, _, text = written(machine(tools, **environment), tmp_path)
    assert {partition["scheduler"] for partition in partitions.values()} == {scheduler}
    assert note in said(text)
    assert scheduler == "local" or [f for f in complaints(tmp_path) if f.level == "error"]


@pytest.mark.parametrize("environment, system", [
    ({"LMOD_CMD": "/lmod"}, "lmod"), ({"MODULES_CMD": "/modulecmd"}, "tmod4"), ({}, "nomod"),
    ({"LOADEDMODULES": "gcc/13"}, "FILL_IN"), ({"MODULESHOME": "/usr/share/Modules"}, "FILL_IN"),
])  # fmt: skip
def test_modules_that_are_not_known_are_left_open(machine, tmp_path, environment, system):
    assert written(machine(**environment), tmp_path)[0]["modules_system"] == system


# --- MPI ---


@pytest.mark.parametrize("tools, has_mpi, note", [
    ({}, False, "no compiler of MPI was found"),
    ({"mpicxx": "true"}, False, "mpicxx is here, but no launcher that starts ranks"),
    ({"mpicxx": "true", "mpirun": "true"}, True, "mpicxx, started by mpirun"),
    ({"mpicxx": "echo no compiler >&2; exit 1", "mpirun": "true"}, False, "mpicxx --version ends with exit code 1 (no"),
    ({"mpicxx": "true", "mpirun": "echo There are not enough slots >&2; exit 1"}, False,
     "two ranks do not start: mpirun -n 2 --bind-to core true ends with exit code 1 (There are not enough slots)"),
])  # fmt: skip
def test_mpi_is_stated_where_two_ranks_start(machine, tmp_path, tools, has_mpi, note):
    _, _, environments, text = written(machine(tools), tmp_path)
    assert environments[0]["features"] == (["mpi"] if has_mpi else [])
    assert note in said(text)
    assert not [f for f in complaints(tmp_path) if f.level == "error"]


def test_a_launcher_that_takes_a_job_is_not_said_to_start_ranks(machine, tmp_path):
    _, _, environments, text = written(machine({"mpicxx": "true", "mpirun": "true", "sinfo": "exit 1"}), tmp_path)
    assert environments[0]["features"] == ["mpi"]
    assert "mpi: mpicxx, to be started by mpirun: this was not tried" in said(text)


TOOLS = ("nvidia-smi", "rocm-smi", "amd-smi", "sinfo", "sacct", "flux", "bsub", "lsid", "qsub", "qstat", "mpirun",
         "mpicxx", "srun", "ompi_info", "perf", "ncu")  # fmt: skip
LINE = st.text(st.characters(codec="utf-8"), max_size=12) | st.sampled_from(
    ["gpu|1:00:00|gpu:a100:4", "gpu|0:30|gpu:v100:2(S:0-1)", "a\"b|odd|gpu:x:y:1", "NVIDIA H200, 9.0", "T4, [N/A]",
     "GPU 0: Tesla K80 (UUID: GPU-1)", "  MIG 1g.5gb  Device 0: (UUID: MIG-1)", "Card Series: MI300X",
     "No devices were found", " GPU0\tX\tOK", " GPU1\tOK\tX", "Addressing Mode : HMM", "MPI plugin types are: pmix"]
)  # fmt: skip
ANSWER = st.one_of(
    st.just(tools.Answer("x", is_here=False)),
    st.builds(
        tools.Answer, st.just("x"), failure=st.sampled_from(["ends with exit code 1", "does not answer within 60 s"])
    ),
    st.builds(tools.Answer, st.just("x"), out=st.lists(LINE, max_size=4).map("\n".join)),
)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.fixed_dictionaries(dict.fromkeys(TOOLS, ANSWER)),
    st.sets(st.sampled_from(["SLURM_JOB_ID", "LSB_JOBID", "X_JOBID"])),
)
def test_whatever_tools_answer_a_file_is_written_that_only_lacks_blanks(tmp_path, answers, variables):
    class Stubborn(probe.Machine):
        def has(self, command):
            return command in answers and answers[command].is_here

        def ask(self, *command, environ=None):
            return answers.get(command[0], tools.Answer(command[0], is_here=False))

    written(Stubborn(None, tmp_path, dict.fromkeys(variables, "1"), is_root=True), tmp_path)
    for what in (f.what for f in complaints(tmp_path) if f.level == "error"):
        assert "to be filled in" in what or "matches every machine" in what, what


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
    refused = capsys.readouterr().err
    assert "already exists" in refused and refused.count("\n") == 1
    assert "without --write and copy its entries of 'partitions' into" in refused
    assert (folder / "reframe.py").read_text() == before


@pytest.mark.parametrize("name", ["../x", "A b", "", "-x"])
def test_a_name_that_is_no_folder_is_refused(name, capsys):
    assert cli.main(["site", "probe", name]) == exits.BAD_INPUT
    assert capsys.readouterr().err.count("\n") == 1
