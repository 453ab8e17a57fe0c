#include <ATen/ATen.h>
#include <pthread.h>
#include <zlib.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include "pretrain/board_set.hpp"
#include "pretrain/import.hpp"
#include "pretrain/loader.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/random.hpp"
#include "snake_ddp/game/hidden_view.hpp"
#include "snake_ddp/game/position.hpp"
#include "snake_ddp/game/rules.hpp"
#include "snake_ddp/game/snake_graph.hpp"
#include "test_data.hpp"

namespace sd = snake_ddp;
using namespace snake_ddp::pretrain;
using snake_ddp::game::State;

namespace {

struct Folder {
  Folder() : path(std::filesystem::temp_directory_path() / ("sd_data_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(path);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  [[nodiscard]] std::string operator/(const std::string& name) const { return (path / name).string(); }
  std::filesystem::path path;
};

// Random games, boards of each.
std::vector<std::vector<State>> random_games(int count, int boards) {
  std::vector<std::vector<State>> games;
  for (int g = 0; g < count; ++g) {
    const sd::game::Draws draws{7, static_cast<std::uint64_t>(g)};
    State state = sd::game::new_board(draws);
    std::vector<State> of;
    sd::core::RandomStream random(7, static_cast<std::uint64_t>(g), sd::core::Purpose::kTest);
    for (int k = 0; k < boards && !state.done(); ++k) {
      of.push_back(state);
      sd::game::Actions actions{};
      for (auto& a : actions.of) a = static_cast<std::uint8_t>(random.below(4));
      sd::game::advance(state, actions, draws);
    }
    games.push_back(of);
  }
  return games;
}

std::int64_t write_set(const std::string& path, int games, int boards, std::int64_t interval = 1) {
  BoardSetWriter writer(path, interval);
  std::int64_t count = 0;
  for (const auto& game : random_games(games, boards)) {
    writer.add_game(game);
    count += static_cast<std::int64_t>(game.size());
  }
  writer.finish();
  return count;
}

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const sd::core::FileError& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a set returns every board of every game", "[unit]") {
  const Folder folder;
  const auto games = random_games(11, 17);
  const std::int64_t boards = write_set(folder / "a.boards", 11, 17, 4);
  const BoardSet set(folder / "a.boards");
  REQUIRE(set.games() == 11);
  REQUIRE(set.boards() == boards);
  CHECK(set.interval() == 4);
  for (std::int64_t g = 0; g < set.games(); ++g) {
    const auto& expected = games[static_cast<std::size_t>(g)];
    REQUIRE(set.game(g).size() == expected.size());
    for (std::size_t k = 0; k < expected.size(); ++k) CHECK(set.game(g)[k] == expected[k]);
  }
}

TEST_CASE("a set that is cut short, changed or of another version is refused", "[unit]") {
  const Folder folder;
  write_set(folder / "a.boards", 3, 5);
  std::ifstream in(folder / "a.boards", std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(in)), {});
  const auto refused = [&](const std::string& bytes) {
    std::ofstream(folder / "b.boards", std::ios::binary) << bytes;
    return message_of([&] { const BoardSet set(folder / "b.boards"); });
  };
  REQUIRE(refused(whole).empty());
  for (std::size_t size = 0; size < whole.size(); size += 97)
    CHECK(refused(whole.substr(0, size)).find("truncated") != std::string::npos);
  for (std::size_t at = 64; at < whole.size() - 24; at += 131) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 4);
    CHECK(refused(changed).find("damaged") != std::string::npos);
  }
  std::string other = whole;
  other[8] = 2;
  CHECK(refused(other).find("version 2") != std::string::npos);
  CHECK(refused("no set" + whole).find("wrong header") != std::string::npos);
}

