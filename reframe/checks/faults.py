"""Checks of the driver's page faults, one per access pattern, with the driver's prefetcher at its default and off. The
driver's event queue counts the faults."""

import pathlib
import sys

import reframe as rfm
import reframe.core.builtins as builtins
import reframe.core.runtime as runtime
import reframe.utility.typecheck as typ
from reframe.core.exceptions import SanityError

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))

from isthmus_reframe import catalogue
from isthmus_reframe.check import IsthmusCheck
from isthmus_reframe.stated import stated_backend, stated_capabilities, stated_gpus

# Some workloads are programs. A tree without programs does not have these workloads, nor checks of them.
PROGRAMS = pathlib.Path(__file__).with_name("applications.py").exists()
OF_PROGRAMS = {"faults/" + name.removeprefix("apps/") for name in catalogue.family("apps/")}
WORKLOADS = {
    name: workload for name, workload in catalogue.family("faults/").items() if PROGRAMS or name not in OF_PROGRAMS
}
# Metrics that the event queue reports for every sample.
COUNTS = {"uvm_faults", "uvm_pages", "uvm_batches", "uvm_replays", "uvm_fault_bytes", "uvm_prefetch_bytes"}
# Workloads that touch each page exactly once.
WHOLE = ("faults/regular", "faults/random")
TWO_GPUS = ("faults/peers",)
PAGE = 4096
# Workloads whose managed memory may exceed the GPU's.
OVERSUBSCRIBED = ("faults/random", "faults/regular", "faults/strided")


@rfm.simple_test
class Faults(IsthmusCheck):
    """Check of one page-fault workload at one size."""

    workload = builtins.parameter(list(WORKLOADS), fmt=lambda name: name.removeprefix("faults/"))
    size = builtins.parameter(catalogue.sizes(WORKLOADS))
    prefetch = builtins.parameter(["default", "off"])
    #: True if the driver's event queue is read. With -S observe=no, times can still be compared with references, but
    #: the driver's work is not observed.
    observe = builtins.variable(typ.Bool, value=True)
    mode = None
    published = ("time", "page_time", "kernel", "uvm_faults", "uvm_batches")
    time_limit = "20m"

    @builtins.run_after("init")
    def describe(self):
        workload = WORKLOADS[self.workload]
        prefetcher = "off" if self.prefetch == "off" else "unchanged"
        self.descr = f"{workload['summary']}, {self.size} size, the driver's prefetcher {prefetcher}"
        self.tags = {"uvm", self.size, self.workload.rpartition("/")[2], *workload["tags"]}
        varied = workload.get("varied", {}).get(self.size, {})
        self.varied = {axis: values for axis, values in varied.items() if self.prefetch == "default"}
        if self.size == "tiny":
            self.tags.add("smoke")
        if self.size not in workload["sizes"] or (self.prefetch == "off" and self.size not in ("tiny", "small")):
            self.valid_systems = []  # `off` works for at most 2 GiB
        else:
            self.valid_systems = [p.fullname for p in runtime.runtime().system.partitions if self._teaches(p)]

    def _teaches(self, partition):
        """Returns whether the partition can run the case with a meaningful result.

        The event queue exists in NVIDIA's driver and in the emulator, which imitates it. Sizes above tiny need a GPU.
        """
        backend = stated_backend(partition)
        if self.workload in TWO_GPUS and stated_gpus(partition) < 2:
            return False
        return backend != "hip" and (self.size == "tiny" or backend is not None)

    @property
    def managed(self):
        """Placement of a program's buffers; None for workloads that are not programs, because they allocate their
        memory themselves."""
        return "managed_demand" if WORKLOADS[self.workload]["placements"] else None

    @property
    def staging(self):
        """Staging of a program: "none", because copies that a program makes while its kernels run are not page faults.
        None for workloads that are not programs."""
        return "none" if WORKLOADS[self.workload]["stagings"] else None

    def request(self):
        placement = ["--placement", self.managed] if self.managed else []
        staging = ["--staging", self.staging] if self.staging else []
        observed = ["--observe", "uvm"] if self.observed() else []
        return [self.workload, "--size", self.size, *placement, *staging, *observed, *self._settings()]

    def _settings(self):
        return [] if self.prefetch == "default" else ["--set", f"driver_prefetch={self.prefetch}", *self._memory()]

    def _memory(self):
        """Returns the option that selects managed memory, if the workload has one, because the driver prefetches only
        managed memory."""
        return ["--set", "memory=managed"] if "memory" in WORKLOADS[self.workload]["axes"] else []

    def observed(self):
        return self.observe and not self.profiler

    def settled(self):
        return {"mode": None, "size": self.size, "placement": self.managed, "staging": self.staging}

    def axes_of(self, point):
        return super().axes_of(point) | {"driver_prefetch": self.prefetch}

    def required_metrics(self, point):
        own = (
            {"host_touch", "device_alloc", "kernel", "free"}
            if self.managed
            else set(WORKLOADS[self.workload]["metrics"])
        )
        return (
            own
            | (COUNTS if self.observed() else set())
            | ({"driver_prefetch_setup"} if self.prefetch == "off" else set())
        )

    def denied(self, point, case, stated):
        return stated & {"managed"}

    def record_name(self):
        return f"{self.workload}-{self.size}-{self.prefetch}"

    def _judge_case(self, case):
        super()._judge_case(case)
        if case["skipped"] or not self.observed():
            return
        samples = {m["name"]: m["samples"] for m in case["metrics"]}
        if self.prefetch == "off" and any(samples.get("uvm_prefetch_bytes", [])):
            raise SanityError(
                f"the driver's prefetcher is off, but moved {max(samples['uvm_prefetch_bytes']):.0f} bytes in a sample"
            )
        whole = self.workload in WHOLE and self.prefetch == "off"
        if not whole or COUNTS - set(samples):
            return
        footprint = case["axes"]["bytes"]
        for pages, moved in zip(samples["uvm_pages"], samples["uvm_fault_bytes"], strict=True):
            if pages * PAGE != footprint or moved != footprint:
                raise SanityError(
                    f"{pages:.0f} pages faulted and {moved:.0f} bytes moved for them, but all {footprint} bytes "
                    "are touched once and nothing is prefetched"
                )


