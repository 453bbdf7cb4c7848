// What a check of operators while their training ran came to.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "src/analysis/accuracy/common/outcome.h"

namespace msprobe::analysis::accuracy {

struct OnlineOperator {
  std::string name;  // "step 2 rank 0 Functional.linear.3"
  Outcome outcome = Outcome::kPass;
  std::string message;
  double max_abs = 0;  // between the training's device and the bench
};

struct OnlineRank {
  OutcomeCounts calls;
  uint64_t dropped = 0;    // by the training, for lack of room
  uint64_t left_out = 0;   // could not be read, or were too large
  bool has_ended = false;  // it said so
};

struct OnlineCheck {
  // Those of a long run would fill the memory: no more are kept, all are counted and in the files.
  static constexpr size_t kMostKept = 10'000;

  std::vector<OnlineOperator> operators;  // that do not pass
  std::map<int64_t, OnlineRank> ranks;
  uint64_t restarts = 0;  // of workers
  bool was_stopped = false;
  std::string framework;
  std::string device;  // of the checker
  std::string limits;
  std::string endpoint;
  size_t worst = 10;  // operators to name
  std::vector<std::string> warnings;
  std::vector<std::filesystem::path> files;
  double seconds = 0;

  OutcomeCounts calls() const;  // of all ranks
};

}  // namespace msprobe::analysis::accuracy
