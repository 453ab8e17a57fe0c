#include <unistd.h>

#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "dist/world.hpp"
#include "snake_ddp/core/error.hpp"

using namespace snake_ddp;
using dist::Launcher;
using dist::Purpose;
using dist::World;

namespace {

using Variables = std::map<std::string, std::string>;

World world_of(const Variables& variables, Purpose purpose = Purpose::kTraining) {
  return dist::world_from_env(
      [&](const char* name) {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
      },
      purpose);
}

Variables with(Variables base, const Variables& more) {
  for (const auto& [name, value] : more) base[name] = value;
  return base;
}

const Variables kTorchrun = {{"RANK", "3"},
                             {"WORLD_SIZE", "8"},
                             {"LOCAL_RANK", "1"},
                             {"LOCAL_WORLD_SIZE", "2"},
                             {"MASTER_ADDR", "head"},
                             {"MASTER_PORT", "29511"},
                             {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                             {"TORCHELASTIC_RESTART_COUNT", "2"}};

const Variables kSrun = {{"SLURM_STEP_ID", "0"},
                         {"SLURM_PROCID", "9"},
                         {"SLURM_NTASKS", "12"},
                         {"SLURM_LOCALID", "1"},
                         {"SLURM_NODEID", "1"},
                         {"SLURM_STEP_TASKS_PER_NODE", "8,4"},
                         {"SLURM_JOB_NODELIST", "gpu[03-05,7],x1"},
                         {"SLURM_JOB_ID", "123456"},
                         {"SLURM_RESTART_COUNT", "1"}};

std::string usage_error_of(const Variables& variables) {
  try {
    world_of(variables);
  } catch (const core::UsageError& error) {
    return error.what();
  }
  return "no UsageError";
}

}  // namespace

TEST_CASE("without any variable there is one process", "[unit]") {
  const World w = world_of({});
  CHECK(w.launcher == Launcher::kSingle);
  CHECK(w.rank == 0);
  CHECK(w.size == 1);
  CHECK(world_of({{"RANK", ""}, {"WORLD_SIZE", ""}}).launcher == Launcher::kSingle);
}

TEST_CASE("torchrun's variables are taken as they are", "[unit]") {
  const World w = world_of(kTorchrun);
  CHECK(w.launcher == Launcher::kTorchrun);
  CHECK(w.rank == 3);
  CHECK(w.size == 8);
  CHECK(w.local_rank == 1);
  CHECK(w.local_size == 2);
  CHECK(w.restart_count == 2);
  CHECK(w.agent_store);
  CHECK(w.master_addr == "head");
  CHECK(w.master_port == 29511);
  CHECK(w.store_fd == -1);
  CHECK_FALSE(world_of(with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "False"}})).agent_store);
}

TEST_CASE("torchrun's variables win over those of SLURM", "[unit]") {
  CHECK(world_of(with(kSrun, kTorchrun)).launcher == Launcher::kTorchrun);
}

TEST_CASE("variables set by hand may leave out the port and the local rank", "[unit]") {
  const World same = world_of({{"RANK", "2"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "localhost"}});
  CHECK(same.local_rank == 2);
  CHECK(same.local_size == 4);
  CHECK(same.master_port == 29500);
  const World pods = world_of({{"RANK", "2"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "job-master-0"}});
  CHECK(pods.local_rank == 0);
  CHECK(pods.local_size == 1);
  const World alone = world_of({{"RANK", "0"}, {"WORLD_SIZE", "1"}});
  CHECK(alone.size == 1);
}

TEST_CASE("brackets around an IPv6 address and stray blanks are taken away", "[unit]") {
  CHECK(world_of(with(kTorchrun, {{"MASTER_ADDR", "[::1]"}})).master_addr == "::1");
  CHECK(world_of(with(kTorchrun, {{"MASTER_ADDR", " head\n"}})).master_addr == "head");
}

TEST_CASE("only RANK and WORLD_SIZE make a group; what else is left over in a shell makes none", "[unit]") {
  for (const Purpose purpose : {Purpose::kTraining, Purpose::kOther}) {
    for (const Variables& left : std::vector<Variables>{{{"MASTER_PORT", "29500"}},
                                                        {{"MASTER_PORT", "junk"}},
                                                        {{"MASTER_ADDR", "head"}, {"MASTER_PORT", "29500"}},
                                                        {{"LOCAL_RANK", "3"}},
                                                        {{"LOCAL_WORLD_SIZE", "4"}, {"MASTER_ADDR", "head"}},
                                                        {{"WORLD_SIZE", "1"}, {"MASTER_ADDR", "head"}},
                                                        {{"RANK", ""}, {"WORLD_SIZE", ""}}})
      CHECK(world_of(left, purpose).launcher == Launcher::kSingle);
  }
}

