"""The scripts, the test report, and the README's commands."""

import functools
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import time

import pytest

from processes import (BINARY, BUILD, EPISODE, PATIENCE_S, SOURCE, TINY, clean_environment, descendants, fingerprint, flags, has_become,
                       run_folder, starter, wait_until_gone, worker_pids)
from test_pages import STATEMENTS, why_not

BUILDING_S = 580  # a first call may have to build


def script(*arguments, **variables):
    return subprocess.run([SOURCE / "train_ddp.sh", *arguments], env=clean_environment(**variables), capture_output=True,
                          text=True, timeout=BUILDING_S, stdin=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def set_up():
    """train_ddp.sh has done its set-up once. It builds in build/release, which must be the build that is tested: in any
    other the script would work on a folder that somebody else may be using."""
    if not (BUILD.exists() and BUILD.resolve() == SOURCE / "build" / "release"):
        pytest.fail(f"these tests call train_ddp.sh, which builds in build/release, and this is {BUILD}: run ./test.sh release")
    done = script("--version")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("snake_ddp ")


# train_ddp.sh


def test_one_command_trains(set_up, tmp_path):
    done = script("--config", "configs/smoke.json", "--runs_dir", tmp_path, NPROC=2)
    assert done.returncode == 0, done.stderr
    assert "== " not in done.stderr, "a second call installs and builds nothing"
    assert len(fingerprint(done.stdout)["ranks"]) == 2
    folder = run_folder(done.stdout)
    assert folder.parent == tmp_path / "snakes_3v3"
    names = {path.name for path in (folder / "trained_model").iterdir()}
    assert {"actor_1.pth", "critic_1.pth", "actor_2.pth", "critic_2.pth"} <= names
    assert json.loads((folder / "config.json").read_text())["run"]["world_size"] == 2


def test_it_works_from_another_folder(set_up, tmp_path):
    done = subprocess.run([SOURCE / "train_ddp.sh", "--help"], cwd=tmp_path, env=clean_environment(), capture_output=True,
                          text=True, timeout=PATIENCE_S)
    assert done.returncode == 0 and done.stderr == ""
    assert "  --max_episodes N " in done.stdout
    assert list(tmp_path.iterdir()) == []
    assert "--a_lr" in done.stdout and "--a_lr" not in script("--algo", "dqn", "--help").stdout


def test_a_wrong_flag_gives_one_message(set_up):
    done = script("--max_episode", "5", NPROC=4)
    assert done.returncode == 2
    assert done.stderr.strip() == "snake_ddp: unknown flag --max_episode; did you mean --max_episodes? " \
        "All flags: snake_ddp train --help"
    assert done.stdout == ""


@pytest.mark.parametrize("ranks", ["0", "two", "-1", "2x"])
def test_a_wrong_number_of_ranks_is_reported(set_up, ranks):
    done = script("--config", "configs/smoke.json", NPROC=ranks)
    assert done.returncode == 1
    assert f"NPROC={ranks} is not a number of ranks" in done.stderr


def test_several_machines_need_the_first_ones_name(set_up):
    done = script("--config", "configs/smoke.json", NNODES=2, NPROC=1)
    assert done.returncode == 1
    assert "NNODES=2 needs MASTER_ADDR" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP], ids=lambda s: s.name)
def test_a_signal_to_the_script_saves_and_stops(set_up, tmp_path, number):
    with starter(tmp_path) as start:
        run = start([SOURCE / "train_ddp.sh", *flags(TINY | {"max_episodes": 10**9, "runs_dir": tmp_path})], NPROC=2)
        run.wait_for(EPISODE)
        pids = worker_pids(run, 2)
        run.popen.send_signal(signal.SIGUSR2)
        run.wait_for(r"Saved at episode \d+, requested by a signal")
        for _ in range(2):  # as srun does
            run.popen.send_signal(number)
            time.sleep(0.05)
        assert run.wait() == 75, run.text()
        wait_until_gone(pids.values(), 1)
    assert f"== stopped by {number.name}\n" in run.text() and "Traceback" not in run.text()
    assert "Stopped by a signal" in (run_folder(run.text()) / "train.log").read_text()
    assert (run_folder(run.text()) / "checkpoints" / "resumable").exists()


def test_a_signal_to_the_pretraining_stops_the_stage_and_begins_no_other(set_up, tmp_path):
    games = tmp_path / "games"
    recorded = subprocess.run([BINARY, "eval", "--team_a", "level2", "--team_b", "level4", "--games", "60", "--record_boards",
                               games / "a.boards"], env=clean_environment(), stdout=subprocess.DEVNULL, timeout=PATIENCE_S)
    assert recorded.returncode == 0
    with starter(tmp_path) as start:
        run = start([SOURCE / "launch" / "pretrain.sh"], NPROC=2, GAMES=games, OUT=tmp_path / "out")
        run.wait_for(r"\[Epoch 001\]")
        pids = descendants(run.popen.pid)
        run.popen.terminate()
        assert run.wait() == 75, run.text()
        wait_until_gone(pids, 1)
    assert "Stopped by a signal in epoch" in run.text() and "mask_predictor" not in run.text()
    assert (tmp_path / "out" / "tokenizer_last.pth").exists()
    assert list((tmp_path / "out" / "cache").glob("*.boards")), "nothing is written elsewhere"


