#include <ATen/ATen.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "io/state_dict.hpp"
#include "learners/learner.hpp"
#include "learners/registry.hpp"
#include "named_tensors.hpp"
#include "snake_ddp/play/elo.hpp"
#include "test_data.hpp"
#include "train/judge.hpp"
#include "train/league.hpp"

namespace {

using namespace snake_ddp;
using game::Opponent;
using named_tensors::find, named_tensors::require_same;
using train::Judgement;
using train::League;
using train::LeagueOptions;

dist::DistContext& alone() {
  static dist::DistContext context(dist::World{}, dist::Options{});
  return context;
}

LeagueOptions small(std::vector<Opponent> scripted) {
  LeagueOptions o;
  o.scripted = std::move(scripted);
  o.places = 3;
  o.games = 40;
  o.entry = 0;
  o.seed = 4;
  return o;
}

std::unique_ptr<learners::Learner> untrained(std::uint64_t seed) {
  learners::LearnerOptions o;
  o.hidden_size = 8;
  o.seed = seed;
  return learners::make_learner(o);
}

Judgement judged(League& league, learners::Learner& learner, std::int64_t episode) {
  return league
      .judge(
          learner, episode, alone(), [](auto) {}, [] { return false; })
      .value();
}

// Members with these shares of points that the learner did not make.
League with_hardness(const std::vector<Opponent>& scripted, const std::vector<double>& hardness) {
  League league(small(scripted));
  nets::NamedTensors state = league.state();
  for (auto& [name, tensor] : state)
    if (name == "hardness") tensor = at::tensor(hardness, at::kDouble);
  league.restore(state, "a state");
  return league;
}

}  // namespace

TEST_CASE("a league restored from its state has the same state, and judges alike", "[unit]") {
  // More judgements than places: one frozen team has taken another's place.
  League one(small({Opponent::kLevel0, Opponent::kLevel2}));
  for (std::int64_t n = 1; n <= 5; ++n) {
    const auto learner = untrained(static_cast<std::uint64_t>(n));
    REQUIRE(judged(one, *learner, 10 * n).entered);
  }
  REQUIRE(one.members().size() == 5);

  League other(small({Opponent::kLevel0, Opponent::kLevel2}));
  other.restore(one.state(), "a state");
  require_same(one.state(), other.state());
  REQUIRE(other.members().size() == one.members().size());
  for (std::size_t k = 0; k < one.members().size(); ++k) {
    const train::LeagueMember &a = one.members()[k], &b = other.members()[k];
    CHECK(a.rival == b.rival);
    CHECK(a.episode == b.episode);
    CHECK(a.hardness == b.hardness);
    if (!a.rival.is_frozen()) continue;
    const at::Tensor seen = at::ones({1, 3, 31});
    CHECK(at::equal(one.frozen(a.rival.frozen)->action_values(seen).clone(),
                    other.frozen(b.rival.frozen)->action_values(seen)));
  }
  CHECK(one.frozen(3) == nullptr);

  // The games of a judgement depend on how many came before it.
  const auto learner = untrained(9);
  const Judgement a = judged(one, *learner, 90), b = judged(other, *learner, 90);
  REQUIRE(a.against.size() == b.against.size());
  for (std::size_t k = 0; k < a.against.size(); ++k) {
    CHECK(a.against[k].steps == b.against[k].steps);
    CHECK(a.against[k].score_a == b.against[k].score_a);
  }
  CHECK(a.rating.elo == b.rating.elo);
  require_same(one.state(), other.state());
  const Judgement next = judged(one, *learner, 100);
  CHECK(next.total.score_a != a.total.score_a);
}

TEST_CASE("a judgement that a stop interrupted is played again as if there had been no stop", "[unit]") {
  const auto learner = untrained(2);
  League one(small({Opponent::kLevel0, Opponent::kLevel2}));
  League other(small({Opponent::kLevel0, Opponent::kLevel2}));
  // Steps of a judgement before the stop: in the members' own games, and in the learner's.
  for (const int patience : {10, 250, 350}) {
    int asked = 0;
    REQUIRE_FALSE(one.judge(
        *learner, 20, alone(), [](auto) {}, [&] { return ++asked > patience; }));
  }
  const Judgement a = judged(one, *learner, 20), b = judged(other, *learner, 20);
  CHECK(a.total.score_a == b.total.score_a);
  CHECK(a.rating.elo == b.rating.elo);
  require_same(one.state(), other.state());
}

