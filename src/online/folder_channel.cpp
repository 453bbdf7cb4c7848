#include <algorithm>
#include <deque>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <sys/stat.h>

#include "src/base/threads.h"
#include "src/base/files.h"
#include "src/online/channel.h"
#include "src/online/folder_names.h"
#include "src/online/secret.h"

namespace msprobe::online {
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
  std::deque<Waiting> waiting_;  // files that nobody has taken
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
