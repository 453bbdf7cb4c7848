#include "src/analysis/accuracy/check/frames.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "src/base/number_text.h"

namespace msprobe::analysis::accuracy {
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
    return BadFormatError("the worker sent what is no frame");
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

}  // namespace msprobe::analysis::accuracy
