"""What `make wheel` makes, and `pip install ./python`: in a fresh virtual environment, the whole tool.

All in one group: the wheel and the environments are made once.
"""

import base64
import dataclasses
import hashlib
import os
import pathlib
import pty
import re
import shutil
import subprocess
import sys
import zipfile

import pytest

from interpreters import INTERPRETERS

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("wheel")]

LEAK = 200_000
SCRIPT = f"""\
import time
import tidemark

kept = []


def remember():
    kept.append(bytearray({LEAK}))  # the leak


for step in range(300):
    tidemark.step(step)
    remember()
    time.sleep(0.01)
"""


def text_of(*argv, code=0, **more):
    """What a program printed on either."""
    done = subprocess.run([str(a) for a in argv], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900,
                          check=False, **more)
    assert done.returncode == code, done.stdout
    return done.stdout


@dataclasses.dataclass
class Environment:
    """A virtual environment, and a program in it."""

    place: pathlib.Path
    env: dict

    def run(self, *argv, **more):
        return text_of(self.place / "bin" / argv[0], *argv[1:], env=self.env, **more)

    def install(self, *what, **more):
        return self.run("pip", "install", "-q", "--no-index", "--disable-pip-version-check", *what, **more)

    @property
    def package(self):
        return next(self.place.glob("lib/python3.*/site-packages/tidemark"))


@pytest.fixture(scope="session")
def environment(plain_env):
    """environment(python, folder) -> a fresh one."""

    def make(python, folder):
        text_of(python, "-m", "venv", folder, env=plain_env)
        return Environment(folder, {**plain_env, "PATH": f"{folder}/bin:{plain_env['PATH']}", "VIRTUAL_ENV": str(folder)})

    return make


@pytest.fixture(scope="session")
def wheel(root):
    done = subprocess.run(["make", "-s", "wheel"], cwd=root, capture_output=True, text=True, check=False)
    if "no auditwheel from PyPI" in done.stderr:
        pytest.skip("without a network there is no auditwheel")
    assert done.returncode == 0, done.stderr
    path, = (root / "build" / "wheel").iterdir()
    assert done.stdout == f"{path}\n"
    return path


@pytest.fixture(scope="session", params=INTERPRETERS)
def installed(request, wheel, environment, tmp_path_factory):
    """The wheel in a fresh environment of each Python."""
    made = environment(request.param, tmp_path_factory.mktemp("python") / "venv")
    made.install(wheel)
    return made


@pytest.fixture(scope="session")
def here(wheel, environment, tmp_path_factory):
    """The same of the Python that runs the tests."""
    made = environment(sys.executable, tmp_path_factory.mktemp("here") / "venv")
    made.install(wheel)
    return made


@pytest.fixture
def leaky(tmp_path):
    path = tmp_path / "leaky.py"
    path.write_text(SCRIPT)
    return path


RUN_LEAKY = ["tidemark", "run", "--heap", "-i", "50ms", "-o", "a.tide", "--", "python3", "leaky.py"]


def check_what_was_said(said):
    """run --heap finds the leak, names its line and how much it is."""
    assert re.search(r"^tidemark: LEAK in leaky\.py\[", said, re.M), said
    line = SCRIPT[: SCRIPT.index("# the leak")].count("\n") + 1
    assert re.search(rf"^ +leaky\.py:{line} remember +kept\.append", said, re.M), said
    rate = float(re.search(r"culprit 1 +([\d.]+) KiB/step", said)[1]) * 1024
    assert abs(rate / LEAK - 1) < 0.05, said


def check_the_leak(environment, leaky):
    """Also, report makes a page of it."""
    check_what_was_said(environment.run(*RUN_LEAKY, cwd=leaky.parent))
    environment.run("tidemark", "report", "a.tide", cwd=leaky.parent)
    assert "leaky.py" in (leaky.parent / "a.html").read_text()


# -- each Python


def test_the_command_is_there_with_the_text_of_its_manual(installed, tidemark):
    assert shutil.which("tidemark", path=installed.env["PATH"]) == str(installed.place / "bin" / "tidemark")
    assert installed.run("tidemark", "--version") == tidemark("--version").out
    assert installed.run("tidemark", "help", "run") == tidemark("help", "run").out


def test_a_leak_is_found_and_its_line_is_named(installed, leaky):
    check_the_leak(installed, leaky)


def test_the_package_is_the_one_that_was_installed(installed, tmp_path):
    program = "import tidemark; tidemark.step(1); print(tidemark.__file__, tidemark.tracked())"
    said = installed.run("python3", "-c", program, cwd=tmp_path)
    assert said == f"{installed.package}/__init__.py False\n"
    assert (installed.package / "py.typed").exists()
    assert installed.run("python3", "-m", "tidemark", "version", cwd=tmp_path) == installed.run("tidemark", "version")


# -- what is in it


def dynamic(path):
    return text_of("readelf", "-dW", path)


