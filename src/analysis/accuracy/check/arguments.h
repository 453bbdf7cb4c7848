// The arguments of one recorded call, rebuilt and written into a frame for the worker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/dtype.h"
#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

#include "src/analysis/accuracy/check/tensor_record.h"
#include "src/analysis/accuracy/common/output_judge.h"
#include "src/dump/entry_tree.h"

namespace msprobe::analysis::accuracy {

// Memory without a name that a worker maps, too: it is handed over as a descriptor.

// A file in memory alone, closed with the process; -1 with errno. `flags`: of memfd_create.
int NewMemoryFile(const char* name, unsigned flags);

class SharedMemory {
 public:
  // More than `limit_bytes` is an error and not the end of the process, or of others on the
  // machine.
  static Result<SharedMemory> Create(uint64_t limit_bytes);
  SharedMemory() = default;
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory();

  int descriptor() const { return descriptor_; }

  // Room for `bytes` behind what was taken since Clear(), aligned for every dtype; returns its
  // offset. Pointers from before may be invalid afterwards.
  Result<uint64_t> Take(uint64_t bytes);
  void Clear() { used_ = 0; }
  std::byte* at(uint64_t offset) { return data_ + offset; }

  // The memory after the other side has changed it, mapped anew when it has grown.
  Result<std::span<const std::byte>> Whole();

 private:
  Status Map(uint64_t bytes);
  void Release();

  int descriptor_ = -1;
  uint64_t limit_ = 0;
  std::byte* data_ = nullptr;
  uint64_t mapped_ = 0;
  uint64_t used_ = 0;
};

// Memory that is free now.
uint64_t AvailableMemory();

// The protocol between the program and its worker: typed values in little-endian frames, so that
// neither side can make the other execute anything. Bytes of tensors lie in memory that both share;
// frames tell where. docs/formats/worker_frames.md has the layout.

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
// An error when the bytes are not a header, or the payload is larger than any can be.
Result<FrameHeader> ReadFrameHeader(std::span<const char> bytes);

// A worker's answer to a call. Tensors of the values borrow from the memory it shares.
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

// A worker's first message: it is ready, or cannot be.
struct WorkerGreeting {
  bool failed = false;
  std::string message;    // what failed; else what of its confinement the system does not allow
  std::string framework;  // "PyTorch 2.13.0"
  std::string device;     // "cpu"
};
Result<WorkerGreeting> ReadGreeting(std::string_view payload);

// The tensor that a record names, from elsewhere than a file. Borrowed for the call.
using TensorSource = std::function<Result<TensorView>(std::string_view name)>;

struct MakeOptions {
  // The folder of tensors of a dump with real data; empty: they are drawn.
  std::filesystem::path tensor_folder;
  const TensorSource* source = nullptr;  // in place of the folder
  bool hf32 = false;  // float32 values lose 12 bits, as NPUs' convolutions take them
  bool with_gradients = true;
  bool for_mindspore = false;  // drawn as its checker does; all floats have gradients
};

// Draws or reads, and encodes. One object per call, because what it learns is about that call.
class ArgumentMaker {
 public:
  ArgumentMaker(std::string_view api, const MakeOptions& options, TorchGenerator& generator,
                SharedMemory& memory)
      : api_(api), options_(options), generator_(generator), memory_(memory) {}

  // `list`: a record's "input_args"; `dict`: its "input_kwargs". Their encoded values.
  Status Positional(const dump::EntryTree& tree, uint32_t list, FrameWriter& out);
  Status Keywords(const dump::EntryTree& tree, uint32_t dict, FrameWriter& out);
  // A gradient of an output: the tensor flags of arguments do not hold for it.
  Status Gradient(const dump::EntryTree& tree, uint32_t place, FrameWriter& out);

  // The dtypes of float16, bfloat16 and float32 tensors among what was made.
  const std::set<DType>& float_dtypes() const { return float_dtypes_; }
  bool has_float8() const { return has_float8_; }

  // Saved for an operator that failed: one per leaf, without a shape where it is not a
  // tensor.
  struct Leaf {
    bool is_tensor = false;
    DType dtype = DType::kFloat32;
    Shape shape;
    uint64_t offset = 0;

    std::optional<TensorView> View(SharedMemory& memory) const;
  };
  const std::vector<Leaf>& leaves() const { return leaves_; }
  // Tensors of a list that are read and not sent: outputs that the dump holds.
  Status Read(const dump::EntryTree& tree, uint32_t list, std::vector<Leaf>& out);

 private:
  Status Value(const dump::EntryTree& tree, uint32_t place, size_t depth, FrameWriter& out);
  Status Object(const dump::EntryTree& tree, uint32_t place, size_t depth, FrameWriter& out);
  Status Scalar(const dump::Node& node, FrameWriter& out);
  Status Constant(const dump::EntryTree& tree, std::string_view type, uint32_t value,
                  FrameWriter& out);
  Status Tensor(const dump::EntryTree& tree, uint32_t place, FrameWriter& out);
  // Bytes of the tensor in the shared memory; dtype and shape as they are there.
  Result<Leaf> Draw(TensorRecord record);
  // By the name in the record.
  Result<Leaf> Load(std::string_view name);
  Result<Leaf> Copied(const TensorView& view);
  Result<Leaf> Converted(const Leaf& leaf);

  const std::string_view api_;
  const MakeOptions& options_;
  TorchGenerator& generator_;
  SharedMemory& memory_;
  bool in_keyword_list_ = false;
  bool is_gradient_ = false;
  bool is_keyword_ = false;
  size_t position_ = 0;  // among the positional arguments
  std::set<DType> float_dtypes_;
  bool has_float8_ = false;
  std::vector<Leaf> leaves_;
};

}  // namespace msprobe::analysis::accuracy
