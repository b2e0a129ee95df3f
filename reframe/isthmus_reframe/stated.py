"""What a site states of its partitions: backend, GPUs, capabilities, settings."""

from isthmus.site import capabilities


def stated_backend(partition, environment=None) -> str | None:
    """cuda or hip where the site says which, gpu where it only says that there is one, else None."""
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
    """Features and capabilities that the site states of a partition, and what follows from them."""
    stated = stated_words(partition)
    if stated_backend(partition):
        stated.add("gpu")
    return capabilities.with_implied(stated)


def stated_gpus(partition) -> int:
    """At least so many GPUs does a node have; `peer` means two."""
    stated = stated_capabilities(partition)
    listed = sum(d.num_devices for d in partition.devices if d.device_type == "gpu")
    return max(listed, 2 if "peer" in stated else 1 if "gpu" in stated else 0)


def stated_architectures(partition) -> list[str]:
    """CMake's names of the stated GPUs' architectures: sm_90 → 90, gfx942 → gfx942."""
    archs = {d.arch for d in partition.devices if d.device_type == "gpu" and d.arch}
    return sorted(a.removeprefix("sm_") for a in archs if a.startswith(("sm_", "gfx")))


def site_setting(partition, name, default=None):
    """`extras: {'isthmus': {name: …}}` of the partition."""
    return partition.extras.get("isthmus", {}).get(name, default)
