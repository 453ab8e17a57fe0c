"""What only a GPU can prove. The same tests run on the CPU, with the same pieces of work, wherever there is none."""

import subprocess

import pytest

from processes import BUILD, TINY, call, fingerprint, flags, only_json

ABOUT = only_json(call("info", "--json").stdout)
pytestmark = pytest.mark.skipif(ABOUT["gpus"] == 0 or not ABOUT["kernels"],
                                reason=f"no GPU to run on: {ABOUT['gpus']} visible, kernels for {ABOUT['kernels'] or 'none'}")


@pytest.mark.parametrize("program", ["rollout/test_rollout", "learners/test_learners"])
def test_kernels_compute_what_the_host_computes(program):
    done = subprocess.run([BUILD / "tests" / program, "[.device]", "-w", "NoTests"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def test_recorded_updates_are_the_plain_ones(tmp_path):
    settings = TINY | {"device": "cuda", "boards": "device", "runs_dir": tmp_path, "max_episodes": 20, "actor_interval": 2}
    told = []
    for graph in ("off", "on"):
        done = call(*flags(settings | {"cuda_graph": graph}))
        assert done.returncode == 0, done.stderr
        told.append(fingerprint(done.stdout)["weights"])
    assert told[0] == told[1]
