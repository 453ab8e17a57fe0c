#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "snake_ddp/core/random.hpp"
#include "snake_ddp/play/elo.hpp"

namespace {

using namespace snake_ddp;
using play::fit_elo;
using play::Meeting;
using play::Rating;

double expected_points(double difference) { return 1.0 / (1.0 + std::pow(10.0, -difference / 400.0)); }

// A plain way to the same ratings: Hunter (2004), "MM algorithms for generalized Bradley-Terry models", with the same
// virtual draw.
std::vector<double> fitted_by_mm(std::size_t players, const std::vector<Meeting>& meetings) {
  std::vector<double> strength(players, 1.0);
  for (int round = 0; round < 20000; ++round) {
    std::vector<double> points(players, 0.0), expected(players, 0.0);
    for (const Meeting& m : meetings) {
      const double games = static_cast<double>(m.wins + m.draws + m.losses) + 1;
      points[m.a] += static_cast<double>(m.wins) + 0.5 * static_cast<double>(m.draws) + 0.5;
      points[m.b] += static_cast<double>(m.losses) + 0.5 * static_cast<double>(m.draws) + 0.5;
      expected[m.a] += games / (strength[m.a] + strength[m.b]);
      expected[m.b] += games / (strength[m.a] + strength[m.b]);
    }
    for (std::size_t i = 0; i < players; ++i) strength[i] = points[i] / expected[i];
  }
  double mean = 0;
  for (double& s : strength) {
    s = 400 * std::log10(s);
    mean += s / static_cast<double>(players);
  }
  for (double& s : strength) s -= mean;
  return strength;
}

std::vector<Meeting> everyone_meets(const std::vector<double>& elo, std::int64_t games, std::uint64_t seed) {
  std::vector<Meeting> meetings;
  for (std::size_t a = 0; a < elo.size(); ++a) {
    for (std::size_t b = a + 1; b < elo.size(); ++b) {
      Meeting m{a, b, 0, 0, 0};
      for (std::int64_t game = 0; game < games; ++game) {
        const auto draw =
            core::random_block(seed, a * 100 + b, static_cast<std::uint32_t>(game), core::Purpose::kAct);
        const bool won = core::unit_float(draw.word[0]) < expected_points(elo[a] - elo[b]);
        m.wins += won;
        m.losses += !won;
      }
      meetings.push_back(m);
    }
  }
  return meetings;
}

}  // namespace

TEST_CASE("two players' ratings are what the share of points says", "[unit]") {
  // 60 wins, 20 draws, 20 losses and the virtual draw: 70.5 points of 101.
  const std::vector<Rating> r = fit_elo(2, {{0, 1, 60, 20, 20}}, std::nullopt);
  const double difference = 400 * std::log10(70.5 / 30.5);
  CHECK(r[0].elo == Approx(difference / 2));
  CHECK(r[1].elo == Approx(-difference / 2));

  // Its deviation is 1 / sqrt(n p (1 - p)) in natural units.
  const std::vector<Rating> anchored = fit_elo(2, {{0, 1, 60, 20, 20}}, 1);
  const double deviation = 400 / std::log(10.0) / std::sqrt(101 * (70.5 / 101) * (30.5 / 101));
  CHECK(anchored[0].elo == Approx(difference));
  CHECK(anchored[0].high - anchored[0].elo == Approx(1.959964 * deviation));
  CHECK(anchored[0].elo - anchored[0].low == Approx(1.959964 * deviation));
  CHECK(anchored[1].elo == 0.0);
  CHECK(anchored[1].low == Approx(0.0).margin(1e-9));
  CHECK(anchored[1].high == Approx(0.0).margin(1e-9));
  // Half of the difference is known twice as well as the difference.
  CHECK(r[0].high - r[0].elo == Approx(1.959964 * deviation / 2));
}

TEST_CASE("a player that wins or loses all games has a finite rating that grows with the games", "[unit]") {
  const auto rated = [](std::int64_t games) {
    return fit_elo(3, {{0, 1, games, 0, 0}, {0, 2, games, 0, 0}, {1, 2, 0, games, 0}}, std::nullopt);
  };
  const std::vector<Rating> few = rated(10), many = rated(1000);
  for (const std::vector<Rating>& r : {few, many}) {
    for (const Rating& one : r) CHECK((std::isfinite(one.elo) && one.low < one.elo && one.elo < one.high));
    CHECK(r[0].elo > r[1].elo);
    CHECK(r[1].elo == Approx(r[2].elo));
    CHECK(r[0].elo + r[1].elo + r[2].elo == Approx(0.0).margin(1e-6));
  }
  // Alone against two equals it is their common opponent in 2 n games, 2 (n + 1/2) points to 2 (1/2).
  CHECK(few[0].elo - few[1].elo == Approx(400 * std::log10(10.5 / 0.5)));
  CHECK(many[0].elo - many[1].elo == Approx(400 * std::log10(1000.5 / 0.5)));
}

