// Weights files: round trips, the reference's files, and malicious bytes.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <limits>
#include <map>

#include "io/atomic_file.hpp"
#include "io/state_dict.hpp"
#include "refusals.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/random.hpp"
#include "temporary_folder.hpp"
#include "test_data.hpp"

namespace snake_ddp::io {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::Equals;

bool same(const NamedTensors& a, const NamedTensors& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].first != b[i].first || a[i].second.scalar_type() != b[i].second.scalar_type() ||
        !a[i].second.equal(b[i].second)) {
      return false;
    }
  }
  return true;
}

NamedTensors sample() {
  const at::Tensor flat = at::arange(24, at::kFloat) / 7;
  return {{"net.0.weight", flat.slice(0, 0, 12).view({3, 4})},
          {"net.0.bias", flat.slice(0, 12, 15)},
          {"steps", at::scalar_tensor(std::numeric_limits<std::int64_t>::min(), at::kLong)},
          {"done", at::tensor({1, 0, 1}, at::kInt).to(at::kBool)},
          {"half", at::tensor({0.5, -2.0}).to(at::kHalf)},
          {"transposed", flat.view({4, 6}).t()},
          {"empty", at::empty({0, 5}, at::kDouble)}};
}

std::string message_of(std::string_view bytes) {
  return file_error_of([&] { read_state_dict(bytes, "some.pth"); });
}

// ---- files before PyTorch 1.6, written by hand
// --------------------------------------------------------------------

template <class T>
std::string raw(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof value);
}
std::string text(const std::string& s) { return "X" + raw(static_cast<std::uint32_t>(s.size())) + s; }
std::string integer(std::int64_t n) { return "\x8a\x08" + raw(n); }
std::string tuple(const std::vector<std::int64_t>& numbers) {
  std::string out = "(";
  for (const auto n : numbers) out += integer(n);
  return out + "t";
}
std::string storage(std::int64_t numel, const std::string& type = "FloatStorage") {
  return "(" + text("storage") + "ctorch\n" + type + "\n" + text("key") + text("cpu") + integer(numel) +
         "NtQ";
}
std::string tensor(std::int64_t numel, std::int64_t offset, const std::vector<std::int64_t>& sizes,
                   const std::vector<std::int64_t>& strides, const std::string& type = "FloatStorage") {
  return "ctorch._utils\n_rebuild_tensor_v2\n(" + storage(numel, type) + integer(offset) + tuple(sizes) +
         tuple(strides) + "\x89" + "ccollections\nOrderedDict\n)RtR";
}
std::string dict(const std::string& key, const std::string& value) { return "}" + text(key) + value + "s"; }
std::string pickle(const std::string& program) { return "\x80\x02" + program + "."; }

