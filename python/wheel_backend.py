"""Builds the wheel (PEP 517), with nothing but the standard library: the Python package, and the program, its hook and its manual
as `make install` puts them in place. `make wheel` adds the libraries that the program needs (tools/wheel).

    tidemark/                     the package
    tidemark/_program/            the program; beside it, where it looks for it, the hook; the library for C
    tidemark-VERSION.data/data/   share/: manual pages and completions

Where it cannot be built the answer is one sentence, which pip shows.
"""

import base64
import hashlib
import os
import pathlib
import re
import subprocess
import sysconfig
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
CHECKOUT = HERE.parent
METADATA = """\
Metadata-Version: 2.1
Name: tidemark
Version: {version}
Summary: Where the memory of a training run goes: the program tidemark, and what a Python program says about itself to it
License: MIT
Classifier: License :: OSI Approved :: MIT License
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: Python :: 3
Classifier: Typing :: Typed
Requires-Python: >=3.9
Description-Content-Type: text/markdown

"""
WHEEL = "Wheel-Version: 1.0\nGenerator: tidemark ({version})\nRoot-Is-Purelib: {pure}\nTag: py3-none-{platform}\n"
ENTRY_POINTS = "[console_scripts]\ntidemark = tidemark.__main__:main\n"


def _version():
    return re.search(r'^__version__ = "(.+)"$', (HERE / "tidemark" / "__init__.py").read_text(), re.M)[1]


def _why_not(log):
    """One sentence on what to do, from what make said."""
    setup = CHECKOUT / "tools" / "setup"
    missing = subprocess.run([setup, "-n", "build"], capture_output=True, text=True, check=False).stdout.split()
    if missing:
        return ("tidemark: building it needs packages that are not here: 'apt-get install --no-install-recommends "
                f"{' '.join(missing)}' installs them, or install a wheel that 'make wheel' made elsewhere")
    lines = [line for line in log.splitlines() if re.search(r"error|not found|No such file|is not there", line)]
    return f"tidemark: it cannot be built here: {(lines or log.splitlines() or ['make said nothing'])[0]}"


def _install(stage):
    """Builds the program and installs it below `stage`."""
    if not (CHECKOUT / "include" / "tidemark.h").exists():
        raise SystemExit("tidemark: the program's source is not beside this folder: run pip on the folder 'python' of a whole "
                         "checkout, or install a wheel that 'make wheel' made")
    env = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    command = ["make", f"-j{os.cpu_count()}", "FLAVOUR=release", f"DESTDIR={stage}", "PREFIX=/", "install"]
    try:
        made = subprocess.run(command, cwd=CHECKOUT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", check=False)
    except FileNotFoundError:
        raise SystemExit(_why_not("'make' is not found")) from None
    if made.returncode:
        raise SystemExit(_why_not(made.stdout))


def _files_of_the_program(stage, version):
    """(name in the wheel, path)"""
    yield "tidemark/_program/tidemark", stage / "bin" / "tidemark"
    yield "tidemark/_program/libtidemark-hook.so", stage / "lib" / "libtidemark-hook.so"
    yield "tidemark/_program/libtidemark.so", (stage / "lib" / "libtidemark.so").resolve()
    for path in sorted((stage / "share").rglob("*")):
        if path.is_file():
            yield f"tidemark-{version}.data/data/{path.relative_to(stage)}", path


class _Writer:
    """A wheel, file by file; the same files give the same bytes."""

    def __init__(self, path, platform):
        self.version = _version()
        self.info = f"tidemark-{self.version}.dist-info"
        self.name = f"tidemark-{self.version}-py3-none-{platform}.whl"
        self.platform = platform
        self.rows = []
        self.zip = zipfile.ZipFile(pathlib.Path(path) / self.name, "w", zipfile.ZIP_DEFLATED)

    def put(self, name, data, mode=0o644):
        if isinstance(data, pathlib.Path):
            mode, data = (0o755 if data.stat().st_mode & 0o111 else 0o644), data.read_bytes()
        data = data.encode() if isinstance(data, str) else data
        entry = zipfile.ZipInfo(name)
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.external_attr = (0o100000 | mode) << 16
        self.zip.writestr(entry, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.rows.append(f"{name},sha256={digest},{len(data)}\n")

    def finish(self):
        self.put(f"{self.info}/METADATA", METADATA.format(version=self.version) + (HERE / "README.md").read_text())
        self.put(f"{self.info}/WHEEL", WHEEL.format(version=self.version, platform=self.platform,
                                                    pure=str(self.platform == "any").lower()))
        self.put(f"{self.info}/entry_points.txt", ENTRY_POINTS)
        self.put(f"{self.info}/licenses/LICENSE", CHECKOUT / "LICENSE")
        self.zip.writestr(zipfile.ZipInfo(f"{self.info}/RECORD"), "".join(self.rows) + f"{self.info}/RECORD,,\n")
        self.zip.close()
        return self.name


def write_wheel(folder_of_wheel, licences=lambda program: ()):
    """Writes the wheel and returns its name. licences(program): (name, text) of each library that will be bundled with it."""
    with tempfile.TemporaryDirectory() as folder:
        stage = pathlib.Path(folder)
        _install(stage)
        wheel = _Writer(folder_of_wheel, re.sub(r"[^A-Za-z0-9]", "_", sysconfig.get_platform()))
        for path in sorted((HERE / "tidemark").iterdir()):
            if path.suffix == ".py" or path.name == "py.typed":
                wheel.put(f"tidemark/{path.name}", path)
        for name, path in _files_of_the_program(stage, wheel.version):
            wheel.put(name, path)
        for name, text in licences(stage / "bin" / "tidemark"):
            wheel.put(f"{wheel.info}/licenses/{name}", text)
        return wheel.finish()


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    return write_wheel(wheel_directory)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """This folder on the path: the package as it is edited, with the program that is built in the checkout."""
    wheel = _Writer(wheel_directory, "any")
    wheel.put("tidemark.pth", f"{HERE}\n")
    return wheel.finish()
