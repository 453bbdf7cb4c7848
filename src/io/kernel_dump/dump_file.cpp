#include "src/io/kernel_dump/dump_file.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "src/io/byte_order.h"
#include "src/io/dense_view.h"
#include "src/io/kernel_dump/data_type.h"
#include "src/io/protobuf_fields.h"

namespace msprobe::io::kernel_dump {
namespace {

constexpr size_t kLengthBytes = 8;
constexpr std::string_view kHeaderHint =
    "the file is damaged, still being written or not a kernel dump";

// Fields of DumpData; the others are skipped.
enum HeaderField : uint32_t {
  kVersion = 1,
  kDumpTime = 2,
  kOutput = 3,
  kInput = 4,
  kBuffer = 5,
  kOpName = 6,
  kAttribute = 7,
  kWorkspace = 8,
  kLastHeaderField = 9
};
// Where inputs and outputs keep the same things.
struct TensorFields {
  uint32_t size;
  uint32_t original_shape;
  uint32_t sub_format;
  uint32_t address;
  uint32_t origin;  // 0: inputs have none
};
constexpr TensorFields kInputFields = {5, 6, 7, 8, 0};
constexpr TensorFields kOutputFields = {6, 7, 8, 9, 4};

Status Bad(std::string_view what) {
  return BadFormatError(fmt::format("kernel dump: {}", what)).WithHint(kHeaderHint);
}

// A field must not reach beyond the message around it.
Status NextWhole(FieldReader& reader, Field* field) {
  const uint64_t offset = reader.offset();
  MSP_RETURN_IF_ERROR(reader.Next(field));
  return field->truncated
             ? Bad(fmt::format("a length beyond the message around it at byte {}", offset))
             : Status();
}

Status AddSize(uint64_t size, Shape& shape) {
  if (shape.size() == kMaxRank) {
    return UnsupportedError(fmt::format("kernel dump: a shape of more than {} sizes", kMaxRank));
  }
  if (size > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return Bad(fmt::format("a size of {}", size));
  }
  shape.push_back(static_cast<int64_t>(size));
  return {};
}

Result<Shape> ReadShape(FieldReader reader) {
  Shape shape;
  Field field;
  while (!reader.AtEnd()) {
    MSP_RETURN_IF_ERROR(NextWhole(reader, &field));
    if (field.number != 1) {
      continue;
    }
    if (field.wire_type == kVarint) {
      MSP_RETURN_IF_ERROR(AddSize(field.integer, shape));
    } else if (field.wire_type == kCounted) {
      FieldReader packed = reader.Inner(field);
      while (!packed.AtEnd()) {
        uint64_t size = 0;
        MSP_RETURN_IF_ERROR(packed.Varint(&size));
        MSP_RETURN_IF_ERROR(AddSize(size, shape));
      }
    }
  }
  return shape;
}

Result<std::optional<OriginalOutput>> ReadOrigin(FieldReader reader) {
  OriginalOutput origin;
  Field field;
  while (!reader.AtEnd()) {
    MSP_RETURN_IF_ERROR(NextWhole(reader, &field));
    if (field.wire_type == kCounted && field.number == 1) {
      origin.op = field.text;
    } else if (field.wire_type == kVarint && field.number == 2) {
      origin.output = static_cast<uint32_t>(std::min<uint64_t>(field.integer, UINT32_MAX));
    }
  }
  return origin.op.empty() ? std::nullopt : std::optional(std::move(origin));
}

Result<DumpedTensor> ReadTensor(FieldReader reader, const TensorFields& fields) {
  DumpedTensor tensor;
  tensor.format = 0;
  Field field;
  while (!reader.AtEnd()) {
    MSP_RETURN_IF_ERROR(NextWhole(reader, &field));
    const auto number = static_cast<uint32_t>(std::min<uint64_t>(field.integer, UINT32_MAX));
    if (field.wire_type == kVarint && field.number == 1) {
      tensor.data_type = number;
    } else if (field.wire_type == kVarint && field.number == 2) {
      tensor.format = number;
    } else if (field.wire_type == kCounted && field.number == 3) {
      MSP_ASSIGN_OR_RETURN(tensor.shape, ReadShape(reader.Inner(field)));
    } else if (field.wire_type == kVarint && field.number == fields.size) {
      tensor.size_bytes = field.integer;
    } else if (field.wire_type == kCounted && field.number == fields.original_shape) {
      MSP_ASSIGN_OR_RETURN(tensor.original_shape, ReadShape(reader.Inner(field)));
    } else if (field.wire_type == kVarint && field.number == fields.sub_format) {
      tensor.sub_format = static_cast<int32_t>(field.integer);
    } else if (field.wire_type == kVarint && field.number == fields.address) {
      tensor.address = field.integer;
    } else if (field.wire_type == kCounted && field.number == fields.origin) {
      MSP_ASSIGN_OR_RETURN(tensor.origin, ReadOrigin(reader.Inner(field)));
    }
  }
  return tensor;
}

struct SizedBytes {
  DumpedBytes bytes;
  uint64_t size_bytes = 0;
};

Result<SizedBytes> ReadBytes(FieldReader reader) {
  SizedBytes result;
  Field field;
  while (!reader.AtEnd()) {
    MSP_RETURN_IF_ERROR(NextWhole(reader, &field));
    if (field.wire_type == kVarint && field.number == 1) {
      result.bytes.type = static_cast<uint32_t>(std::min<uint64_t>(field.integer, UINT32_MAX));
    } else if (field.wire_type == kVarint && field.number == 3) {
      result.size_bytes = field.integer;
    }
  }
  return result;
}

Result<std::pair<std::string, std::string>> ReadAttribute(FieldReader reader) {
  std::pair<std::string, std::string> attribute;
  Field field;
  while (!reader.AtEnd()) {
    MSP_RETURN_IF_ERROR(NextWhole(reader, &field));
    if (field.wire_type == kCounted && field.number == 1) {
      attribute.first = field.text;
    } else if (field.wire_type == kCounted && field.number == 2) {
      attribute.second = field.text;
    }
  }
  return attribute;
}

// Hands the bytes behind the header out, one part after the other.
class Payload {
 public:
  Payload(std::span<const std::byte> file, size_t at) : file_(file), at_(at) {}

