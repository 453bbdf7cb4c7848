#include "src/online/receiver.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "msprobe/status.h"

#include "src/base/files.h"
#include "src/base/log.h"
#include "src/base/strings.h"
#include "src/base/threads.h"
#include "src/online/channel.h"
#include "src/online/frame.h"
#include "src/online/secret.h"
#include "src/online/socket.h"

namespace msprobe::online {
namespace {

// Memory for the payload of a frame: it grows with what has come, so that a lying header takes
// none.

// `read` fills a span as a whole. The result keeps the bytes.
template <typename Read>
Result<std::shared_ptr<const std::vector<std::byte>>> ReadPayload(uint64_t bytes, Read&& read) {
  constexpr uint64_t kFirstBytes = uint64_t{1} << 20U;
  auto payload = std::make_shared<std::vector<std::byte>>();
  while (payload->size() < bytes) {
    const uint64_t old = payload->size();
    const uint64_t grown = std::min<uint64_t>(bytes, std::max(old * 2, kFirstBytes));
    payload->resize(grown);
    MSP_RETURN_IF_ERROR(read(std::span(*payload).subspan(old)));
  }
  return std::shared_ptr<const std::vector<std::byte>>(std::move(payload));
}

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kAcceptSlice{200};
constexpr std::chrono::milliseconds kRefusedPause{10};
constexpr size_t kPieceBytes = size_t{1} << 20U;

// Connections of those who have not said hello.
constexpr size_t kMostStrangers = 128;
constexpr uint64_t kMostToldStrangers = 20;  // bounds what strangers can add to the log

// One training's connection.
class Visit {
 public:
  // `known_by`: when it must have said hello.
  Visit(Wire wire, const Secret* secret, Deadline known_by, std::atomic<bool>& is_known,
        Inbox& inbox)
      : wire_(std::move(wire)),
        secret_(secret),
        known_by_(known_by),
        is_known_(is_known),
        inbox_(inbox) {}
  ~Visit() {
    if (session_) {
      inbox_.Absent(*session_);
    }
  }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

  // Until the session or the check is over.
  Status Serve() {
    if (secret_ != nullptr) {
      MSP_RETURN_IF_ERROR(AskForProof());
    }
    while (!inbox_.is_closed()) {
      MSP_ASSIGN_OR_RETURN(const std::optional<FrameHeader> header, NextHeader());
      if (!header) {
        MSP_RETURN_IF_ERROR(TellTaken());
        continue;
      }
      if (header->kind == FrameKind::kHello) {
        MSP_RETURN_IF_ERROR(TakeHello(*header));
        continue;
      }
      if (!session_ && header->kind == FrameKind::kGreeting) {
        return Refuse(*header, "the training has a shared secret, and this checker has none");
      }
      if (!session_ || header->session != *session_) {
        return BadFormatError("a frame of a session that has not begun in this connection");
      }
      if (header->kind == FrameKind::kCall) {
        MSP_RETURN_IF_ERROR(TakeCall(*header));
      } else if (header->kind == FrameKind::kEnd) {
        MSP_ASSIGN_OR_RETURN(const auto payload, Payload(*header));
        MSP_ASSIGN_OR_RETURN(const End end, ReadEnd(*payload));
        inbox_.End(*session_, end);
        return TellTaken();
      } else {
        return BadFormatError("a training sent a frame that only a checker sends");
      }
    }
    return {};
  }

