// MindSpore's .ckpt: Protocol Buffers without a magic number. One message
//   Checkpoint  { repeated Value value = 1; }
//   Value       { string tag = 1; TensorProto tensor = 2; MapTensorProto maptensor = 3; }
//   TensorProto { repeated int64 dims = 1; string tensor_type = 2; bytes tensor_content = 3; }
// is scanned by its lengths; contents are noted, never copied. A parameter above 512 MiB is written
// as several values of the same tag, each with the dims of the whole.
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/base/strings.h"
#include "src/io/contents.h"
#include "src/io/protobuf_fields.h"

namespace msprobe::io {
namespace {

// Real checkpoints have some ten thousand; a tensor takes some hundred bytes here but a handful in
// the file.
constexpr size_t kMostTensors = 1'000'000;
constexpr size_t kMostScalars = 10'000;
constexpr size_t kLongestScalar = 200;
// "crc_num" and a number of ten bytes at the end of files saved with crc_check.
constexpr std::string_view kChecksumTag = "crc_num";
constexpr size_t kChecksumBytes = 17;
constexpr std::string_view kTextType = "str";

constexpr std::string_view kMindSporeHint =
    "the file is encrypted, damaged or not a MindSpore checkpoint";

Status BadAt(uint64_t offset, std::string_view what) {
  return BadFormatError(fmt::format("{} at byte {}", what, offset)).WithHint(kMindSporeHint);
}

struct Value {
  std::string_view tag;
  Shape dims;
  std::string_view type;
  std::string_view content;
  bool has_tensor = false;
  bool is_map = false;
  bool truncated = false;
};

uint64_t OffsetIn(std::string_view file, std::string_view part) {
  return static_cast<uint64_t>(part.data() - file.data());
}

Status AddDim(uint64_t dim, uint64_t offset, Shape& dims) {
  if (dims.size() >= kMaxRank) {
    return UnsupportedError(
        fmt::format("a tensor of more than {} sizes at byte {}", kMaxRank, offset));
  }
  dims.push_back(static_cast<int64_t>(dim));
  return {};
}

// A truncated part may only be what the end of the file cuts off.
Status CheckCut(const Field& field, bool may_be_cut, uint64_t offset) {
  return field.truncated && !may_be_cut ? BadAt(offset, "a length beyond the message around it")
                                        : Status();
}

Status ReadTensor(std::string_view file, std::string_view message, Value& value) {
  FieldReader reader(message, OffsetIn(file, message), kMindSporeHint);
  Field field;
  while (!reader.AtEnd()) {
    const uint64_t offset = reader.offset();
    Status status = reader.Next(&field);
    if (!status.ok() && value.truncated && reader.ends_inside_number()) {
      return {};
    }
    MSP_RETURN_IF_ERROR(std::move(status));
    MSP_RETURN_IF_ERROR(CheckCut(field, value.truncated, offset));
    if (field.number == 1 && field.wire_type == kVarint) {
      MSP_RETURN_IF_ERROR(AddDim(field.integer, offset, value.dims));
    } else if (field.number == 1 && field.wire_type == kCounted) {
      FieldReader packed = reader.Inner(field);
      while (!packed.AtEnd()) {
        uint64_t dim = 0;
        MSP_RETURN_IF_ERROR(packed.Varint(&dim));
        MSP_RETURN_IF_ERROR(AddDim(dim, offset, value.dims));
      }
    } else if (field.number == 2 && field.wire_type == kCounted) {
      value.type = field.text;
    } else if (field.number == 3 && field.wire_type == kCounted) {
      value.content = field.text;
    }
  }
  return {};
}

Status ReadValue(std::string_view file, std::string_view message, Value& value) {
  FieldReader reader(message, OffsetIn(file, message), kMindSporeHint);
  Field field;
  while (!reader.AtEnd()) {
    const uint64_t offset = reader.offset();
    Status status = reader.Next(&field);
    if (!status.ok() && value.truncated && reader.ends_inside_number()) {
      return {};
    }
    MSP_RETURN_IF_ERROR(std::move(status));
    MSP_RETURN_IF_ERROR(CheckCut(field, value.truncated, offset));
    if (field.number == 1 && field.wire_type == kCounted) {
      value.tag = field.text;
    } else if (field.number == 2 && field.wire_type == kCounted) {
      value.has_tensor = true;
      MSP_RETURN_IF_ERROR(ReadTensor(file, field.text, value));
    } else if (field.number == 3 && field.wire_type == kCounted) {
      value.is_map = true;
    }
  }
  return {};
}

// All values of one tag.
struct Entry {
  Value first;
  std::vector<std::string_view> more;  // contents of further values
  Status status;
};

Status CheckSlice(const Value& first, const Value& next) {
  if (next.dims != first.dims || next.type != first.type) {
    return BadFormatError(fmt::format("its slices disagree: {} of {} and {} of {}",
                                      ShapeText(first.dims), base::Printable(first.type),
                                      ShapeText(next.dims), base::Printable(next.type)));
  }
  return {};
}

class Listing {
 public:
  Listing(const TensorFile::Options& options, TensorFileContents& contents)
      : options_(options), contents_(contents), gather_left_(options.max_inflated_bytes) {}

