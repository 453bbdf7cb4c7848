#include "src/analysis/accuracy/check/start_worker.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "src/base/strings.h"
#include "src/base/thread_pool.h"

namespace msprobe::analysis::accuracy {

WorkerOptions WorkerOptionsOf(const CheckOptions& options, const std::string& python, size_t number,
                              size_t workers) {
  WorkerOptions worker;
  worker.python = python;
  worker.script = options.worker_script;
  worker.reference_file = options.reference_file;
  worker.device = options.device;
  worker.device_id = options.device_ids[number % options.device_ids.size()];
  worker.jit_compile = options.jit_compile;
  worker.strict = options.strict;
  worker.vocabulary = options.vocabulary;
  worker.threads = workers > 1 ? std::max<size_t>(1, base::UsableCores() / workers) : 0;
  worker.time_limit = std::chrono::milliseconds(static_cast<int64_t>(options.time_limit_s * 1000));
  return worker;
}

Result<WorkerPointer> StartFirst(const CheckOptions& options, size_t workers, std::string& python,
                                 std::vector<std::string>& warnings) {
  if (options.worker_script.empty()) {
    return NotFoundError(options.no_worker_script)
        .WithHint("set MSPROBE_PYTHON_PATH to the folder that holds the package msprobe");
  }
  Status first_error;
  for (const std::string& candidate : options.pythons) {
    auto worker = std::make_unique<Worker>(WorkerOptionsOf(options, candidate, 0, workers));
    Status status = worker->Start();
    if (status.ok()) {
      python = candidate;
      if (const std::string& missing = worker->greeting().message; !missing.empty()) {
        warnings.push_back(fmt::format(
            "operators run with more rights than they need, which this system does not let a "
            "process give up: {}",
            base::Printable(missing)));
      }
      return worker;
    }
    if (first_error.ok()) {
      first_error = std::move(status);
    } else if (status.message() != first_error.message()) {
      first_error.AddContext(status.message() + "; before that");
    }
  }
  return first_error;
}

}  // namespace msprobe::analysis::accuracy
