// Checks operators of a running training on another device.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/accuracy/check/options.h"
#include "src/analysis/accuracy/common/outcome.h"
#include "src/online/endpoint.h"
#include "src/report/document.h"

namespace msprobe::analysis::accuracy {

struct OnlineOptions {
  CheckOptions check;  // but for what belongs to a dump
  online::Endpoint endpoint;
  std::vector<int64_t> ranks;  // that are expected; empty: whoever comes
  // Asked some times a second: true ends the check, which answers with what it has.
  std::function<bool()> is_stopped = [] { return false; };
};

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
  // Bounds the memory of a long run: no more are kept, all are counted and in the files.
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

// msprobe run_ut and acc_check with is_online: operators of a running training, which come over a
// connection or a shared folder, are run here and judged.

// Returns when all expected trainings have ended, or `is_stopped` says so. Rows of a rank appear in
// its files in the order of its calls, whatever the number of workers.
Result<OnlineCheck> Run(const OnlineOptions& options);

// The levels are kCheckGateLevels. `command`: under which name the check was asked for.
report::Document MakeDocument(const OnlineCheck& check, std::string_view command);

}  // namespace msprobe::analysis::accuracy
