"""PPO of TorchRL: teams of three snakes share one network.

python examples/torchrl_ppo.py --updates 40
"""

import argparse

import torch
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.collectors import Collector
from torchrl.envs import GymWrapper
from torchrl.modules import ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

from snake_ddp.envs import SnakeVectorEnv
from snake_ddp.networks import Actor, save


def train(updates, snakes=192, horizon=50, seed=1, report=print):
    torch.manual_seed(seed)
    # TorchRL supports SAME_STEP and DISABLED.
    envs = GymWrapper(SnakeVectorEnv(snakes, obs="view", own_share=0.7, autoreset_mode="SameStep"), categorical_action_encoding=True)
    features = envs.observation_spec["observation"].shape[-1]
    network = Actor(features, hidden=128)

    class Logits(nn.Module):
        def __init__(self):
            super().__init__()
            self.network = network

        def forward(self, x):
            return self.network.logits(x)

    actor = ProbabilisticActor(
        TensorDictModule(Logits(), in_keys=["observation"], out_keys=["logits"]),
        in_keys=["logits"],
        spec=envs.action_spec,
        distribution_class=torch.distributions.Categorical,
        return_log_prob=True,
    )
    critic = ValueOperator(nn.Sequential(nn.Linear(features, 128), nn.ReLU(), nn.Linear(128, 1)), in_keys=["observation"])
    advantage = GAE(gamma=0.98, lmbda=0.9, value_network=critic, average_gae=True)
    loss_of = ClipPPOLoss(actor, critic, entropy_coeff=0.01)
    optimizer = torch.optim.Adam(loss_of.parameters(), lr=1e-3)
    frames = snakes * horizon
    collector = Collector(
        envs, actor, frames_per_batch=frames, total_frames=frames * updates, auto_register_policy_transforms=False
    )
    rewards = []
    for update, batch in enumerate(collector, start=1):
        with torch.no_grad():
            advantage(batch)
        rows = batch.reshape(-1)
        for _ in range(4):
            for chosen in torch.randperm(len(rows)).chunk(6):
                losses = loss_of(rows[chosen])
                loss = losses["loss_objective"] + losses["loss_critic"] + losses["loss_entropy"]
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(loss_of.parameters(), 0.5)
                optimizer.step()
        rewards.append(float(batch["next", "reward"].sum()) / snakes)
        report(f"update {update}: {sum(rewards[-4:]):.2f} points per snake in the last {min(update, 4) * horizon} steps")
    collector.shutdown()
    return network, rewards


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--updates", type=int, default=40)
    parser.add_argument("--save", metavar="FILE", help="write the actor's weights")
    line = parser.parse_args()
    network, _ = train(line.updates)
    if line.save:
        save(network, line.save)


if __name__ == "__main__":
    main()
