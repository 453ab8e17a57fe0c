#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "shared_sum.hpp"

namespace {

using namespace snake_ddp;
using namespace std::chrono_literals;

std::vector<std::unique_ptr<dist::SharedSum>> ranks_of(int size) {
  std::vector<std::unique_ptr<dist::SharedSum>> ranks;
  ranks.push_back(dist::SharedSum::create(size));
  for (int r = 1; r < size; ++r) ranks.push_back(dist::SharedSum::open(ranks[0]->address(), r, size));
  return ranks;
}

std::vector<dist::Peer> peers_of(int size) {
  std::vector<dist::Peer> peers;
  for (int r = 0; r < size; ++r) peers.push_back({r, getpid()});
  return peers;
}

// Rank `r`'s value in round `round` at place `i`: sums of these depend on the order of addition.
float number(int r, int round, std::size_t i) {
  return static_cast<float>(r * 1000 + round) / 7.0F + static_cast<float>(i % 1013) * 1e-3F;
}

// Threads represent processes; `message` gets the text of each one's exception.
void in_threads(int size, const std::function<void(int)>& body, std::vector<std::string>& message) {
  message.assign(static_cast<std::size_t>(size), "");
  std::vector<std::thread> threads;
  for (int r = 0; r < size; ++r) {
    threads.emplace_back([&, r] {
      try {
        body(r);
      } catch (const std::runtime_error& e) {
        message[static_cast<std::size_t>(r)] = e.what();
      }
    });
  }
  for (std::thread& t : threads) t.join();
}

}  // namespace

TEST_CASE("sums through shared memory are those in rank order, round after round, whatever the length",
          "[unit]") {
  for (const int size : {2, 3, 5}) {
    const auto ranks = ranks_of(size);
    const std::vector<dist::Peer> peers = peers_of(size);
    std::vector<std::string> thrown;
    std::vector<int> wrong(static_cast<std::size_t>(size), 0);
    in_threads(
        size,
        [&](int r) {
          int round = 0;
          for (const std::size_t count :
               {1UL, 7UL, 1000UL, 262144UL, 262145UL, 600000UL, 3UL, 3UL, 3UL, 3UL, 50UL}) {
            ++round;
            std::vector<float> values(count);
            for (std::size_t i = 0; i < count; ++i) values[i] = number(r, round, i);
            ranks[static_cast<std::size_t>(r)]->sum(values.data(), count, 1.0F, peers,
                                                    core::Deadline::in(20s));
            for (std::size_t i = 0; i < count; ++i) {
              float expected = number(0, round, i);
              for (int other = 1; other < size; ++other) expected += number(other, round, i);
              wrong[static_cast<std::size_t>(r)] += values[i] != expected;
            }
          }
        },
        thrown);
    CHECK(thrown == std::vector<std::string>(static_cast<std::size_t>(size)));
    CHECK(wrong == std::vector<int>(static_cast<std::size_t>(size), 0));
  }
}

TEST_CASE("ranks that sum different numbers of values get an error that says so", "[unit]") {
  const auto ranks = ranks_of(2);
  const std::vector<dist::Peer> peers = peers_of(2);
  std::vector<std::string> thrown;
  in_threads(
      2,
      [&](int r) {
        std::vector<float> values(r == 0 ? 10 : 9, 1.0F);
        ranks[static_cast<std::size_t>(r)]->sum(values.data(), values.size(), 1.0F, peers,
                                                core::Deadline::in(5s));
      },
      thrown);
  CHECK(thrown[0] == "rank 1 sums 9 values, but this rank sums 10");
  CHECK(thrown[1] == "rank 0 sums 10 values, but this rank sums 9");
}

TEST_CASE("a missing rank is named at the deadline, one that has ended at once", "[unit]") {
  const auto ranks = ranks_of(2);
  float value = 1.0F;
  const auto begun = std::chrono::steady_clock::now();
  CHECK_THROWS_WITH(ranks[0]->sum(&value, 1, 1.0F, peers_of(2), core::Deadline::in(100ms)),
                    "rank 1 sent no values");
  constexpr long kNobody = 0x7ffffffe;  // above the largest pid that Linux gives
  CHECK_THROWS_WITH(ranks[0]->sum(&value, 1, 1.0F, {{0, getpid()}, {1, kNobody}}, core::Deadline::in(60s)),
                    Catch::Contains("rank 1 (pid 2147483646) ended"));
  CHECK(std::chrono::steady_clock::now() - begun < 30s);
}

