#include "src/io/safetensors.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "msprobe/status.h"

#include "src/io/contents.h"
#include "src/io/pickle_value.h"
#include "src/json/stream_reader.h"

namespace msprobe::io {
namespace {

// The text at the beginning of a .safetensors file.

constexpr uint64_t kLongestSafetensorsHeader = 100'000'000;
constexpr size_t kSafetensorsLengthBytes = 8;  // before the header
constexpr std::string_view kSafetensorsMetadataKey = "__metadata__";
// The header's own nesting is three levels.
constexpr int kMaxSafetensorsDepth = 8;

// Types whose values no dtype here stands for: their bytes are read as they are.
struct RawType {
  std::string_view name;
  int64_t bits;
};
constexpr RawType kRawTypes[] = {{"F8_E8M0", 8}, {"F4", 4}, {"F6_E2M3", 6}, {"F6_E3M2", 6}};

struct HeaderEntry {
  std::string name;
  std::string dtype;
  Shape shape;
  std::vector<int64_t> offsets;
  bool has_dtype = false;
  bool has_shape = false;
  bool has_offsets = false;
};

// Collects entries; the first offence stops the parse and is kept in `status`.
class HeaderHandler final : public json::Handler {
 public:
  explicit HeaderHandler(TensorFileContents& contents) : contents_(contents) {}

  // Some writers spell absent metadata as null.
  bool OnNull() override {
    const bool no_metadata = part_ == HeaderPart::kTop && entry_.name == kSafetensorsMetadataKey;
    return no_metadata || Refuse("null");
  }
  bool OnBool(bool) override { return Refuse("a boolean"); }
  bool OnFloat(double, std::string_view) override {
    return Refuse("a number that is not a 64-bit integer");
  }

  bool OnInt(int64_t value) override {
    if (part_ == HeaderPart::kShape || part_ == HeaderPart::kOffsets) {
      std::vector<int64_t>& list = part_ == HeaderPart::kShape ? entry_.shape : entry_.offsets;
      if (list.size() >= kMaxRank) {
        return Fail(fmt::format("tensor \"{}\" has more than {} sizes", Shown(), kMaxRank));
      }
      list.push_back(value);
      return true;
    }
    return Refuse("a number");
  }

  bool OnText(std::string_view value) override {
    if (part_ == HeaderPart::kEntry && field_ == Field::kDType) {
      entry_.dtype = value;
      field_ = Field::kNone;
      return true;
    }
    if (part_ == HeaderPart::kMetadata) {
      contents_.scalars.push_back(
          {{std::string(kSafetensorsMetadataKey), metadata_key_}, "str", Shorten(value)});
      return true;
    }
    return Refuse("a text");
  }

  bool OnBeginObject() override {
    switch (part_) {
      case HeaderPart::kStart:
        part_ = HeaderPart::kTop;
        return true;
      case HeaderPart::kTop:
        part_ = entry_.name == kSafetensorsMetadataKey ? HeaderPart::kMetadata : HeaderPart::kEntry;
        return true;
      default:
        return Refuse("an object");
    }
  }

  bool OnKey(std::string_view key) override {
    if (part_ == HeaderPart::kTop) {
      entry_ = HeaderEntry();
      entry_.name = key;
      return names_.insert(entry_.name).second ||
             Fail(fmt::format("key \"{}\" occurs twice", Shown()));
    }
    if (part_ == HeaderPart::kMetadata) {
      metadata_key_ = key;
      return true;
    }
    bool* seen = nullptr;
    if (key == "dtype") {
      field_ = Field::kDType;
      seen = &entry_.has_dtype;
    } else if (key == "shape") {
      field_ = Field::kShape;
      seen = &entry_.has_shape;
    } else if (key == "data_offsets") {
      field_ = Field::kOffsets;
      seen = &entry_.has_offsets;
    } else {
      return Fail(
          fmt::format("tensor \"{}\" has an unknown field \"{}\"", Shown(), key.substr(0, 50)));
    }
    return !std::exchange(*seen, true) ||
           Fail(fmt::format("tensor \"{}\" has a field twice", Shown()));
  }