TEST_CASE("half a group is an error to train with, one process for the rest, and nothing to srun", "[unit]") {
  using Catch::Contains;
  const Variables rank{{"RANK", "0"}}, size{{"WORLD_SIZE", "2"}}, both = with(rank, size);
  const Variables addressed = with(size, {{"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "29500"}});
  CHECK_THAT(usage_error_of(rank), Contains("RANK is set but WORLD_SIZE and MASTER_ADDR are not"));
  CHECK_THAT(usage_error_of(size), Contains("WORLD_SIZE is set but RANK and MASTER_ADDR are not"));
  CHECK_THAT(usage_error_of(addressed), Contains("WORLD_SIZE and MASTER_ADDR are set but RANK is not"));
  CHECK_THAT(usage_error_of(with(size, {{"RANK", ""}})), Contains("WORLD_SIZE is set but RANK"));
  CHECK_THAT(usage_error_of(both), Contains("RANK and WORLD_SIZE are set but MASTER_ADDR is not"));
  CHECK_THROWS_AS(world_of(both, Purpose::kOther), core::UsageError);
  for (const Variables& half : {rank, size, addressed}) {
    CHECK(world_of(half, Purpose::kOther).launcher == Launcher::kSingle);
    CHECK(world_of(with(kSrun, half)).launcher == Launcher::kSlurm);
  }
  CHECK(world_of(with(kSrun, addressed)).master_port == 29500);
}

TEST_CASE("launchers of MPI are recognised if they speak of several processes", "[unit]") {
  using Catch::Contains;
  struct Case {
    const char* what;
    Variables several, one;
  };
  const std::vector<Case> cases = {
      {"Open MPI",
       {{"OMPI_COMM_WORLD_RANK", "1"},
        {"OMPI_COMM_WORLD_SIZE", "2"},
        {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
        {"PMIX_RANK", "1"}},
       {{"OMPI_COMM_WORLD_SIZE", "1"}, {"OMPI_COMM_WORLD_RANK", "0"}, {"PMIX_RANK", "0"}}},
      {"MVAPICH",
       {{"MV2_COMM_WORLD_RANK", "1"}, {"MV2_COMM_WORLD_SIZE", "2"}, {"MV2_COMM_WORLD_LOCAL_RANK", "1"}},
       {{"MV2_COMM_WORLD_RANK", "0"}, {"MV2_COMM_WORLD_SIZE", "1"}}},
      {"MPICH's or Intel's",
       {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}},
       {{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}, {"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "1"}}},
      {"PMI", {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}, {{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}},
      {"jsrun",
       {{"JSM_NAMESPACE_RANK", "1"}, {"JSM_NAMESPACE_SIZE", "2"}, {"JSM_NAMESPACE_LOCAL_RANK", "1"}},
       {{"JSM_NAMESPACE_RANK", "0"}, {"JSM_NAMESPACE_SIZE", "1"}}},
  };
  for (const Case& c : cases) {
    INFO(c.what);
    CHECK(world_of(c.one).launcher == Launcher::kSingle);
    for (const Purpose purpose : {Purpose::kTraining, Purpose::kOther}) {
      CHECK_THROWS_WITH(
          world_of(c.several, purpose),
          Contains("of 2 processes, but MASTER_ADDR is not set") && Contains("--ddp --world_size 2"));
      const World w =
          world_of(with(c.several, {{"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "1234"}}), purpose);
      CHECK(w.launcher == Launcher::kMpi);
      CHECK(w.rank == 1);
      CHECK(w.size == 2);
      CHECK(w.local_rank == 1);
      CHECK(w.local_size == 2);
      CHECK(w.master_port == 1234);
    }
    // mpirun in a job of SLURM: its processes on other machines inherit the variables of the task that started them.
    CHECK(world_of(with(with(kSrun, c.several), {{"MASTER_ADDR", "head"}})).launcher == Launcher::kMpi);
    CHECK(world_of(with(c.several, kTorchrun)).launcher == Launcher::kTorchrun);
  }
  CHECK_THAT(usage_error_of({{"PMIX_RANK", "1"}}), Contains("RANK, WORLD_SIZE and MASTER_ADDR"));
  CHECK_THAT(usage_error_of({{"PMI_RANK", "0"}, {"MPI_LOCALNRANKS", "4"}}), Contains("PMI_RANK=0"));
  CHECK(world_of({{"PMI_RANK", "x"}, {"PMI_SIZE", "y"}}).launcher == Launcher::kSingle);
}

TEST_CASE("a first process of MPI that may have others does not train by itself", "[unit]") {
  using Catch::Contains;
  for (const char* name : {"PMIX_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK"}) {
    const Variables first{{name, "0"}};
    CHECK_THAT(usage_error_of(first), Contains("WORLD_SIZE and MASTER_ADDR") && Contains("--ddp") &&
                                          Contains(std::string("unset ") + name));
    CHECK(world_of(first, Purpose::kOther).launcher == Launcher::kSingle);
    CHECK(world_of(with(first, {{"RANK", "0"}, {"WORLD_SIZE", "1"}})).size == 1);
    CHECK(world_of(with(first, {{"PMI_SIZE", "1"}})).launcher == Launcher::kSingle);
    CHECK_THAT(usage_error_of({{name, "1"}}), !Contains("unset"));
  }
  // A shell of SLURM's with its plugin for PMIx: of salloc, whose step is SLURM's own, and of `srun --pty` with one task.
  const Variables shell{{"PMIX_RANK", "0"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}};
  CHECK(world_of(with(shell, {{"SLURM_STEP_ID", "4294967290"}})).launcher == Launcher::kSingle);
  CHECK(world_of(with(shell, {{"SLURM_STEP_ID", "0"}})).size == 1);
}

TEST_CASE("srun with a plugin for MPI is srun", "[unit]") {
  for (const Variables& plugin :
       std::vector<Variables>{{{"PMI_RANK", "9"}, {"PMI_SIZE", "12"}}, {{"PMIX_RANK", "9"}}})
    CHECK(world_of(with(kSrun, plugin)).launcher == Launcher::kSlurm);
}

TEST_CASE("a shell of srun --pty is one process for all but training", "[unit]") {
  const Variables shell =
      with(kSrun, {{"SLURM_PROCID", "0"}, {"SLURM_PTY_PORT", "40000"}, {"PMIX_RANK", "0"}});
  CHECK(world_of(shell, Purpose::kOther).launcher == Launcher::kSingle);
  CHECK(world_of(shell).launcher == Launcher::kSlurm);
  CHECK(world_of(with(shell, {{"SLURM_TASK_PID", "1"}}), Purpose::kOther).launcher == Launcher::kSingle);
  // srun in that shell
  const Variables task = with(shell, {{"SLURM_TASK_PID", std::to_string(::getpid())}});
  CHECK(world_of(task, Purpose::kOther).launcher == Launcher::kSlurm);
  CHECK(world_of(kSrun, Purpose::kOther).launcher == Launcher::kSlurm);
}

TEST_CASE("impossible values are errors that show them", "[unit]") {
  using Catch::Contains;
  CHECK_THAT(usage_error_of(with(kTorchrun, {{"RANK", "x"}})), Contains("RANK='x'"));
  CHECK_THAT(usage_error_of(with(kTorchrun, {{"RANK", "1 "}})), Contains("RANK='1 '"));
  CHECK_THAT(usage_error_of(with(kTorchrun, {{"RANK", "-1"}})), Contains("RANK='-1'"));
  CHECK_THAT(usage_error_of(with(kTorchrun, {{"RANK", "8"}})),
             Contains("RANK=8") && Contains("WORLD_SIZE=8"));
  CHECK_THAT(usage_error_of(with(kTorchrun, {{"WORLD_SIZE", "0"}})), Contains("WORLD_SIZE='0'"));
  CHECK_THAT(usage_error_of(with(kTorchrun, {{"LOCAL_RANK", "2"}})), Contains("local rank 2"));
  CHECK_THAT(usage_error_of(with(kTorchrun, {{"MASTER_PORT", "0"}})), Contains("MASTER_PORT='0'"));
  CHECK_THAT(usage_error_of(with(kTorchrun, {{"MASTER_PORT", "70000"}})), Contains("MASTER_PORT='70000'"));
  CHECK_THAT(usage_error_of(with(kTorchrun, {{"WORLD_SIZE", "99999999999999999999"}})),
             Contains("WORLD_SIZE="));
}

TEST_CASE("a pod's number is not taken for a rank", "[unit]") {
  const Variables pod = {
      {"RANK", "1"}, {"WORLD_SIZE", "16"}, {"MASTER_ADDR", "job-master-0"}, {"PET_NPROC_PER_NODE", "8"}};
  CHECK_THAT(usage_error_of(pod), Catch::Contains("numbers pods"));
  CHECK(world_of(with(pod, {{"PET_NPROC_PER_NODE", "1"}})).rank == 1);
}

TEST_CASE("a task of srun finds its place in SLURM's variables", "[unit]") {
  const World w = world_of(kSrun);
  CHECK(w.launcher == Launcher::kSlurm);
  CHECK(w.rank == 9);
  CHECK(w.size == 12);
  CHECK(w.local_rank == 1);
  CHECK(w.local_size == 4);
  CHECK(w.restart_count == 1);
  CHECK_FALSE(w.agent_store);
  CHECK(w.master_addr == "gpu03");
  CHECK(w.master_port == 20000 + 123456 % 20000);
  CHECK(world_of(with(kSrun, {{"SLURM_STEP_ID", "2"}})).master_port == 20000 + (123456 + 2 * 7919) % 20000);
  CHECK(world_of(with(kSrun, {{"SLURM_STEP_NODELIST", "b7"}})).master_addr == "b7");
  const World named = world_of(with(kSrun, {{"MASTER_ADDR", "head"}, {"MASTER_PORT", "1234"}}));
  CHECK(named.master_addr == "head");
  CHECK(named.master_port == 1234);
}

TEST_CASE("shells within a SLURM allocation are one process", "[unit]") {
  Variables batch = kSrun;
  batch.erase("SLURM_STEP_ID");
  CHECK(world_of(batch).launcher == Launcher::kSingle);
  CHECK(world_of(with(kSrun, {{"SLURM_STEP_ID", "4294967290"}})).launcher == Launcher::kSingle);
  CHECK(world_of({{"SLURM_STEP_ID", "0"}}).launcher == Launcher::kSingle);
}

TEST_CASE("SLURM variables that contradict each other are errors", "[unit]") {
  using Catch::Contains;
  CHECK_THAT(usage_error_of(with(kSrun, {{"SLURM_PROCID", "12"}})), Contains("SLURM_PROCID=12"));
  CHECK_THAT(usage_error_of(with(kSrun, {{"SLURM_NODEID", "2"}})), Contains("no entry for node 2"));
  CHECK_THAT(usage_error_of(with(kSrun, {{"SLURM_JOB_ID", "a"}})), Contains("SLURM_JOB_ID='a'"));
  Variables no_count = kSrun;
  no_count.erase("SLURM_NTASKS");
  CHECK_THAT(usage_error_of(no_count), Contains("SLURM_NTASKS"));
}

TEST_CASE("the first host of a node list is found in all its forms", "[unit]") {
  CHECK(dist::slurm_first_host("node7") == "node7");
  CHECK(dist::slurm_first_host("a,b") == "a");
  CHECK(dist::slurm_first_host("node[03-05,7]") == "node03");
  CHECK(dist::slurm_first_host("node[7,03-05]") == "node7");
  CHECK(dist::slurm_first_host("node[12]-ib,login") == "node12-ib");
  CHECK(dist::slurm_first_host("rack[2-3]n[001-128].cluster") == "rack2n001.cluster");
  CHECK_THROWS_AS(dist::slurm_first_host(""), core::UsageError);
  CHECK_THROWS_AS(dist::slurm_first_host("node[3"), core::UsageError);
  CHECK_THROWS_AS(dist::slurm_first_host("node[]"), core::UsageError);
}

TEST_CASE("SLURM's repeated task counts are unrolled", "[unit]") {
  CHECK(dist::slurm_tasks_on_node("8", 0) == 8);
  CHECK(dist::slurm_tasks_on_node("8(x2),4", 1) == 8);
  CHECK(dist::slurm_tasks_on_node("8(x2),4", 2) == 4);
  CHECK(dist::slurm_tasks_on_node("1,2(x3),5", 4) == 5);
  CHECK_THROWS_AS(dist::slurm_tasks_on_node("8(x2),4", 3), core::UsageError);
  CHECK_THROWS_AS(dist::slurm_tasks_on_node("8(xb)", 0), core::UsageError);
  CHECK_THROWS_AS(dist::slurm_tasks_on_node("", 0), core::UsageError);
}
