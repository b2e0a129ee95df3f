"""Statements of a site about its partitions: backend, GPUs, capabilities, settings."""

from isthmus.site import capabilities


def stated_backend(partition, environment=None) -> str | None:
    """Returns "cuda" or "hip" if the site states which, "gpu" if it states only that there is a GPU, otherwise None."""
    features = list(partition.features) + list(environment.features if environment else [])
    for feature in features:
        if feature in capabilities.BACKENDS:
            return capabilities.BACKENDS[feature]
    gpus = [d for d in partition.devices if d.device_type == "gpu"]
    for gpu in gpus:
        if gpu.arch and gpu.arch.startswith(("sm_", "gfx")):
            return "cuda" if gpu.arch.startswith("sm_") else "hip"
    return "gpu" if gpus or "gpu" in features else None


def stated_words(partition) -> set[str]:
    return set(partition.features) | set(site_setting(partition, "capabilities", []))


def stated_capabilities(partition) -> set[str]:
    """Returns the features and capabilities that the site states for a partition, and those that they imply."""
    stated = stated_words(partition)
    if stated_backend(partition):
        stated.add("gpu")
    return capabilities.with_implied(stated)


def stated_gpus(partition) -> int:
    """Returns the minimum number of GPUs per node; `peer` implies two."""
    stated = stated_capabilities(partition)
    listed = sum(d.num_devices for d in partition.devices if d.device_type == "gpu")
    return max(listed, 2 if "peer" in stated else 1 if "gpu" in stated else 0)


def stated_architectures(partition) -> list[str]:
    """Returns CMake's names of the stated GPUs' architectures: sm_90 → 90, gfx942 → gfx942."""
    archs = {d.arch for d in partition.devices if d.device_type == "gpu" and d.arch}
    return sorted(a.removeprefix("sm_") for a in archs if a.startswith(("sm_", "gfx")))


def site_setting(partition, name, default=None):
    """Returns a setting from `extras: {'isthmus': {name: …}}` of the partition."""
    return partition.extras.get("isthmus", {}).get(name, default)
