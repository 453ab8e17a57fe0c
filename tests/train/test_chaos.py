"""A few of the runs of tests/chaos.sh."""

import random

from chaos import many_runs


def test_runs_survive_one_fault_each(tmp_path):
    reported = []
    verdicts = many_runs(6, random.randrange(10**6), tmp_path, reported.append, at_once=2)  # they mostly wait for timeouts
    assert len(verdicts) == 6 and not any(v.trouble for v in verdicts), "\n".join(reported)