def test_what_is_preloaded_needs_the_c_library_alone(here):
    for name in ("libtidemark-hook.so", "libtidemark.so"):
        section = dynamic(here.package / "_program" / name)
        assert re.findall(r"\(NEEDED\).*\[(.+)\]", section) == ["libc.so.6"]
        assert "RPATH" not in section and "RUNPATH" not in section


def test_the_program_takes_its_libraries_from_the_wheel(here):
    loaded = text_of("ldd", here.package / "_program" / "tidemark")
    for name in ("sqlite3", "jansson", "pcre2-8", "utf8proc", "dw", "elf", "ncursesw", "tinfo"):
        assert re.search(rf"=> {here.package}/\S*tidemark\.libs/lib{name}-", loaded), loaded


def test_the_library_for_c_can_be_loaded_from_python(here, tmp_path):
    library = here.package / "_program" / "libtidemark.so"
    assert here.run("python3", "-c", f"import ctypes; print(ctypes.CDLL({str(library)!r}).tide_tracked())", cwd=tmp_path) == "0\n"


def test_each_library_of_others_comes_with_its_licence(wheel):
    with zipfile.ZipFile(wheel) as files:
        names = files.namelist()
        folder = next(name for name in names if name.endswith(".dist-info/licenses/BUNDLED")).removesuffix("BUNDLED")
        rows = [line.split() for line in files.read(f"{folder}BUNDLED").decode().splitlines()[2:]]
        for name, licence in rows:
            assert len(files.read(folder + licence)) > 200, name
    libraries = [name for name in names if re.match(r"tidemark\.libs/.", name)]
    assert len(libraries) == len(rows) >= 7
    assert f"{folder}LICENSE" in names


def test_the_list_of_files_has_their_hashes(wheel):
    with zipfile.ZipFile(wheel) as files:
        record = next(name for name in files.namelist() if name.endswith("/RECORD"))
        rows = dict(line.split(",")[:2] for line in files.read(record).decode().splitlines())
        rows.pop(record)
        for name, said in rows.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(files.read(name)).digest()).rstrip(b"=").decode()
            assert said == f"sha256={digest}", name
        assert {entry.filename for entry in files.infolist() if not entry.is_dir()} == {*rows, record}


def test_terminals_are_known_to_it(here, leaky):
    """The terminal library in the wheel looks where systems keep their descriptions."""
    here.run("tidemark", "run", "-o", "a.tide", "--", "true", cwd=leaky.parent)
    ours, theirs = pty.openpty()
    with subprocess.Popen([here.place / "bin" / "tidemark", "watch", "--frames", "1", "--size", "80x24", "a.tide"], stdin=theirs,
                          stdout=theirs, stderr=theirs, env={**here.env, "TERM": "xterm-256color"}, cwd=leaky.parent) as program:
        os.close(theirs)
        seen = b""
        try:
            while piece := os.read(ours, 65536):
                seen += piece
        except OSError:  # nobody writes any more
            pass
        assert program.wait(60) == 0, seen
    assert b"process tree" in seen and b"\x1b[?1049h" in seen
    os.close(ours)


def test_manual_pages_lie_where_man_looks(here):
    assert (here.place / "share/man/man1/tidemark-run.1").read_text().startswith(".Dd ")


# -- where it cannot be


def test_pip_refuses_it_on_older_and_on_other_systems(here, wheel, tmp_path):
    for platform in ("manylinux_2_17_x86_64", "manylinux_2_34_aarch64", "musllinux_1_2_x86_64"):
        said = here.run("pip", "download", "-q", "--disable-pip-version-check", "--no-index", "--no-deps", "--only-binary=:all:",
                        "--platform", platform, wheel, code=1, cwd=tmp_path)
        assert said == f"ERROR: {wheel.name} is not a supported wheel on this platform.\n"


ELSEWHERE = """\
import os, sys
class Machine:
    machine = {machine!r}
os.uname = Machine
os.confstr = lambda name: {libc!r}
from tidemark.__main__ import main
sys.exit(main())
"""


@pytest.mark.parametrize("machine, libc, sentence", [
    ("aarch64", "glibc 2.36", "this wheel is for x86_64, but this machine is aarch64"),
    ("x86_64", "glibc 2.9", r"this wheel needs glibc 2\.\d+ or later, but this machine has 2\.9"),
    ("x86_64", None, r"this wheel needs glibc 2\.\d+ or later, but this machine has another C library"),
])
def test_copied_to_such_a_system_it_says_so(here, machine, libc, sentence, tmp_path):
    said = here.run("python3", "-c", ELSEWHERE.format(machine=machine, libc=libc), code=2, cwd=tmp_path)
    assert re.fullmatch(f"tidemark: {sentence}\nhint: build it here: 'pip install ./python' in a checkout\n", said)


# -- on other systems than this one


