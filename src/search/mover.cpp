#include "snake_ddp/search/mover.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "snake_ddp/base/check.hpp"
#include "snake_ddp/base/error.hpp"
#include "snake_ddp/base/host.hpp"
#include "snake_ddp/base/text.hpp"

namespace snake_ddp::search {
namespace {

constexpr std::int64_t kMostSamples = 1000, kMostSimulations = 1'000'000;
constexpr int kMostLeaves = 1000;
constexpr double kLongest_ms = 60'000;

// A board on which there is something to choose.
struct Place {
  std::size_t board;
  int team;
  Dice dice;
};

void make(const TeamMoves& moves, int team, game::Actions& actions) {
  std::copy(moves.begin(), moves.end(), actions.of + team * game::kTeamSize);
}

void look_ahead(const Player& player, const Evaluate& evaluate, std::span<const game::State> boards,
                std::span<const Leaf> leaves, std::span<const Place> places, std::span<game::Actions> actions,
                std::span<play::Reasons> reasons) {
  const Spec& spec = player.spec;
  std::vector<Question> questions;
  for (const Place& p : places) {
    const Leaf& leaf = leaves[p.board];
    questions.push_back({boards[p.board], p.team, candidates_of(leaf, p.team),
                         samples_of(leaf, p.team, static_cast<int>(spec.count), spec.temperature, p.dice)});
  }
  const std::vector<Answer> answers = look(questions, player.training.gamma, evaluate);
  for (std::size_t k = 0; k < places.size(); ++k) {
    make(questions[k].candidates[answers[k].best], places[k].team, actions[places[k].board]);
    if (!reasons.empty()) reasons[places[k].board] = reasons_of(questions[k], answers[k]);
  }
}

void grow_trees(const Player& player, const Evaluate& evaluate, std::span<const game::State> boards,
                std::span<const Leaf> leaves, std::span<const Place> places, std::span<game::Actions> actions,
                std::span<play::Reasons> reasons) {
  using Clock = std::chrono::steady_clock;
  const Spec& spec = player.spec;
  TreeOptions options = spec.tree;
  options.gamma = player.training.gamma;
  const auto end = Clock::now() + std::chrono::duration<double, std::milli>(
                                      spec.limit_ms * static_cast<double>(places.size()));
  const auto boards_at_once = static_cast<std::int64_t>(places.size());
  constexpr std::int64_t kFits = std::int64_t{1} << 28;  // on any machine that we run on
  if (Tree::most_bytes(spec.count) * boards_at_once > kFits)
    check_memory(spec, boards_at_once, base::available_bytes());
  std::vector<Tree> trees;
  trees.reserve(places.size());
  for (const Place& p : places) trees.emplace_back(boards[p.board], leaves[p.board], p.dice, options);
  run(trees, evaluate, [&](std::int64_t done) -> std::int64_t {
    return spec.count > 0 ? spec.count - done : Clock::now() >= end ? 0 : kMostSimulations - done;
  });
  for (std::size_t k = 0; k < places.size(); ++k) {
    make(trees[k].best(places[k].team), places[k].team, actions[places[k].board]);
    if (!reasons.empty()) reasons[places[k].board] = trees[k].reasons(places[k].team);
  }
}

class SearchMover final : public play::Mover {
 public:
  SearchMover(std::shared_ptr<const Player> player, Evaluator evaluator, std::uint64_t seed)
      : player_(std::move(player)), evaluator_(std::move(evaluator)), seed_(seed) {}

  void act(std::span<const game::State> boards, std::span<const std::uint8_t> team, std::int64_t first_game,
           std::span<game::Actions> actions, std::span<play::Reasons> reasons) override {
    games_.resize(boards.size());
    std::iota(games_.begin(), games_.end(), static_cast<std::uint64_t>(first_game));
    choose(*player_, std::ref(evaluator_), boards, team, seed_, games_, actions, reasons);
  }

