#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <string>
#include <thread>

#include "snake_ddp/core/check.hpp"
#include "snake_ddp/core/deadline.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/host.hpp"

namespace snake_ddp::core {
namespace {

using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using Catch::Matchers::Equals;

TEST_CASE("each kind of error carries its exit code and its message", "[unit]") {
  CHECK(UsageError("u").exit_code() == 2);
  CHECK(DistError("d").exit_code() == 3);
  CHECK(FileError("f").exit_code() == 4);
  CHECK(Bug("b").exit_code() == 1);
  CHECK(kExitResumable == 75);
  CHECK_THROWS_WITH(throw FileError("the message"), Equals("the message"));
  CHECK_THROWS_AS(throw DistError("d"), Error);
}

TEST_CASE("a rank that merely lost its peer says so", "[unit]") {
  CHECK_FALSE(DistError("own fault").peer_only);
  CHECK(DistError("peer gone", /*peer_only_=*/true).peer_only);
}

TEST_CASE("a check that holds does nothing and evaluates its condition once", "[unit]") {
  int looks = 0;
  SD_CHECK(++looks == 1, "never said");
  CHECK(looks == 1);
}

TEST_CASE("a check that fails names the file without its folder, the line, the condition and the detail",
          "[unit]") {
  const int n = 3;
  const int line = __LINE__ + 2;
  try {
    SD_CHECK(n > 4, "n is " + std::to_string(n));
    FAIL("no error");
  } catch (const Bug& bug) {
    CHECK_THAT(bug.what(), Contains("at test_errors.cpp:" + std::to_string(line)) &&
                               Contains("expected n > 4: n is 3") && !Contains("/"));
  }
}

TEST_CASE("a deadline passes when its span is over, and at once for a span of zero or less", "[unit]") {
  CHECK(Deadline::in(0ms).passed());
  CHECK(Deadline::in(-5s).passed());
  CHECK(Deadline::in(-5s).left() == 0ms);
  const Deadline far = Deadline::in(1h);
  CHECK_FALSE(far.passed());
  CHECK(far.left() <= 1h);
  CHECK(far.left() > 59min);
  const Deadline near = Deadline::in(20ms);
  std::this_thread::sleep_for(25ms);
  CHECK(near.passed());
  CHECK(near.left() == 0ms);
}

TEST_CASE("the host has the name that the system gives it", "[unit]") {
  std::array<char, 256> name{};
  REQUIRE(::gethostname(name.data(), name.size() - 1) == 0);
  CHECK(host_name() == name.data());
}

}  // namespace
}  // namespace snake_ddp::core
