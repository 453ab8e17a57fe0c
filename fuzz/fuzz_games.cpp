// Game logs and traces, plain or gzip: read, verified by the engine, and shown.
#include "fuzz.hpp"
#include "snake_ddp/app/board_text.hpp"
#include "snake_ddp/app/replay_page.hpp"
#include "snake_ddp/records/game_log.hpp"
#include "snake_ddp/records/verify_trace.hpp"

using namespace snake_ddp;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::MemoryFile file(fuzz::text_of(data, size));
  return fuzz::read_or_refuse([&] {
    records::read_games(file.path(), [](const records::RecordedGame& game) {
      app::replay_page(game, {});
      app::board_text({game.start, game.names}, true);
      for (const records::RecordedStep& step : game.steps)
        app::board_text({step.after, game.names, {}, 1, step.hit}, false);
    });
    records::verify_traces({file.path()});
  });
}
