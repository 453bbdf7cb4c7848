// What is asked of a recheck.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace msprobe::analysis::recheck {

struct Options {
  std::filesystem::path dump;
  std::filesystem::path bench;   // empty: one dump alone
  std::filesystem::path output;  // empty: no table is written
  std::vector<std::string> formats = {"csv"};
  std::vector<std::string> calls;  // only calls whose names contain one of these; empty: all
  bool forward = true;
  bool backward = true;
  size_t threads = 0;
  bool quiet = false;
};

}  // namespace msprobe::analysis::recheck