  // What is missing is told with where it should be.
  Status Take(uint64_t size, std::string_view what, std::span<const std::byte>* data) {
    if (broken_) {
      return Bad(fmt::format("{}: the file ended before", what));
    }
    const uint64_t left = file_.size() - at_;
    if (size > left) {
      broken_ = true;
      return Bad(fmt::format("{}: {} bytes at byte {}, the file ends after {}", what, size, at_,
                             file_.size()));
    }
    *data = file_.subspan(at_, static_cast<size_t>(size));
    at_ += static_cast<size_t>(size);
    return {};
  }
  uint64_t left() const { return broken_ ? 0 : file_.size() - at_; }

 private:
  std::span<const std::byte> file_;
  size_t at_;
  bool broken_ = false;
};

void TakeTensors(Payload& payload, std::string_view what, std::vector<DumpedTensor>& tensors) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    tensors[i].status =
        payload.Take(tensors[i].size_bytes, fmt::format("{} {}", what, i), &tensors[i].data);
  }
}

void TakeBytes(Payload& payload, std::string_view what, std::vector<SizedBytes>& sized,
               std::vector<DumpedBytes>& parts) {
  for (size_t i = 0; i < sized.size(); ++i) {
    DumpedBytes part = std::move(sized[i].bytes);
    part.status = payload.Take(sized[i].size_bytes, fmt::format("{} {}", what, i), &part.data);
    parts.push_back(std::move(part));
  }
}

Result<uint64_t> HeaderBytes(std::span<const std::byte> bytes) {
  if (bytes.size() <= kLengthBytes) {
    return Bad(fmt::format("a file of {} bytes", bytes.size()));
  }
  const auto header = LoadLittle<uint64_t>(bytes.data());
  if (header > bytes.size() - kLengthBytes) {
    return Bad(fmt::format("a header of {} bytes in a file of {}", header, bytes.size()));
  }
  if (header > kLongestKernelDumpHeader) {
    return UnsupportedError(fmt::format("kernel dump: a header of {} bytes (the limit is {})",
                                        header, kLongestKernelDumpHeader));
  }
  return header;
}

}  // namespace

bool LooksLikeKernelDump(std::span<const std::byte> bytes) {
  if (IsNanoDump(bytes)) {
    return true;
  }
  const Result<uint64_t> header = HeaderBytes(bytes);
  if (!header.ok() || *header == 0) {
    return false;
  }
  FieldReader reader(AsText(bytes.data() + kLengthBytes, *header), kLengthBytes, {});
  Field field;
  bool describes = false;
  while (!reader.AtEnd()) {
    if (!reader.Next(&field).ok() || field.truncated || field.number > kLastHeaderField ||
        field.wire_type != (field.number == kDumpTime ? kVarint : kCounted)) {
      return false;
    }
    describes |= field.number >= kOutput;
  }
  return describes;
}

