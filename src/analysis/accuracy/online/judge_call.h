// One call of a training, run again here, against what the training's device computed.
#pragma once

#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/accuracy/check/call_maker.h"
#include "src/analysis/accuracy/check/options.h"
#include "src/analysis/accuracy/check/worker.h"
#include "src/analysis/accuracy/common/outcome.h"
#include "src/analysis/accuracy/common/standards.h"
#include "src/online/call.h"

namespace msprobe::analysis::accuracy {

// Rows as CSV, for the files of the call's rank.
struct JudgedCall {
  std::string details;            // accuracy_checking_details: the training against this device,
  std::string result;             // or why a call was not judged
  std::string precision_details;  // api_precision_compare: both devices against the CPU,
  std::string precision_result;   // by the ratio of their errors
  Outcome outcome = Outcome::kSkip;
  std::string message;
  double max_abs = 0;
};

class CallJudge {
 public:
  CallJudge(const CheckOptions& options, const Standards& standards)
      : options_(options), standards_(standards), maker_(options, standards) {}

  // Operators judged by fixed limits (absolute, binary, thousandth) are compared with what the
  // worker's device computes; all others with the CPU, as the worker's device is, and the errors of
  // both with one another. The call may hold anything: what is wrong with it is a row.
  JudgedCall Judge(const online::Call& call, Worker& worker) const;

 private:
  Result<JudgedCall> TryToJudge(const online::Call& call, Worker& worker) const;
  JudgedCall Skipped(const std::string& name, const std::string& why) const;

  const CheckOptions& options_;
  const Standards& standards_;
  const CallMaker maker_;
};

}  // namespace msprobe::analysis::accuracy
