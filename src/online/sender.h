// The training's side: calls queue up and a thread of ours sends them. Whatever becomes of the
// checker, only callers that ask for it wait for this, and nothing is thrown.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "msprobe/status.h"

#include "src/online/channel.h"
#include "src/online/endpoint.h"
#include "src/online/frame.h"
#include "src/online/socket.h"

namespace msprobe::online {

struct SenderOptions {
  Endpoint endpoint;
  Hello hello;
  // The most bytes of calls that wait in a shared folder for a checker. What waits in memory is
  // bounded by whoever provides that memory.
  uint64_t most_folder_bytes = uint64_t{1} << 30U;
  // At the end, for what is still on its way.
  std::chrono::milliseconds closing_patience{60'000};
};

struct SenderCounts {
  uint64_t queued_calls = 0;
  uint64_t taken_calls = 0;  // by the checker; of a folder, written there
  uint64_t dropped_calls = 0;
  uint64_t dropped_bytes = 0;
  uint64_t connections = 0;
};

class Sender {
 public:
  // Timeout after which an idle checker is abandoned.
  static constexpr std::chrono::seconds kStallSeconds{5};
  // Calls and bytes of records that wait, beside the tensors' bytes.
  static constexpr size_t kMostWaitingCalls = 100'000;
  static constexpr uint64_t kMostWaitingRecordBytes = uint64_t{64} << 20U;

  // An error when the certificates cannot be used, or there is no thread; whether somebody listens
  // is not known yet.
  static Result<std::unique_ptr<Sender>> Start(SenderOptions options);
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;
  ~Sender();  // Close

  // The following are thread-safe.

  // False: there is no room for it, and it is counted as dropped.
  bool Queue(Call call) noexcept;
  void CountDropped(uint64_t bytes) noexcept;
  // Nothing will be sent any more: the checker does not want it.
  bool is_refused() const;
  // Whether it makes sense to wait for room: the checker is there, and takes calls.
  bool is_moving() const;
  SenderCounts counts() const;
  // Sends what waits, within the closing patience and as long as the checker takes something; what
  // is left is dropped. Tells how it went.
  void Close() noexcept;
  // The socket of the connection, to be closed in the child of a fork; -1: none.
  int descriptor_after_fork() const { return descriptor_.load(); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Item {
    Call call;
    uint64_t record_bytes = 0;
    uint64_t tensor_bytes = 0;
    uint64_t sequence = 0;  // 0: not sent yet
  };

  Sender(SenderOptions options, std::optional<TlsContext> tls, uint64_t session);
  void Loop();
  bool IsOver();
  bool MaySend() const;  // what a channel asks while it waits
  std::unique_ptr<Channel> Connect();
  Status Turn(Channel& channel);
  void Acknowledge(uint64_t taken);
  void Lose(const Channel& channel, const Status& why);
  void DropAll();
  void SayGoodbye(Channel& channel);

  const SenderOptions options_;
  const std::optional<TlsContext> tls_;
  const uint64_t session_;
  std::atomic<int> descriptor_{-1};

  mutable std::mutex mutex_;  // of what follows, but for what only the thread knows
  std::condition_variable changed_;
  std::deque<Item> items_;  // the first next_ of them are on their way
  size_t next_ = 0;
  uint64_t last_sequence_ = 0;
  uint64_t waiting_record_bytes_ = 0;
  SenderCounts counts_;
  bool is_connected_ = false;
  bool is_durable_ = false;
  bool is_refused_ = false;
  Clock::time_point last_progress_ = Clock::now();
  std::optional<Clock::time_point> closing_since_;

  // Used by the thread only:
  bool told_failure_ = false;
  std::chrono::milliseconds pause_{0};
  std::thread thread_;
};

}  // namespace msprobe::online