@pytest.fixture
def inside(wheel, tmp_path):
    """inside(suite, shell commands) -> what they print on that release of Debian, without a network, in a folder with the wheel
    and the program that leaks. The system is made once, outside of the tree."""

    def run(suite, commands):
        system = pathlib.Path.home() / ".cache" / "tidemark" / "systems" / suite
        if not (system / "ready").exists():
            if os.geteuid() != 0 or not shutil.which("debootstrap"):
                pytest.skip("root and debootstrap make other systems")
            shutil.rmtree(system, ignore_errors=True)
            system.mkdir(parents=True)
            made = subprocess.run(["debootstrap", "--variant=minbase", "--include=python3,python3-venv", suite, system],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
            if made.returncode:
                pytest.skip(f"Debian {suite} cannot be had")
            (system / "ready").touch()
        work = system / "trial"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        shutil.copy(wheel, work)
        (work / "leaky.py").write_text(SCRIPT)
        enter = ('mount -t proc proc "$0/proc" && mount --bind /dev "$0/dev" && exec chroot "$0" env -i PATH=/trial/venv/bin:/usr/bin:/bin '
                 'HOME=/trial LC_ALL=C.UTF-8 sh -ec "cd /trial; $1"')
        done = subprocess.run(["unshare", "--mount", "--net", "sh", "-c", enter, system, commands], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=300, check=False)
        return done.stdout

    return run


def test_it_works_on_a_later_system(inside):
    said = inside("trixie", f"python3 -m venv venv; pip install -q --no-index tidemark-*.whl; {' '.join(RUN_LEAKY)}; tidemark help run")
    check_what_was_said(said)
    assert "Usage: tidemark run " in said


def test_pip_refuses_it_on_an_older_system(inside, wheel):
    said = inside("bullseye", "python3 -m venv venv; pip install -q --no-index tidemark-*.whl")
    assert said == f"ERROR: {wheel.name} is not a supported wheel on this platform.\n"


def test_unpacked_on_an_older_system_it_says_so(inside):
    said = inside("bullseye", "python3 -m zipfile -e tidemark-*.whl .; chmod +x tidemark/_program/tidemark; python3 -m tidemark version")
    assert re.fullmatch(r"tidemark: this wheel needs glibc 2\.\d+ or later, but this machine has 2\.31\nhint: .*\n", said)


# -- pip install ./python


def test_pip_builds_the_same_from_the_checkout_without_a_network(root, environment, leaky, tmp_path):
    made = environment(sys.executable, tmp_path / "venv")
    made.install(root / "python")
    assert (made.package / "_program" / "tidemark").exists()
    check_the_leak(made, leaky)


def test_an_editable_installation_has_the_program_of_the_checkout(root, environment, tmp_path):
    made = environment(sys.executable, tmp_path / "venv")
    made.install("-e", root / "python")
    said = made.run("python3", "-c", "import tidemark; print(tidemark.__file__)", cwd=tmp_path)
    assert said == f"{root}/python/tidemark/__init__.py\n"
    assert made.run("tidemark", "version", cwd=tmp_path).startswith("tidemark ")


@pytest.fixture
def sources(root, tmp_path):
    """A checkout without a build."""
    top = tmp_path / "checkout"
    for name in ("src", "include", "python", "tools"):
        shutil.copytree(root / name, top / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("Makefile", "LICENSE"):
        shutil.copy(root / name, top / name)
    return top


def answer(said):
    """What pip shows of the backend's own output."""
    return re.findall(r"^ +\S? *(tidemark: .*)$", said, re.M)


def test_without_a_compiler_there_is_one_sentence(environment, sources, tmp_path):
    made = environment(sys.executable, tmp_path / "venv")
    made.env["CC"] = "/no/compiler"
    said = made.install(sources / "python", code=1)
    assert answer(said) == ["tidemark: it cannot be built here: make: /no/compiler: No such file or directory"], said
    assert "Traceback" not in said and "[1 lines of output]" in said


def test_without_the_packages_one_sentence_names_them(environment, sources, tmp_path):
    made = environment(sys.executable, tmp_path / "venv")
    made.env["CC"] = "/no/compiler"
    asked = made.place / "bin" / "dpkg-query"
    asked.write_text('#!/bin/sh\ncase "$3" in gcc | libdw-dev) exit 1 ;; esac\necho installed\n')
    asked.chmod(0o755)
    said = made.install(sources / "python", code=1)
    assert answer(said) == ["tidemark: building it needs packages that are not here: 'apt-get install --no-install-recommends gcc "
                            "libdw-dev' installs them, or install a wheel that 'make wheel' made elsewhere"], said


def test_without_the_rest_of_the_checkout_there_is_one_sentence(environment, sources, tmp_path):
    made = environment(sys.executable, tmp_path / "venv")
    shutil.move(sources / "python", tmp_path / "alone")
    said = made.install(tmp_path / "alone", code=1)
    assert len(answer(said)) == 1 and "the program's source is not beside this folder" in said and "Traceback" not in said, said