 private:
  // A peer that cannot prove that it knows the secret learns only that there is one.
  Status AskForProof() {
    MSP_ASSIGN_OR_RETURN(const std::optional<FrameHeader> greeting, NextHeader());
    if (!greeting || greeting->kind != FrameKind::kGreeting) {
      return greeting ? Refuse(*greeting,
                               fmt::format("this checker wants a shared secret: give the training "
                                           "secret_path, or the variable {}",
                                           Secret::kVariable))
                      : OkStatus();
    }
    MSP_ASSIGN_OR_RETURN(const kernels::Sha256Digest other, ReadDigestOf(*greeting));
    MSP_ASSIGN_OR_RETURN(const kernels::Sha256Digest own, Handshake::NewNonce());
    MSP_RETURN_IF_ERROR(Send(DigestFrame(FrameKind::kChallenge, greeting->session, own)));
    MSP_ASSIGN_OR_RETURN(const std::optional<FrameHeader> answer, NextHeader());
    if (!answer || answer->kind != FrameKind::kProof || answer->session != greeting->session) {
      return BadFormatError("somebody does not prove that they know the shared secret");
    }
    MSP_ASSIGN_OR_RETURN(const kernels::Sha256Digest proof, ReadDigestOf(*answer));
    const Handshake handshake(*secret_, greeting->session, other, own);
    if (!kernels::AreSame(proof, handshake.ProofOf(Side::kTraining))) {
      return Refuse(*greeting, "the shared secret of the training is another than the checker's");
    }
    MSP_RETURN_IF_ERROR(
        Send(DigestFrame(FrameKind::kProof, greeting->session, handshake.ProofOf(Side::kChecker))));
    from_training_.emplace(handshake.SealOf(Side::kTraining));
    to_training_.emplace(handshake.SealOf(Side::kChecker));
    proven_ = greeting->session;
    return {};
  }

  Result<kernels::Sha256Digest> ReadDigestOf(const FrameHeader& header) {
    MSP_ASSIGN_OR_RETURN(const auto payload, Payload(header));
    return ReadDigest(*payload);
  }

  // Says why, and ends the connection.
  Status Refuse(const FrameHeader& header, std::string_view why) {
    MSP_RETURN_IF_ERROR(Send(RefusedFrame(header.session, why)));
    return IoError(std::string(why));
  }

  // nullopt: nothing has come for a while.
  Result<std::optional<FrameHeader>> NextHeader() {
    // Without a greeting the wait is short.
    const Deadline deadline = session_ ? Clock::now() + kNewsSeconds : known_by_;
    size_t count = 0;
    while (count == 0 && Clock::now() < deadline && !inbox_.is_closed()) {
      MSP_ASSIGN_OR_RETURN(
          count, wire_.Read(header_bytes_, std::min(deadline, Clock::now() + kAcceptSlice)));
    }
    if (count == 0) {
      if (!session_) {
        return IoError("somebody connected and did not say hello");
      }
      return std::optional<FrameHeader>();
    }
    MSP_RETURN_IF_ERROR(
        wire_.ReadAll(std::span(header_bytes_).subspan(count), session_ ? Patience() : known_by_));
    MSP_ASSIGN_OR_RETURN(const FrameHeader header, ReadFrameHeader(header_bytes_));
    if (!session_ && header.payload_bytes > kMostStrangerBytes) {
      return BadFormatError("a large frame of a session that has not begun in this connection");
    }
    return std::optional(header);
  }

  Result<std::shared_ptr<const std::vector<std::byte>>> Payload(const FrameHeader& header) {
    MSP_ASSIGN_OR_RETURN(
        auto payload, ReadPayload(header.payload_bytes,
                                  [this](std::span<std::byte> part) { return ReadWhile(part); }));
    if (from_training_) {
      kernels::HmacSha256 mac = BeginMac();
      mac.Add(*payload);
      MSP_RETURN_IF_ERROR(ReadSeal(mac));
    }
    MSP_RETURN_IF_ERROR(CheckPayload(header, *payload));
    return payload;
  }

  // Begins the code of the frame whose header was read last.
  kernels::HmacSha256 BeginMac() {
    kernels::HmacSha256 mac = from_training_->Next();
    mac.Add(header_bytes_);
    return mac;
  }
  Status ReadSeal(kernels::HmacSha256& mac) {
    kernels::Sha256Digest seal;
    MSP_RETURN_IF_ERROR(ReadWhile(seal));
    return kernels::AreSame(seal, mac.Finish())
               ? OkStatus()
               : BadFormatError("a frame came that the training did not send");
  }

  static Deadline Patience() { return Clock::now() + kReadSeconds; }

  // As long as something comes; of a stranger, not longer than it has to say hello.
  Status ReadWhile(std::span<std::byte> part) {
    while (!part.empty()) {
      MSP_ASSIGN_OR_RETURN(const size_t count, wire_.Read(part, session_ ? Patience() : known_by_));
      if (count == 0 || (!session_ && Clock::now() >= known_by_)) {
        return IoError("a frame does not come to its end");
      }
      part = part.subspan(count);
    }
    return {};
  }

