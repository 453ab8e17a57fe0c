"""A few draws of tests/resume.sh."""

import random

import resume_draws


def test_a_run_with_random_settings_ends_with_the_same_bits_from_any_checkpoint(tmp_path):
    lines = []
    troubles = resume_draws.many_draws(4, random.randrange(10**6), tmp_path, lines.append, most=1)
    assert not troubles, "\n".join(troubles)
    assert len(lines) == 4
