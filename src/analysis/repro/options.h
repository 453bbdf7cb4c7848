// What is asked of a reproduction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace msprobe::analysis::repro {

struct Options {
  std::filesystem::path dump;
  std::string call;  // "Functional.gelu.0.forward"; without a direction: the half that is wrong,
                     // forward where none is
  std::optional<int64_t> step;  // nullopt: the first that has the call
  std::optional<int64_t> rank;
  std::filesystem::path output;  // empty: <call>_repro
  bool minimise = false;
  uint64_t attempts = 2000;  // that minimising may make
  size_t threads = 0;
  bool quiet = false;
};

}  // namespace msprobe::analysis::repro