  Status Send(const Frame& frame) {
    const std::span<const char> head(frame.head);
    MSP_RETURN_IF_ERROR(wire_.WriteAll(std::as_bytes(head), Patience()));
    return to_training_ ? wire_.WriteAll(to_training_->Of(frame), Patience()) : OkStatus();
  }
  Status TellTaken() {
    return session_ ? Send(TakenFrame(*session_, inbox_.taken(*session_))) : OkStatus();
  }

  Status TakeHello(const FrameHeader& header) {
    MSP_ASSIGN_OR_RETURN(const auto payload, Payload(header));
    MSP_ASSIGN_OR_RETURN(const Hello hello, ReadHello(*payload));
    if (session_ || (proven_ && *proven_ != header.session)) {
      return BadFormatError("a second session in one connection");
    }
    const Result<uint64_t> taken = inbox_.Begin(header.session, hello, header.sequence);
    if (!taken.ok()) {
      MSP_RETURN_IF_ERROR(Send(RefusedFrame(header.session, taken.status().message())));
      return taken.status();
    }
    session_ = header.session;
    is_known_.store(true);
    return TellTaken();
  }

  Status TakeCall(const FrameHeader& header) {
    for (;;) {
      const Result<bool> reserved =
          inbox_.Reserve(header.payload_bytes, Clock::now() + kNewsSeconds);
      if (!reserved.ok()) {
        return PassOver(header, reserved.status());
      }
      if (*reserved) {
        break;
      }
      if (inbox_.is_closed()) {
        return {};
      }
      MSP_RETURN_IF_ERROR(TellTaken());  // it is slow, not gone
    }
    const auto payload = Payload(header);
    Result<Call> call = payload.ok() ? ReadCall(**payload) : payload.status();
    if (!call.ok()) {
      inbox_.Release(header.payload_bytes);
      if (!payload.ok()) {
        return payload.status();  // sent again in the next connection
      }
      TellLeftOut(call.status());
      inbox_.LeaveOut(*session_, header.sequence);
      return TellTaken();
    }
    call->memory = *payload;
    MSP_RETURN_IF_ERROR(
        inbox_.Put(*session_, header.sequence, *std::move(call), header.payload_bytes));
    return TellTaken();
  }

  // A call that is larger than all room: its bytes are read and forgotten.
  Status PassOver(const FrameHeader& header, const Status& why) {
    TellLeftOut(why);
    std::vector<std::byte> piece(kPieceBytes);
    std::optional<kernels::HmacSha256> mac;
    if (from_training_) {
      mac = BeginMac();
    }
    for (uint64_t left = header.payload_bytes; left > 0;) {
      const auto part = std::span(piece).first(std::min<uint64_t>(left, piece.size()));
      MSP_RETURN_IF_ERROR(ReadWhile(part));
      left -= part.size();
      if (mac) {
        mac->Add(part);
      }
    }
    if (mac) {
      MSP_RETURN_IF_ERROR(ReadSeal(*mac));
    }
    inbox_.LeaveOut(*session_, header.sequence);
    return TellTaken();
  }

  static void TellLeftOut(const Status& why) {
    base::LogWarning(fmt::format("a call is left out: {}", base::Printable(why.message())));
  }

  Wire wire_;
  const Secret* const secret_;
  const Deadline known_by_;
  std::atomic<bool>& is_known_;
  Inbox& inbox_;
  std::array<std::byte, kFrameHeaderBytes> header_bytes_{};
  std::optional<Seal> from_training_, to_training_;  // with a shared secret, once it is proven
  std::optional<uint64_t> proven_;                   // the session that proved it
  std::optional<uint64_t> session_;
};

class ConnectionReceiver final : public Receiver {
 public:
  ConnectionReceiver(Listener listener, std::optional<TlsContext> tls,
                     std::shared_ptr<const Secret> secret, Inbox& inbox)
      : listener_(std::move(listener)),
        tls_(std::move(tls)),
        secret_(std::move(secret)),
        inbox_(inbox) {}
  ~ConnectionReceiver() override {
    stopped_.store(true);
    if (accepting_.joinable()) {
      accepting_.join();
    }
    for (Guest& guest : guests_) {
      guest.thread.join();
    }
    if (const uint64_t strangers = strangers_.load(); strangers > kMostToldStrangers) {
      base::LogWarning(fmt::format("{} more connections ended before anybody said hello",
                                   strangers - kMostToldStrangers));
    }
  }

