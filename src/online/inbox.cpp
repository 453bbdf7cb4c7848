#include "src/online/inbox.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "src/base/strings.h"

namespace msprobe::online {
namespace {

constexpr size_t kMostSessions = 65536;

}  // namespace

bool Inbox::Expects(int64_t rank) const {
  const std::vector<int64_t>& wanted = options_.ranks;
  return wanted.empty() || std::find(wanted.begin(), wanted.end(), rank) != wanted.end();
}

Result<uint64_t> Inbox::Begin(uint64_t session, const Hello& hello, uint64_t taken_before) {
  const std::lock_guard lock(mutex_);
  if (!Expects(hello.rank)) {
    return UsageError(fmt::format("rank {} is not in rank_list", hello.rank));
  }
  if (hello.framework != "pytorch") {
    return UsageError(fmt::format("calls of {} are not checked, those of pytorch are",
                                  base::Printable(hello.framework)));
  }
  if (is_closed_) {
    return UsageError("the check is over");
  }
  auto found = sessions_.find(session);
  if (found == sessions_.end()) {
    if (sessions_.size() == kMostSessions) {
      return UsageError("too many trainings have come");
    }
    found = sessions_.emplace(session, Session()).first;
    found->second.rank = hello.rank;
    found->second.ranks.insert(hello.rank);
    found->second.taken = taken_before;
    news_[hello.rank].has_ended = false;
  } else if (found->second.rank != hello.rank) {
    return UsageError("a session cannot change its rank");
  }
  ++found->second.connections;
  found->second.last_seen = Clock::now();
  return found->second.taken;
}

void Inbox::Absent(uint64_t session) {
  const std::lock_guard lock(mutex_);
  if (const auto found = sessions_.find(session); found != sessions_.end()) {
    found->second.connections -= found->second.connections > 0 ? 1 : 0;
    found->second.last_seen = Clock::now();
  }
  changed_.notify_all();
}

Result<bool> Inbox::Reserve(uint64_t bytes, Clock::time_point deadline) {
  if (bytes > options_.most_bytes) {
    return UnsupportedError(fmt::format("a call of {}, more than the {} that may wait here",
                                        base::FormatBytes(bytes),
                                        base::FormatBytes(options_.most_bytes)));
  }
  std::unique_lock lock(mutex_);
  const bool has_room = changed_.wait_until(
      lock, deadline, [&] { return is_closed_ || used_bytes_ <= options_.most_bytes - bytes; });
  if (is_closed_ || !has_room) {
    return false;
  }
  used_bytes_ += bytes;
  return true;
}

void Inbox::Release(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  used_bytes_ -= std::min(bytes, used_bytes_);
  changed_.notify_all();
}

Status Inbox::Put(uint64_t session, uint64_t sequence, Call call, uint64_t reserved) {
  std::unique_lock lock(mutex_);
  const auto found = sessions_.find(session);
  Status status;
  if (found == sessions_.end()) {
    status = BadFormatError("a call of a session that has not begun");
  } else if (sequence > found->second.taken + 1) {
    status = BadFormatError(fmt::format("call {} follows call {}", sequence, found->second.taken));
  }
  const bool is_next = status.ok() && !is_closed_ && sequence == found->second.taken + 1;
  if (is_next) {
    found->second.taken = sequence;
    found->second.last_seen = Clock::now();
  }
  if (!is_next || !Expects(call.rank)) {
    lock.unlock();
    Release(reserved);
    return status;
  }
  found->second.ranks.insert(call.rank);
  RankNews& news = news_[call.rank];
  waiting_.push_back({std::move(call), reserved, news.calls});
  ++news.calls;
  changed_.notify_all();
  return {};
}

void Inbox::LeaveOut(uint64_t session, uint64_t sequence) {
  const std::lock_guard lock(mutex_);
  const auto found = sessions_.find(session);
  if (found != sessions_.end() && sequence == found->second.taken + 1) {
    found->second.taken = sequence;
    found->second.last_seen = Clock::now();
    ++news_[found->second.rank].left_out;
  }
}

void Inbox::End(uint64_t session, const msprobe::online::End& end) {
  const std::lock_guard lock(mutex_);
  const auto found = sessions_.find(session);
  if (found == sessions_.end() || found->second.has_ended) {
    return;
  }
  found->second.has_ended = true;
  for (const int64_t rank : found->second.ranks) {
    news_[rank].has_ended = true;
  }
  news_[found->second.rank].dropped += end.dropped_calls;
  changed_.notify_all();
}

uint64_t Inbox::taken(uint64_t session) const {
  const std::lock_guard lock(mutex_);
  const auto found = sessions_.find(session);
  return found == sessions_.end() ? 0 : found->second.taken;
}

bool Inbox::is_closed() const {
  const std::lock_guard lock(mutex_);
  return is_closed_;
}

std::optional<Inbox::Taken> Inbox::Take(std::chrono::milliseconds wait) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, wait, [this] { return !waiting_.empty() || is_closed_; });
  if (waiting_.empty()) {
    return std::nullopt;
  }
  Taken taken = std::move(waiting_.front());
  waiting_.pop_front();
  return taken;
}

bool Inbox::IsFinished(const Session& session) const {
  return session.has_ended ||
         (session.connections == 0 && Clock::now() - session.last_seen > options_.absence);
}

bool Inbox::is_over() const {
  const std::lock_guard lock(mutex_);
  if (!waiting_.empty()) {
    return false;
  }
  if (is_closed_) {
    return true;
  }
  const bool all_finished = !sessions_.empty() && std::all_of(sessions_.begin(), sessions_.end(),
                                                              [this](const auto& entry) {
                                                                return IsFinished(entry.second);
                                                              });
  if (!all_finished) {
    return false;
  }
  if (options_.ranks.empty()) {
    return std::all_of(sessions_.begin(), sessions_.end(), [this](const auto& entry) {
      return Clock::now() - entry.second.last_seen > options_.quiet;
    });
  }
  return std::all_of(options_.ranks.begin(), options_.ranks.end(), [this](int64_t rank) {
    return std::any_of(sessions_.begin(), sessions_.end(),
                       [rank](const auto& entry) { return entry.second.ranks.contains(rank); });
  });
}

void Inbox::Close() {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
  changed_.notify_all();
}

std::map<int64_t, RankNews> Inbox::news() const {
  const std::lock_guard lock(mutex_);
  return news_;
}

}  // namespace msprobe::online