  bool OnEndObject() override {
    if (part_ == HeaderPart::kEntry) {
      if (!entry_.has_dtype || !entry_.has_shape || !entry_.has_offsets ||
          entry_.offsets.size() != 2) {
        return Fail(fmt::format("tensor \"{}\" needs dtype, shape and two data_offsets", Shown()));
      }
      entries.push_back(std::move(entry_));
    }
    part_ = part_ == HeaderPart::kTop ? HeaderPart::kEnd : HeaderPart::kTop;
    return true;
  }

  bool OnBeginArray() override {
    if (part_ == HeaderPart::kEntry && (field_ == Field::kShape || field_ == Field::kOffsets)) {
      part_ = field_ == Field::kShape ? HeaderPart::kShape : HeaderPart::kOffsets;
      return true;
    }
    return Refuse("a list");
  }

  bool OnEndArray() override {
    part_ = HeaderPart::kEntry;
    field_ = Field::kNone;
    return true;
  }

  bool complete() const { return part_ == HeaderPart::kEnd; }

  std::vector<HeaderEntry> entries;
  Status status;

 private:
  enum class HeaderPart : uint8_t { kStart, kTop, kMetadata, kEntry, kShape, kOffsets, kEnd };
  enum class Field : uint8_t { kNone, kDType, kShape, kOffsets };

  std::string_view Shown() const { return std::string_view(entry_.name).substr(0, 200); }

  static std::string Shorten(std::string_view text) {
    constexpr size_t kLongest = 200;
    return text.size() > kLongest ? std::string(text.substr(0, kLongest)) + "..."
                                  : std::string(text);
  }

  bool Fail(std::string text) {
    status = BadFormatError(std::move(text));
    return false;
  }

  bool Refuse(std::string_view what) {
    return Fail(entry_.name.empty()
                    ? fmt::format("{} in an unexpected place", what)
                    : fmt::format("\"{}\": {} in an unexpected place", Shown(), what));
  }

  TensorFileContents& contents_;
  HeaderPart part_ = HeaderPart::kStart;
  Field field_ = Field::kNone;
  HeaderEntry entry_;
  std::string metadata_key_;
  std::unordered_set<std::string> names_;
};

std::optional<DType> SafetensorsDType(std::string_view name) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const DTypeInfo& info = GetDTypeInfo(static_cast<DType>(i));
    if (!info.safetensors.empty() && info.safetensors == name) {
      return info.dtype;
    }
  }
  return std::nullopt;
}

// The dtype of an entry that is read as bytes, and its shape: the entry's own, or a flat one if an
// element is not a whole number of bytes.
Result<DType> AsBytes(const RawType& raw, Shape& shape) {
  if (raw.bits == 8) {
    return DType::kUInt8;
  }
  // No overflow: as many whole bytes exist.
  MSP_RETURN_IF_ERROR(DenseBytes(shape, 1).status());
  const int64_t count = ElementCount(shape);
  if (count % 8 * raw.bits % 8 != 0) {
    return BadFormatError(
        fmt::format("{} elements of {} bits do not fill whole bytes", count, raw.bits));
  }
  shape = {count / 8 * raw.bits + count % 8 * raw.bits / 8};
  return DType::kUInt8;
}

Status AddEntry(HeaderEntry& entry, std::span<const std::byte> data, TensorFileContents& contents) {
  const int64_t begin = entry.offsets[0];
  const int64_t end = entry.offsets[1];
  Status outside;
  if (begin < 0 || end < begin || static_cast<uint64_t>(end) > data.size()) {
    outside = BadFormatError(
        fmt::format("bytes {} to {} are not in the data of {} bytes", begin, end, data.size()));
  }
  if (begin < 0 || end < begin) {
    return outside;
  }
  NamedTensor tensor;
  std::optional<DType> dtype = SafetensorsDType(entry.dtype);
  const auto* const raw =
      std::find_if(std::begin(kRawTypes), std::end(kRawTypes),
                   [&](const RawType& type) { return type.name == entry.dtype; });
  if (raw != std::end(kRawTypes)) {
    MSP_ASSIGN_OR_RETURN(dtype, AsBytes(*raw, entry.shape));
    tensor.raw_dtype = entry.dtype;
  }
  if (dtype) {
    MSP_ASSIGN_OR_RETURN(const int64_t needed, DenseBytes(entry.shape, DTypeSize(*dtype)));
    if (needed != end - begin) {
      return BadFormatError(fmt::format("shape {} of {} needs {} bytes, data_offsets give {}",
                                        ShapeText(entry.shape), entry.dtype, needed, end - begin));
    }
    if (outside.ok()) {
      const auto bytes = data.subspan(static_cast<size_t>(begin), static_cast<size_t>(needed));
      MSP_ASSIGN_OR_RETURN(tensor.view,
                           MakeDenseView(*dtype, std::move(entry.shape), false, bytes));
    } else {
      // The file was cut: what lies before the cut can be read.
      tensor.view.dtype = *dtype;
      tensor.view.strides = ContiguousStrides(entry.shape);
      tensor.view.shape = std::move(entry.shape);
      tensor.status = std::move(outside);
    }
  } else {
    return BadFormatError(fmt::format("unknown dtype \"{}\"", entry.dtype.substr(0, 50)));
  }
  tensor.path.push_back(std::move(entry.name));
  contents.tensors.push_back(std::move(tensor));
  return {};
}

