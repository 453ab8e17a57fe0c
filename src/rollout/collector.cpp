#include "rollout/collector.hpp"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "board_work.hpp"
#include "nets/device_work.hpp"
#include "show_boards.hpp"
#include "snake_ddp/core/check.hpp"
#include "snake_ddp/game/position.hpp"

namespace snake_ddp::rollout {
namespace {

std::int64_t* longs(const at::Tensor& t) { return t.data_ptr<std::int64_t>(); }

bool is_observation(const std::string& name) {
  return name == learners::kColumnNames[learners::kObservation] ||
         name == learners::kColumnNames[learners::kNextObservation];
}

/// Records that must outlast `interval` steps. Within 20 steps a board ends two games at most, as a new one cannot fill
/// the board so soon; games cut short end more often.
std::int64_t records_of(const CollectorOptions& o, std::int64_t interval) {
  return o.num_envs * ((interval + 19) / std::min<std::int64_t>(20, o.episode_length) + 1);
}

std::vector<FrozenRange> frozen_ranges(const CollectorOptions& o) {
  std::vector<FrozenRange> ranges;
  for (std::size_t b = 0; b < o.rivals.size(); ++b) {
    if (!o.rivals[b].is_frozen()) continue;
    const auto board = static_cast<std::int64_t>(b);
    if (b > 0 && o.rivals[b - 1] == o.rivals[b]) {
      ranges.back().end = board + 1;
      continue;
    }
    nets::Policy* const policy = o.frozen(o.rivals[b].frozen);
    SD_CHECK(policy != nullptr, "each board against a frozen team needs its policy");
    ranges.push_back({board, board + 1, policy});
  }
  return ranges;
}

// A board's own epsilon, if they form a ladder.
double ladder_epsilon(const CollectorOptions& o, std::int64_t board) {
  if (o.num_envs == 1) return o.epsilon;
  const double place = static_cast<double>(board) / static_cast<double>(o.num_envs - 1);
  return o.epsilon_min * std::pow(o.epsilon / o.epsilon_min, place);
}

// What epsilon is multiplied by at each seat, and after the last one; of boards that form a ladder, their own epsilons.
std::vector<double> factors(const CollectorOptions& o, std::int64_t seats) {
  std::vector<double> factor = {1.0};
  for (std::int64_t seat = 0; seat < seats; ++seat) factor.push_back(factor.back() * o.epsilon_speed);
  for (std::int64_t b = 0; o.epsilon_min > 0.0 && b < o.num_envs; ++b)
    factor[static_cast<std::size_t>(b)] = ladder_epsilon(o, b);
  return factor;
}

}  // namespace

bool is_board(const float* image) { return game::fault_of_image(image).empty(); }

std::vector<learners::Column> with_boards(std::vector<learners::Column> columns,
                                          const play::ObsSpec& obs_spec) {
  if (play::kTeamSize * (obs_spec.features() + 1) < 2 * play::kBoardFloats) return columns;
  for (learners::Column& column : columns) {
    if (!is_observation(column.name)) continue;
    column.packing = {play::kBoardFloats, is_board,
                      [obs_spec](const at::Tensor& storage, const at::Tensor& indices, at::Tensor& out) {
                        show_boards(obs_spec, storage, indices, out);
                      }};
  }
  return columns;
}

Collector::Collector(CollectorOptions options, learners::Buffer& replay, Rollout* rollout,
                     std::int64_t fetch_interval)
    : options_(std::move(options)),
      seats_(seats_of(options_.rivals, options_.num_envs)),
      sides_(seats_.selves > 0 ? 2 : 1),
      replay_(replay),
      rollout_(rollout),
      device_(replay.device()),
      fetched_epsilon_(options_.epsilon) {
  const std::int64_t boards = options_.num_envs, seats = seats_.count(), windows = boards * sides_;
  SD_CHECK(boards > 0 && options_.n_step > 0 &&
               (options_.rivals.empty() ? options_.schedule.count > 0
                                        : static_cast<std::int64_t>(options_.rivals.size()) == boards),
           "collector options");
  SD_CHECK(rollout_ == nullptr || options_.n_step == 1,
           "rollouts take one-step transitions, n_step is " + std::to_string(options_.n_step));
  SD_CHECK(device_.is_cpu() || (!options_.watch && options_.memory == 0),
           "watching games and policies with memory need boards in main memory");
  SD_CHECK(rollout_ != nullptr || replay_.capacity() >= seats * options_.n_step,
           fmt::format("replay needs room for one step of all seats: {}, its capacity is {}",
                       seats * options_.n_step, replay_.capacity()));
  find_columns();

  const auto here = at::TensorOptions().device(device_);
  const auto whole = here.dtype(at::kLong), real = here.dtype(at::kDouble), single = here.dtype(at::kFloat),
             bytes = here.dtype(at::kByte);
  const std::int64_t features = options_.obs_spec.features() + 1;
  boards_ = at::zeros({boards, static_cast<std::int64_t>(sizeof(game::State))}, bytes);
  games_ = at::zeros({boards}, whole);
  running_ = at::zeros({boards, play::kFields}, whole);
  running_epsilon_ = at::zeros({boards}, real);
  window_ = at::zeros({windows * options_.n_step, play::kAlignedWindowWidth}, single);
  window_size_ = at::zeros({windows}, whole);
  window_next_ = at::zeros({windows}, whole);
  epsilon_ = at::full({}, options_.epsilon, real);
  started_ = at::zeros({}, whole);
  ended_ = at::zeros({}, whole);
  last_row_ = at::full({windows}, kNoRow, whole);
  memory_ = at::zeros({boards * 2, play::kTeamSize, options_.memory}, single);

  counts_ = at::zeros({boards}, whole);
  sums_ = at::zeros({boards}, whole);
  actions_ = at::zeros({boards, game::kSnakes}, bytes);
  const std::int64_t records = records_of(options_, fetch_interval);
  records_ = at::zeros({records, kEndedFields}, whole);
  record_epsilon_ = at::zeros({records}, real);
  observations_ = at::zeros({seats, play::kTeamSize, features}, single);
  values_ = at::zeros({seats, play::kTeamSize, play::kActions}, single);
  rivals_ = at::zeros({boards, play::kTeamSize}, bytes);
  std::vector<std::int64_t> teams;
  for (std::int64_t seat = 0; seat < seats; ++seat)
    teams.push_back(seats_.board(seat) * 2 + seats_.team(seat));
  seat_teams_ = at::tensor(teams, at::kLong);
  place_ = at::tensor(factors(options_, seats), at::kDouble).to(device_);
  if (!options_.rivals.empty()) running_.select(1, play::kOpponent).copy_(codes_of(options_.rivals));
  start_new_games({0, 0, options_.epsilon});
}

void Collector::find_columns() {
  std::fill(std::begin(sources_), std::end(sources_), -1);
  const std::vector<learners::Column>& columns = replay_.columns();
  for (std::size_t c = 0; c < columns.size(); ++c) {
    const auto found =
        std::find(std::begin(learners::kColumnNames), std::end(learners::kColumnNames), columns[c].name);
    SD_CHECK(found != std::end(learners::kColumnNames),
             "replay has a column \"" + columns[c].name + "\" that is never filled");
    sources_[found - std::begin(learners::kColumnNames)] = static_cast<std::int64_t>(c);
    if (is_observation(columns[c].name)) stores_boards_ = columns[c].packing.unpack != nullptr;
  }
}

BoardArrays Collector::arrays() const {
  BoardArrays f{};
  f.rules = options_;
  if (options_.rivals.empty()) f.schedule = options_.schedule;
  f.seats = seats_;
  f.sides = sides_;
  f.capacity = replay_.capacity();
  f.ended_capacity = records_.size(0);
  f.best = best_;
  f.decays = options_.epsilon_min <= 0.0;
  f.boards = static_cast<game::State*>(boards_.data_ptr());
  f.games = longs(games_);
  f.running = longs(running_);
  f.running_epsilon = running_epsilon_.data_ptr<double>();
  f.window = window_.data_ptr<float>();
  f.window_size = longs(window_size_);
  f.window_next = longs(window_next_);
  f.epsilon = epsilon_.data_ptr<double>();
  f.place = place_.const_data_ptr<double>();
  f.started = longs(started_);
  f.ended = longs(ended_);
  f.values = values_.const_data_ptr<float>();
  f.rivals = rivals_.data_ptr<std::uint8_t>();
  f.actions = static_cast<game::Actions*>(actions_.data_ptr());
  f.memory = memory_.data_ptr<float>();
  f.memory_floats = 2 * play::kTeamSize * options_.memory;
  f.counts = longs(counts_);
  f.sums = longs(sums_);
  f.records = longs(records_);
  f.record_epsilon = record_epsilon_.data_ptr<double>();
  f.last_row = longs(last_row_);
  for (int s = 0; s < learners::kTransitionColumns; ++s)
    if (sources_[s] >= 0)
      f.column[s] = replay_.column(static_cast<std::size_t>(sources_[s])).data_ptr<float>();
  f.counter = longs(replay_.counters());
  if (rollout_ != nullptr) f.rollout = rollout_->arrays();
  return f;
}

template <class Work>
void Collector::run(std::int64_t count) const {
  nets::run_work(device_, count, Work{arrays()});
}

// Who moves before a board's step.
void Collector::meet() {
  constexpr game::Rival kTerritory{game::Opponent::kTerritory};
  const auto* const scripts = options_.schedule.opponent;
  const auto* const end = scripts + options_.schedule.count;
  territory_ = options_.rivals.empty() ? std::find(scripts, end, *kTerritory.scripted) != end
                                       : std::find(options_.rivals.begin(), options_.rivals.end(),
                                                   kTerritory) != options_.rivals.end();
  frozen_ = frozen_ranges(options_);
  std::int64_t most = 0;
  for (const FrozenRange& range : frozen_) most = std::max(most, range.end - range.first);
  frozen_observations_ =
      at::zeros({most, play::kTeamSize, options_.obs_spec.features() + 1}, values_.options());
}

bool Collector::deal(std::vector<game::Rival> rivals) {
  if (options_.rivals.empty()) return false;
  SD_CHECK(rivals.size() == options_.rivals.size(),
           fmt::format("each board needs an opponent; boards: {}, opponents: {}", options_.rivals.size(),
                       rivals.size()));
  const bool same = rivals == options_.rivals;
  options_.rivals = std::move(rivals);
  if (same && frozen_ranges(options_) == frozen_) return false;
  running_.select(1, play::kOpponent).copy_(codes_of(options_.rivals));
  meet();
  return true;
}

// What a team sees on `count` boards from `first` on, in rows from `row` on.
void Collector::look_at(std::int64_t first, std::int64_t count, int team, at::Tensor& out,
                        std::int64_t row) const {
  if (count == 0) return;
  see(device_, count,
      {options_.obs_spec, boards_in(boards_) + first, nullptr, out.data_ptr<float>() + row * out.stride(0),
       team});
}

void Collector::look() {
  look_at(0, seats_.boards, 0, observations_, 0);
  look_at(seats_.first_self, seats_.selves, 1, observations_, seats_.boards);
}

// The policy's outputs; one with memory continues from these teams' memory, rows of `memory_`.
at::Tensor Collector::ask(nets::Policy& policy, const at::Tensor& observations, const at::Tensor& teams) {
  SD_CHECK(policy.memory() == options_.memory || policy.memory() == 0,
           "a frozen team must have as much memory as the policy");
  if (policy.memory() == 0)
    return policy.action_values(observations).to(device_, /*non_blocking=*/true).contiguous();
  at::Tensor theirs = memory_.index_select(0, teams);
  const at::Tensor& outputs = policy.action_values_after(observations, theirs);
  memory_.index_copy_(0, teams, theirs);
  return outputs.contiguous();
}

void Collector::ask_frozen() {
  for (const FrozenRange& range : frozen_) {
    const std::int64_t count = range.end - range.first;
    look_at(range.first, count, 1, frozen_observations_, 0);
    const at::Tensor teams = options_.memory > 0 ? at::arange(2 * range.first + 1, 2 * range.end, 2)
                                                 : at::Tensor(),
                     outputs = ask(*range.policy, frozen_observations_.narrow(0, 0, count), teams);
    nets::run_work(device_, count,
                   FrozenMoves{arrays(), range.first, outputs.const_data_ptr<float>(),
                               range.policy->answer() == nets::Policy::Answer::kValues});
  }
}

void Collector::ask_territory() {
  if (!territory_) return;
  if (!device_.is_cpu() || core::host_loop) return run<TerritoryMoves>(seats_.boards);
  const BoardArrays f = arrays();
  for (std::int64_t b = 0; b < seats_.boards; ++b) {
    if (opponent_of(f, b) != static_cast<int>(game::Opponent::kTerritory)) continue;
    game::Actions actions;
    game::act(game::Opponent::kTerritory, f.boards[b], 1, actions, 0, 0);
    std::copy_n(actions.of + play::kTeamSize, play::kTeamSize, f.rivals + b * play::kTeamSize);
  }
}

void Collector::step(nets::Policy& policy) {
  SD_CHECK(policy.memory() == options_.memory,
           fmt::format("the policy must have the memory that was announced: {}, it has {}", options_.memory,
                       policy.memory()));
  if (rollout_ != nullptr) rollout_->see(observations_);
  // Copied: a frozen team may be this very policy, which is then asked again.
  values_.copy_(ask(policy, observations_, seat_teams_), /*non_blocking=*/true);
  best_ = policy.answer() == nets::Policy::Answer::kValues;
  ask_frozen();
  ask_territory();
  const game::State before = options_.watch ? *boards_in(boards_) : game::State{};
  run<PlayBoard>(seats_.boards);
  at::cumsum_out(sums_, counts_, 0);
  if (options_.watch) watch_step(before);
  const bool starts = options_.watch && longs(counts_)[0] >> 32 != 0;
  settle();
  if (starts) options_.watch(running(0), *boards_in(boards_), nullptr, nullptr);
  look();
}

// Stores what the step has completed; boards that are done start a new game.
void Collector::settle() {
  if (rollout_ == nullptr && device_.is_cpu()) replay_.make_room(longs(sums_)[seats_.boards - 1] & kRowsMask);
  if (stores_boards_) {
    run<SettleBoard<true>>(seats_.boards);
  } else {
    run<SettleBoard<false>>(seats_.boards);
  }
  run<CountStep>(1);
}

void Collector::finish(nets::Policy& policy) { rollout_->finish(policy, observations_, boards_in(boards_)); }

// The game on a board, in main memory.
Episode Collector::running(std::int64_t board) const {
  const std::int64_t* field = longs(running_) + board * play::kFields;
  Episode e;
  e.started = field[play::kStarted];
  for (int k = 0; k < play::kTeamSize; ++k) e.snake_return[k] = static_cast<int>(field[play::kReturns + k]);
  e.steps = static_cast<int>(field[play::kSteps]);
  e.opponent = game::rival_of(field[play::kOpponent]);
  e.epsilon = running_epsilon_.const_data_ptr<double>()[board];
  return e;
}

// The first board's step again, for its result.
void Collector::watch_step(const game::State& before) const {
  const BoardArrays f = arrays();
  game::State board = before;
  game::PhiloxChance chance(options_.seed, play::stream_of(0, static_cast<std::uint32_t>(f.games[0])));
  const game::StepResult result = game::step(board, f.actions[0], chance);
  Episode e = running(0);
  if (f.counts[0] >> 32 != 0) {
    e.number = *f.ended + 1;
    for (int team = 0; team < 2; ++team) e.team_return[team] = board.team_return(team);
  }
  options_.watch(e, board, f.actions, &result);
}

void Collector::fetch(std::vector<Episode>& episodes) {
  const std::int64_t ended = ended_.item<std::int64_t>(), room = records_.size(0);
  fetched_epsilon_ = epsilon_.item<double>();
  if (ended == fetched_) return;
  SD_CHECK(ended - fetched_ <= room, "records of ended games were overwritten before they were read");
  // Only the new records: the ring has room for two games of each board.
  const std::int64_t first = fetched_ % room, count = ended - fetched_,
                     until_wrap = std::min(count, room - first);
  const auto fetched = [&](const at::Tensor& ring) {
    return at::cat({ring.narrow(0, first, until_wrap), ring.narrow(0, 0, count - until_wrap)}).to(at::kCPU);
  };
  const at::Tensor records = fetched(records_), epsilons = fetched(record_epsilon_);
  for (std::int64_t game = 0; game < count; ++game, ++fetched_) {
    const std::int64_t* record = longs(records) + game * kEndedFields;
    SD_CHECK(record[kEndedNumber] == fetched_ + 1,
             fmt::format("records of ended games must be in order: number {} after {}", record[kEndedNumber],
                         fetched_));
    Episode e;
    e.number = record[kEndedNumber];
    e.started = record[kEndedStarted];
    for (int k = 0; k < play::kTeamSize; ++k) e.snake_return[k] = static_cast<int>(record[kEndedSnakes + k]);
    for (int k = 0; k < 2; ++k) e.team_return[k] = static_cast<int>(record[kEndedTeams + k]);
    e.steps = static_cast<int>(record[kEndedSteps]);
    e.epsilon = epsilons.const_data_ptr<double>()[game];
    e.opponent = game::rival_of(record[kEndedOpponent]);
    episodes.push_back(e);
  }
}

void Collector::start_new_games(const GameCount& count) {
  epsilon_.fill_(count.epsilon);
  started_.fill_(count.started);
  ended_.fill_(count.ended);
  // Each board has started at most as many games as all boards together.
  games_.fill_(count.started);
  run<StartBoard>(seats_.boards);
  started_.add_(seats_.boards);
  fetched_ = count.ended;
  fetched_epsilon_ = count.epsilon;
  meet();
  look();
  if (options_.watch) options_.watch(running(0), *boards_in(boards_), nullptr, nullptr);
}

}  // namespace snake_ddp::rollout
