#include "src/monitor/anomaly_writer.h"

#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/files.h"

namespace msprobe::monitor {
namespace {

constexpr std::string_view kEnd = "\n}";

Status SystemError(std::string_view what, const std::filesystem::path& path) {
  return IoError(
      fmt::format("cannot {} {}: {}", what, path.string(), std::generic_category().message(errno)));
}

}  // namespace

AnomalyFileWriter::~AnomalyFileWriter() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

Status AnomalyFileWriter::Open(const std::filesystem::path& path, bool& replaced) {
  path_ = path;
  MSP_RETURN_IF_ERROR(base::CreateFolders(path.parent_path()));
  // Its name is known beforehand: where everybody may write, somebody may have put a link or a FIFO
  // there.
  descriptor_ =
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0640);
  if (descriptor_ < 0) {
    return SystemError("open", path);
  }
  if (!IsOwnFile()) {
    ::close(descriptor_);
    descriptor_ = -1;
    return IoError(fmt::format("{} is no regular file of this user", path.string()))
        .WithHint("give MONITOR_OUTPUT_DIR a folder that only you can write to");
  }
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    ::close(descriptor_);
    descriptor_ = -1;
    return IoError(fmt::format("{} is written by another process", path.string()))
        .WithHint(
            "give each training its own MONITOR_OUTPUT_DIR; alerts of this one are only logged");
  }
  struct stat state {};
  replaced = ::fstat(descriptor_, &state) == 0 && state.st_size > 0;
  if (::ftruncate(descriptor_, 0) != 0) {
    return SystemError("empty", path);
  }
  return WriteAt(0, "{}");
}

bool AnomalyFileWriter::IsOwnFile() const {
  struct stat file {};
  struct stat folder {};
  return ::fstat(descriptor_, &file) == 0 && S_ISREG(file.st_mode) && file.st_nlink == 1 &&
         (file.st_uid == ::geteuid() ||
          // Network file systems may give all that this user makes to another one.
          (::stat(path_.parent_path().c_str(), &folder) == 0 && file.st_uid == folder.st_uid));
}

Status AnomalyFileWriter::WriteAt(uint64_t offset, std::string_view text) {
  const uint64_t end = offset + text.size();
  while (!text.empty()) {
    const ssize_t written =
        ::pwrite(descriptor_, text.data(), text.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      return SystemError("write", path_);
    }
    offset += static_cast<uint64_t>(written);
    text.remove_prefix(static_cast<size_t>(written));
  }
  size_bytes_ = end;
  return {};
}

Status AnomalyFileWriter::Append(const std::vector<Anomaly>& anomalies) {
  if (anomalies.empty() || descriptor_ < 0) {
    return {};
  }
  std::string text;
  json::Writer json(text, 1);
  json.BeginObject();
  for (const Anomaly& anomaly : anomalies) {
    WriteAnomaly(anomaly, json);
  }
  json.EndObject();
  if (!has_entries_) {
    has_entries_ = true;
    return WriteAt(0, text);
  }
  text.front() = ',';  // in place of the brace
  return WriteAt(size_bytes_ - kEnd.size(), text);
}

Status AnomalyFileWriter::Close() {
  if (descriptor_ < 0) {
    return {};
  }
  const int descriptor = descriptor_;
  descriptor_ = -1;
  return ::close(descriptor) == 0 ? Status() : SystemError("close", path_);
}

}  // namespace msprobe::monitor
