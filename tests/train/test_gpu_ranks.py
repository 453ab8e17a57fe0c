"""The steps of launch/gpu_check.sh with several ranks: their logic, on a CPU with Gloo, and that they notice what is wrong."""

import os
import re
import subprocess
import sys

import pytest

import gpu_ranks
from processes import SOURCE, clean_environment


def step(*words, limit_s=300):
    done = subprocess.run([sys.executable, SOURCE / "tests" / "train" / "gpu_ranks.py", *words], capture_output=True, text=True, timeout=limit_s,
                          env=clean_environment(SNAKE_DDP_RANKS_ON="cpu", PYTHONPATH=os.pathsep.join(sys.path)))
    return done.returncode, (done.stdout + done.stderr).strip().splitlines()[-1]


@pytest.mark.parametrize("words, says", [
    ("2 reduce", "works with:"),
    ("2 weights dqn", r"4 runs, weights \w{16}"),
    ("2 union ddpg", r"weights differ by \S+ at most"), ("2 union pqn_vdn", r"weights differ by \S+ at most"),
    ("2 sums", r"\d+ updates with the same bits"),
    ("2 killed", r"the others ended after \S+ s; resumed: Fingerprint: .*"),
    ("2 asked", r"step_\d+; resumed: Fingerprint: .*"),
    ("2 sizes", r"2, 1 and 2 ranks in run1_\S+"),
    ("2 late", "trained once it was there"),
    ("2 absent", "1 of 2 ranks did not join within 5 s: rank 1"),
    # What is wrong: ranks whose NCCL differs are an affair of GPUs, and the learner has no such batch.
    ("2 version", r"FAILED: 2 ranks, version: exit codes \[0, 0\], not \[2, 2\]:"),
    ("2 union nobody", "FAILED: 2 ranks, union: .*"),
])  # fmt: skip
def test_a_step_says_what_it_found(words, says):
    code, last = step(*words.split())
    assert re.fullmatch(says, last) and code == last.startswith("FAILED"), last


def test_a_course_is_the_numbers_of_its_episodes():
    assert gpu_ranks.course("x 1\n[Episode 2] loss 1.5e-3, won -4 %\n[Evaluation at 3] 7\n[Episode 12] 0.25\n") == [2, 1.5e-3, -4, 12, 0.25]
    with pytest.raises(gpu_ranks.Wrong, match="no lines"):
        gpu_ranks.course("nothing")
