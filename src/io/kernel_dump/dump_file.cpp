#include "src/io/kernel_dump/dump_file.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "src/io/contents.h"
#include "src/io/kernel_dump/format.h"
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

  // A missing part is reported with its expected place.
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

namespace {

constexpr size_t kNanoLengthBytes = 8;
constexpr uint32_t kNanoMagic = 0x5A5A5A5A;
constexpr uint32_t kInputsTag = 4;
constexpr uint32_t kOutputsTag = 5;
constexpr uint32_t kShapeTag = 0;
constexpr uint32_t kOriginalShapeTag = 1;

// Little-endian numbers, one after the other, from the head.
class HeadReader {
 public:
  HeadReader(std::span<const std::byte> head, uint64_t offset) : head_(head), offset_(offset) {}

  template <typename Integer>
  Status Read(Integer* value) {
    if (head_.size() - at_ < sizeof *value) {
      return BadNano("it ends inside a number");
    }
    *value = LoadLittle<Integer>(head_.data() + at_);
    at_ += sizeof *value;
    return {};
  }
  // The next `bytes` bytes, to be read by themselves.
  Result<HeadReader> Part(uint64_t bytes) {
    if (bytes > head_.size() - at_) {
      return BadNano(fmt::format("a part of {} bytes, {} are left", bytes, head_.size() - at_));
    }
    HeadReader part(head_.subspan(at_, static_cast<size_t>(bytes)), offset_ + at_);
    at_ += static_cast<size_t>(bytes);
    return part;
  }
  bool AtEnd() const { return at_ == head_.size(); }
  Status BadNano(std::string_view what) const {
    return BadFormatError(fmt::format("head of a nano dump, byte {}: {}", offset_ + at_, what));
  }

 private:
  std::span<const std::byte> head_;
  uint64_t offset_;
  size_t at_ = 0;
};

Result<Shape> ReadSizes(HeadReader reader) {
  Shape shape;
  while (!reader.AtEnd()) {
    uint64_t size = 0;
    MSP_RETURN_IF_ERROR(reader.Read(&size));
    if (shape.size() == kMaxRank || size > static_cast<uint64_t>(INT64_MAX)) {
      return reader.BadNano("an impossible shape");
    }
    shape.push_back(static_cast<int64_t>(size));
  }
  return shape;
}

// The list behind the fixed numbers of a tensor: shapes, and the name of an output's source.
Status ReadTags(HeadReader list, DumpedTensor& tensor) {
  while (!list.AtEnd()) {
    uint32_t tag = 0;
    uint32_t length = 0;
    MSP_RETURN_IF_ERROR(list.Read(&tag));
    MSP_RETURN_IF_ERROR(list.Read(&length));
    MSP_ASSIGN_OR_RETURN(const HeadReader value, list.Part(length));
    if (tag == kShapeTag) {
      MSP_ASSIGN_OR_RETURN(tensor.shape, ReadSizes(value));
    } else if (tag == kOriginalShapeTag) {
      MSP_ASSIGN_OR_RETURN(tensor.original_shape, ReadSizes(value));
    }
  }
  return {};
}

Result<DumpedTensor> ReadNanoTensor(HeadReader& reader, bool is_output) {
  DumpedTensor tensor;
  int32_t acl_type = 0;
  int32_t format = 0;
  int32_t ignored = 0;
  MSP_RETURN_IF_ERROR(reader.Read(&acl_type));
  MSP_RETURN_IF_ERROR(reader.Read(&format));
  // The kind of its address; of outputs also index, type and format before fusion.
  for (int i = 0; i < (is_output ? 4 : 1); ++i) {
    MSP_RETURN_IF_ERROR(reader.Read(&ignored));
  }
  uint64_t address = 0;
  uint64_t offset = 0;
  uint32_t list_bytes = 0;
  MSP_RETURN_IF_ERROR(reader.Read(&address));
  tensor.address = address;
  MSP_RETURN_IF_ERROR(reader.Read(&offset));
  MSP_RETURN_IF_ERROR(reader.Read(&tensor.size_bytes));
  MSP_RETURN_IF_ERROR(reader.Read(&list_bytes));
  MSP_ASSIGN_OR_RETURN(const HeadReader list, reader.Part(list_bytes));
  MSP_RETURN_IF_ERROR(ReadTags(list, tensor));
  // A type that the table does not have is reported when the tensor is read.
  tensor.data_type = FromAclDataType(acl_type).value_or(UINT32_MAX);
  tensor.format = static_cast<uint32_t>(format);
  return tensor;
}

Status ReadNanoTensors(HeadReader& head, uint32_t expected_tag,
                       std::vector<DumpedTensor>& tensors) {
  uint32_t tag = 0;
  uint32_t length = 0;
  MSP_RETURN_IF_ERROR(head.Read(&tag));
  MSP_RETURN_IF_ERROR(head.Read(&length));
  if (tag != expected_tag) {
    return head.BadNano(fmt::format("tag {} where {} was expected", tag, expected_tag));
  }
  MSP_ASSIGN_OR_RETURN(HeadReader list, head.Part(length));
  uint32_t count = 0;
  MSP_RETURN_IF_ERROR(list.Read(&count));
  for (uint32_t i = 0; i < count; ++i) {
    if (tensors.size() == kMostKernelTensors) {
      return UnsupportedError(fmt::format("nano dump: more than {} tensors", kMostKernelTensors));
    }
    MSP_ASSIGN_OR_RETURN(DumpedTensor tensor, ReadNanoTensor(list, expected_tag == kOutputsTag));
    tensors.push_back(std::move(tensor));
  }
  return {};
}

}  // namespace

