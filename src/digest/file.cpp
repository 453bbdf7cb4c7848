// Files of digests: written one parameter a line, read as input that is not trusted. Numbers lie in
// their ranges before anything is sized by them; boxes lie in their parameters; there are as many
// blocks as the rows make. What is not known is left alone: newer versions write more.
#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "msprobe/version.h"

#include "src/base/files.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/base/utf8.h"
#include "src/digest/digest.h"
#include "src/json/document.h"
#include "src/json/writer.h"

namespace msprobe::digest {
namespace {

using json::Json;
using json::Writer;

constexpr int64_t kSchemaVersion = 1;
constexpr std::string_view kMarker = "msprobe_digest";
constexpr uint64_t kMostFileBytes = uint64_t{256} << 20U;
constexpr int64_t kMostRanks = int64_t{1} << 20U;
constexpr size_t kMostDimensions = 64;
constexpr int64_t kMostSize = int64_t{1} << 53U;
constexpr size_t kMostBoxes = size_t{1} << 20U;

constexpr std::string_view kValueKinds[] = {"float", "integer", "complex"};

constexpr std::string_view kLetters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

// Blocks [first, last] as base64 of little-endian numbers.
std::string BlocksText(std::span<const uint64_t> blocks) {
  std::string text;
  uint32_t bits = 0;
  int held = 0;
  for (const uint64_t block : blocks) {
    for (int byte = 0; byte < 8; ++byte) {
      bits = bits << 8U | static_cast<uint32_t>(block >> (8 * byte) & 0xFFU);
      held += 8;
      while (held >= 6) {
        held -= 6;
        text += kLetters[bits >> held & 0x3FU];
      }
    }
  }
  if (held > 0) {
    text += kLetters[bits << (6 - held) & 0x3FU];
  }
  text.append((4 - text.size() % 4) % 4, '=');
  return text;
}

bool ReadBlocks(std::string_view text, std::span<uint64_t> blocks) {
  const size_t letters = (blocks.size() * 64 + 5) / 6;
  if (text.size() != (letters + 3) / 4 * 4) {
    return false;
  }
  std::array<int8_t, 256> values;
  values.fill(-1);
  for (size_t i = 0; i < kLetters.size(); ++i) {
    values[static_cast<unsigned char>(kLetters[i])] = static_cast<int8_t>(i);
  }
  uint32_t bits = 0;
  int held = 0;
  size_t byte = 0;
  for (size_t i = 0; i < letters; ++i) {
    const int8_t value = values[static_cast<unsigned char>(text[i])];
    if (value < 0) {
      return false;
    }
    bits = bits << 6U | static_cast<uint32_t>(value);
    held += 6;
    if (held >= 8 && byte < blocks.size() * 8) {
      held -= 8;
      blocks[byte / 8] |= static_cast<uint64_t>(bits >> held & 0xFFU) << (byte % 8 * 8);
      ++byte;
    }
  }
  return true;
}

// The blocks that boxes reach into: all others are 0.
std::pair<size_t, size_t> TouchedBlocks(const Entry& entry) {
  size_t first = entry.blocks.size();
  size_t end = 0;
  const int64_t block_rows = BlockRows(entry.rows());
  for (const Box& box : entry.boxes) {
    const int64_t begin = box.offset.empty() ? 0 : box.offset[0];
    const int64_t last = begin + (box.shape.empty() ? 1 : box.shape[0]) - 1;
    first = std::min(first, static_cast<size_t>(begin / block_rows));
    end = std::max(end, static_cast<size_t>(last / block_rows) + 1);
  }
  return {std::min(first, end), end};
}

bool IsAll(const Entry& entry) {
  return entry.boxes.size() == 1 && entry.boxes.front().shape == entry.shape;
}

void PutNumbers(Writer& writer, const Shape& numbers) {
  writer.BeginArray();
  for (const int64_t number : numbers) {
    writer.Int(number);
  }
  writer.EndArray();
}

void PutEntry(const Entry& entry, Writer& writer) {
  writer.BeginObject();
  writer.Member("name", entry.name);
  if (entry.part != entry.name) {
    writer.Member("part", entry.part);
  }
  if (entry.stored != entry.name) {
    writer.Member("stored", entry.stored);
  }
  writer.Key("shape");
  PutNumbers(writer, entry.shape);
  if (entry.padded_to) {
    writer.Member("padded_to", *entry.padded_to);
  }
  if (entry.kind != ValueKind::kFloat) {
    writer.Member("kind", kValueKinds[static_cast<size_t>(entry.kind)]);
  }
  writer.Member("dtype", DTypeName(entry.dtype));
  writer.Member("format", entry.format);
  if (!entry.left_out.empty()) {
    writer.Member("left_out", entry.left_out);
  }
  if (!entry.fused.empty()) {
    writer.Member("fused", entry.fused);
  }
  if (!entry.problem.empty()) {
    writer.Member("problem", entry.problem);
    writer.EndObject();
    return;
  }
  if (!IsAll(entry)) {
    writer.Array("boxes", entry.boxes, [&](const Box& box) {
      Shape numbers = box.offset;
      numbers.insert(numbers.end(), box.shape.begin(), box.shape.end());
      PutNumbers(writer, numbers);
    });
  }
  const auto [first, end] = TouchedBlocks(entry);
  writer.Member("blocks", BlocksText(std::span(entry.blocks).subspan(first, end - first)));
  writer.Member("total", fmt::format("{:016x}", entry.total));
  writer.EndObject();
}

class Reader {
 public:
  explicit Reader(const std::string& file) : file_(file) {}

