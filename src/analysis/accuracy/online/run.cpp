#include "src/analysis/accuracy/online/run.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/accuracy/check/run.h"
#include "src/analysis/accuracy/check/shared_memory.h"
#include "src/analysis/accuracy/check/start_worker.h"
#include "src/analysis/accuracy/online/judge_call.h"
#include "src/analysis/accuracy/online/rank_files.h"
#include "src/base/log.h"
#include "src/base/output_rule.h"
#include "src/base/stopwatch.h"
#include "src/base/strings.h"
#include "src/online/inbox.h"
#include "src/online/receiver.h"

namespace msprobe::analysis::accuracy {
namespace {

constexpr std::chrono::milliseconds kTakeWait{100};
constexpr uint64_t kLeastInboxBytes = uint64_t{256} << 20U;
constexpr uint64_t kMostInboxBytes = uint64_t{16} << 30U;

// A quarter of what the machine can give now: the workers need memory, too.
uint64_t InboxBytes() {
  return std::clamp(AvailableMemory() / 4, kLeastInboxBytes, kMostInboxBytes);
}

// The calls of all ranks through all workers, and their rows in order.
class OnlineChecking {
 public:
  OnlineChecking(const OnlineOptions& options, const Standards& standards, online::Inbox& inbox,
                 std::string time)
      : options_(options),
        inbox_(inbox),
        judge_(options.check, standards),
        time_(std::move(time)) {}

  Status PrepareFiles(int64_t rank) {
    const std::lock_guard lock(mutex_);
    MSP_ASSIGN_OR_RETURN([[maybe_unused]] Rank * found, RankOf(rank));
    return {};
  }

  // Until nothing more comes.
  Status Run(const std::vector<WorkerPointer>& workers) {
    std::vector<std::thread> threads;  // the system ends a worker with the thread that started it
    for (size_t i = 1; i < workers.size(); ++i) {
      try {
        threads.emplace_back([this, &workers, i] { Serve(*workers[i]); });
      } catch (const std::system_error&) {
        break;  // those that run do the work
      }
    }
    Serve(*workers[0]);
    for (std::thread& thread : threads) {
      thread.join();
    }
    // Where the check was stopped: behind a call that was cut off.
    for (auto& [number, rank] : ranks_) {
      for (const auto& [place, judged] : rank.waiting) {
        const Status written = rank.files.Append(judged);
        status_ = status_.ok() ? written : std::move(status_);
      }
    }
    return std::move(status_);
  }

  void Tell(OnlineCheck& check) {
    for (const auto& [rank, news] : inbox_.news()) {
      OnlineRank& told = check.ranks[rank];
      told.dropped = news.dropped;
      told.left_out = news.left_out;
      told.has_ended = news.has_ended;
    }
    for (auto& [rank, found] : ranks_) {
      check.ranks[rank].calls = found.counts;
      check.files.insert(check.files.end(), found.files.paths().begin(), found.files.paths().end());
    }
    check.operators = std::move(operators_);
    check.was_stopped = was_stopped_;
    if (left_out_ > 0) {
      check.warnings.push_back(
          fmt::format("{} more calls did not pass; the files have all of them", left_out_));
    }
  }

 private:
  struct Rank {
    explicit Rank(RankFiles opened) : files(std::move(opened)) {}
    RankFiles files;
    OutcomeCounts counts;
    std::map<uint64_t, JudgedCall> waiting;  // for the rows of earlier calls
    uint64_t written = 0;
  };

  Result<Rank*> RankOf(int64_t rank) {  // mutex_ held
    const auto found = ranks_.find(rank);
    if (found != ranks_.end()) {
      return &found->second;
    }
    MSP_ASSIGN_OR_RETURN(RankFiles files, RankFiles::Create(options_.check.output, time_, rank,
                                                            options_.check.english));
    return &ranks_.emplace(rank, std::move(files)).first->second;
  }

  void Serve(Worker& worker) {
    for (;;) {
      if (options_.is_stopped() && !inbox_.is_closed()) {
        const std::lock_guard lock(mutex_);
        was_stopped_ = true;
        inbox_.Close();
      }
      const std::optional<online::Inbox::Taken> taken =
          was_stopped_ ? std::nullopt : inbox_.Take(kTakeWait);
      if (!taken) {
        if (was_stopped_ || inbox_.is_over()) {
          return;
        }
        continue;
      }
      JudgedCall judged = judge_.Judge(taken->call, worker);
      // Ctrl-C ends the workers, too: a call that was lost with one was not checked.
      const bool was_cut = options_.is_stopped() && judged.outcome == Outcome::kSkip;
      const Status status = was_cut ? OkStatus() : Finish(*taken, std::move(judged));
      inbox_.Done(*taken);
      if (!status.ok()) {
        const std::lock_guard lock(mutex_);
        status_ = status_.ok() ? status : std::move(status_);
        was_stopped_ = true;
        inbox_.Close();
        return;
      }
    }
  }

