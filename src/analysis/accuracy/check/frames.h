// What the program and its worker say to each other: typed values in little-endian frames, so that
// neither side can make the other execute anything. Bytes of tensors lie in memory that both share;
// frames tell where. docs/formats/worker_frames.md has the layout.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "msprobe/dtype.h"
#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

#include "src/analysis/accuracy/common/output_value.h"

namespace msprobe::analysis::accuracy {

inline constexpr uint32_t kFrameMagic = 0x4650534D;  // "MSPF"
inline constexpr size_t kFrameHeaderBytes = 16;      // magic, kind, payload bytes (u64)
inline constexpr uint64_t kMostFrameBytes = uint64_t{1} << 28U;

enum class FrameKind : uint32_t { kStart = 1, kReady = 2, kCall = 3, kAnswer = 4 };

// A value is a tag of one byte and what belongs to it.
namespace frame_tag {
inline constexpr char kNone = 'N';
inline constexpr char kTrue = 'T';
inline constexpr char kFalse = 'F';
inline constexpr char kInteger = 'i';     // i64
inline constexpr char kBigInteger = 'I';  // decimal text
inline constexpr char kFloat = 'f';       // f64
inline constexpr char kText = 's';        // u32, UTF-8
inline constexpr char kList = 'l';        // u32, values
inline constexpr char kTuple = 't';
inline constexpr char kDict = 'd';    // u32, pairs of text and value
inline constexpr char kDType = 'D';   // text of the type ("torch.dtype"), text of the constant
inline constexpr char kDevice = 'V';  // the device of the run
inline constexpr char kSize = 'S';    // a torch.Size: u32, values
inline constexpr char kSlice = 'c';   // three values
inline constexpr char kEllipsis = 'e';
inline constexpr char kNumpy = 'n';    // text of the type, value
inline constexpr char kComplex = 'z';  // two f64
inline constexpr char kTensor = 'x';  // text of the dtype, u8 flags, u8 axes, i64 sizes, u64 offset
inline constexpr char kOther = 'o';   // text of the type
}  // namespace frame_tag

class FrameWriter {
 public:
  FrameWriter() = default;  // values without a frame around them
  explicit FrameWriter(FrameKind kind);

  void Tag(char tag) { bytes_ += tag; }
  void Byte(uint8_t value) { bytes_ += static_cast<char>(value); }
  void Count(size_t count);
  void Text(std::string_view text);  // without a tag
  void Integer(int64_t value);       // without a tag
  void Float(double value);          // without a tag
  void Tensor(std::string_view dtype, const Shape& shape, uint64_t offset, bool requires_grad);

  void Append(const FrameWriter& values) { bytes_ += values.bytes_; }

  // The whole frame.
  const std::string& Finish();

 private:
  std::string bytes_;
};

struct FrameHeader {
  FrameKind kind = FrameKind::kAnswer;
  uint64_t payload_bytes = 0;
};
// An error when the bytes are no header, or the payload is larger than any can be.
Result<FrameHeader> ReadFrameHeader(std::span<const char> bytes);

// What a worker answers to a call. Tensors of the values borrow from the memory it shares.
struct WorkerAnswer {
  bool failed = false;
  std::string message;  // of the exception; or why there are no gradients
  OutputValue bench;
  OutputValue device;
  bool has_gradients = false;
  OutputValue bench_gradients;
  OutputValue device_gradients;
};
Result<WorkerAnswer> ReadAnswer(std::string_view payload, std::span<const std::byte> shared);

// What a worker says when it is ready, or cannot be.
struct WorkerGreeting {
  bool failed = false;
  std::string message;    // what failed; else what of its confinement the system does not allow
  std::string framework;  // "PyTorch 2.13.0"
  std::string device;     // "cpu"
};
Result<WorkerGreeting> ReadGreeting(std::string_view payload);

}  // namespace msprobe::analysis::accuracy