  Status Error(std::string_view where, std::string_view complaint) const {
    return BadFormatError(
        fmt::format("{}: {} {}", file_, base::Printable(base::Shortened(where, 200)), complaint));
  }

  Result<int64_t> Integer(const Json& value, std::string_view where, int64_t least,
                          int64_t most) const {
    const Result<int64_t> number = json::IntegerIn(value, least, most);
    return number.ok() ? number : Error(where, number.status().message());
  }

  Result<Shape> Numbers(const Json& value, std::string_view where, size_t most_items) const {
    if (!value.is_array() || value.size() > most_items) {
      return Error(where, "must be a short list of integers");
    }
    Shape numbers;
    for (const Json& item : value) {
      MSP_ASSIGN_OR_RETURN(const int64_t number, Integer(item, where, 0, kMostSize));
      numbers.push_back(number);
    }
    return numbers;
  }

 private:
  const std::string& file_;
};

Status ReadBoxes(const Reader& reader, const Json& list, size_t& boxes_left, Entry& entry) {
  const size_t rank = entry.shape.size();
  if (!list.is_array() || list.size() > boxes_left) {
    return reader.Error(entry.name, "boxes must be a list, not a very long one");
  }
  boxes_left -= list.size();
  for (const Json& item : list) {
    MSP_ASSIGN_OR_RETURN(const Shape numbers, reader.Numbers(item, entry.name, 2 * rank));
    if (numbers.size() != 2 * rank) {
      return reader.Error(entry.name, "a box needs an offset and a size per dimension");
    }
    Box box;
    box.offset.assign(numbers.begin(), numbers.begin() + static_cast<std::ptrdiff_t>(rank));
    box.shape.assign(numbers.begin() + static_cast<std::ptrdiff_t>(rank), numbers.end());
    for (size_t axis = 0; axis < rank; ++axis) {
      if (box.shape[axis] < 1 || box.shape[axis] > entry.shape[axis] ||
          box.offset[axis] > entry.shape[axis] - box.shape[axis]) {
        return reader.Error(entry.name, fmt::format("the box of shape {} at {} lies outside of {}",
                                                    ShapeText(box.shape), ShapeText(box.offset),
                                                    ShapeText(entry.shape)));
      }
    }
    entry.boxes.push_back(std::move(box));
  }
  return {};
}

// The product of sizes fits 63 bits.
bool IsCountable(const Shape& shape) {
  int64_t count = 1;
  for (const int64_t size : shape) {
    if (size == 0) {
      return true;
    }
    if (__builtin_mul_overflow(count, size, &count)) {
      return false;
    }
  }
  return true;
}

Result<Entry> ReadEntry(const Reader& reader, const Json& object, size_t number,
                        size_t& boxes_left) {
  const std::string where = fmt::format("parameter {}", number);
  if (!object.is_object()) {
    return reader.Error(where, "must be an object");
  }
  const auto text = [&](std::string_view key, const std::string& otherwise) {
    const std::string& found = json::TextOf(json::Member(object, key));
    return found.empty() ? otherwise : found;
  };
  Entry entry;
  entry.name = text("name", "");
  if (entry.name.empty()) {
    return reader.Error(where, "has no name");
  }
  entry.part = text("part", entry.name);
  entry.stored = text("stored", entry.name);
  entry.format = text("format", "");
  entry.left_out = text("left_out", "");
  entry.problem = text("problem", "");
  for (const Json& part : json::ItemsOf(json::Member(object, "fused"))) {
    entry.fused.push_back(json::TextOf(part));
  }
  MSP_ASSIGN_OR_RETURN(entry.shape,
                       reader.Numbers(json::Member(object, "shape"), entry.name, kMostDimensions));
  if (!IsCountable(entry.shape)) {
    return reader.Error(entry.name, "has more elements than any memory");
  }
  if (const Json* padded = json::FindGiven(object, "padded_to")) {
    MSP_ASSIGN_OR_RETURN(entry.padded_to, reader.Integer(*padded, entry.name, 0, kMostSize));
  }
  const std::string kind = text("kind", "float");
  const auto* known = std::find(std::begin(kValueKinds), std::end(kValueKinds), kind);
  const std::optional<DType> dtype = ParseDType(text("dtype", ""));
  if (known == std::end(kValueKinds) || !dtype) {
    return reader.Error(entry.name, "has an unknown kind or dtype");
  }
  entry.kind = static_cast<ValueKind>(known - std::begin(kValueKinds));
  entry.dtype = *dtype;
  entry.blocks.assign(BlockCount(entry.rows()), 0);
  if (!entry.problem.empty()) {
    return entry;
  }
  if (const Json* boxes = json::FindGiven(object, "boxes")) {
    MSP_RETURN_IF_ERROR(ReadBoxes(reader, *boxes, boxes_left, entry));
  } else if (ElementCount(entry.shape) > 0) {
    entry.boxes.push_back({Shape(entry.shape.size(), 0), entry.shape});
  }
  const auto [first, end] = TouchedBlocks(entry);
  const std::string total = text("total", "");
  uint64_t bits = 0;
  const auto [behind, error] = std::from_chars(total.data(), total.data() + total.size(), bits, 16);
  if (!ReadBlocks(text("blocks", ""), std::span(entry.blocks).subspan(first, end - first)) ||
      total.size() != 16 || error != std::errc() || behind != total.data() + total.size()) {
    return reader.Error(entry.name,
                        fmt::format("needs base64 text of {} blocks, and 16 hexadecimal digits as "
                                    "its total",
                                    end - first));
  }
  entry.total = bits;
  return entry;
}

}  // namespace

std::string DigestJson(const Digest& digest) {
  std::string text;
  Writer head(text, -1);
  head.BeginObject();
  head.Member("schema_version", kSchemaVersion);
  head.Member("format", kMarker);
  head.Member("version", MSPROBE_VERSION);
  head.Key("rank");
  if (digest.rank) {
    head.Int(*digest.rank);
  } else {
    head.Null();
  }
  head.Member("world_size", digest.world_size);
  head.Key("dtype");
  if (const std::string_view cast = CastName(digest.cast); !cast.empty()) {
    head.Text(cast);
  } else {
    head.Null();
  }
  head.Member("source", digest.source);
  text += ", \"parameters\": [";
  bool is_first = true;
  for (const Entry& entry : digest.entries) {
    text += is_first ? "\n " : ",\n ";
    is_first = false;
    Writer writer(text, -1, Writer::NonFinite::kText, 2);
    PutEntry(entry, writer);
  }
  return text + "\n]}\n";
}

Result<Digest> ParseDigest(std::string_view text, const std::string& file_name) {
  Result<Json> root = json::ParseDocument(text);
  if (!root.ok()) {
    return BadFormatError(fmt::format("{}: {}", file_name, root.status().message()));
  }
  const Reader reader(file_name);
  if (!root->is_object() || json::TextOf(json::Member(*root, "format")) != kMarker) {
    return reader.Error("the document", "is not a digest: no \"format\": \"msprobe_digest\"");
  }
  MSP_ASSIGN_OR_RETURN(const int64_t schema, reader.Integer(json::Member(*root, "schema_version"),
                                                            "schema_version", 1, INT32_MAX));
  if (schema > kSchemaVersion) {
    return reader.Error("schema_version", "is of a newer msprobe; update this one");
  }
  Digest digest;
  MSP_ASSIGN_OR_RETURN(digest.world_size, reader.Integer(json::Member(*root, "world_size"),
                                                         "world_size", 1, kMostRanks));
  if (const Json* rank = json::FindGiven(*root, "rank")) {
    MSP_ASSIGN_OR_RETURN(digest.rank, reader.Integer(*rank, "rank", 0, digest.world_size - 1));
  }
  if (const Json* dtype = json::FindGiven(*root, "dtype")) {
    const std::optional<kernels::DigestCast> cast = ParseCast(json::TextOf(*dtype));
    if (!cast) {
      return reader.Error("dtype", "is none of float32, bfloat16 and float16");
    }
    digest.cast = *cast;
  }
  digest.source = json::TextOf(json::Member(*root, "source"));
  const Json& parameters = json::Member(*root, "parameters");
  if (!parameters.is_array()) {
    return reader.Error("parameters", "must be a list");
  }
  size_t boxes_left = kMostBoxes;
  for (const Json& object : parameters) {
    MSP_ASSIGN_OR_RETURN(Entry entry, ReadEntry(reader, object, digest.entries.size(), boxes_left));
    digest.entries.push_back(std::move(entry));
  }
  return digest;
}

namespace {

std::vector<std::string> RankFilesIn(const std::filesystem::path& folder) {
  std::vector<std::string> files;
  if (const Result<std::vector<std::string>> names = base::ListFolder(folder); names.ok()) {
    for (const std::string& name : *names) {
      if (name.starts_with(kFilePrefix) && name.ends_with(".json")) {
        files.push_back(name);
      }
    }
  }
  return files;
}

}  // namespace

bool LooksLikeDigest(const std::filesystem::path& path) {
  if (base::IsFolder(path)) {
    return !RankFilesIn(path).empty();
  }
  if (path.extension() != ".json" || !base::Exists(path)) {
    return false;
  }
  const Result<base::FileBytes> file = base::FileBytes::Open(path);
  return file.ok() && file->text().substr(0, 200).find(kMarker) != std::string_view::npos;
}

Result<std::vector<Digest>> ReadDigests(const std::filesystem::path& path) {
  std::vector<std::filesystem::path> files = {path};
  if (base::IsFolder(path)) {
    files.clear();
    for (const std::string& name : RankFilesIn(path)) {
      files.push_back(path / name);
    }
  }
  std::vector<Digest> digests;
  for (const std::filesystem::path& file : files) {
    MSP_ASSIGN_OR_RETURN(const std::string text, base::ReadTextFile(file, kMostFileBytes));
    MSP_ASSIGN_OR_RETURN(Digest digest, ParseDigest(text, file.string()));
    digests.push_back(std::move(digest));
  }
  return digests;
}

}  // namespace msprobe::digest
