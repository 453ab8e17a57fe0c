"""launch/gpu_check.sh: its own logic, with a fake nvidia-smi and stubs in place of a build's programs."""

import json
import os
import re
import subprocess
import sys

import pytest

from processes import BUILD, SOURCE, clean_environment


def program(path, *lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["#!/bin/bash", *lines]) + "\n")
    path.chmod(0o755)


def check(folder, *tools, build, **variables):
    path = os.pathsep.join([*map(str, tools), "/usr/local/bin", "/usr/bin", "/bin"])
    done = subprocess.run([SOURCE / "launch" / "gpu_check.sh", folder], capture_output=True, text=True, timeout=300,
                          env=clean_environment(PATH=path, CUDA_VISIBLE_DEVICES="-1", SNAKE_DDP_BIN=build, **{"SNAKE_DDP_STEP_S": 2} | variables))
    report = json.loads((folder / "report.json").read_text())
    assert (folder / "report.md").read_text() == done.stdout
    assert len(report["steps"]) == len({step["step"] for step in report["steps"]})
    assert all(f"\n| {row['name']} | {row['value']:.4g} | {row['unit']} |" in done.stdout for row in report["benches"])
    assert done.stdout.count("\n| ") == 2 + len(report["steps"]) + (2 + len(report["benches"]) if report["benches"] else 0)
    return done.returncode, report["device"], {step["step"]: (step["result"], step["says"]) for step in report["steps"]}


def test_without_a_device_every_step_says_so(tmp_path):
    program(tmp_path / "bin" / "nvidia-smi", "exit 9")
    code, device, steps = check(tmp_path / "report", tmp_path / "bin", build=BUILD)
    assert code == 0 and device == "none"
    result, says = steps.pop("device against host")
    assert result == "passed" and says.startswith("no device")
    assert len(steps) >= 13 and set(steps.values()) == {("not run: no device", "")}


def device_tools(folder):
    """A GPU is listed, and its tools do what they watch, or find fault with it."""
    program(folder / "nvidia-smi", "echo 'A fast one, 580.1, 9.0'")
    program(folder / "compute-sanitizer", '[ "$PYTORCH_NO_CUDA_MEMORY_CACHING" = 1 ] || exit 7', '[ "$2" = memcheck ] && "${@:5}" || exit "$4"')
    program(folder / "ncu", 'while [ "$1" != -k ]; do shift; done', '[ "$2" = regex:PlayBoard ] && [ "$3$4$PYTORCH_NO_CUDA_MEMORY_CACHING" = --launch-skip20 ] && "${@:7}"')
    return folder


def test_with_a_device_each_step_is_run_and_judged(tmp_path):
    tools = device_tools(tmp_path / "bin")
    build = tmp_path / "build"
    program(build / "tests/rollout/test_rollout", '[ "${*: -2}" = "-w NoTests" ] || exit 8',
            '[ "$1" != "[.device]" ] || { echo 3 assertions failed; exit 3; }', "echo no errors")
    program(build / "tests/rollout/device_check", "echo window, DIFFERENT: boards; echo 1 of 5 parts differ; exit 1")
    program(build / "tests/learners/test_learners", "sleep 600")
    # Recorded over NCCL, DDPG's weights differ; so do QMIX's recorded ones. The view's preset falls short
    # of its bar, the other one reaches it.
    program(build / "dev/bench/bench", 'echo \'{"benches":[{"name":"\'"$*"\'","value":12345.6,"unit":"us","limit":2,"ratio":0.5}]}\'')
    program(build / "src/app/snake_ddp",
            'case "$*" in *ddpg.json*) won=81.0 ;; *) won=79.9 ;; esac',
            'echo "[Evaluation at episode 9] against level2: won 1.0 % [0.5, 99.0] of 1000 games"',
            'echo "[Evaluation at episode 19] against level2: won $won % [0.5, 99.0] of 1000 games"',
            'case "$*" in *"graph on --dist_backend nccl"*|*qmix*"graph on"*) w=2 ;; *) w=1 ;; esac',
            'echo "$1: Fingerprint"; echo "Fingerprint: weights $w"')
    code, device, steps = check(tmp_path / "report", tools, build=build)
    assert code == 1 and device == "A fast one, 580.1, 9.0"
    expected = {"device against host": ("failed: exit code 1", "1 of 5 parts differ"),
                "kernels against the host": ("failed: exit code 3", "3 assertions failed"),
                "learners against the host": ("failed: longer than 2 s", ""),
                "same weights: ddpg": ("passed", "cuda_graph on: Fingerprint: weights 1"),
                "same weights: dqn": ("passed", "cuda_graph on: Fingerprint: weights 1"),
                "same weights: qmix": ("failed: exit code 1", "cuda_graph on: Fingerprint: weights 2"),
                "one rank's run over NCCL": ("failed: exit code 1", "over NCCL, cuda_graph on: Fingerprint: weights 2"),
                "bench: game": ("passed", "1 measurements"),
                "bench: game, a million boards": ("passed", "1 measurements"),
                "bench: update, dqn with layer norm, tf32": ("passed", "1 measurements"),
                "80 % against level 2": ("passed", "won 81 % after 0 s; the bar is 80 % in 60 s"),
                "80 % against territory": ("failed: exit code 1", "won 79 % after 0 s; the bar is 80 % in 120 s"),
                "sanitizer: memcheck": ("passed", "no errors"),
                "sanitizer: initcheck": ("failed: exit code 9", ""),
                "profile: PlayBoard": ("passed", "1 measurements"),
                "profile: SeeView": ("failed: exit code 1", "")}
    assert {name: (steps[name][0], re.sub(r"after \d+ s", "after 0 s", steps[name][1])) for name in expected} == expected
    assert steps["recordings, NCCL with one rank"][0].startswith("not run: no ") and steps["2 ranks: reduce"][0] == "not run: no NCCL 2.30"


