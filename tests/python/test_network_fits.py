"""bench/network_fits.py: do larger networks begin as the one that they enlarge, and do they see the board?"""

import sys

import numpy as np
import pytest
import torch

from processes import SOURCE
from snake_ddp import Boards, networks

CHAMPION = SOURCE / "models" / "champion.pth"
sys.path.insert(0, str(SOURCE / "bench"))
import network_fits as fits  # noqa: E402
import network_shapes  # noqa: E402


@pytest.fixture(scope="module")
def arrays():
    return [torch.from_numpy(array) for array in fits.play((f"{CHAMPION}:look1", 0.99, 3))]


@pytest.mark.parametrize("shape", fits.SHAPES)
def test_each_shape_begins_as_the_network_that_it_enlarges_and_all_of_it_learns(arrays, shape):
    torch.manual_seed(1)
    start, larger = networks.load(CHAMPION), fits.SHAPES[shape](networks.load(CHAMPION))
    some = [array[:64] for array in arrays]
    observations, extras = some[0].float(), some[3:-1]
    assert torch.allclose(larger(observations, *extras), start(observations), atol=1e-5)
    for value in larger.parameters():
        if not value.any():
            torch.nn.init.normal_(value, std=0.1)
    value, guess = fits.expert_iteration.read(larger, 1.5, some)
    (value.sum() + guess.square().sum()).backward()
    # A softmax does not depend on a key's bias.
    assert all(value.grad.abs().max() > 1e-4 for name, value in larger.named_parameters() if name != "key.bias")


def test_the_planes_show_each_snake_from_its_tail_to_its_head_and_the_beans():
    boards = Boards(16, obs="none", opponent="none")
    boards.reset(1)
    for _ in range(60):
        boards.step(np.random.default_rng(1).integers(0, 4, (16, 6)))
    states = boards.states
    planes = network_shapes.planes_of(states).reshape(16, 2, network_shapes.PLANES, -1)
    lengths = states["lengths"].reshape(16, 2, 3)
    for team in (0, 1):
        for first, side in ((0, team), (3, 1 - team)):
            heads, left, length = (planes[:, team, first + k] for k in range(3))
            assert np.array_equal((left > 0).sum(1), lengths[:, side].sum(1)) and np.array_equal(left > 0, length > 0)
            assert np.array_equal(heads.sum(1), np.full(16, 3))
            assert np.array_equal(left[heads > 0], length[heads > 0]), "a head's cell is occupied for as many steps as the snake is long"
            codes = (states["cells"] & 7).astype(int) - 2
            assert np.array_equal(left > 0, (codes // 3 == side) & (codes >= 0))
            assert np.isclose(left.sum(1) * 10, (lengths[:, side].astype(int) * (lengths[:, side].astype(int) + 1) / 2).sum(1), rtol=1e-2).all()
        assert np.array_equal(planes[:, team, 6], (states["cells"] & 7) == 1)
