#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "snake_ddp/core/host.hpp"

using snake_ddp::core::quota_cores;

TEST_CASE("the cores of a control group are those of its time, rounded up", "[unit]") {
  char name[] = "/tmp/snake_ddp.test.XXXXXX";
  REQUIRE(mkdtemp(name) != nullptr);
  const std::string root = name;
  const auto limit = [&](const std::string& group, const char* text, const char* file = "cpu.max") {
    std::filesystem::create_directories(root + group);
    std::ofstream(root + group + "/" + file) << text;
  };
  limit("/pods/one", "250000 100000\n");
  limit("/pods/free", "max 100000\n");
  CHECK(quota_cores("0::/pods/one\n", root) == 3);
  CHECK(quota_cores("0::/pods/free\n", root) == 0);
  CHECK(quota_cores("0::/\n", root) == 0);
  limit("/pods", "150000 100000\n");
  CHECK(quota_cores("9:name=systemd:/\n0::/pods/one\n", root) == 2);
  CHECK(quota_cores("0::/pods/free", root) == 2);
  CHECK(quota_cores("0::/pods/free/below/that\n", root) == 2);
  limit("", "50000 100000\n");  // as in a container, where the host's path does not exist
  CHECK(quota_cores("0::/kubepods/pod7\n", root) == 1);
  CHECK(quota_cores("1:cpu:/pods/one\n", root) == 0);
  limit("/cpu/pods", "-1\n", "cpu.cfs_quota_us");  // version 1
  limit("/cpu/pods", "100000\n", "cpu.cfs_period_us");
  CHECK(quota_cores("2:cpu,cpuacct:/pods\n", root) == 0);
  limit("/cpu", "250000\n", "cpu.cfs_quota_us");
  limit("/cpu", "100000\n", "cpu.cfs_period_us");
  CHECK(quota_cores("2:cpu,cpuacct:/pods\n", root) == 3);
  CHECK(quota_cores("2:cpuset:/pods\n", root) == 0);
  CHECK(quota_cores("", root) == 0);
  std::filesystem::remove_all(root);
}
