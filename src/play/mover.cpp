#include "snake_ddp/play/mover.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "snake_ddp/core/check.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/host.hpp"
#include "snake_ddp/core/text.hpp"

namespace snake_ddp::play {
namespace {

constexpr std::int64_t kMostSamples = 1000, kMostSimulations = 1'000'000;
constexpr int kMostLeaves = 1000;
constexpr double kLongest_ms = 60'000;

// A board on which there is something to choose.
struct MoveTask {
  std::size_t board;
  int team;
  MoveRandom dice;
};

void make(const TeamMoves& moves, int team, game::Actions& actions) {
  std::copy(moves.begin(), moves.end(), actions.of + team * game::kTeamSize);
}

void look_ahead(const Searcher& searcher, const Evaluate& evaluate, std::span<const game::State> boards,
                std::span<const Leaf> leaves, std::span<const MoveTask> places,
                std::span<game::Actions> actions, std::span<Reasons> reasons) {
  const SearchSpec& spec = searcher.spec;
  std::vector<LookTask> tasks;
  for (const MoveTask& p : places) {
    const Leaf& leaf = leaves[p.board];
    tasks.push_back({boards[p.board], p.team, candidates_of(leaf, p.team),
                     samples_of(leaf, p.team, static_cast<int>(spec.count), spec.temperature, p.dice)});
  }
  const std::vector<LookScores> found = look(tasks, searcher.training.gamma, evaluate);
  for (std::size_t k = 0; k < places.size(); ++k) {
    make(tasks[k].candidates[found[k].best], places[k].team, actions[places[k].board]);
    if (!reasons.empty()) reasons[places[k].board] = reasons_of(tasks[k], found[k]);
  }
}

void grow_trees(const Searcher& searcher, const Evaluate& evaluate, std::span<const game::State> boards,
                std::span<const Leaf> leaves, std::span<const MoveTask> places,
                std::span<game::Actions> actions, std::span<Reasons> reasons) {
  using Clock = std::chrono::steady_clock;
  const SearchSpec& spec = searcher.spec;
  TreeOptions options = spec.tree;
  options.gamma = searcher.training.gamma;
  const auto end = Clock::now() + std::chrono::duration<double, std::milli>(
                                      spec.limit_ms * static_cast<double>(places.size()));
  const auto boards_at_once = static_cast<std::int64_t>(places.size());
  constexpr std::int64_t kFits = std::int64_t{1} << 28;  // on any machine that we run on
  if (Tree::most_bytes(spec.count) * boards_at_once > kFits)
    check_memory(spec, boards_at_once, core::available_bytes());
  std::vector<Tree> trees;
  trees.reserve(places.size());
  for (const MoveTask& p : places) trees.emplace_back(boards[p.board], leaves[p.board], p.dice, options);
  run(trees, evaluate, [&](std::int64_t done) -> std::int64_t {
    return spec.count > 0 ? spec.count - done : Clock::now() >= end ? 0 : kMostSimulations - done;
  });
  for (std::size_t k = 0; k < places.size(); ++k) {
    make(trees[k].best(places[k].team), places[k].team, actions[places[k].board]);
    if (!reasons.empty()) reasons[places[k].board] = trees[k].reasons(places[k].team);
  }
}

class SearchMover final : public Mover {
 public:
  SearchMover(std::shared_ptr<const Searcher> searcher, Evaluator evaluator, std::uint64_t seed)
      : player_(std::move(searcher)), evaluator_(std::move(evaluator)), seed_(seed) {}

  void act(std::span<const game::State> boards, std::span<const std::uint8_t> team, std::int64_t first_game,
           std::span<game::Actions> actions, std::span<Reasons> reasons) override {
    games_.resize(boards.size());
    std::iota(games_.begin(), games_.end(), static_cast<std::uint64_t>(first_game));
    choose(*player_, std::ref(evaluator_), boards, team, seed_, games_, actions, reasons);
  }

 private:
  std::shared_ptr<const Searcher> player_;
  Evaluator evaluator_;
  std::uint64_t seed_;
  std::vector<std::uint64_t> games_;
};

// A number between `least` and `most` that takes up the whole text.
template <class Number>
std::optional<Number> number_in(std::string_view text, Number least, Number most) {
  const auto number = core::try_number<Number>(text);
  return number && *number >= least && *number <= most ? number : std::nullopt;
}

}  // namespace

std::optional<SearchSpec> try_spec(std::string_view text) {
  constexpr std::string_view kLook = "look", kPuct = "puct", kTimed = "puct@", kUnit = "ms";
  SearchSpec spec;
  if (text.starts_with(kLook)) {
    const auto n = number_in<std::int64_t>(text.substr(kLook.size()), 1, kMostSamples);
    if (!n) return {};
    spec.count = *n;
    return spec;
  }
  spec.kind = SearchSpec::Kind::kPuct;
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

void check_memory(const SearchSpec& spec, std::int64_t boards, std::int64_t available) {
  if (spec.kind != SearchSpec::Kind::kPuct || spec.count == 0) return;
  const std::int64_t needed = Tree::most_bytes(spec.count) * boards;
  if (needed <= available) return;
  const auto gb = [](std::int64_t bytes) { return static_cast<double>(bytes) / 1e9; };
  throw core::UsageError(
      fmt::format("puct{}: trees on {} side by side take up to {:.1f} GB of memory, and {:.1f} GB are "
                  "available; search with fewer simulations, or play fewer games or boards at once",
                  spec.count, core::counted(boards, "board"), gb(needed), gb(available)));
}

void choose(const Searcher& searcher, const Evaluate& evaluate, std::span<const game::State> boards,
            std::span<const std::uint8_t> team, std::uint64_t seed, std::span<const std::uint64_t> games,
            std::span<game::Actions> actions, std::span<Reasons> reasons) {
  std::vector<Leaf> leaves(boards.size());
  evaluate(boards, leaves);
  std::vector<MoveTask> places;
  for (std::size_t k = 0; k < boards.size(); ++k) {
    if (boards[k].done()) continue;
    make(bare_moves(leaves[k], team[k]), team[k], actions[k]);
    if (!reasons.empty()) reasons[k] = reasons_of(leaves[k], team[k]);
    const std::uint8_t* open = leaves[k].open + team[k] * game::kTeamSize;
    const bool forced =
        std::all_of(open, open + game::kTeamSize, [](unsigned m) { return (m & (m - 1)) == 0; });
    if (!forced) places.push_back({k, team[k], MoveRandom(seed, games[k], boards[k].step(), team[k])});
  }
  if (places.empty() || searcher.spec.kind == SearchSpec::Kind::kNone) return;
  if (searcher.spec.kind == SearchSpec::Kind::kLook) {
    look_ahead(searcher, evaluate, boards, leaves, places, actions, reasons);
  } else {
    grow_trees(searcher, evaluate, boards, leaves, places, actions, reasons);
  }
}

MakeMover mover(std::shared_ptr<const Searcher> searcher, const ObsSpec& obs_spec,
                const std::function<bool()>& stop) {
  Evaluator evaluator(searcher->net, obs_spec, searcher->training);
  evaluator.stop_when(stop);
  return mover(searcher, evaluator);
}

MakeMover mover(std::shared_ptr<const Searcher> searcher, const Evaluator& evaluator) {
  return [=](std::uint64_t seed) { return std::make_unique<SearchMover>(searcher, evaluator, seed); };
}

}  // namespace snake_ddp::play
