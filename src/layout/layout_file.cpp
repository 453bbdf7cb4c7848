// Reads layout.json and the file of `compare --layout`.
//
// The document is read whole within the limits of json/document.h; then every member that is known
// is checked before it is taken: a number must lie in its range before anything is sized by it, and
// lists have a largest length. Members that are not known are left alone: newer captures write
// more. A complaint names file and member.
#include "src/layout/layout_file.h"

#include <algorithm>
#include <charconv>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "src/base/files.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/base/utf8.h"

namespace msprobe::layout {
namespace {

using json::Json;

constexpr uint64_t kMostFileBytes = uint64_t{64} << 20U;
constexpr int64_t kMostRanks = int64_t{1} << 20U;
constexpr int64_t kMostDimensions = 64;
constexpr int64_t kMostSize = int64_t{1} << 53U;
constexpr size_t kMostParts = size_t{1} << 16U;

class Reader {
 public:
  explicit Reader(const std::string& file) : file_(file) {}

  Status Error(std::string_view member, std::string_view complaint) const {
    return BadFormatError(
        fmt::format("{}: {} {}", file_, base::Printable(base::Shortened(member, 200)), complaint));
  }

  Status Integer(const Json& object, std::string_view key, std::string_view where, int64_t least,
                 int64_t most, std::optional<int64_t>& out) const {
    const Json* const value = json::FindGiven(object, key);
    if (value == nullptr) {
      return OkStatus();
    }
    MSP_ASSIGN_OR_RETURN(out, Checked(*value, fmt::format("{}{}", where, key), least, most));
    return OkStatus();
  }

  Status Integers(const Json& object, std::string_view key, std::string_view where, int64_t least,
                  int64_t most, size_t most_items, std::vector<int64_t>& out) const {
    const Json* const value = json::FindGiven(object, key);
    if (value == nullptr) {
      return OkStatus();
    }
    return List(*value, fmt::format("{}{}", where, key), least, most, most_items, out);
  }

  Status List(const Json& value, const std::string& where, int64_t least, int64_t most,
              size_t most_items, std::vector<int64_t>& out) const {
    if (!value.is_array() || value.size() > most_items) {
      return Error(where, value.is_array() ? fmt::format("has more than {} items", most_items)
                                           : "must be a list of integers");
    }
    out.reserve(value.size());
    for (const Json& item : value) {
      MSP_ASSIGN_OR_RETURN(const int64_t number, Checked(item, where, least, most));
      out.push_back(number);
    }
    return OkStatus();
  }

  Result<int64_t> Checked(const Json& value, const std::string& where, int64_t least,
                          int64_t most) const {
    const Result<int64_t> number = json::IntegerIn(value, least, most);
    return number.ok() ? number : Error(where, number.status().message());
  }

