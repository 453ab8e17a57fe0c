"""The flags of `snake_ddp train`, for checkers of types. tests/python/make_flags.py writes this file."""

import os
from typing import Literal, TypedDict

Text = str | os.PathLike[str]


class Flags(TypedDict, total=False):
    resume: Text
    device: Literal["auto", "cpu", "cuda"]
    load_model_path: Text
    max_minutes: float
    total_steps: int
    eval_interval: int
    eval_games: int
    eval_opponent: Literal["level0", "level1", "level2", "level3", "level4", "evasion", "territory"]
    eval_search: Text
    target_win_rate: float
    check_consistency: int
    log_every_episode: bool
    game_name: Literal["snakes_3v3"]
    algo: Literal["ddpg", "bicnet", "dqn", "qmix", "vdn", "rqmix", "pqn", "pqn_vdn"]
    max_episodes: int
    episode_length: int
    buffer_size: int
    gamma: float
    seed: int
    batch_size: int
    epsilon: float
    epsilon_speed: float
    save_interval: int
    model_episode: int
    log_dir: Text
    opponent_difficulty_strategy: Text
    enable_opponent_evasion: bool
    opponent_evasion_start_episode: int
    load_model: bool | Text
    load_model_run: int
    load_model_run_episode: int
    local_rank: int
    c_lr: float
    tau: float
    output_activation: Literal["softmax", "tanh"]
    a_lr: float
    obs: Literal["26", "30", "window", "view", "ahead"]
    reward: Literal["2021", "v1_1", "v1_2", "score"]
    reward_scale: float
    own_reward: float
    rival_reward: float
    num_envs: int
    updates_per_step: float
    local_updates: int
    outer_momentum: float
    lr_end: float
    epsilon_min: float
    mask_fatal: bool
    n_step: int
    rollout_steps: int
    rollout_epochs: int
    view_radius: int
    tokens: Text
    hidden_size: int
    max_grad_norm: float
    layer_norm: bool
    mirror_symmetric: bool
    expected_value: bool
    sequence_length: int
    burn_in: int
    td_lambda: float
    opponent_mix: Text
    league_games: int
    league_win_rate: float
    league_interval: int
    runs_dir: Text
    run_name: Text
    tags: Text
    step_axis: Literal["episode", "env"]
    checkpoint_interval: int
    keep_checkpoints: int
    checkpoint_replay: Literal["on", "off"]
    record_interval: int
    boards: Literal["auto", "host", "device"]
    cuda_graph: Literal["auto", "on", "off"]
    products: Literal["auto", "float32", "tf32", "bf16"]
    threads: int
    dist_backend: Literal["auto", "nccl", "gloo"]
    dist_timeout: float
    join_timeout: float
