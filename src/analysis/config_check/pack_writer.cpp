#include "src/analysis/config_check/pack_writer.h"

#include <utility>

#include <fmt/format.h>

#include "src/base/output_files.h"

namespace msprobe::analysis::config_check::internal {

namespace fs = std::filesystem;

Status CheckPackPath(const fs::path& path) {
  if (path.extension() != ".zip") {
    return UsageError(fmt::format("the pack cannot be written to {}: its name must end with .zip",
                                  path.empty() ? "\"\"" : path.string()))
        .WithHint("for example -o config_check_pack.zip");
  }
  if (base::IsFolder(path)) {
    return UsageError(
        fmt::format("the pack cannot be written to {}: it is a directory", path.string()));
  }
  return base::CheckOutputFile(path);
}

PackWriter::PackWriter(base::AtomicFile file)
    : file_(std::make_unique<base::AtomicFile>(std::move(file))), zip_(*file_) {}

Result<PackWriter> PackWriter::Create(const fs::path& path) {
  MSP_RETURN_IF_ERROR(CheckPackPath(path));
  if (path.has_parent_path()) {
    MSP_RETURN_IF_ERROR(base::CreateFolders(path.parent_path()));
  }
  MSP_ASSIGN_OR_RETURN(base::AtomicFile file, base::AtomicFile::Create(path));
  return PackWriter(std::move(file));
}

Status PackWriter::Add(std::string_view member, std::string_view content) {
  return zip_.AddDeflated(member, content);
}

Status PackWriter::Finish() {
  MSP_RETURN_IF_ERROR(zip_.Finish());
  return file_->Commit();
}

}  // namespace msprobe::analysis::config_check::internal
