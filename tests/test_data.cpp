#include "test_data.hpp"

std::string test_data(const std::string& name) {
  return name.empty() ? SD_TEST_DATA : SD_TEST_DATA "/" + name;
}