TEST_CASE("the first place's numbers reach all, in turn with sums, whatever the length", "[unit]") {
  constexpr int kSize = 3;
  const auto ranks = ranks_of(kSize);
  const std::vector<dist::Peer> peers = peers_of(kSize);
  std::vector<std::string> thrown;
  std::vector<int> wrong(kSize, 0);
  in_threads(
      kSize,
      [&](int r) {
        dist::SharedSum& own = *ranks[static_cast<std::size_t>(r)];
        int round = 0;
        for (const std::size_t count : {1UL, 600000UL, 7UL, 262145UL, 7UL}) {
          ++round;
          std::vector<float> values(count);
          for (std::size_t i = 0; i < count; ++i) values[i] = number(r, round, i);
          own.broadcast(values.data(), count, peers, core::Deadline::in(20s));
          for (std::size_t i = 0; i < count; ++i)
            wrong[static_cast<std::size_t>(r)] += values[i] != number(0, round, i);
          std::int64_t one = r + 1;
          own.sum<std::int64_t>(&one, 1, 1, peers, core::Deadline::in(20s));
          wrong[static_cast<std::size_t>(r)] += one != 6;
        }
      },
      thrown);
  CHECK(thrown == std::vector<std::string>(kSize));
  CHECK(wrong == std::vector<int>(kSize, 0));
}

TEST_CASE("a rank that gives up ends the others' waits, and is named by its number in the group", "[unit]") {
  const auto ranks = ranks_of(2);
  const std::vector<dist::Peer> peers = {{4, getpid()}, {7, getpid()}};
  float value = 1.0F;
  ranks[1]->give_up();
  const auto begun = std::chrono::steady_clock::now();
  CHECK_THROWS_WITH(ranks[0]->broadcast(&value, 1, peers, core::Deadline::in(60s)),
                    "rank 7 (pid " + std::to_string(getpid()) + ") gave up before sending its values");
  CHECK(std::chrono::steady_clock::now() - begun < 30s);
}

TEST_CASE("processes that are killed while they meet leave nothing in /dev/shm", "[unit]") {
  const auto names = [] {
    std::set<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
      if (const std::string name = entry.path().filename(); name.starts_with("snake_ddp")) found.insert(name);
    return found;
  };
  const std::set<std::string> before = names();
  std::array<int, 2> words{};
  REQUIRE(pipe(words.data()) == 0);
  // Prints a line and waits to be killed.
  const auto process = [&](const std::function<std::string()>& what) {
    const pid_t child = fork();
    if (child == 0) {
      std::string line;
      try {
        line = what() + "\n";
      } catch (const std::runtime_error& e) {
        line = std::string("failed: ") + e.what() + "\n";
      }
      if (write(words[1], line.data(), line.size()) < 0) _exit(1);
      for (;;) pause();
    }
    return child;
  };
  const auto line = [&] {
    std::string text;
    for (char c = 0; read(words[0], &c, 1) == 1 && c != '\n';) text += c;
    return text;
  };
  std::unique_ptr<dist::SharedSum> held;
  const pid_t first = process([&] {
    held = dist::SharedSum::create(3);
    return held->address();
  });
  const std::string address = line();
  const pid_t second = process([&] {
    held = dist::SharedSum::open(address, 1, 3);
    return std::string("opened");
  });
  CHECK(line() == "opened");
  CHECK(names() == before);  // while it is open, and so whenever they end
  for (const pid_t child : {first, second}) {
    kill(child, SIGKILL);
    CHECK(waitpid(child, nullptr, 0) == child);
  }
  CHECK(names() == before);
  CHECK_THROWS_AS(dist::SharedSum::open(address, 2, 3), std::runtime_error);
  for (const int end : words) close(end);
}

TEST_CASE("a segment that is not there cannot be opened, nor a file that happens to have its address",
          "[unit]") {
  const auto own = dist::SharedSum::create(2);
  const std::string place = own->address().substr(0, own->address().find(' '));
  CHECK_THROWS_WITH(dist::SharedSum::open(place + " snake_ddp.another", 1, 2), place + " is not the segment");
  CHECK_THROWS_AS(dist::SharedSum::open("/proc/self/fd/1000000 snake_ddp.none", 1, 2), std::runtime_error);
}
