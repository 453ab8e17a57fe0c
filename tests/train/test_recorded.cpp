#include "snake_ddp/train/recorded.hpp"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

using namespace snake_ddp;

namespace {

// Records its calls.
class Noted final : public train::Recording {
 public:
  explicit Noted(std::string& notes) : notes_(notes) {}
  void begin() override { notes_ += "("; }
  void end() override { notes_ += ")"; }
  void replay() override { notes_ += "r"; }

 private:
  std::string& notes_;
};

}  // namespace

TEST_CASE("work is recorded after its warm-up and replayed from then on, each kind by itself", "[unit]") {
  std::string notes;
  train::Recorded recorded([&] { return std::make_unique<Noted>(notes); }, 2);
  std::vector<bool> ran;
  for (const int kind : {0, 0, 1, 0, 0, 1, 1, 0, 1})
    ran.push_back(recorded.run(kind, [&] { notes += static_cast<char>('a' + kind); }));
  CHECK(notes == "aab(a)rrb(b)rrr");
  CHECK(ran == std::vector<bool>{true, true, true, true, false, true, true, false, false});
}

TEST_CASE("without recordings all work runs normally", "[unit]") {
  train::Recorded recorded({}, 2);
  int calls = 0;
  for (int i = 0; i < 5; ++i) CHECK(recorded.run(0, [&] { ++calls; }));
  CHECK(calls == 5);
}
