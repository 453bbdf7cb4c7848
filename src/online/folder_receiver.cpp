#include <array>
#include <atomic>
#include <exception>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "src/base/threads.h"
#include "src/base/files.h"
#include "src/base/log.h"
#include "src/base/strings.h"
#include "src/online/folder_names.h"
#include "src/online/payload_memory.h"
#include "src/online/receiver.h"
#include "src/online/secret.h"

namespace msprobe::online {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPause{100};
constexpr std::chrono::seconds kRoomSlice{1};
constexpr std::chrono::seconds kEarlierCallsPatience{2};

// The frame of a file. With a shared secret, what proves that it is of the training stands behind
// it.
class FrameFile {
 public:
  static Result<FrameFile> Open(const fs::path& path, const std::optional<Seal>& seal) {
    MSP_ASSIGN_OR_RETURN(base::InputFile input, base::InputFile::Open(path, base::Links::kRefuse));
    FrameFile file(std::move(input), seal);
    MSP_RETURN_IF_ERROR(file.Read(0, file.header_bytes_));
    return file;
  }

  // Of the whole file, whose size is what its header says.
  Result<FrameHeader> Header() const {
    MSP_ASSIGN_OR_RETURN(const FrameHeader header, ReadFrameHeader(header_bytes_));
    const uint64_t bytes =
        kFrameHeaderBytes + header.payload_bytes + (seal_ ? sizeof(kernels::Sha256Digest) : 0);
    if (input_.size_bytes() != bytes) {
      return BadFormatError(fmt::format("it has {} bytes instead of {}{}", input_.size_bytes(),
                                        bytes,
                                        seal_ ? ", with the proof of the shared secret" : ""));
    }
    return header;
  }
  Result<std::shared_ptr<const std::vector<std::byte>>> Payload(const FrameHeader& header) const {
    uint64_t at = kFrameHeaderBytes;
    MSP_ASSIGN_OR_RETURN(auto payload,
                         ReadPayload(header.payload_bytes, [&](std::span<std::byte> part) {
                           at += part.size();
                           return Read(at - part.size(), part);
                         }));
    if (seal_) {
      kernels::Sha256Digest proof;
      MSP_RETURN_IF_ERROR(Read(at, proof));
      kernels::HmacSha256 mac = seal_->OfFile();
      mac.Add(header_bytes_);
      mac.Add(*payload);
      if (!kernels::AreSame(proof, mac.Finish())) {
        return BadFormatError("somebody wrote it who does not know the shared secret");
      }
    }
    MSP_RETURN_IF_ERROR(CheckPayload(header, *payload));
    return payload;
  }

 private:
  FrameFile(base::InputFile input, const std::optional<Seal>& seal)
      : input_(std::move(input)), seal_(seal) {}

  Status Read(uint64_t offset, std::span<std::byte> bytes) const {
    MSP_ASSIGN_OR_RETURN(
        const size_t count,
        input_.ReadAt(offset, {reinterpret_cast<char*>(bytes.data()), bytes.size()}));
    return count == bytes.size() ? OkStatus() : BadFormatError("the file ends early");
  }

  base::InputFile input_;
  std::optional<Seal> seal_;
  std::array<std::byte, kFrameHeaderBytes> header_bytes_{};
};

class FolderReceiver final : public Receiver {
 public:
  FolderReceiver(const Endpoint& endpoint, Inbox& inbox) : folder_(endpoint.folder), inbox_(inbox) {
    if (endpoint.secret != nullptr) {
      seal_.emplace(Seal::OfFiles(*endpoint.secret));
    }
  }
  ~FolderReceiver() override {
    stopped_.store(true);
    if (thread_.joinable()) {
      thread_.join();
    }
  }

  Status Start() {
    MSP_ASSIGN_OR_RETURN(
        thread_, base::StartBackgroundThread([this] {
          try {
            Loop();
          } catch (const std::exception& error) {
            base::LogWarning(fmt::format("{}: {}", folder_.string(), error.what()));
            inbox_.Close();
          }
        }));
    return {};
  }

