// layout.json: how a rank's share of a model lies in the whole, as the capture recorded it beside
// dump.json, or as a user gives it (`compare --layout FILE`).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "msprobe/status.h"

#include "src/json/document.h"

namespace msprobe::layout {

inline constexpr const char* kLayoutFileName = "layout.json";

enum class Group : uint8_t { kTensor, kPipeline, kData, kContext, kExpert, kFullySharded };
inline constexpr size_t kGroupCount = 6;
inline constexpr std::array<std::string_view, kGroupCount> kGroupNames = {"tp", "pp", "dp",
                                                                          "cp", "ep", "fsdp"};

enum class ParameterKind : uint8_t { kReplicated, kShard, kPartial };

struct ParameterRecord {
  ParameterKind kind = ParameterKind::kReplicated;
  int64_t dimension = 0;  // of a shard; from the end where negative
  std::optional<int64_t> part;
  std::optional<int64_t> parts;
  std::vector<int64_t> global_shape;   // empty: not recorded
  std::vector<int64_t> blocks;         // sizes of fused parts along the dimension, in the whole
  std::vector<int64_t> part_sizes;     // of uneven parts
  int64_t stride = 1;                  // Megatron's partition_stride: as many fused parts
  std::optional<int64_t> padded_to;    // rows of a vocabulary, padding included
  std::optional<int64_t> padded_from;  // and without it

  bool operator==(const ParameterRecord&) const = default;
  // "shard dim 0 x2 part 1"; what is not recorded is left out.
  std::string Text() const;
};

// The part of every sample that a rank has, of context or sequence parallelism.
struct SequencePart {
  std::optional<int64_t> dimension;
  int64_t part = 0;
  int64_t parts = 1;
  bool is_zigzag = false;  // of 2 n chunks rank i has i and 2 n - 1 - i
};

struct RankLayout {
  std::optional<int64_t> rank;
  std::optional<int64_t> world_size;
  std::array<std::vector<int64_t>, kGroupCount> groups;  // ranks in order; empty: not known
  std::unordered_map<std::string, ParameterRecord> parameters;
  std::vector<std::pair<std::string, ParameterRecord>> patterns;  // of names with a "*"
  std::vector<std::pair<std::string, std::string>> layers;  // local prefix of a path -> global one
  std::map<std::string, int64_t> experts;                   // local module path -> global number
  std::optional<SequencePart> sequence;
  std::optional<int64_t> micro_batches;
  bool is_given = false;  // by the user

  bool HasGroups() const {
    return std::any_of(groups.begin(), groups.end(), [](const auto& g) { return !g.empty(); });
  }
  const std::vector<int64_t>& GroupOf(Group group) const {
    return groups[static_cast<size_t>(group)];
  }
  // Null where nothing is recorded of it.
  const ParameterRecord* Find(const std::string& path) const;
  // The module path that the whole model has for it: the longest prefix of `layers` decides, then
  // the number of an expert.
  std::string GlobalPath(std::string_view local_path) const;
};

// nullopt where the folder has none. Everything in it is checked: ranks, sizes and their product,
// depth and number of values.
Result<std::optional<RankLayout>> ReadLayout(const std::filesystem::path& rank_folder);
Result<RankLayout> ParseLayout(std::string_view text, const std::string& file_name);

// What the user says of both sides, in one file: {"npu": L, "bench": L}, where L is an object as in
// layout.json for all ranks, or {"ranks": {"0": .., "*": ..}}. Beyond layout.json, groups may be
// lists of lists or sizes (ranks are then counted in the order tp, cp, dp, pp), and names of
// parameters may hold "*".
class GivenLayouts {
 public:
  static Result<GivenLayouts> Read(const std::filesystem::path& file);
  static Result<GivenLayouts> Parse(std::string_view text, const std::string& file_name);
  // nullopt where the file says nothing of it. `world`: ranks of the side.
  Result<std::optional<RankLayout>> Of(bool of_npu, int64_t rank, int64_t world) const;

 private:
  using RankTexts = std::map<std::string, std::string>;  // "*" or a number -> JSON of the object
  std::string file_name_;
  std::array<RankTexts, 2> sides_;
};

}  // namespace msprobe::layout