@rfm.simple_test
class OversubscribedFaults(IsthmusCheck):
    """Check of page faults with more managed memory than the GPU has. This can hang the GPU, so the check runs only
    where a site states exclusive use."""

    workload = builtins.parameter(OVERSUBSCRIBED, fmt=lambda name: name.removeprefix("faults/"))
    ratio = builtins.parameter([1.1, 1.25])
    size = None
    mode = None
    published = ("time", "page_time", "kernel", "uvm_faults", "uvm_eviction_bytes")
    exclusive_access = True
    time_limit = "60m"

    @builtins.run_after("init")
    def describe(self):
        workload = WORKLOADS[self.workload]
        self.descr = f"{workload['summary']}, {self.ratio} times the memory that the GPU has free"
        self.tags = {"oversubscription", self.workload.rpartition("/")[2]}
        self.varied = {}
        self.valid_systems = [p.fullname for p in runtime.runtime().system.partitions if self._allows(p)]

    def _allows(self, partition):
        return stated_backend(partition) == "cuda" and "oversubscription" in stated_capabilities(partition)

    def request(self):
        return [self.workload, "--oversubscribe", str(self.ratio), "--allow-oversubscription", "--observe", "uvm"]

    def settled(self):
        return {"mode": None, "size": None, "placement": None, "staging": None}

    def axes_of(self, point):
        """Returns the axes without `bytes`, which depends on the free memory."""
        return {axis: value for axis, value in super().axes_of(point).items() if axis != "bytes"}

    def required_metrics(self, point):
        return set(WORKLOADS[self.workload]["metrics"]) | COUNTS | {"uvm_eviction_bytes"}

    def denied(self, point, case, stated):
        return stated & {"managed"}

    def record_name(self):
        return f"{self.workload}-oversubscribed-{self.ratio}"

    def _judge_case(self, case):
        super()._judge_case(case)
        if case["skipped"]:
            return
        if "oversubscribe" not in case.get("notes", {}):
            raise SanityError("the record does not say that it was oversubscribed")
        # Another gate reports a missing metric.
        evicted = [m["samples"] for m in case["metrics"] if m["name"] == "uvm_eviction_bytes"]
        if not all(map(all, evicted)):
            raise SanityError(f"the memory is {self.ratio} times what was free, but a sample evicted nothing")
