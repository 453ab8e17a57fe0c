"""The kernels as they were compiled: nothing here needs a GPU."""

import re
import subprocess

from processes import BUILD, SOURCE, call, only_json

def objects():
    return sorted(BUILD.glob("src/*/*.cu.o"))


def test_every_kernel_is_compiled_and_any_device_can_run_it():
    sources = sorted(path.name for path in SOURCE.glob("src/*/*.cu"))
    assert len(sources) >= 3 and [path.name for path in objects()] == [f"{name}.o" for name in sources]
    compiled = only_json(call("info", "--json").stdout)["kernels"]
    assert compiled and all(re.fullmatch(r"\d{2,3}", capability) for capability in compiled)
    for path in objects():
        content = path.read_bytes()
        # Machine code for these devices, and intermediate code of the oldest kind, which drivers translate for all others.
        assert {target.decode() for target in re.findall(rb"-arch sm_(\d+)", content)} >= set(compiled), path
        assert b".target sm_75" in content or b"compute_75" in content, path


def test_kernels_bring_no_host_functions_of_the_game():
    # nvcc sees plain cell sets where the host has vectors. Had its objects functions that the host's have too, the linker
    # could take either, and the two would not understand each other's boards.
    for path in objects():
        names = subprocess.run(["nm", "-C", "--defined-only", path], capture_output=True, text=True, check=True).stdout
        shared = [line for line in names.splitlines() if re.search(r" [WwVvu] .*snake_ddp::(game|encode|agents)::", line)]
        assert shared == [], path
