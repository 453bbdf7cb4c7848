// Dumps of small chips:
//   uint64 n | head of n bytes | inputs | outputs
// The head is a magic number, a version and two lists of tagged lengths
// (docs/formats/kernel_dumps.md).
#include <fmt/format.h>

#include "src/io/byte_order.h"
#include "src/io/dense_view.h"
#include "src/io/kernel_dump/data_type.h"
#include "src/io/kernel_dump/dump_file.h"

namespace msprobe::io::kernel_dump {
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
  // What the table of types does not have is told when the tensor is read.
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
