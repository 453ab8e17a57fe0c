#include "dist/world.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <vector>

#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/host.hpp"
#include "snake_ddp/core/text.hpp"

namespace snake_ddp::dist {
namespace {

using core::UsageError;

std::optional<std::string> lookup(const Environment& env, const char* name) {
  const char* value = env(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

std::optional<int> number_between(const Environment& env, const char* name, long low, long high) {
  const auto text = lookup(env, name);
  if (!text) return std::nullopt;
  const auto value = core::try_number<long>(*text);
  if (!value || *value < low || *value > high)
    throw UsageError(fmt::format("{}='{}' is not a number from {} to {}", name, *text, low, high));
  return static_cast<int>(*value);
}

constexpr long kMaxRanks = 1'000'000;

std::string without_brackets(std::string host) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; };
  host.erase(std::remove_if(host.begin(), host.end(), blank), host.end());
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') return host.substr(1, host.size() - 2);
  return host;
}

bool is_loopback_name(const std::string& host) {
  return host == "localhost" || host == "::1" || host.rfind("127.", 0) == 0;
}

void check_ranks(const World& w, const char* rank_name, const char* size_name) {
  if (w.rank >= w.size)
    throw UsageError(fmt::format("{0}={1} does not fit {2}={3}: ranks run from 0 to {2} - 1", rank_name,
                                 w.rank, size_name, w.size));
  if (w.local_rank >= w.local_size)
    throw UsageError(
        fmt::format("local rank {} does not fit the {} of rank {}; check LOCAL_RANK and "
                    "LOCAL_WORLD_SIZE",
                    w.local_rank, core::counted(w.local_size, "local rank"), w.rank));
}

// Ranks that are started by hand on one machine usually have only their number; a pod with one process is a machine.
void place_on_machine(World& w, std::optional<int> local_rank, std::optional<int> local_size) {
  const bool one_machine = is_loopback_name(w.master_addr);
  w.local_size = local_size.value_or(one_machine ? w.size : local_rank.value_or(0) + 1);
  w.local_rank = local_rank.value_or(one_machine ? w.rank % w.local_size : 0);
}

void read_master(const Environment& env, World& w) {
  if (const auto host = lookup(env, "MASTER_ADDR")) w.master_addr = without_brackets(*host);
  if (const auto port = number_between(env, "MASTER_PORT", 1, 65535))
    w.master_port = static_cast<std::uint16_t>(*port);
}

World from_rank_variables(const Environment& env) {
  World w;
  w.launcher = Launcher::kTorchrun;
  w.size = *number_between(env, "WORLD_SIZE", 1, kMaxRanks);
  w.rank = *number_between(env, "RANK", 0, kMaxRanks);
  read_master(env, w);
  const auto local_rank = number_between(env, "LOCAL_RANK", 0, kMaxRanks);
  const auto local_size = number_between(env, "LOCAL_WORLD_SIZE", 1, kMaxRanks);
  const auto per_pod = lookup(env, "PET_NPROC_PER_NODE");
  if (!local_rank && per_pod && *per_pod != "1")
    throw UsageError(fmt::format(
        "RANK={} numbers pods, not ranks: PET_NPROC_PER_NODE={} is set and LOCAL_RANK is not. Let the "
        "container's command be 'torchrun --no-python ./snake_ddp'",
        w.rank, *per_pod));
  place_on_machine(w, local_rank, local_size);
  w.agent_store = lookup(env, "TORCHELASTIC_USE_AGENT_STORE") == "True";
  w.restart_count = number_between(env, "TORCHELASTIC_RESTART_COUNT", 0, kMaxRanks).value_or(0);
  w.store_fd = number_between(env, "SNAKE_DDP_STORE_FD", 3, kMaxRanks).value_or(-1);
  check_ranks(w, "RANK", "WORLD_SIZE");
  return w;
}

World from_slurm(const Environment& env) {
  World w;
  w.launcher = Launcher::kSlurm;
  w.rank = *number_between(env, "SLURM_PROCID", 0, kMaxRanks);
  auto size = number_between(env, "SLURM_STEP_NUM_TASKS", 1, kMaxRanks);
  if (!size) size = number_between(env, "SLURM_NTASKS", 1, kMaxRanks);
  if (!size) throw UsageError("SLURM_PROCID is set and SLURM_NTASKS is not: start with 'srun --ntasks=N'");
  w.size = *size;
  w.local_rank = number_between(env, "SLURM_LOCALID", 0, kMaxRanks).value_or(0);
  const int node = number_between(env, "SLURM_NODEID", 0, kMaxRanks).value_or(0);
  auto counts = lookup(env, "SLURM_STEP_TASKS_PER_NODE");
  if (!counts) counts = lookup(env, "SLURM_TASKS_PER_NODE");
  w.local_size = counts ? slurm_tasks_on_node(*counts, node) : std::max(1, w.local_rank + 1);
  w.restart_count = number_between(env, "SLURM_RESTART_COUNT", 0, kMaxRanks).value_or(0);
  for (const char* name : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"})
    if (const auto nodes = lookup(env, name)) {
      w.master_addr = slurm_first_host(*nodes);
      break;
    }
  if (const auto job = lookup(env, "SLURM_JOB_ID")) {
    w.job = *job;
    const auto number = core::try_number<long>(*job);
    if (!number || *number < 0) throw UsageError(fmt::format("SLURM_JOB_ID='{}' is not a number", *job));
    const long step = core::try_number<long>(lookup(env, "SLURM_STEP_ID").value_or("")).value_or(0);
    // Below the ephemeral range; the steps of a job may run at the same time.
    w.master_port = static_cast<std::uint16_t>(20000 + (*number + 7919 * step) % 20000);
  }
  read_master(env, w);
  check_ranks(w, "SLURM_PROCID", "SLURM_NTASKS");
  return w;
}

// How launchers of MPI tell a process its place; null: not at all. PMI is that of MPICH's mpiexec (Hydra), Intel MPI, PALS
// and, with an option, srun. PMIx sets rank and namespace; the size is known to its server alone.
struct MpiLauncher {
  const char *name, *rank, *size, *local_rank, *local_size;
};
constexpr MpiLauncher kMpiLaunchers[] = {
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"MVAPICH", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK",
     "MV2_COMM_WORLD_LOCAL_SIZE"},
    {"MVAPICH", "MVP_COMM_WORLD_RANK", "MVP_COMM_WORLD_SIZE", "MVP_COMM_WORLD_LOCAL_RANK",
     "MVP_COMM_WORLD_LOCAL_SIZE"},
    {"jsrun", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_LOCAL_RANK",
     "JSM_NAMESPACE_LOCAL_SIZE"},
    {"MPI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {"MPI", "PMI_RANK", "PMI_SIZE", "PMI_LOCAL_RANK", "PMI_LOCAL_SIZE"},
    {"MPI", "PMIX_RANK", nullptr, nullptr, nullptr},
};

std::optional<long> number(const Environment& env, const char* name) {
  return name == nullptr ? std::nullopt : core::try_number<long>(lookup(env, name).value_or(""));
}

// Whether srun gave this process the same place.
bool agrees_with_srun(const Environment& env, long rank, std::optional<long> size) {
  const auto tasks = number(env, "SLURM_STEP_NUM_TASKS");
  return rank == number(env, "SLURM_PROCID") &&
         (!size || size == (tasks ? tasks : number(env, "SLURM_NTASKS")));
}

// Whether any launcher says of how many processes this one, its first, is one.
bool size_is_known(const Environment& env) {
  return number(env, "SLURM_PROCID") == 0 ||
         std::any_of(std::begin(kMpiLaunchers), std::end(kMpiLaunchers),
                     [&](const MpiLauncher& mpi) { return number(env, mpi.size).has_value(); });
}

// The launcher of MPI whose variables say that this process is one of several, or, if it trains, that it may be: the first
// of them would train by itself. srun sets them, too, with --mpi; then they agree with its own, which have all that is needed.
const MpiLauncher* mpi_of_several(const Environment& env, bool of_srun, bool trains) {
  for (const MpiLauncher& mpi : kMpiLaunchers) {
    const auto rank = number(env, mpi.rank), size = number(env, mpi.size);
    if (!rank || (size.value_or(2) < 2)) continue;
    const bool is_first = *rank == 0 && number(env, mpi.local_rank).value_or(0) == 0 &&
                          number(env, mpi.local_size).value_or(1) < 2;
    if (!size && is_first && (!trains || size_is_known(env))) continue;
    if (!of_srun || !agrees_with_srun(env, *rank, size)) return &mpi;
  }
  return nullptr;
}

World from_mpi(const Environment& env, const MpiLauncher& mpi) {
  World w;
  w.launcher = Launcher::kMpi;
  w.rank = *number_between(env, mpi.rank, 0, kMaxRanks);
  const auto size = mpi.size == nullptr ? std::nullopt : number_between(env, mpi.size, 1, kMaxRanks);
  if (!size)
    throw UsageError(fmt::format(
        "{0}={1}: started by {2}, but nothing says as one of how many processes. Set RANK, WORLD_SIZE and "
        "MASTER_ADDR, or start with torchrun, srun or --ddp{3}",
        mpi.rank, w.rank, mpi.name,
        w.rank > 0 ? "" : fmt::format("; if it is the only one, unset {}", mpi.rank)));
  w.size = *size;
  if (!lookup(env, "MASTER_ADDR"))
    throw UsageError(
        fmt::format("{}={}: started by {} as one of {}, but MASTER_ADDR is not set. Give it the "
                    "name of rank 0's "
                    "machine: mpirun -n {} env MASTER_ADDR=HOST ./snake_ddp ...; on one machine, without "
                    "mpirun: ./snake_ddp "
                    "--ddp --world_size {} ...",
                    mpi.size, w.size, mpi.name, core::counted(w.size, "process"), w.size, w.size));
  read_master(env, w);
  const auto local = [&](const char* name, long least) {
    return name == nullptr ? std::nullopt : number_between(env, name, least, kMaxRanks);
  };
  place_on_machine(w, local(mpi.local_rank, 0), local(mpi.local_size, 1));
  check_ranks(w, mpi.rank, mpi.size);
  return w;
}

// Fields of /proc/PID/stat.
constexpr int kParent = 4, kStarted = 22;

// Empty if there is no such process.
std::string stat_field(pid_t process, int field) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string line, value;
  std::getline(file, line);
  // The second field, the process's name, may contain blanks and brackets.
  std::istringstream fields(line.substr(std::min(line.rfind(')') + 1, line.size())));
  for (int k = 3; k <= field; ++k) fields >> value;
  return value;
}

// The batch shell and the shell of an interactive allocation have SLURM_PROCID=0 too; a lone program there would wait
// for tasks that are never started. Step numbers from 0xfffffffa on are SLURM's own.
bool is_srun_task(const Environment& env) {
  const auto step = lookup(env, "SLURM_STEP_ID");
  if (!step || !lookup(env, "SLURM_PROCID")) return false;
  const auto number = core::try_number<long>(*step);
  return number && *number >= 0 && *number < 0xfffffffaL;
}

// Whether this process was started in a shell of `srun --pty`, whose step has no other task: they had no terminal, and ended.
// Tasks of an srun in that shell inherit the port, but each is the process that SLURM knows.
bool is_shell_of_srun(const Environment& env) {
  return lookup(env, "SLURM_PTY_PORT") && lookup(env, "SLURM_TASK_PID") != std::to_string(::getpid());
}

}  // namespace

std::string slurm_first_host(std::string_view list) {
  std::string host;
  for (std::size_t i = 0; i < list.size() && list[i] != ','; ++i) {
    if (list[i] != '[') {
      host += list[i];
      continue;
    }
    const std::size_t close = list.find(']', i);
    const std::string_view first = list.substr(i + 1, list.find_first_of(",-]", i) - i - 1);
    if (close == std::string_view::npos || first.empty())
      throw UsageError(fmt::format("the SLURM node list '{}' cannot be read; set MASTER_ADDR", list));
    host += first;
    i = close;
  }
  if (host.empty())
    throw UsageError(fmt::format("the SLURM node list '{}' contains no host; set MASTER_ADDR", list));
  return host;
}

int slurm_tasks_on_node(std::string_view counts, int node) {
  const auto fail = [&]() -> int {
    throw UsageError(fmt::format("SLURM's tasks per node '{}' have no entry for node {}", counts, node));
  };
  int before = 0;
  for (std::string_view rest = counts; !rest.empty();) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    std::string_view entry = rest.substr(0, comma);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    long repeats = 1;
    if (const std::size_t open = entry.find("(x"); open != std::string_view::npos && entry.back() == ')') {
      repeats = core::try_number<long>(entry.substr(open + 2, entry.size() - open - 3)).value_or(0);
      entry = entry.substr(0, open);
    }
    const auto tasks = core::try_number<long>(entry);
    if (!tasks || *tasks < 1 || *tasks > kMaxRanks || repeats < 1 || repeats > kMaxRanks) return fail();
    if (node < before + repeats) return static_cast<int>(*tasks);
    before += static_cast<int>(repeats);
  }
  return fail();
}