def test_a_signal_while_torchrun_starts_begins_nothing(set_up, tmp_path):
    with starter(tmp_path) as start:
        run = start([SOURCE / "train_ddp.sh", *flags(TINY | {"runs_dir": tmp_path / "runs"})], NPROC=1)
        until = time.monotonic() + PATIENCE_S
        while not has_become(run.popen.pid, sys.executable):
            assert run.popen.poll() is None and time.monotonic() < until, run.text()
            time.sleep(0.002)
        run.popen.send_signal(signal.SIGUSR2)  # nothing to save yet
        run.popen.send_signal(signal.SIGTERM)
        assert run.wait() == 75, run.text()
    assert run.text() == "== stopped by a signal before training began; nothing was started\n"
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("name", ["torchrun.sbatch", "container.sh"])
@pytest.mark.parametrize("flag", [["--runs_dir", "x"], ["--runs-dir=x"]])
def test_a_script_that_looks_for_runs_has_them_in_its_own_folder(tmp_path, name, flag):
    slurm = {"SLURM_JOB_ID": 7, "SLURM_JOB_NODELIST": "here", "SNAKE_DDP": "/bin/false", "TORCHRUN": "/bin/false"}
    done = subprocess.run(["bash", SOURCE / "launch" / name, "--seed", "x", *flag], capture_output=True, text=True, timeout=PATIENCE_S,
                          env=clean_environment(RUNS_DIR=tmp_path, **slurm))
    assert done.returncode == 2 and "--runs_dir: set RUNS_DIR instead" in done.stderr, done


# Set-up, with faked tools


@pytest.fixture
def tree(tmp_path):
    """The scripts alone, in a folder of their own, and a folder of tools that come first in PATH."""
    root = tmp_path / "tree"
    shutil.copytree(SOURCE / "launch", root / "launch")
    for name in ("train_ddp.sh", "test.sh"):
        shutil.copy(SOURCE / name, root / name)
    (tmp_path / "tools").mkdir()
    return root


