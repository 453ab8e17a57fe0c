// Weights files. What was read can be written, and reads back equal.
#include <ATen/ATen.h>

#include <cstring>

#include "fuzz.hpp"
#include "io/state_dict.hpp"
#include "snake_ddp/core/check.hpp"

using namespace snake_ddp;

namespace {

// Bit by bit, because NaN is not equal to itself.
bool same(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         (a.numel() == 0 || std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::read_or_refuse(
      [&] { io::check_numbers(io::read_weights(fuzz::text_of(data, size), "the input").weights); });
  return fuzz::read_or_refuse([&] {
    const io::NamedTensors items = io::read_state_dict(fuzz::text_of(data, size), "the input");
    std::size_t bytes = 0;
    for (const auto& [name, tensor] : items) bytes += name.size() + tensor.nbytes();
    SD_CHECK(bytes <= 4 * size + (std::size_t{16} << 20U), "more than the file's size allows");
    if (bytes > (std::size_t{1} << 16U)) return;  // writing takes time
    const io::NamedTensors again = io::read_state_dict(io::state_dict_bytes(items), "what was written");
    SD_CHECK(again.size() == items.size(), "items lost");
    for (std::size_t i = 0; i < items.size(); ++i)
      SD_CHECK(again[i].first == items[i].first && same(again[i].second, items[i].second), items[i].first);
  });
}