// `stored` bytes are the file's contents for the one storage "key" of `numel` elements.
std::string legacy_file(const std::string& program, std::int64_t numel = 0, const std::string& stored = "") {
  const std::string magic("\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 12);
  const std::string keys = numel > 0 ? "](" + text("key") + "e" : "]";
  return pickle(magic) + pickle("M\xe9\x03") + pickle("}" + text("little_endian") + "\x88s") +
         pickle(program) + pickle(keys) + (numel > 0 ? raw(numel) + stored : "");
}

std::string four_floats() { return raw(1.0F) + raw(2.0F) + raw(3.0F) + raw(4.0F); }

// ---- what must work
// ----------------------------------------------------------------------------------------------

TEST_CASE("weights come back as they were saved, in order, types and shapes included", "[unit]") {
  const TemporaryFolder folder;
  save_state_dict(folder / "a.pth", sample());
  const NamedTensors loaded = load_state_dict(folder / "a.pth");
  REQUIRE(same(loaded, sample()));
  for (const auto& [name, value] : loaded) {
    INFO(name);
    CHECK(value.is_contiguous());
    CHECK(value.storage().nbytes() == value.nbytes());
  }
  CHECK(folder.entries() == 1);
}

TEST_CASE("a record comes back with the weights, and a file without one has none", "[unit]") {
  const TemporaryFolder folder;
  const std::string record = R"({"obs": "view"})";
  save_state_dict(folder / "a.pth", sample(), record);
  const SavedWeights loaded = inspect_weights(folder / "a.pth");
  CHECK(same(loaded.weights, sample()));
  CHECK(loaded.record == record);
  CHECK(same(load_state_dict(folder / "a.pth"), sample()));
  const std::string name = "q_net.0.weight";  // a network's
  CHECK(read_weights(state_dict_bytes({{name, at::ones({2, 2})}}), "plain").record.empty());
  CHECK(read_weights(legacy_file(dict(name, tensor(4, 0, {2, 2}, {1, 2})), 4, four_floats()), "old")
            .record.empty());

  std::string damaged = state_dict_bytes(sample(), record);
  damaged.at(damaged.find(record) + 10) ^= 1;
  CHECK_THAT(file_error_of([&] { read_weights(damaged, "damaged"); }), Contains(kRecordName));
}

TEST_CASE("a small view of a large buffer makes a small file", "[unit]") {
  const at::Tensor buffer = at::zeros({1'000'000}, at::kFloat);
  CHECK(state_dict_bytes({{"slice", buffer.slice(0, 5, 15)}}).size() < 4096);
}

TEST_CASE("gradients are not needed to save and not kept", "[unit]") {
  const at::Tensor weight = at::ones({2}, at::kFloat).requires_grad_();
  CHECK_FALSE(read_state_dict(state_dict_bytes({{"w", weight}}), "w").at(0).second.requires_grad());
}

TEST_CASE("two tensors of one name, or none, are a bug of the caller", "[unit]") {
  const at::Tensor one = at::ones({1});
  CHECK_THROWS_AS(state_dict_bytes({{"w", one}, {"w", one}}), core::Bug);
  CHECK_THROWS_AS(state_dict_bytes({{"w", at::Tensor()}}), core::Bug);
}

TEST_CASE("a file written by hand in the old format is read", "[unit]") {
  const auto loaded =
      read_state_dict(legacy_file(dict("w", tensor(4, 0, {2, 2}, {1, 2})), 4, four_floats()), "old");
  REQUIRE(loaded.size() == 1);
  CHECK(loaded[0].second.equal(at::tensor({1.0F, 3.0F, 2.0F, 4.0F}).view({2, 2})));
}

TEST_CASE("nested dicts, lists and Python numbers become names with dots and 0-dim tensors", "[unit]") {
  const std::string list =
      "](G" + std::string("\x3f\xe0\0\0\0\0\0\0", 8) + "\x88" + "J\xfe\xff\xff\xff" + "e";
  const auto loaded =
      read_state_dict(legacy_file("}(" + text("a") + list + "K\x07" + dict("b", integer(-5)) + "u"), "old");
  REQUIRE(loaded.size() == 4);
  CHECK(loaded[0].first == "a.0");
  CHECK(loaded[0].second.equal(at::scalar_tensor(0.5, at::kDouble)));
  CHECK(loaded[1].second.equal(at::scalar_tensor(true, at::kBool)));
  CHECK(loaded[2].second.equal(at::scalar_tensor(-2, at::kLong)));
  CHECK(loaded[3].first == "7.b");
  CHECK(loaded[3].second.equal(at::scalar_tensor(-5, at::kLong)));
}

TEST_CASE("a bool byte other than 0 and 1 is true", "[unit]") {
  const auto loaded = read_state_dict(
      legacy_file(dict("b", tensor(4, 0, {4}, {1}, "BoolStorage")), 4, std::string("\x00\x01\x02\xff", 4)),
      "old");
  CHECK(loaded.at(0).second.to(at::kInt).equal(at::tensor({0, 1, 1, 1}, at::kInt)));
}

TEST_CASE("the reference's trained actor has its names, shapes and values", "[golden]") {
  const NamedTensors actor = load_state_dict(test_data("upstream_actor_2000.pth"));
  struct Expected {
    std::string name;
    std::vector<std::int64_t> shape;
    double sum;
    float last;
  };
  const std::vector<Expected> expected{
      {"prev_dense.0.weight", {256, 26}, -6.708500321354222, -0.009295637719333172F},
      {"prev_dense.0.bias", {256}, 8.044112304138253, -0.5656791925430298F},
      {"post_dense.0.weight", {256, 256}, -52.390064668695004, -0.04095879942178726F},
      {"post_dense.0.bias", {256}, 4.998194143176079, 0.0768919512629509F},
      {"post_dense.2.weight", {4, 256}, -6.7406195707735606, -0.20383310317993164F},
      {"post_dense.2.bias", {4}, -0.35835182666778564, 0.21596911549568176F}};
  REQUIRE(actor.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const at::Tensor& value = actor[i].second;
    CHECK(actor[i].first == expected[i].name);
    CHECK(value.scalar_type() == at::kFloat);
    CHECK(value.sizes() == at::IntArrayRef(expected[i].shape));
    CHECK(value.to(at::kDouble).sum().item<double>() == Approx(expected[i].sum).epsilon(1e-12));
    CHECK(value.flatten()[-1].item<float>() == expected[i].last);
  }
}

TEST_CASE("every recorded .pth file is read and survives being saved again", "[golden]") {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(test_data())) {
    if (entry.path().extension() != ".pth") continue;
    INFO(entry.path());
    const NamedTensors items = load_state_dict(entry.path().string());
    CHECK(items.size() >= 2);
    for (const auto& [name, value] : items) {
      INFO(name);
      CHECK(value.isfinite().all().item<bool>());
    }
    CHECK(same(read_state_dict(state_dict_bytes(items), "again"), items));
    ++files;
  }
  CHECK(files >= 1);
}

