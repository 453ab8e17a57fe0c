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


# Upper bounds of the registers and bytes of stack of one thread, on compute capability 9.0; what it does, and how many there are.
# Where eight share a board, they keep what they compute from it in shared memory, 3.8 kB a board (game/survey.hpp): one thread alone
# would need 11 kB of stack.
MOST = {
    "TerritoryMoves": (72, 160),  # moves of opponents that play by territory; 8 for a board
    "StartBoard": (48, 384),  # new games on all boards; one for a board
    "FrozenMoves": (32, 0),  # moves of frozen teams from their networks' outputs; one for a board
    "PlayBoard": (96, 1280),  # a move with both teams' choices, rewards, n-step windows or rows of a rollout; one for a board
    "SettleBoard<true>": (96, 896),  # stores transitions with their boards, deals new games; one for a board
    "SettleBoard<false>": (128, 1024),  # the same with 26 or 30 features; one for a board
    "CountStep": (32, 0),  # advances the counters; one
    "SeePlain": (64, 576),  # 26 or 30 features of boards, or of rows of replay; one for a board
    "SeeView": (80, 640),  # the window or the view of them; 8 for a board
    "WriteGraphs": (32, 256),  # what a reader of tokens sees of boards; 3 for a board
    "RandomBoard": (80, 512),  # a step with random moves, for `bench`; one for a board
    "ExpectLast": (32, 0),  # values of the boards after a rollout; one for a seat
    "ExpectCut": (32, 0),  # values of boards whose games were cut off; one for a seat
    "Returns": (48, 0),  # a rollout's lambda-returns; one for a seat
    "Begin": (8, 0),  # a rollout begins; one
    "CountBatch": (16, 0),  # a batch was taken; one
    "TakeRows": (24, 0),  # which rows of a rollout a batch holds; one for a row
    "DrawRows": (24, 0),  # which rows a batch holds; one for a row
    "LastLayer<1>": (40, 0),  # a layer with one output, for which cuBLAS has no fast product; 8 for a row
    "LastLayer<4>": (48, 0),  # the same with four; 8 for a row
    "DoubleQ": (48, 0),  # double Q-learning's error, loss and gradient; one for a learned value
    "BeginAdam": (40, 0),  # clipping and the step's rate; one
    "StepAdam": (24, 0),  # Adam and the targets' step; one for a parameter
}


def test_no_kernel_takes_more_registers_and_stack_than_it_may(code, tmp_path):
    ptxas, used = pathlib.Path((BUILD / "nvcc.txt").read_text()).with_name("ptxas"), {}
    for unit in (text for arch, text in code if arch == 90):
        (tmp_path / "unit.ptx").write_text(unit)
        done = subprocess.run([ptxas, "-arch=sm_90", "-v", "-o", tmp_path / "unit.cubin", tmp_path / "unit.ptx"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        report = subprocess.run(["c++filt"], input=done.stderr, capture_output=True, text=True, check=True).stdout
        for name, registers, stack in re.findall(r"entry function 'void [\w:]+<[\w:]+::(\w+(?:<\w+>)?) ?>(?:.*\n)*?.*Used (\d+) registers(?:.*?(\d+) bytes cumul)?", report):
            used[name] = int(registers), int(stack or 0)
    assert set(used) == set(MOST)
    assert {name: use for name, use in used.items() if use[0] > MOST[name][0] or use[1] > MOST[name][1]} == {}


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