  Status Add(Value value) {
    const auto [place, is_new] = index_.try_emplace(value.tag, entries_.size());
    if (is_new) {
      if (entries_.size() >= kMostTensors) {
        return UnsupportedError(fmt::format("more than {} parameters in one file", kMostTensors));
      }
      entries_.emplace_back().first = std::move(value);
      return {};
    }
    Entry& entry = entries_[place->second];
    if (entry.status.ok()) {
      entry.status = CheckSlice(entry.first, value);
    }
    entry.first.truncated |= value.truncated;
    entry.more.push_back(value.content);
    return {};
  }

  void Finish() {
    contents_.tensors.reserve(entries_.size());
    for (Entry& entry : entries_) {
      if (entry.first.type == kTextType && entry.more.empty() && !entry.first.truncated) {
        AddText(entry.first);
        continue;
      }
      NamedTensor tensor;
      tensor.path.emplace_back(entry.first.tag);
      tensor.status = Fill(entry, tensor);
      contents_.tensors.push_back(std::move(tensor));
    }
  }

  bool empty() const { return entries_.empty(); }

 private:
  void AddText(const Value& value) {
    if (contents_.scalars.size() < kMostScalars) {
      std::string text(value.content.substr(0, kLongestScalar));
      if (text.size() < value.content.size()) {
        text += "...";
      }
      contents_.scalars.push_back({{std::string(value.tag)}, "str", std::move(text)});
    }
  }

  Status Fill(Entry& entry, NamedTensor& tensor) {
    Value& value = entry.first;
    if (value.is_map) {
      return UnsupportedError("a map parameter (hash table) cannot be compared element by element");
    }
    // A file cut before the type still has a name to report.
    const std::optional<DType> dtype = ParseMindSporeType(value.type);
    if (!dtype && value.truncated) {
      return Truncated();
    }
    if (!value.has_tensor) {
      return BadFormatError("neither a tensor nor a map parameter");
    }
    if (!dtype) {
      return UnsupportedError(
          fmt::format("unknown element type \"{}\"", base::Printable(value.type.substr(0, 50))));
    }
    tensor.view.dtype = *dtype;
    const size_t element_bytes = DTypeSize(*dtype);
    // How scalars are stored.
    if (value.dims == Shape{0} && value.content.size() == element_bytes) {
      value.dims.clear();
    }
    MSP_ASSIGN_OR_RETURN(const int64_t needed, DenseBytes(value.dims, element_bytes));
    tensor.view.shape = value.dims;
    tensor.view.strides = ContiguousStrides(value.dims);
    if (value.truncated) {
      return Truncated();
    }
    MSP_RETURN_IF_ERROR(entry.status);
    uint64_t present = value.content.size();
    for (const std::string_view part : entry.more) {
      present += part.size();
    }
    if (present != static_cast<uint64_t>(needed)) {
      return BadFormatError(fmt::format("shape {} of {} needs {} bytes, its content has {}",
                                        ShapeText(value.dims), DTypeName(*dtype), needed, present));
    }
    if (entry.more.empty()) {
      MSP_ASSIGN_OR_RETURN(tensor.view, MakeDenseView(*dtype, std::move(value.dims), false,
                                                      std::as_bytes(std::span(value.content))));
      return {};
    }
    return FillFromSlices(entry, element_bytes, tensor);
  }

