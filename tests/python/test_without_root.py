"""Tests as a user who cannot install packages, on a machine without fmt, nlohmann_json and CLI11.

docs/building.md describes this under "Without root". Mounts in a separate namespace hide the machine's copies of the
libraries from the compiler and CMake. The tests first check that the compiler does not find them, and fail on a machine
on which they cannot be hidden. The sources to build are those of cmake/libraries.txt if the folder $ISTHMUS_LIBRARIES
has them, or else the machine's copies, packed like the libraries' releases.
"""

import functools
import glob
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import tarfile
import tempfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADERS = {"fmt": "fmt/core.h", "nlohmann_json": "nlohmann/json.hpp", "CLI11": "CLI/CLI.hpp"}
NOBODY = 65534

# Script that hides folders and then runs a command. Arguments: an empty folder, the folders to hide, --, the command.
HIDE = """
empty=$1; shift
while [ "$1" != -- ]; do mount --bind "$empty" "$1" || exit 1; shift; done
shift
exec "$@"
"""


def copies():
    """Returns the system's folders in which a compiler finds the libraries' headers or CMake finds their packages."""
    places = ["include/fmt", "include/nlohmann", "include/CLI"]
    places += [f"{where}/{name}" for where in ("lib*/cmake", "lib/*/cmake", "share/cmake") for name in HEADERS]
    return sorted(
        folder for place in places for folder in glob.glob(f"/usr/{place}") + glob.glob(f"/usr/local/{place}")
    )