  Status Start() {
    MSP_ASSIGN_OR_RETURN(accepting_, base::StartBackgroundThread([this] { Accept(); }));
    return {};
  }
  uint16_t port() const override { return listener_.port; }

 private:
  struct Guest {
    std::thread thread;
    std::atomic<bool> is_known{false};
    std::atomic<bool> is_over{false};
  };

  // Further ones wait in the system's queue.
  bool IsFull() const {
    const auto strangers = std::count_if(guests_.begin(), guests_.end(),
                                         [](const Guest& guest) { return !guest.is_known.load(); });
    return guests_.size() >= kMostConnections || static_cast<size_t>(strangers) >= kMostStrangers;
  }

  void Accept() {
    while (!stopped_.load() && !inbox_.is_closed()) {
      for (auto guest = guests_.begin(); guest != guests_.end();) {
        if (guest->is_over.load()) {
          guest->thread.join();
          guest = guests_.erase(guest);
        } else {
          ++guest;
        }
      }
      if (IsFull()) {
        std::this_thread::sleep_for(kAcceptSlice);
        continue;
      }
      Result<Socket> socket = AcceptOne(listener_, Clock::now() + kAcceptSlice);
      if (!socket.ok() || socket->descriptor() < 0) {
        std::this_thread::sleep_for(kRefusedPause);  // where descriptors have run out, all is ready
        continue;
      }
      Guest& guest = guests_.emplace_back();
      auto shared = std::make_shared<Socket>(*std::move(socket));
      Result<std::thread> thread = base::StartBackgroundThread([this, &guest, shared] {
        try {
          Welcome(std::move(*shared), guest.is_known);
        } catch (const std::exception&) {  // no memory for this one
        }
        guest.is_over.store(true);
      });
      if (thread.ok()) {
        guest.thread = *std::move(thread);
      } else {
        guests_.pop_back();
      }
    }
  }

  void Welcome(Socket socket, std::atomic<bool>& is_known) {
    const Deadline known_by = Clock::now() + kConnectSeconds;
    Result<Wire> wire = Wire::Accept(std::move(socket), tls_ ? &*tls_ : nullptr, known_by);
    Status status = wire.ok()
                        ? Visit(*std::move(wire), secret_.get(), known_by, is_known, inbox_).Serve()
                        : wire.status();
    const bool is_told = is_known.load() || strangers_.fetch_add(1) < kMostToldStrangers;
    if (!status.ok() && is_told && !inbox_.is_closed()) {
      base::LogWarning(
          fmt::format("a connection has ended: {}", base::Printable(status.message())));
    }
  }

  const Listener listener_;
  const std::optional<TlsContext> tls_;
  const std::shared_ptr<const Secret> secret_;
  Inbox& inbox_;
  std::atomic<bool> stopped_{false};
  std::atomic<uint64_t> strangers_{0};  // that have left
  std::list<Guest> guests_;             // of the accepting thread, while it runs
  std::thread accepting_;
};

}  // namespace

Result<std::unique_ptr<Receiver>> ReceiveConnections(const Endpoint& endpoint, Inbox& inbox) {
  std::optional<TlsContext> tls;
  if (!endpoint.tls_folder.empty()) {
    MSP_ASSIGN_OR_RETURN(TlsContext made, TlsContext::Create(endpoint.tls_folder, Side::kChecker));
    tls.emplace(std::move(made));
  }
  MSP_ASSIGN_OR_RETURN(Listener listener, Listen(endpoint.host, endpoint.port));
  auto receiver = std::make_unique<ConnectionReceiver>(std::move(listener), std::move(tls),
                                                       endpoint.secret, inbox);
  MSP_RETURN_IF_ERROR(receiver->Start());
  return std::unique_ptr<Receiver>(std::move(receiver));
}

namespace {

namespace fs = std::filesystem;

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

  // The header of the whole file, whose size must be what the header says.
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
  // The files in the folder of one session.
  struct SessionFiles {
    std::optional<FolderFile> start;
    std::map<uint64_t, FolderFile> calls;
    std::optional<FolderFile> end;
  };
  // The part of it that was taken.
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
        continue;  // not this checker's
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