def fake(tree, name, text):
    path = tree.parent / "tools" / name
    path.write_text("#!/bin/sh\n" + text + "\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def run_faked(tree, name="train_ddp.sh", **variables):
    environment = clean_environment(PATH=f"{tree.parent / 'tools'}:/usr/bin:/bin", **variables)
    for variable in ("SNAKE_DDP_PYTHON", "SNAKE_DDP_LOCKED"):
        if variable not in variables:
            environment.pop(variable, None)
    return subprocess.run([tree / name], cwd=tree, env=environment, capture_output=True, text=True, timeout=PATIENCE_S)


INSTALLED = "printf installed"
PACKAGES = [line.split() for line in (SOURCE / "launch" / "packages.txt").read_text().splitlines() if line[:1] not in ("#", "")]


@pytest.mark.parametrize("name", ["train_ddp.sh", "test.sh"])
def test_without_root_the_exact_command_is_reported(tree, name):
    wanted = " ".join(words[0] for words in PACKAGES if name == "test.sh" or "[test]" not in words)
    assert ("catch2" in wanted) == (name == "test.sh") and "g++ " in wanted
    fake(tree, "dpkg-query", "exit 1")
    fake(tree, "id", "echo 1000")
    fake(tree, "apt-get", "touch called")
    done = run_faked(tree, name)
    assert done.returncode == 1
    assert f"\n  sudo sh -c 'apt-get update && apt-get install -y --no-install-recommends {wanted}'\n" in done.stderr
    assert not (tree / "called").exists()


def test_only_missing_packages_are_requested(tree):
    fake(tree, "dpkg-query", 'for last; do :; done; [ "$last" = zlib1g-dev ] && exit 1; printf installed')
    fake(tree, "id", "echo 1000")
    assert "--no-install-recommends zlib1g-dev'" in run_faked(tree).stderr


def test_packages_that_cannot_be_installed_are_reported(tree):
    fake(tree, "dpkg-query", "exit 1")
    fake(tree, "id", "echo 0")
    fake(tree, "apt-get", 'echo "E: no way to the archive"; exit 100')
    done = run_faked(tree)
    assert done.returncode == 1
    assert "E: no way to the archive" in done.stderr and "apt-get failed" in done.stderr and "offline" in done.stderr
    assert "apt-get update && apt-get install -y --no-install-recommends g++ " in done.stderr


VENV = 'if [ "$2" = venv ]; then mkdir -p .venv/bin && cp "$0" .venv/bin/python3; exit; fi\n'


def test_libraries_that_cannot_be_installed_are_reported(tree):
    fake(tree, "dpkg-query", INSTALLED)
    fake(tree, "python3", VENV + 'echo "ERROR: no network" >&2; exit 1')
    done = run_faked(tree)
    assert done.returncode == 1
    assert "installing LibTorch" in done.stderr and "ERROR: no network" in done.stderr
    assert "pip could not install launch/requirements.txt" in done.stderr
    assert "-m pip install -r launch/requirements.txt" in done.stderr
    assert not (tree / ".venv" / "snake_ddp.stamp").exists(), "the next call tries again"


def test_a_virtual_environment_that_cannot_be_made_is_reported(tree):
    fake(tree, "dpkg-query", INSTALLED)
    fake(tree, "python3", "exit 1")
    done = run_faked(tree)
    assert done.returncode == 1 and "python3 -m venv .venv failed" in done.stderr


def test_an_interpreter_without_torch_is_reported(tree):
    fake(tree, "dpkg-query", INSTALLED)
    fake(tree, "other_python", "exit 1")
    done = run_faked(tree, SNAKE_DDP_PYTHON=tree.parent / "tools" / "other_python")
    assert done.returncode == 1 and "has no torch 2.11" in done.stderr


def test_a_build_that_cannot_be_configured_shows_why(tree):
    fake(tree, "dpkg-query", INSTALLED)
    fake(tree, "python3", VENV + "exit 0")
    fake(tree, "cmake", 'echo "CMake Error: no compiler"; exit 1')
    fake(tree, "ninja", "exit 0")
    done = run_faked(tree)
    assert done.returncode == 1
    assert "CMake Error: no compiler" in done.stderr and "cmake could not configure the release build" in done.stderr


@pytest.mark.parametrize("cached, march, asked, anew", [
    ("python", "native", "", False), ("python3", "native", "", False), ("python3.11", "native", "", False),
    ("other/python3", "native", "", True), ("python", "x86-64-v3", "", False), ("python", "x86-64-v3", "x86-64-v3", False),
    ("python", "native", "x86-64-v3", True)])
def test_only_a_build_of_another_interpreter_or_processor_is_rebuilt(tree, cached, march, asked, anew):
    fake(tree, "dpkg-query", INSTALLED)
    fake(tree, "python3", VENV + "exit 0")
    fake(tree, "cmake", 'echo "$*" >called; mkdir -p build/release; touch build/release/build.ninja')
    fake(tree, "ninja", "exit 1")  # far enough
    build = tree / "build" / "release"
    build.mkdir(parents=True)
    (build / "CMakeCache.txt").write_text(f"Python3_EXECUTABLE:UNINITIALIZED={tree}/.venv/bin/{cached}\n"
                                          f"CMAKE_HOME_DIRECTORY:INTERNAL={tree}\nSNAKE_DDP_MARCH:STRING={march}\n")
    (build / "work.o").write_text("hours")
    done = run_faked(tree, SNAKE_DDP_MARCH=asked)
    assert (build / "work.o").exists() != anew, done.stderr
    assert ("rebuilding it" in done.stderr) == anew
    assert ("-DSNAKE_DDP_MARCH=x86-64-v3" in (tree / "called").read_text()) == bool(asked)


@pytest.mark.parametrize("number", ["TERM", "INT", "HUP", "USR1"])
def test_a_signal_during_set_up_begins_nothing(tree, number):
    fake(tree, "dpkg-query", INSTALLED)
    fake(tree, "python3", f"kill -USR2 $PPID; kill -{number} $PPID")
    done = run_faked(tree)
    assert done.returncode == 75, done
    assert done.stderr.endswith("== stopped by a signal before training began; nothing was started\n")


@pytest.mark.parametrize("variables, reported", [
    ({}, "--rdzv-backend=c10d --rdzv-endpoint=127.0.0.1:0"),
    ({"NNODES": 2}, "--nnodes=2 --rdzv-backend=c10d --rdzv-id=snake_ddp --rdzv-endpoint=node-a:29500 --nproc"),
    ({"NNODES": 2, "NODE_RANK": 1, "MASTER_PORT": 5}, "--nnodes=2 --node_rank=1 --master_addr=node-a --master_port=5 --nproc"),
    ({"NNODES": 2, "NODE_RANK": 2}, "NODE_RANK=2 is not the number of one of 2 machines"),
    ({"NNODES": 2, "NODE_RANK": "b"}, "NODE_RANK=b is not the number of one of 2 machines")])
def test_the_script_passes_the_machines_to_torchrun(tree, variables, reported):
    fake(tree, "dpkg-query", INSTALLED)
    fake(tree, "python3", VENV + 'echo "$*"')
    fake(tree, "cmake", "mkdir -p build/release; touch build/release/build.ninja")
    fake(tree, "ninja", "exit 0")
    (tree / "snake_ddp").write_text('#!/bin/sh\n[ "$1" != --become ] || { shift; exec "$@"; }\n')
    (tree / "snake_ddp").chmod(0o755)
    done = run_faked(tree, MASTER_ADDR="node-a", **variables)
    assert reported in done.stdout.splitlines()[-1] if done.returncode == 0 else reported in done.stderr, done
    assert done.returncode == (1 if "is not" in reported else 0)


# Stands for torchrun with its ranks. The call that contains $HANGS goes on until SIGTERM.
STAGES = """#!/bin/sh
echo "$*" >>calls
for word; do
  [ "$before" != --record_boards ] || { mkdir -p "$(dirname "$word")"; echo boards >"$word"; }
  before=$word
done
case "$*" in *"$HANGS"*) ;; *) exit 0 ;; esac
trap 'exit $ON_STOP' TERM
echo $$ >hangs
while :; do sleep 0.05; done
"""


def pretrains(tree, start, hangs, number=None, on_stop=75):
    """Runs pretrain.sh and sends it a signal while a stage hangs. Returns its exit code and the stages that it
    started."""
    run = start([tree / "launch" / "pretrain.sh"], PATH=f"{tree.parent / 'tools'}:/usr/bin:/bin", HANGS=hangs, ON_STOP=on_stop)
    until = time.monotonic() + PATIENCE_S
    if number:
        while not (tree / "hangs").exists() or not (tree / "hangs").read_text():
            assert run.popen.poll() is None and time.monotonic() < until, run.text()
            time.sleep(0.02)
        run.popen.send_signal(number)
    code = run.wait()
    if number:
        wait_until_gone([int((tree / "hangs").read_text())], 1)
    calls = (tree / "calls").read_text().splitlines()
    (tree / "calls").unlink()
    return code, [re.search(r"\w+(?=\.boards)|(?<=--stage )\w+|(?<=snake_ddp )train", call)[0] for call in calls]


@pytest.fixture
def staged(tree):
    fake(tree, "dpkg-query", INSTALLED)
    fake(tree, "python3", VENV + "exit 0")
    fake(tree, "cmake", "mkdir -p build/release; touch build/release/build.ninja")
    fake(tree, "ninja", "exit 0")
    (tree / "snake_ddp").write_text(STAGES)
    (tree / "snake_ddp").chmod(0o755)
    return tree


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1], ids=lambda s: s.name)
@pytest.mark.parametrize("on_stop", [75, 0], ids=["it stops", "it was done"])
def test_a_signal_to_pretraining_ends_the_stage_and_starts_no_other(staged, tmp_path, number, on_stop):
    (staged / "pretrain_games").mkdir()
    with starter(tmp_path) as start:
        assert pretrains(staged, start, "--stage tokenizer", number, on_stop) == (75, ["tokenizer"])


