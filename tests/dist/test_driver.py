"""LibTorch's library for GPUs is loaded where there is a driver, and nowhere else: it costs 0.2 s and 350 MB at each start."""

import ctypes
import shutil
import subprocess

import pytest

from processes import call

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


def loaded(*arguments, **variables):
    """The call, and the names of the libraries that it initialised, from the dynamic linker's own report."""
    done = call(*arguments, LD_DEBUG="files", **variables)
    lines = [line for line in done.stderr.splitlines() if "calling init: " in line]
    return done, {line.rsplit("/", 1)[-1] for line in lines}


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
def test_with_a_driver_it_is_loaded_before_anything_asks_for_a_device(stub):
    done, names = loaded("info", LD_LIBRARY_PATH=stub)
    assert done.returncode == 0, done.stderr
    assert {"libcuda.so.1", OURS, LIBTORCH} <= names  # every name that ours needs of LibTorch's was found
    assert '"nccl"' in done.stdout


@pytest.mark.skipif(not has_cuda() or has_driver(), reason="needs a build with CUDA, and no driver")
def test_a_driver_without_gpus_is_said_and_the_cpu_still_trains(stub, tmp_path):
    done = call("--device", "cuda", "--max_episodes", 1, "--log_dir", tmp_path, LD_LIBRARY_PATH=stub)
    assert done.returncode == 2 and "no GPU is visible" in done.stderr, done.stderr
    done = call("--max_episodes", 1, "--log_dir", tmp_path, LD_LIBRARY_PATH=stub)
    assert done.returncode == 0 and "Fingerprint" in done.stdout, done.stderr