  Status Finish(const online::Inbox::Taken& taken, JudgedCall judged) {
    const std::lock_guard lock(mutex_);
    MSP_ASSIGN_OR_RETURN(Rank * rank, RankOf(taken.call.rank));
    rank->counts.Add(judged.outcome);
    if (judged.outcome != Outcome::kPass) {
      if (operators_.size() < OnlineCheck::kMostKept) {
        operators_.push_back(
            {fmt::format("step {} rank {} {}", taken.call.step, taken.call.rank, taken.call.name),
             judged.outcome, judged.message, judged.max_abs});
      } else {
        ++left_out_;
      }
    }
    rank->waiting.emplace(taken.number, std::move(judged));
    for (auto next = rank->waiting.begin();
         next != rank->waiting.end() && next->first == rank->written;
         next = rank->waiting.erase(next)) {
      MSP_RETURN_IF_ERROR(rank->files.Append(next->second));
      ++rank->written;
    }
    return {};
  }

  const OnlineOptions& options_;
  online::Inbox& inbox_;
  const CallJudge judge_;
  const std::string time_;
  std::mutex mutex_;  // of what follows
  std::map<int64_t, Rank> ranks_;
  std::vector<OnlineOperator> operators_;
  uint64_t left_out_ = 0;
  Status status_;
  std::atomic<bool> was_stopped_{false};
};

}  // namespace

Result<OnlineCheck> Run(const OnlineOptions& options) {
  const base::Stopwatch watch;
  const CheckOptions& check_options = options.check;
  MSP_RETURN_IF_ERROR(CheckLists(check_options));
  Standards standards = Standards::BuiltIn();
  if (!check_options.standards_file.empty()) {
    MSP_ASSIGN_OR_RETURN(standards, Standards::Load(check_options.standards_file));
  }
  if (check_options.quantised) {
    standards.SetQuantised(*check_options.quantised);
  }
  // Before anybody is let in: a Python that cannot do it, files that cannot be written.
  std::vector<WorkerPointer> workers;
  std::string python;
  OnlineCheck check;
  MSP_ASSIGN_OR_RETURN(WorkerPointer first,
                       StartFirst(check_options, check_options.workers, python, check.warnings));
  workers.push_back(std::move(first));
  for (size_t i = 1; i < check_options.workers; ++i) {
    workers.push_back(
        std::make_unique<Worker>(WorkerOptionsOf(check_options, python, i, check_options.workers)));
  }
  MSP_ASSIGN_OR_RETURN(const base::RunStamp stamp,
                       base::RunStamp::Take(check_options.output, base::TimestampNow()));
  online::InboxOptions inbox_options;
  inbox_options.ranks = options.ranks;
  inbox_options.most_bytes = InboxBytes();
  online::Inbox inbox(inbox_options);
  OnlineChecking checking(options, standards, inbox, stamp.text());
  for (const int64_t rank : options.ranks) {
    MSP_RETURN_IF_ERROR(checking.PrepareFiles(rank));
  }
  check.endpoint = options.endpoint.text();
  {
    MSP_ASSIGN_OR_RETURN(const std::unique_ptr<online::Receiver> receiver,
                         options.endpoint.is_folder()
                             ? online::ReceiveFolder(options.endpoint, inbox)
                             : online::ReceiveConnections(options.endpoint, inbox));
    if (!check_options.quiet) {
      base::LogInfo(fmt::format("waiting for calls at {}; Ctrl-C ends the check with its answer",
                                check.endpoint));
    }
    const Status status = checking.Run(workers);
    inbox.Close();  // before its receiver ends
    MSP_RETURN_IF_ERROR(status);
  }
  check.framework = workers[0]->greeting().framework;
  check.device = workers[0]->greeting().device;
  for (const WorkerPointer& worker : workers) {
    check.restarts += worker->starts() > 1 ? worker->starts() - 1 : 0;
  }
  check.limits =
      fmt::format("{}, {}", check_options.version == StandardVersion::k26 ? "26.x" : "8.1.1",
                  standards.source());
  check.worst = check_options.worst;
  checking.Tell(check);
  check.seconds = watch.seconds();
  return check;
}

}  // namespace msprobe::analysis::accuracy