TEST_CASE("a set with impossible boards or ends of games is refused, whatever its checksum", "[unit]") {
  const Folder folder;
  write_set(folder / "a.boards", 3, 5);
  std::ifstream in(folder / "a.boards", std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(in)), {});
  const std::size_t ends = whole.size() - 24 - 3 * 8;
  const auto refused = [&](std::size_t at, std::int64_t value, std::size_t size) {
    std::string changed = whole;
    std::memcpy(&changed[at], &value, size);
    const auto crc = static_cast<std::uint32_t>(
        ::crc32_z(0, reinterpret_cast<const Bytef*>(changed.data()), changed.size() - 24));
    std::memcpy(&changed[changed.size() - 8], &crc, sizeof crc);
    std::ofstream(folder / "b.boards", std::ios::binary) << changed;
    const std::string why = message_of([&] { const BoardSet set(folder / "b.boards"); });
    std::ofstream(folder / "c/b.boards", std::ios::binary) << changed;
    CHECK(message_of([&] {
            import_records(record_files(folder / "c"), 1, 1, folder / "out", [](std::size_t) {});
          }).empty() == why.empty());
    return why;
  };
  std::filesystem::create_directories(folder / "c");
  REQUIRE(refused(ends, 5, 8).empty());
  for (const std::int64_t end : {-1, 0, 10, 15, 16})
    CHECK(refused(ends, end, 8).find("game") != std::string::npos);
  CHECK(refused(ends + 8, std::int64_t{1} << 62, 8).find("game 1 ends") != std::string::npos);
  CHECK(refused(ends + 16, 14, 8).find("its games have 14 boards") != std::string::npos);
  const std::size_t board = 64 + 7 * sizeof(State);
  for (const auto& [place, value] :
       std::initializer_list<std::pair<std::size_t, int>>{{offsetof(State, heads), 250},
                                                          {offsetof(State, tails), 200},
                                                          {offsetof(State, lengths), 255},
                                                          {offsetof(State, directions), 4},
                                                          {offsetof(State, beans), 255},
                                                          {offsetof(State, n_beans), 6},
                                                          {offsetof(State, steps), 0},
                                                          {offsetof(State, returns) + 3, 127},
                                                          {offsetof(State, is_done), 1},
                                                          {offsetof(State, is_done), 2}})
    CHECK(refused(board + place, value, 1).find("board 7: ") != std::string::npos);
  CHECK(refused(board + offsetof(State, returns), 600, 4).empty());  // the game's third board
  CHECK(refused(board + offsetof(State, returns), 601, 4).find("sum up to 601 before step 3") !=
        std::string::npos);
  CHECK(refused(16, 0, 8).find("interval") != std::string::npos);
}

TEST_CASE("a set without games is whole: a rank that played none wrote it", "[unit]") {
  const Folder folder;
  BoardSetWriter(folder / "a.boards", 4).finish();
  const BoardSet set(folder / "a.boards");
  CHECK(set.games() == 0);
  CHECK(set.interval() == 4);
  CHECK_THROWS_AS(split_by_games(set, 0.1), sd::core::UsageError);
}

TEST_CASE("a set says which recording it belongs to", "[unit]") {
  const Folder folder;
  write_set(folder / "none.boards", 3, 5);
  CHECK(recording_of(folder / "none.boards") == Recording{});
  BoardSetWriter writer(folder / "part.boards", 1, {17, 1, 3});
  writer.add_game(random_games(1, 3).front());
  writer.finish();
  CHECK(recording_of(folder / "part.boards") == Recording{17, 1, 3});
  CHECK(recording_of(folder / "missing.boards") == Recording{});
  std::ofstream(folder / "text.boards") << std::string(200, 'S');
  CHECK(recording_of(folder / "text.boards") == Recording{});
}

