#include <ATen/ATen.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "periodic.hpp"
#include "snake_ddp/core/error.hpp"
#include "train/counters.hpp"

using namespace snake_ddp;

namespace {

train::Counters some_counters() {
  train::Counters counters;
  // Structured bindings name every counter: a new one does not compile here until it has a line.
  auto& [steps, updates, updates_due, empty_at, board_steps, best_win_rate, seconds, jobs] = counters;
  steps = 1'000'000'000'000;
  updates = 12;
  updates_due = 0.375;
  empty_at = 13;
  board_steps = 4'000'000'000'000;
  best_win_rate = 0.75;
  seconds = 14.5;
  jobs = {{"saved", 15}, {"checks", 16}, {"evaluations", 17}, {"evaluation_due", 1}, {"checkpoints", 18}};
  return counters;
}

bool is_of_a_job(const std::string& name) { return some_counters().jobs.contains(name); }

}  // namespace

TEST_CASE("each counter comes back under its own name", "[unit]") {
  const nets::NamedTensors kept = train::to_state(some_counters());
  const std::pair<const char*, double> expected[] = {
      {"steps", 1e12},       {"updates", 12},         {"updates_due", 0.375}, {"empty_at", 13},
      {"board_steps", 4e12}, {"best_win_rate", 0.75}, {"seconds", 14.5},      {"saved", 15},
      {"checks", 16},        {"evaluations", 17},     {"evaluation_due", 1},  {"checkpoints", 18}};
  REQUIRE(kept.size() == std::size(expected));
  for (const auto& [name, value] : expected) {
    CAPTURE(name);
    const auto found = std::find_if(kept.begin(), kept.end(), [&](const auto& k) { return k.first == name; });
    REQUIRE(found != kept.end());
    CHECK(found->second.item<double>() == value);
  }
  const train::Counters back = train::counters_from(kept, "state");
  CHECK(back.jobs == some_counters().jobs);
  const nets::NamedTensors again = train::to_state(back);
  REQUIRE(again.size() == kept.size());
  for (std::size_t i = 0; i < kept.size(); ++i) CHECK(at::equal(again[i].second, kept[i].second));
}

TEST_CASE("counters come back only as numbers of their type", "[unit]") {
  const nets::NamedTensors kept = train::to_state(some_counters());
  for (std::size_t i = 0; i < kept.size(); ++i) {
    CAPTURE(kept[i].first);
    nets::NamedTensors wrong = kept;
    wrong[i].second = at::scalar_tensor(0, at::kHalf);
    CHECK_THROWS_AS(train::counters_from(wrong, "state"), core::FileError);
    wrong[i].second = at::zeros({2}, kept[i].second.options());
    CHECK_THROWS_AS(train::counters_from(wrong, "state"), core::FileError);
    wrong.erase(wrong.begin() + static_cast<std::ptrdiff_t>(i));
    if (!is_of_a_job(kept[i].first)) CHECK_THROWS_AS(train::counters_from(wrong, "state"), core::FileError);
  }
}

TEST_CASE("ranks compare all counters but those that rank 0 alone uses", "[unit]") {
  const std::string text = train::equal_text(some_counters());
  for (const auto& [name, tensor] : train::to_state(some_counters())) {
    CAPTURE(name);
    const bool is_named = (", " + text).find(", " + name + " ") != std::string::npos;
    CHECK(is_named == (name != "seconds" && name != "saved"));
    train::Counters other = some_counters();
    if (!is_of_a_job(name)) continue;
    ++other.jobs[name];
    CHECK((train::equal_text(other) != text) == is_named);
  }
}

TEST_CASE("periodic jobs have their names in checkpoints", "[unit]") {
  std::vector<std::string> counters, due;
  for (const train::Job& job : train::jobs()) {
    counters.emplace_back(job.counter);
    if (job.due != nullptr) due.emplace_back(job.due);
  }
  for (const char* name : {"saved", "checks", "evaluations", "judgements", "checkpoints"})
    CHECK(std::count(counters.begin(), counters.end(), name) == 1);
  CHECK(due == std::vector<std::string>{"evaluation_due", "judgement_due"});
}
