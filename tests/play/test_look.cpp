#include <catch2/catch.hpp>
#include <set>

#include "../game/boards.hpp"
#include "champion.hpp"
#include "snake_ddp/game/moves.hpp"

namespace {

using namespace snake_ddp;

bool same(const game::Actions& a, const game::Actions& b) {
  return std::equal(std::begin(a.of), std::end(a.of), std::begin(b.of));
}

// The moves of all games, in order.
std::vector<game::Actions> moves_of(const play::MakeMover& a, const play::MakeMover& b, std::int64_t games,
                                    std::int64_t seed = 5) {
  std::vector<std::vector<game::Actions>> of(static_cast<std::size_t>(games));
  play::MatchOptions options{games, static_cast<std::uint64_t>(seed)};
  options.on_step = [&](std::int64_t number, const game::Actions& actions, const game::StepResult&,
                        const game::State&) { of[static_cast<std::size_t>(number)].push_back(actions); };
  play::play_match(a, b, options);
  std::vector<game::Actions> all;
  for (const auto& some : of) all.insert(all.end(), some.begin(), some.end());
  return all;
}

bool same(const std::vector<game::Actions>& a, const std::vector<game::Actions>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const game::Actions& x, const game::Actions& y) { return same(x, y); });
}

// Every move is open and equally good, every board has value 0.
void indifferent(std::span<const game::State> boards, std::span<play::Leaf> leaves) {
  for (std::size_t k = 0; k < boards.size(); ++k) {
    leaves[k] = {};
    for (int i = 0; i < game::kSnakes; ++i)
      leaves[k].open[i] = static_cast<std::uint8_t>(game::open_moves(boards[k], i));
  }
}

play::TeamMoves chosen(const game::State& state, int team, const std::vector<play::TeamMoves>& candidates,
                       const std::vector<play::Sample>& samples) {
  const play::LookTask task{state, team, candidates, samples};
  return candidates[play::look({&task, 1}, 0.99, indifferent)[0].best];
}

}  // namespace

TEST_CASE("without a search the moves are the bare policy's, over whole games and on both sides",
          "[property]") {
  play::SearchSpec none;
  none.kind = play::SearchSpec::Kind::kNone;
  const play::MakeMover territory = play::scripted(game::Opponent::kTerritory);
  const int games = boards::kSlowdown > 1 ? 2 : 12;
  const auto bare = moves_of(champion::bare(), territory, games);
  REQUIRE(12 * bare.size() > 2000U * static_cast<unsigned>(games));
  CHECK(same(moves_of(champion::searching(none), territory, games), bare));
  CHECK_FALSE(same(moves_of(champion::searching({}), territory, games), bare));
}

TEST_CASE("searching games are the same again, however many boards are side by side", "[property]") {
  const auto spec = GENERATE(std::string("look3"), std::string("puct12"));
  const play::MakeMover mover = champion::searching(*play::try_spec(spec));
  const std::vector<game::State> boards = champion::boards(3, 5);
  const std::vector<std::uint8_t> team(boards.size(), 1);
  const auto moves = [&](std::uint64_t seed) {
    std::vector<game::Actions> all(boards.size(), game::Actions{});
    mover(seed)->act(boards, team, 40, all, {});
    return all;
  };
  const std::vector<game::Actions> together = moves(5);
  CHECK(same(moves(5), together));
  std::vector<game::Actions> alone(boards.size(), game::Actions{});
  for (std::size_t k = 0; k < boards.size(); ++k)
    mover(5)->act({&boards[k], 1}, {&team[k], 1}, 40 + static_cast<std::int64_t>(k), {&alone[k], 1}, {});
  CHECK(same(alone, together));
  bool differ = false;
  for (std::uint64_t seed = 6; seed < 12; ++seed) differ = differ || !same(moves(seed), together);
  CHECK(differ);
}

TEST_CASE("candidates are the bare moves and one deviation", "[unit]") {
  for (const game::State& state : champion::boards(2, 10)) {
    play::Leaf leaf;
    champion::evaluator()({&state, 1}, {&leaf, 1});
    for (const int team : {0, 1}) {
      const auto candidates = play::candidates_of(leaf, team);
      const play::TeamMoves bare = play::bare_moves(leaf, team);
      CHECK(candidates.front() == bare);
      std::size_t count = 1;
      for (int i = 0; i < game::kTeamSize; ++i)
        count += static_cast<std::size_t>(__builtin_popcount(leaf.open[team * game::kTeamSize + i])) - 1;
      CHECK(std::set<play::TeamMoves>(candidates.begin(), candidates.end()).size() == count);
      CHECK(candidates.size() == count);
      for (std::size_t k = 1; k < count; ++k) {
        int different = 0;
        for (std::size_t i = 0; i < bare.size(); ++i) {
          if (candidates[k][i] == bare[i]) continue;
          ++different;
          CHECK((leaf.open[static_cast<std::size_t>(team) * game::kTeamSize + i] >> candidates[k][i] & 1U) !=
                0);
        }
        CHECK(different == 1);
      }
    }
  }
}