RANKS = [f"{ranks} ranks: {step}" for ranks in (2, 4)
         for step in ("reduce", *(f"{step} {learner}" for step in ("weights", "union") for learner in ("ddpg", "dqn", "qmix", "pqn_vdn")),
                      "sums", "killed", "suspended", "asked", "sizes", "late", "absent", "version", "script")]


def library(folder, version):
    """An NCCL that has nothing but its version."""
    source = folder / "nccl.c"
    source.write_text(f"int ncclGetVersion(int *version) {{ *version = {version}; return 0; }}")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", folder / "libnccl.so.2", source], check=True)
    return folder / "libnccl.so.2"


@pytest.mark.parametrize("nccl", [None, 22999, "a text"])
def test_without_a_new_nccl_no_ranks_share_the_gpu(tmp_path, nccl):
    variables = {}
    if nccl is not None:
        (tmp_path / "libnccl.so.2").write_text(str(nccl))
        variables["SNAKE_DDP_NCCL"] = library(tmp_path, nccl) if isinstance(nccl, int) else tmp_path / "libnccl.so.2"
    code, _, steps = check(tmp_path / "report", device_tools(tmp_path / "bin"), build=tmp_path / "build", SNAKE_DDP_STEPS=" ranks: ", **variables)
    assert code == 0 and set(steps) == set(RANKS) and set(steps.values()) == {("not run: no NCCL 2.30", "")}


def test_ranks_share_the_gpu_where_nccl_can(tmp_path):
    # All-reduces hang without a setting that later steps then have; QMIX's weights differ on four ranks, and a killed rank is not noticed.
    python = tmp_path / "bin" / "python"
    tools = device_tools(tmp_path / "bin")
    program(python, f'[ "$1" != -c ] || exec {sys.executable} "$@"',
            '[ "$1" = tests/train/gpu_ranks.py ] && [ -e "$1" ] && [ -d "$SD_SOURCE_DIR/tests" ] && [ "${SD_BUILD_DIR:0:1}" = / ] || exit 9',
            '[ "${SNAKE_DDP_NCCL##*/}" = libnccl.so.2 ] || exit 8',
            'case "${*:2}" in "2 reduce") echo "works with: NCCL_MAX_CTAS=1 A_SECOND=2" ;; "4 weights qmix") echo "FAILED: other weights"; exit 1 ;;',
            '"2 killed") sleep 600 ;; *) echo "${*:2} with $NCCL_MAX_CTAS$A_SECOND" ;; esac')
    code, _, steps = check(tmp_path / "report", tools, build=tmp_path / "build", SNAKE_DDP_STEPS="^[24] ranks|^bench: game$",
                           SNAKE_DDP_NCCL=library(tmp_path, 23000), SNAKE_DDP_PYTHON=python)
    assert steps.pop("bench: game")[0].startswith("not run: no ")
    assert code == 1 and list(steps) == [name for name in RANKS if not name.endswith("script")] + [name for name in RANKS if name.endswith("script")]
    expected = {name: ("passed", f"{name.replace(' ranks:', '')} with 12") for name in RANKS} | {
        "2 ranks: reduce": ("passed", "works with: NCCL_MAX_CTAS=1 A_SECOND=2"),
        "4 ranks: weights qmix": ("failed: exit code 1", "FAILED: other weights"),
        "2 ranks: killed": ("failed: longer than 2 s", "")}
    assert steps == expected


def test_all_steps_together_have_a_limit(tmp_path):
    build = tmp_path / "build"
    program(build / "tests/rollout/device_check", "echo all equal")
    program(build / "tests/rollout/test_rollout", "sleep 600")
    code, _, steps = check(tmp_path / "report", device_tools(tmp_path / "bin"), build=build, SNAKE_DDP_TOTAL_S=5, SNAKE_DDP_STEP_S=600)
    results = [result for result, _ in steps.values()]
    assert code == 1 and results[0] == "passed" and results[1].startswith("failed: longer than ")
    assert {result for result in results[2:] if not result.startswith("not run: no ")} == {"not run: the 5 s for all steps are used up"}
