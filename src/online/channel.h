// The way from a training to its checker: a connection, or files in a folder that both sides see.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "msprobe/status.h"

#include "src/online/endpoint.h"
#include "src/online/frame.h"
#include "src/online/socket.h"

namespace msprobe::online {

// Asked now and then while a channel waits; false: it stops waiting, with an error.
using GoOn = std::function<bool()>;

class Channel {
 public:
  Channel() = default;
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  virtual ~Channel() = default;

  // Whether what was sent stays where it is when this process or the checker ends.
  virtual bool is_durable() const = 0;
  // Hands a whole frame over, in order.
  virtual Status Send(const Frame& frame, uint64_t sequence, const GoOn& go_on) = 0;
  // The last call that the checker has taken; waits up to `wait` for news. An error of the kind
  // kUsage is the checker's refusal, which is final.
  virtual Result<uint64_t> Taken(std::chrono::milliseconds wait) = 0;
};

// How long the checker may say nothing: it repeats what it has taken every kNewsSeconds.
inline constexpr std::chrono::seconds kNewsSeconds{5};
inline constexpr std::chrono::seconds kSilenceSeconds{30};
inline constexpr std::chrono::seconds kConnectSeconds{10};

// Connects, greets, and learns what was taken in an earlier connection of this session. `taken`:
// the last call that is not sent again. `descriptor` is that of the socket while it is open, and -1
// else.
Result<std::unique_ptr<Channel>> OpenSocketChannel(const Endpoint& endpoint, const TlsContext* tls,
                                                   uint64_t session, uint64_t taken,
                                                   const Hello& hello, std::atomic<int>& descriptor,
                                                   const GoOn& go_on);
// `most_bytes`: of files not taken yet.
Result<std::unique_ptr<Channel>> OpenFolderChannel(const Endpoint& endpoint, uint64_t session,
                                                   const Hello& hello, uint64_t most_bytes);

}  // namespace msprobe::online