 private:
  // What lies in the folder of one session.
  struct SessionFiles {
    std::optional<FolderFile> start;
    std::map<uint64_t, FolderFile> calls;
    std::optional<FolderFile> end;
  };
  // What was taken of it.
  struct Progress {
    Clock::time_point since = Clock::now();
    std::optional<uint64_t> last;  // file that was looked at; nullopt: none yet
    uint64_t calls = 0;            // that were put into the inbox
  };

  bool IsWanted() const { return !stopped_.load() && !inbox_.is_closed(); }

  void Loop() {
    while (IsWanted()) {
      bool any = false;
      for (const auto& [session, files] : Look()) {
        any |= TakeSession(session, files);
      }
      if (!any) {
        std::this_thread::sleep_for(kPause);
      }
    }
  }

  std::map<uint64_t, SessionFiles> Look() {
    std::map<uint64_t, SessionFiles> seen;
    const Result<std::vector<std::string>> names = base::ListFolder(folder_);
    if (!names.ok()) {
      if (!std::exchange(told_trouble_, true)) {
        base::LogWarning(names.status().message());
      }
      return seen;
    }
    for (const std::string& name : *names) {
      const std::optional<FolderFile> file = ParseFolderFileName(name);
      if (!file || !inbox_.Expects(file->rank)) {
        continue;  // another checker's, or nobody's
      }
      SessionFiles& files = seen[file->session];
      if (file->kind == FrameKind::kCall) {
        files.calls.emplace(file->sequence, *file);
      } else {
        (file->kind == FrameKind::kHello ? files.start : files.end) = *file;
      }
    }
    return seen;
  }

  // Whether anything was taken.
  bool TakeSession(uint64_t session, const SessionFiles& files) {
    bool any = false;
    if (files.start && !sessions_.contains(session)) {
      any = Begin(session, *files.start);
    }
    const auto found = sessions_.find(session);
    if (found == sessions_.end()) {
      return any;
    }
    Progress& progress = found->second;
    for (const auto& [sequence, file] : files.calls) {
      if (!IsWanted() || !IsNext(progress, sequence)) {
        break;
      }
      if (!TakeCallFile(file, progress)) {
        break;
      }
      progress.last = sequence;
      any = true;
    }
    const bool has_next =
        !files.calls.empty() && files.calls.rbegin()->first > progress.last.value_or(0);
    if (files.end && files.start && !has_next && IsWanted()) {
      any |= TakeEnd(*files.start, *files.end, progress);
    }
    return any;
  }

  // A folder may show names in any order; calls have one. Where an earlier checker has taken the
  // first ones, the lowest number that is there is the next.
  static bool IsNext(const Progress& progress, uint64_t sequence) {
    if (progress.last) {
      return sequence == *progress.last + 1;
    }
    return sequence == 1 || Clock::now() - progress.since > kEarlierCallsPatience;
  }

  // The file stays until the end of its session, for a checker that is started again.
  bool Begin(uint64_t session, const FolderFile& file) {
    const fs::path path = folder_ / FolderFileName(file);
    const auto read = [&]() -> Status {
      MSP_ASSIGN_OR_RETURN(const FrameFile opened, FrameFile::Open(path, seal_));
      MSP_ASSIGN_OR_RETURN(const FrameHeader header, HeaderOf(opened, file));
      MSP_ASSIGN_OR_RETURN(const auto payload, opened.Payload(header));
      MSP_ASSIGN_OR_RETURN(const Hello hello, ReadHello(*payload));
      if (hello.rank != file.rank) {
        return BadFormatError("it is of another rank than its name says");
      }
      MSP_ASSIGN_OR_RETURN([[maybe_unused]] const uint64_t taken, inbox_.Begin(session, hello, 0));
      inbox_.Absent(session);  // there is no connection: what comes shows that it is there
      return {};
    };
    if (const Status status = read(); !status.ok()) {
      if (IsWanted()) {  // else the check is over, and the file stays for the next one
        LeaveOut(path, status);
      }
      return false;
    }
    sessions_.emplace(session, Progress());
    return true;
  }

