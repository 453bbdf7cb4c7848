// The rules behind BuildRowMapping, one function per kind of mapping. Each fills RowMapping::keys
// with one key per NPU row and takes time linear in the rows of both sides.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>

#include "msprobe/status.h"

#include "src/analysis/compare/mapping.h"

namespace msprobe::analysis::compare {

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

// MindSpore API names become PyTorch ones by the built-in table; the file, if any, re-orders
// arguments as well.
Status MapRowsByApi(const std::filesystem::path& file, const Side& npu, const Side& bench,
                    RowMapping& mapping);

// Calls are paired by where they stand in the model: module path, translated level by level with
// the file, and order. Reads construct.json and stack.json beside both sides' dumps.
// `grouped_frames`: use frames of the newer stack layout, too.
Status MapRowsByLayer(const std::filesystem::path& file, bool grouped_frames, const Side& npu,
                      const Side& bench, RowMapping& mapping);

}  // namespace msprobe::analysis::compare
