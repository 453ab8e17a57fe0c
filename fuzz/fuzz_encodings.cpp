// GraphCapture observations, compared with one game of the corpus.
#include "fuzz.hpp"
#include "io/verify_trace.hpp"

using namespace snake_ddp;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::MemoryFile file(fuzz::text_of(data, size));
  return fuzz::read_or_refuse(
      [&] { io::verify_encodings(file.path(), SD_FUZZ_CORPUS "/games/trace.jsonl"); });
}