 private:
  const std::string& file_;
};

Result<ParameterRecord> ReadParameter(const Reader& reader, const Json& value,
                                      const std::string& name) {
  const std::string where = "parameters." + name + ".";
  if (!value.is_object()) {
    return reader.Error("parameters." + name, "must be an object");
  }
  ParameterRecord record;
  const std::string& kind = json::TextOf(json::Member(value, "kind"));
  if (kind == "shard") {
    record.kind = ParameterKind::kShard;
  } else if (kind == "partial") {
    record.kind = ParameterKind::kPartial;
  } else if (kind != "replicated") {
    return reader.Error(where + "kind", "must be replicated, shard or partial");
  }
  std::optional<int64_t> dimension;
  std::optional<int64_t> parts;
  std::optional<int64_t> stride;
  MSP_RETURN_IF_ERROR(
      reader.Integer(value, "dim", where, -kMostDimensions, kMostDimensions - 1, dimension));
  MSP_RETURN_IF_ERROR(reader.Integer(value, "parts", where, 1, kMostRanks, parts));
  MSP_RETURN_IF_ERROR(reader.Integer(value, "part", where, 0, kMostRanks, record.part));
  MSP_RETURN_IF_ERROR(
      reader.Integer(value, "stride", where, 1, static_cast<int64_t>(kMostParts), stride));
  MSP_RETURN_IF_ERROR(reader.Integer(value, "padded_to", where, 0, kMostSize, record.padded_to));
  MSP_RETURN_IF_ERROR(
      reader.Integer(value, "padded_from", where, 0, kMostSize, record.padded_from));
  MSP_RETURN_IF_ERROR(reader.Integers(value, "global_shape", where, 0, kMostSize,
                                      static_cast<size_t>(kMostDimensions), record.global_shape));
  MSP_RETURN_IF_ERROR(
      reader.Integers(value, "blocks", where, 0, kMostSize, kMostParts, record.blocks));
  MSP_RETURN_IF_ERROR(
      reader.Integers(value, "part_sizes", where, 0, kMostSize, kMostParts, record.part_sizes));
  record.dimension = dimension.value_or(0);
  record.parts = parts;
  record.stride = stride.value_or(1);
  if (record.part && record.parts && *record.part >= *record.parts) {
    return reader.Error(where + "part",
                        fmt::format("is {} of {} parts", *record.part, *record.parts));
  }
  int64_t elements = 1;
  for (const int64_t size : record.global_shape) {
    if (__builtin_mul_overflow(elements, std::max<int64_t>(size, 1), &elements)) {
      return reader.Error(where + "global_shape", "has more elements than any tensor");
    }
  }
  const auto axes = static_cast<int64_t>(record.global_shape.size());
  if (axes > 0 && record.kind == ParameterKind::kShard) {
    record.dimension += record.dimension < 0 ? axes : 0;
    if (record.dimension < 0 || record.dimension >= axes) {
      return reader.Error(where + "dim", fmt::format("is not one of {} dimensions", axes));
    }
  }
  return record;
}

Status ReadGroups(const Reader& reader, const Json& groups, int64_t world, RankLayout& layout) {
  if (!groups.is_object()) {
    return reader.Error("groups", "must be an object");
  }
  // Sizes in the order in which ranks are counted.
  std::array<int64_t, kGroupCount> sizes{};
  bool any_size = false;
  for (size_t i = 0; i < kGroupCount; ++i) {
    const Json* const value = json::FindGiven(groups, kGroupNames[i]);
    const std::string where = fmt::format("groups.{}", kGroupNames[i]);
    if (value == nullptr) {
      continue;
    }
    if (layout.is_given && value->is_number()) {
      MSP_ASSIGN_OR_RETURN(sizes[i], reader.Checked(*value, where, 1, kMostRanks));
      any_size = true;
      continue;
    }
    const Json* own = value;
    if (layout.is_given && value->is_array() && !value->empty() && value->front().is_array()) {
      own = nullptr;
      for (const Json& group : *value) {
        const bool has_rank = std::any_of(group.begin(), group.end(), [&](const Json& rank) {
          return rank.is_number_integer() && rank == layout.rank.value_or(-1);
        });
        own = has_rank ? &group : own;
      }
      if (own == nullptr) {
        continue;
      }
    }
    std::vector<int64_t>& ranks = layout.groups[i];
    MSP_RETURN_IF_ERROR(reader.List(*own, where, 0, kMostRanks, kMostRanks, ranks));
    std::vector<int64_t> sorted = ranks;
    std::sort(sorted.begin(), sorted.end());
    if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
      return reader.Error(where, "names a rank twice");
    }
    if (layout.rank && !ranks.empty() &&
        !std::binary_search(sorted.begin(), sorted.end(), *layout.rank)) {
      if (layout.is_given) {
        ranks.clear();  // of other ranks
        continue;
      }
      return reader.Error(where, fmt::format("lacks rank {}, whose group it is", *layout.rank));
    }
  }
  if (!any_size || !layout.rank) {
    return OkStatus();
  }
  constexpr Group kOrder[] = {Group::kTensor, Group::kContext, Group::kData, Group::kFullySharded,
                              Group::kPipeline};
  int64_t stride = 1;
  for (const Group group : kOrder) {
    const auto place = static_cast<size_t>(group);
    const int64_t size = std::max<int64_t>(sizes[place], 1);
    const int64_t first = *layout.rank - *layout.rank / stride % size * stride;
    for (int64_t i = 0; sizes[place] > 0 && i < size; ++i) {
      layout.groups[place].push_back(first + i * stride);
    }
    if (__builtin_mul_overflow(stride, size, &stride) || stride > kMostRanks) {
      return reader.Error("groups", "has more ranks than any run");
    }
  }
  if (world > 0 && stride != world) {
    return reader.Error("groups",
                        fmt::format("multiply to {} ranks; the dump has {}", stride, world));
  }
  return OkStatus();
}

Status ReadNames(const Reader& reader, const Json& root, RankLayout& layout) {
  if (const Json* const layers = json::FindGiven(root, "layers")) {
    if (!layers->is_object()) {
      return reader.Error("layers", "must be an object");
    }
    for (const auto& [local, global] : layers->items()) {
      if (!global.is_string()) {
        return reader.Error("layers." + local, "must be text");
      }
      layout.layers.emplace_back(local, json::TextOf(global));
    }
    std::sort(layout.layers.begin(), layout.layers.end(), [](const auto& a, const auto& b) {
      return a.first.size() != b.first.size() ? a.first.size() > b.first.size() : a.first < b.first;
    });
  }
  if (const Json* const experts = json::FindGiven(root, "experts")) {
    if (!experts->is_object()) {
      return reader.Error("experts", "must be an object");
    }
    for (const auto& [path, number] : experts->items()) {
      MSP_ASSIGN_OR_RETURN(layout.experts[path],
                           reader.Checked(number, "experts." + path, 0, kMostRanks));
    }
  }
  return OkStatus();
}

Status ReadSequence(const Reader& reader, const Json& root, RankLayout& layout) {
  const Json* const sequence = json::FindGiven(root, "sequence");
  if (sequence == nullptr) {
    return OkStatus();
  }
  if (!sequence->is_object()) {
    return reader.Error("sequence", "must be an object");
  }
  SequencePart part;
  std::optional<int64_t> number;
  std::optional<int64_t> parts;
  MSP_RETURN_IF_ERROR(reader.Integer(*sequence, "dim", "sequence.", -kMostDimensions,
                                     kMostDimensions - 1, part.dimension));
  MSP_RETURN_IF_ERROR(reader.Integer(*sequence, "part", "sequence.", 0, kMostRanks, number));
  MSP_RETURN_IF_ERROR(reader.Integer(*sequence, "parts", "sequence.", 1, kMostRanks, parts));
  part.part = number.value_or(0);
  part.parts = parts.value_or(1);
  if (part.part >= part.parts) {
    return reader.Error("sequence.part", fmt::format("is {} of {} parts", part.part, part.parts));
  }
  part.is_zigzag = json::TextOf(json::Member(*sequence, "order")) == "zigzag";
  layout.sequence = part;
  return OkStatus();
}

Result<RankLayout> FromJson(const Json& root, const std::string& file_name, bool is_given,
                            std::optional<int64_t> rank, int64_t world) {
  const Reader reader(file_name);
  if (!root.is_object()) {
    return reader.Error("the document", "must be an object");
  }
  RankLayout layout;
  layout.is_given = is_given;
  std::optional<int64_t> version;
  MSP_RETURN_IF_ERROR(reader.Integer(root, "schema_version", "", 1, 1, version));
  MSP_RETURN_IF_ERROR(reader.Integer(root, "rank", "", 0, kMostRanks, layout.rank));
  MSP_RETURN_IF_ERROR(reader.Integer(root, "world_size", "", 1, kMostRanks, layout.world_size));
  MSP_RETURN_IF_ERROR(
      reader.Integer(root, "micro_batches", "", 1, kMostRanks, layout.micro_batches));
  if (rank) {
    layout.rank = rank;
  }
  if (const Json* const groups = json::FindGiven(root, "groups")) {
    MSP_RETURN_IF_ERROR(ReadGroups(reader, *groups, world, layout));
  }
  if (const Json* const parameters = json::FindGiven(root, "parameters")) {
    if (!parameters->is_object()) {
      return reader.Error("parameters", "must be an object");
    }
    layout.parameters.reserve(parameters->size());
    for (const auto& [name, value] : parameters->items()) {
      MSP_ASSIGN_OR_RETURN(ParameterRecord record, ReadParameter(reader, value, name));
      if (is_given && name.find('*') != std::string::npos) {
        layout.patterns.emplace_back(name, std::move(record));
      } else {
        layout.parameters.emplace(name, std::move(record));
      }
    }
  }
  MSP_RETURN_IF_ERROR(ReadNames(reader, root, layout));
  MSP_RETURN_IF_ERROR(ReadSequence(reader, root, layout));
  return layout;
}

// "model.layers.3" for "model.layers.3" and what is below it.
bool IsBelow(std::string_view path, std::string_view prefix) {
  return path.starts_with(prefix) &&
         (path.size() == prefix.size() || prefix.empty() || path[prefix.size()] == '.');
}

// The number behind the last part of `prefix` that is one, replaced.
std::string WithLastNumber(std::string_view prefix, int64_t number) {
  const size_t dot = prefix.rfind('.');
  const std::string_view last = prefix.substr(dot == std::string_view::npos ? 0 : dot + 1);
  const bool is_number = !last.empty() && std::all_of(last.begin(), last.end(),
                                                      [](char c) { return c >= '0' && c <= '9'; });
  return is_number
             ? std::string(prefix.substr(0, prefix.size() - last.size())) + std::to_string(number)
             : std::string(prefix);
}

}  // namespace

