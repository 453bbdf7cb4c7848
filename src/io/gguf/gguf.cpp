// GGUF files (versions 2 and 3, little-endian): a magic number, counts, metadata, one entry for
// each tensor, and after padding the data. Every count, length and offset is held against what is
// left of the file before it is used.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/base/numbers.h"
#include "src/io/contents.h"
#include "src/io/gguf/blocks.h"

namespace msprobe::io {
namespace {

constexpr size_t kMagicBytes = 4;
constexpr uint64_t kMostDimensions = 4;
constexpr uint64_t kLongestTensorName = 1024;
constexpr uint64_t kShownText = 200;  // shown of a value
constexpr uint64_t kMostAlignment = uint64_t{1} << 20U;
constexpr int kMostDepth = 4;  // of lists in lists
constexpr uint64_t kFewestEntryBytes = 8 + 4 + 4 + 8;
constexpr uint64_t kFewestValueBytes = 8 + 4 + 1;

enum class ValueType : uint32_t {
  kUInt8,
  kInt8,
  kUInt16,
  kInt16,
  kUInt32,
  kInt32,
  kFloat32,
  kBool,
  kText,
  kList,
  kUInt64,
  kInt64,
  kFloat64,
};
constexpr std::string_view kValueTypeNames[] = {"int", "int",   "int",  "int", "int",
                                                "int", "float", "bool", "str", "list",
                                                "int", "int",   "float"};
constexpr size_t kValueBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

// What is left of the file's head.
class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  size_t at() const { return at_; }
  size_t left() const { return bytes_.size() - at_; }

  template <typename Integer>
  Result<Integer> Take() {
    if (left() < sizeof(Integer)) {
      return BadFormatError(fmt::format("the file ends in its head, at byte {}", at_));
    }
    const auto value = LoadLittle<Integer>(bytes_.data() + at_);
    at_ += sizeof(Integer);
    return value;
  }

  Result<std::string_view> TakeText() {
    MSP_ASSIGN_OR_RETURN(const uint64_t size, Take<uint64_t>());
    if (size > left()) {
      return BadFormatError(
          fmt::format("a text of {} bytes at byte {} is longer than the file", size, at_));
    }
    const std::string_view text = AsText(bytes_.data() + at_, size);
    at_ += size;
    return text;
  }

  Status Skip(uint64_t bytes) {
    if (bytes > left()) {
      return BadFormatError(fmt::format("the file ends in its head, at byte {}", at_));
    }
    at_ += bytes;
    return {};
  }

