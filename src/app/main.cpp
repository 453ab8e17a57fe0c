#include <ATen/Context.h>
#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "app/command_line.hpp"
#include "dist/error_file.hpp"
#include "dist/self_launch.hpp"
#include "dist/world.hpp"
#include "nets/cuda_library.hpp"
#include "snake_ddp/core/console.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/host.hpp"
#include "snake_ddp/core/run_signals.hpp"

namespace {

// With the rank and host if there are several, for logs of many ranks.
int report(const std::string& what, int code, bool peer_only) {
  const std::string who = snake_ddp::dist::this_rank();
  const bool says_who = what.starts_with(who);  // as errors of the group do
  const std::string message = "snake_ddp: " + (says_who ? "" : who + ": ") + what;
  snake_ddp::dist::write_error_file(message, code, peer_only);
  snake_ddp::core::tell_error(message);
  return code;
}

int run(const std::vector<std::string>& arguments) {
  try {
    return snake_ddp::app::run_command_line(arguments);
  } catch (const snake_ddp::core::DistError& e) {
    return report(e.what(), e.exit_code(), e.peer_only);
  } catch (const snake_ddp::core::Stopped& e) {
    report(e.what(), e.exit_code(), false);
    return snake_ddp::dist::exit_code_after_stop(e.exit_code());
  } catch (const snake_ddp::core::Error& e) {
    return report(e.what(), e.exit_code(), false);
  } catch (const std::bad_alloc&) {
    return report("out of memory; lower --buffer_size, --num_envs or the number of ranks",
                  snake_ddp::core::kExitBug, false);
  } catch (const std::exception& e) {
    return report(
        snake_ddp::core::is_lack_of_threads(e)
            ? "cannot start another thread: this user or container has reached its limit (ulimit -u, "
              "pids.max); raise the limit, or start fewer ranks or --threads"
            : fmt::format("unexpected error: {}", e.what()),
        snake_ddp::core::kExitBug, false);
  }
}

}  // namespace

int main(int argc, char** argv) {
  snake_ddp::core::hold_standard_descriptors();
  snake_ddp::core::allow_many_files();
  snake_ddp::core::hold_run_signals();  // until the command is known
  snake_ddp::dist::install_failure_handlers();
  snake_ddp::dist::end_with_torchrun();
  // Subnormal numbers count as zero, in the threads started from here too. Adam's first moment of a weight whose gradient
  // stays zero would end among them and never leave: rounded to nearest, 0.9 of the smallest number is that number.
  // Some processors need many times as long for them.
  at::globalContext().setFlushDenormal(true);
  std::signal(SIGXFSZ, SIG_IGN);  // a file size limit becomes a failed write, whose error names the file
  const int code = run({argv + 1, argv + argc});
  if (snake_ddp::nets::is_loaded())
    return code;  // the driver's tools write their measurements when the process ends normally
  // LibTorch's destructors take a tenth of a second to free memory that ends with the process anyway.
  std::fflush(nullptr);
  std::_Exit(code);
}
