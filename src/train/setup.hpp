// What the rooms below are told, made of the settings.
#pragma once

#include <cstdint>

#include "snake_ddp/rollout/collector.hpp"
#include "snake_ddp/train/league.hpp"
#include "snake_ddp/train/options.hpp"

namespace snake_ddp::train {

/// All ranks talk about the run's course once in so many steps of their boards: about 20 updates, which is soon
/// enough for a stop and seldom enough to cost nothing. It follows from the settings alone, so that each rank enters
/// the same collectives in the same order.
std::int64_t vote_interval(const TrainOptions& options);

/// Does its learner learn from whole rollouts, rather than from replay?
bool learns_from_rollouts(const TrainOptions& options);

/// Does it learn from windows of consecutive transitions?
bool learns_from_windows(const TrainOptions& options);

/// Batches that a rollout of so many steps is cut into, equal on all ranks; with self-play they are larger.
std::int64_t rollout_batches(const TrainOptions& options);

/// Transitions that replay must hold: of --buffer_size, or of one rollout.
std::int64_t replay_capacity(const TrainOptions& options);

/// Factor on the learning rates after `steps` steps of each board: 1 at the start, --lr_end once as many steps are played
/// as max_episodes of full length have. Counted in steps, which are equal on all ranks.
double rate_factor(const TrainOptions& options, std::int64_t steps);

play::Sight sight_of(const TrainOptions& options);

/// `memory`: floats that the policy remembers of a snake.
rollout::CollectorOptions collector_options(const TrainOptions& options, int rank, const League& league,
                                            std::int64_t memory);
LeagueOptions league_options(const TrainOptions& options);

}  // namespace snake_ddp::train