 private:
  std::span<const std::byte> bytes_;
  size_t at_ = 0;
};

Result<ValueType> TakeType(Cursor& cursor) {
  MSP_ASSIGN_OR_RETURN(const uint32_t type, cursor.Take<uint32_t>());
  if (type > static_cast<uint32_t>(ValueType::kFloat64)) {
    return BadFormatError(fmt::format("metadata of unknown type {}", type));
  }
  return static_cast<ValueType>(type);
}

template <typename Integer>
Result<std::string> TakeNumber(Cursor& cursor) {
  MSP_ASSIGN_OR_RETURN(const Integer value, cursor.Take<Integer>());
  return std::to_string(value);
}

// A value as text; lists by their lengths and first items.
Result<std::string> TakeValue(Cursor& cursor, ValueType type, int depth) {
  switch (type) {
    case ValueType::kUInt8:
      return TakeNumber<uint8_t>(cursor);
    case ValueType::kInt8:
      return TakeNumber<int8_t>(cursor);
    case ValueType::kUInt16:
      return TakeNumber<uint16_t>(cursor);
    case ValueType::kInt16:
      return TakeNumber<int16_t>(cursor);
    case ValueType::kUInt32:
      return TakeNumber<uint32_t>(cursor);
    case ValueType::kInt32:
      return TakeNumber<int32_t>(cursor);
    case ValueType::kUInt64:
      return TakeNumber<uint64_t>(cursor);
    case ValueType::kInt64:
      return TakeNumber<int64_t>(cursor);
    case ValueType::kFloat32: {
      MSP_ASSIGN_OR_RETURN(const uint32_t bits, cursor.Take<uint32_t>());
      return fmt::format("{}", std::bit_cast<float>(bits));
    }
    case ValueType::kFloat64: {
      MSP_ASSIGN_OR_RETURN(const uint64_t bits, cursor.Take<uint64_t>());
      return fmt::format("{}", std::bit_cast<double>(bits));
    }
    case ValueType::kBool: {
      MSP_ASSIGN_OR_RETURN(const uint8_t value, cursor.Take<uint8_t>());
      return std::string(value != 0 ? "True" : "False");
    }
    case ValueType::kText: {
      MSP_ASSIGN_OR_RETURN(const std::string_view text, cursor.TakeText());
      return text.size() > kShownText ? std::string(text.substr(0, kShownText)) + "..."
                                      : std::string(text);
    }
    case ValueType::kList:
      break;
  }
  if (depth >= kMostDepth) {
    return BadFormatError(fmt::format("lists are nested more than {} deep", kMostDepth));
  }
  MSP_ASSIGN_OR_RETURN(const ValueType item, TakeType(cursor));
  MSP_ASSIGN_OR_RETURN(const uint64_t count, cursor.Take<uint64_t>());
  const size_t item_bytes = kValueBytes[static_cast<size_t>(item)];
  const size_t fewest = item_bytes > 0 ? item_bytes : sizeof(uint64_t);
  if (count > cursor.left() / fewest) {
    return BadFormatError(
        fmt::format("a list of {} items at byte {} is longer than the file", count, cursor.at()));
  }
  constexpr uint64_t kShownItems = 8;
  std::string text = "[";
  for (uint64_t i = 0; i < count; ++i) {
    if (i >= kShownItems && item_bytes > 0) {
      MSP_RETURN_IF_ERROR(cursor.Skip((count - i) * item_bytes));
      break;
    }
    MSP_ASSIGN_OR_RETURN(const std::string value, TakeValue(cursor, item, depth + 1));
    if (i < kShownItems && text.size() < kShownText) {
      text += (i > 0 ? ", " : "") + value;
    }
  }
  return count > kShownItems ? fmt::format("{}, ... {} items]", text, count) : text + "]";
}

struct ListedTensor {
  std::string name;
  Shape shape;
  uint32_t type = 0;
  uint64_t offset = 0;
};

Result<ListedTensor> TakeEntry(Cursor& cursor) {
  ListedTensor entry;
  MSP_ASSIGN_OR_RETURN(const std::string_view name, cursor.TakeText());
  if (name.empty() || name.size() > kLongestTensorName || !IsUtf8(name)) {
    return BadFormatError(fmt::format("a tensor has a name of {} bytes", name.size()));
  }
  entry.name = name;
  MSP_ASSIGN_OR_RETURN(const uint32_t dimensions, cursor.Take<uint32_t>());
  if (dimensions > kMostDimensions) {
    return BadFormatError(fmt::format("tensor \"{}\" has {} dimensions", name, dimensions));
  }
  for (uint32_t i = 0; i < dimensions; ++i) {
    MSP_ASSIGN_OR_RETURN(const int64_t size, cursor.Take<int64_t>());
    if (size < 0) {
      return BadFormatError(fmt::format("tensor \"{}\" has a negative size", name));
    }
    entry.shape.push_back(size);
  }
  // The file names the innermost size first.
  std::reverse(entry.shape.begin(), entry.shape.end());
  MSP_ASSIGN_OR_RETURN(entry.type, cursor.Take<uint32_t>());
  MSP_ASSIGN_OR_RETURN(entry.offset, cursor.Take<uint64_t>());
  return entry;
}

// The bytes that an entry needs.
Result<uint64_t> BytesOf(const ListedTensor& entry, const GgufType& type) {
  MSP_RETURN_IF_ERROR(DenseBytes(entry.shape, 1).status());
  const int64_t count = ElementCount(entry.shape);
  const int64_t columns = entry.shape.empty() ? 1 : entry.shape.back();
  if (columns % type.block_elements != 0) {
    return BadFormatError(fmt::format("rows of shape {} are not whole blocks of {} elements",
                                      ShapeText(entry.shape), type.block_elements));
  }
  int64_t bytes = 0;
  if (!CheckedMultiply(count / type.block_elements, type.block_bytes, &bytes)) {
    return BadFormatError(
        fmt::format("shape {} is larger than any memory", ShapeText(entry.shape)));
  }
  return static_cast<uint64_t>(bytes);
}

// An entry as a tensor; what cannot be read of it becomes its status.
NamedTensor MakeTensor(ListedTensor& entry, std::span<const std::byte> data) {
  NamedTensor tensor;
  tensor.path.push_back(entry.name);
  const GgufType* type = FindGgufType(entry.type);
  if (type == nullptr) {
    tensor.status = UnsupportedError(fmt::format("unknown GGUF type {}", entry.type));
    return tensor;
  }
  const Result<uint64_t> bytes = BytesOf(entry, *type);
  if (!bytes.ok()) {
    tensor.status = bytes.status();
    return tensor;
  }
  tensor.view.dtype = type->dtype.value_or(DType::kUInt8);
  tensor.view.shape = type->dtype ? entry.shape : Shape{static_cast<int64_t>(*bytes)};
  tensor.view.strides = ContiguousStrides(tensor.view.shape);
  if (entry.offset > data.size() || *bytes > data.size() - entry.offset) {
    tensor.status =
        BadFormatError(fmt::format("bytes {} to {} are not in the data of {} bytes (truncated?)",
                                   entry.offset, entry.offset + *bytes, data.size()));
    return tensor;
  }
  const std::span<const std::byte> stored = data.subspan(entry.offset, *bytes);
  tensor.view.data = stored.data();
  tensor.view.extent_bytes = stored.size();
  if (type->dtype) {
    return tensor;
  }
  tensor.raw_dtype = type->name;
  if (!type->is_read) {
    tensor.status = UnsupportedError(fmt::format("values of {} are not known", type->name));
    tensor.view.data = nullptr;
    return tensor;
  }
  Result<std::shared_ptr<const CodedTensor>> coded =
      MakeGgufBlocks(*type, std::move(entry.shape), stored);
  if (coded.ok()) {
    tensor.coded = *std::move(coded);
  } else {
    tensor.status = std::move(coded).status();
    tensor.view.data = nullptr;
  }
  return tensor;
}

// Tensors that share bytes would let a small file keep a machine busy.
Status CheckApart(const std::vector<ListedTensor>& entries) {
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (const ListedTensor& entry : entries) {
    const GgufType* type = FindGgufType(entry.type);
    const Result<uint64_t> bytes =
        type == nullptr ? Result<uint64_t>(uint64_t{0}) : BytesOf(entry, *type);
    uint64_t end = 0;
    if (bytes.ok() && *bytes > 0 && CheckedAdd(entry.offset, *bytes, &end)) {
      ranges.emplace_back(entry.offset, end);
    }
  }
  std::sort(ranges.begin(), ranges.end());
  for (size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].first < ranges[i - 1].second) {
      return BadFormatError(fmt::format("tensors overlap at byte {} of the data", ranges[i].first));
    }
  }
  return {};
}

}  // namespace

