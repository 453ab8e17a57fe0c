// Event files as a whole, and the contents of one record, which a fuzzer cannot reach behind checksums.
#include "fuzz.hpp"
#include "snake_ddp/files/event_reader.hpp"

using namespace snake_ddp;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const files::EventVisitor nobody{[](double, std::int64_t, std::string_view, float) {},
                                   [](double, std::int64_t) {}};
  const fuzz::MemoryFile file(fuzz::text_of(data, size));
  fuzz::read_or_refuse([&] { files::read_events(file.path(), nobody); });
  return fuzz::read_or_refuse([&] { files::read_event(fuzz::text_of(data, size), nobody); });
}
