// Receives what trainings send, into an inbox: from connections, or out of a shared folder. Whoever
// says what is not a frame is disconnected, or left out, and costs the others nothing.
#pragma once

#include <cstdint>
#include <memory>

#include "msprobe/status.h"

#include "src/online/endpoint.h"
#include "src/online/inbox.h"

namespace msprobe::online {

class Receiver {
 public:
  Receiver() = default;
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;
  virtual ~Receiver() = default;  // ends its threads; the inbox is closed before

  virtual uint16_t port() const { return 0; }  // 0: a folder
};

inline constexpr size_t kMostConnections = 1024;
// In which what has begun must go on.
inline constexpr std::chrono::seconds kReadSeconds{60};

Result<std::unique_ptr<Receiver>> ReceiveConnections(const Endpoint& endpoint, Inbox& inbox);
// Files are removed when they are taken; those that are damaged get the ending .refused.
Result<std::unique_ptr<Receiver>> ReceiveFolder(const Endpoint& endpoint, Inbox& inbox);

}  // namespace msprobe::online
