"""PPO of Stable-Baselines3, and its weights as a file that snake_ddp plays.

    python examples/sb3_ppo.py --steps 500000 --save actor.pth
    ./snake_ddp eval --team_a actor.pth --team_b level2
"""

import argparse

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecMonitor

from snake_ddp.networks import Actor, save
from snake_ddp.sb3 import SnakesVecEnv


def train(steps, snakes=192, opponent="level2", seed=1, verbose=1):
    envs = VecMonitor(SnakesVecEnv(snakes, obs="view", opponent=opponent, own_share=0.7))
    model = PPO(
        "MlpPolicy",
        envs,
        n_steps=64,
        batch_size=2048,
        n_epochs=4,
        learning_rate=1e-3,
        gamma=0.98,
        gae_lambda=0.9,
        ent_coef=0.01,
        policy_kwargs={"net_arch": {"pi": [128], "vf": [128]}, "activation_fn": torch.nn.ReLU},
        seed=seed,
        verbose=verbose,
        device="cpu",
    )
    return model.learn(steps)


def actor_of(model):
    """The policy as an actor of the program: its first layer, no change, its last layer."""
    first, last = model.policy.mlp_extractor.policy_net[0], model.policy.action_net
    actor = Actor(first.in_features, first.out_features)
    same = torch.nn.Linear(first.out_features, first.out_features)
    torch.nn.init.eye_(same.weight)
    torch.nn.init.zeros_(same.bias)
    for to, source in ((actor.prev_dense[0], first), (actor.post_dense[0], same), (actor.post_dense[2], last)):
        to.load_state_dict(source.state_dict())
    return actor


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=500_000, help="of snakes")
    parser.add_argument("--opponent", default="level2")
    parser.add_argument("--save", metavar="FILE", help="write the actor's weights")
    line = parser.parse_args()
    model = train(line.steps, opponent=line.opponent)
    if line.save:
        save(actor_of(model), line.save)
        print(f"Wrote {line.save}")


if __name__ == "__main__":
    main()