std::string agent_identity() {
  // torchrun gives each rank a session. Below a script that does not exec, this process is not the session's first.
  const pid_t first = ::getsid(0);
  const std::string agent =
      first > 0 && first != ::getpid() ? stat_field(first, kParent) : std::to_string(::getppid());
  return fmt::format("{} {} {}", core::host_name(), agent,
                     stat_field(core::try_number<pid_t>(agent).value_or(0), kStarted));
}

World world_from_env(const Environment& env, Purpose purpose) {
  std::vector<std::string> set, missing;
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR"})
    (lookup(env, name) ? set : missing).emplace_back(name);
  const auto rank = lookup(env, "RANK"), size = lookup(env, "WORLD_SIZE");
  if (rank && size && (missing.empty() || number_between(env, "WORLD_SIZE", 1, kMaxRanks) == 1)) {
    World w = from_rank_variables(env);
    w.torchrun = lookup(env, "TORCHELASTIC_RUN_ID").has_value();
    w.job = lookup(env, "SLURM_JOB_ID").value_or("");
    return w;
  }
  if (!rank || !size) {
    const bool trains = purpose == Purpose::kTraining, of_srun = is_srun_task(env);
    if (const MpiLauncher* const mpi = mpi_of_several(env, of_srun, trains)) return from_mpi(env, *mpi);
    if (of_srun && (trains || !is_shell_of_srun(env))) return from_slurm(env);
    if (!trains || (!rank && size.value_or("1") == "1")) return {};  // left over in a shell
  }
  throw UsageError(fmt::format(
      "{} {} set but {} {} not. Start with torchrun, srun or --ddp, which set them all; or set {} too; or "
      "unset {} "
      "to run as one process",
      fmt::join(set, " and "), set.size() > 1 ? "are" : "is", fmt::join(missing, " and "),
      missing.size() > 1 ? "are" : "is", missing.size() > 1 ? "them" : "it", fmt::join(set, " and ")));
}

World this_world(Purpose purpose) { return world_from_env(std::getenv, purpose); }

World launcher_world() {
  const auto of_launcher = [](const char* name) -> const char* {
    const std::string_view text = name;
    const bool by_hand = text == "RANK" || text == "WORLD_SIZE";
    return by_hand && std::getenv("TORCHELASTIC_RUN_ID") == nullptr ? nullptr : std::getenv(name);
  };
  return world_from_env(of_launcher, Purpose::kOther);
}

std::string this_rank() {
  const auto rank = number(std::getenv, "RANK");
  return rank && lookup(std::getenv, "WORLD_SIZE") ? fmt::format("rank {} on {}", *rank, core::host_name())
                                                   : "";
}

}  // namespace snake_ddp::dist
