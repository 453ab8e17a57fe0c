#include <array>
#include <catch2/catch.hpp>
#include <cmath>

#include "snake_ddp/core/simd.hpp"

using namespace snake_ddp;

TEST_CASE("the vector exponential is good to two units in the last place", "[property]") {
  double worst = 0;
  for (int i = -87 * 512; i <= 87 * 512; i += core::kLanes) {
    std::array<float, core::kLanes> x{}, y{};
    for (int k = 0; k < core::kLanes; ++k)
      x[static_cast<std::size_t>(k)] = static_cast<float>(i + k) / 512.0F;
    core::store(y.data(), core::exp_of(core::load(x.data())));
    for (std::size_t k = 0; k < x.size(); ++k) {
      if (x[k] > 87.0F) continue;
      const double exact = std::exp(static_cast<double>(x[k]));
      worst = std::max(worst, std::abs(static_cast<double>(y[k]) - exact) / exact);
    }
  }
  CHECK(worst < 2.5e-7);
}

TEST_CASE("inputs of the vector exponential beyond its range are taken as its ends", "[unit]") {
  std::array<float, core::kLanes> y{};
  core::store(y.data(), core::exp_of(core::all_lanes(1e9F)));
  CHECK(std::isfinite(y[0]));
  core::store(y.data(), core::exp_of(core::all_lanes(-1e9F)));
  CHECK(y[0] < 1e-37F);
  CHECK(y[0] > 0.0F);
}

TEST_CASE("what is not a number stays so", "[unit]") {
  std::array<float, core::kLanes> y{};
  const core::Vector nan = core::all_lanes(std::nanf(""));
  for (const core::Vector v :
       {core::max(nan, core::Vector{}), core::min(nan, core::Vector{}), core::exp_of(nan)}) {
    core::store(y.data(), v);
    CHECK(std::isnan(y[0]));
    CHECK(std::isnan(y.back()));
  }
  core::store(y.data(), core::max(core::all_lanes(-1.0F), core::Vector{}));
  CHECK(y[0] == 0.0F);
  core::store(y.data(), core::min(core::all_lanes(2.0F), core::all_lanes(1.0F)));
  CHECK(y[0] == 1.0F);
}

TEST_CASE("sums over lanes are exact for small whole numbers", "[unit]") {
  std::array<float, 4 * core::kLanes> x{};
  std::array<float, 4> expected{};
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(i * i % 97);
    expected[i / core::kLanes] += x[i];
  }
  const auto v = [&](int i) { return core::load(x.data() + i * core::kLanes); };
  const core::Vector4 sums = core::sums_of(v(0), v(1), v(2), v(3));
  for (int i = 0; i < 4; ++i) {
    CHECK(sums[i] == expected[static_cast<std::size_t>(i)]);
    CHECK(core::sum_of(v(i)) == expected[static_cast<std::size_t>(i)]);
  }
}
