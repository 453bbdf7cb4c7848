// Where a dump keeps its files: {dump_path}/step{N}/rank{M}/dump.json and its companions. Any level
// may be named by a user.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

namespace msprobe::dump {

inline constexpr const char* kDumpFileName = "dump.json";
inline constexpr const char* kDebugFileName = "debug.json";
inline constexpr const char* kStackFileName = "stack.json";
inline constexpr const char* kConstructFileName = "construct.json";
inline constexpr const char* kManifestFileName = "manifest.json";  // of our own captures
// Only in captures of msprobe: which part of the model the rank holds, and the gradients that an
// optimizer was given, in the form of dump.json.
inline constexpr const char* kLayoutFileName = "layout.json";
inline constexpr const char* kReducedGradientsFileName = "reduced_gradients.json";
inline constexpr const char* kTensorFolderName = "dump_tensor_data";
// Beside it, so that dump_tensor_data holds what dump.json names and nothing else.
inline constexpr const char* kReducedTensorFolderName = "reduced_tensor_data";

// Which of both folders holds the tensor file of this name.
const char* TensorFolderOf(std::string_view data_name);

// One rank of one step: the folder that holds dump.json and/or debug.json.
struct RankFolder {
  std::optional<int64_t> step;  // nullopt when the path given was below the step folder's level and
                                // no parent is step{N}
  std::optional<int64_t> rank;  // nullopt for a folder named "rank" or a bare folder
  // proc{pid}: a process that knew no rank when the folder was made. Looked for only where a step
  // has no rank folder.
  std::optional<int64_t> process;
  std::filesystem::path folder;
  bool has_dump = false;
  bool has_debug = false;
};

struct DumpLayout {
  std::filesystem::path root;
  bool is_single_file = false;    // the user named a dump.json or debug.json
  std::string single_file_name;   // its base name then
  std::vector<RankFolder> ranks;  // by step, then rank number; unnumbered first
};

// Accepts a dump.json / debug.json (or a file with another name ending in .json, taken for a
// dump.json), a rank folder, a step folder or a whole dump folder. Symbolic links are followed.
// kNotFound with what was expected and what is there instead when nothing of the kind is found;
// folders with other names are ignored, and so are rank folders without such a file.
Result<DumpLayout> FindDump(const std::filesystem::path& path);

// Step, rank and process as the folder's name and its parent's tell them; nothing is looked at.
RankFolder NumberByNames(const std::filesystem::path& folder);

// Files of `folder` and of the step and rank folders below it that are wanted, in order of their
// names; none where there is no such folder. An error where one of them cannot be listed.
Result<std::vector<std::filesystem::path>> FilesOfSteps(
    const std::filesystem::path& folder,
    const std::function<bool(const std::filesystem::path&)>& is_wanted);

// Parses a folder's name: "rank3" -> valid, 3; "rank" -> valid without a number; "ranking",
// "step" -> not valid.
struct NumberedName {
  bool valid = false;
  std::optional<int64_t> number;
};
NumberedName ParseRankName(std::string_view name);
NumberedName ParseStepName(std::string_view name);
NumberedName ParseProcessName(std::string_view name);  // "proc123"

}  // namespace msprobe::dump
