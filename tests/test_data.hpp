// Where the recorded data of the tests is.
#pragma once

#include <string>

/// The path of a file in tests/data.
std::string test_data(const std::string& name = "");
