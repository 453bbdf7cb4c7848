#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/base/strings.h"
#include "src/online/channel.h"
#include "src/online/socket.h"

namespace msprobe::online {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kSlice{200};
constexpr size_t kNewsBytes = 4096;

class SocketChannel final : public Channel {
 public:
  SocketChannel(Wire wire, uint64_t session, std::atomic<int>& descriptor)
      : wire_(std::move(wire)), session_(session), descriptor_(descriptor) {
    descriptor_.store(wire_.descriptor());
  }
  ~SocketChannel() override { descriptor_.store(-1); }

  bool is_durable() const override { return false; }

  Status Send(const Frame& frame, uint64_t /*sequence*/, const GoOn& go_on) override {
    const std::span<const char> head(frame.head);
    MSP_RETURN_IF_ERROR(Write(std::as_bytes(head), go_on));
    for (const std::span<const std::byte> part : frame.data) {
      MSP_RETURN_IF_ERROR(Write(part, go_on));
    }
    return {};
  }

  Result<uint64_t> Taken(std::chrono::milliseconds wait) override {
    MSP_RETURN_IF_ERROR(ReadNews(Clock::now() + wait));
    if (Clock::now() - last_news_ > kSilenceSeconds) {
      return IoError("the checker has said nothing for too long");
    }
    return taken_;
  }

  Status Greet(const Hello& hello, uint64_t taken, const GoOn& go_on) {
    MSP_RETURN_IF_ERROR(Send(HelloFrame(session_, taken, hello), 0, go_on));
    const Clock::time_point deadline = Clock::now() + kConnectSeconds;
    while (!is_greeted_) {
      MSP_RETURN_IF_ERROR(ReadNews(Clock::now() + kSlice));
      if (!is_greeted_ && (Clock::now() >= deadline || !go_on())) {
        return IoError("the checker does not answer");
      }
    }
    return {};
  }

 private:
  Status Write(std::span<const std::byte> bytes, const GoOn& go_on) {
    while (!bytes.empty()) {
      MSP_ASSIGN_OR_RETURN(const size_t count, wire_.Write(bytes, Clock::now() + kSlice));
      bytes = bytes.subspan(count);
      if (count > 0) {
        continue;
      }
      if (!go_on()) {
        return IoError("sending ended early");
      }
      MSP_ASSIGN_OR_RETURN([[maybe_unused]] const uint64_t taken,
                           Taken(std::chrono::milliseconds(0)));
    }
    return {};
  }

  // Whole frames of what has come.
  Status ReadNews(Deadline deadline) {
    std::array<std::byte, kNewsBytes> bytes;
    for (;;) {
      MSP_ASSIGN_OR_RETURN(const size_t count, wire_.Read(bytes, deadline));
      if (count == 0) {
        return {};
      }
      received_.insert(received_.end(), bytes.begin(), bytes.begin() + count);
      MSP_ASSIGN_OR_RETURN(const bool any, TakeFrames());
      if (any) {
        return {};
      }
    }
  }

  Result<bool> TakeFrames() {
    bool any = false;
    while (received_.size() >= kFrameHeaderBytes) {
      const std::span<const std::byte> bytes(received_);
      MSP_ASSIGN_OR_RETURN(const FrameHeader header,
                           ReadFrameHeader(bytes.first(kFrameHeaderBytes)));
      if (header.kind != FrameKind::kTaken && header.kind != FrameKind::kRefused) {
        return BadFormatError("the checker sent a frame that only a training sends");
      }
      if (bytes.size() - kFrameHeaderBytes < header.payload_bytes) {
        return any;
      }
      const auto payload =
          bytes.subspan(kFrameHeaderBytes, static_cast<size_t>(header.payload_bytes));
      MSP_RETURN_IF_ERROR(CheckPayload(header, payload));
      if (header.session != session_) {
        return BadFormatError("the checker answers another session");
      }
      if (header.kind == FrameKind::kRefused) {
        MSP_ASSIGN_OR_RETURN(const std::string why, ReadRefused(payload));
        return UsageError(fmt::format("the checker refuses: {}", base::Printable(why)));
      }
      taken_ = std::max(taken_, header.sequence);
      is_greeted_ = any = true;
      last_news_ = Clock::now();
      received_.erase(
          received_.begin(),
          received_.begin() + static_cast<std::ptrdiff_t>(kFrameHeaderBytes + payload.size()));
    }
    return any;
  }

  Wire wire_;
  const uint64_t session_;
  std::atomic<int>& descriptor_;
  std::vector<std::byte> received_;  // less than a frame
  uint64_t taken_ = 0;
  bool is_greeted_ = false;
  Clock::time_point last_news_ = Clock::now();
};

}  // namespace

Result<std::unique_ptr<Channel>> OpenSocketChannel(const Endpoint& endpoint, const TlsContext* tls,
                                                   uint64_t session, uint64_t taken,
                                                   const Hello& hello, std::atomic<int>& descriptor,
                                                   const GoOn& go_on) {
  MSP_ASSIGN_OR_RETURN(
      Wire wire, Wire::Connect(endpoint.host, endpoint.port, tls, Clock::now() + kConnectSeconds));
  auto channel = std::make_unique<SocketChannel>(std::move(wire), session, descriptor);
  MSP_RETURN_IF_ERROR(channel->Greet(hello, taken, go_on));
  return std::unique_ptr<Channel>(std::move(channel));
}

}  // namespace msprobe::online
