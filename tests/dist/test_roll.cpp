#include <catch2/catch.hpp>
#include <string>

#include "roll.hpp"
#include "snake_ddp/core/error.hpp"

using namespace snake_ddp;
using Catch::Contains;
using dist::Hello;

namespace {

Hello hello(int rank, int size, const std::string& token, const std::string& build = "b1") {
  return {token, rank, size, "host" + std::to_string(rank), 100 + rank, build};
}

}  // namespace

TEST_CASE("a Hello survives the store", "[unit]") {
  const Hello sent{"token", 3, 8, "node-1.cluster", 4711, "1.0 avx2\nof today"};
  const Hello got = dist::decode_hello(dist::encode(sent));
  CHECK(got.token == sent.token);
  CHECK(got.rank == 3);
  CHECK(got.size == 8);
  CHECK(got.host == sent.host);
  CHECK(got.pid == 4711);
  CHECK(got.fingerprint == "1.0 avx2 of today");
}

TEST_CASE("text that is not a Hello is rejected", "[unit]") {
  CHECK_THROWS_AS(dist::decode_hello(""), core::DistError);
  CHECK_THROWS_AS(dist::decode_hello("token\nx\n2\nhost\n1\n"), core::DistError);
  CHECK_THROWS_AS(dist::decode_hello("token\n2\n2\nhost\n1\n"), core::DistError);
}

TEST_CASE("a group forms when every rank has answered once", "[unit]") {
  const dist::Roll early = dist::call_roll(hello(0, 4, "z"), {hello(2, 4, "a")});
  CHECK(early.refusal.empty());
  CHECK(early.missing == std::vector<int>{1, 3});
  const dist::Roll whole = dist::call_roll(hello(0, 3, "z"), {hello(2, 3, "a"), hello(1, 3, "b")});
  CHECK(whole.refusal.empty());
  CHECK(whole.missing.empty());
  REQUIRE(whole.members.size() == 3);
  CHECK(whole.members[1].token == "b");
  CHECK(whole.members[2].token == "a");
}

TEST_CASE("two processes that claim one rank are named with host and process number", "[unit]") {
  const dist::Roll roll = dist::call_roll(hello(0, 3, "z"), {hello(1, 3, "a"), hello(1, 3, "b")});
  CHECK_THAT(roll.refusal, Contains("two processes claim rank 1") && Contains("host1 (pid 101)"));
  CHECK_THAT(dist::call_roll(hello(0, 3, "z"), {hello(0, 3, "y")}).refusal, Contains("claim rank 0"));
}

TEST_CASE("another world size is rejected and both sizes are named", "[unit]") {
  const dist::Roll roll = dist::call_roll(hello(0, 2, "z"), {hello(2, 3, "a")});
  CHECK_THAT(roll.refusal, Contains("rank 2 on host2 (pid 102) was started with WORLD_SIZE=3") &&
                               Contains("rank 0 on host0 (pid 100) with WORLD_SIZE=2"));
}

TEST_CASE("another build is rejected", "[unit]") {
  CHECK_THAT(dist::call_roll(hello(0, 2, "z"), {hello(1, 2, "a", "b2")}).refusal,
             Contains("'b2'") && Contains("'b1'") && Contains("rank 1 on host1"));
}

TEST_CASE("lists of ranks are written short", "[unit]") {
  CHECK(dist::rank_list({}) == "");
  CHECK(dist::rank_list({4}) == "4");
  CHECK(dist::rank_list({0, 1}) == "0, 1");
  CHECK(dist::rank_list({0, 1, 2, 5, 7, 8, 9, 10}) == "0-2, 5, 7-10");
}
