#include "snake_ddp/rollout/collector.hpp"

#include <ATen/ATen.h>

#include <array>
#include <cmath>
#include <cstring>

#include "snake_ddp/base/error.hpp"
#include "snake_ddp/base/random.hpp"
#include "snake_ddp/game/chance.hpp"

namespace snake_ddp::rollout {
namespace {

constexpr std::int64_t kTeam = game::kTeamSize;
constexpr std::int64_t kActions = 4;
constexpr std::int64_t kActionFloats = kTeam * kActions;

}  // namespace

Collector::Collector(CollectorOptions options, replay::Buffer& replay)
    : options_(std::move(options)),
      replay_(replay),
      boards_(static_cast<std::size_t>(options_.num_envs)),
      games_(boards_.size(), 0),
      running_(boards_.size()),
      window_size_(boards_.size(), 0),
      window_next_(boards_.size(), 0),
      row_width_(kTeam * (options_.sight.features() + 1)),
      window_width_(row_width_ + kActionFloats + kTeam),
      epsilon_(options_.epsilon) {
  SD_CHECK(options_.num_envs > 0 && options_.n_step > 0 && options_.opponent, "collector options");
  observations_ = at::empty({options_.num_envs, kTeam, options_.sight.features() + 1}, at::kFloat);
  next_observations_ = at::empty_like(observations_);
  window_.resize(boards_.size() * static_cast<std::size_t>(options_.n_step * window_width_));
  for (std::size_t b = 0; b < boards_.size(); ++b) deal(b);
  look();
}

void Collector::look() {
  for (std::size_t b = 0; b < boards_.size(); ++b) {
    options_.sight.write(boards_[b], 0,
                         observations_.data_ptr<float>() + static_cast<std::int64_t>(b) * row_width_);
  }
}

std::uint64_t Collector::stream(std::size_t board) const {
  return static_cast<std::uint64_t>(board) << 32 | games_[board];
}

void Collector::deal(std::size_t board) {
  ++games_[board];
  game::PhiloxChance chance(options_.seed, stream(board));
  game::reset(boards_[board], chance);
  running_[board] = Episode{};
  running_[board].started = ++started_;
  running_[board].opponent = options_.opponent(started_);
  if (board == 0 && options_.watch) options_.watch(running_[0], boards_[0], nullptr, nullptr);
}

double Collector::board_epsilon(std::size_t board) const {
  if (options_.epsilon_min <= 0.0) return epsilon_;
  if (boards_.size() == 1) return options_.epsilon;
  const double place = static_cast<double>(board) / static_cast<double>(boards_.size() - 1);
  return options_.epsilon_min * std::pow(options_.epsilon / options_.epsilon_min, place);
}

// The reference's choice: with probability epsilon the whole team's action vector is replaced by random
// numbers; the moves are sampled from the vector in either case.
void Collector::choose(std::size_t board, const float* values, game::Actions& actions, float* stored) {
  const auto step = static_cast<std::uint32_t>(boards_[board].step());
  const base::RandomBlock draw = base::random_block(options_.seed, stream(board), step, base::Purpose::kAct);
  const double epsilon = board_epsilon(board);
  std::memcpy(stored, values, kActionFloats * sizeof(float));
  if (base::unit_float(draw.word[3]) < epsilon) {
    base::RandomStream random(options_.seed, stream(board), base::Purpose::kExplore, step * 4);
    const auto low = static_cast<float>(options_.random_low);
    for (std::int64_t i = 0; i < kActionFloats; ++i) stored[i] = low + (1.0F - low) * random.unit();
  }
  if (options_.epsilon_min <= 0.0) epsilon_ *= options_.epsilon_speed;
  running_[board].epsilon = epsilon;
  for (int snake = 0; snake < kTeam; ++snake) {
    float* weights = stored + snake * kActions;
    const std::uint8_t move = sampled_move(weights, base::unit_float(draw.word[snake]));
    actions.of[snake] = move;
    if (options_.store_played) {
      for (std::uint8_t a = 0; a < kActions; ++a) weights[a] = a == move ? 1.0F : 0.0F;
    }
  }
}

void Collector::step(nets::Policy& policy, std::vector<Episode>& episodes) {
  const at::Tensor& values = policy.action_values(observations_);
  const float* value = values.data_ptr<float>();
  for (std::size_t b = 0; b < boards_.size(); ++b) {
    const auto row = static_cast<std::int64_t>(b) * row_width_;
    game::State& board = boards_[b];
    game::Actions actions{};
    std::array<float, kActionFloats> stored;
    choose(b, value + static_cast<std::int64_t>(b) * kActionFloats, actions, stored.data());
    agents::act(running_[b].opponent, board, 1, actions, options_.seed, stream(b));
    game::PhiloxChance chance(options_.seed, stream(b));
    const game::StepResult result = game::step(board, actions, chance);

    const int code = encode::score_code(board, 0);
    std::array<float, kTeam> reward;
    for (int snake = 0; snake < kTeam; ++snake) {
      running_[b].snake_return[snake] += result.reward[snake];
      reward[static_cast<std::size_t>(snake)] =
          encode::shaped_reward(options_.reward, board, snake, result.reward[snake], code) *
          static_cast<float>(options_.reward_scale);
    }
    ++running_[b].steps;
    const bool truncated = !result.done && running_[b].steps >= options_.episode_length;
    float* next = next_observations_.data_ptr<float>() + row;
    options_.sight.write(board, 0, next);
    remember(b, observations_.data_ptr<float>() + row, stored.data(), reward.data(), next, result.done,
             truncated);
    const bool ended = result.done || truncated;
    if (ended) {
      running_[b].number = ++ended_;
      for (int team = 0; team < 2; ++team) running_[b].team_return[team] = board.team_return(team);
    }
    if (b == 0 && options_.watch) options_.watch(running_[b], board, &actions, &result);
    if (ended) {
      episodes.push_back(running_[b]);
      deal(b);
      options_.sight.write(board, 0, next);
    }
  }
  std::swap(observations_, next_observations_);
}

void Collector::remember(std::size_t board, const float* observation, const float* action,
                         const float* reward, const float* next_observation, bool terminated,
                         bool truncated) {
  const std::int64_t n = options_.n_step;
  float* rows = window_.data() + static_cast<std::int64_t>(board) * n * window_width_;
  float* row = rows + window_next_[board] * window_width_;
  std::memcpy(row, observation, static_cast<std::size_t>(row_width_) * sizeof(float));
  std::memcpy(row + row_width_, action, kActionFloats * sizeof(float));
  std::memcpy(row + row_width_ + kActionFloats, reward, kTeam * sizeof(float));
  window_next_[board] = (window_next_[board] + 1) % n;
  window_size_[board] = std::min(window_size_[board] + 1, n);
  const auto oldest = [&] { return (window_next_[board] - window_size_[board] + n) % n; };
  if (!terminated && !truncated) {
    if (window_size_[board] == n) emit(board, oldest(), n, next_observation, false);
    if (window_size_[board] == n) --window_size_[board];
    return;
  }
  for (; window_size_[board] > 0; --window_size_[board]) {
    emit(board, oldest(), window_size_[board], next_observation, terminated);
  }
}

void Collector::emit(std::size_t board, std::int64_t oldest, std::int64_t count,
                     const float* next_observation, bool terminated) {
  const float* rows = window_.data() + static_cast<std::int64_t>(board) * options_.n_step * window_width_;
  const float* first = rows + oldest * window_width_;
  std::array<float, kTeam> sum{};
  double factor = 1.0;
  for (std::int64_t k = 0; k < count; ++k) {
    const float* reward = rows + (oldest + k) % options_.n_step * window_width_ + row_width_ + kActionFloats;
    for (std::size_t snake = 0; snake < kTeam; ++snake)
      sum[snake] += static_cast<float>(factor) * reward[snake];
    factor *= options_.gamma;
  }
  std::array<float, kTeam> discount;
  discount.fill(terminated ? 0.0F : static_cast<float>(factor));
  const std::array<const float*, 5> values = {first, first + row_width_, sum.data(), next_observation,
                                              discount.data()};
  replay_.append(values);
}

std::uint64_t Collector::hash() const {
  std::uint64_t all = 14695981039346656037ULL;
  for (const game::State& board : boards_) all = (all ^ game::hash(board)) * 1099511628211ULL;
  return all;
}

}  // namespace snake_ddp::rollout
