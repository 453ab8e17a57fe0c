#include "setup.hpp"

#include <algorithm>
#include <utility>

#include "snake_ddp/agents/curriculum.hpp"
#include "snake_ddp/base/error.hpp"
#include "snake_ddp/encode/snake_graph.hpp"
#include "snake_ddp/files/state_dict.hpp"
#include "snake_ddp/running/ranks.hpp"
#include "snake_ddp/train/run.hpp"

namespace snake_ddp::train {

namespace {

bool has_self_play(const agents::Mix& mix) {
  return std::any_of(mix.begin(), mix.end(),
                     [](const auto& share) { return !share.league && share.rival.is_self(); });
}

}  // namespace

std::int64_t vote_interval(const TrainOptions& o) {
  const double updates_a_step =
      learns_from_rollouts(o)
          ? static_cast<double>(o.rollout_epochs * rollout_batches(o)) / static_cast<double>(o.rollout_steps)
          : o.updates_per_step * static_cast<double>(o.num_envs);
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(20.0 / std::max(updates_a_step, 1.0)), 1, 20);
}

bool learns_from_rollouts(const TrainOptions& o) {
  return learners::find_learner(o.algo).feed == learners::Feed::kRollout;
}

bool learns_from_windows(const TrainOptions& o) {
  return learners::find_learner(o.algo).feed == learners::Feed::kWindows;
}

std::int64_t rollout_batches(const TrainOptions& o) { return o.rollout_steps * o.num_envs / o.batch_size; }

std::int64_t replay_capacity(const TrainOptions& o) {
  if (!learns_from_rollouts(o)) return o.buffer_size;
  const agents::Mix mix = agents::parse_mix(o.opponent_mix);
  return o.rollout_steps * o.num_envs * (has_self_play(mix) ? 2 : 1);
}

double rate_factor(const TrainOptions& o, std::int64_t steps) {
  const double played = static_cast<double>(steps * o.num_envs) / static_cast<double>(o.episode_length);
  const double progress = std::min(1.0, played / static_cast<double>(o.max_episodes));
  return 1.0 - (1.0 - o.lr_end) * progress;
}

play::Sight sight_of(const TrainOptions& o) {
  const auto kind = encode::try_obs_kind(o.obs).value();  // one of the choices of its field
  return {kind, o.scale_features ? encode::feature_scaling(kind) : encode::no_scaling(),
          static_cast<int>(o.view_radius), !o.tokens.empty()};
}

learners::LearnerOptions learner_options(const TrainOptions& o, int world_size, at::Device device) {
  learners::LearnerOptions l;
  l.algo = o.algo;
  l.features = encode::obs_size(sight_of(o).kind);  // --tokens adds its own
  l.hidden_size = o.hidden_size;
  l.output_activation = o.output_activation;
  l.tau = o.tau;
  l.a_lr = running::scaled_rate(o.a_lr, o.lr_scaling, world_size);
  l.c_lr = running::scaled_rate(o.c_lr, o.lr_scaling, world_size);
  l.layer_norm = o.layer_norm;
  l.max_grad_norm = o.max_grad_norm;
  l.expected_value = o.expected_value;
  l.actor_interval = o.actor_interval;
  l.clipped_double_critics = o.clipped_double_critics;
  l.coalesced_update = o.coalesced_update;
  l.td_lambda = o.td_lambda;
  l.sequence_length = o.sequence_length;
  l.burn_in = o.burn_in;
  l.seed = static_cast<std::uint64_t>(o.seed);
  l.device = device;
  return l;
}

LeagueOptions league_options(const TrainOptions& o) {
  LeagueOptions l;
  const agents::Mix mix = agents::parse_mix(o.opponent_mix);
  if (std::none_of(mix.begin(), mix.end(), [](const auto& share) { return share.league; })) return l;
  for (const agents::Share& share : mix)
    if (share.rival.scripted) l.scripted.push_back(*share.rival.scripted);
  if (l.scripted.empty()) l.scripted.push_back(agents::Opponent::kLevel2);  // somebody to begin with
  l.games = o.league_games;
  l.entry = o.league_win_rate;
  l.seed = static_cast<std::uint64_t>(o.seed);
  l.sight = sight_of(o);
  l.head = nets::head_from_name(o.output_activation);
  l.mask_fatal = o.mask_fatal;
  return l;
}

rollout::CollectorOptions collector_options(const TrainOptions& o, int rank, const League& league,
                                            std::int64_t memory) {
  const agents::Curriculum curriculum = agents::parse_curriculum(o.opponent_difficulty_strategy);
  const agents::Mix mix = agents::parse_mix(o.opponent_mix);
  rollout::CollectorOptions c;
  c.num_envs = o.num_envs;
  c.episode_length = o.episode_length;
  c.sight = sight_of(o);
  c.reward = encode::try_reward_rule(o.reward).value();  // one of the choices of its field
  c.reward_scale = o.reward_scale;
  c.epsilon = o.epsilon;
  c.epsilon_speed = o.epsilon_speed;
  c.epsilon_min = o.epsilon_min;
  c.mask_fatal = o.mask_fatal;
  c.own_reward = o.own_reward;
  c.rival_reward = o.rival_reward;
  c.random_low = o.output_activation == "tanh" ? -1.0 : 0.0;
  c.store_played = o.stored_action == "played";
  c.n_step = o.n_step;
  c.gamma = o.gamma;
  c.seed = static_cast<std::uint64_t>(o.seed) + static_cast<std::uint64_t>(rank);
  c.self_play = has_self_play(mix);
  c.memory = memory;
  c.frozen = [&league](int place) { return league.frozen(place); };
  c.opponent = [o, curriculum, mix, seed = c.seed, &league](std::int64_t episode) {
    if (!mix.empty()) {
      const auto game = static_cast<std::uint64_t>(episode);
      const agents::Share& share = agents::drawn(mix, seed, game);
      return share.league ? league.drawn(seed, game) : share.rival;
    }
    return agents::Rival{agents::opponent_at(curriculum, std::min(episode, o.max_episodes), o.max_episodes,
                                             o.enable_opponent_evasion, o.opponent_evasion_start_episode)};
  };
  return c;
}

}  // namespace snake_ddp::train
