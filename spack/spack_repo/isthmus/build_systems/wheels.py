# SPDX-License-Identifier: Apache-2.0
"""Python packages from the wheels that their makers compiled: one for each version of Python and each processor."""

from spack.package import conflicts, depends_on, version


def wheels(name, release, tags, files):
    """Adds the directives of a package of wheels; to be called in its class.

    Each wheel is a version of its own, RELEASE-cpPYTHON-PROCESSOR, because Spack chooses files only by version.

    name, release: as in the names of the files. tags: the platform in these names, '{0}' for the processor.
    files: {(Python without its point, processor): (folder on PyPI, SHA-256)}.
    """
    processors = {processor for _, processor in files}
    for (python, processor), (folder, sha256) in files.items():
        wheel = f"{release}-cp{python}-{processor}"
        file = f"{name}-{release}-cp{python}-cp{python}-{tags.format(processor)}.whl"
        url = f"https://files.pythonhosted.org/packages/{folder}/{file}"
        version(wheel, url=url, sha256=sha256, expand=False)
        depends_on(f"python@{python[0]}.{python[1:]}", type=("build", "run"), when=f"@={wheel}")
        for other in processors - {processor}:
            conflicts(f"target={other}:", when=f"@={wheel}", msg=f"this is the wheel for {processor}")
    conflicts("platform=windows", msg="wheels for Linux only")
    conflicts("platform=darwin", msg="wheels for Linux only")
