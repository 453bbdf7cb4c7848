// "<table>_<a>-<b>.csv" with the rows of the steps a to b.
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/log.h"
#include "src/monitor/csv_text.h"
#include "src/monitor/writer.h"

namespace msprobe::monitor {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostWaitingBytes = size_t{64} << 20U;
constexpr size_t kMostOpenFiles = 64;
// Memory of texts that are written, for the files of the next step.
constexpr size_t kMostSpareTexts = 32;
constexpr size_t kMostSpareBytes = size_t{1} << 20U;

Status CannotWrite(const fs::path& path) {
  return IoError(fmt::format("cannot write {}: {}", path.string(), std::strerror(errno)));
}

// A file at its end, and what it has not taken yet: all of it in one call, so that whoever looks
// finds whole lines.
struct File {
  std::vector<Statistic> columns;
  std::string waiting;
  size_t header_bytes = 0;  // at the start of `waiting` until the file is open
  int descriptor = -1;
  bool is_refused = false;  // has other columns
};

// Of a file of `size` bytes: whether it begins with `header`. An unfinished last line is cut off,
// and taken from `size`.
Result<bool> Continue(int descriptor, const fs::path& path, std::string_view header, off_t& size) {
  std::string start(std::min(header.size(), static_cast<size_t>(size)), '\0');
  if (::pread(descriptor, start.data(), start.size(), 0) != static_cast<ssize_t>(start.size())) {
    return CannotWrite(path);
  }
  if (start != header.substr(0, start.size())) {
    return false;
  }
  // Where not even the header was finished, all goes.
  off_t end = start.size() < header.size() ? 0 : size;
  char last = '\0';
  while (end > 0 && ::pread(descriptor, &last, 1, end - 1) == 1 && last != '\n') {
    --end;
  }
  if (end != size && ::ftruncate(descriptor, end) != 0) {
    return CannotWrite(path);
  }
  size = end;
  return true;
}

class CsvWriter : public Writer {
 public:
  CsvWriter(fs::path folder, const CsvRules& rules, int64_t steps_per_file)
      : folder_(std::move(folder)), rules_(rules), steps_per_file_(steps_per_file) {}
  ~CsvWriter() override {
    for (auto& [name, file] : files_) {
      CloseFile(file);
    }
    CloseFolder();
  }

  Status Write(const Batch& batch) override {
    if (batch.rows.empty()) {
      return {};
    }
    const int64_t first = batch.step / steps_per_file_ * steps_per_file_;
    // No step is beyond what 64 bits hold.
    const int64_t last = first + std::min(steps_per_file_ - 1, INT64_MAX - first);
    const std::string name = fmt::format("{}_{}-{}.csv", batch.table, first, last);
    const auto [found, is_new] = files_.try_emplace(name);
    File& file = found->second;
    // A header without rows is of no use: it goes where its rows go.
    const size_t before = file.waiting.size();
    if (is_new) {
      file.columns = batch.columns;
      file.waiting = TakeText();
      AppendCsvHeader(batch, file.waiting);
      file.header_bytes = file.waiting.size();
    } else if (file.columns != batch.columns) {
      return MismatchError(
          fmt::format("{}: the columns of step {} differ from those before: its "
                      "rows are left out",
                      (folder_ / name).string(), batch.step));
    }
    AppendCsvRows(batch, rules_, file.waiting);
    waiting_bytes_ += file.waiting.size() - before;
    if (waiting_bytes_ > kMostWaitingBytes) {
      waiting_bytes_ -= file.waiting.size() - before;
      file.waiting.resize(before);
      if (is_new) {
        files_.erase(found);
      }
      return IoError(fmt::format("{}: rows of step {} are lost, because the disk accepts none",
                                 folder_.string(), batch.step));
    }
    return {};
  }

  Status EndStep(int64_t step) override {
    Status status = FlushAll();
    for (auto file = files_.begin(); file != files_.end();) {
      // A step may be repeated, but no earlier one comes back.
      const bool is_done = file->second.waiting.empty() &&
                           (steps_per_file_ == 1 || step % steps_per_file_ == steps_per_file_ - 1 ||
                            files_.size() > kMostOpenFiles);
      if (is_done) {
        CloseFile(file->second);
        GiveBack(std::move(file->second.waiting));
        file = files_.erase(file);
      } else {
        ++file;
      }
    }
    return status;
  }

  Status Close() override {
    Status status = FlushAll();
    for (auto& [name, file] : files_) {
      CloseFile(file);
    }
    files_.clear();
    return status;
  }

