"""Writes a first version of a site's configuration by examining this node.

Run it on a compute node of the partition: `srun --partition=… --gpus-per-node=… isthmus site probe NAME`. It looks for
GPUs, peer access, NUMA nodes, page faults, profilers, scheduler, launcher and modules. It queries isthmus-bench if
available, and otherwise the system. Each finding is written with its source. Facts that could not be found are FILL_IN,
which `isthmus site check` reports until a person has filled them in.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import socket

import jinja2

from isthmus import Error, exits, spelling
from isthmus.references import site_tree
from isthmus.site import batch, hardware
from isthmus.site.machine import FILL_IN, Machine
from isthmus.tables import output


def add_arguments(parser):
    parser.add_argument("name", help="name of the site, in records and as a folder")
    parser.add_argument("--partition", metavar="NAME", help="scheduler's name for this node's partition")
    parser.add_argument(
        "--bench", metavar="FILE", help="isthmus-bench, which knows most about a GPU (default: $ISTHMUS_BENCH)"
    )
    parser.add_argument("--write", action="store_true", help="write into site-configs/NAME/, which must not exist yet")
    site_tree.add_root(parser)


def run(arguments) -> int:
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", arguments.name):
        raise Error(f"{arguments.name!r} cannot be a site's name; use lower-case letters, digits, - and _")
    machine = Machine(bench=arguments.bench or os.environ.get("ISTHMUS_BENCH"))
    text = configuration(arguments.name, machine, arguments.partition)
    if not arguments.write:
        print(text, end="")
        return exits.PASSED
    folder = site_tree.root_of(arguments.root) / "site-configs" / arguments.name
    try:
        with output.whole_folder(folder) as unfinished:
            (unfinished / "reframe.py").write_text(text, encoding="utf-8")
            (unfinished / "README.md").write_text(readme(arguments.name, machine), encoding="utf-8")
    except FileExistsError:
        raise Error(
            f"{folder} already exists, and nothing was changed; to add this kind of node, run the command without "
            f"--write and copy its entries of 'partitions' into {folder / 'reframe.py'}"
        ) from None
    except OSError as error:
        raise Error(f"{folder}: {error.strerror}") from None
    print(f"wrote {folder}/reframe.py and README.md; fill in what `isthmus site check {arguments.name}` names")
    return exits.PASSED


# --- writing ---


def configuration(name: str, machine: Machine, named: str | None) -> str:
    """Returns the text of reframe.py; this node's hardware is stated only for partitions to which the node belongs."""
    notes: list[str] = []
    system, scheduler, launcher = batch.batch(machine, notes)
    partitions = batch.partitions(machine, system, named, notes)
    modules_system, loaded = batch.modules(machine, notes)
    variables = batch.mpi_variables(machine, launcher, notes)
    is_local = scheduler == "local"
    of_mpi: list[str] = []
    has_mpi = batch.has_mpi(machine, launcher, variables, of_mpi, is_local=is_local)
    node = hardware.look(machine)
    if not any(partition.here for partition in partitions):
        notes += [hardware.summary(node), *node.notes]
    here = socket.gethostname()
    submit_host = here if is_local else machine.environ.get(system.submit_host)
    folder = jinja2.FileSystemLoader(pathlib.Path(__file__).parent)
    environment = jinja2.Environment(
        loader=folder,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"text": _text, "comment": _comment, "printable": spelling.printable}
    return environment.get_template("reframe.py.jinja").render(
        name=name, here=here, FILL_IN=FILL_IN, host=host_pattern(submit_host), notes=notes, system=system,
        plugin={"flux-batch": "flux_batch", "pals": "pals"}.get(scheduler if scheduler == "flux-batch" else launcher),
        modules_system=modules_system, loaded=loaded, scheduler=scheduler, launcher=launcher, is_local=is_local,
        account=machine.environ.get("SLURM_JOB_ACCOUNT") if system is batch.SLURM else None,
        node=node, partitions=partitions, mpi_variables=variables, has_mpi=has_mpi,
        of_mpi=of_mpi,
    )  # fmt: skip


def _comment(note: str, indent: int) -> str:
    """Returns a note as comment lines that are indented by `indent` blanks."""
    return "\n".join(f"{' ' * indent}# {line}" for line in spelling.fold(note, 118 - indent))


def _text(value) -> str:
    """Returns a value as JSON, which is also valid Python if the value is a text or a list of texts."""
    return json.dumps(value, ensure_ascii=False)


def host_pattern(host: str | None) -> str:
    """Returns a regular expression for a host and those that differ in numbers (login\\d+); FILL_IN without a host."""
    if not host or not re.fullmatch(r"[\w.-]+", host):
        return FILL_IN
    return re.sub(r"\d+", r"\\d+", host.replace(".", r"\."))


def readme(name: str, machine: Machine) -> str:
    return (
        f"# {name}\n\nA first version by `isthmus site probe`, on {socket.gethostname()}. "
        "Describe here what is stated, where it is documented, and what a first run has shown.\n\n"
        f"    reframe -C site-configs/{name}/reframe.py -c reframe/checks -r -t smoke\n"
    )