// The ranges in order must start at 0 and follow each other without hole or overlap.
Status CheckRanges(std::vector<std::pair<int64_t, int64_t>> ranges, size_t data_bytes,
                   std::vector<std::string>& warnings) {
  std::sort(ranges.begin(), ranges.end());
  int64_t at = 0;
  for (const auto& [begin, end] : ranges) {
    if (begin != at) {
      return BadFormatError(fmt::format("tensors {} at byte {} of the data",
                                        begin < at ? "overlap" : "leave a hole",
                                        std::min(begin, at)));
    }
    at = end;
  }
  if (static_cast<uint64_t>(at) > data_bytes) {
    warnings.push_back(fmt::format("the file is truncated: {} bytes are missing at its end",
                                   static_cast<uint64_t>(at) - data_bytes));
  }
  if (static_cast<uint64_t>(at) < data_bytes) {
    warnings.push_back(
        fmt::format("{} bytes after the last tensor", data_bytes - static_cast<uint64_t>(at)));
  }
  return {};
}

// The JSON text, which borrows from the bytes of the file; the data follow it. Errors are
// kBadFormat.
Result<std::string_view> SafetensorsHeader(std::span<const std::byte> file) {
  if (file.size() < kSafetensorsLengthBytes) {
    return BadFormatError("shorter than its header length");
  }
  const auto length = LoadLittle<uint64_t>(file.data());
  if (length > file.size() - kSafetensorsLengthBytes || length > kLongestSafetensorsHeader) {
    return BadFormatError(fmt::format(
        "safetensors header of {} bytes does not fit into a file of {}", length, file.size()));
  }
  const std::string_view header = AsText(file.data() + kSafetensorsLengthBytes, length);
  if (!header.starts_with('{')) {
    return BadFormatError("safetensors header does not start with '{'");
  }
  if (!IsUtf8(header)) {
    return BadFormatError("safetensors header is not UTF-8");
  }
  return header;
}

}  // namespace

Status ReadSafetensors(std::span<const std::byte> bytes, TensorFileContents& contents) {
  contents.format = TensorFileFormat::kSafetensors;
  MSP_ASSIGN_OR_RETURN(const std::string_view header, SafetensorsHeader(bytes));
  HeaderHandler handler(contents);
  json::ParseOutcome outcome;
  const Status parsed = json::ParseStream(header, handler, &outcome, kMaxSafetensorsDepth);
  MSP_RETURN_IF_ERROR(std::move(handler.status), "safetensors header");
  MSP_RETURN_IF_ERROR(parsed, "safetensors header");
  if (outcome.truncated || !handler.complete()) {
    return BadFormatError("safetensors header ends too early");
  }
  const std::span<const std::byte> data = bytes.subspan(kSafetensorsLengthBytes + header.size());
  std::vector<std::pair<int64_t, int64_t>> ranges;
  ranges.reserve(handler.entries.size());
  contents.tensors.reserve(handler.entries.size());
  for (HeaderEntry& entry : handler.entries) {
    const std::string name = entry.name.substr(0, 200);
    ranges.emplace_back(entry.offsets[0], entry.offsets[1]);
    MSP_RETURN_IF_ERROR(AddEntry(entry, data, contents), "tensor \"", name, "\"");
  }
  return CheckRanges(std::move(ranges), data.size(), contents.warnings);
}