Status ReadGguf(std::span<const std::byte> bytes, TensorFileContents& contents) {
  contents.format = TensorFileFormat::kGguf;
  Cursor cursor(bytes);
  MSP_RETURN_IF_ERROR(cursor.Skip(kMagicBytes));
  MSP_ASSIGN_OR_RETURN(const uint32_t version, cursor.Take<uint32_t>());
  if (version != 2 && version != 3) {
    return UnsupportedError(
        version == 1 || version > 0xFFFF
            ? fmt::format("GGUF of version {} (or of a big-endian machine)", version)
            : fmt::format("GGUF of version {}: 2 and 3 are read", version));
  }
  MSP_ASSIGN_OR_RETURN(const uint64_t tensor_count, cursor.Take<uint64_t>());
  MSP_ASSIGN_OR_RETURN(const uint64_t value_count, cursor.Take<uint64_t>());
  if (value_count > cursor.left() / kFewestValueBytes ||
      tensor_count > cursor.left() / kFewestEntryBytes) {
    return BadFormatError(fmt::format("{} metadata values and {} tensors do not fit into {} bytes",
                                      value_count, tensor_count, bytes.size()));
  }
  uint64_t alignment = 32;
  for (uint64_t i = 0; i < value_count; ++i) {
    MSP_ASSIGN_OR_RETURN(const std::string_view key, cursor.TakeText());
    MSP_ASSIGN_OR_RETURN(const ValueType type, TakeType(cursor));
    MSP_ASSIGN_OR_RETURN(std::string text, TakeValue(cursor, type, 0));
    if (key == "general.alignment") {
      const std::optional<int64_t> number = base::ParseInt(text);
      if (!number || *number <= 0 || static_cast<uint64_t>(*number) > kMostAlignment ||
          (*number & (*number - 1)) != 0) {
        return BadFormatError(fmt::format("an alignment of {}", text.substr(0, 50)));
      }
      alignment = static_cast<uint64_t>(*number);
    }
    if (!IsUtf8(text)) {
      text = fmt::format("{} bytes", text.size());
    }
    if (IsUtf8(key)) {
      contents.scalars.push_back({{std::string(key.substr(0, kLongestTensorName))},
                                  std::string(kValueTypeNames[static_cast<size_t>(type)]),
                                  std::move(text)});
    }
  }
  std::vector<ListedTensor> entries;
  std::unordered_set<std::string> names;
  for (uint64_t i = 0; i < tensor_count; ++i) {
    MSP_ASSIGN_OR_RETURN(ListedTensor entry, TakeEntry(cursor));
    if (!names.insert(entry.name).second) {
      return BadFormatError(fmt::format("tensor \"{}\" is there twice", entry.name));
    }
    entries.push_back(std::move(entry));
  }
  MSP_RETURN_IF_ERROR(CheckApart(entries));
  const size_t begin = (cursor.at() + alignment - 1) / alignment * alignment;
  const std::span<const std::byte> data = bytes.subspan(std::min<size_t>(begin, bytes.size()));
  for (ListedTensor& entry : entries) {
    contents.tensors.push_back(MakeTensor(entry, data));
  }
  return {};
}

}  // namespace msprobe::io
