"""Classes of pairs of transfer/*, and the capabilities that a pair needs, derived from its name:
<from>-<to>/<way>[-duplex]."""

import dataclasses

FAMILY = "transfer/"


@dataclasses.dataclass(frozen=True)
class Pairs:
    """Class of pairs that one run measures; `patterns` are globs for names without the family's prefix."""

    summary: str
    patterns: tuple[str, ...]
    gpus: int = 1  #: number of GPUs that a pair of this class needs
    tags: frozenset[str] = frozenset()
    needs: frozenset[str] = frozenset()  #: capabilities that the names do not show


HOST = ("pageable", "pinned", "registered", "write_combined", "managed")
COPIED_AT_HOME = ("pageable", "pinned", "registered", "managed")
PEER = frozenset({"peer"})

PAIRS = {
    "host-to-gpu": Pairs("copies from every memory of the host", tuple(f"{m}-gpu*/ce" for m in HOST)),
    "gpu-to-host": Pairs("copies to every memory of the host", tuple(f"gpu*-{m}/ce" for m in HOST)),
    "host-gpu-duplex": Pairs("copies from and to the host at once", tuple(f"{m}-gpu*/ce-duplex" for m in HOST)),
    "host-gpu-boxes": Pairs(
        "batched, strided and packed copies from and to the host",
        tuple(f"{ends}/{way}" for way in ("ce-batch", "ce-strided", "pack") for ends in ("pinned-gpu*", "gpu*-pinned")),
    ),
    "host-gpu-kernels": Pairs(
        "kernels that read and write the host's memory",
        (*(f"{m}-gpu*/sm-read" for m in ("mapped", "registered", "write_combined")),
         *(f"gpu*-{m}/sm-write" for m in ("mapped", "registered", "write_combined")), "mapped-gpu*/sm-read-duplex"),
    ),
    "managed-faults": Pairs(
        "page faults on managed memory: rates and the time of one",
        ("managed-gpu*/fault", "gpu*-managed/fault", "managed-gpu*/fault-duplex",
         "managed-gpu*/fault-latency", "gpu*-managed/fault-latency"),
    ),
    "pageable-faults": Pairs(
        "page faults on pageable memory: rates and the time of one",
        ("pageable-gpu*/fault", "gpu*-pageable/fault", "pageable-gpu*/fault-duplex",
         "pageable-gpu*/fault-latency", "gpu*-pageable/fault-latency"),
    ),
    "managed-prefetch": Pairs(
        "explicit prefetches, one by one and batched, and discards",
        ("managed-gpu*/prefetch", "gpu*-managed/prefetch", "managed-gpu*/prefetch-duplex",
         "managed-gpu*/prefetch-batch", "gpu*-managed/prefetch-batch", "managed-gpu*/discard", "gpu*-managed/discard"),
    ),
    "latency": Pairs(
        "latency of one access and of one small copy",
        ("mapped-gpu*/chase", "gpu*-gpu*/chase",
         "pinned-gpu*/small-copy", "gpu*-pinned/small-copy", "gpu*-gpu*/small-copy"),
        tags=frozenset({"latency"}),
    ),
    "gpu-gpu": Pairs("copies and reading kernels within a GPU and between all pairs",
                     ("gpu*-gpu*/ce", "gpu*-gpu*/sm-read")),
    "gpu-gpu-copies": Pairs(
        "copies between GPUs: both ways at once, without peer access, batched, strided, packed",
        tuple(f"gpu*-gpu*/{way}"
              for way in ("ce-duplex", "ce-nopeer", "ce-nopeer-duplex", "ce-batch", "ce-strided", "pack")),
        gpus=2, tags=PEER,
    ),
    "gpu-gpu-kernels": Pairs(
        "kernels that write another GPU's memory, and both ways at once",
        tuple(f"gpu*-gpu*/{way}" for way in ("sm-write", "sm-write-duplex", "sm-read-duplex")), gpus=2, tags=PEER,
    ),
    "gpu-gpu-pages": Pairs(
        "page faults and prefetches of managed memory from one GPU to another",
        tuple(f"gpu*-gpu*/{way}" for way in
              ("fault", "fault-duplex", "fault-latency", "prefetch", "prefetch-duplex", "prefetch-batch")),
        gpus=2, tags=PEER, needs=frozenset({"managed"}),
    ),
    "groups": Pairs("one to all, all to one, all to all, at once", ("*-all/*", "all-*/*"), gpus=2, tags=PEER),
    "host-to-host": Pairs("the host's threads, between all pairs of NUMA nodes", ("node*-node*/cpu",), gpus=0,
                          tags=frozenset({"host", "numa"})),
    "runtime": Pairs("the runtime's own copies within the host",
                     tuple(f"{a}-{b}/runtime" for a in COPIED_AT_HOME for b in COPIED_AT_HOME),
                     tags=frozenset({"host"})),
}  # fmt: skip

# Calls that some runtimes lack. A skip contradicts the site's statements only if they include these calls.
RECENT_CALLS = {"ce-batch", "prefetch-batch", "discard"}
# Methods that use kernels. For pageable memory, they need more than copies do; a site states that as `system`.
BY_KERNELS = {"chase", "fault", "fault-latency", "sm-read", "sm-write"}
# Capability that a site states for a kind of memory in workloads' names, if it differs from that name.
STATED_AS = {"all": "gpu", "node": "numa"}


def ends_and_way(workload: str) -> tuple[str, str, str]:
    ends, _, way = workload.removeprefix(FAMILY).partition("/")
    origin, _, target = ends.partition("-")
    return origin, target, way.removesuffix("-duplex")


def needs(workload: str) -> set[str]:
    """Returns the capabilities that a site can state and that together make this transfer possible."""
    origin, target, way = ends_and_way(workload)
    ends = {STATED_AS.get(kind, kind) for kind in (end.rstrip("0123456789") for end in (origin, target))}
    if "pageable" in ends and way in BY_KERNELS:
        ends = ends - {"pageable"} | {"system"}
    between_gpus = ends == {"gpu"} and (origin != target or origin == "all")
    return ends | ({way} & RECENT_CALLS) | (PEER if between_gpus else set())
