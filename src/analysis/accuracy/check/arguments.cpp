#include "src/analysis/accuracy/check/arguments.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "msprobe/tensor_file.h"

#include "src/analysis/accuracy/check/api_lists.h"
#include "src/analysis/accuracy/check/tensor_record.h"
#include "src/base/numbers.h"
#include "src/base/strings.h"
#include "src/kernels/convert.h"
#include "src/tensor/tensor_buffer.h"

namespace msprobe::analysis::accuracy {
namespace {

constexpr uint64_t kAlignment = 64;
constexpr uint64_t kFirstBytes = uint64_t{1} << 20U;

Status MemoryError(std::string_view what) {
  return IoError(
      fmt::format("cannot share memory with the worker: {}: {}", what, std::strerror(errno)));
}

}  // namespace

// By its number: the function is of glibc 2.27, and the program asks for no more than 2.17.
int NewMemoryFile(const char* name, unsigned flags) {
  return static_cast<int>(::syscall(SYS_memfd_create, name, flags));
}

Result<SharedMemory> SharedMemory::Create(uint64_t limit_bytes) {
  SharedMemory memory;
  memory.limit_ = limit_bytes;
  memory.descriptor_ = NewMemoryFile("msprobe", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (memory.descriptor_ < 0) {
    return MemoryError("memfd_create");
  }
  // Pages that one side reads must not be taken away by the other.
  if (::fcntl(memory.descriptor_, F_ADD_SEALS, F_SEAL_SHRINK) != 0) {
    return MemoryError("F_SEAL_SHRINK");
  }
  return memory;
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept { *this = std::move(other); }

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  if (this != &other) {
    Release();
    descriptor_ = std::exchange(other.descriptor_, -1);
    limit_ = other.limit_;
    data_ = std::exchange(other.data_, nullptr);
    mapped_ = std::exchange(other.mapped_, 0);
    used_ = std::exchange(other.used_, 0);
  }
  return *this;
}

SharedMemory::~SharedMemory() { Release(); }

void SharedMemory::Release() {
  if (data_ != nullptr) {
    ::munmap(data_, mapped_);
  }
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

Status SharedMemory::Map(uint64_t bytes) {
  void* data = data_ == nullptr
                   ? ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0)
                   : ::mremap(data_, mapped_, bytes, MREMAP_MAYMOVE);
  if (data == MAP_FAILED) {
    return MemoryError(fmt::format("{} bytes", bytes));
  }
  data_ = static_cast<std::byte*>(data);
  mapped_ = bytes;
  return {};
}

Result<uint64_t> SharedMemory::Take(uint64_t bytes) {
  const uint64_t offset = (used_ + kAlignment - 1) / kAlignment * kAlignment;
  const uint64_t end = offset + bytes;
  if (end > mapped_) {
    if (end < bytes || end > limit_) {
      return IoError(fmt::format("the inputs of this call need {}, more than there is memory",
                                 base::FormatBytes(end)));
    }
    const uint64_t size =
        std::min(std::max({end, mapped_ * 2, kFirstBytes}), std::max(end, limit_));
    // Asks for the pages now: writing to a hole in a full memory file system ends the process.
    const int failure = ::posix_fallocate(descriptor_, 0, static_cast<off_t>(size));
    if (failure != 0) {
      errno = failure;
      return MemoryError(fmt::format("{} bytes", size));
    }
    MSP_RETURN_IF_ERROR(Map(size));
  }
  used_ = end;
  return offset;
}

uint64_t AvailableMemory() {
  std::ifstream information("/proc/meminfo");
  for (std::string key; information >> key;) {
    uint64_t kilobytes = 0;
    if (key == "MemAvailable:" && information >> kilobytes && kilobytes > 0) {
      return kilobytes * 1024;
    }
  }
  return static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)) / 2;
}

Result<std::span<const std::byte>> SharedMemory::Whole() {
  struct stat state = {};
  if (::fstat(descriptor_, &state) != 0) {
    return MemoryError("fstat");
  }
  const auto size = static_cast<uint64_t>(state.st_size);
  if (size > mapped_) {
    MSP_RETURN_IF_ERROR(Map(size));
  }
  return std::span<const std::byte>(data_, std::min(size, mapped_));
}

