// Inside of the room: a pack, written from front to back and there only when it is complete.
#pragma once

#include <filesystem>
#include <memory>
#include <string_view>

#include "msprobe/status.h"

#include "src/base/files.h"
#include "src/io/zip_writer.h"

namespace msprobe::analysis::config_check::internal {

// Names of members.
inline constexpr std::string_view kEnvironmentMember = "env";
inline constexpr std::string_view kPackagesMember = "pip";
inline constexpr std::string_view kVersionsMember = "versions";  // ours; the Python tool has none
inline constexpr std::string_view kScriptVariablesMember = "script_env";  // ours, too
inline constexpr std::string_view kStaticMember = "hyperparameters/hyperparameters_static.json";
inline constexpr std::string_view kDynamicMember = "hyperparameters/hyperparameters_dynamic.json";

// The checks that need no writing: the name ends with ".zip" and names no folder.
Status CheckPackPath(const std::filesystem::path& path);

class PackWriter {
 public:
  // Creates missing folders. The file appears under `path` with Finish(), in place of an older one.
  static Result<PackWriter> Create(const std::filesystem::path& path);

  Status Add(std::string_view member, std::string_view content);
  Status Finish();

 private:
  explicit PackWriter(base::AtomicFile file);

  std::unique_ptr<base::AtomicFile> file_;  // the zip writer refers to it
  io::ZipWriter zip_;
};

}  // namespace msprobe::analysis::config_check::internal
