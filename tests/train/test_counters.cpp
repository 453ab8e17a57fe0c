#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <iterator>
#include <string>
#include <utility>

#include "snake_ddp/base/error.hpp"
#include "snake_ddp/train/counters.hpp"

using namespace snake_ddp;

namespace {

bool is_new(const std::string& name) { return name == "evaluation_due" || name == "judgement_due"; }

}  // namespace

TEST_CASE("each counter comes back under its own name", "[unit]") {
  train::Counters counters;
  // Structured bindings name every counter: a new one does not compile here until it has a line.
  auto& [steps, updates, updates_due, empty_at, evaluations, checks, checkpoints, judgements, evaluation_due,
         judgement_due, best_win_rate, saved, seconds] = counters;
  const std::pair<const char*, std::int64_t*> whole[] = {{"steps", &steps},
                                                         {"updates", &updates},
                                                         {"empty_at", &empty_at},
                                                         {"evaluations", &evaluations},
                                                         {"checks", &checks},
                                                         {"checkpoints", &checkpoints},
                                                         {"judgements", &judgements},
                                                         {"evaluation_due", &evaluation_due},
                                                         {"judgement_due", &judgement_due},
                                                         {"saved", &saved}};
  const std::pair<const char*, double*> real[] = {
      {"updates_due", &updates_due}, {"best_win_rate", &best_win_rate}, {"seconds", &seconds}};
  double next = 10;
  for (const auto& [name, value] : whole) *value = static_cast<std::int64_t>(++next);
  for (const auto& [name, value] : real) *value = ++next;
  const train::Counters given = counters;
  const nets::NamedTensors kept = train::to_state(counters);
  REQUIRE(kept.size() == std::size(whole) + std::size(real));
  const auto stored = [&](const std::string& name) {
    for (const auto& [its_name, tensor] : kept)
      if (its_name == name) return tensor.item<double>();
    FAIL("no " + name);
    return 0.0;
  };
  for (const auto& [name, value] : whole) CHECK(stored(name) == static_cast<double>(*value));
  for (const auto& [name, value] : real) CHECK(stored(name) == *value);
  counters = train::counters_from(kept, "state");
  const nets::NamedTensors again = train::to_state(counters);
  for (std::size_t i = 0; i < kept.size(); ++i) CHECK(at::equal(again[i].second, kept[i].second));
  CHECK(counters.judgements == given.judgements);
}

TEST_CASE("counters come back as they were kept, and only as numbers of their type", "[unit]") {
  train::Counters counters;
  counters.steps = 1'000'000'000'000;
  counters.best_win_rate = 0.75;
  counters.evaluation_due = counters.judgement_due = 1;
  const nets::NamedTensors kept = train::to_state(counters);
  const train::Counters back = train::counters_from(kept, "state");
  CHECK(back.steps == counters.steps);
  CHECK(back.best_win_rate == counters.best_win_rate);
  CHECK(back.evaluation_due == 1);
  CHECK(back.judgement_due == 1);
  for (std::size_t i = 0; i < kept.size(); ++i) {
    CAPTURE(kept[i].first);
    nets::NamedTensors wrong = kept;
    wrong[i].second = at::scalar_tensor(0, at::kHalf);
    CHECK_THROWS_AS(train::counters_from(wrong, "state"), base::FileError);
    wrong[i].second = at::zeros({2}, kept[i].second.options());
    CHECK_THROWS_AS(train::counters_from(wrong, "state"), base::FileError);
    wrong.erase(wrong.begin() + static_cast<std::ptrdiff_t>(i));
    if (is_new(kept[i].first)) continue;  // below
    CHECK_THROWS_AS(train::counters_from(wrong, "state"), base::FileError);
  }
}

TEST_CASE("nothing is due in a state that does not know of it", "[unit]") {
  train::Counters counters;
  counters.evaluation_due = counters.judgement_due = 1;
  nets::NamedTensors old = train::to_state(counters);
  CHECK(std::erase_if(old, [](const auto& item) { return is_new(item.first); }) == 2);
  const train::Counters back = train::counters_from(old, "state");
  CHECK(back.evaluation_due == 0);
  CHECK(back.judgement_due == 0);
}