std::string ParameterRecord::Text() const {
  std::string text = kind == ParameterKind::kShard     ? fmt::format("shard dim {}", dimension)
                     : kind == ParameterKind::kPartial ? "partial"
                                                       : "replicated";
  text += parts && *parts > 1 ? fmt::format(" x{}", *parts) : "";
  text += part && kind == ParameterKind::kShard ? fmt::format(" part {}", *part) : "";
  text += padded_to ? fmt::format(" padded to {}", *padded_to) : "";
  return text;
}

const ParameterRecord* RankLayout::Find(const std::string& path) const {
  const auto found = parameters.find(path);
  if (found != parameters.end()) {
    return &found->second;
  }
  for (const auto& [pattern, record] : patterns) {
    if (base::GlobMatch(pattern, path)) {
      return &record;
    }
  }
  return nullptr;
}

std::string RankLayout::GlobalPath(std::string_view local_path) const {
  std::string path(local_path);
  for (auto expert = experts.rbegin(); expert != experts.rend(); ++expert) {
    if (IsBelow(path, expert->first)) {
      path = WithLastNumber(expert->first, expert->second) + path.substr(expert->first.size());
      break;
    }
  }
  for (const auto& [local, global] : layers) {
    if (IsBelow(path, local)) {
      std::string renamed = global + path.substr(local.size());
      return renamed.starts_with('.') ? renamed.substr(1) : renamed;
    }
  }
  return path;
}

