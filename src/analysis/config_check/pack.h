// One pack of `config_check`: a zip of JSON and text members. Everything is looked at inside of the
// archive; nothing is written before Extract.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/base/files.h"
#include "src/io/zip.h"
#include "src/json/value_tree.h"

namespace msprobe::analysis::config_check {

// What is checked, in the order of sheets and summary rows.
enum class Part : uint8_t { kEnv, kPip, kDataset, kWeights, kHyperparameters, kRandom };
inline constexpr std::array<Part, 6> kParts = {
    Part::kEnv, Part::kPip, Part::kDataset, Part::kWeights, Part::kHyperparameters, Part::kRandom};
std::string_view PartName(Part part);  // "env", "pip", ...

inline constexpr std::string_view kEnvMember = "env";
inline constexpr std::string_view kPipMember = "pip";
inline constexpr std::string_view kVersionsMember = "versions";
// Of the variables in env that launch scripts set: where each comes from. The Python tool has none.
inline constexpr std::string_view kScriptEnvMember = "script_env";

// True for names that members of a pack have: "env", "dataset/step0/rank0/dataset.json", ...
bool IsPackMember(std::string_view name);

class Pack {
 public:
  // Refuses what is no zip, what is too large, and archives with a member that would leave the
  // folder it is extracted to. `label` is "bench" or "cmp".
  static Result<std::unique_ptr<Pack>> Open(const std::filesystem::path& path,
                                            std::string_view label);

  const std::filesystem::path& path() const { return path_; }
  const std::string& label() const { return label_; }
  bool Has(Part part) const { return has_part_[static_cast<size_t>(part)]; }
  bool HasMember(std::string_view name) const { return members_.count(name) > 0; }
  // Names of the members below a folder ("dataset/"), by bytes.
  std::vector<std::string_view> MembersBelow(std::string_view folder) const;
  uint64_t BytesOf(std::string_view member) const;  // unpacked; 0: no such member
  // Members that no pack has; they are neither read nor extracted.
  size_t foreign_member_count() const { return foreign_member_count_; }

  // Errors name the pack and the member.
  Result<std::string> ReadText(std::string_view member) const;
  Result<json::ValueTree> ReadJson(std::string_view member) const;
  // The same, and the value must be an object.
  Result<json::ValueTree> ReadJsonObject(std::string_view member) const;

  // Writes every member below `folder`, one after another.
  Status Extract(const std::filesystem::path& folder) const;

 private:
  Pack() = default;
  Status TakeMembers();
  Result<io::ZipBytes> Read(std::string_view member) const;

  std::filesystem::path path_;
  std::string label_;
  base::FileBytes file_;
  std::optional<io::ZipArchive> archive_;
  std::map<std::string_view, const io::ZipEntry*> members_;  // the last one of each name
  std::array<bool, kParts.size()> has_part_{};
  size_t foreign_member_count_ = 0;
};

// True when the file is a zip with at least one member of a pack.
bool LooksLikePack(const std::filesystem::path& path);

}  // namespace msprobe::analysis::config_check
