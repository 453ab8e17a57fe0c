"""LibTorch's library for GPUs is loaded only if there is a driver: it costs 0.2 s and 350 MB at each start."""

import ctypes
import pathlib
import re
import shutil
import subprocess

import pytest

from processes import BUILD, SOURCE, call, clean_environment

OURS = "libsnake_ddp_cuda.so"
LIBTORCH = "libtorch_cuda.so"


def has_cuda():
    return "nccl" in call("info").stdout


def has_driver():
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def initialised(stderr):
    """Name -> path of the libraries that a program initialised, from the dynamic linker's own report."""
    paths = [pathlib.Path(path) for path in re.findall(r"calling init: (\S+)", stderr)]
    return {path.name: path for path in paths}


def loaded(*arguments, **variables):
    done = call(*arguments, LD_DEBUG="files", **variables)
    return done, set(initialised(done.stderr))


@pytest.fixture
def stub(tmp_path):
    """A folder with a driver's library that has none of its functions."""
    (tmp_path / "stub.c").write_text("int nothing;\n")
    subprocess.run([shutil.which("cc") or "g++", "-shared", "-fPIC", "-o", tmp_path / "libcuda.so.1", tmp_path / "stub.c"],
                   check=True)
    return tmp_path


@pytest.mark.skipif(has_driver(), reason="this machine has a driver")
def test_without_a_driver_nothing_of_cuda_is_loaded_but_its_runtime():
    done, names = loaded("--version")
    assert done.returncode == 0 and "libtorch_cpu.so" in names, done.stderr
    assert not names & {OURS, LIBTORCH}


@pytest.mark.skipif(not has_cuda(), reason="this build has no CUDA")
def test_with_a_driver_it_is_loaded_before_any_use_of_a_device(stub):
    done, names = loaded("info", LD_LIBRARY_PATH=stub)
    assert done.returncode == 0, done.stderr
    assert {"libcuda.so.1", OURS, LIBTORCH} <= names  # every name that ours needs of LibTorch's was found
    assert '"nccl"' in done.stdout


@pytest.mark.skipif(not has_cuda() or has_driver(), reason="needs a build with CUDA, and no driver")
def test_a_driver_without_gpus_is_reported_and_the_cpu_still_trains(stub, tmp_path):
    done = call("--device", "cuda", "--max_episodes", 1, "--runs_dir", tmp_path, LD_LIBRARY_PATH=stub)
    assert done.returncode == 2 and "--device cuda: no GPU found" in done.stderr, done.stderr
    done = call("--max_episodes", 1, "--runs_dir", tmp_path, LD_LIBRARY_PATH=stub)
    assert done.returncode == 0 and "Fingerprint" in done.stdout, done.stderr


@pytest.mark.skipif(not has_cuda(), reason="this build has no CUDA")
def test_the_image_has_it_beside_the_program(stub, tmp_path):
    steps = re.search(r"&& (mkdir -p program/.*?)\n\n", (SOURCE / "launch" / "Containerfile").read_text(), re.S)[1]
    image = tmp_path / "image"
    (image / "build").mkdir(parents=True)
    (image / "build" / "release").symlink_to(BUILD)
    subprocess.run(["bash", "-euc", steps], cwd=image, check=True)
    (image / "build" / "release").unlink()
    done = subprocess.run([image / "program" / "starter" / "snake_ddp", "--version"], capture_output=True, text=True,
                          env=clean_environment(LD_LIBRARY_PATH=stub, LD_DEBUG="files"), timeout=60)
    assert done.returncode == 0, done.stderr
    assert initialised(done.stderr)[OURS].resolve() == image / "program" / OURS