Result<RankLayout> ParseLayout(std::string_view text, const std::string& file_name) {
  Result<Json> root = json::ParseDocument(text);
  if (!root.ok()) {
    return BadFormatError(fmt::format("{}: {}", file_name, root.status().message()));
  }
  return FromJson(*root, file_name, /*is_given=*/false, std::nullopt, 0);
}

Result<std::optional<RankLayout>> ReadLayout(const std::filesystem::path& rank_folder) {
  const std::filesystem::path path = rank_folder / kLayoutFileName;
  if (!base::Exists(path)) {
    return std::optional<RankLayout>();
  }
  MSP_ASSIGN_OR_RETURN(const std::string text, base::ReadTextFile(path, kMostFileBytes));
  MSP_ASSIGN_OR_RETURN(RankLayout layout, ParseLayout(text, path.string()));
  return std::optional(std::move(layout));
}

Result<GivenLayouts> GivenLayouts::Read(const std::filesystem::path& file) {
  MSP_ASSIGN_OR_RETURN(const std::string text, base::ReadTextFile(file, kMostFileBytes));
  return Parse(text, file.string());
}

Result<GivenLayouts> GivenLayouts::Parse(std::string_view text, const std::string& file_name) {
  Result<Json> root = json::ParseDocument(text);
  if (!root.ok()) {
    return BadFormatError(fmt::format("{}: {}", file_name, root.status().message()));
  }
  const Reader reader(file_name);
  if (!root->is_object()) {
    return reader.Error("the document", "must be an object with \"npu\" and \"bench\"");
  }
  GivenLayouts given;
  given.file_name_ = file_name;
  constexpr std::string_view kSides[] = {"npu", "bench"};
  for (const auto& [key, value] : root->items()) {
    if (key != kSides[0] && key != kSides[1] && key != "schema_version") {
      return reader.Error(key, "is none of npu, bench and schema_version");
    }
  }
  for (size_t side = 0; side < 2; ++side) {
    const Json* const value = json::FindGiven(*root, kSides[side]);
    if (value == nullptr) {
      continue;
    }
    if (!value->is_object()) {
      return reader.Error(kSides[side], "must be an object");
    }
    const Json* const ranks = json::FindGiven(*value, "ranks");
    if (ranks == nullptr) {
      given.sides_[side]["*"] = json::DocumentText(*value, -1, json::Writer::NonFinite::kNull);
      continue;
    }
    if (!ranks->is_object()) {
      return reader.Error(fmt::format("{}.ranks", kSides[side]), "must be an object");
    }
    for (const auto& [rank, layout] : ranks->items()) {
      given.sides_[side][rank] = json::DocumentText(layout, -1, json::Writer::NonFinite::kNull);
    }
  }
  // What is wrong in it is said before anything is compared.
  for (size_t side = 0; side < 2; ++side) {
    MSP_RETURN_IF_ERROR(given.Of(side == 0, 0, 0).status());
  }
  return given;
}

Result<std::optional<RankLayout>> GivenLayouts::Of(bool of_npu, int64_t rank, int64_t world) const {
  const RankTexts& texts = sides_[of_npu ? 0 : 1];
  auto found = texts.find(std::to_string(rank));
  if (found == texts.end()) {
    found = texts.find("*");
  }
  if (found == texts.end()) {
    return std::optional<RankLayout>();
  }
  MSP_ASSIGN_OR_RETURN(const Json root, json::ParseDocument(found->second));
  MSP_ASSIGN_OR_RETURN(RankLayout layout,
                       FromJson(root, file_name_, /*is_given=*/true, rank, world));
  return std::optional(std::move(layout));
}

}  // namespace msprobe::layout
