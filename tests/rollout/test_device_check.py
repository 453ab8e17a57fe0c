"""device_check without a device: it says so, and its comparisons detect differences."""

import re
import subprocess

from processes import BUILD, clean_environment

PROGRAM = BUILD / "tests" / "rollout" / "device_check"


def check(*arguments):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=120, env=clean_environment(CUDA_VISIBLE_DEVICES="-1"))


def test_without_a_device_it_says_so():
    done = check()
    assert done.returncode == 0 and done.stdout.startswith("no device") and done.stderr == ""


def test_it_needs_a_driver_only():
    assert PROGRAM.stat().st_size < 5_000_000
    needed = subprocess.run(["ldd", PROGRAM], capture_output=True, text=True, check=True).stdout
    assert "libstdc++" in needed and "torch" not in needed and "cuda" not in needed


def test_games_in_another_order_are_equal():
    done = check("--device", "host", "--boards", "48", "--steps", "230")
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and lines[-1] == "all equal", done.stdout + done.stderr
    assert [line.split(":")[0] for line in lines if line.endswith("arrays: equal")] == \
        ["26 features", "30 features", "a window with the board", "the view", "the view with the heading up", "rollouts",
         "Adam"]


def test_a_bit_of_any_array_is_noticed():
    done = check("--device", "host", "--boards", "8", "--steps", "20", "--spoil", "all")
    assert done.returncode == 1 and done.stdout.endswith("7 of 7 parts differ\n"), done.stdout + done.stderr
    found = re.findall(r"in (\d+) arrays: DIFFERENT: (.*)", done.stdout)
    assert [len(set(arrays.split(", "))) for _, arrays in found] == [int(count) for count, _ in found] and len(found) == 7


def test_wrong_arguments_are_rejected():
    for arguments, says in ((("--boards", "0"), '"0" is not a number above 0'), (("--device", "gpu"), '"--device gpu": the flags are')):
        done = check(*arguments)
        assert done.returncode == 2 and says in done.stderr
