#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "snake_ddp/base/error.hpp"
#include "snake_ddp/train/counters.hpp"

using namespace snake_ddp;

TEST_CASE("counters come back as they were kept, and only as numbers of their type", "[unit]") {
  train::Counters counters;
  counters.steps = 1'000'000'000'000;
  counters.best_win_rate = 0.75;
  const nets::NamedTensors kept = train::to_state(counters);
  const train::Counters back = train::counters_from(kept, "state");
  CHECK(back.steps == counters.steps);
  CHECK(back.best_win_rate == counters.best_win_rate);
  for (std::size_t i = 0; i < kept.size(); ++i) {
    CAPTURE(kept[i].first);
    nets::NamedTensors wrong = kept;
    wrong[i].second = at::scalar_tensor(0, at::kHalf);
    CHECK_THROWS_AS(train::counters_from(wrong, "state"), base::FileError);
    wrong[i].second = at::zeros({2}, kept[i].second.options());
    CHECK_THROWS_AS(train::counters_from(wrong, "state"), base::FileError);
    wrong.erase(wrong.begin() + static_cast<std::ptrdiff_t>(i));
    CHECK_THROWS_AS(train::counters_from(wrong, "state"), base::FileError);
  }
}
