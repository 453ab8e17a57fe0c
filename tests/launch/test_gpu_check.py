"""launch/gpu_check.sh: its own logic, with a fake nvidia-smi and stubs in place of a build's programs."""

import json
import os
import subprocess

from processes import BUILD, SOURCE, clean_environment


def program(path, *lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["#!/bin/bash", *lines]) + "\n")
    path.chmod(0o755)


def check(folder, *tools, build):
    path = os.pathsep.join([*map(str, tools), "/usr/local/bin", "/usr/bin", "/bin"])
    done = subprocess.run([SOURCE / "launch" / "gpu_check.sh", folder], capture_output=True, text=True, timeout=300,
                          env=clean_environment(PATH=path, CUDA_VISIBLE_DEVICES="-1", SNAKE_DDP_BIN=build, SNAKE_DDP_STEP_S=2))
    report = json.loads((folder / "report.json").read_text())
    assert (folder / "report.md").read_text() == done.stdout
    assert len(report["steps"]) == len({step["step"] for step in report["steps"]}) == done.stdout.count("\n| ") - 1
    return done.returncode, report["device"], {step["step"]: (step["result"], step["says"]) for step in report["steps"]}


def test_without_a_device_every_step_says_so(tmp_path):
    program(tmp_path / "bin" / "nvidia-smi", "exit 9")
    code, device, steps = check(tmp_path / "report", tmp_path / "bin", build=BUILD)
    assert code == 0 and device == "none"
    result, says = steps.pop("device against host")
    assert result == "passed" and says.startswith("no device")
    assert len(steps) >= 13 and set(steps.values()) == {("not run: no device", "")}


def test_with_a_device_each_step_is_run_and_judged(tmp_path):
    program(tmp_path / "bin" / "nvidia-smi", "echo 'A fast one, 580.1, 9.0'")
    program(tmp_path / "bin" / "compute-sanitizer", '[ "$2" = memcheck ] && "${@:5}" || exit "$4"')
    build = tmp_path / "build"
    program(build / "tests/rollout/test_rollout", '[ "${*: -2}" = "-w NoTests" ] || exit 8',
            '[ "$1" != "[.device]" ] || { echo 3 assertions failed; exit 3; }', "echo no errors")
    program(build / "tests/rollout/device_check", "echo window, DIFFERENT: boards; echo 1 of 5 parts differ; exit 1")
    program(build / "tests/learners/test_learners", "sleep 600")
    # A recording of QMIX on two streams has other weights.
    program(build / "src/app/snake_ddp", 'case "$*" in *qmix*"graph on --overlap on"*) w=2 ;; *) w=1 ;; esac',
            'echo "$1: Fingerprint"; echo "Fingerprint: weights $w"')
    code, device, steps = check(tmp_path / "report", tmp_path / "bin", build=build)
    assert code == 1 and device == "A fast one, 580.1, 9.0"
    expected = {"device against host": ("failed: exit code 1", "1 of 5 parts differ"),
                "kernels against the host": ("failed: exit code 3", "3 assertions failed"),
                "Adam on the device": ("failed: longer than 2 s", ""),
                "same weights: dqn": ("passed", "overlap on, cuda_graph on: Fingerprint: weights 1"),
                "same weights: qmix": ("failed: exit code 1", "overlap on, cuda_graph on: Fingerprint: weights 2"),
                "bench: game": ("passed", "Fingerprint: weights 1"),
                "sanitizer: memcheck": ("passed", "no errors"),
                "sanitizer: initcheck": ("failed: exit code 9", "")}
    assert {name: steps[name] for name in expected} == expected
    assert steps["NCCL with one rank"][0].startswith("not run: no ") and steps["profile of kernels"] == ("not run: no ncu", "")