// ---- what must be refused
// ----------------------------------------------------------------------------------------

TEST_CASE("a missing, empty or foreign file is named, with the kind of error", "[unit]") {
  const TemporaryFolder folder;
  CHECK_THAT(file_error_of([&] { load_state_dict(folder / "none.pth"); }),
             Contains("none.pth") && Contains("No such file"));
  CHECK_THAT(message_of(""), Contains("'some.pth'") && Contains("empty"));
  CHECK_THAT(message_of("\x89HDF\r\n and more"), Contains("not a file that torch.save wrote"));
  CHECK_THAT(message_of(pickle("}")), Contains("a pickle, but torch.save did not write it"));
  CHECK_THAT(message_of(std::string("PK\5\6", 4) + std::string(18, '\0')), Contains("no data.pkl"));
  CHECK_THAT(message_of("PK, but no archive"), Contains("zip directory is missing"));
}

TEST_CASE("a foreign class is refused by name before anything else happens", "[unit]") {
  CHECK_THAT(message_of(legacy_file("cposix\nsystem\n" + text("true") + "\x85R")),
             Contains("'posix.system'") && Contains("nothing in it was executed"));
  CHECK_THAT(message_of(legacy_file(text("builtins") + text("eval") + "\x93")), Contains("'builtins.eval'"));
  CHECK_THAT(message_of(legacy_file("ctorch\nTensor\n")), Contains("'torch.Tensor'"));
  CHECK_THAT(message_of(legacy_file("cnot\x01printable\nname\n")), Contains("'not?printable.name'"));
}

TEST_CASE("a value that is not a tensor is rejected by its name", "[unit]") {
  CHECK_THAT(message_of(legacy_file(dict("note", text("hello")))),
             Contains("'note' is neither a tensor nor a number"));
  CHECK_THAT(message_of(legacy_file(dict("none", "N"))), Contains("'none'"));
  CHECK_THAT(message_of(legacy_file(dict("type", "ctorch\nFloatStorage\n"))), Contains("'type'"));
  CHECK_THAT(message_of(legacy_file(integer(3))), Contains("no dict"));
  CHECK_THAT(message_of(legacy_file("}NNs")), Contains("neither text nor an integer"));
  CHECK_THAT(message_of(legacy_file("}(" + text("a") + "K\x01" + text("a") + "K\x02u")),
             Contains("two values are named 'a'"));
  CHECK_THAT(message_of(legacy_file(dict("wide", std::string("\x8a\x09") + std::string(9, '\x7f')))),
             Contains("'wide'"));
}

