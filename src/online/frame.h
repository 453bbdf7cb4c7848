// The messages between a training and its checker: typed frames of checked sizes, the same over a
// connection and in files of a shared folder. docs/formats/online_frames.md has the layout.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/dtype.h"
#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

#include "src/kernels/sha256.h"

namespace msprobe::online {

// One call of an operator on its way from a training to a checker.

struct CallTensor {
  std::string name;  // as "data_name" of the record tells it
  DType dtype = DType::kFloat32;
  Shape shape;
  std::span<const std::byte> bytes;  // row-major, little-endian; borrowed
};

struct Call {
  int64_t rank = 0;
  int64_t step = 0;
  std::string name;    // "Functional.linear.0"
  std::string record;  // JSON: input_args, input_kwargs and output as in dump.json
  std::vector<CallTensor> tensors;
  std::shared_ptr<const void> memory;  // what the tensors borrow from

  uint64_t tensor_bytes() const {
    uint64_t bytes = 0;
    for (const CallTensor& tensor : tensors) {
      bytes += tensor.bytes.size();
    }
    return bytes;
  }
};

inline constexpr uint32_t kFrameMagic = 0x4F50534D;  // "MSPO"
inline constexpr uint16_t kFrameVersion = 1;
inline constexpr size_t kFrameHeaderBytes = 40;
inline constexpr uint64_t kMostPayloadBytes = uint64_t{1} << 38U;
inline constexpr uint64_t kMostPlainPayloadBytes = uint64_t{64} << 10U;  // of all but calls
inline constexpr uint64_t kMostStrangerBytes = 8192;  // of whoever has not said hello yet
inline constexpr uint32_t kMostCallNameBytes = 4096;
inline constexpr uint32_t kMostRecordBytes = uint32_t{64} << 20U;
inline constexpr uint32_t kMostCallTensors = uint32_t{1} << 16U;
inline constexpr uint8_t kMostTensorAxes = 64;
inline constexpr uint64_t kTensorAlignment = 64;  // of tensors' bytes within the payload

enum class FrameKind : uint16_t {
  kHello = 1,    // training: a session begins, or goes on after a lost connection
  kCall = 2,     // training
  kEnd = 3,      // training: nothing follows
  kTaken = 4,    // checker: everything up to `sequence` is taken
  kRefused = 5,  // checker: why it takes nothing from this session
  // Before hello, where there is a shared secret:
  kGreeting = 6,   // training: its random bytes
  kChallenge = 7,  // checker: its own
  kProof = 8,      // both, the training first
};

struct FrameHeader {
  FrameKind kind = FrameKind::kHello;
  uint64_t session = 0;   // drawn by the training's process
  uint64_t sequence = 0;  // calls count from 1; of others, the last one before
  uint64_t payload_bytes = 0;
  uint32_t crc32 = 0;  // of the payload
};
// `bytes`: kFrameHeaderBytes of them. An error when they are not a header of this version, or the
// payload is larger than one of its kind can be.
Result<FrameHeader> ReadFrameHeader(std::span<const std::byte> bytes);

// A frame that is about to be sent: bytes of its own, then those that it borrows.
struct Frame {
  std::string head;
  std::vector<std::span<const std::byte>> data;

  uint64_t size_bytes() const;
};

struct Hello {
  int64_t rank = 0;
  std::string framework;  // "pytorch"
};
struct End {
  uint64_t sent_calls = 0;
  uint64_t dropped_calls = 0;
  uint64_t dropped_bytes = 0;
};

Frame HelloFrame(uint64_t session, uint64_t sequence, const Hello& hello);
// Borrows the bytes of the call's tensors. An error where the call has more of anything than a
// frame may.
Result<Frame> CallFrame(uint64_t session, uint64_t sequence, const Call& call);
Frame EndFrame(uint64_t session, uint64_t sequence, const End& end);
Frame TakenFrame(uint64_t session, uint64_t sequence);
Frame RefusedFrame(uint64_t session, std::string_view why);
// kGreeting, kChallenge, kProof.
Frame DigestFrame(FrameKind kind, uint64_t session, const kernels::Sha256Digest& digest);

// The payloads. Every size and count is checked against the bytes that are there; tensors of a call
// borrow from `payload`, its record is unchecked text.
Result<Hello> ReadHello(std::span<const std::byte> payload);
Result<Call> ReadCall(std::span<const std::byte> payload);
Result<End> ReadEnd(std::span<const std::byte> payload);
Result<std::string> ReadRefused(std::span<const std::byte> payload);
Result<kernels::Sha256Digest> ReadDigest(std::span<const std::byte> payload);
// The payload is what the header says of it.
Status CheckPayload(const FrameHeader& header, std::span<const std::byte> payload);

// The files of a shared folder: rank<r>.<session>.<what>, each a whole frame that appears by a
// rename.

struct FolderFile {
  int64_t rank = 0;
  uint64_t session = 0;
  uint64_t sequence = 0;              // of calls
  FrameKind kind = FrameKind::kCall;  // hello, call or end
};

// rank3.5f3a9c0112345678.start, rank3.5f3a9c0112345678.00000017.call, rank3.5f3a9c0112345678.end
std::string FolderFileName(const FolderFile& file);
// nullopt: not one of ours.
std::optional<FolderFile> ParseFolderFileName(std::string_view name);

}  // namespace msprobe::online
