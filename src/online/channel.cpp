#include "src/online/channel.h"

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sys/stat.h>

#include "src/base/files.h"
#include "src/base/strings.h"
#include "src/base/threads.h"
#include "src/online/frame.h"
#include "src/online/secret.h"
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
    return to_checker_ ? Write(to_checker_->Of(frame), go_on) : OkStatus();
  }

  Result<uint64_t> Taken(std::chrono::milliseconds wait) override {
    MSP_RETURN_IF_ERROR(ReadNews(Clock::now() + wait));
    if (Clock::now() - last_news_ > kSilenceSeconds) {
      return IoError("the checker has said nothing for too long");
    }
    return taken_;
  }

  Status Greet(const Hello& hello, uint64_t taken, const Secret* secret, const GoOn& go_on) {
    const Clock::time_point deadline = Clock::now() + kConnectSeconds;
    if (secret != nullptr) {
      MSP_RETURN_IF_ERROR(Prove(*secret, deadline, go_on));
    }
    MSP_RETURN_IF_ERROR(Send(HelloFrame(session_, taken, hello), 0, go_on));
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

  struct Received {
    FrameHeader header;
    std::vector<std::byte> payload;
  };

  // The checker learns that this side has the secret before it says anything that shows it.
  Status Prove(const Secret& secret, Deadline deadline, const GoOn& go_on) {
    MSP_ASSIGN_OR_RETURN(const kernels::Sha256Digest own, Handshake::NewNonce());
    MSP_RETURN_IF_ERROR(Send(DigestFrame(FrameKind::kGreeting, session_, own), 0, go_on));
    MSP_ASSIGN_OR_RETURN(const kernels::Sha256Digest other,
                         AwaitDigest(FrameKind::kChallenge, deadline, go_on));
    const Handshake handshake(secret, session_, own, other);
    MSP_RETURN_IF_ERROR(Send(
        DigestFrame(FrameKind::kProof, session_, handshake.ProofOf(Side::kTraining)), 0, go_on));
    MSP_ASSIGN_OR_RETURN(const kernels::Sha256Digest proof,
                         AwaitDigest(FrameKind::kProof, deadline, go_on));
    if (!kernels::AreSame(proof, handshake.ProofOf(Side::kChecker))) {
      return UsageError("whoever answers does not know the shared secret");
    }
    to_checker_.emplace(handshake.SealOf(Side::kTraining));
    to_training_.emplace(handshake.SealOf(Side::kChecker));
    return {};
  }

  Result<kernels::Sha256Digest> AwaitDigest(FrameKind kind, Deadline deadline, const GoOn& go_on) {
    for (;;) {
      MSP_ASSIGN_OR_RETURN(const std::optional<Received> frame, NextFrame());
      if (frame && frame->header.kind == kind) {
        return ReadDigest(frame->payload);
      }
      if (frame) {
        return BadFormatError("the checker does not prove that it knows the shared secret");
      }
      MSP_ASSIGN_OR_RETURN(const size_t count, ReadSome(Clock::now() + kSlice));
      if (Clock::now() >= deadline || (count == 0 && !go_on())) {
        return IoError("the checker does not answer");
      }
    }
  }

  Result<size_t> ReadSome(Deadline deadline) {
    std::array<std::byte, kNewsBytes> bytes;
    MSP_ASSIGN_OR_RETURN(const size_t count, wire_.Read(bytes, deadline));
    received_.insert(received_.end(), bytes.begin(), bytes.begin() + count);
    return count;
  }

  // Whole frames of what has come.
  Status ReadNews(Deadline deadline) {
    for (;;) {
      MSP_ASSIGN_OR_RETURN(const size_t count, ReadSome(deadline));
      if (count == 0) {
        return {};
      }
      MSP_ASSIGN_OR_RETURN(const bool any, TakeFrames());
      if (any) {
        return {};
      }
    }
  }

  // Nothing: none has come as a whole.
  Result<std::optional<Received>> NextFrame() {
    const std::span<const std::byte> bytes(received_);
    if (bytes.size() < kFrameHeaderBytes) {
      return std::optional<Received>();
    }
    MSP_ASSIGN_OR_RETURN(const FrameHeader header, ReadFrameHeader(bytes.first(kFrameHeaderBytes)));
    if (header.kind == FrameKind::kCall) {
      return BadFormatError("the checker sent a frame that only a training sends");
    }
    const size_t whole = kFrameHeaderBytes + static_cast<size_t>(header.payload_bytes);
    const size_t sealed = whole + (to_training_ ? sizeof(kernels::Sha256Digest) : 0);
    if (bytes.size() < sealed) {
      return std::optional<Received>();
    }
    if (to_training_) {
      kernels::HmacSha256 mac = to_training_->Next();
      mac.Add(bytes.first(whole));
      if (!kernels::AreSame(mac.Finish(), bytes.subspan(whole, sealed - whole))) {
        return IoError("a frame came that the checker did not send");
      }
    }
    const auto payload = bytes.subspan(kFrameHeaderBytes, whole - kFrameHeaderBytes);
    MSP_RETURN_IF_ERROR(CheckPayload(header, payload));
    if (header.session != session_) {
      return BadFormatError("the checker answers another session");
    }
    if (header.kind == FrameKind::kRefused) {
      MSP_ASSIGN_OR_RETURN(const std::string why, ReadRefused(payload));
      return UsageError(fmt::format("the checker refuses: {}", base::Printable(why)));
    }
    Received frame{header, {payload.begin(), payload.end()}};
    received_.erase(received_.begin(), received_.begin() + static_cast<std::ptrdiff_t>(sealed));
    return std::optional(std::move(frame));
  }

  Result<bool> TakeFrames() {
    bool any = false;
    for (;;) {
      MSP_ASSIGN_OR_RETURN(const std::optional<Received> frame, NextFrame());
      if (!frame) {
        return any;
      }
      if (frame->header.kind != FrameKind::kTaken) {
        return BadFormatError("the checker sent a frame that only a training sends");
      }
      taken_ = std::max(taken_, frame->header.sequence);
      is_greeted_ = any = true;
      last_news_ = Clock::now();
    }
  }

  Wire wire_;
  const uint64_t session_;
  std::optional<Seal> to_checker_, to_training_;  // with a shared secret, once it is proven
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
  MSP_RETURN_IF_ERROR(channel->Greet(hello, taken, endpoint.secret.get(), go_on));
  return std::unique_ptr<Channel>(std::move(channel));
}

namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kLookEvery{50};

class FolderChannel final : public Channel {
 public:
  FolderChannel(const Endpoint& endpoint, uint64_t session, int64_t rank, uint64_t most_bytes)
      : folder_(endpoint.folder), session_(session), rank_(rank), most_bytes_(most_bytes) {
    if (endpoint.secret != nullptr) {
      seal_.emplace(Seal::OfFiles(*endpoint.secret));
    }
  }

  bool is_durable() const override { return true; }

  Status Send(const Frame& frame, uint64_t sequence, const GoOn& go_on) override {
    const uint64_t bytes = frame.size_bytes();
    while (!waiting_.empty() && waiting_bytes_ + bytes > most_bytes_) {
      if (!go_on()) {
        return IoError(fmt::format("the checker takes nothing from {}", folder_.string()));
      }
      MSP_ASSIGN_OR_RETURN([[maybe_unused]] const uint64_t taken, Taken(kLookEvery));
    }
    MSP_ASSIGN_OR_RETURN(
        const FrameHeader header,
        ReadFrameHeader(std::as_bytes(std::span(frame.head)).first(kFrameHeaderBytes)));
    const std::string name = FolderFileName({rank_, session_, sequence, header.kind});
    MSP_RETURN_IF_ERROR(Write(frame, name));
    if (header.kind == FrameKind::kCall) {
      waiting_.push_back({name, sequence, bytes});
      waiting_bytes_ += bytes;
    }
    return {};
  }

  Result<uint64_t> Taken(std::chrono::milliseconds wait) override {
    const auto deadline = std::chrono::steady_clock::now() + wait;
    for (;;) {
      const uint64_t before = taken_;
      struct stat found = {};
      while (!waiting_.empty() && ::lstat((folder_ / waiting_.front().name).c_str(), &found) != 0) {
        taken_ = waiting_.front().sequence;
        waiting_bytes_ -= waiting_.front().bytes;
        waiting_.pop_front();
      }
      if (taken_ != before || std::chrono::steady_clock::now() >= deadline) {
        return taken_;
      }
      std::this_thread::sleep_for(std::min(wait, kLookEvery));
    }
  }

 private:
  struct Waiting {
    std::string name;
    uint64_t sequence = 0;
    uint64_t bytes = 0;
  };

  Status Write(const Frame& frame, const std::string& name) const {
    const base::NoFileSizeSignal guard;
    MSP_ASSIGN_OR_RETURN(base::AtomicFile file,
                         base::AtomicFile::Create(folder_ / name, base::Existing::kReplace));
    MSP_RETURN_IF_ERROR(file.Write(frame.head));
    for (const std::span<const std::byte> part : frame.data) {
      MSP_RETURN_IF_ERROR(file.Write(part));
    }
    if (seal_) {
      kernels::HmacSha256 mac = seal_->OfFile();
      mac.Add(frame.head);
      for (const std::span<const std::byte> part : frame.data) {
        mac.Add(part);
      }
      MSP_RETURN_IF_ERROR(file.Write(mac.Finish()));
    }
    return file.Commit();
  }

  const fs::path folder_;
  const uint64_t session_;
  const int64_t rank_;
  const uint64_t most_bytes_;
  std::optional<Seal> seal_;     // with a shared secret
  std::deque<Waiting> waiting_;  // files that no checker has taken
  uint64_t waiting_bytes_ = 0;
  uint64_t taken_ = 0;
};

}  // namespace

Result<std::unique_ptr<Channel>> OpenFolderChannel(const Endpoint& endpoint, uint64_t session,
                                                   const Hello& hello, uint64_t most_bytes) {
  auto channel = std::make_unique<FolderChannel>(endpoint, session, hello.rank, most_bytes);
  MSP_RETURN_IF_ERROR(channel->Send(HelloFrame(session, 0, hello), 0, [] { return true; }));
  return std::unique_ptr<Channel>(std::move(channel));
}

}  // namespace msprobe::online