TEST_CASE("an anchor moves all ratings by the same and makes its own exact", "[unit]") {
  const std::vector<Meeting> meetings = everyone_meets({200, 0, -50, -300}, 50, 4);
  const std::vector<Rating> free = fit_elo(4, meetings, std::nullopt), anchored = fit_elo(4, meetings, 2);
  for (std::size_t i = 0; i < 4; ++i)
    CHECK(anchored[i].elo == Approx(free[i].elo - free[2].elo).margin(1e-6));
  CHECK(anchored[2].high - anchored[2].low == Approx(0.0).margin(1e-6));
  CHECK(anchored[0].high - anchored[0].low > 10);
}

TEST_CASE("ratings do not depend on the order of players", "[property]") {
  const std::vector<Meeting> meetings = everyone_meets({200, 0, -50, -300}, 50, 5);
  std::vector<Meeting> turned;
  for (const Meeting& m : meetings) turned.push_back({3 - m.a, 3 - m.b, m.wins, m.draws, m.losses});
  const std::vector<Rating> one = fit_elo(4, meetings, std::nullopt),
                            other = fit_elo(4, turned, std::nullopt);
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(one[i].elo == Approx(other[3 - i].elo).margin(1e-6));
    CHECK(one[i].high == Approx(other[3 - i].high).margin(1e-6));
  }
}

TEST_CASE("Newton's ratings are those of the plain algorithm", "[parity]") {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    std::vector<Meeting> meetings = everyone_meets({900, 150, 100, 0, -100, -800}, 40, seed);
    meetings[3].draws = 17;
    const std::vector<double> plain = fitted_by_mm(6, meetings);
    const std::vector<Rating> ours = fit_elo(6, meetings, std::nullopt);
    for (std::size_t i = 0; i < 6; ++i) CHECK(ours[i].elo == Approx(plain[i]).margin(1e-4));
  }
}

TEST_CASE("19 of 20 intervals hold the strength that made the games", "[property]") {
  const std::vector<double> truth = {150, 40, 0, -60, -130};
  int held = 0, held_anchored = 0, all = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const std::vector<Meeting> meetings = everyone_meets(truth, 100, seed + 1000);
    const std::vector<Rating> free = fit_elo(5, meetings, std::nullopt), anchored = fit_elo(5, meetings, 2);
    for (std::size_t i = 0; i < 5; ++i) {
      ++all;
      held += free[i].low <= truth[i] && truth[i] <= free[i].high;
      held_anchored += i == 2 || (anchored[i].low <= truth[i] && truth[i] <= anchored[i].high);
    }
  }
  CHECK(static_cast<double>(held) / all == Approx(0.95).margin(0.025));
  CHECK(static_cast<double>(held_anchored) / all ==
        Approx(0.96).margin(0.025));  // a fifth of them is the anchor's
}

TEST_CASE("ratings require that all players met", "[unit]") {
  CHECK_THROWS(fit_elo(4, {{0, 1, 3, 0, 4}, {2, 3, 1, 0, 1}}, std::nullopt));
  CHECK_NOTHROW(fit_elo(3, {{0, 1, 3, 0, 4}, {0, 2, 0, 0, 0}, {2, 1, 1, 0, 1}}, std::nullopt));
}

TEST_CASE("a sequential test rejects a true hypothesis in at most 5 % of tests, and a false one mostly",
          "[unit]") {
  constexpr int kTests = 2000;
  const play::Sprt test{0, 20};
  const auto rejected = [&](double elo, bool upper) {
    int count = 0;
    for (int t = 0; t < kTests; ++t) {
      std::array<std::int64_t, 5> pairs{};
      double ratio = 0;
      for (std::uint64_t round = 0; std::abs(ratio) < play::sprt_bound(); ++round) {
        for (std::uint32_t k = 0; k < 64; ++k) {
          const core::RandomBlock draw =
              core::random_block(static_cast<std::uint64_t>(t) + 1, round, k, core::Purpose::kAct);
          int points = 0;
          for (int game = 0; game < 2; ++game)
            points += 2 * static_cast<int>(static_cast<double>(core::unit_float(draw.word[game])) <
                                           expected_points(elo));
          ++pairs[static_cast<std::size_t>(points)];
        }
        ratio = play::log_likelihood_ratio(pairs, test);
      }
      count += static_cast<int>((ratio > 0) == upper);
    }
    return static_cast<double>(count) / kTests;
  };
  CHECK(rejected(0, true) < 0.06);
  CHECK(rejected(20, false) < 0.06);
  CHECK(rejected(40, true) > 0.99);
  // By hand: 10 pairs of one win and one loss each, which is right between the hypotheses of -10 and 10 Elo.
  CHECK(play::log_likelihood_ratio({2, 0, 6, 0, 2}, {-10, 10}) == Approx(0).margin(1e-9));
  // Of 100 pairs with mean 0.55 and variance 0.1225.
  const double s1 = expected_points(10), mean = 0.55, variance = 0.1225;
  CHECK(play::log_likelihood_ratio({20, 0, 50, 0, 30}, {0, 10}) ==
        Approx(100 * (s1 - 0.5) * (2 * mean - 0.5 - s1) / (2 * variance)).epsilon(1e-3));
}
