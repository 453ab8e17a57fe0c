// Game logs and traces, plain or gzip: read, verified by the engine, and shown.
#include "app/board_text.hpp"
#include "app/replay_page.hpp"
#include "fuzz.hpp"
#include "io/game_log.hpp"
#include "io/verify_trace.hpp"

using namespace snake_ddp;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::MemoryFile file(fuzz::text_of(data, size));
  return fuzz::read_or_refuse([&] {
    io::read_games(file.path(), [](const io::RecordedGame& game) {
      app::replay_page(game, {});
      app::board_text({game.start, game.names}, true);
      for (const io::RecordedStep& step : game.steps)
        app::board_text({step.after, game.names, {}, 1, step.hit}, false);
    });
    io::verify_traces({file.path()});
  });
}