TEST_CASE("a frozen member does not change while the learner does", "[unit]") {
  League league(small({Opponent::kLevel0}));
  const auto learner = untrained(1);
  judged(league, *learner, 10);
  const at::Tensor seen = at::ones({1, 3, 31});
  const at::Tensor then = league.frozen(0)->action_values(seen).clone();
  CHECK(at::equal(then, learner->policy().action_values(seen)));
  for (const auto& [name, tensor] : learner->state()) tensor.zero_();
  learner->state_changed();
  CHECK(at::equal(league.frozen(0)->action_values(seen), then));
}

TEST_CASE("members are drawn in proportion to their difficulty, which counts at least 5 %", "[property]") {
  const std::vector<Opponent> who = {Opponent::kLevel0, Opponent::kLevel2, Opponent::kLevel3,
                                     Opponent::kTerritory};
  const std::vector<double> hardness = {0.0, 0.3, 0.04, 1.0}, counted = {0.05, 0.3, 0.05, 1.0};
  const League league = with_hardness(who, hardness);
  std::map<Opponent, double> met;
  constexpr std::uint64_t kDraws = 40000;
  for (std::uint64_t game = 1; game <= kDraws; ++game) {
    const game::Rival rival = league.drawn(7, game);
    REQUIRE(rival == league.drawn(7, game));
    ++met[*rival.scripted];
  }
  for (std::size_t k = 0; k < who.size(); ++k) {
    CAPTURE(k);
    const double p = counted[k] / 1.4;
    CHECK(std::abs(met[who[k]] - p * kDraws) < 5 * std::sqrt(kDraws * p * (1 - p)));
  }
  int different = 0;
  for (std::uint64_t game = 1; game <= 200; ++game)
    different += league.drawn(7, game) != league.drawn(8, game);
  CHECK(different > 30);
}

TEST_CASE("ratings order a weak, a middling and a strong learner among members that they follow from",
          "[unit]") {
  // One was trained, see tests/data; the other one never.
  learners::LearnerOptions with_26;
  with_26.features = 26;
  const auto strong = learners::make_learner(with_26), weak = learners::make_learner(with_26);
  nets::copy_state(io::load_state_dict(test_data("upstream_actor_2000.pth")), strong->exported_actor(),
                   "the file");
  strong->start_from_exported();

  LeagueOptions o = small({Opponent::kLevel0, Opponent::kTerritory});
  o.obs_spec.kind = game::ObsKind::k26;
  o.games = 400;
  o.entry = 0.3;
  League league(o);
  const Judgement of_weak = judged(league, *weak, 10), of_strong = judged(league, *strong, 20);
  CHECK(of_weak.rating.elo < of_strong.rating.elo - 100);
  CHECK(of_strong.rating.low < of_strong.rating.elo);
  CHECK(of_strong.rating.elo < of_strong.rating.high);
  CHECK(of_strong.rating.elo > 0);  // level 0 moves at random
  CHECK_FALSE(of_weak.entered);
  REQUIRE(of_strong.entered);
  REQUIRE(league.members().size() == 3);
  CHECK(of_strong.against[0].wins > of_strong.against[0].losses);
  for (std::size_t k = 0; k < 2; ++k) {
    const play::MatchResult& r = of_strong.against[k];
    const double points = static_cast<double>(r.wins) + 0.5 * static_cast<double>(r.draws);
    CHECK(league.members()[k].hardness == Approx(1 - points / static_cast<double>(r.games)));
  }

  // What the members played among themselves: level 0 against territory once, the copy when it came in.
  const at::Tensor met = find(league.state(), "met").view({-1, 5});
  REQUIRE(met.size(0) == 3);
  const auto row = [&](std::int64_t r, std::int64_t c) { return met[r][c].item<std::int64_t>(); };
  CHECK((row(0, 0) == 0 && row(0, 1) == 1));
  CHECK(row(0, 4) > row(0, 2) + 100);  // territory beats level 0
  CHECK(row(0, 2) + row(0, 3) + row(0, 4) == 200);
  for (std::int64_t k = 0; k < 2; ++k) {
    const play::MatchResult& r = of_strong.against[static_cast<std::size_t>(k)];
    CHECK((row(1 + k, 0) == 2 && row(1 + k, 1) == k));
    CHECK((row(1 + k, 2) == r.wins && row(1 + k, 3) == r.draws && row(1 + k, 4) == r.losses));
  }

  // A weak one's rating among all three, made from the same games.
  const Judgement last = judged(league, *weak, 30);
  std::vector<play::Meeting> meetings;
  for (std::int64_t r = 0; r < 3; ++r)
    meetings.push_back({static_cast<std::size_t>(row(r, 0)), static_cast<std::size_t>(row(r, 1)), row(r, 2),
                        row(r, 3), row(r, 4)});
  for (std::size_t k = 0; k < 3; ++k)
    meetings.push_back({3, k, last.against[k].wins, last.against[k].draws, last.against[k].losses});
  const std::vector<play::Rating> ratings = play::fit_elo(4, meetings, 0);
  CHECK(last.rating.elo == Approx(ratings[3].elo));
  CHECK(last.rating.low == Approx(ratings[3].low));
  CHECK(ratings[1].elo > ratings[0].elo + 100);
  CHECK(ratings[2].elo > ratings[3].elo + 100);
}

