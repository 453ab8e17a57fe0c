#include "snake_ddp/rollout/collector.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "show_boards.hpp"
#include "snake_ddp/base/check.hpp"
#include "snake_ddp/base/error.hpp"
#include "snake_ddp/base/hash.hpp"
#include "snake_ddp/base/random.hpp"
#include "snake_ddp/encode/moves.hpp"
#include "snake_ddp/game/chance.hpp"
#include "snake_ddp/game/game.hpp"
#include "snake_ddp/game/position.hpp"
#include "snake_ddp/game/sides.hpp"
#include "stored_board.hpp"

namespace snake_ddp::rollout {
namespace {

bool is_observation(const std::string& name) {
  return name == play::kSourceNames[play::kObservation] || name == play::kSourceNames[play::kNextObservation];
}

}  // namespace

bool is_board(const float* image) { return game::fault_of_image(image).empty(); }

std::vector<replay::Column> with_boards(std::vector<replay::Column> columns, const play::Sight& sight) {
  if (play::kTeam * (sight.features() + 1) < 2 * play::kBoardFloats) return columns;
  for (replay::Column& column : columns) {
    if (!is_observation(column.name)) continue;
    column.packing = {play::kBoardFloats,
                      [sight](const float* packed, float* row) {
                        game::State state;
                        std::memcpy(&state, packed, sizeof state);
                        sight.write(state, 0, row);
                      },
                      is_board,
                      [sight](const at::Tensor& storage, const at::Tensor& indices, at::Tensor& out) {
                        show_boards(sight, storage, indices, out);
                      }};
  }
  return columns;
}

Collector::Collector(CollectorOptions options, replay::Buffer& replay)
    : options_(std::move(options)),
      replay_(replay),
      boards_(static_cast<std::size_t>(options_.num_envs)),
      games_(boards_.size(), 0),
      running_(boards_.size()),
      sides_(options_.self_play ? 2 : 1),
      window_size_(boards_.size() * sides_, 0),
      window_next_(boards_.size() * sides_, 0),
      last_row_(boards_.size() * sides_, kNoRow),
      epsilon_(options_.epsilon) {
  SD_CHECK(options_.num_envs > 0 && options_.n_step > 0 && options_.opponent, "collector options");
  for (const replay::Column& column : replay_.columns()) {
    const auto found = std::find(std::begin(play::kSourceNames), std::end(play::kSourceNames), column.name);
    SD_CHECK(found != std::end(play::kSourceNames),
             "replay has a column \"" + column.name + "\" that is never filled");
    if (is_observation(column.name)) packed_ = column.packing.unpack != nullptr;
    sources_.push_back(static_cast<int>(found - std::begin(play::kSourceNames)));
    linked_ = linked_ || sources_.back() == play::kBack;
    if (sources_.back() == play::kValue) expected_.resize(boards_.size() * sides_ * play::kTeam);
  }
  SD_CHECK(expected_.empty() || options_.n_step == 1, "values of several steps ago");
  memory_ = at::zeros({options_.num_envs, 2, play::kTeam, options_.memory});
  window_.resize(window_size_.size() * static_cast<std::size_t>(options_.n_step * play::kWindowWidth));
  for (std::size_t b = 0; b < boards_.size(); ++b) start_game(b);
}

std::uint64_t Collector::stream(std::size_t board) const {
  return play::stream_of(static_cast<std::int64_t>(board), games_[board]);
}

void Collector::start_game(std::size_t board) {
  ++games_[board];
  game::PhiloxChance chance(options_.seed, stream(board));
  game::reset(boards_[board], chance);
  std::fill_n(last_row_.begin() + static_cast<std::ptrdiff_t>(board * sides_), sides_, kNoRow);
  memory_.select(0, static_cast<std::int64_t>(board)).zero_();
  running_[board] = Episode{};
  running_[board].started = ++started_;
  running_[board].opponent = options_.opponent(started_);
  if (board == 0 && options_.watch) options_.watch(running_[0], boards_[0], nullptr, nullptr);
}

double ladder_epsilon(const CollectorOptions& o, std::int64_t board) {
  if (o.num_envs == 1) return o.epsilon;
  const double place = static_cast<double>(board) / static_cast<double>(o.num_envs - 1);
  return o.epsilon_min * std::pow(o.epsilon / o.epsilon_min, place);
}

double Collector::board_epsilon(std::size_t board) const {
  return options_.epsilon_min <= 0.0 ? epsilon_ : ladder_epsilon(options_, static_cast<std::int64_t>(board));
}

// Assigns the seats of this step and writes their observations.
void Collector::look() {
  seats_.clear();
  for (std::size_t b = 0; b < boards_.size(); ++b) seats_.push_back({b, 0});
  for (std::size_t b = 0; b < boards_.size(); ++b) {
    if (running_[b].opponent.is_self()) seats_.push_back({b, 1});
  }
  const std::int64_t features = options_.sight.features() + 1,
                     taken = static_cast<std::int64_t>(seats_.size());
  if (!observations_.defined() || observations_.size(0) < taken)
    observations_ = at::empty({taken, play::kTeam, features}, at::kFloat);
  float* row = observations_.data_ptr<float>();
  for (const Seat& seat : seats_) {
    options_.sight.write(boards_[seat.board], seat.team, row);
    row += play::kTeam * features;
  }
}

// The policy's outputs for the teams in `asked_`; a policy with memory continues from its state.
const at::Tensor& Collector::ask(nets::Policy& policy, const at::Tensor& observations) {
  SD_CHECK(policy.memory() == options_.memory || policy.memory() == 0,
           "a frozen team whose memory differs from the policy's");
  if (policy.memory() == 0) return policy.action_values(observations);
  const at::Tensor teams =
      at::from_blob(asked_.data(), {static_cast<std::int64_t>(asked_.size())}, at::kLong);
  at::Tensor all = memory_.view({-1, play::kTeam, options_.memory});
  at::Tensor theirs = all.index_select(0, teams);
  const at::Tensor& values = policy.action_values_after(observations, theirs);
  all.index_copy_(0, teams, theirs);
  return values;
}

void Collector::choose(std::size_t board, int team, bool best, const float* values, game::Actions& actions,
                       float* stored) {
  const double epsilon = board_epsilon(board);
  play::choose(options_, boards_[board], stream(board), team, epsilon, best, values, actions, stored);
  if (options_.epsilon_min <= 0.0) epsilon_ *= options_.epsilon_speed;
  running_[board].epsilon = epsilon;
}

// Moves for team B on the boards where a frozen policy plays it.
void Collector::ask_frozen() {
  frozen_boards_.clear();
  for (std::size_t b = 0; b < boards_.size(); ++b)
    if (running_[b].opponent.is_frozen()) frozen_boards_.push_back(b);
  if (frozen_boards_.empty()) return;
  std::stable_sort(frozen_boards_.begin(), frozen_boards_.end(), [this](std::size_t a, std::size_t b) {
    return running_[a].opponent.frozen < running_[b].opponent.frozen;
  });
  frozen_moves_.resize(boards_.size());
  const std::int64_t width = play::kTeam * (options_.sight.features() + 1),
                     asked = static_cast<std::int64_t>(frozen_boards_.size());
  if (!frozen_observations_.defined() || frozen_observations_.size(0) < asked)
    frozen_observations_ = at::empty({asked, play::kTeam, options_.sight.features() + 1}, at::kFloat);
  for (std::size_t k = 0; k < frozen_boards_.size(); ++k)
    options_.sight.write(boards_[frozen_boards_[k]], 1,
                         frozen_observations_.data_ptr<float>() + static_cast<std::int64_t>(k) * width);
  for (std::size_t first = 0, end = 0; first < frozen_boards_.size(); first = end) {
    const int place = running_[frozen_boards_[first]].opponent.frozen;
    while (end < frozen_boards_.size() && running_[frozen_boards_[end]].opponent.frozen == place) ++end;
    nets::Policy* const frozen = options_.frozen(place);
    SD_CHECK(frozen != nullptr, "a game against a frozen team that does not exist");
    nets::Policy& policy = *frozen;
    const bool best = policy.answer() == nets::Policy::Answer::kValues;
    asked_.clear();
    for (std::size_t k = first; k < end; ++k)
      asked_.push_back(static_cast<std::int64_t>(frozen_boards_[k]) * 2 + 1);
    const float* values = ask(policy, frozen_observations_.narrow(0, static_cast<std::int64_t>(first),
                                                                  static_cast<std::int64_t>(end - first)))
                              .data_ptr<float>();
    for (std::size_t k = first; k < end; ++k) {
      const std::size_t b = frozen_boards_[k];
      const auto step = static_cast<std::uint32_t>(boards_[b].step());
      const base::RandomBlock draw =
          base::random_block(options_.seed, stream(b), step | play::kTeamB, base::Purpose::kAct);
      for (int snake = 0; snake < game::kTeamSize; ++snake, values += play::kActions) {
        const int index = game::kTeamSize + snake;
        const unsigned open = options_.mask_fatal ? encode::open_moves(boards_[b], index) : play::kAllMoves;
        float by_direction[play::kActions];
        encode::to_directions(options_.sight.up(boards_[b], index), values, by_direction);
        frozen_moves_[b].of[index] =
            best ? play::best_move(by_direction, open)
                 : play::sampled_move(by_direction, base::unit_float(draw.word[snake]), open);
      }
    }
  }
}

// The largest value of each snake's allowed moves.
void Collector::expect() {
  const float* values = values_.data();
  for (const Seat& seat : seats_) {
    const game::State& board = boards_[seat.board];
    float* best =
        expected_.data() + (seat.board * sides_ + static_cast<std::size_t>(seat.team)) * play::kTeam;
    for (int snake = 0; snake < play::kTeam; ++snake, values += play::kActions) {
      const int index = seat.team * game::kTeamSize + snake, up = options_.sight.up(board, index);
      const unsigned open = options_.mask_fatal ? encode::open_moves(board, index) : play::kAllMoves;
      float by_direction[play::kActions];
      encode::to_directions(up, values, by_direction);
      best[snake] = by_direction[play::best_move(by_direction, open)];
    }
  }
}

void Collector::step(nets::Policy& policy, std::vector<Episode>& episodes) {
  decide(policy);
  move(episodes);
}

// Chooses for both teams of all boards, except for scripted opponents.
void Collector::decide(nets::Policy& policy) {
  SD_CHECK(policy.memory() == options_.memory, "a policy whose memory differs from its description");
  look();
  asked_.clear();
  for (const Seat& seat : seats_) asked_.push_back(static_cast<std::int64_t>(seat.board) * 2 + seat.team);
  // Copied: a frozen team may be this very policy, which is then asked again.
  const at::Tensor& values =
      ask(policy, observations_.narrow(0, 0, static_cast<std::int64_t>(seats_.size())));
  values_.assign(values.const_data_ptr<float>(), values.const_data_ptr<float>() + values.numel());
  best_ = policy.answer() == nets::Policy::Answer::kValues;
  if (!expected_.empty()) expect();
  ask_frozen();
}

void Collector::move(std::vector<Episode>& episodes) {
  const float* value = values_.data();
  const float* second_value = value + static_cast<std::int64_t>(boards_.size()) * play::kActionFloats;
  for (std::size_t b = 0; b < boards_.size(); ++b) {
    game::State& board = boards_[b];
    const game::State before = board;
    const int teams = running_[b].opponent.is_self() ? 2 : 1;
    game::Actions actions{};
    std::array<std::array<float, play::kActionFloats>, 2> stored;
    choose(b, 0, best_, value + static_cast<std::int64_t>(b) * play::kActionFloats, actions,
           stored[0].data());
    if (teams == 2) {
      choose(b, 1, best_, second_value, actions, stored[1].data());
      second_value += play::kActionFloats;
    } else if (running_[b].opponent.is_frozen()) {
      for (int i = game::kTeamSize; i < game::kSnakes; ++i) actions.of[i] = frozen_moves_[b].of[i];
    } else {
      agents::act(*running_[b].opponent.scripted, board, 1, actions, options_.seed, stream(b));
    }
    game::PhiloxChance chance(options_.seed, stream(b));
    const game::StepResult result = game::step(board, actions, chance);

    for (int snake = 0; snake < play::kTeam; ++snake) running_[b].snake_return[snake] += result.reward[snake];
    ++running_[b].steps;
    const bool truncated = !result.done && running_[b].steps >= options_.episode_length;
    for (int team = 0; team < teams; ++team) {
      std::array<float, play::kTeam> rewards;
      play::team_reward(options_, board, result, team, rewards.data());
      const std::size_t seat = b * sides_ + static_cast<std::size_t>(team);
      const float* action = stored[static_cast<std::size_t>(team)].data();
      if (team == 0) {
        remember(seat, before, action, rewards.data(), board, result.done, truncated);
      } else {
        remember(seat, game::with_sides_swapped(before), action, rewards.data(),
                 game::with_sides_swapped(board), result.done, truncated);
      }
    }
    const bool ended = result.done || truncated;
    if (ended) {
      running_[b].number = ++ended_;
      for (int team = 0; team < 2; ++team) running_[b].team_return[team] = board.team_return(team);
    }
    if (b == 0 && options_.watch) options_.watch(running_[b], board, &actions, &result);
    if (ended) {
      episodes.push_back(running_[b]);
      start_game(b);
    }
  }
}

void Collector::remember(std::size_t seat, const game::State& before, const float* action,
                         const float* reward, const game::State& after, bool terminated, bool truncated) {
  const std::int64_t n = options_.n_step;
  float* rows = window_.data() + static_cast<std::int64_t>(seat) * n * play::kWindowWidth;
  float* row = rows + window_next_[seat] * play::kWindowWidth;
  std::memcpy(row, &before, sizeof before);
  std::memcpy(row + play::kBoardFloats, action, play::kActionFloats * sizeof(float));
  std::memcpy(row + play::kBoardFloats + play::kActionFloats, reward, play::kTeam * sizeof(float));
  window_next_[seat] = (window_next_[seat] + 1) % n;
  window_size_[seat] = std::min(window_size_[seat] + 1, n);
  const auto oldest = [&] { return (window_next_[seat] - window_size_[seat] + n) % n; };
  if (!terminated && !truncated) {
    if (window_size_[seat] == n) emit(seat, oldest(), n, after, false);
    if (window_size_[seat] == n) --window_size_[seat];
    return;
  }
  for (; window_size_[seat] > 0; --window_size_[seat]) {
    emit(seat, oldest(), window_size_[seat], after, terminated);
  }
}

// What replay stores of what a team saw on `board`: the board, or the observation, which is then written to `row`.
const float* Collector::as_stored(const float* board, std::vector<float>& row) const {
  if (packed_) return board;
  game::State state;
  std::memcpy(&state, board, sizeof state);
  row.resize(static_cast<std::size_t>(play::kTeam * (options_.sight.features() + 1)));
  options_.sight.write(state, 0, row.data());
  return row.data();
}

void Collector::emit(std::size_t seat, std::int64_t oldest, std::int64_t count, const game::State& after,
                     bool terminated) {
  const float* rows = window_.data() + static_cast<std::int64_t>(seat) * options_.n_step * play::kWindowWidth;
  const float* first = rows + oldest * play::kWindowWidth;
  const play::Summed transition = play::summed(options_, rows, oldest, count, after, terminated);
  std::array<float, play::kBoardFloats> after_board;
  std::memcpy(after_board.data(), &after, sizeof after);
  const float* observation = as_stored(first, row_);
  const float* next = as_stored(after_board.data(), next_row_);
  std::int64_t& last = last_row_[seat];
  const float back = last == kNoRow ? 0.0F : static_cast<float>(replay_.appended() - last);
  last = replay_.appended();
  const std::array<const float*, play::kSources> by_source = {
      observation,
      first + play::kBoardFloats,
      transition.reward,
      next,
      transition.discount,
      transition.next_moves,
      &back,
      expected_.empty() ? nullptr : expected_.data() + seat * play::kTeam};
  std::array<const float*, play::kSources> values{};
  for (std::size_t c = 0; c < sources_.size(); ++c)
    values[c] = by_source[static_cast<std::size_t>(sources_[c])];
  replay_.append(std::span(values).first(sources_.size()));
}

std::uint64_t Collector::hash() const {
  std::uint64_t all = base::kHashStart;
  for (const game::State& board : boards_) all = base::add_to_hash(all, game::hash(board));
  return all;
}

}  // namespace snake_ddp::rollout
