// The checker's side: calls of all ranks, in a queue of bounded bytes between those who receive
// them and those who judge them. A full queue makes receivers wait, and with them the senders.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/online/frame.h"

namespace msprobe::online {

struct InboxOptions {
  std::vector<int64_t> ranks;                // that are expected; empty: whoever comes
  uint64_t most_bytes = uint64_t{1} << 30U;  // of calls that wait, or are on their way in
  // A session without a connection for so long has ended.
  std::chrono::seconds absence{600};
  // Where no ranks are expected: after the last session, somebody else may still come.
  std::chrono::seconds quiet{10};
};

// The state of a rank.
struct RankNews {
  uint64_t calls = 0;     // taken
  uint64_t dropped = 0;   // by the training
  uint64_t left_out = 0;  // that could not be read, or are too large
  bool has_ended = false;
};

// Thread-safe.
class Inbox {
 public:
  explicit Inbox(InboxOptions options) : options_(std::move(options)) {}
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;

  // For receivers.

  // Whether this rank's calls are wanted.
  bool Expects(int64_t rank) const;
  // A session begins, or comes back: the last call that was taken of it. `taken_before`: by an
  // earlier checker. The error is the refusal.
  Result<uint64_t> Begin(uint64_t session, const Hello& hello, uint64_t taken_before);
  void Absent(uint64_t session);  // its connection is lost, or over
  // Room for a call of `bytes`, without which its bytes are not even read. False: the inbox was
  // closed. Larger than all room is an error.
  Result<bool> Reserve(uint64_t bytes, std::chrono::steady_clock::time_point deadline);
  void Release(uint64_t bytes);  // of a call that did not come
  // Takes a call whose room, `reserved`, was reserved; it is given back when the call is judged.
  // A number that was taken before is not an error, and dropped; one that is not the next is. So
  // are calls of unexpected ranks.
  Status Put(uint64_t session, uint64_t sequence, Call call, uint64_t reserved);
  // A call that is not looked at, so that the next one can come.
  void LeaveOut(uint64_t session, uint64_t sequence);
  void End(uint64_t session, const msprobe::online::End& end);
  uint64_t taken(uint64_t session) const;
  bool is_closed() const;

  // For those who judge.

  struct Taken {
    Call call;
    uint64_t reserved = 0;
    uint64_t number = 0;  // among the calls of its rank, from 0
  };
  // Waits; nullopt: there is nothing yet, or never will be (is_over).
  std::optional<Taken> Take(std::chrono::milliseconds wait);
  void Done(const Taken& taken) { Release(taken.reserved); }
  // The queue is empty, and no further sender is expected.
  bool is_over() const;
  // Nothing may be put any more; what waits can still be taken.
  void Close();
  std::map<int64_t, RankNews> news() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Session {
    int64_t rank = 0;         // that it said hello with
    std::set<int64_t> ranks;  // of its calls, too: a process may learn its rank late
    uint64_t taken = 0;
    size_t connections = 0;
    bool has_ended = false;
    Clock::time_point last_seen;
  };
  bool IsFinished(const Session& session) const;  // mutex_ held

  const InboxOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<uint64_t, Session> sessions_;
  std::map<int64_t, RankNews> news_;
  std::deque<Taken> waiting_;
  uint64_t used_bytes_ = 0;
  bool is_closed_ = false;
};

}  // namespace msprobe::online