  // False: the check is over, and the file stays.
  bool TakeCallFile(const FolderFile& file, Progress& progress) {
    const fs::path path = folder_ / FolderFileName(file);
    const auto read = [&]() -> Status {
      MSP_ASSIGN_OR_RETURN(const FrameFile opened, FrameFile::Open(path, seal_));
      MSP_ASSIGN_OR_RETURN(const FrameHeader header, HeaderOf(opened, file));
      for (;;) {
        MSP_ASSIGN_OR_RETURN(const bool reserved,
                             inbox_.Reserve(header.payload_bytes, Clock::now() + kRoomSlice));
        if (reserved) {
          break;
        }
        if (!IsWanted()) {
          return IoError("the check is over");
        }
      }
      Result<Call> call = CallOf(opened, header);
      if (!call.ok()) {
        inbox_.Release(header.payload_bytes);
        return std::move(call).status();
      }
      MSP_RETURN_IF_ERROR(
          inbox_.Put(file.session, progress.calls + 1, *std::move(call), header.payload_bytes));
      ++progress.calls;
      return {};
    };
    const Status status = read();
    if (!IsWanted() && !status.ok()) {
      return false;
    }
    if (status.ok()) {
      ::unlink(path.c_str());
    } else {
      LeaveOut(path, status);
      inbox_.LeaveOut(file.session, ++progress.calls);
    }
    return true;
  }

  static Result<Call> CallOf(const FrameFile& file, const FrameHeader& header) {
    MSP_ASSIGN_OR_RETURN(const auto payload, file.Payload(header));
    MSP_ASSIGN_OR_RETURN(Call call, ReadCall(*payload));
    call.memory = payload;
    return call;
  }

  bool TakeEnd(const FolderFile& start, const FolderFile& file, const Progress& progress) {
    const fs::path path = folder_ / FolderFileName(file);
    bool is_early = false;
    const auto read = [&]() -> Status {
      MSP_ASSIGN_OR_RETURN(const FrameFile opened, FrameFile::Open(path, seal_));
      MSP_ASSIGN_OR_RETURN(const FrameHeader header, HeaderOf(opened, file));
      // Where nothing was seen of it, an earlier checker may have taken all of its calls.
      const bool all_taken =
          !progress.last && Clock::now() - progress.since > kEarlierCallsPatience;
      is_early = !all_taken && header.sequence > progress.last.value_or(0);
      if (is_early) {
        return {};  // calls are still to appear
      }
      MSP_ASSIGN_OR_RETURN(const auto payload, opened.Payload(header));
      MSP_ASSIGN_OR_RETURN(const End end, ReadEnd(*payload));
      inbox_.End(file.session, end);
      return {};
    };
    const Status status = read();
    if (is_early) {
      return false;
    }
    if (!status.ok()) {
      LeaveOut(path, status);
      return true;
    }
    ::unlink((folder_ / FolderFileName(start)).c_str());
    ::unlink(path.c_str());
    return true;
  }

  static Result<FrameHeader> HeaderOf(const FrameFile& opened, const FolderFile& file) {
    MSP_ASSIGN_OR_RETURN(const FrameHeader header, opened.Header());
    if (header.kind != file.kind || header.session != file.session ||
        (header.kind == FrameKind::kCall && header.sequence != file.sequence)) {
      return BadFormatError("its frame is another than its name says");
    }
    return header;
  }

  // It keeps its bytes under another name.
  static void LeaveOut(const fs::path& path, const Status& why) {
    base::LogWarning(fmt::format("{} is left out: {}", base::Printable(path.string()),
                                 base::Printable(why.message())));
    ::rename(path.c_str(), (path.string() + ".refused").c_str());
  }

  const fs::path folder_;
  std::optional<Seal> seal_;  // with a shared secret
  Inbox& inbox_;
  std::atomic<bool> stopped_{false};
  bool told_trouble_ = false;
  std::map<uint64_t, Progress> sessions_;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<Receiver>> ReceiveFolder(const Endpoint& endpoint, Inbox& inbox) {
  auto receiver = std::make_unique<FolderReceiver>(endpoint, inbox);
  MSP_RETURN_IF_ERROR(receiver->Start());
  return std::unique_ptr<Receiver>(std::move(receiver));
}

}  // namespace msprobe::online