TEST_CASE("a pickle that breaks the machine's rules is refused", "[unit]") {
  const std::map<std::string, std::string> programs{
      {"nothing on the stack", ""},
      {"pop from nothing", "s"},
      {"recall without store", "h\x05"},
      {"long recall without store", "j" + raw(std::uint32_t{0xffffffff})},
      {"store without a value", "q\x01"},
      {"tuple without mark", "N\x87"},
      {"mark above the stack", "N(ba"},
      {"items without mark", "}u"},
      {"key without value", "}(" + text("a") + "u"},
      {"append to a dict", "}Na"},
      {"set in a list", "]" + text("a") + "Ns"},
      {"call of text", text("f") + ")R"},
      {"call of a storage", "ctorch\nFloatStorage\n)R"},
      {"call without a tuple", "ccollections\nOrderedDict\nNR"},
      {"tensor without arguments", "ctorch._utils\n_rebuild_tensor_v2\n)R"},
      {"parameter of a number", "ctorch._utils\n_rebuild_parameter\nK\x01\x85R"},
      {"ordered pairs of one", "ccollections\nOrderedDict\n]N\x85" + std::string("a\x85R")},
      {"storage from text", text("x") + "Q"},
      {"storage of negative size", storage(-1)},
      {"text longer than the file", "X" + raw(std::uint32_t{0xfffffff0}) + "abc"},
      {"text of 2^63 bytes", "\x8d" + raw(std::uint64_t{1} << 63U) + "abc"},
      {"number longer than the file", "\x8b" + raw(std::uint32_t{0x7fffffff})},
      {"line without an end", "cposix"},
      {"protocol 6", "\x80\x06N"},
      {"protocol 0", "I1\n"},
      {"new object", "ccollections\nOrderedDict\n)\x81"},
  };
  for (const auto& [what, program] : programs) {
    INFO(what);
    CHECK_THAT(message_of(legacy_file(program)),
               Contains("cannot load weights from 'some.pth'") && Contains("damaged"));
  }
}

TEST_CASE("a tensor outside its storage, or too large for any memory, is refused", "[unit]") {
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  const std::map<std::string, std::string> tensors{
      {"one element too many", tensor(4, 0, {5}, {1})},
      {"offset behind the end", tensor(4, 4, {1}, {1})},
      {"negative offset", tensor(4, -1, {2}, {1})},
      {"huge offset", tensor(4, std::numeric_limits<std::int64_t>::max(), {2}, {1})},
      {"stride over the end", tensor(4, 0, {2, 2}, {3, 1})},
      {"negative stride", tensor(4, 3, {4}, {-1})},
      {"negative size", tensor(4, 0, {-1}, {1})},
      {"overflow of the size", tensor(4, 0, {kHuge, kHuge, 4}, {0, 0, 0})},
      {"overflow behind a zero", tensor(4, 0, {0, kHuge, kHuge}, {0, 0, 0})},
      {"overflow of the strides", tensor(4, 0, {3, 3}, {kHuge, kHuge})},
      {"a terabyte of one number", tensor(4, 0, {std::int64_t{1} << 38}, {0})},
      {"more sizes than strides", tensor(4, 0, {2, 2}, {1})},
      {"a thousand dimensions",
       tensor(4, 0, std::vector<std::int64_t>(1000, 1), std::vector<std::int64_t>(1000, 1))},
      {"a storage of another size", tensor(5, 0, {4}, {1})},
      {"a storage of 2^62", tensor(kHuge, 0, {4}, {1})},
      {"a storage of another type", tensor(4, 0, {4}, {1}, "DoubleStorage")},
  };
  for (const auto& [what, program] : tensors) {
    INFO(what);
    CHECK_THAT(message_of(legacy_file(dict("w", program), 4, four_floats())), Contains("damaged"));
  }
}

TEST_CASE("small files that describe endless values are refused", "[unit]") {
  // A list in a list in a list ...
  CHECK_THAT(message_of(legacy_file(dict("deep", std::string(100'000, ']') + std::string(99'999, 'a')))),
             Contains("nested too deeply"));
  // A list that contains itself.
  CHECK_THAT(message_of(legacy_file(dict("self",
                                         "]q\x01h\x01"
                                         "a"))),
             Contains("nested too deeply"));
  // Each list contains the one before it ten times: 10^24 values at the end.
  std::string laughs = "K\x01q\x01";
  for (int i = 0; i < 24; ++i) {
    laughs += "](";
    for (int j = 0; j < 10; ++j) laughs += "h\x01";
    laughs += "eq\x01";
  }
  laughs = "(" + laughs + "t";
  CHECK_THAT(message_of(legacy_file(dict("laughs", laughs))), Contains("far more than its size"));
  // A byte of file for each of many marks, lists, memo entries.
  for (const char* opcode : {"(", "]", "N", "N\x94"}) {
    std::string program = "N";
    while (program.size() < (std::size_t{5} << 20U)) program += opcode;
    INFO(opcode);
    CHECK_THAT(message_of(legacy_file(program)), Contains("more than 4194304 values"));
  }
}