TEST_CASE("with a search, learner and copies look ahead in judgements", "[unit]") {
  learners::LearnerOptions q;
  q.algo = "dqn";
  q.hidden_size = 8;
  const auto learner = learners::make_learner(q);
  LeagueOptions o = small({Opponent::kLevel0});
  o.search = play::try_spec("look1");
  League league(o);
  const rollout::Player bare{std::nullopt, &learner->policy(), o.obs_spec, false, o.mask_fatal},
      self = rollout::with_search(bare, o.search, o.training, learner->exported_actor());
  const auto score = [](const play::MatchResult& r) { return std::pair(r.score_a, r.score_b); };
  const auto played = [&](const rollout::Player& other, std::int64_t number, std::int64_t games) {
    play::MatchOptions match;
    match.games = games;
    match.seed = static_cast<std::uint64_t>(4 + number * 1000003);
    return score(rollout::play_match(self, other, match));
  };
  const Judgement first = judged(league, *learner, 10), second = judged(league, *learner, 20);
  REQUIRE(first.entered);
  CHECK(score(first.total) == played({Opponent::kLevel0, nullptr, {}, false}, 1, 40));
  CHECK(score(second.against[1]) == played(self, 2, 20));
  CHECK(score(second.against[1]) != played(bare, 2, 20));
}

TEST_CASE("a learner enters with the required number of wins, and not with fewer", "[unit]") {
  League first(small({Opponent::kLevel0}));
  const auto learner = untrained(3);
  const double won = judged(first, *learner, 10).total.win_rate();
  REQUIRE((won > 0 && won < 1));
  LeagueOptions o = small({Opponent::kLevel0});
  for (const double entry : {won, won + 1e-9}) {
    o.entry = entry;
    League league(o);
    CHECK(judged(league, *learner, 10).entered == (entry == won));
  }
}

TEST_CASE("a full league replaces its easiest frozen team and forgets the games against it", "[unit]") {
  LeagueOptions o = small({Opponent::kLevel0});
  o.places = 2;
  League league(o);
  for (std::int64_t n = 1; n <= 2; ++n) judged(league, *untrained(static_cast<std::uint64_t>(n)), 10 * n);
  REQUIRE(league.members().size() == 3);
  const auto learner = untrained(7);
  const Judgement j = judged(league, *learner, 30);
  REQUIRE(league.members().size() == 3);
  const auto points = [&](std::size_t k) {
    return static_cast<double>(j.against[k].wins) + 0.5 * static_cast<double>(j.against[k].draws);
  };
  REQUIRE(points(1) != points(2));
  const int gone = points(1) > points(2) ? 0 : 1;
  CHECK(league.members()[0].rival.scripted == Opponent::kLevel0);
  CHECK(league.members()[1].episode == (gone == 0 ? 20 : 10));
  CHECK(league.members()[2].episode == 30);
  CHECK(league.members()[2].rival.frozen == gone);
  CHECK(league.members()[2].hardness == 0.5);
  const at::Tensor seen = at::ones({1, 3, 31});
  CHECK(at::equal(league.frozen(gone)->action_values(seen).clone(), learner->policy().action_values(seen)));
  CHECK(find(league.state(), "met").numel() == 5 * 3);  // each two of three once
}