TEST_CASE("the first sample has the foes' best moves, others draw by the temperature among open ones",
          "[unit]") {
  const game::State state = champion::boards(1, 4).back();
  play::Leaf leaf;
  champion::evaluator()({&state, 1}, {&leaf, 1});
  const play::MoveRandom dice(1, 2, 3, 0);
  const auto cold = play::samples_of(leaf, 0, 50, 1e-4F, dice),
             hot = play::samples_of(leaf, 0, 50, 1e4F, dice);
  const play::TeamMoves bare = play::bare_moves(leaf, 1);
  CHECK(hot[0].foes == bare);
  std::set<play::TeamMoves> different;
  std::set<std::uint32_t> words;
  for (std::size_t k = 0; k < hot.size(); ++k) {
    CHECK(cold[k].foes == bare);
    different.insert(hot[k].foes);
    words.insert(hot[k].draws.turn);
    for (const std::uint32_t word : hot[k].draws.bean) words.insert(word);
    for (int i = 0; i < game::kTeamSize; ++i)
      CHECK((leaf.open[game::kTeamSize + i] >> hot[k].foes[static_cast<std::size_t>(i)] & 1) == 1);
  }
  CHECK(different.size() > 3);
  CHECK(words.size() == 6 * hot.size());
  CHECK(play::samples_of(leaf, 0, 1, 1.0F, play::MoveRandom(1, 2, 4, 0))[0].draws.turn != hot[0].draws.turn);
}

TEST_CASE("drawn chance follows its numbers: beans by free cell, reversals by digits in base 3", "[unit]") {
  const play::Draws draws{0x80000000U, {0, 0xffffffffU, 0, 0, 0}};  // one half is 0.1111... in base 3
  play::DrawnChance chance(draws);
  const game::State state = boards::top(
      "..>>A...............\n....................\n....................\n"
      "....................\n....................\n");
  CHECK(chance.bean(state) == state.nth_free(0));
  CHECK(chance.bean(state) == state.nth_free(state.free_cells() - 1));
  for (int snake = 0; snake < game::kSnakes; ++snake) {
    CHECK(chance.turn(snake, 0) == 2);
    CHECK(chance.turn(snake, 3) == 1);
  }
}

TEST_CASE("a certain head-on with a short foe costs a long snake, and a bean is worth its point", "[unit]") {
  // D enters the cell, too.
  const game::State state = boards::contested();
  std::vector<play::Sample> straight = {{{game::kLeft, game::kRight, game::kRight}, {}}};
  const std::vector<play::TeamMoves> both = {{game::kRight, game::kRight, game::kRight},
                                             {game::kUp, game::kRight, game::kRight}};
  const play::LookTask task{state, 0, both, straight};
  const play::LookScores answer = play::look({&task, 1}, 0.99, indifferent)[0];
  // A loses its three grown cells, D nothing: it is as short as at the start.
  CHECK(answer.scores[0] == Approx(-1.0));
  CHECK(answer.scores[1] == Approx(0.0));
  CHECK(answer.best == 1);
  straight[0].foes[0] = game::kUp;  // D does not come: a tie, so the first candidate
  CHECK(chosen(state, 0, both, straight) == both[0]);
  // Seen from D the same collision is worth a point, so a look at D's side finds it.
  const std::vector<play::Sample> ahead = {{both[0], {}}};
  const std::vector<play::TeamMoves> others = {{game::kUp, game::kRight, game::kRight},
                                               {game::kLeft, game::kRight, game::kRight}};
  CHECK(chosen(state, 1, others, ahead) == others[1]);
}

TEST_CASE("a score is a mean over samples of lead and discounted value, without value at the end", "[unit]") {
  game::State state = boards::top(
      ".>>A.o..............\n"
      "....................\n"
      "....................\n"
      "....................\n"
      "....................\n");
  const auto worth_two = [](std::span<const game::State> boards, std::span<play::Leaf> leaves) {
    for (std::size_t k = 0; k < boards.size(); ++k) leaves[k].value = 2.0F;
  };
  const play::Sample on = {{game::kRight, game::kRight, game::kRight}, {}};
  play::LookTask task{state, 0, {{game::kRight, game::kRight, game::kRight}}, {on, on}};
  CHECK(play::look({&task, 1}, 0.5, worth_two)[0].scores[0] == Approx(1.0));
  task.team = 1;
  CHECK(play::look({&task, 1}, 0.5, worth_two)[0].scores[0] == Approx(-1.0));
  task.state.steps = game::kMaxSteps;
  CHECK(play::look({&task, 1}, 0.5, worth_two)[0].scores[0] == Approx(0.0));
  // Next to the bean a step takes it: a third of a point per snake.
  task = {boards::top("..>>Ao..............\n....................\n....................\n"
                      "....................\n....................\n"),
          0,
          {{game::kRight, game::kRight, game::kRight}},
          {on}};
  CHECK(play::look({&task, 1}, 0.5, worth_two)[0].scores[0] == Approx(1.0 / 3 + 1.0));
}