TEST_CASE("overlapping zip entries are rejected", "[unit]") {
  const auto zip = [](int names) {
    const std::string content(1000, 'x'), zeros(8, '\0');
    std::string bytes = "PK\3\4" + zeros + zeros + zeros.substr(2) + raw(std::uint16_t{1}) +
                        raw(std::uint16_t{0}) + "a" + content;
    const auto directory = static_cast<std::uint32_t>(bytes.size()), size = std::uint32_t{1000};
    for (char name = 'a'; name < 'a' + names; ++name) {  // all of the one entry
      bytes += "PK\1\2" + zeros + zeros.substr(4) + raw(std::uint32_t{0}) + raw(size) + raw(size) +
               raw(std::uint16_t{1}) + zeros.substr(4) + zeros + raw(std::uint32_t{0}) + name;
    }
    return bytes + "PK\5\6" + zeros.substr(2) + raw(static_cast<std::uint16_t>(names)) + zeros.substr(4) +
           raw(directory) + raw(std::uint16_t{0});
  };
  CHECK_THAT(message_of(zip(1)), Contains("no data.pkl"));
  CHECK_THAT(message_of(zip(5)), Contains("overlap"));
}

TEST_CASE("every truncation of a weights file is detected", "[unit]") {
  for (const std::string& whole :
       {state_dict_bytes(sample()), legacy_file(dict("w", tensor(4, 0, {2, 2}, {1, 2})), 4, four_floats())}) {
    std::size_t unnoticed = 0;
    for (std::size_t size = 0; size < whole.size(); ++size) {
      unnoticed += message_of(std::string_view(whole).substr(0, size)) == "no FileError";
    }
    CHECK(unnoticed == 0);
  }
}

TEST_CASE("a flipped bit in a weights file is detected or changes nothing", "[unit]") {
  const std::string whole = state_dict_bytes(sample());
  std::size_t wrong = 0;
  std::size_t noticed = 0;
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string bytes = whole;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
    try {
      wrong += !same(read_state_dict(bytes, "flipped"), sample());
    } catch (const core::FileError&) {
      ++noticed;
    }
  }
  CHECK(wrong == 0);
  CHECK(noticed > 8 * 500);  // at least every bit of the pickle and the tensors
}

TEST_CASE("random damage in either format ends in an error or in weights, nothing else", "[unit]") {
  core::RandomStream random(11, 0, core::Purpose::kTest);
  const std::string legacy = legacy_file(dict("w", tensor(4, 0, {2, 2}, {1, 2})), 4, four_floats());
  std::size_t refused = 0;
  constexpr std::size_t kFiles = 4000;
  for (const std::string& whole : {state_dict_bytes(sample()), legacy}) {
    for (std::size_t i = 0; i < kFiles; ++i) {
      std::string bytes = whole;
      for (std::uint32_t hits = 1 + random.below(8); hits > 0; --hits) {
        bytes[random.below(static_cast<std::uint32_t>(bytes.size()))] = static_cast<char>(random.next());
      }
      if (random.below(4) == 0) bytes.resize(random.below(static_cast<std::uint32_t>(bytes.size())));
      refused += message_of(bytes) != "no FileError";
    }
  }
  CHECK(refused > kFiles / 2);
}

TEST_CASE("weights that do not fit on the disk leave the old file and say what to do", "[unit]") {
  const TemporaryFolder folder;
  const std::string path = folder / "actor_1000.pth";
  save_state_dict(path, sample());
  {
    const FileSizeLimit limit(8192);
    CHECK_THAT(file_error_of([&] {
                 save_state_dict(path, {{"w", at::zeros({10'000})}});
               }),
               Contains("cannot write '" + path) && Contains("choose another folder"));
  }
  CHECK(same(load_state_dict(path), sample()));
  CHECK(folder.entries() == 1);
}

}  // namespace
}  // namespace snake_ddp::io
