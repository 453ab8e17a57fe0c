"""The kernels as they were compiled: nothing here needs a GPU."""

import re
import struct
import subprocess

from processes import BUILD, SOURCE, call, only_json

INTERMEDIATE_CODE, MACHINE_CODE = 1, 2


def device_images(content):
    """(kind, compute capability) of each image in an object's fat binaries: a header, then images one after another."""
    for header in re.finditer(rb"\x50\xed\x55\xba", content):
        _, header_size, size = struct.unpack_from("<HHQ", content, header.start() + 4)
        at = header.start() + header_size
        end = at + size
        while at < end:
            kind, _, image_header, image = struct.unpack_from("<HHIQ", content, at)
            yield kind, struct.unpack_from("<I", content, at + 28)[0]
            at += image_header + image


def objects():
    return sorted(BUILD.glob("src/*/*.cu.o"))


def test_every_kernel_is_compiled_and_any_device_can_run_it():
    sources = sorted(path.name for path in SOURCE.glob("src/*/*.cu"))
    assert len(sources) >= 3 and [path.name for path in objects()] == [f"{name}.o" for name in sources]
    compiled = only_json(call("info", "--json").stdout)["kernels"]
    assert compiled and all(re.fullmatch(r"\d{2,3}", capability) for capability in compiled)
    for path in objects():
        images = list(device_images(path.read_bytes()))
        # Machine code for these devices, and intermediate code of the oldest kind, which drivers translate for all others.
        assert {str(arch) for kind, arch in images if kind == MACHINE_CODE} >= set(compiled), path
        assert (INTERMEDIATE_CODE, 75) in images, path


def test_kernels_bring_no_host_functions_of_the_game():
    # nvcc sees plain cell sets where the host has vectors. Had its objects functions that the host's have too, the linker
    # could take either, and the two would not understand each other's boards.
    for path in objects():
        names = subprocess.run(["nm", "-C", "--defined-only", path], capture_output=True, text=True, check=True).stdout
        shared = [line for line in names.splitlines() if re.search(r" [WwVvu] .*snake_ddp::(game|encode|agents)::", line)]
        assert shared == [], path
