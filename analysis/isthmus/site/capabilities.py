"""Words by which a site states what a partition can do, and the words that follow from them.

Checks ask for them, `isthmus site probe` writes them, and `isthmus site check` accepts no others. A session turns red
where a record denies a stated word, by a case that was skipped as unsupported.
"""

from __future__ import annotations

# Word → what a machine that states it has.
CAPABILITIES = {
    "gpu": "a GPU",
    "cuda": "an NVIDIA GPU, and CUDA to build for it",
    "nvidia": "the same as cuda",
    "hip": "an AMD GPU, and ROCm to build for it",
    "rocm": "the same as hip",
    "amd": "the same as hip",
    "peer": "every two GPUs of a node reach each other's memory",
    "numa": "several NUMA nodes with host memory",
    "pageable": "copies from and to malloc'd memory",
    "pinned": "page-locked host memory",
    "streamed": "copies in chunks, overlapped with the kernel",
    "mapped": "page-locked memory that kernels read and write where it is",
    "paged": "page-locked memory of which kernels fetch pages by themselves",
    "registered": "malloc'd memory that is page-locked afterwards",
    "write_combined": "write-combined page-locked memory",
    "pool": "stream-ordered allocation from pools",
    "vmm": "device memory mapped piece by piece (virtual memory management)",
    "managed": "managed memory",
    "managed_in": "managed memory, prefetched to the GPU",
    "managed_demand": "managed memory that page faults bring to the GPU",
    "managed_advise": "managed memory with advice",
    "static": "managed variables",
    "system": "kernels use malloc'd memory",
    "hmm": "the same by page faults (heterogeneous memory management)",
    "ats": "the same by page tables in common (address translation services)",
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
    "gpu_aware_mpi": "an MPI that takes GPU memory",
    "nsys": "Nsight Systems on the compute nodes",
    "ncu": "Nsight Compute on the compute nodes, and its counters readable",
    "rocprofv3": "rocprofv3 on the compute nodes",
    "cupti": "CUPTI on the compute nodes",
    "perf": "perf on the compute nodes, and its counters readable",
}

# Former word of a memory → its present one.
OLD = {"malloc": "pageable", "wc": "write_combined"}

# Words for programming environments.
PROGRAMMING = {"mpi": "a compiler wrapper of MPI, and a launcher that starts ranks"}

BACKENDS = {"cuda": "cuda", "nvidia": "cuda", "hip": "hip", "rocm": "hip", "amd": "hip"}

# Words that an environment may state.
OF_ENVIRONMENTS = (*PROGRAMMING, *BACKENDS)

IMPLIED = {
    "gpu": {"pageable", "pinned", "mapped", "direct"},  # no GPU lacks these
    "hmm": {"system"},
    "ats": {"system"},
    "xnack": {"system"},
}

# Words that make no sense without a GPU; profilers may be there without one.
OF_GPUS = frozenset(CAPABILITIES) - {"numa", "huge_pages", "perf", "nsys", "ncu", "rocprofv3", "cupti"}


def refused(stated) -> str | None:
    """Returns why these words are refused, which is where an old one is among them; else None."""
    word = next((word for word in sorted(OLD) if word in stated), None)
    return f"states {word!r}, which is now called {OLD[word]!r}; write that" if word else None


def with_implied(stated) -> set[str]:
    """Returns the words together with those that follow from them."""
    return set(stated).union(*(IMPLIED.get(word, ()) for word in stated))