TEST_CASE("the cache of a folder follows from the contents of its files", "[unit]") {
  const Folder folder;
  const std::string path = folder / "a.json";
  const auto time = std::filesystem::file_time_type::clock::now();
  const auto cache_of = [&](const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
    std::filesystem::last_write_time(path, time);
    return cache_path("c", {path}, 8);
  };
  const std::string one = cache_of("game 1"), two = cache_of("game 2");
  CHECK(one != two);
  CHECK(one == cache_of("game 1"));
  std::filesystem::last_write_time(path, time + std::chrono::hours(1));
  CHECK(one == cache_path("c", {path}, 8));
  int pieces = 0;
  std::ofstream(path, std::ios::binary) << std::string(std::size_t{33} << 20U, 'x');
  cache_path("c", {path}, 8, [&] { ++pieces; });
  CHECK(pieces == 3);
}

TEST_CASE("whole games are held out, none of them twice", "[unit]") {
  const Folder folder;
  const std::int64_t boards = write_set(folder / "a.boards", 25, 9);
  const BoardSet set(folder / "a.boards");
  const Split split = split_by_games(set, 0.1);
  CHECK(split.training.size() + split.held_out.size() == static_cast<std::size_t>(boards));
  std::set<std::int64_t> all(split.training.begin(), split.training.end());
  for (const std::int64_t i : split.held_out) CHECK(all.insert(i).second);
  for (const std::int64_t game : {std::int64_t{9}, std::int64_t{19}}) {
    const std::int64_t first = set.game(game).data() - &set.board(0);
    CHECK(std::count(split.held_out.begin(), split.held_out.end(), first) == 1);
  }
  CHECK(split.held_out.size() == set.game(9).size() + set.game(19).size());
  write_set(folder / "small.boards", 5, 9);
  const BoardSet small(folder / "small.boards");
  CHECK_THROWS_AS(split_by_games(small, 0.1), sd::core::UsageError);
}

TEST_CASE("an epoch's order is a permutation of its own, the same for the same seed", "[property]") {
  for (const std::int64_t n : {1, 2, 17, 1000}) {
    const auto order = epoch_order(n, 3, 5);
    std::set<std::int64_t> seen(order.begin(), order.end());
    REQUIRE(seen.size() == static_cast<std::size_t>(n));
    CHECK(*seen.begin() == 0);
    CHECK(*seen.rbegin() == n - 1);
    CHECK(order == epoch_order(n, 3, 5));
  }
  CHECK(epoch_order(1000, 3, 5) != epoch_order(1000, 3, 6));
  CHECK(epoch_order(1000, 3, 5) != epoch_order(1000, 4, 5));
}

TEST_CASE("ranks get even shares that cover the set exactly, or all except an incomplete batch",
          "[property]") {
  for (const std::int64_t n : {1, 7, 64, 100, 257}) {
    for (const int ranks : {1, 2, 3, 4}) {
      for (const std::int64_t batch : {1, 5, 16}) {
        for (const std::int64_t begin : {std::int64_t{0}, std::min<std::int64_t>(n, batch * ranks)}) {
          for (const bool drop : {false, true}) {
            const auto order = epoch_order(n, 1, 2);
            std::multiset<std::int64_t> seen;
            Shares shares{0, ranks, batch, drop};
            const std::int64_t count = batch_count(n, begin, shares);
            for (std::int64_t k = 0; k < count; ++k) {
              std::vector<std::int64_t> together;
              for (shares.rank = 0; shares.rank < ranks; ++shares.rank) {
                const auto mine = rank_batch(order, begin, k, shares);
                REQUIRE(mine.size() == static_cast<std::size_t>(batch));
                together.insert(together.end(), mine.begin(), mine.end());
              }
              // One rank with the batch of all gets the same in the same update.
              REQUIRE(together == rank_batch(order, begin, k, {0, 1, batch * ranks, drop}));
              for (const std::int64_t i : together)
                if (i != kNoSample) seen.insert(i);
            }
            std::multiset<std::int64_t> expected(order.begin() + begin, order.end());
            if (drop) expected = {order.begin() + begin, order.begin() + begin + count * batch * ranks};
            CHECK(seen == expected);
          }
        }
      }
    }
  }
}

