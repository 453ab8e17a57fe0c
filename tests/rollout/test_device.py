"""What only a GPU can prove. The same tests run on the CPU, with the same functors, wherever there is none."""

import subprocess

import pytest

from processes import BUILD, TINY, call, fingerprint, flags, only_json

ABOUT = only_json(call("info", "--json").stdout)
pytestmark = pytest.mark.skipif(ABOUT["gpus"] == 0 or not ABOUT["kernels"],
                                reason=f"no GPU to run on: {ABOUT['gpus']} visible, kernels for {ABOUT['kernels'] or 'none'}")


@pytest.mark.parametrize("program", ["rollout/test_rollout", "learners/test_learners", "train/test_train"])
def test_kernels_compute_what_the_host_computes(program):
    done = subprocess.run([BUILD / "tests" / program, "[.device]", "-w", "NoTests"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def weights(**settings):
    done = call(*flags(TINY | {"device": "cuda", "max_episodes": 20} | settings))
    assert done.returncode == 0, done.stderr
    return fingerprint(done.stdout)["weights"]


@pytest.mark.parametrize("algo", [{"algo": "ddpg"}, {"algo": "dqn"}, {"algo": "qmix", "lr_end": 0.1}])
def test_recorded_updates_are_the_plain_ones(tmp_path, algo):
    reported = [weights(boards="device", runs_dir=tmp_path, cuda_graph=graph, **algo) for graph in ("off", "on")]
    assert reported[0] == reported[1]