 private:
  std::shared_ptr<const Player> player_;
  Evaluator evaluator_;
  std::uint64_t seed_;
  std::vector<std::uint64_t> games_;
};

// A number between `least` and `most` that takes up the whole text.
template <class Number>
std::optional<Number> number_in(std::string_view text, Number least, Number most) {
  const auto number = base::try_number<Number>(text);
  return number && *number >= least && *number <= most ? number : std::nullopt;
}

}  // namespace

std::optional<Spec> try_spec(std::string_view text) {
  constexpr std::string_view kLook = "look", kPuct = "puct", kTimed = "puct@", kUnit = "ms";
  Spec spec;
  if (text.starts_with(kLook)) {
    const auto n = number_in<std::int64_t>(text.substr(kLook.size()), 1, kMostSamples);
    if (!n) return {};
    spec.count = *n;
    return spec;
  }
  spec.kind = Spec::Kind::kPuct;
  if (text.starts_with(kTimed) && text.ends_with(kUnit)) {
    text.remove_prefix(kTimed.size());
    text.remove_suffix(kUnit.size());
    const auto limit = number_in<double>(text, 0.01, kLongest_ms);
    if (!limit) return {};
    spec.count = 0;
    spec.limit_ms = *limit;
    return spec;
  }
  if (!text.starts_with(kPuct)) return {};
  text.remove_prefix(kPuct.size());
  const std::size_t x = text.find('x');
  const auto n = number_in<std::int64_t>(text.substr(0, x), 1, kMostSimulations);
  const auto leaves = x == text.npos ? std::optional(1) : number_in<int>(text.substr(x + 1), 1, kMostLeaves);
  if (!n || !leaves) return {};
  spec.count = *n;
  spec.tree.leaves = *leaves;
  return spec;
}

void check_memory(const Spec& spec, std::int64_t boards, std::int64_t available) {
  if (spec.kind != Spec::Kind::kPuct || spec.count == 0) return;
  const std::int64_t needed = Tree::most_bytes(spec.count) * boards;
  if (needed <= available) return;
  const auto gb = [](std::int64_t bytes) { return static_cast<double>(bytes) / 1e9; };
  throw base::UsageError(
      fmt::format("puct{}: trees on {} side by side take up to {:.1f} GB of memory, and {:.1f} GB are "
                  "available; search with fewer simulations, or play fewer games or boards at once",
                  spec.count, base::counted(boards, "board"), gb(needed), gb(available)));
}

void choose(const Player& player, const Evaluate& evaluate, std::span<const game::State> boards,
            std::span<const std::uint8_t> team, std::uint64_t seed, std::span<const std::uint64_t> games,
            std::span<game::Actions> actions, std::span<play::Reasons> reasons) {
  std::vector<Leaf> leaves(boards.size());
  evaluate(boards, leaves);
  std::vector<Place> places;
  for (std::size_t k = 0; k < boards.size(); ++k) {
    if (boards[k].done()) continue;
    make(bare_moves(leaves[k], team[k]), team[k], actions[k]);
    if (!reasons.empty()) reasons[k] = reasons_of(leaves[k], team[k]);
    const std::uint8_t* open = leaves[k].open + team[k] * game::kTeamSize;
    const bool forced =
        std::all_of(open, open + game::kTeamSize, [](unsigned m) { return (m & (m - 1)) == 0; });
    if (!forced) places.push_back({k, team[k], Dice(seed, games[k], boards[k].step(), team[k])});
  }
  if (places.empty() || player.spec.kind == Spec::Kind::kNone) return;
  if (player.spec.kind == Spec::Kind::kLook) {
    look_ahead(player, evaluate, boards, leaves, places, actions, reasons);
  } else {
    grow_trees(player, evaluate, boards, leaves, places, actions, reasons);
  }
}

play::MakeMover mover(std::shared_ptr<const Player> player, const play::Sight& sight,
                      const std::function<bool()>& stop) {
  Evaluator evaluator(player->net, sight, player->training);
  evaluator.stop_when(stop);
  return mover(player, evaluator);
}

play::MakeMover mover(std::shared_ptr<const Player> player, const Evaluator& evaluator) {
  return [=](std::uint64_t seed) { return std::make_unique<SearchMover>(player, evaluator, seed); };
}

}  // namespace snake_ddp::search
