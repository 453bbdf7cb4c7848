#include "src/base/progress.h"

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>
#include <unistd.h>

#include "src/base/strings.h"

namespace msprobe::base {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kFirstDrawUs = 1'000'000;
constexpr int64_t kTerminalIntervalUs = 100'000;
constexpr int64_t kPlainIntervalUs = 5'000'000;

class StderrSink final : public ProgressSink {
 public:
  void Show(const std::string& line) override {
    std::fprintf(stderr, terminal_ ? "\r\x1b[K%s" : "%s\n", line.c_str());
    std::fflush(stderr);
  }
  void Clear() override {
    if (terminal_) {
      std::fputs("\r\x1b[K", stderr);
      std::fflush(stderr);
    }
  }
  std::chrono::microseconds interval() const override {
    return std::chrono::microseconds(terminal_ ? kTerminalIntervalUs : kPlainIntervalUs);
  }

 private:
  const bool terminal_ = ::isatty(STDERR_FILENO) == 1;
};

std::atomic<ProgressSink*> g_sink = nullptr;

}  // namespace

ProgressSink& StderrProgress() {
  static StderrSink sink;
  return sink;
}

void SetProgressSink(ProgressSink* sink) { g_sink = sink; }

Progress::Progress(std::string_view label, uint64_t total, std::string_view unit, bool quiet)
    : label_(label),
      total_(total),
      unit_(unit),
      sink_(quiet ? nullptr : g_sink.load()),
      start_(Clock::now()),
      next_draw_us_(kFirstDrawUs) {}

Progress::~Progress() {
  if (drawn_) {
    sink_->Clear();
  }
}

void Progress::Add(uint64_t count, uint64_t bytes) {
  done_.fetch_add(count, std::memory_order_relaxed);
  bytes_.fetch_add(bytes, std::memory_order_relaxed);
  if (sink_ == nullptr) {
    return;
  }
  const Clock::time_point now = Clock::now();
  const int64_t elapsed_us =
      std::chrono::duration_cast<std::chrono::microseconds>(now - start_).count();
  if (elapsed_us < next_draw_us_.load(std::memory_order_relaxed)) {
    return;
  }
  const std::unique_lock lock(draw_mutex_, std::try_to_lock);
  if (lock.owns_lock() && elapsed_us >= next_draw_us_.load(std::memory_order_relaxed)) {
    next_draw_us_ = elapsed_us + sink_->interval().count();
    Draw(now);
  }
}

void Progress::Draw(Clock::time_point now) {
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const uint64_t done = std::min(done_.load(), total_);
  const uint64_t bytes = bytes_.load();
  const double share = total_ > 0 ? static_cast<double>(done) / static_cast<double>(total_) : 1.0;
  std::string line = fmt::format("{}: {:3.0f} % ({} of {} {}", label_, share * 100.0,
                                 FormatCount(done), FormatCount(total_), unit_);
  if (bytes > 0) {
    line += fmt::format(", {}/s",
                        FormatBytes(static_cast<uint64_t>(static_cast<double>(bytes) / seconds)));
  }
  if (share > 0.01 && share < 1.0) {
    line += fmt::format(", {} left", FormatSeconds(seconds / share * (1.0 - share)));
  }
  line += ")";
  sink_->Show(line);
  drawn_ = true;
}

}  // namespace msprobe::base