  Status FillFromSlices(const Entry& entry, size_t element_bytes, NamedTensor& tensor) {
    std::vector<std::string_view> parts = {entry.first.content};
    parts.insert(parts.end(), entry.more.begin(), entry.more.end());
    uint64_t total = 0;
    for (const std::string_view part : parts) {
      if (part.size() % element_bytes != 0) {
        return UnsupportedError("one of its slices ends inside an element");
      }
      total += part.size();
    }
    if (!options_.gather_slices) {
      for (const std::string_view part : parts) {
        if (!part.empty()) {
          tensor.slices.push_back(std::as_bytes(std::span(part)));
        }
      }
      return {};
    }
    if (total > gather_left_) {
      return UnsupportedError(
          fmt::format("stored in {} slices, which together with those of others are more than {} "
                      "bytes",
                      parts.size(), options_.max_inflated_bytes));
    }
    gather_left_ -= total;
    ZipBytes gathered;
    gathered.owned = std::make_unique_for_overwrite<std::byte[]>(total);
    gathered.bytes = {gathered.owned.get(), total};
    std::byte* out = gathered.owned.get();
    for (const std::string_view part : parts) {
      out = std::copy_n(reinterpret_cast<const std::byte*>(part.data()), part.size(), out);
    }
    MSP_ASSIGN_OR_RETURN(
        tensor.view, MakeDenseView(tensor.view.dtype, tensor.view.shape, false, gathered.bytes));
    contents_.inflated.push_back(std::move(gathered));
    return {};
  }

  // Only the names that MindSpore writes, not every alias of a dtype.
  static std::optional<DType> ParseMindSporeType(std::string_view name) {
    for (int i = 0; i < kDTypeCount; ++i) {
      const DTypeInfo& info = GetDTypeInfo(static_cast<DType>(i));
      if (!info.mindspore.empty() && info.mindspore == name) {
        return info.dtype;
      }
    }
    return std::nullopt;
  }

  static Status Truncated() { return BadFormatError("the file ends before the end of its data"); }

  const TensorFile::Options& options_;
  TensorFileContents& contents_;
  uint64_t gather_left_;
  std::vector<Entry> entries_;
  std::unordered_map<std::string_view, size_t> index_;
};

}  // namespace

bool LooksLikeMindSpore(std::span<const std::byte> bytes) {
  // Value 1 of a checkpoint begins with its tag.
  const std::string_view text = AsText(bytes.data(), bytes.size());
  FieldReader reader(text, 0, kMindSporeHint);
  Field value;
  if (!text.starts_with('\n') || !reader.Next(&value).ok() || !value.text.starts_with('\n')) {
    return false;
  }
  FieldReader inner = reader.Inner(value);
  Field tag;
  return inner.Next(&tag).ok() && !tag.text.empty();
}

Status ReadMindSpore(std::span<const std::byte> bytes, const TensorFile::Options& options,
                     TensorFileContents& contents) {
  contents.format = TensorFileFormat::kMindSpore;
  std::string_view file = AsText(bytes.data(), bytes.size());
  if (file.size() > kChecksumBytes &&
      file.substr(file.size() - kChecksumBytes).starts_with(kChecksumTag)) {
    file.remove_suffix(kChecksumBytes);
  }
  Listing listing(options, contents);
  FieldReader reader(file, 0, kMindSporeHint);
  Field field;
  while (!reader.AtEnd()) {
    const uint64_t offset = reader.offset();
    Status status = reader.Next(&field);
    if (reader.ends_inside_number() && !listing.empty()) {
      contents.warnings.push_back(fmt::format("the file ends inside a value at byte {}", offset));
      break;
    }
    MSP_RETURN_IF_ERROR(std::move(status));
    if (field.number != 1 || field.wire_type != kCounted) {
      continue;
    }
    Value value;
    value.truncated = field.truncated;
    MSP_RETURN_IF_ERROR(ReadValue(file, field.text, value), "value at byte ",
                        std::to_string(offset));
    if (value.truncated) {
      contents.warnings.push_back(fmt::format("the file ends inside the value at byte {}", offset));
    }
    if (!value.tag.empty()) {
      MSP_RETURN_IF_ERROR(listing.Add(std::move(value)));
    } else if (!value.truncated) {
      return BadAt(offset, "a value without a name");
    }
  }
  if (listing.empty()) {
    return BadAt(0, "no parameter");
  }
  listing.Finish();
  return {};
}

}  // namespace msprobe::io