Result<KernelDump> ReadKernelDump(std::span<const std::byte> bytes) {
  if (IsNanoDump(bytes)) {
    return ReadNanoDump(bytes);
  }
  MSP_ASSIGN_OR_RETURN(const uint64_t header, HeaderBytes(bytes));
  KernelDump dump;
  std::vector<SizedBytes> buffers;
  std::vector<SizedBytes> workspaces;
  FieldReader reader(AsText(bytes.data() + kLengthBytes, header), kLengthBytes, kHeaderHint);
  Field field;
  while (!reader.AtEnd()) {
    MSP_RETURN_IF_ERROR(NextWhole(reader, &field), "kernel dump header: ");
    if (dump.inputs.size() + dump.outputs.size() + buffers.size() + workspaces.size() +
            dump.attributes.size() >
        kMostKernelTensors) {
      return UnsupportedError(
          fmt::format("kernel dump: more than {} tensors and buffers", kMostKernelTensors));
    }
    if (field.wire_type == kVarint && field.number == kDumpTime) {
      dump.dump_time = field.integer;
      continue;
    }
    if (field.wire_type != kCounted) {
      continue;
    }
    switch (field.number) {
      case kVersion:
        dump.version = field.text;
        break;
      case kOutput: {
        MSP_ASSIGN_OR_RETURN(DumpedTensor tensor, ReadTensor(reader.Inner(field), kOutputFields),
                             "output ", std::to_string(dump.outputs.size()), ": ");
        dump.outputs.push_back(std::move(tensor));
        break;
      }
      case kInput: {
        MSP_ASSIGN_OR_RETURN(DumpedTensor tensor, ReadTensor(reader.Inner(field), kInputFields),
                             "input ", std::to_string(dump.inputs.size()), ": ");
        dump.inputs.push_back(std::move(tensor));
        break;
      }
      case kBuffer: {
        MSP_ASSIGN_OR_RETURN(SizedBytes part, ReadBytes(reader.Inner(field)));
        buffers.push_back(std::move(part));
        break;
      }
      case kWorkspace: {
        MSP_ASSIGN_OR_RETURN(SizedBytes part, ReadBytes(reader.Inner(field)));
        workspaces.push_back(std::move(part));
        break;
      }
      case kOpName:
        dump.op_name = field.text;
        break;
      case kAttribute: {
        MSP_ASSIGN_OR_RETURN(auto attribute, ReadAttribute(reader.Inner(field)));
        dump.attributes.push_back(std::move(attribute));
        break;
      }
      default:
        break;
    }
  }
  // Outputs stand first in the message, inputs in the data.
  Payload payload(bytes, kLengthBytes + static_cast<size_t>(header));
  TakeTensors(payload, "input", dump.inputs);
  TakeTensors(payload, "output", dump.outputs);
  TakeBytes(payload, "buffer", buffers, dump.buffers);
  TakeBytes(payload, "workspace", workspaces, dump.workspaces);
  if (payload.left() > 0) {
    dump.warnings.push_back(fmt::format("{} bytes after the last tensor", payload.left()));
  }
  return dump;
}

Result<PlainTensor> ToPlain(const DumpedTensor& tensor, uint64_t limit_bytes) {
  MSP_RETURN_IF_ERROR(Status(tensor.status));
  const DataType* type = FindDataType(tensor.data_type);
  if (type == nullptr) {
    return UnsupportedError(fmt::format("data type {} is not known", tensor.data_type));
  }
  PlainTensor plain;
  plain.is_opaque = type->packing == Packing::kOpaque;
  // Where the file tells no sizes, or the elements are bytes of something else, a list of all.
  Shape shape;
  if (tensor.shape && !tensor.shape->empty() && !plain.is_opaque) {
    shape = *tensor.shape;
  } else {
    shape = {static_cast<int64_t>(ElementsIn(*type, tensor.data.size()))};
  }
  MSP_RETURN_IF_ERROR(DenseBytes(shape, DTypeSize(type->becomes)).status());
  auto elements = static_cast<uint64_t>(ElementCount(shape));
  if (type->packing == Packing::kBits) {
    // The shape counts bytes.
    shape = {static_cast<int64_t>(tensor.data.size() * 8)};
    elements = tensor.data.size() * 8;
  }
  uint64_t packed_bytes = 0;
  if (!PackedBytes(*type, elements, &packed_bytes) || packed_bytes > tensor.data.size()) {
    return BadFormatError(fmt::format("shape {} of {} needs {} bytes, there are {}",
                                      ShapeText(shape), type->name, packed_bytes,
                                      tensor.data.size()));
  }
  if (type->packing == Packing::kPlain || plain.is_opaque) {
    MSP_ASSIGN_OR_RETURN(plain.view,
                         MakeDenseView(type->becomes, std::move(shape), false, tensor.data));
    return plain;
  }
  if (elements * DTypeSize(type->becomes) > limit_bytes) {
    return UnsupportedError(fmt::format("{} elements of {} take more than {} bytes", elements,
                                        type->name, limit_bytes));
  }
  plain.owned = Unpack(*type, tensor.data.first(static_cast<size_t>(packed_bytes)), elements);
  MSP_ASSIGN_OR_RETURN(plain.view,
                       MakeDenseView(type->becomes, std::move(shape), false, plain.owned));
  return plain;
}

}  // namespace msprobe::io::kernel_dump
