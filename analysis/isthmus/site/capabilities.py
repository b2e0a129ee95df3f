"""Words with which a site states the capabilities of a partition, and the words that follow from them.

Checks require these words, `isthmus site probe` writes them, and `isthmus site check` accepts only these. A session
fails if a case was skipped as unsupported although a stated word promises that it works.
"""

from __future__ import annotations

# Word → equipment or ability of a machine that states it.
CAPABILITIES = {
    "gpu": "a GPU",
    "cuda": "an NVIDIA GPU, and CUDA to build for it",
    "nvidia": "the same as cuda",
    "hip": "an AMD GPU, and ROCm to build for it",
    "rocm": "the same as hip",
    "amd": "the same as hip",
    "peer": "all GPUs of a node can access each other's memory",
    "numa": "several NUMA nodes with host memory",
    "pageable": "copies from and to malloc'd memory",
    "pinned": "page-locked host memory",
    "streamed": "copies in chunks, overlapped with the kernel",
    "mapped": "page-locked memory that kernels read and write in place",
    "paged": "page-locked memory from which kernels fetch pages",
    "registered": "malloc'd memory that is page-locked afterwards",
    "write_combined": "write-combined page-locked memory",
    "pool": "stream-ordered allocation from pools",
    "vmm": "device memory mapped piece by piece (virtual memory management)",
    "managed": "managed memory",
    "managed_in": "managed memory, prefetched to the GPU",
    "managed_demand": "managed memory that page faults move to the GPU",
    "managed_advise": "managed memory with advice",
    "static": "managed variables",
    "system": "kernels use malloc'd memory",
    "hmm": "the same by page faults (heterogeneous memory management)",
    "ats": "the same by common page tables (address translation services)",
    "xnack": "an AMD GPU that retries after a page fault, and HSA_XNACK=1 in the environment",
    "unified": "CPU and GPU share one physical memory (an APU)",
    "host_atomics": "the link between CPU and GPU carries atomics",
    "huge_pages": "transparent huge pages that a program can ask for",
    "direct": "kernels that stage through shared memory",
    "async": "asynchronous copies into shared memory",
    "bulk": "bulk copies into shared memory (TMA)",
    "ce-batch": "copies submitted in batches",
    "prefetch-batch": "prefetches submitted in batches",
    "discard": "managed pages that can be discarded",
    "oversubscription": "nobody else uses the host, and its operator lets managed memory exceed the GPU's own",
    "gpu_aware_mpi": "an MPI that accepts GPU memory",
    "nsys": "Nsight Systems on the compute nodes",
    "ncu": "Nsight Compute on the compute nodes, and its counters readable",
    "rocprofv3": "rocprofv3 on the compute nodes",
    "cupti": "CUPTI on the compute nodes",
    "perf": "perf on the compute nodes, and its counters readable",
}

# Former word for a kind of memory → present word.
OLD = {"malloc": "pageable", "wc": "write_combined"}

# Words for programming environments → requirement.
PROGRAMMING = {"mpi": "a compiler wrapper of MPI, and a launcher that starts ranks"}

BACKENDS = {"cuda": "cuda", "nvidia": "cuda", "hip": "hip", "rocm": "hip", "amd": "hip"}

# Words that an environment may state.
OF_ENVIRONMENTS = (*PROGRAMMING, *BACKENDS)

IMPLIED = {
    "gpu": {"pageable", "pinned", "mapped", "direct"},  # all GPUs have these
    "hmm": {"system"},
    "ats": {"system"},
    "xnack": {"system"},
}

# Words that are meaningless without a GPU; profilers may exist without one.
OF_GPUS = frozenset(CAPABILITIES) - {"numa", "huge_pages", "perf", "nsys", "ncu", "rocprofv3", "cupti"}


def refused(stated) -> str | None:
    """Returns why a former word among these is refused; None if there is none."""
    word = next((word for word in sorted(OLD) if word in stated), None)
    return f"states {word!r}, which is now called {OLD[word]!r}; write that" if word else None


def with_implied(stated) -> set[str]:
    """Returns the words and those that follow from them."""
    return set(stated).union(*(IMPLIED.get(word, ()) for word in stated))
