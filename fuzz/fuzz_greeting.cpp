// A process's Hello in the store, where anyone on the network may have written it.
#include "fuzz.hpp"
#include "roll.hpp"
#include "snake_ddp/core/check.hpp"
#include "snake_ddp/core/error.hpp"

using namespace snake_ddp;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return fuzz::read_or_refuse([&] {
    try {
      const dist::Hello hello = dist::decode_hello(fuzz::text_of(data, size));
      SD_CHECK(dist::encode(dist::decode_hello(dist::encode(hello))) == dist::encode(hello),
               "changed on its way");
      dist::call_roll({"token", 0, 3, "host", 1, "build"}, {hello, hello});
    } catch (const core::DistError&) {
    }
  });
}