 private:
  Status FlushAll() {
    Status first;
    for (auto& [name, file] : files_) {
      Status status = Flush(name, file);
      first = first.ok() ? std::move(status) : std::move(first);
    }
    return first;
  }

  static void CloseFile(File& file) {
    if (file.descriptor >= 0) {
      ::close(std::exchange(file.descriptor, -1));
    }
  }

  void CloseFolder() {
    if (folder_descriptor_ >= 0) {
      ::close(std::exchange(folder_descriptor_, -1));
    }
  }

  std::string TakeText() {
    std::string text;
    if (!spare_texts_.empty()) {
      text = std::move(spare_texts_.back());
      spare_texts_.pop_back();
    }
    return text;
  }

  void GiveBack(std::string text) {
    if (spare_texts_.size() < kMostSpareTexts && text.capacity() <= kMostSpareBytes) {
      text.clear();
      spare_texts_.push_back(std::move(text));
    }
  }

  // The folder is kept open: most of what a whole path costs is the way to it.
  int OpenInFolder(const std::string& name, int flags) {
    constexpr mode_t kMode = 0640;
    if (folder_descriptor_ >= 0) {
      const int descriptor = ::openat(folder_descriptor_, name.c_str(), flags, kMode);
      if (descriptor >= 0 || errno == EEXIST) {
        return descriptor;
      }
      // It may have been deleted and made anew.
      CloseFolder();
    }
    folder_descriptor_ = ::open(folder_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    return folder_descriptor_ < 0 ? -1 : ::openat(folder_descriptor_, name.c_str(), flags, kMode);
  }

  Status Open(const std::string& name, File& file) {
    constexpr int kFlags = O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW;
    // Nearly every file is new; of such there is nothing to be asked.
    int descriptor = OpenInFolder(name, kFlags | O_EXCL);
    const bool may_hold_rows = descriptor < 0 && errno == EEXIST;
    if (may_hold_rows) {
      descriptor = OpenInFolder(name, kFlags);
    }
    if (descriptor < 0) {
      return CannotWrite(folder_ / name);
    }
    Status status = may_hold_rows ? GoOn(name, descriptor, file) : Status();
    if (!status.ok()) {
      ::close(descriptor);
      return status;
    }
    file.descriptor = descriptor;
    return {};
  }

  // Behind the rows that the file holds already.
  Status GoOn(const std::string& name, int descriptor, File& file) {
    const fs::path path = folder_ / name;
    struct stat found {};
    if (::fstat(descriptor, &found) != 0) {
      return CannotWrite(path);
    }
    const std::string_view header = std::string_view(file.waiting).substr(0, file.header_bytes);
    MSP_ASSIGN_OR_RETURN(const bool is_ours, Continue(descriptor, path, header, found.st_size));
    if (!is_ours) {
      file.is_refused = true;
      return MismatchError(
                 fmt::format("{} has other columns: its rows are left out", path.string()))
          .WithHint("append_output needs the ops of the earlier run");
    }
    if (found.st_size > 0) {
      file.waiting.erase(0, file.header_bytes);
      waiting_bytes_ -= file.header_bytes;
    }
    return {};
  }

  Status Flush(const std::string& name, File& file) {
    if (file.waiting.empty()) {
      return {};
    }
    Status status = file.descriptor < 0 && !file.is_refused ? Open(name, file) : Status();
    if (file.is_refused) {
      waiting_bytes_ -= file.waiting.size();
      file.waiting.clear();
      return status;
    }
    size_t done = 0;
    while (status.ok() && done < file.waiting.size()) {
      const ssize_t count =
          ::write(file.descriptor, file.waiting.data() + done, file.waiting.size() - done);
      if (count >= 0) {
        done += static_cast<size_t>(count);
      } else if (errno != EINTR) {
        status = CannotWrite(folder_ / name);
      }
    }
    waiting_bytes_ -= done;
    file.waiting.erase(0, done);
    return status;
  }

  const fs::path folder_;
  const CsvRules rules_;
  const int64_t steps_per_file_;
  std::map<std::string, File, std::less<>> files_;
  std::vector<std::string> spare_texts_;
  size_t waiting_bytes_ = 0;
  int folder_descriptor_ = -1;
};

}  // namespace

std::unique_ptr<Writer> MakeCsvWriter(fs::path folder, const CsvRules& rules,
                                      int64_t steps_per_file) {
  return std::make_unique<CsvWriter>(std::move(folder), rules, steps_per_file);
}

}  // namespace msprobe::monitor