def stub(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


class Ordinary:
    """Runs commands as a user without root, in a copy of this tree, with the libraries hidden."""

    def __init__(self, home):
        self.home, self.tree = home, home / "isthmus"
        self.user = NOBODY if os.geteuid() == 0 else os.geteuid()
        self.group = NOBODY if os.geteuid() == 0 else os.getegid()
        for folder in ("cmake", "src", "schema", "scripts", "tests", "examples"):
            shutil.copytree(ROOT / folder, self.tree / folder, ignore=shutil.ignore_patterns("__pycache__"))
        (self.tree / "papers").mkdir()
        for file in (
            "CMakeLists.txt",
            "CMakePresets.json",
            "pyproject.toml",
            "papers/pyproject.toml",
            "papers/requirements.txt",
        ):
            shutil.copy(ROOT / file, self.tree / file)
        (home / "empty").mkdir()
        # The stubs ensure that this user has no rights that the user who runs the tests may have.
        stub(home / "bin/sudo", "exit 1")
        stub(home / "bin/apt-get", "echo apt-get was called >&2; exit 1")

    def give(self):
        """Makes this user the owner of all files in the home folder."""
        if os.geteuid() == 0:
            for path in (self.home, *self.home.rglob("*")):
                os.chown(path, self.user, self.group, follow_symlinks=False)

    def run(self, *command, **settings):
        self.give()
        hide = ["sh", "-c", HIDE, "hide", self.home / "empty", *copies(), "--"]
        if os.geteuid() == 0:
            drop = ["setpriv", f"--reuid={self.user}", f"--regid={self.group}", "--clear-groups", "--inh-caps=-all"]
            become = ["unshare", "--mount", *hide, *drop]
        else:
            again = ["unshare", "--user", f"--map-user={self.user}", f"--map-group={self.group}"]
            become = ["unshare", "--user", "--map-root-user", "--mount", *hide, *again]
        path = f"{self.home}/bin:{os.environ['PATH']}"
        environment = {"HOME": self.home, "PATH": path, "LC_ALL": "C.UTF-8", "CCACHE_DISABLE": "1", **settings}
        result = subprocess.run(
            [*become, *command], cwd=self.tree, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        result.stdout = " ".join(result.stdout.split())  # joins lines, because CMake wraps its output
        print(*command, result.stdout, sep="\n")
        return result

    def configure(self, folder, **settings):
        build = ["scripts/build", "--preset", "host", "--configure-only"]
        return self.run(*build, "--build-dir", self.home / folder, **settings)


def include(header):
    return ["sh", "-c", f"echo '#include <{header}>' | c++ -std=c++20 -M -x c++ -"]


def pack(folder, library):
    """Packs the machine's copy of a library as a tarball. Returns its line for cmake/libraries.txt."""
    header = HEADERS[library]
    listed = subprocess.run(include(header), capture_output=True, text=True, check=False).stdout
    found = re.search(rf"(\S+)/{re.escape(header)}\b", listed)
    if not found:
        pytest.fail(f"there is no {library} here to make sources of: install it, or set ISTHMUS_LIBRARIES")
    stem, name = f"{library}-0", header.split("/")[0]
    tarball = folder / f"{stem}.tar.gz"
    with tarfile.open(tarball, "w:gz") as packed:
        packed.add(f"{found.group(1)}/{name}", f"{stem}/include/{name}")
        if library == "fmt":
            source = folder / "format.cc"
            source.write_text("#include <fmt/format-inl.h>\n")
            packed.add(source, f"{stem}/src/format.cc")
            source.unlink()
    return f"{library} {stem} {hashlib.sha256(tarball.read_bytes()).hexdigest()} {tarball.as_uri()}\n"


@pytest.fixture(scope="module")
def ordinary():
    # Not in pytest's temporary folders, which other users cannot access.
    with tempfile.TemporaryDirectory() as folder:
        home = pathlib.Path(folder)
        home.chmod(0o755)
        user = Ordinary(home)
        (home / "carried").mkdir()
        if os.environ.get("ISTHMUS_LIBRARIES"):
            for tarball in pathlib.Path(os.environ["ISTHMUS_LIBRARIES"]).glob("*.tar.gz"):
                shutil.copy(tarball, home / "carried")
        else:
            (user.tree / "cmake/libraries.txt").write_text("".join(pack(home / "carried", name) for name in HEADERS))
        whoami = user.run("id", "-u")
        if whoami.returncode or whoami.stdout != str(user.user):
            pytest.fail(f"the machine's libraries could not be hidden from an ordinary user: {whoami.stdout}")
        for name, header in HEADERS.items():
            if user.run(*include(header)).returncode == 0:
                pytest.fail(f"{name} could not be hidden: the compiler still finds {header}")
        yield user


def test_the_build_names_all_that_is_missing_and_what_to_do(ordinary):
    result = ordinary.configure("without")
    assert result.returncode != 0
    assert "Missing: fmt, nlohmann_json, CLI11" in result.stdout
    assert "ISTHMUS_LIBRARIES=FOLDER" in result.stdout and "Spack" in result.stdout


@functools.cache
def libraries_of(path):
    """Returns which of the libraries a source includes, directly or through headers of this tree."""
    found = set()
    for mark, name in re.findall(r'^\s*#\s*include\s*(["<])([^">]+)', path.read_text(encoding="utf-8"), re.MULTILINE):
        if mark == "<":
            found |= {library for library, header in HEADERS.items() if name.startswith(header.split("/")[0] + "/")}
        else:
            ours = (folder / name for folder in (ROOT / "src", ROOT / "tests", path.parent))
            found |= next((libraries_of(file) for file in ours if file.is_file()), set())
    return found


def test_every_file_is_told_where_the_libraries_are_that_it_includes(ordinary):
    """Checks the include paths of every file. On a machine with copies of the libraries, a missing path is not noticed
    otherwise, because compilers find the copies by themselves."""
    assert ordinary.configure("with", ISTHMUS_LIBRARIES=str(ordinary.home / "carried")).returncode == 0
    known = (ordinary.tree / "cmake/libraries.txt").read_text().splitlines()
    stems = dict(line.split()[:2] for line in known if not line.startswith("#"))
    untold, seen = [], set()
    for entry in json.loads((ordinary.home / "with/compile_commands.json").read_text()):
        file = pathlib.Path(entry["file"])
        if file.is_relative_to(ordinary.tree):
            included = libraries_of(ROOT / file.relative_to(ordinary.tree))
            seen |= included
            untold += [(file.name, name) for name in included if f"/libraries/{stems[name]}/" not in entry["command"]]
    assert seen == set(HEADERS), "it is seen what files include"
    assert not untold


def test_with_carried_sources_it_builds(ordinary):
    result = ordinary.configure("with", ISTHMUS_LIBRARIES=str(ordinary.home / "carried"))
    assert result.returncode == 0
    # Builds fmt, which has code of its own, and one file for each of the libraries, without optimisation to save time.
    device, harness = (f"src/{room}/CMakeFiles/isthmus_{room}.dir" for room in ("device", "harness"))
    objects = [
        f"{device}/api/error.cpp.o",
        f"{harness}/record/schema_check.cpp.o",
        f"{harness}/program/command_line.cpp.o",
    ]
    assert ordinary.run("cmake", "-DCMAKE_BUILD_TYPE=None", ordinary.home / "with").returncode == 0
    result = ordinary.run("cmake", "--build", ordinary.home / "with", "--target", "isthmus_carried_fmt", *objects)
    assert result.returncode == 0
    for name in ("libisthmus_carried_fmt.a", *objects):
        assert (ordinary.home / "with" / name).is_file()


@pytest.fixture
def folder(ordinary):
    """Yields a folder for tarballs, and the words of the first line of cmake/libraries.txt that is not a comment."""
    place = ordinary.home / "some"
    place.mkdir()
    line = next(line for line in (ordinary.tree / "cmake/libraries.txt").read_text().splitlines() if line[:1] != "#")
    yield place, line.split()
    shutil.rmtree(place)


def fetch(ordinary, place):
    return ordinary.run("cmake", f"-DISTHMUS_LIBRARIES={place}", "-P", "cmake/IsthmusCarried.cmake")


@pytest.mark.skipif("ISTHMUS_LIBRARIES" in os.environ, reason="the tarballs are those of the network")
def test_a_missing_tarball_is_downloaded_into_the_folder(ordinary, folder):
    place, _ = folder
    assert fetch(ordinary, place / "new").returncode == 0
    fetched = {path.name: path.read_bytes() for path in (place / "new").iterdir()}
    assert fetched == {path.name: path.read_bytes() for path in (ordinary.home / "carried").iterdir()}


def test_a_tarball_that_is_another_is_refused(ordinary, folder):
    place, (_, stem, _, url) = folder
    with (place / f"{stem}.tar.gz").open("wb") as file:
        file.write((ordinary.home / "carried" / f"{stem}.tar.gz").read_bytes() + b"x")
    result = fetch(ordinary, place)
    assert result.returncode != 0
    assert re.search(
        rf"{stem}.tar.gz is not the file that cmake/libraries.txt names .* the one at {url}", result.stdout
    )


def test_without_network_it_says_what_belongs_into_the_folder(ordinary, folder):
    place, line = folder
    known = ordinary.tree / "cmake/libraries.txt"
    before = known.read_text()
    known.write_text(" ".join([*line[:3], "file:///nowhere/" + line[1]]))
    result = fetch(ordinary, place)
    known.write_text(before)
    assert result.returncode != 0 and not list(place.iterdir())
    assert re.search(rf"{line[1]}.tar.gz is missing and could not be downloaded \(.*\): download", result.stdout)


# --- scripts/setup ---

PYTHON = """echo "$*" >>{log}
case "$*" in
  "-m venv "*)
    mkdir -p .venv/bin
    cp "$0" .venv/bin/python
    printf '#!/bin/sh\\necho 0\\n' >.venv/bin/reframe
    chmod +x .venv/bin/reframe ;;
esac"""


@pytest.fixture
def setup(ordinary):
    """Yields a function that runs scripts/setup with a python3 that notes its calls, and returns the result and the
    notes."""
    log = ordinary.home / "asked"
    stub(ordinary.home / "bin/python3", PYTHON.format(log=log))

    def run(*words, **settings):
        result = ordinary.run("scripts/setup", *words, **settings)
        return result, log.read_text() if log.exists() else ""

    yield run
    for path in (ordinary.home / "bin/python3", ordinary.home / "bin/cmake", log):
        path.unlink(missing_ok=True)
    shutil.rmtree(ordinary.tree / ".venv", ignore_errors=True)


def test_setup_makes_the_python_tools_and_names_what_it_may_not_install(setup):
    result, asked = setup()
    assert result.returncode == 0 and "Set up:" in result.stdout
    assert "-m venv" in asked and "requirements.txt" in asked
    missing = re.search(
        r"Missing, but this user may not install packages \(Debian's names\): ([\w -]+?) (An|Otherwise)", result.stdout
    )
    assert {"libfmt-dev", "nlohmann-json3-dev", "libcli11-dev"} <= set(missing.group(1).split())
    assert result.stdout.index("Python tools:") < missing.start()
    assert "apt-get was called" not in result.stdout


def test_what_only_the_study_needs_is_set_up_for_it_and_once(setup):
    _, asked = setup()
    assert "papers/requirements.txt" not in asked
    result, asked = setup("study")
    assert result.returncode == 0, result.stdout
    assert asked.count("-r scripts/requirements.txt") == asked.count("-r papers/requirements.txt") == 1
    assert setup("study")[1].count("requirements.txt") == 2


def test_with_carried_sources_setup_misses_none_of_their_packages(setup, ordinary):
    result, _ = setup(ISTHMUS_LIBRARIES=str(ordinary.home / "carried"))
    assert result.returncode == 0
    assert not re.search("libfmt-dev|nlohmann-json3-dev|libcli11-dev", result.stdout)


def test_an_old_cmake_is_replaced_in_the_virtual_environment(setup, ordinary):
    stub(ordinary.home / "bin/cmake", "echo cmake version 3.22.1")
    result, asked = setup()
    assert result.returncode == 0
    assert re.search(r"-m pip install .*cmake==", asked)
