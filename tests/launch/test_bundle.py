"""launch/bundle.sh and the start.sh in its archive: what is packed, and that it starts elsewhere, with nothing but a Python."""

import os
import re
import subprocess
import sys

import pytest
from processes import BUILD, PATIENCE_S, SOURCE, TINY, clean_environment, fingerprint, flags

# Packed on Debian 12, as in CI, it runs on Red Hat Enterprise Linux 9 and Ubuntu 22.04: glibc 2.34, the C++ library
# of GCC 11.
NEWEST = {"GLIBC": (2, 34), "GLIBCXX": (3, 4, 29), "CXXABI": (1, 3, 13)}


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bundle")
    archive = folder / "snake_ddp.tar.xz"
    done = subprocess.run([SOURCE / "launch" / "bundle.sh", archive], capture_output=True, text=True, timeout=600, cwd=folder,
                          env=clean_environment(SNAKE_DDP_BIN=BUILD))
    assert done.returncode == 0, done.stderr
    assert archive.stat().st_size < 60_000_000
    subprocess.run(["tar", "-xf", archive], cwd=folder, check=True)
    return folder / "snake_ddp"


def start(bundle, *arguments, **variables):
    """In an almost empty environment."""
    return subprocess.run([bundle / "start.sh", *arguments], capture_output=True, text=True, timeout=PATIENCE_S, cwd=bundle.parent,
                          env={"PATH": "/usr/bin:/bin", "SNAKE_DDP_PYTHON": sys.executable} | variables)


def output_of(*command):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True).stdout


def numbers(version):
    return tuple(map(int, version.split(".")))


def test_the_programs_run_on_systems_older_than_this_one(bundle):
    files = [file for folder in ("bin", "lib") for file in (bundle / folder).rglob("*") if file.is_file() and file.name != "glibc"]
    assert {"snake_ddp", "bench", "test_rollout", "test_learners", "test_train"} < {file.name for file in files}
    limits = {"GLIBC": numbers((bundle / "lib/glibc").read_text())}
    if numbers(os.confstr("CS_GNU_LIBC_VERSION").split()[1]) <= (2, 36):
        assert limits["GLIBC"] <= NEWEST["GLIBC"]
        limits = NEWEST
    for file in files:
        for name, version in re.findall(r"\b(GLIBC|GLIBCXX|CXXABI)_([\d.]+)", output_of("objdump", "-T", file)):
            assert numbers(version) <= limits.get(name, numbers(version)), (file, name, version)
        paths = re.findall(r"(?:RPATH|RUNPATH)\).*\[(.*)\]", output_of("readelf", "-d", file))
        assert all(path.startswith("$ORIGIN") for line in paths for path in line.split(":")), (file, paths)


def test_it_has_the_headers_that_its_sources_include(bundle):
    for header in ("nlohmann/json.hpp", "CLI/CLI.hpp", "protozero/pbf_writer.hpp", "zlib.h", "zconf.h"):
        assert (bundle / "headers/include" / header).is_file(), header
    assert not (bundle / "tests/data").exists()
    assert all(any(folder.iterdir()) for folder in (bundle / "licences").iterdir())


def test_it_trains_as_the_build_does(bundle):
    line = flags(TINY | {"runs_dir": bundle.parent / "runs"})
    there = start(bundle, *line, OMP_NUM_THREADS="1")
    assert there.returncode == 0, there.stderr
    here = subprocess.run([BUILD / "src/app/snake_ddp", *line], capture_output=True, text=True, timeout=PATIENCE_S, env=clean_environment())
    assert fingerprint(there.stdout)["line"] == fingerprint(here.stdout)["line"]


def test_it_checks_a_gpu(bundle):
    done = start(bundle, "--gpu_check", "report")
    assert done.returncode == 0, done.stderr
    assert re.search(r"^\| device against host \| passed \| \d+ \| no device", done.stdout, re.M)


def test_what_is_missing_is_named(bundle, tmp_path):
    for python, text in ((tmp_path / "none", "there is no .*none: name a Python that has torch 2.11 in SNAKE_DDP_PYTHON"),
                         ("/usr/bin/false", "/usr/bin/false failed")):
        done = start(bundle, "info", SNAKE_DDP_PYTHON=str(python))
        assert done.returncode == 2 and re.search(text, done.stderr), done.stderr
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')  # without its packages
    bare.chmod(0o755)
    done = start(bundle, "info", SNAKE_DDP_PYTHON=str(bare))
    assert done.returncode == 2 and f"{bare} has torch none, not 2.11: name another Python" in done.stderr
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("bash", "readlink", "dirname", "uname"):
        os.symlink(f"/usr/bin/{tool}", tools / tool)
    done = start(bundle, "--build", PATH=str(tools))
    assert done.returncode == 2 and "--build needs g++" in done.stderr, done.stderr
