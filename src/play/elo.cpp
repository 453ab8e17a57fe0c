#include "snake_ddp/play/elo.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "snake_ddp/core/check.hpp"

namespace snake_ddp::play {
namespace {

constexpr double kVirtualDraw = 0.5;  // points of each side
constexpr double kTwoSided95 = 1.959963984540054;
constexpr int kMostSteps = 200;

using Vector = std::vector<double>;

// n x n, rows one after another.
struct Matrix {
  explicit Matrix(std::size_t size) : n(size), values(size * size, 0.0) {}
  double& operator()(std::size_t row, std::size_t column) { return values[row * n + column]; }
  double operator()(std::size_t row, std::size_t column) const { return values[row * n + column]; }

  std::size_t n;
  Vector values;
};

double win_chance(double difference) { return 1.0 / (1.0 + std::exp(-difference)); }

// log(win_chance(x)) without overflow.
double log_chance(double x) { return std::min(x, 0.0) - std::log1p(std::exp(-std::abs(x))); }

double log_likelihood(const Matrix& points, const Vector& strength) {
  double sum = 0;
  for (std::size_t i = 0; i < points.n; ++i)
    for (std::size_t j = 0; j < points.n; ++j) sum += points(i, j) * log_chance(strength[i] - strength[j]);
  return sum;
}

// The information matrix plus 1/n everywhere. Only differences of strengths matter: the matrix alone is singular along the
// vector of ones, and this makes it regular without touching any difference.
Matrix information(const Matrix& points, const Vector& strength) {
  const std::size_t n = points.n;
  Matrix out(n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      const double chance = win_chance(strength[i] - strength[j]);
      const double each = i == j ? 0.0 : (points(i, j) + points(j, i)) * chance * (1 - chance);
      out(i, j) -= each;
      out(i, i) += each;
    }
  }
  for (double& value : out.values) value += 1.0 / static_cast<double>(n);
  return out;
}

// The lower triangle L of a positive definite matrix L L^T.
Matrix cholesky(Matrix a) {
  for (std::size_t j = 0; j < a.n; ++j) {
    for (std::size_t k = 0; k < j; ++k)
      for (std::size_t i = j; i < a.n; ++i) a(i, j) -= a(i, k) * a(j, k);
    const double root = std::sqrt(a(j, j));
    for (std::size_t i = j; i < a.n; ++i) a(i, j) /= root;
  }
  return a;
}

// x with L L^T x = b.
Vector solve(const Matrix& lower, Vector b) {
  const std::size_t n = lower.n;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < i; ++k) b[i] -= lower(i, k) * b[k];
    b[i] /= lower(i, i);
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) b[i] -= lower(k, i) * b[k];
    b[i] /= lower(i, i);
  }
  return b;
}

Matrix points_of(std::size_t players, const std::vector<Meeting>& meetings) {
  Matrix points(players);  // of the row's player against the column's
  for (const Meeting& m : meetings) {
    SD_CHECK(m.a < players && m.b < players && m.a != m.b,
             fmt::format("players {} and {} of {}", m.a, m.b, players));
    points(m.a, m.b) = static_cast<double>(m.wins) + 0.5 * static_cast<double>(m.draws) + kVirtualDraw;
    points(m.b, m.a) = static_cast<double>(m.losses) + 0.5 * static_cast<double>(m.draws) + kVirtualDraw;
  }
  for (std::size_t i = 0; i < players; ++i)
    for (std::size_t j = 0; j < i; ++j)
      SD_CHECK(points(i, j) > 0, fmt::format("every two players must have met; {} and {} have not", i, j));
  return points;
}

// By Newton's method.
Vector likeliest_strengths(const Matrix& points) {
  const std::size_t n = points.n;
  Vector strength(n, 0.0);
  double reached = log_likelihood(points, strength);
  for (int steps = 0;; ++steps) {
    SD_CHECK(steps < kMostSteps, "ratings must converge; steps: " + std::to_string(kMostSteps));
    Vector gradient(n, 0.0);
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j)
        gradient[i] += points(i, j) - (points(i, j) + points(j, i)) * win_chance(strength[i] - strength[j]);
    const Vector step = solve(cholesky(information(points, strength)), gradient);
    const auto moved = [&](double factor) {
      Vector to = strength;
      for (std::size_t i = 0; i < n; ++i) to[i] += factor * step[i];
      return to;
    };
    // Far from the optimum a whole step may overshoot.
    double factor = 1.0;
    while (log_likelihood(points, moved(factor)) < reached && factor > 1e-6) factor /= 2;
    if (factor <= 1e-6) return strength;  // rounding is all that is left
    strength = moved(factor);
    double mean = 0, largest = 0;
    for (std::size_t i = 0; i < n; ++i) {
      mean += strength[i] / static_cast<double>(n);
      largest = std::max(largest, std::abs(factor * step[i]));
    }
    for (double& s : strength) s -= mean;
    reached = log_likelihood(points, strength);
    if (largest < 1e-12) return strength;
  }
}

}  // namespace

std::vector<Rating> fit_elo(std::size_t players, const std::vector<Meeting>& meetings,
                            std::optional<std::size_t> anchor) {
  SD_CHECK(players >= 2, "ratings need two players");
  const Matrix points = points_of(players, meetings);
  const Vector strength = likeliest_strengths(points);
  const Matrix lower = cholesky(information(points, strength));
  const double to_elo = 400.0 / std::log(10.0);
  std::vector<Rating> ratings;
  for (std::size_t i = 0; i < players; ++i) {
    // The variance of the player's strength, or of its difference to the anchor's: d^T C d.
    Vector d(players, 0.0);
    d[i] = 1.0;
    if (anchor) d[*anchor] -= 1.0;
    const Vector c = solve(lower, d);
    double variance = anchor ? 0.0 : -1.0 / static_cast<double>(players);
    for (std::size_t k = 0; k < players; ++k) variance += d[k] * c[k];
    const double value = strength[i] - (anchor ? strength[*anchor] : 0.0);
    const double half = kTwoSided95 * std::sqrt(std::max(0.0, variance));
    ratings.push_back({to_elo * value, to_elo * (value - half), to_elo * (value + half)});
  }
  return ratings;
}

double log_likelihood_ratio(const std::array<std::int64_t, 5>& pairs, const Sprt& test) {
  constexpr double kUnseen = 1e-3;  // results that did not happen: the variance is never 0
  double count = 0, sum = 0, squares = 0;
  for (std::size_t k = 0; k < pairs.size(); ++k) {
    const double n = std::max(static_cast<double>(pairs[k]), kUnseen), score = 0.25 * static_cast<double>(k);
    count += n, sum += n * score, squares += n * score * score;
  }
  const double mean = sum / count, variance = squares / count - mean * mean;
  const auto expected = [](double elo) { return 1 / (1 + std::pow(10.0, -elo / 400)); };
  const double s0 = expected(test.elo0), s1 = expected(test.elo1);
  return count * (s1 - s0) * (2 * mean - s0 - s1) / (2 * variance);
}

double sprt_bound() { return std::log((1 - 0.05) / 0.05); }

}  // namespace snake_ddp::play
