#include "snake_ddp/train/elo.hpp"

#include <ATen/ATen.h>

#include <cmath>

#include "snake_ddp/base/error.hpp"

namespace snake_ddp::train {
namespace {

constexpr double kVirtualDraw = 0.5;  // points of each side
constexpr double kTwoSided95 = 1.959963984540054;
constexpr int kMostSteps = 200;

at::Tensor differences(const at::Tensor& strength) { return strength.unsqueeze(1) - strength.unsqueeze(0); }

double log_likelihood(const at::Tensor& points, const at::Tensor& strength) {
  return (points * at::log_sigmoid(differences(strength))).sum().item<double>();
}

}  // namespace

std::vector<Rating> fit_elo(std::size_t players, const std::vector<Meeting>& meetings,
                            std::optional<std::size_t> anchor) {
  const auto n = static_cast<std::int64_t>(players);
  SD_CHECK(n >= 2, "ratings need two players");
  at::Tensor points = at::zeros({n, n}, at::kDouble);  // of the row's player against the column's
  for (const Meeting& m : meetings) {
    SD_CHECK(m.a < players && m.b < players && m.a != m.b, "a meeting of players that are not there");
    const auto a = static_cast<std::int64_t>(m.a), b = static_cast<std::int64_t>(m.b);
    points[a][b] = static_cast<double>(m.wins) + 0.5 * static_cast<double>(m.draws) + kVirtualDraw;
    points[b][a] = static_cast<double>(m.losses) + 0.5 * static_cast<double>(m.draws) + kVirtualDraw;
  }
  const at::Tensor games = points + points.t();
  SD_CHECK(games.gt(0).sum().item<std::int64_t>() == n * (n - 1), "not every two players met");
  // Only differences of strengths matter: the information matrix is singular along the vector of ones, and this
  // makes it regular without touching any difference.
  const at::Tensor ones = at::full({n, n}, 1.0 / static_cast<double>(n), at::kDouble);
  const auto information = [&](const at::Tensor& strength) {
    const at::Tensor chance = at::sigmoid(differences(strength));
    const at::Tensor each = games * chance * (1 - chance);
    return at::diag(each.sum(1)) - each;
  };

  at::Tensor strength = at::zeros({n}, at::kDouble);
  double reached = log_likelihood(points, strength);
  for (int steps = 0;; ++steps) {
    SD_CHECK(steps < kMostSteps, "ratings do not converge");
    const at::Tensor gradient = (points - games * at::sigmoid(differences(strength))).sum(1);
    const at::Tensor step = at::linalg_solve(information(strength) + ones, gradient);
    // Far from the optimum a whole step may overshoot.
    double factor = 1.0;
    while (log_likelihood(points, strength + factor * step) < reached && factor > 1e-6) factor /= 2;
    if (factor <= 1e-6) break;  // rounding is all that is left
    strength = strength + factor * step;
    strength = strength - strength.mean();
    reached = log_likelihood(points, strength);
    if (factor * step.abs().max().item<double>() < 1e-12) break;
  }

  const at::Tensor covariance = at::linalg_inv(information(strength) + ones) - ones;
  const double to_elo = 400.0 / std::log(10.0);
  std::vector<Rating> ratings;
  const auto at_entry = [](const at::Tensor& t, std::int64_t i, std::int64_t j) {
    return t[i][j].item<double>();
  };
  for (std::int64_t i = 0; i < n; ++i) {
    double value = strength[i].item<double>(), variance = at_entry(covariance, i, i);
    if (anchor) {
      const auto zero = static_cast<std::int64_t>(*anchor);
      value -= strength[zero].item<double>();
      variance += at_entry(covariance, zero, zero) - 2 * at_entry(covariance, i, zero);
    }
    const double half = kTwoSided95 * std::sqrt(std::max(0.0, variance));
    ratings.push_back({to_elo * value, to_elo * (value - half), to_elo * (value + half)});
  }
  return ratings;
}

}  // namespace snake_ddp::train