TEST_CASE("batches are the same however many threads make them", "[unit]") {
  const Folder folder;
  const std::int64_t boards = write_set(folder / "a.boards", 6, 9);
  const BoardSet set(folder / "a.boards");
  const auto order = epoch_order(boards, 1, 0);
  const Shares shares{0, 1, 7, false};
  const std::int64_t count = batch_count(boards, 0, shares);
  SampleOptions sample;
  sample.view_radius = 4;
  const auto all = [&](int threads) {
    Loader loader(set, count, [&](std::int64_t k) { return rank_batch(order, 0, k, shares); }, sample,
                  {threads, 2, false});
    std::vector<at::Tensor> tensors;
    for (std::int64_t k = 0; k < count; ++k) {
      const Batch b = loader.next();
      tensors.insert(tensors.end(), {b.seen, b.whole, b.masked, b.hidden, b.weight});
    }
    return tensors;
  };
  const auto plain = all(0);
  for (const int threads : {1, 3}) {
    const auto threaded = all(threads);
    REQUIRE(threaded.size() == plain.size());
    for (std::size_t i = 0; i < plain.size(); ++i) CHECK(threaded[i].equal(plain[i]));
  }
}

TEST_CASE("an exception in a loader's thread is rethrown by next, and a loader may be destroyed early",
          "[unit]") {
  const Folder folder;
  write_set(folder / "a.boards", 2, 9);
  const BoardSet set(folder / "a.boards");
  const auto rows = [](std::int64_t k) -> std::vector<std::int64_t> {
    if (k == 1) throw sd::core::FileError("no row");
    return {0, 1};
  };
  Loader loader(set, 5, rows, {}, {2, 2, false});
  CHECK_THROWS_AS((loader.next(), loader.next()), sd::core::FileError);
  Loader left(set, 1000, [](std::int64_t) { return std::vector<std::int64_t>{0}; }, {}, {2, 2, false});
  left.next();
}

