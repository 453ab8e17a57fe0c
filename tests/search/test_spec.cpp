#include <catch2/catch.hpp>

#include "snake_ddp/search/mover.hpp"

using namespace snake_ddp;

TEST_CASE("searches are named by kind and budget", "[unit]") {
  using Kind = search::Spec::Kind;
  const auto look = search::try_spec("look4"), puct = search::try_spec("puct400"),
             timed = search::try_spec("puct@2.5ms"), batches = search::try_spec("puct400x16");
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
    CHECK_FALSE(search::try_spec(wrong));
  }
}
