#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <string>

#include "io/other_formats.hpp"
#include "snake_ddp/core/error.hpp"

namespace {

using namespace snake_ddp;

}  // namespace

TEST_CASE("a safetensors file is a length, a header and the numbers", "[unit]") {
  const at::Tensor matrix =
      at::arange(6, at::kFloat).view({3, 2}).t();  // written in its own order, not in memory's
  const std::string bytes = io::safetensors_bytes(
      {{"w", matrix}, {"none", at::empty({0}, at::kLong)}, {"b", at::tensor({7}, at::kByte)}},
      {{"of", "me"}});
  const std::string header = R"({"__metadata__":{"of":"me"},)"
                             R"("w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                             R"("none":{"dtype":"I64","shape":[0],"data_offsets":[24,24]},)"
                             R"("b":{"dtype":"U8","shape":[1],"data_offsets":[24,25]}})";
  const std::size_t padded = (header.size() + 7) / 8 * 8;
  REQUIRE(bytes.size() == 8 + padded + 25);
  CHECK(static_cast<unsigned char>(bytes[0]) == padded);
  CHECK(bytes.substr(1, 7) == std::string(7, '\0'));
  CHECK(bytes.substr(8, padded) == header + std::string(padded - header.size(), ' '));
  float numbers[6];
  std::memcpy(numbers, bytes.data() + 8 + padded, sizeof numbers);
  const float expected[6] = {0, 2, 4, 1, 3, 5};
  CHECK(std::memcmp(numbers, expected, sizeof numbers) == 0);
  CHECK(bytes.back() == 7);
}

TEST_CASE("a safetensors file rejects duplicate names and types that weights do not have", "[unit]") {
  const at::Tensor t = at::ones({2});
  CHECK_THROWS_AS(io::safetensors_bytes({{"a", t}, {"a", t}}, {}), core::Bug);
  CHECK_THROWS_AS(io::safetensors_bytes({{"__metadata__", t}}, {}), core::Bug);
  CHECK_THROWS_AS(io::safetensors_bytes({{"a", t.to(at::kComplexFloat)}}, {}), core::Bug);
}
