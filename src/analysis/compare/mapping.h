// The bench row that each NPU row is looked up by: its own name, or a name made from it by a
// mapping file or built-in table.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/compare/options.h"
#include "src/analysis/compare/side.h"
#include "src/report/table.h"

namespace msprobe::analysis::compare {

inline constexpr std::string_view kModulePrefix = "Module.";  // of a module's row names, PyTorch

struct RowMapping {
  // One key per NPU row, kept in `arena`, in the mapping file or in the side itself.
  std::vector<std::string_view> keys;
  // One key per bench row; empty: the rows' own names.
  std::vector<std::string_view> bench_keys;
  // True for data and layer mappings: rows pair by key alone, whatever their shapes and dtypes.
  bool by_key_only = false;
  bool ignore_shapes = false;  // v26: shapes are compared, but decide no pair
  // Layer mapping: NPU row name -> bench row name or "N/A", in NPU order, for the
  // data_mapping_*.yaml by-product.
  std::vector<std::pair<std::string_view, std::string_view>> derived_data_mapping;
  std::vector<std::string> warnings;
  std::unique_ptr<report::TextArena> arena = std::make_unique<report::TextArena>();
};

// Reads whatever the flags name. With several flags the key comes from api, else cell, else data
// mapping, and layer mapping counts as a data mapping, as the reference decides.
Result<RowMapping> BuildRowMapping(const MatchRules& rules, const Side& npu, const Side& bench);

// The same for v26: rows pair by name whatever the shape, backward calls by the order in which they
// ran, PyTorch modules by fragments of their names. kUsage for an API mapping of a dump that is not
// MindSpore's.
Result<RowMapping> BuildRowMappingV26(const MatchRules& rules, bool strict, const Side& npu,
                                      const Side& bench);

// The rules behind both, one function per kind of mapping. Each fills RowMapping::keys
// with one key per NPU row and takes time linear in the rows of both sides.

// Keys of a mapping document; lookup by text that is not owned.
struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
using TextMap = std::unordered_map<std::string, std::string, TextHash, std::equal_to<>>;

// A YAML object of texts: {key: value, ...}. An empty document or no path at all gives an empty
// map.
Result<TextMap> LoadTextMap(const std::filesystem::path& path);

// {NPU row name: bench row name}; rows that are not listed keep their own name.
Status MapRowsByData(const std::filesystem::path& file, const Side& npu, RowMapping& mapping);

// "Cell.<path>.<Class>." becomes "Module.<path>.<Class>."; the file may rename "<path>.<Class>". An
// empty path: no file.
Status MapRowsByCell(const std::filesystem::path& file, const Side& npu, RowMapping& mapping);

// PyTorch modules: the file's entries {fragment of the NPU's module name: fragment of the bench's}.
// A whole name wins; otherwise every fragment found is replaced once, in the file's order. Rows of
// other kinds keep their names. An empty path: no entries.
Status MapRowsByModule(const std::filesystem::path& file, const Side& npu, RowMapping& mapping);

// MindSpore API names become PyTorch ones by the built-in table; the file, if any, re-orders
// arguments as well.
Status MapRowsByApi(const std::filesystem::path& file, const Side& npu, const Side& bench,
                    RowMapping& mapping);

// Calls are paired by where they stand in the model: module path, translated level by level with
// the file, and order. Reads construct.json and stack.json beside both sides' dumps.
// `grouped_frames`: use frames of the newer stack layout, too.
Status MapRowsByLayer(const std::filesystem::path& file, bool grouped_frames, const Side& npu,
                      const Side& bench, RowMapping& mapping);

inline constexpr uint32_t kNoPartnerEntry = UINT32_MAX;
// The bench entry at the same place of the model as each NPU entry, by the same rules.
Result<std::vector<uint32_t>> PairEntriesByLayer(const std::filesystem::path& file,
                                                 bool grouped_frames, const Side& npu,
                                                 const Side& bench,
                                                 std::vector<std::string>& warnings);

}  // namespace msprobe::analysis::compare
