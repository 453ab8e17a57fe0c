#include <catch2/catch.hpp>

#include "snake_ddp/core/error.hpp"
#include "snake_ddp/play/mover.hpp"

using namespace snake_ddp;

TEST_CASE("searches are named by kind and budget", "[unit]") {
  using Kind = play::SearchSpec::Kind;
  const auto look = play::try_spec("look4"), puct = play::try_spec("puct400"),
             timed = play::try_spec("puct@2.5ms"), batches = play::try_spec("puct400x16");
  REQUIRE((look && puct && timed && batches));
  CHECK((look->kind == Kind::kLook && look->count == 4));
  CHECK((puct->kind == Kind::kPuct && puct->count == 400 && puct->tree.leaves == 1));
  CHECK((batches->kind == Kind::kPuct && batches->count == 400 && batches->tree.leaves == 16));
  CHECK((timed->kind == Kind::kPuct && timed->count == 0 && timed->limit_ms == 2.5));
  for (const char* wrong : {"",           "look",
                            "look0",      "look-1",
                            "look4x",     "Look4",
                            "lok4",       "puct",
                            "puct0",      "puct@5",
                            "puct@ms",    "puct@0ms",
                            "puct@-1ms",  "puct@nanms",
                            "puct@infms", "puct 4",
                            "puct4x",     "puctx4",
                            "puct4x0",    "puct4x2x2",
                            "look4x2",    "look99999999999999999999"}) {
    INFO(wrong);
    CHECK_FALSE(play::try_spec(wrong));
  }
}

TEST_CASE("trees that do not fit into memory are refused, the largest that fit are not", "[unit]") {
  const auto puct = play::try_spec("puct1000000");
  REQUIRE(puct);
  const std::int64_t needed = play::Tree::most_bytes(1'000'000);
  CHECK(needed > std::int64_t{500} * 1'000'000);
  CHECK_NOTHROW(play::check_memory(*puct, 1, needed));
  CHECK_THROWS_WITH(play::check_memory(*puct, 1, needed - 1), Catch::Contains("puct1000000") &&
                                                                  Catch::Contains("on 1 board side") &&
                                                                  Catch::Contains("fewer simulations"));
  CHECK_THROWS_AS(play::check_memory(*puct, 64, 63 * needed), core::UsageError);
  for (const char* small : {"look1000", "puct@60000ms"})
    CHECK_NOTHROW(play::check_memory(*play::try_spec(small), 64, 0));
}

TEST_CASE("the forms of searches name their bounds", "[unit]") {
  for (const char* most : {"look1000", "puct1000000", "puct1x1000", "puct@60000ms", "puct@0.01ms"})
    CHECK(play::try_spec(most));
  for (const char* more : {"look1001", "puct1000001", "puct1x1001", "puct@60001ms", "puct@0.009ms"})
    CHECK_FALSE(play::try_spec(more));
  for (const char* bound : {"1 to 1000)", "1 to 1000000)", "x1000)", "0.01 to 60000)"})
    CHECK_THAT(play::kSpecForms, Catch::Contains(bound));
}
