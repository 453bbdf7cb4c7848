// How far a long job is, reported to the sink that the program sets. Without a sink, and for jobs
// that end within a second, nothing is reported. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "msprobe/status.h"

namespace msprobe::base {

// For jobs over several inputs: whether an error concerns one of them only, so that going on with
// the others makes sense. Any other error (a full disk) would repeat.
inline bool ConcernsOneInput(const Status& status) {
  return status.code() == StatusCode::kBadFormat || status.code() == StatusCode::kNotFound ||
         status.code() == StatusCode::kUnsupported || status.code() == StatusCode::kMismatch;
}

// Wall-clock seconds of a piece of work, for summaries; never part of a result that is compared.

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

class ProgressSink {
 public:
  virtual ~ProgressSink() = default;
  virtual void Show(const std::string& line) = 0;  // in place of the line before
  virtual void Clear() = 0;                        // the job is done
  // The interval between its reports.
  virtual std::chrono::microseconds interval() const = 0;
};

// One line on stderr: redrawn in place on a terminal, a plain line every few seconds otherwise.
ProgressSink& StderrProgress();

// Sets the sink of the whole process, which the command line does before it runs a command. Null:
// none.
void SetProgressSink(ProgressSink* sink);

class Progress {
 public:
  // `unit` names what is counted ("rows", "tensors"). A quiet progress tells nothing: the one of an
  // inner loop, say.
  Progress(std::string_view label, uint64_t total, std::string_view unit, bool quiet);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();

  void Add(uint64_t count = 1, uint64_t bytes = 0);

 private:
  void Draw(std::chrono::steady_clock::time_point now);

  const std::string label_;
  const uint64_t total_;
  const std::string unit_;
  ProgressSink* const sink_;  // null: nothing is reported
  const std::chrono::steady_clock::time_point start_;
  std::atomic<uint64_t> done_{0};
  std::atomic<uint64_t> bytes_{0};
  std::atomic<int64_t> next_draw_us_;
  std::mutex draw_mutex_;
  bool drawn_ = false;
};

}  // namespace msprobe::base
