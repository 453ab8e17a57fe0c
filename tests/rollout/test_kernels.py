"""The kernels as they were compiled: nothing here needs a GPU."""

import pathlib
import re
import struct
import subprocess

import pytest

from processes import BUILD, SOURCE, call, only_json

INTERMEDIATE_CODE, MACHINE_CODE = 1, 2


def device_images(content):
    """(kind, compute capability, code) of each image in an object's fat binaries: a header, then images one after another."""
    for header in re.finditer(rb"\x50\xed\x55\xba", content):
        _, header_size, size = struct.unpack_from("<HHQ", content, header.start() + 4)
        at = header.start() + header_size
        end = at + size
        while at < end:
            kind, _, image_header, image = struct.unpack_from("<HHIQ", content, at)
            yield kind, struct.unpack_from("<I", content, at + 28)[0], content[at + image_header:at + image_header + image]
            at += image_header + image


def objects():
    return sorted(BUILD.glob("src/*.cu.o"))


def test_every_kernel_is_compiled_and_any_device_can_run_it():
    sources = sorted(path.name for path in SOURCE.glob("src/*/*.cu"))
    assert len(sources) >= 3 and sorted(path.name for path in objects()) == [f"{name}.o" for name in sources]
    compiled = only_json(call("info", "--json").stdout)["kernels"]
    assert compiled and all(re.fullmatch(r"\d{2,3}", capability) for capability in compiled)
    for path in objects():
        images = {(kind, arch) for kind, arch, _ in device_images(path.read_bytes())}
        # Machine code for these devices, and intermediate code, which drivers translate for all others: of the oldest kind, and of 9.0
        # for devices of 10.3 and 11.0.
        assert {str(arch) for kind, arch in images if kind == MACHINE_CODE} >= set(compiled), path
        assert images >= {(INTERMEDIATE_CODE, 75), (INTERMEDIATE_CODE, 90)}, path


def test_kernels_bring_no_host_functions_of_the_game():
    # nvcc sees plain cell sets where the host has vectors. Had its objects functions that the host's have too, the linker
    # could take either, and the two would not understand each other's boards.
    for path in objects():
        names = subprocess.run(["nm", "-C", "--defined-only", path], capture_output=True, text=True, check=True).stdout
        shared = [line for line in names.splitlines() if re.search(r" [WwVvu] .*snake_ddp::game::", line)]
        assert shared == [], path


@pytest.fixture(scope="module")
def code():
    """(compute capability, text) of all intermediate code, as drivers translate it."""
    return [(arch, image.rstrip(b"\0").decode()) for path in objects() for kind, arch, image in device_images(path.read_bytes())
            if kind == INTERMEDIATE_CODE]


@pytest.fixture(scope="module")
def functions(code):
    """{symbol and compute capability: text}, also of those that kernels call."""
    return {f"{symbol} of {arch}": text for arch, unit in code
            for symbol, text in re.findall(r"^[^\n]*\.(?:entry|func)\s+(?:\([^)]*\)\s*)?(\w+)\([^)]*\)[^;{]*\{(.*?)^\}", unit, re.MULTILINE | re.DOTALL)}


def test_no_kernel_takes_more_registers_and_stack_than_the_page_says(code, tmp_path):
    page = (SOURCE / "docs" / "gpu.md").read_text()
    budgets = {name: (int(registers), int(stack))
               for name, registers, stack in re.findall(r"^\| `([\w<>]+)` \|[^|]*\| (\d+) \| (\d+) \|", page, re.MULTILINE)}
    ptxas, used = pathlib.Path((BUILD / "nvcc.txt").read_text()).with_name("ptxas"), {}
    for unit in (text for arch, text in code if arch == 90):
        (tmp_path / "unit.ptx").write_text(unit)
        done = subprocess.run([ptxas, "-arch=sm_90", "-v", "-o", tmp_path / "unit.cubin", tmp_path / "unit.ptx"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        report = subprocess.run(["c++filt"], input=done.stderr, capture_output=True, text=True, check=True).stdout
        for name, registers, stack in re.findall(r"entry function 'void [\w:]+<[\w:]+::(\w+(?:<\w+>)?) ?>(?:.*\n)*?.*Used (\d+) registers(?:.*?(\d+) bytes cumul)?", report):
            used[name] = int(registers), int(stack or 0)
    assert set(used) == set(budgets)
    assert {name: use for name, use in used.items() if use[0] > budgets[name][0] or use[1] > budgets[name][1]} == {}


def test_kernels_round_each_operation_as_the_host_does(functions):
    # The library's powers in BeginAdam have an error of their own.
    others = {symbol: text for symbol, text in functions.items() if not re.search("BeginAdam|accurate_pow", symbol)}
    operation = re.compile(r"\b(?:fma|mad|(?:add|sub|mul|div|sqrt|rcp)(?!\.rn))(?:\.\w+)*\.f(?:32|64)\b.*")
    assert any("add.rn.f32" in text for text in others.values())
    assert {symbol: found for symbol, text in others.items() if (found := operation.findall(text))} == {}


def test_kernels_copy_nothing_byte_by_byte(functions):
    # A loop of fixed length whose only store is of the byte that it loaded: what becomes of a memcpy of a board.
    loops = [(symbol, block) for symbol, text in functions.items()
             for label, block in re.findall(r"^(\$\w+):\n(.*?)(?=^\$\w+:|\Z)", text, re.MULTILINE | re.DOTALL)
             if re.search(rf"setp\.\w+\.\w+\s+%\w+, %\w+, \d+;\s+@%\w+ bra\s+\{label};", block)]
    assert loops
    for symbol, block in loops:
        stores = re.findall(r"\bst\.(?:\w+\.)?[ub]8\s+\[[^]]+\], (%\w+);", block)
        assert len(stores) != 1 or not re.search(rf"\bld\.(?:\w+\.)?[ub]8\s+{stores[0]},", block), f"{symbol}:\n{block[:500]}"