bool IsNanoDump(std::span<const std::byte> bytes) {
  return bytes.size() >= kNanoLengthBytes + sizeof kNanoMagic &&
         LoadLittle<uint32_t>(bytes.data() + kNanoLengthBytes) == kNanoMagic;
}

Result<KernelDump> ReadNanoDump(std::span<const std::byte> bytes) {
  const auto head_bytes = LoadLittle<uint64_t>(bytes.data());
  if (head_bytes > bytes.size() - kNanoLengthBytes) {
    return BadFormatError(
        fmt::format("nano dump: a head of {} bytes in a file of {}", head_bytes, bytes.size()));
  }
  KernelDump dump;
  dump.is_nano = true;
  HeadReader head(bytes.subspan(kNanoLengthBytes, static_cast<size_t>(head_bytes)),
                  kNanoLengthBytes);
  uint32_t magic = 0;
  uint32_t version = 0;
  MSP_RETURN_IF_ERROR(head.Read(&magic));
  MSP_RETURN_IF_ERROR(head.Read(&version));
  dump.version = std::to_string(version);
  MSP_RETURN_IF_ERROR(ReadNanoTensors(head, kInputsTag, dump.inputs));
  if (!head.AtEnd()) {
    MSP_RETURN_IF_ERROR(ReadNanoTensors(head, kOutputsTag, dump.outputs));
  }
  uint64_t at = kNanoLengthBytes + head_bytes;
  for (std::vector<DumpedTensor>* tensors : {&dump.inputs, &dump.outputs}) {
    for (DumpedTensor& tensor : *tensors) {
      if (tensor.size_bytes > bytes.size() - at) {
        tensor.status =
            BadFormatError(fmt::format("nano dump: {} bytes at byte {}, the file ends after {}",
                                       tensor.size_bytes, at, bytes.size()));
        at = bytes.size();
        continue;
      }
      tensor.data = bytes.subspan(static_cast<size_t>(at), static_cast<size_t>(tensor.size_bytes));
      at += tensor.size_bytes;
    }
  }
  if (at < bytes.size()) {
    dump.warnings.push_back(fmt::format("{} bytes after the last tensor", bytes.size() - at));
  }
  return dump;
}

}  // namespace msprobe::io::kernel_dump

namespace msprobe::io {
namespace {

namespace kd = kernel_dump;

void AddTensors(const char* what, const std::vector<kd::DumpedTensor>& tensors, uint64_t& limit,
                TensorFileContents& contents) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    const kd::DumpedTensor& dumped = tensors[i];
    NamedTensor tensor;
    tensor.path = {what, std::to_string(i)};
    tensor.is_array = true;
    Result<kd::PlainTensor> plain = kd::ToPlain(dumped, limit);
    if (plain.ok()) {
      tensor.view = std::move(plain->view);
      if (!plain->owned.empty()) {
        limit -= plain->owned.size();
        contents.unpacked.push_back(std::move(plain->owned));
      }
    } else {
      tensor.status = std::move(plain).status();
    }
    contents.scalars.push_back(
        {{what, std::to_string(i), "format"}, "str", kd::FormatName(dumped.format)});
    if (dumped.original_shape) {
      contents.scalars.push_back({{what, std::to_string(i), "original_shape"},
                                  "tuple",
                                  ShapeText(*dumped.original_shape)});
    }
    contents.tensors.push_back(std::move(tensor));
  }
}

}  // namespace

Status ReadKernelDumpTensors(std::span<const std::byte> bytes, const TensorFile::Options& options,
                             TensorFileContents& contents) {
  contents.format = TensorFileFormat::kKernelDump;
  MSP_ASSIGN_OR_RETURN(kd::KernelDump dump, kd::ReadKernelDump(bytes));
  uint64_t limit = options.max_inflated_bytes;
  if (!dump.op_name.empty()) {
    contents.scalars.push_back({{"op_name"}, "str", dump.op_name.substr(0, 200)});
  }
  AddTensors("input", dump.inputs, limit, contents);
  AddTensors("output", dump.outputs, limit, contents);
  for (size_t i = 0; i < dump.buffers.size(); ++i) {
    contents.scalars.push_back({{"l1buffer", std::to_string(i)},
                                "bytes",
                                fmt::format("{} bytes", dump.buffers[i].data.size())});
  }
  for (size_t i = 0; i < dump.workspaces.size(); ++i) {
    contents.scalars.push_back({{"space", std::to_string(i)},
                                "bytes",
                                fmt::format("{} bytes", dump.workspaces[i].data.size())});
  }
  for (std::string& warning : dump.warnings) {
    contents.warnings.push_back(std::move(warning));
  }
  return {};
}

}  // namespace msprobe::io