TEST_CASE("a loader that cannot start all of its threads throws", "[unit]") {
  const Folder folder;
  write_set(folder / "a.boards", 2, 9);
  const BoardSet set(folder / "a.boards");
  pthread_attr_t before, vast;
  for (pthread_attr_t* attributes : {&before, &vast}) REQUIRE(pthread_getattr_default_np(attributes) == 0);
  REQUIRE(pthread_attr_setstacksize(&vast, std::size_t{1} << 46U) == 0);
  // The first thread leaves no room for the stacks of later ones.
  const auto rows = [&](std::int64_t) {
    pthread_setattr_default_np(&vast);
    return std::vector<std::int64_t>{0};
  };
  CHECK_THROWS_AS(Loader(set, 9, rows, {}, {100'000, 1, false}), std::system_error);
  REQUIRE(pthread_setattr_default_np(&before) == 0);
}

TEST_CASE("masks have their share of the snakes, and with a view those that it does not show", "[unit]") {
  const Folder folder;
  const std::int64_t boards = write_set(folder / "a.boards", 12, 20);
  const BoardSet set(folder / "a.boards");
  const auto rows = epoch_order(boards, 1, 0);
  for (const auto& [ratio, count] : {std::pair{0.15, 1.0F}, {0.34, 2.0F}, {0.99, 5.0F}}) {
    SampleOptions sample;
    sample.mask_ratio = ratio;
    const Batch b = make_batch(set, rows, sample, false);
    CHECK(b.masked.sum(1).eq(count).all().item<bool>());
    CHECK(b.masked.sum(0).gt(0).all().item<bool>());
    CHECK_FALSE(b.whole.defined());
    // Drawn anew for each epoch and seed, and the same whenever these are.
    CHECK(make_batch(set, rows, sample, false).masked.equal(b.masked));
    SampleOptions later = sample, elsewhere = sample;
    later.epoch = 1;
    elsewhere.seed += 1;
    for (const SampleOptions& other : {later, elsewhere})
      CHECK_FALSE(make_batch(set, rows, other, false).masked.equal(b.masked));
  }
  SampleOptions sample;
  sample.view_radius = 3;
  const Batch b = make_batch(set, rows, sample, false);
  CHECK(b.masked.equal(b.hidden));
  CHECK(b.masked.sum(1).le(5).all().item<bool>());  // the observer itself is visible
  const at::Tensor seen_heads = b.seen.select(2, 0).select(2, 0);
  CHECK(seen_heads.equal(1 - b.masked));
  CHECK(b.whole.select(2, 0).select(2, 0).eq(1).all().item<bool>());
}

TEST_CASE("a graph has a snake's cells, beans and heads from its head on the torus", "[unit]") {
  const State state = sd::game::drawn(
      "....................\n"
      "....................\n"
      "....................\n"
      "..........A<<.......\n"
      "..........o.........\n"
      "....................\n"
      "....................\n"
      "B<<.....F<<.........\n"
      "................C<<.\n"
      "o..D<<......E<<.....\n");
  float out[sd::game::kGraphsFloats], hidden[6];
  sd::game::write_graphs(state, 0, {}, out, hidden);
  for (const float h : hidden) CHECK(h == 0.0F);
  const auto node = [&](int place, int n) {
    const float* at = out + place * sd::game::kGraphFloats + n * sd::game::kNodeFeatures;
    return std::vector<float>(at, at + 4);
  };
  CHECK(node(0, 0) == std::vector<float>{1, 0, 0, 0.1F * 3});
  CHECK(node(0, 1) == std::vector<float>{1, 0.1F, 0, 0});
  CHECK(node(0, 2) == std::vector<float>{1, 0.2F, 0, 0});
  CHECK(node(0, 3) == std::vector<float>{0, 0, 0, 0});
  CHECK(node(0, 8) == std::vector<float>{1, 0, 0.2F, 0});          // the bean below
  CHECK(node(0, 9) == std::vector<float>{1, 1.0F, -4 * 0.2F, 0});  // 10 columns off, 4 rows up over the edge
  CHECK(node(0, 13) == std::vector<float>{1, 6 * 0.1F, 5 * 0.2F, 0.1F * 3});  // C before B, 10 columns off
  // E before F, as far away but above.
  CHECK(node(0, 15) == std::vector<float>{1, 2 * 0.1F, -4 * 0.2F, 0.1F * 3});
  // Only what is within two cells of A's head.
  sd::game::write_graphs(state, 0, {state.head(0), 2}, out, hidden);
  CHECK(std::vector<float>(hidden, hidden + 6) == std::vector<float>{0, 1, 1, 1, 1, 1});
  CHECK(node(0, 8)[0] == 1);
  CHECK(node(0, 9)[0] == 0);
  CHECK(node(0, 13)[0] == 0);
  // The other team's names: D, E and F come first.
  sd::game::write_graphs(state, 1, {}, out, hidden);
  CHECK(node(3, 8) == std::vector<float>{1, 0, 0.2F, 0});
}

TEST_CASE("a limited view shows everything within it, and nothing else", "[property]") {
  constexpr int kRadius = 4;
  int hidden = 0, shown = 0;
  for (const auto& game : random_games(20, 60)) {
    const State& state = game.back();
    if (state.done()) continue;
    const int n = sd::game::obs_size(sd::game::ObsKind::kWindow);
    std::vector<float> whole(static_cast<std::size_t>(3 * n)), limited;
    sd::game::observe(sd::game::ObsKind::kWindow, state, 0, whole.data());
    limited = whole;
    for (int snake = 0; snake < 3; ++snake) {
      float* row = limited.data() + snake * n;
      sd::game::hide_far(kRadius, row);
      const sd::game::Viewer eye{state.head(snake), kRadius};
      const auto found = [&](int first, int count, int width) {
        int there = 0;
        for (int k = 0; k < count; ++k)
          there += row[first + k * width] != 0 || row[first + k * width + 1] != 0;
        return there;
      };
      int beans = 0, mates = 0, foes = 0;
      for (int b = 0; b < state.bean_count(); ++b) beans += eye.sees(state.bean(b));
      for (int other = 0; other < 6; ++other) {
        if (other != snake) (other < 3 ? mates : foes) += eye.sees(state.head(other));
      }
      CHECK(found(sd::game::view::kBeans, 5, 2) == beans);
      CHECK(found(sd::game::view::kMates, 2, 3) == mates);
      CHECK(found(sd::game::view::kFoes, 3, 3) == foes);
      shown += beans + mates + foes;
      hidden += 10 - beans - mates - foes;
      // The window itself is nearer than that.
      for (int i = 0; i < sd::game::view::kBeans; ++i)
        REQUIRE(row[i] == whole[static_cast<std::size_t>(snake * n + i)]);
    }
  }
  CHECK(shown > 20);
  CHECK(hidden > 20);
}

TEST_CASE("recorded traces become the boards that were played", "[unit]") {
  const Folder folder;
  std::vector<std::size_t> progress;
  const std::string traces = test_data("games.jsonl.gz");
  const auto files = record_files(traces);
  import_records(files, 10, 2, folder / "a.boards", [&](std::size_t done) { progress.push_back(done); });
  CHECK(progress == std::vector<std::size_t>{1});
  const BoardSet set(folder / "a.boards");
  REQUIRE(set.games() == 40);
  CHECK(set.boards() == 40 * 20);
  for (std::int64_t g = 0; g < set.games(); ++g) {
    for (std::size_t k = 0; k < set.game(g).size(); ++k) {
      sd::game::check_consistency(set.game(g)[k]);
      CHECK(set.game(g)[k].step() == static_cast<int>(10 * k) + 1);
    }
  }
  const std::string cache = cache_path("c", files, 10);
  CHECK(cache == cache_path("c", files, 10));
  CHECK(cache != cache_path("c", files, 11));
}

TEST_CASE("a log without a result is imported as far as its boards are known", "[unit]") {
  const auto boards = [](const char* name) {
    std::vector<State> all;
    sd::io::read_games(test_data(name),
                       [&](const sd::io::RecordedGame& game) { all = boards_of(game, 1, name); });
    return all;
  };
  const std::vector<State> three = boards("platform_response_3_steps.json"),
                           whole = boards("platform_response.json.gz");
  CHECK(three.size() == 4);
  REQUIRE(whole.size() == 200);
  for (std::size_t k = 0; k < three.size(); ++k) CHECK(three[k] == whole[k]);
}

TEST_CASE("records of several kinds are read in the order of their names, and bad ones are named", "[unit]") {
  const Folder folder;
  const auto ignore = [](std::size_t) {};
  CHECK(message_of([&] { record_files(folder / ""); }).find("no recorded games") != std::string::npos);
  CHECK(message_of([&] { record_files(folder / "none"); }).find("No such file") != std::string::npos);
  write_set(folder / "b.boards", 3, 5, 4);
  std::filesystem::copy_file(test_data("reference_log.json.gz"), folder / "a.json.gz");
  import_records(record_files(folder / ""), 4, 3, folder / "out", ignore);
  const BoardSet both(folder / "out");
  CHECK(both.games() == 4);
  write_set(folder / "c.boards", 3, 5, 5);
  CHECK(message_of([&] {
          import_records(record_files(folder / ""), 4, 1, folder / "out", ignore);
        }).find("every 5 steps") != std::string::npos);
  std::filesystem::remove(folder / "c.boards");
  std::ofstream(folder / "d.json") << R"({"game_name":"snakes_3v3")";
  CHECK(message_of([&] {
          import_records(record_files(folder / ""), 4, 2, folder / "out", ignore);
        }).find("d.json") != std::string::npos);
}
