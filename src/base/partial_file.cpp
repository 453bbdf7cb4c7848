#include "src/base/partial_file.h"

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "src/base/files.h"
#include "src/base/interrupt.h"
#include "src/base/output_rule.h"
#include "src/base/unfinished.h"

namespace msprobe::base {

PartialFile::PartialFile(std::filesystem::path path) : path_(std::move(path)) {
  std::error_code error;
  std::filesystem::remove(path_, error);
  slot_ = RemoveOnInterrupt(path_.string());
}

PartialFile::~PartialFile() {
  std::error_code error;
  std::filesystem::remove(path_, error);
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
  ForgetOnInterrupt(slot_);
}

Status PartialFile::Create() {
  RemoveAbandoned(path_.has_parent_path() ? path_.parent_path() : std::filesystem::path("."));
  descriptor_ = MakeUnfinished([this] {
    return ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0640);
  });
  if (descriptor_ < 0) {
    return IoError(fmt::format("cannot create {}: {}", path_.string(), std::strerror(errno)))
        .WithHint("check the space in the folder and its permissions");
  }
  return {};
}

Status PartialFile::RenameTo(const std::filesystem::path& target) {
  return RenameIntoPlace(path_, target, ExistingFiles());
}

}  // namespace msprobe::base
