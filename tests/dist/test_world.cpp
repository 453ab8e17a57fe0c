#include <catch2/catch.hpp>
#include <map>
#include <string>

#include "snake_ddp/base/error.hpp"
#include "snake_ddp/dist/world.hpp"

using namespace snake_ddp;
using dist::Launcher;
using dist::World;

namespace {

using Variables = std::map<std::string, std::string>;

World world_of(const Variables& variables) {
  return dist::world_from_env([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
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
  } catch (const base::UsageError& error) {
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

TEST_CASE("variables set in part are an error that lists those set and those missing", "[unit]") {
  using Catch::Contains;
  CHECK_THAT(usage_error_of({{"RANK", "0"}}),
             Contains("set (RANK)") && Contains("not (WORLD_SIZE, MASTER_ADDR)"));
  CHECK_THAT(usage_error_of({{"WORLD_SIZE", "2"}}),
             Contains("set (WORLD_SIZE)") && Contains("not (RANK, MASTER_ADDR)"));
  CHECK_THAT(usage_error_of({{"RANK", "0"}, {"WORLD_SIZE", "2"}}),
             Contains("set (RANK, WORLD_SIZE)") && Contains("not (MASTER_ADDR)"));
  CHECK_THAT(usage_error_of({{"MASTER_ADDR", "head"}, {"LOCAL_RANK", "0"}}),
             Contains("set (MASTER_ADDR, LOCAL_RANK)") && Contains("not (RANK, WORLD_SIZE)"));
  CHECK_THAT(usage_error_of({{"MASTER_PORT", "29500"}}), Contains("set (MASTER_PORT)"));
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
  CHECK_THROWS_AS(dist::slurm_first_host(""), base::UsageError);
  CHECK_THROWS_AS(dist::slurm_first_host("node[3"), base::UsageError);
  CHECK_THROWS_AS(dist::slurm_first_host("node[]"), base::UsageError);
}

TEST_CASE("SLURM's repeated task counts are unrolled", "[unit]") {
  CHECK(dist::slurm_tasks_on_node("8", 0) == 8);
  CHECK(dist::slurm_tasks_on_node("8(x2),4", 1) == 8);
  CHECK(dist::slurm_tasks_on_node("8(x2),4", 2) == 4);
  CHECK(dist::slurm_tasks_on_node("1,2(x3),5", 4) == 5);
  CHECK_THROWS_AS(dist::slurm_tasks_on_node("8(x2),4", 3), base::UsageError);
  CHECK_THROWS_AS(dist::slurm_tasks_on_node("8(xb)", 0), base::UsageError);
  CHECK_THROWS_AS(dist::slurm_tasks_on_node("", 0), base::UsageError);
}
