// "<table>_<a>-<b>.csv" with the rows of the steps a to b.
#include <cerrno>
#include <cstring>
#include <map>
#include <set>
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

Status CannotWrite(const fs::path& path) {
  return IoError(fmt::format("cannot write {}: {}", path.string(), std::strerror(errno)));
}

// A file at its end, and what it has not taken yet.
struct File {
  fs::path path;
  std::string header;
  std::vector<Op> columns;
  std::string waiting;
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
  }

  Status Write(const Batch& batch) override {
    if (batch.rows.empty()) {
      return {};
    }
    const int64_t first = batch.step / steps_per_file_ * steps_per_file_;
    const std::string name =
        fmt::format("{}_{}-{}.csv", batch.table, first, first + steps_per_file_ - 1);
    File& file = files_[name];
    if (file.header.empty()) {
      AppendCsvHeader(batch, file.header);
      file.columns = batch.columns;
    } else if (file.columns != batch.columns) {
      return MismatchError(
          fmt::format("{}: the columns of step {} differ from those before: its "
                      "rows are left out",
                      (folder_ / name).string(), batch.step));
    }
    const size_t before = file.waiting.size();
    AppendCsvRows(batch, rules_, file.waiting);
    waiting_bytes_ += file.waiting.size() - before;
    if (waiting_bytes_ > kMostWaitingBytes) {
      waiting_bytes_ -= file.waiting.size() - before;
      file.waiting.resize(before);
      return IoError(fmt::format("{}: rows of step {} are lost, since the disk takes none",
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

  Status Open(const std::string& name, File& file) {
    file.path = folder_ / name;
    const bool replaces = rules_.replaces_files && opened_.insert(name).second;
    const int flags = O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW;
    const int descriptor = ::open(file.path.c_str(), replaces ? flags | O_TRUNC : flags, 0640);
    if (descriptor < 0) {
      return CannotWrite(file.path);
    }
    struct stat found {};
    Result<bool> continued = true;
    if (::fstat(descriptor, &found) != 0) {
      continued = CannotWrite(file.path);
    } else if (found.st_size > 0) {
      continued = Continue(descriptor, file.path, file.header, found.st_size);
    }
    if (!continued.ok() || !*continued) {
      ::close(descriptor);
      if (!continued.ok()) {
        return std::move(continued).status();
      }
      file.is_refused = true;
      return MismatchError(
                 fmt::format("{} has other columns: its rows are left out", file.path.string()))
          .WithHint("append_output needs the ops of the earlier run");
    }
    if (found.st_size == 0) {
      file.waiting.insert(0, file.header);
      waiting_bytes_ += file.header.size();
    }
    file.descriptor = descriptor;
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
        status = CannotWrite(file.path);
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
  std::set<std::string, std::less<>> opened_;  // with replaces_files
  size_t waiting_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Writer> MakeCsvWriter(fs::path folder, const CsvRules& rules,
                                      int64_t steps_per_file) {
  return std::make_unique<CsvWriter>(std::move(folder), rules, steps_per_file);
}

}  // namespace msprobe::monitor