def test_games_recorded_in_part_are_recorded_again(staged, tmp_path):
    with starter(tmp_path) as start:
        assert pretrains(staged, start, "level2_territory.boards", signal.SIGTERM) == (75, ["level2_level4", "level2_territory"])
        assert pretrains(staged, start, "nothing") == (0, ["level2_level4", "level2_territory", "evasion_territory", "tokenizer",
                                                           "mask_predictor", "train"])
        assert pretrains(staged, start, "nothing") == (0, ["tokenizer", "mask_predictor", "train"])
    assert {path.name for path in (staged / "pretrain_games").iterdir()} == {
        "level2_level4.boards", "level2_territory.boards", "evasion_territory.boards"}
    assert not (staged / "pretrain_games.part").exists()


def test_a_second_call_waits_and_a_call_from_within_does_not(tree):
    text = """
    set -euo pipefail; . launch/setup.sh; sd_lock
    bash -c '. launch/setup.sh; sd_lock; echo within; sd_unlock'
    env -u SNAKE_DDP_LOCKED bash -c 'exec 9>&-; flock -n build/.lock true && echo unlocked || echo locked'
    sd_unlock
    flock -n build/.lock true && echo free
    """
    done = subprocess.run(["bash", "-c", text], cwd=tree, env={k: v for k, v in os.environ.items() if k != "SNAKE_DDP_LOCKED"},
                          capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.stdout.split() == ["within", "locked", "free"], done.stderr


def test_tests_do_not_hold_the_lock_of_the_build():
    lock = SOURCE / "build" / ".lock"
    held = [fd for fd in pathlib.Path("/proc/self/fd").iterdir() if os.path.exists(fd) and lock.exists() and os.path.samefile(fd, lock)]
    assert held == []


# The build's rules, as CMake writes them


def configure(folder, python, *settings, path=None):
    """Configures a build in `folder` and returns what CMake printed."""
    bin_folder = pathlib.Path(sys.executable).parent
    environment = {"PATH": f"{path or bin_folder}:{bin_folder}:/usr/bin:/bin", "HOME": str(folder.parent)}
    done = subprocess.run([bin_folder / "cmake", "-S", SOURCE, "-B", folder, "-G", "Ninja", f"-DPython3_EXECUTABLE={python}",
                           *settings], env=environment, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    return done.stdout


def without(folder, path, copy):
    """`copy` becomes `folder` by links, without the file or folder `path` that leads down from there."""
    copy.mkdir()
    for entry in folder.iterdir():
        if entry.name != path.parts[0]:
            (copy / entry.name).symlink_to(entry)
        elif len(path.parts) > 1:
            without(entry, pathlib.Path(*path.parts[1:]), copy / entry.name)
    return copy


def test_no_cuda_toolkit_is_needed(tmp_path):
    said = configure(tmp_path / "b", sys.executable, "-DSNAKE_DDP_CUDA=off")
    assert "LibTorch: " in said and "Kernels: none" in said
    assert "nvcc" not in (tmp_path / "b" / "build.ninja").read_text()
    for rules in (tmp_path / "b" / "build.ninja", BUILD / "build.ninja"):
        text = rules.read_text()
        assert "libtorch_cpu.so" in text
        assert "/usr/local/cuda" not in text


def test_the_build_is_the_same_with_and_without_a_toolkit_and_after_a_later_installation(tmp_path):
    found = subprocess.run([sys.executable, "-c", "import torch; print(torch.__file__)"], capture_output=True, text=True)
    site = pathlib.Path(found.stdout.strip()).parents[1]
    nvcc = pathlib.Path("nvidia/cu13/bin")
    assert (site / nvcc / "nvcc").exists(), "the tests' environment has nvcc as a wheel"
    trains = without(site, nvcc, tmp_path / "site")  # as ./train_ddp.sh makes it on a machine without a GPU
    toolkit = tmp_path / "toolkit"
    (toolkit / "bin").mkdir(parents=True)
    program = toolkit / "bin" / "nvcc"
    program.write_text("#!/bin/sh\necho release 13.0,\n")
    program.chmod(0o755)
    python = tmp_path / "python3"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={trains} exec {sys.executable} "$@"\n')
    python.chmod(0o755)

    def rules(folder):
        """How everything is compiled and linked."""
        text = re.sub("[0-9a-f]{64}", "HASH", (folder / "build.ninja").read_text().replace(str(folder), "HERE"))
        return sorted(re.findall(r"^  (?:COMMAND|DEFINES|FLAGS|INCLUDES|LINK_FLAGS|LINK_LIBRARIES) = .*", text, re.M))

    build = tmp_path / "b"
    assert "Kernels: none" in configure(build, python)
    assert len(rules(build)) > 500 and str(trains) in "".join(rules(build))
    assert "Kernels: none" in configure(tmp_path / "c", python, path=toolkit / "bin")
    assert rules(tmp_path / "c") == rules(build)
    assert f"Kernels: {program}" in configure(tmp_path / "c", python, f"-DSNAKE_DDP_TOOLKIT={toolkit}")

    (trains / nvcc).symlink_to(site / nvcc)  # ./test.sh installs it
    wheel = f"Kernels: {trains / nvcc}/nvcc"
    assert wheel in configure(build, python, path=toolkit / "bin")
    assert wheel in configure(tmp_path / "d", python)
    assert rules(tmp_path / "d") == rules(build)


def test_a_build_notices_what_was_installed_since():
    stamp = SOURCE / ".venv" / "snake_ddp.stamp"
    rules = (BUILD / "build.ninja").read_text()
    assert not stamp.exists() or re.search(rf"^build build\.ninja[^\n]*: RERUN_CMAKE [^\n]*{re.escape(str(stamp))}", rules, re.M)


# The report


def made_up(folder, entries):
    """entries: {ctest name: (ctest status, its report or None)}"""
    (folder / "junit").mkdir(parents=True)
    rows = "".join(f'<testcase name="{name}" status="{status}"/>' for name, (status, _) in entries.items())
    (folder / "ctest.xml").write_text(f"<testsuite>{rows}</testsuite>")
    for name, (_, text) in entries.items():
        if text is not None:
            (folder / "junit" / f"{name}.xml").write_text(text)
    return folder


def cases(*kinds):
    return "<testsuites><testsuite>" + "".join(
        "<testcase/>" if kind == "passed" else f"<testcase><{kind}/></testcase>" for kind in kinds) + "</testsuite></testsuites>"


def catch_cases(*successes):
    return "<Catch><Group>" + "".join(
        f'<TestCase><Expression success="false"/><OverallResult success="{success}"/></TestCase>' for success in successes) + "</Group></Catch>"


GOOD = ("run", cases("passed", "passed"))
REPORTS = {
    "all is well": ({"game.unit": GOOD, "dist.dist": GOOD}, 0, "4 passed, 0 failed"),
    "a plain command": ({"game.unit": GOOD, "rooms.repo": ("run", None)}, 0, "3 passed, 0 failed"),
    "a failure": ({"game.unit": ("fail", cases("passed", "failure"))}, 1, "1 passed, 1 failed"),
    "Catch2's report": ({"game.unit": ("run", catch_cases("true", "true")), "dist.dist": GOOD}, 0, "4 passed, 0 failed"),
    "a failure in Catch2's report": ({"game.unit": ("fail", catch_cases("true", "false"))}, 1, "1 passed, 1 failed"),
    "a failure in Catch2's report that ctest did not see": ({"game.unit": ("run", catch_cases("false"))}, 1, "0 passed, 1 failed"),
    "half of Catch2's report": ({"game.unit": ("fail", "<Catch><Group><TestCase>")}, 1, "0 passed, 1 failed"),
    "an error": ({"game.unit": ("fail", cases("passed", "error"))}, 1, "1 passed, 1 failed"),
    "a failure that ctest did not see": ({"game.unit": ("run", cases("passed", "failure"))}, 1, "1 passed, 1 failed"),
    "a crash without a report": ({"dist.dist": GOOD, "game.unit": ("fail", None)}, 1, "2 passed, 1 failed"),
    "a crash with half a report": ({"dist.dist": GOOD, "game.unit": ("fail", "<testsuites><testca")}, 1, "2 passed, 1 failed"),
    "a crash after the last case": ({"game.unit": ("fail", cases("passed", "passed"))}, 1, "2 passed, 1 failed"),
    "half a report of a success": ({"dist.dist": GOOD, "game.unit": ("run", "")}, 1, "2 passed, 1 failed"),
    "not run": ({"dist.dist": GOOD, "game.unit": ("notrun", None)}, 1, "2 passed, 1 failed"),
    "disabled": ({"dist.dist": GOOD, "game.unit": ("disabled", None)}, 1, "2 passed, 1 failed"),
    "a skip": ({"game.unit": ("run", cases("passed", "skipped"))}, 1, "1 passed, 1 failed"),
    "nothing": ({}, 1, "0 passed, 0 failed"),
}


def report(*folders, **variables):
    environment = {name: value for name, value in clean_environment(**variables).items() if name != "CI" or "CI" in variables}
    return subprocess.run([sys.executable, SOURCE / "tests" / "report.py", *folders], env=environment, capture_output=True,
                          text=True, timeout=60)


@pytest.mark.parametrize("entries, code, last_line", REPORTS.values(), ids=REPORTS)
def test_the_report_is_red_where_something_is_wrong(tmp_path, entries, code, last_line):
    done = report(made_up(tmp_path / "release", entries))
    assert done.stdout.splitlines()[-1] == last_line, done.stdout
    assert done.returncode == code
    if code and entries and "skip" not in str(entries):
        assert "FAILED release: game.unit" in done.stdout


@pytest.mark.parametrize("name", ["test_slurm.launch", "test_two_nodes.launch"])
def test_what_a_machine_cannot_run_is_reported_and_runs_in_continuous_integration(tmp_path, name):
    text = '<testsuite><testcase/><testcase><skipped message="no root"/></testcase></testsuite>'
    folder = made_up(tmp_path / "release", {name: ("run", text)})
    done = report(folder)
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == "1 passed, 0 failed"
    assert f"skipped release: {name}: no root" in done.stdout.splitlines()
    done = report(folder, CI="true")
    assert done.returncode == 1 and "1 tests were skipped that must run" in done.stdout


def test_a_whole_suite_without_one_of_its_kinds_is_red(tmp_path):
    names = ["game.unit", "game.property", "game.golden", "dist.dist", "launch.launch", "repo.repo"]
    asan = made_up(tmp_path / "asan", {"game.unit": GOOD})
    whole = report(made_up(tmp_path / "a" / "release", {name: GOOD for name in names}), asan)
    assert whole.returncode == 0, whole.stdout
    done = report(made_up(tmp_path / "b" / "release", {name: GOOD for name in names[:-1]}), asan)
    assert done.returncode == 1 and "no test with label repo passed" in done.stdout
    assert report(tmp_path / "nowhere").returncode != 0


@pytest.mark.parametrize("variables, gpus, ranks", [
    ({}, 0, "cores"),
    ({"OMP_NUM_THREADS": "1"}, 0, "cores"),
    ({"OMP_NUM_THREADS": "6"}, 0, "cores"),
    ({"CUDA_VISIBLE_DEVICES": "0,1,2,3,4"}, 0, "cores"),
    ({"NPROC": "3"}, 0, 3),
    ({}, 4, 4),
    ({"CUDA_VISIBLE_DEVICES": "2,3"}, 4, 2),
    ({"CUDA_VISIBLE_DEVICES": "2,-1,3"}, 4, 1),
    ({"CUDA_VISIBLE_DEVICES": "-1"}, 4, "cores"),
])
def test_ranks_are_counted_by_what_the_machine_has(tmp_path, variables, gpus, ranks):
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\n" + "echo 'GPU 0: made up'\n" * gpus)
    tool.chmod(0o755)
    script = ". launch/setup.sh; sd_ranks; echo $SD_RANKS"
    done = subprocess.run(["bash", "-c", script], cwd=SOURCE, capture_output=True, text=True, timeout=PATIENCE_S,
                          env=clean_environment(PATH=f"{tmp_path}:{os.environ['PATH']}", **variables))
    assert done.stdout.strip() == str(min(8, len(os.sched_getaffinity(0))) if ranks == "cores" else ranks), done.stderr


@pytest.mark.parametrize("groups, files, cores", [
    ("0::/a/b", {"a/b/cpu.max": "150000 100000"}, 2),
    ("0::/a/b", {"a/b/cpu.max": "max 100000", "cpu.max": "100000 100000"}, 1),
    ("0::/", {"cpu.max": "50000 100000"}, 1),
    ("5:cpu,cpuacct:/a\n0::/", {"cpu/a/cpu.cfs_quota_us": "-1", "cpu/a/cpu.cfs_period_us": "100000",
                                "cpu/cpu.cfs_quota_us": "250000", "cpu/cpu.cfs_period_us": "100000"}, 3),
    ("5:cpuset:/\n0::/", {"cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000"}, 99)])
def test_a_quota_of_a_container_counts_as_cores(tmp_path, groups, files, cores):
    for name, text in ({"proc/self/cgroup": groups} | {f"sys/fs/cgroup/{name}": text for name, text in files.items()}).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", f". launch/setup.sh; env() {{ echo 99; }}; sd_cores {tmp_path}"],
                          cwd=SOURCE, capture_output=True, text=True, timeout=PATIENCE_S, env=clean_environment())
    assert done.stdout.strip() == str(cores), done.stderr


# README and presets


def run_here(words):
    return subprocess.run(words, cwd=SOURCE, env=clean_environment(), capture_output=True, text=True, timeout=PATIENCE_S)


def check_training_flags(words):
    if "--resume" in words:  # a run's folder is an example
        at = words.index("--resume")
        words = words[:at] + ["--resume", "auto"] + words[at + 2:]
    words = [word.removeprefix("snake_ddp/") for word in words]  # an unpacked archive has the presets that the sources have
    done = run_here([BINARY, "train", "--check_settings", *[word for word in words if word != "train"]])
    assert done.returncode == 0, done.stderr


@functools.cache
def help_of(tool):
    return run_here([sys.executable, "-m", tool, "--help"]).stdout


def check_flags_of(tool, words):
    known = help_of(tool).replace("_", "-")
    for word in words:
        if word.startswith("--"):
            assert re.search(re.escape(word.split("=")[0].replace("_", "-")) + r"\b", known), f"{tool} has no {word}"


ARCHIVE = "snake_ddp.tar.xz"


def check_line(words):
    """What can be checked of a command that test_pages.py cannot run; fails on a kind of command that it does not know."""
    while re.fullmatch(r"[A-Z_]+=.*", words[0]):
        words = words[1:]
    name = pathlib.PurePath(words[0]).name
    if name in ("test.sh", "train_ddp.sh"):
        assert os.access(SOURCE / name, os.X_OK)
        if name == "train_ddp.sh":
            check_training_flags(words[1:])
    elif name == "snake_ddp" and words[1:2] == ["play"]:
        done = run_here([BINARY, *words[1:]])  # as far as one comes without a terminal
        assert done.returncode == 2 and "needs a terminal" in done.stderr, done.stderr
    elif words in (["pip", "install", "."], ["python3", "-m", "venv", "~/snakes"], [".", "~/snakes/bin/activate"]):  # as tests/python does
        pass
    elif name == "pretrain.sh":
        assert os.access(SOURCE / words[0], os.X_OK)
    elif name == "bundle.sh":  # tests/launch/test_bundle.py runs it, and what it packs
        assert os.access(SOURCE / words[0], os.X_OK) and words[1:] == [ARCHIVE]
    elif words in (["scp", ARCHIVE, "cluster:"], ["tar", "-xf", ARCHIVE]):
        pass
    elif name in ("snake_ddp", "srun", "torchrun"):
        at = next((i for i, word in enumerate(words) if pathlib.PurePath(word).name in ("snake_ddp", "start.sh")), None)
        assert at is not None, f"{shlex.join(words)} starts another program"
        check_training_flags(words[at + 1:])
        if name == "torchrun":
            check_flags_of("torch.distributed.run", words[1:at])
    elif name == "tensorboard":
        check_flags_of("tensorboard.main", words[1:])
    elif name == "sbatch":
        at = next(i for i, word in enumerate(words) if word.endswith(".sbatch"))
        assert (SOURCE / words[at]).is_file(), f"{words[at]} is missing"
        check_training_flags(words[at + 1:])
    elif words[:3] == ["kubectl", "apply", "-f"]:
        assert (SOURCE / words[-1]).is_file(), f"{words[-1]} is missing"
    else:
        raise AssertionError(f"no way to check {shlex.join(words)!r}: teach check_line about it")


NOT_RUN = [statement for statement, page in STATEMENTS.items() if page.name in ("README.md", "README_DDP.md") and why_not(statement)]


def test_the_readme_has_commands():
    assert {"./train_ddp.sh", "./test.sh"} <= {statement.split()[0] for statement in STATEMENTS}


@pytest.mark.parametrize("statement", NOT_RUN)
def test_what_the_readme_says_and_no_test_runs(statement):
    check_line(shlex.split(statement))


def documents_commands():
    """(document, words) of each command of ours that a document prints."""
    for path in sorted([*SOURCE.glob("README*.md"), *SOURCE.glob("docs/**/*.md"), *SOURCE.glob("launch/*.md")]):
        for block in re.findall(r"^\s*```(?:sh|bash|shell|text)\n(.*?)^\s*```", path.read_text(encoding="utf-8"), re.M | re.S):
            for line in block.replace("\\\n", " ").splitlines():
                if "snake_ddp " in line and re.match(r"\s*(\$ )?(\S*=\S* )*\S*snake_ddp (train|eval|pretrain|export|replay|play|report) ", line):
                    yield path.relative_to(SOURCE), shlex.split(line, comments=True)


def flag_of(words, flag):
    return words[words.index(flag) + 1] if flag in words else None


def test_what_the_documents_commands_write_is_ignored_by_git(tmp_path):
    shutil.copy(SOURCE / ".gitignore", tmp_path)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    written = {}
    for document, words in documents_commands():
        for flag in ("--record", "--record_boards", "--html", "--output", "--save_dir", "--runs_dir"):
            if (path := flag_of(words, flag)) and not path.startswith(("/", "$")):
                written[path] = document
    for path in [*SOURCE.glob("README*.md"), *SOURCE.glob("docs/**/*.md")]:  # commands of other programs
        for found in re.findall(r"bundle\.sh (\S+\.xz)|--save (\w+\.pth)|git clone https://\S*/(\w+)$|--gpu_check (\w+)", path.read_text(encoding="utf-8"), re.M):
            written["".join(found)] = path.relative_to(SOURCE)
    assert {"game.html", "games/scripts", "boards/territory.boards", "actor.pth", "snake_ddp.tar.xz", "Competition_3v3snakes"} <= set(written)
    tracked = [path for path in written if subprocess.run(["git", "-C", tmp_path, "check-ignore", "-q", f"{path}/"]).returncode
               and subprocess.run(["git", "-C", tmp_path, "check-ignore", "-q", path]).returncode]
    assert not tracked, {path: str(written[path]) for path in tracked}


def test_each_folder_of_the_documents_commands_has_one_purpose():
    games = {}
    for document, words in documents_commands():
        teams = (flag_of(words, "--team_a"), flag_of(words, "--team_b"))
        if folder := flag_of(words, "--record"):
            assert games.setdefault(folder, teams) == teams, f"{document}: {folder}"
        if boards := flag_of(words, "--record_boards"):
            assert games.setdefault(str(pathlib.PurePath(boards).parent), "boards") == "boards", f"{document}: {boards}"
        if data := flag_of(words, "--data_path"):
            assert games.get(data, "boards") == "boards", f"{document}: {data}"


@pytest.mark.parametrize("line", ["./snake_ddp --max_episode 5", "./train_ddp.sh --gama 1",
                                  "torchrun --nproc_per_nod=2 ./snake_ddp", "sbatch nowhere.sbatch", "sbatch launch/srun.sbatch --gama 1",
                                  "kubectl apply -f nowhere.yaml", "rm -r build", "launch/bundle.sh other.tar.xz",
                                  "torchrun --nproc_per_node=2 snake_ddp/starter.sh"])
def test_a_readme_that_misleads_is_noticed(line):
    with pytest.raises(AssertionError):
        check_line(shlex.split(line))


PRESETS = sorted((SOURCE / "configs").glob("*.json"))


@pytest.mark.parametrize("path", PRESETS, ids=lambda path: path.name)
def test_presets_are_valid(path):
    check_training_flags(["--config", str(path)])


def test_there_are_presets():
    assert {"smoke.json", "ddpg.json"} <= {path.name for path in PRESETS}
