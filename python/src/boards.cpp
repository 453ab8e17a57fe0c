#include "boards.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <type_traits>

#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/hash.hpp"
#include "snake_ddp/game/chance.hpp"
#include "snake_ddp/game/game.hpp"
#include "snake_ddp/game/moves.hpp"
#include "snake_ddp/game/position.hpp"

namespace snake_ddp::python {
namespace {

using game::kMoves, game::kSnakes, game::kTeamSize;

constexpr std::array<std::string_view, 3> kAutoresets = {"next_step", "same_step",
                                                         "disabled"};  // by Autoreset
constexpr std::int64_t kMostBoards = std::int64_t{1} << 24;

/// The first action outside 0..3, or -1.
template <class Action>
std::int64_t first_illegal(const Action* actions, std::int64_t count) {
  using Bits = std::make_unsigned_t<Action>;
  Bits any = 0;
  for (std::int64_t k = 0; k < count; ++k) any |= static_cast<Bits>(actions[k]);
  if (any < kMoves) return -1;
  return std::find_if(actions, actions + count, [](Action a) { return static_cast<Bits>(a) >= kMoves; }) -
         actions;
}

void write_rewards(game::RewardRule rule, const game::State& after, const game::StepResult& result, int team,
                   float* out) {
  if (rule == game::RewardRule::kScore) {
    std::copy_n(result.reward + team * kTeamSize, kTeamSize, out);
    return;
  }
  const int code = game::score_code(after, team);
  for (int i = 0; i < kTeamSize; ++i) {
    const int snake = team * kTeamSize + i;
    out[i] = game::shaped_reward(rule, after, snake, result.reward[snake], code);
  }
}

void require(bool fits, const char* what) {
  if (!fits) throw core::UsageError(fmt::format("not the state of a batch with these arguments: {}", what));
}

}  // namespace

Autoreset autoreset_of(const std::string& name) {
  const auto at = std::find(kAutoresets.begin(), kAutoresets.end(), name);
  if (at == kAutoresets.end()) {
    throw core::UsageError(
        fmt::format("autoreset is \"{}\", not one of: {}", name, fmt::join(kAutoresets, ", ")));
  }
  return static_cast<Autoreset>(at - kAutoresets.begin());
}

/// Held during a call: two threads in one batch would mix their games.
class Boards::InUse {
 public:
  explicit InUse(const Boards& boards) : flag_(boards.in_use_) {
    if (flag_.exchange(true, std::memory_order_acquire))
      throw std::runtime_error(
          "another thread is using this batch: one call at a time; give each thread its own batch");
  }
  InUse(const InUse&) = delete;
  InUse& operator=(const InUse&) = delete;
  ~InUse() { flag_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool>& flag_;
};

Boards::Boards(const Options& options)
    : options_(options),
      acting_(options.mix || options.team ? kTeamSize : kSnakes),
      seen_(options.observe_both ? kSnakes : acting_),
      features_(options.obs ? game::obs_size(*options.obs) : 0),
      arrays_(std::make_shared<Arrays>()) {
  if (options.num_boards < 1 || options.num_boards > kMostBoards)
    throw core::UsageError(fmt::format("num_boards is {}, not 1 to {}", options.num_boards, kMostBoards));
  if (options.episode_length < 1 || options.episode_length > game::kMaxSteps) {
    throw core::UsageError(
        fmt::format("episode_length is {}, not 1 to {}", options.episode_length, game::kMaxSteps));
  }
  if (options.swap_sides && acting_ == kSnakes)
    throw core::UsageError(
        "swap_sides is for games against an opponent; here the caller moves all six snakes");
  const auto n = static_cast<std::size_t>(options.num_boards);
  const auto floats = n * static_cast<std::size_t>(seen_ * features_);
  Arrays& a = *arrays_;
  a.observations.resize(floats);
  if (options.autoreset == Autoreset::kSameStep) a.final_observations.resize(floats);
  a.rewards.resize(n * static_cast<std::size_t>(acting_));
  a.terminated = std::make_unique<bool[]>(n);
  a.truncated = std::make_unique<bool[]>(n);
  a.states.resize(n);
  a.scores.resize(2 * n);
  a.sides.resize(n);
  outputs_ = {a.observations.data(), a.rewards.data(), a.terminated.get(), a.truncated.get()};
  terminated_.resize(n);
  truncated_.resize(n);
  games_.resize(n);
  numbers_.resize(n);
  if (options.mix) {
    scripts_.resize(n);
  } else if (options.team) {
    answers_.resize(n);
    foes_.resize(n);
    if (options.team->q_net || options.team->actor) passes_ = std::make_unique<Passes>(*options.team);
  }
}

void Boards::require_deal() const {
  if (!dealt_) throw std::runtime_error("there are no games yet: call reset first");
}

std::uint64_t Boards::stream(std::size_t board) const {
  return play::stream_of(static_cast<std::int64_t>(board), games_[board]);
}

// The settings that follow from a board's game number.
void Boards::take_place(std::size_t board) {
  // The first game on the first board is played as team A.
  arrays_->sides[board] = options_.swap_sides && (board + games_[board]) % 2 == 0;
  if (options_.mix)
    scripts_[board] =
        *game::drawn(*options_.mix, seed_, static_cast<std::uint64_t>(numbers_[board])).rival.scripted;
}

// The settings that follow from the seed.
void Boards::take_seed(std::uint64_t seed) {
  seed_ = seed;
  if (options_.team && options_.team->search) searcher_ = mover_of(options_.team)(seed);
}

void Boards::start_game(std::size_t board) {
  ++games_[board];
  numbers_[board] = ++started_;
  take_place(board);
  game::PhiloxChance chance(seed_, stream(board));
  game::reset(arrays_->states[board], chance);
}

void Boards::observe(std::size_t board, float* out) const {
  if (!options_.obs) return;
  const game::ObsKind kind = *options_.obs;
  const game::State& state = arrays_->states[board];
  const int own = side(board);
  if (seen_ == kTeamSize) {
    game::observe(kind, state, own, out);
  } else if (own == 0 && game::is_view(kind)) {  // both teams in one call
    game::view::write_snakes(kind, state, 0, kSnakes, out, features_);
  } else {
    game::observe(kind, state, own, out);
    game::observe(kind, state, 1 - own, out + kTeamSize * features_);
  }
}

void Boards::set_end(std::size_t board, bool terminated, bool truncated) {
  outputs_.terminated[board] = terminated;
  outputs_.truncated[board] = truncated;
  terminated_[board] = static_cast<std::uint8_t>(terminated);
  truncated_[board] = static_cast<std::uint8_t>(truncated);
}

// The outputs of a new game, as a step without a move gives them.
void Boards::begin(std::size_t board) {
  start_game(board);
  set_end(board, false, false);
  std::fill_n(outputs_.rewards + board * static_cast<std::size_t>(acting_), acting_, 0.0F);
  observe(board, observation(board));
}

void Boards::start(std::uint64_t seed) {
  const InUse in_use(*this);
  take_seed(seed);
  started_ = 0;
  std::fill(games_.begin(), games_.end(), 0);
  dealt_ = true;
  deal_where(nullptr);
}

void Boards::start_new_games(const bool* mask) {
  const InUse in_use(*this);
  require_deal();
  deal_where(mask);
}

void Boards::deal_where(const bool* mask) {
  for (std::size_t b = 0; b < games_.size(); ++b)
    if (mask == nullptr || mask[b]) begin(b);
  finished_ = 0;
}

// The moves of a trained team, for all boards.
void Boards::ask_team() {
  const std::vector<game::State>& states = arrays_->states;
  for (std::size_t b = 0; b < states.size(); ++b) foes_[b] = static_cast<std::uint8_t>(1 - side(b));
  if (searcher_) {
    // Imagined futures are drawn by the board's number; games on one board have different real ones.
    act_in_blocks(*searcher_, states, foes_, 0, answers_);
    return;
  }
  const auto draw = [&](std::size_t b) {
    return core::random_block(
        seed_, stream(b),
        static_cast<std::uint32_t>(states[b].step()) | (foes_[b] == 0 ? 0 : play::kTeamBStream),
        core::Purpose::kAct);
  };
  choose(*options_.team, *passes_, states, foes_, draw, answers_);
}

template <class Action>
void Boards::step(const Action* actions) {
  const InUse in_use(*this);
  require_deal();
  if (const std::int64_t bad = first_illegal(actions, options_.num_boards * acting_); bad >= 0) {
    throw core::UsageError(fmt::format("the action of snake {} on board {} is {}, not 0..3", bad % acting_,
                                       bad / acting_, actions[bad]));
  }
  if (options_.autoreset == Autoreset::kDisabled) {
    for (std::size_t b = 0; b < games_.size(); ++b)
      if (ended(b))
        throw core::UsageError(
            fmt::format("the game on board {} has ended and autoreset is disabled: reset it first", b));
  }
  const bool asks_network = options_.team && !options_.team->script;
  if (asks_network) ask_team();
  finished_ = 0;
  const Outputs out = outputs_;
  const std::size_t acting = acting_ == kSnakes ? kSnakes : kTeamSize;
  for (std::size_t b = 0; b < games_.size(); ++b, actions += acting) {
    if (ended(b) && options_.autoreset == Autoreset::kNextStep) {
      begin(b);
      continue;
    }
    float* const reward = out.rewards + b * acting;
    game::State& state = arrays_->states[b];
    const int own = side(b);
    game::Actions moves{};
    if (options_.mix) {
      game::act(scripts_[b], state, 1 - own, moves, seed_, stream(b));
    } else if (asks_network) {
      moves = answers_[b];
    } else if (options_.team) {
      game::act(*options_.team->script, state, 1 - own, moves, seed_, stream(b));
    }
    std::transform(actions, actions + acting, moves.of + own * kTeamSize,
                   [](Action a) { return static_cast<std::uint8_t>(a); });
    game::PhiloxChance chance(seed_, stream(b));
    const game::StepResult result = game::step(state, moves, chance);
    write_rewards(options_.reward, state, result, own, reward);
    if (acting == kSnakes) write_rewards(options_.reward, state, result, 1, reward + kTeamSize);
    const bool truncated = !result.done && state.step() > options_.episode_length;
    set_end(b, result.done, truncated);
    if (result.done || truncated) {
      ++finished_;
      arrays_->scores[2 * b] = state.team_return(own);
      arrays_->scores[2 * b + 1] = state.team_return(1 - own);
      if (options_.autoreset == Autoreset::kSameStep) {
        observe(b, arrays_->final_observations.data() + (observation(b) - outputs_.observations));
        start_game(b);
      }
    }
    observe(b, observation(b));
  }
}
template void Boards::step(const std::uint8_t*);
template void Boards::step(const std::int32_t*);
template void Boards::step(const std::int64_t*);

void Boards::open_moves(bool* out) const {
  const InUse in_use(*this);
  require_deal();
  for (std::size_t b = 0; b < games_.size(); ++b) {
    for (int k = 0; k < acting_; ++k, out += kMoves) {
      const unsigned open = game::open_moves(arrays_->states[b], side(b) * kTeamSize + k);
      for (int d = 0; d < kMoves; ++d) out[d] = (open >> d & 1U) != 0;
    }
  }
}

std::string Boards::picture(std::int64_t board) const {
  const InUse in_use(*this);
  require_deal();
  if (board < 0 || board >= options_.num_boards)
    throw std::out_of_range(fmt::format("there is no board {}: they are 0 to {}", board, size() - 1));
  return game::picture(arrays_->states[static_cast<std::size_t>(board)]);
}

std::uint64_t Boards::hash() const {
  const InUse in_use(*this);
  require_deal();
  std::uint64_t all = core::kHashStart;
  for (const game::State& state : arrays_->states) all = core::add_to_hash(all, game::hash(state));
  return all;
}

void Boards::write_to(const Outputs& outputs) {
  const InUse in_use(*this);
  const auto n = static_cast<std::size_t>(options_.num_boards);
  const auto move = [](auto*& from, auto* to, std::size_t count) {
    if (from != to) std::copy_n(from, count, to);
    from = to;
  };
  move(outputs_.observations, outputs.observations, n * static_cast<std::size_t>(seen_ * features_));
  move(outputs_.rewards, outputs.rewards, n * static_cast<std::size_t>(acting_));
  move(outputs_.terminated, outputs.terminated, n);
  move(outputs_.truncated, outputs.truncated, n);
}

Boards::Progress Boards::progress() const {
  const InUse in_use(*this);
  const auto n = static_cast<std::size_t>(options_.num_boards);
  Progress p{dealt_,          seed_,           started_, finished_, games_, numbers_,
             arrays_->states, arrays_->scores, {},       {},        {}};
  p.rewards.assign(outputs_.rewards, outputs_.rewards + n * static_cast<std::size_t>(acting_));
  p.terminated = terminated_;
  p.truncated = truncated_;
  return p;
}

void Boards::go_on(const Progress& p) {
  const InUse in_use(*this);
  const auto n = static_cast<std::size_t>(options_.num_boards);
  require(p.games.size() == n && p.numbers.size() == n && p.states.size() == n && p.scores.size() == 2 * n &&
              p.rewards.size() == n * static_cast<std::size_t>(acting_) && p.terminated.size() == n &&
              p.truncated.size() == n,
          "it has another size");
  if (!p.dealt) return;
  require(p.finished >= 0 && p.finished <= options_.num_boards, "the number of finished games");
  for (std::size_t b = 0; b < n; ++b) {
    require(p.games[b] >= 1 && p.numbers[b] >= 1 && p.numbers[b] <= p.started, "a game's number");
    require(p.terminated[b] + p.truncated[b] <= 1, "flags of a game's end");
  }
  dealt_ = true;
  take_seed(p.seed);
  started_ = p.started;
  finished_ = p.finished;
  games_ = p.games;
  numbers_ = p.numbers;
  std::copy(p.states.begin(), p.states.end(), arrays_->states.begin());
  std::copy(p.scores.begin(), p.scores.end(), arrays_->scores.begin());
  std::copy(p.rewards.begin(), p.rewards.end(), outputs_.rewards);
  for (std::size_t b = 0; b < n; ++b) {
    set_end(b, p.terminated[b] != 0, p.truncated[b] != 0);
    take_place(b);
    observe(b, observation(b));
  }
}

}  // namespace snake_ddp::python
