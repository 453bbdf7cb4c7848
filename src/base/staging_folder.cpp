#include "src/base/staging_folder.h"

#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/files.h"
#include "src/base/interrupt.h"
#include "src/base/output_rule.h"
#include "src/base/unfinished.h"

namespace msprobe::base {

namespace fs = std::filesystem;

namespace {

// Known not to be there: what cannot be looked at is not ours.
bool IsMissing(const fs::path& path) {
  std::error_code error;
  return fs::symlink_status(path, error).type() == fs::file_type::not_found;
}

}  // namespace

StagingFolder::StagingFolder(const fs::path& output)
    : created_output_(IsMissing(output)),
      output_(output),
      path_(output / fmt::format(".msprobe-staging.{}", ::getpid())),
      cleanup_slot_(RemoveOnInterrupt(path_.string())) {}

StagingFolder::~StagingFolder() {
  // Its files go without a descriptor more, in case that those have run out; folders in it do not.
  DIR* const entries = descriptor_ < 0 ? nullptr : ::fdopendir(descriptor_);
  while (const dirent* const entry = entries == nullptr ? nullptr : ::readdir(entries)) {
    ::unlinkat(descriptor_, entry->d_name, 0);
  }
  std::error_code error;
  if (::rmdir(path_.c_str()) != 0) {
    fs::remove_all(path_, error);
  }
  if (entries != nullptr) {
    ::closedir(entries);  // and with it the lock
  } else if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
  if (created_output_) {
    fs::remove(output_, error);  // only when it is empty
  }
  ForgetOnInterrupt(cleanup_slot_);
}

Status StagingFolder::Create() {
  MSP_RETURN_IF_ERROR(CreateFolders(output_));
  RemoveAbandoned(output_);
  descriptor_ = MakeUnfinished([this] {
    while (::mkdir(path_.c_str(), 0750) == 0) {
      const int made = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
      if (made >= 0 || errno != ENOENT) {
        return made;
      }
      // Taken for a leftover before it could even be opened.
    }
    return -1;
  });
  if (descriptor_ < 0) {
    return IoError(fmt::format("cannot create {}: {}", path_.string(), std::strerror(errno)));
  }
  return {};
}

Status StagingFolder::MoveFiles() {
  MSP_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListFolder(path_));
  for (const std::string& name : names) {
    MSP_RETURN_IF_ERROR(CheckOutputFile(output_ / name));
  }
  for (const std::string& name : names) {
    MSP_RETURN_IF_ERROR(RenameIntoPlace(path_ / name, output_ / name, ExistingFiles()));
  }
  return {};
}

}  // namespace msprobe::base