namespace {

constexpr std::string_view kOffsetsKey = "saved_offsets";
constexpr int kMaxShardingDepth = 8;
constexpr int kDepthOfOffsets = 3;  // the object, that of a tensor, the list

// Takes the one text from the metadata in the header; all else was read before.
class MetadataHandler final : public json::Handler {
 public:
  bool OnNull() override { return true; }
  bool OnBool(bool) override { return true; }
  bool OnInt(int64_t) override { return true; }
  bool OnFloat(double, std::string_view) override { return true; }
  bool OnText(std::string_view value) override {
    if (depth_ == 2 && in_metadata_ && is_sharding_) {
      sharding = value;
    }
    return true;
  }
  bool OnKey(std::string_view key) override {
    if (depth_ == 1) {
      in_metadata_ = key == kSafetensorsMetadataKey;
    } else {
      is_sharding_ = key == kShardingInfoKey;
    }
    return true;
  }
  bool OnBeginObject() override { return Deeper(1); }
  bool OnEndObject() override { return Deeper(-1); }
  bool OnBeginArray() override { return Deeper(1); }
  bool OnEndArray() override { return Deeper(-1); }

  std::string sharding;

 private:
  bool Deeper(int levels) {
    depth_ += levels;
    return true;
  }

  int depth_ = 0;
  bool in_metadata_ = false;
  bool is_sharding_ = false;
};

// Takes the numbers of every "saved_offsets"; what else newer writers say of a tensor is skipped.
class ShardingHandler final : public json::Handler {
 public:
  bool OnNull() override { return IsElsewhere(); }
  bool OnBool(bool) override { return IsElsewhere(); }
  bool OnFloat(double, std::string_view) override { return IsElsewhere(); }
  bool OnText(std::string_view) override { return IsElsewhere(); }

  bool OnInt(int64_t value) override {
    if (!in_offsets_) {
      return IsElsewhere();
    }
    Shape& offset = offsets.find(name_)->second;
    if (depth_ != kDepthOfOffsets || value < 0 || offset.size() >= kMaxRank) {
      return false;
    }
    offset.push_back(value);
    return true;
  }

  bool OnBeginObject() override {
    ++depth_;
    return !in_offsets_;
  }
  bool OnEndObject() override {
    complete_ = --depth_ == 0;
    return true;
  }

  bool OnKey(std::string_view key) override {
    if (depth_ == 1) {
      name_ = key;
    } else if (depth_ == 2 && key == kOffsetsKey) {
      in_offsets_ = true;
      return offsets.try_emplace(name_).second;
    }
    return true;
  }

  bool OnBeginArray() override {
    ++depth_;
    return depth_ > 1 && !(in_offsets_ && depth_ > kDepthOfOffsets);
  }
  bool OnEndArray() override {
    in_offsets_ = false;
    --depth_;
    return true;
  }

  // Whether nothing stopped it before the end.
  bool complete() const { return complete_; }

  std::unordered_map<std::string, Shape> offsets;

 private:
  bool IsElsewhere() const { return depth_ > 0 && !in_offsets_; }

  int depth_ = 0;
  bool complete_ = false;
  bool in_offsets_ = false;
  std::string name_;
};

}  // namespace

Result<std::unordered_map<std::string, Shape>> ReadShardOffsets(std::span<const std::byte> file) {
  MSP_ASSIGN_OR_RETURN(const std::string_view header, SafetensorsHeader(file));
  MetadataHandler metadata;
  MSP_RETURN_IF_ERROR(json::ParseStream(header, metadata, nullptr, kMaxSafetensorsDepth));
  if (metadata.sharding.empty()) {
    return std::unordered_map<std::string, Shape>();
  }
  ShardingHandler handler;
  const Status parsed = json::ParseStream(metadata.sharding, handler, nullptr, kMaxShardingDepth);
  if (!parsed.ok() || !handler.complete()) {
    return BadFormatError(
        fmt::format("{} in the metadata is not what PyTorch writes", kShardingInfoKey));
  }
  return std::move(handler.offsets);
}

}  // namespace msprobe::io
