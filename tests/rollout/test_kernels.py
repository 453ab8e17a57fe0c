"""The kernels as they were compiled: nothing here needs a GPU."""

import re
import subprocess

from processes import BUILD, SOURCE, call, only_json

CAPABILITIES = ["75", "80", "86", "90", "100", "120"]


def objects():
    return sorted(BUILD.glob("src/*/*.cu.o"))


def test_every_kernel_is_compiled_for_all_capabilities():
    sources = sorted(path.name for path in SOURCE.glob("src/*/*.cu"))
    assert len(sources) >= 3 and [path.name for path in objects()] == [f"{name}.o" for name in sources]
    listed = re.search(r"SNAKE_DDP_CUDA_ARCHITECTURES:STRING=(.*)", (BUILD / "CMakeCache.txt").read_text())[1].split(";")
    assert only_json(call("info", "--json").stdout)["kernels"] == listed
    assert set(CAPABILITIES) <= set(re.search(r'ARCHITECTURES "([0-9;]+)"', (SOURCE / "cmake/cuda.cmake").read_text())[1].split(";"))


def test_kernels_bring_no_host_functions_of_the_game():
    # nvcc sees plain cell sets where the host has vectors. Had its objects functions that the host's have too, the linker
    # could take either, and the two would not understand each other's boards.
    for path in objects():
        names = subprocess.run(["nm", "-C", "--defined-only", path], capture_output=True, text=True, check=True).stdout
        shared = [line for line in names.splitlines() if re.search(r" [WwVvu] .*snake_ddp::(game|encode|agents)::", line)]
        assert shared == [], path
