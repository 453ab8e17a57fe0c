// A look that knows its foes.
#include <catch2/catch.hpp>
#include <cmath>

#include "../game/boards.hpp"
#include "champion.hpp"
#include "snake_ddp/encode/moves.hpp"

namespace {

using namespace snake_ddp;

std::shared_ptr<const search::Player> looking(search::Deviations deviations, int samples) {
  search::Spec spec;
  spec.count = samples;
  spec.deviations = deviations;
  return std::make_shared<const search::Player>(search::Player{champion::net(), {}, spec});
}

play::MakeMover against(const play::MakeMover& foes, search::Deviations deviations = search::Deviations::kAll,
                        int samples = 2) {
  return search::best_response(looking(deviations, samples), champion::sight(), foes);
}

// How often the foes made the moves that a team expected of them in its first sample.
struct Prediction {
  int right = 0, all = 0;
};

Prediction prediction_of(const play::MakeMover& foes) {
  Prediction p;
  std::map<std::int64_t, std::pair<int, play::Reasons>> expected;
  play::MatchOptions options{boards::kSlowdown > 1 ? 2 : 6, 31};
  options.on_reasons = [&](std::int64_t number, int team, const play::Reasons& reasons) {
    if (reasons.kind == play::Reasons::Kind::kLook) expected[number] = {team, reasons};
  };
  options.on_step = [&](std::int64_t number, const game::Actions& made, const game::StepResult& result,
                        const game::State&) {
    const auto found = expected.find(number);
    if (found == expected.end()) return;
    const auto& [team, reasons] = found->second;
    const auto foe = static_cast<std::size_t>(1 - team) * game::kTeamSize;
    bool right = true;
    for (std::size_t i = foe; i < foe + game::kTeamSize; ++i)
      right = right &&
              (made.of[i] != result.turned[i] || reasons.line[0][i] == made.of[i]);  // not turned by chance
    p.right += right ? 1 : 0;
    ++p.all;
    expected.erase(found);
  };
  play::play_match(against(foes), foes, options);
  return p;
}

}  // namespace

TEST_CASE("without deviations a best response is the bare policy, whatever it knows", "[property]") {
  const play::MakeMover territory = play::scripted(agents::Opponent::kTerritory);
  const auto hashes = [&](const play::MakeMover& a) {
    std::vector<std::uint64_t> all;
    play::MatchOptions options{boards::kSlowdown > 1 ? 2 : 8, 5};
    options.watch = [&](std::int64_t, const game::State& state) { all.push_back(game::hash(state)); };
    play::play_match(a, territory, options);
    return all;
  };
  const auto bare = hashes(champion::bare());
  CHECK(hashes(against(territory, search::Deviations::kNone)) == bare);
  CHECK(hashes(against(territory)) != bare);
}

TEST_CASE("moves without chance are predicted exactly, a script's on both sides; others are not",
          "[property]") {
  for (const play::MakeMover& foes :
       {play::scripted(agents::Opponent::kTerritory), play::scripted(agents::Opponent::kLevel2)}) {
    const Prediction p = prediction_of(foes);
    CHECK(p.all > 300);
    CHECK(p.right == p.all);
  }
  const Prediction random = prediction_of(play::scripted(agents::Opponent::kLevel0));
  CHECK(random.all > 300);
  CHECK(random.right < random.all / 4);  // where it turns by chance, nothing is known
}

TEST_CASE("a network's own moves are what a best response to it expects", "[property]") {
  const play::MakeMover bare = champion::bare();
  const std::vector<game::State> boards = champion::boards(2, 20);
  for (const int team : {0, 1}) {
    const std::vector<std::uint8_t> teams(boards.size(), static_cast<std::uint8_t>(team)),
        others(boards.size(), static_cast<std::uint8_t>(1 - team));
    std::vector<game::Actions> actions(boards.size(), game::Actions{}), foes = actions;
    std::vector<play::Reasons> reasons(boards.size());
    against(bare)(3)->act(boards, teams, 0, actions, reasons);
    bare(8)->act(boards, others, 0, foes, {});
    int seen = 0;
    for (std::size_t k = 0; k < boards.size(); ++k) {
      if (reasons[k].line.empty()) continue;
      ++seen;
      for (std::size_t i = 0; i < game::kTeamSize; ++i) {
        const std::size_t foe = static_cast<std::size_t>(1 - team) * game::kTeamSize + i;
        if (encode::fatal_moves(boards[k], static_cast<int>(foe)) == 15U) continue;  // it turns by chance
        CHECK(reasons[k].line[0][foe] == foes[k].of[foe]);
      }
    }
    CHECK(seen > 20);
  }
}

TEST_CASE("a contested cell is worth what the foes' known moves make of it, in each sample", "[unit]") {
  const game::State state = boards::contested();  // D may come from the right
  const auto worthless = [](std::span<const game::State> some, std::span<search::Leaf> leaves) {
    for (std::size_t k = 0; k < some.size(); ++k) {
      leaves[k] = {};
      for (int i = 0; i < game::kSnakes; ++i)
        leaves[k].open[i] = static_cast<std::uint8_t>(encode::open_moves(some[k], i));
    }
  };
  const search::Player player = *looking(search::Deviations::kAll, 2);
  const auto worth_of_contest = [&](std::uint8_t first, std::uint8_t second) {
    search::FoeSamples foes;
    for (const std::uint8_t move : {first, second}) {
      foes.push_back({boards::right()});
      foes.back()[0].of[3] = move;
    }
    const std::uint8_t team = 0;
    const std::uint64_t game = 0;
    game::Actions actions{};
    play::Reasons reasons;
    search::choose(player, worthless, {&state, 1}, {&team, 1}, 1, {&game, 1}, {&actions, 1}, {&reasons, 1},
                   foes);
    return reasons.worth[0][game::kRight];
  };
  CHECK(worth_of_contest(game::kLeft, game::kLeft) == Approx(-1.0));  // A loses three cells, D none
  CHECK(worth_of_contest(game::kUp, game::kUp) == Approx(0.0));
  CHECK(worth_of_contest(game::kUp, game::kLeft) == Approx(-0.5));
}

TEST_CASE("a player that only grows trees is no best response", "[unit]") {
  search::Spec spec = *search::try_spec("puct9");
  const auto player = std::make_shared<const search::Player>(search::Player{champion::net(), {}, spec});
  CHECK_THROWS_AS(search::best_response(player, champion::sight(), champion::bare()), base::Bug);
}
