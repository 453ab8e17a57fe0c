"""make_package.py FOLDER: builds the package's wheel from its sdist in FOLDER and installs it into a fresh environment there.

The environment finds everything else, such as torch and pytest, in that of the Python that runs this. A second call with the
same sources does nothing.
"""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(*command, **keywords):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **keywords)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: failed\n{done.stdout[-8000:]}{done.stderr[-4000:]}")
    return done.stdout


def make_sdist(folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    run(sys.executable, "-c", f"import scikit_build_core.build as b; b.build_sdist({str(folder)!r})", cwd=ROOT)
    (sdist,) = folder.glob("*.tar.gz")
    return sdist


def contents(sdist):
    """A hash of its files, and of what builds them."""
    total = hashlib.sha256(sys.version.encode() + sys.executable.encode())
    with tarfile.open(sdist) as archive:
        for member in sorted(archive.getmembers(), key=lambda member: member.name):
            if member.isfile():
                total.update(member.name.encode() + b"\0" + archive.extractfile(member).read())
    return total.hexdigest()


def main(folder):
    sdist = make_sdist(folder / "dist")
    stamp, wanted = folder / "made_from", contents(sdist)
    if stamp.exists() and stamp.read_text() == wanted:
        return
    stamp.unlink(missing_ok=True)
    # Always the same places, for the compiler cache.
    source, wheels, environment = folder / "source", folder / "wheel", folder / "venv"
    for old in (source, wheels, environment):
        shutil.rmtree(old, ignore_errors=True)
    with tarfile.open(sdist) as archive:
        archive.extractall(source)
    (unpacked,) = source.iterdir()
    scripts = sysconfig.get_path("scripts")  # cmake and ninja
    # Relative paths in the sources that CMake generates, so that the compiler cache serves other clones too.
    run(sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--no-index", "-w", wheels, unpacked,
        "-C", "cmake.define.CMAKE_UNITY_BUILD_RELOCATABLE=ON",
        env={**os.environ, "PATH": f"{scripts}:{os.environ['PATH']}"})  # fmt: skip
    (wheel,) = wheels.glob("*.whl")
    venv.create(environment)
    (site,) = (environment / "lib").glob("python*/site-packages")
    (site / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    run(sys.executable, "-m", "pip", "--python", environment / "bin/python", "install", "--no-deps", "--no-index", wheel)
    stamp.write_text(wanted)


main(pathlib.Path(sys.argv[1]).resolve())