namespace {

static_assert(std::endian::native == std::endian::little);

constexpr size_t kMostFrameDepth = 64;
constexpr uint8_t kMostAxes = 64;

template <typename Number>
void AppendNumber(Number value, std::string& out) {
  char bytes[sizeof(value)];
  std::memcpy(bytes, &value, sizeof(value));
  out.append(bytes, sizeof(value));
}

class FrameReader {
 public:
  FrameReader(std::string_view payload, std::span<const std::byte> shared)
      : rest_(payload), shared_(shared) {}

  template <typename Number>
  Result<Number> Read() {
    if (rest_.size() < sizeof(Number)) {
      return Short();
    }
    Number value;
    std::memcpy(&value, rest_.data(), sizeof(value));
    rest_.remove_prefix(sizeof(value));
    return value;
  }
  Result<std::string> Text() {
    MSP_ASSIGN_OR_RETURN(const uint32_t size, Read<uint32_t>());
    if (rest_.size() < size) {
      return Short();
    }
    std::string text(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return text;
  }
  Status End() const {
    return rest_.empty() ? OkStatus() : BadFormatError("a worker's frame has bytes at its end");
  }

  Result<OutputValue> Value(size_t depth = 0) {
    if (depth > kMostFrameDepth) {
      return BadFormatError("a worker's frame is nested too deeply");
    }
    MSP_ASSIGN_OR_RETURN(const char tag, Read<char>());
    OutputValue value;
    switch (tag) {
      case frame_tag::kNone:
        value.type = "NoneType";
        return value;
      case frame_tag::kTrue:
      case frame_tag::kFalse:
        return Scalar("bool", tag == frame_tag::kTrue ? "True" : "False");
      case frame_tag::kInteger: {
        MSP_ASSIGN_OR_RETURN(const int64_t whole, Read<int64_t>());
        return Scalar("int", std::to_string(whole));
      }
      case frame_tag::kBigInteger: {
        MSP_ASSIGN_OR_RETURN(std::string digits, Text());
        return Scalar("int", std::move(digits));
      }
      case frame_tag::kFloat: {
        MSP_ASSIGN_OR_RETURN(const double number, Read<double>());
        return Scalar("float", base::PythonFloatRepr(number));
      }
      case frame_tag::kText: {
        MSP_ASSIGN_OR_RETURN(std::string text, Text());
        return Scalar("str", std::move(text));
      }
      case frame_tag::kList:
      case frame_tag::kTuple:
        return Items(tag == frame_tag::kList ? "list" : "tuple", depth);
      case frame_tag::kDict:
        return Dict(depth);
      case frame_tag::kTensor:
        return Tensor();
      case frame_tag::kOther: {
        value.kind = OutputValue::Kind::kOther;
        MSP_ASSIGN_OR_RETURN(value.type, Text());
        return value;
      }
      default:
        return BadFormatError("a worker's frame has a value of no known kind");
    }
  }

 private:
  static Status Short() { return BadFormatError("a worker's frame ends early"); }

  static OutputValue Scalar(std::string type, std::string text) {
    OutputValue value;
    value.kind = OutputValue::Kind::kScalar;
    value.type = std::move(type);
    value.text = std::move(text);
    return value;
  }

  // Each of them is at least a byte.
  Result<uint32_t> ItemCount() {
    MSP_ASSIGN_OR_RETURN(const uint32_t count, Read<uint32_t>());
    if (count > rest_.size()) {
      return Short();
    }
    return count;
  }

  Result<OutputValue> Items(std::string type, size_t depth) {
    OutputValue list;
    list.kind = OutputValue::Kind::kList;
    list.type = std::move(type);
    MSP_ASSIGN_OR_RETURN(const uint32_t count, ItemCount());
    for (uint32_t i = 0; i < count; ++i) {
      MSP_ASSIGN_OR_RETURN(OutputValue item, Value(depth + 1));
      list.items.push_back(std::move(item));
    }
    return list;
  }

  Result<OutputValue> Dict(size_t depth) {
    OutputValue dict;
    dict.kind = OutputValue::Kind::kDict;
    dict.type = "dict";
    MSP_ASSIGN_OR_RETURN(const uint32_t count, ItemCount());
    for (uint32_t i = 0; i < count; ++i) {
      MSP_ASSIGN_OR_RETURN(std::string key, Text());
      MSP_ASSIGN_OR_RETURN(OutputValue item, Value(depth + 1));
      dict.keys.push_back(std::move(key));
      dict.items.push_back(std::move(item));
    }
    return dict;
  }

  Result<OutputValue> Tensor() {
    MSP_ASSIGN_OR_RETURN(const std::string dtype, Text());
    MSP_ASSIGN_OR_RETURN([[maybe_unused]] const uint8_t flags, Read<uint8_t>());
    MSP_ASSIGN_OR_RETURN(const uint8_t axes, Read<uint8_t>());
    OutputValue value;
    const std::optional<DType> known = ParseDType(dtype);
    if (!known || axes > kMostAxes) {
      return BadFormatError(
          fmt::format("a worker's tensor has an unknown dtype, or too many axes"));
    }
    value.kind = OutputValue::Kind::kTensor;
    value.type = "torch.Tensor";
    value.tensor.dtype = *known;
    uint64_t bytes = DTypeSize(*known);
    uint64_t span = bytes;  // as if no axis were empty
    for (uint8_t axis = 0; axis < axes; ++axis) {
      MSP_ASSIGN_OR_RETURN(const int64_t size, Read<int64_t>());
      const auto elements = static_cast<uint64_t>(size);
      if (size < 0 || __builtin_mul_overflow(span, std::max<uint64_t>(elements, 1), &span) ||
          span > INT64_MAX) {
        return BadFormatError("a worker's tensor has a shape that cannot be");
      }
      bytes *= elements;
      value.tensor.shape.push_back(size);
    }
    MSP_ASSIGN_OR_RETURN(const uint64_t offset, Read<uint64_t>());
    if (offset > shared_.size() || bytes > shared_.size() - offset) {
      return BadFormatError("a worker's tensor lies outside of the shared memory");
    }
    value.tensor.strides = ContiguousStrides(value.tensor.shape);
    value.tensor.data = shared_.data() + offset;
    value.tensor.extent_bytes = bytes;
    return value;
  }

  std::string_view rest_;
  const std::span<const std::byte> shared_;
};

}  // namespace

FrameWriter::FrameWriter(FrameKind kind) {
  AppendNumber(kFrameMagic, bytes_);
  AppendNumber(static_cast<uint32_t>(kind), bytes_);
  AppendNumber(uint64_t{0}, bytes_);
}

void FrameWriter::Count(size_t count) { AppendNumber(static_cast<uint32_t>(count), bytes_); }

void FrameWriter::Text(std::string_view text) {
  Count(text.size());
  bytes_ += text;
}

void FrameWriter::Integer(int64_t value) { AppendNumber(value, bytes_); }

void FrameWriter::Float(double value) { AppendNumber(value, bytes_); }

void FrameWriter::Tensor(std::string_view dtype, const Shape& shape, uint64_t offset,
                         bool requires_grad) {
  Tag(frame_tag::kTensor);
  Text(dtype);
  Byte(requires_grad ? 1 : 0);
  Byte(static_cast<uint8_t>(shape.size()));
  for (const int64_t size : shape) {
    Integer(size);
  }
  AppendNumber(offset, bytes_);
}

const std::string& FrameWriter::Finish() {
  const uint64_t size = bytes_.size() - kFrameHeaderBytes;
  std::memcpy(bytes_.data() + 8, &size, sizeof(size));
  return bytes_;
}

Result<FrameHeader> ReadFrameHeader(std::span<const char> bytes) {
  FrameReader reader({bytes.data(), bytes.size()}, {});
  MSP_ASSIGN_OR_RETURN(const uint32_t magic, reader.Read<uint32_t>());
  MSP_ASSIGN_OR_RETURN(const uint32_t kind, reader.Read<uint32_t>());
  MSP_ASSIGN_OR_RETURN(const uint64_t size, reader.Read<uint64_t>());
  if (magic != kFrameMagic || size > kMostFrameBytes ||
      (kind != static_cast<uint32_t>(FrameKind::kReady) &&
       kind != static_cast<uint32_t>(FrameKind::kAnswer))) {
    return BadFormatError("the worker sent data that is not a frame");
  }
  return FrameHeader{static_cast<FrameKind>(kind), size};
}

Result<WorkerAnswer> ReadAnswer(std::string_view payload, std::span<const std::byte> shared) {
  FrameReader reader(payload, shared);
  WorkerAnswer answer;
  MSP_ASSIGN_OR_RETURN(const uint8_t failed, reader.Read<uint8_t>());
  answer.failed = failed != 0;
  MSP_ASSIGN_OR_RETURN(answer.message, reader.Text());
  if (!answer.failed) {
    MSP_ASSIGN_OR_RETURN(answer.bench, reader.Value());
    MSP_ASSIGN_OR_RETURN(answer.device, reader.Value());
    MSP_ASSIGN_OR_RETURN(answer.bench_gradients, reader.Value());
    MSP_ASSIGN_OR_RETURN(answer.device_gradients, reader.Value());
    answer.has_gradients =
        !answer.bench_gradients.items.empty() && !answer.device_gradients.items.empty();
  }
  MSP_RETURN_IF_ERROR(reader.End());
  return answer;
}

Result<WorkerGreeting> ReadGreeting(std::string_view payload) {
  FrameReader reader(payload, {});
  WorkerGreeting greeting;
  MSP_ASSIGN_OR_RETURN(const uint8_t failed, reader.Read<uint8_t>());
  greeting.failed = failed != 0;
  MSP_ASSIGN_OR_RETURN(greeting.message, reader.Text());
  MSP_ASSIGN_OR_RETURN(greeting.framework, reader.Text());
  MSP_ASSIGN_OR_RETURN(greeting.device, reader.Text());
  MSP_RETURN_IF_ERROR(reader.End());
  return greeting;
}

namespace {

using dump::EntryTree;
using dump::Node;
using dump::NodeKind;

constexpr size_t kMostListDepth = 10;

// Operators that take other dtypes on a CPU than on an NPU.
struct Conversion {
  std::string_view api;
  DType from;
  DType to;
};
constexpr Conversion kConversions[] = {{"cross_entropy", DType::kInt32, DType::kInt64},
                                       {"histc", DType::kInt64, DType::kFloat32}};

bool IsFloat8DType(DType dtype) {
  return GetDTypeInfo(dtype).kind == DTypeKind::kFloat && DTypeSize(dtype) == 1;
}

// The first 20 bits of a float32, rounded half up (the layout of HF32).
uint32_t RoundedToHf32(uint32_t bits) {
  return static_cast<uint32_t>(((static_cast<int32_t>(bits) >> 11) + 1) >> 1) << 12U;
}

// The keys of a dump for the file of a tensor.
std::string_view FileOf(const EntryTree& tree, uint32_t place) {
  for (const std::string_view key : {"data_name", "datapath"}) {
    const uint32_t file = tree.Find(place, key);
    if (file != EntryTree::kNone && tree[file].kind == NodeKind::kText) {
      return tree[file].text;
    }
  }
  return {};
}

}  // namespace

std::optional<TensorView> ArgumentMaker::Leaf::View(SharedMemory& memory) const {
  if (!is_tensor) {
    return std::nullopt;
  }
  const size_t bytes = static_cast<size_t>(ElementCount(shape)) * DTypeSize(dtype);
  return tensor::RowMajorView(dtype, shape, {memory.at(offset), bytes});
}

Status ArgumentMaker::Positional(const EntryTree& tree, uint32_t list, FrameWriter& out) {
  is_keyword_ = false;
  if (list == EntryTree::kNone || tree[list].kind != NodeKind::kList) {
    return BadFormatError("the record has no list input_args");
  }
  out.Tag(frame_tag::kList);
  out.Count(tree[list].child_count);
  Status status;
  position_ = 0;
  tree.ForEachChild(list, [&](uint32_t item) {
    if (status.ok()) {
      status = Value(tree, item, 0, out);
    }
    ++position_;
  });
  return status;
}

Status ArgumentMaker::Keywords(const EntryTree& tree, uint32_t dict, FrameWriter& out) {
  is_keyword_ = true;
  out.Tag(frame_tag::kDict);
  if (dict == EntryTree::kNone) {
    out.Count(0);
    return {};
  }
  if (tree[dict].kind != NodeKind::kObject) {
    return BadFormatError("input_kwargs of the record is not an object");
  }
  out.Count(tree[dict].child_count);
  Status status;
  tree.ForEachChild(dict, [&](uint32_t item) {
    if (status.ok()) {
      out.Text(tree[item].key);
      in_keyword_list_ = tree[item].kind == NodeKind::kList;
      status = Value(tree, item, 0, out);
    }
  });
  in_keyword_list_ = false;
  return status;
}

Status ArgumentMaker::Gradient(const EntryTree& tree, uint32_t place, FrameWriter& out) {
  is_gradient_ = true;
  return Value(tree, place, 0, out);
}

Status ArgumentMaker::Read(const EntryTree& tree, uint32_t list, std::vector<Leaf>& out) {
  if (list == EntryTree::kNone || tree[list].kind != NodeKind::kList) {
    return BadFormatError("the record has no list of outputs");
  }
  Status status;
  // Lists within the list are taken as one.
  for (uint32_t item = list + 1; item < tree[list].end && status.ok();) {
    const bool is_list = tree[item].kind == NodeKind::kList;
    if (IsTensorRecord(tree, item)) {
      const std::string_view name = FileOf(tree, item);
      if (name.empty()) {
        return NotFoundError("the record of an output names no file");
      }
      Result<Leaf> leaf = Load(name);
      if (!leaf.ok()) {
        return std::move(leaf).status();
      }
      out.push_back(*std::move(leaf));
    } else if (!is_list) {
      out.emplace_back();
    }
    item = is_list ? item + 1 : tree[item].end;
  }
  return status;
}

Status ArgumentMaker::Value(const EntryTree& tree, uint32_t place, size_t depth, FrameWriter& out) {
  if (depth > kMostListDepth) {
    return BadFormatError(fmt::format("lists are nested deeper than {} levels", kMostListDepth));
  }
  const Node& node = tree[place];
  if (node.kind == NodeKind::kObject) {
    return Object(tree, place, depth, out);
  }
  if (node.kind == NodeKind::kList) {
    out.Tag(frame_tag::kList);
    out.Count(node.child_count);
    Status status;
    tree.ForEachChild(place, [&](uint32_t item) {
      if (status.ok()) {
        status = Value(tree, item, depth + 1, out);
      }
    });
    return status;
  }
  leaves_.emplace_back();
  return Scalar(node, out);
}

Status ArgumentMaker::Scalar(const Node& node, FrameWriter& out) {
  switch (node.kind) {
    case NodeKind::kNull:
      out.Tag(frame_tag::kNone);
      break;
    case NodeKind::kBool:
      out.Tag(node.boolean ? frame_tag::kTrue : frame_tag::kFalse);
      break;
    case NodeKind::kInt:
      out.Tag(frame_tag::kInteger);
      out.Integer(node.integer);
      break;
    case NodeKind::kFloat:
      // An integer beyond 64 bits is kept as its digits.
      if (!node.text.empty() && node.text.find_first_not_of("-0123456789") == node.text.npos) {
        out.Tag(frame_tag::kBigInteger);
        out.Text(node.text);
      } else {
        out.Tag(frame_tag::kFloat);
        out.Float(node.number);
      }
      break;
    case NodeKind::kText:
      out.Tag(frame_tag::kText);
      out.Text(node.text);
      break;
    default:
      return BadFormatError("a value of the record is not a plain one");
  }
  return {};
}

Status ArgumentMaker::Object(const EntryTree& tree, uint32_t place, size_t depth,
                             FrameWriter& out) {
  if (IsTensorRecord(tree, place)) {
    return Tensor(tree, place, out);
  }
  const uint32_t type_place = tree.Find(place, "type");
  const uint32_t value = tree.Find(place, "value");
  if (type_place == EntryTree::kNone || tree[type_place].kind != NodeKind::kText) {
    out.Tag(frame_tag::kDict);
    out.Count(tree[place].child_count);
    Status status;
    tree.ForEachChild(place, [&](uint32_t item) {
      if (status.ok()) {
        out.Text(tree[item].key);
        status = Value(tree, item, depth + 1, out);
      }
    });
    return status;
  }
  const std::string_view type = tree[type_place].text;
  leaves_.emplace_back();
  if (type == "torch.device") {
    out.Tag(frame_tag::kDevice);
    return {};
  }
  if (type == "ellipsis") {
    out.Tag(frame_tag::kEllipsis);
    return {};
  }
  if (IsConstantType(type)) {
    return Constant(tree, type, value == EntryTree::kNone ? tree.Find(place, "format") : value,
                    out);
  }
  constexpr std::string_view kNumpy = "numpy.";
  const bool is_numpy =
      type.starts_with(kNumpy) && IsNumpyScalar(type.substr(std::min(type.size(), kNumpy.size())));
  const bool is_sizes = type == "torch.Size" || type == "slice";
  if (!is_numpy && !is_sizes && !IsPlainType(type)) {
    return UnsupportedError(
        fmt::format("an argument of type {} cannot be rebuilt", base::Printable(type)));
  }
  if (value == EntryTree::kNone) {
    return BadFormatError(fmt::format("a record of type {} has no value", base::Printable(type)));
  }
  const Node& node = tree[value];
  const auto invalid = [&] {
    return BadFormatError(fmt::format("a record of type {} has no valid value", type));
  };
  if (is_sizes) {
    if (node.kind != NodeKind::kList || (type == "slice" && node.child_count != 3)) {
      return invalid();
    }
    out.Tag(type == "slice" ? frame_tag::kSlice : frame_tag::kSize);
    if (type == "torch.Size") {
      out.Count(node.child_count);
    }
    Status status;
    tree.ForEachChild(value, [&](uint32_t item) {
      if (status.ok()) {
        status = Scalar(tree[item], out);
      }
    });
    return status;
  }
  if (is_numpy) {
    if (node.kind != NodeKind::kInt && node.kind != NodeKind::kFloat &&
        node.kind != NodeKind::kBool) {
      return invalid();
    }
    out.Tag(frame_tag::kNumpy);
    out.Text(type.substr(kNumpy.size()));
  }
  if (node.kind == NodeKind::kList) {
    return Value(tree, value, depth, out);
  }
  return Scalar(node, out);
}

Status ArgumentMaker::Constant(const EntryTree& tree, std::string_view type, uint32_t value,
                               FrameWriter& out) {
  const bool is_text = value != EntryTree::kNone && tree[value].kind == NodeKind::kText;
  // A memory format without its name is a default.
  if (type == "torch.memory_format" ? !is_text : is_text && tree[value].text == "None") {
    out.Tag(frame_tag::kNone);
    return {};
  }
  const std::optional<std::string> name =
      is_text ? ConstantName(type, tree[value].text) : std::nullopt;
  if (!name) {
    return UnsupportedError(fmt::format("an argument is not a {}: {}", type,
                                        is_text ? base::Printable(tree[value].text) : "no text"));
  }
  out.Tag(frame_tag::kDType);
  out.Text(type == "mindspore.dtype" ? "torch.dtype" : type);
  out.Text(*name);
  return {};
}

Status ArgumentMaker::Tensor(const EntryTree& tree, uint32_t place, FrameWriter& out) {
  MSP_ASSIGN_OR_RETURN(TensorRecord record, ReadTensorRecord(tree, place));
  const bool flagged = is_gradient_ || options_.for_mindspore || record.requires_grad;
  Leaf leaf;
  if (options_.tensor_folder.empty() && options_.source == nullptr) {
    MSP_ASSIGN_OR_RETURN(leaf, Draw(std::move(record)));
  } else {
    const std::string_view name = FileOf(tree, place);
    if (name.empty()) {
      return NotFoundError("the record of a tensor names no file");
    }
    MSP_ASSIGN_OR_RETURN(leaf, Load(name));
  }
  if (!is_gradient_ && !options_.for_mindspore) {
    MSP_ASSIGN_OR_RETURN(leaf, Converted(leaf));
  }
  if (options_.hf32 && leaf.dtype == DType::kFloat32 && !is_gradient_ && !is_keyword_) {
    std::byte* data = memory_.at(leaf.offset);
    for (int64_t i = 0; i < ElementCount(leaf.shape); ++i) {
      uint32_t bits = 0;
      std::memcpy(&bits, data + i * 4, 4);
      bits = RoundedToHf32(bits);
      std::memcpy(data + i * 4, &bits, 4);
    }
  }
  if (leaf.dtype == DType::kFloat16 || leaf.dtype == DType::kBFloat16 ||
      leaf.dtype == DType::kFloat32) {
    float_dtypes_.insert(leaf.dtype);
  }
  has_float8_ = has_float8_ || IsFloat8DType(leaf.dtype);
  const bool requires_grad = flagged && options_.with_gradients && !in_keyword_list_;
  out.Tensor(DTypeName(leaf.dtype), leaf.shape, leaf.offset, requires_grad);
  leaves_.push_back(std::move(leaf));
  return {};
}

Result<ArgumentMaker::Leaf> ArgumentMaker::Draw(TensorRecord record) {
  if (options_.for_mindspore) {
    Leaf drawn;
    drawn.is_tensor = true;
    drawn.dtype = record.dtype.value_or(DType::kFloat32);
    drawn.shape = record.shape;
    MSP_ASSIGN_OR_RETURN(
        drawn.offset,
        memory_.Take(static_cast<uint64_t>(ElementCount(drawn.shape)) * DTypeSize(drawn.dtype)));
    MSP_RETURN_IF_ERROR(DrawUniformTensor(record, memory_.at(drawn.offset)));
    return drawn;
  }
  const bool is_first = position_ == 0 && !is_keyword_ && !is_gradient_;
  if (api_ == "cross_entropy" && position_ == 1 && !is_keyword_ && !is_gradient_ && record.least &&
      record.least->number <= 0) {
    record.least = RecordedNumber{true, 0, 0};  // classes: -100 means that one is ignored
  }
  if (api_ == "histc" && is_first && record.dtype &&
      (record.dtype == DType::kInt8 || record.dtype == DType::kInt32 ||
       record.dtype == DType::kInt64)) {
    record.dtype = DType::kFloat32;
  }
  Leaf leaf;
  leaf.is_tensor = true;
  leaf.dtype = record.dtype.value_or(DType::kFloat32);
  leaf.shape = record.shape;
  MSP_ASSIGN_OR_RETURN(leaf.offset, memory_.Take(static_cast<uint64_t>(ElementCount(record.shape)) *
                                                 DTypeSize(leaf.dtype)));
  MSP_RETURN_IF_ERROR(DrawTensor(record, generator_, memory_.at(leaf.offset)));
  return leaf;
}

Result<ArgumentMaker::Leaf> ArgumentMaker::Load(std::string_view name) {
  if (options_.source != nullptr) {
    MSP_ASSIGN_OR_RETURN(const TensorView view, (*options_.source)(name));
    return Copied(view);
  }
  // The dump says names, not paths.
  const std::filesystem::path path =
      options_.tensor_folder / std::filesystem::path(name).filename();
  if (path.extension() != ".pt" && path.extension() != ".npy") {
    return UnsupportedError(
        fmt::format("{} is neither .pt nor .npy", base::Printable(path.filename().string())));
  }
  MSP_ASSIGN_OR_RETURN(const TensorFile file, TensorFile::Open(path));
  MSP_ASSIGN_OR_RETURN(const NamedTensor* tensor, file.Single());
  MSP_RETURN_IF_ERROR(tensor->status);
  return Copied(tensor->view);
}

Result<ArgumentMaker::Leaf> ArgumentMaker::Copied(const TensorView& view) {
  Leaf leaf;
  leaf.is_tensor = true;
  leaf.dtype = view.dtype;
  leaf.shape = view.shape;
  MSP_ASSIGN_OR_RETURN(leaf.offset, memory_.Take(view.size_bytes()));
  tensor::CopyElements(view, 0, view.element_count(), memory_.at(leaf.offset));
  return leaf;
}

Result<ArgumentMaker::Leaf> ArgumentMaker::Converted(const Leaf& leaf) {
  for (const Conversion& conversion : kConversions) {
    if (api_ != conversion.api || leaf.dtype != conversion.from) {
      continue;
    }
    Leaf converted = leaf;
    converted.dtype = conversion.to;
    const auto count = static_cast<size_t>(ElementCount(leaf.shape));
    MSP_ASSIGN_OR_RETURN(converted.offset, memory_.Take(count * DTypeSize(conversion.to)));
    const std::byte* from = memory_.at(leaf.offset);
    std::byte* to = memory_.at(converted.offset);
    for (size_t i = 0; i < count; ++i) {
      if (conversion.from == DType::kInt32) {
        int32_t narrow = 0;
        std::memcpy(&narrow, from + i * 4, 4);
        const int64_t wide = narrow;
        std::memcpy(to + i * 8, &wide, 8);
      } else {
        int64_t whole = 0;
        std::memcpy(&whole, from + i * 8, 8);
        const auto single = static_cast<float>(whole);
        std::memcpy(to + i * 4, &single, 4);
      }
    }
    return converted;
  }
  return leaf;
}

}  // namespace msprobe::analysis::accuracy
