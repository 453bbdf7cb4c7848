#include "src/monitor/writer.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/csv.h"
#include "src/base/log.h"
#include "src/base/numbers.h"
#include "src/monitor/event_file.h"
#include "src/monitor/trend_store.h"

namespace msprobe::monitor {
namespace {

enum class ColumnKind { kText, kAsItIs, kWhole, kRounded };

// One value that is text makes the column text; a bool keeps all numbers as they are; else all are
// whole, or all are rounded.
ColumnKind KindOf(const Batch& batch, size_t column) {
  bool has_bool = false;
  bool all_whole = true;
  for (const Row& row : batch.rows) {
    const Value& value = row.values[column];
    if (std::holds_alternative<std::string>(value)) {
      return ColumnKind::kText;
    }
    has_bool = has_bool || std::holds_alternative<bool>(value);
    all_whole = all_whole && std::holds_alternative<int64_t>(value);
  }
  return has_bool ? ColumnKind::kAsItIs : all_whole ? ColumnKind::kWhole : ColumnKind::kRounded;
}

void AppendWhole(int64_t value, std::string& out) {
  const fmt::format_int text(value);
  out.append(text.data(), text.size());
}

void AppendFloat(double value, std::string& out) {
  if (std::isnan(value)) {
    out += "nan";
  } else {
    base::AppendPythonFloatRepr(value, out);
  }
}

void AppendAsItIs(const Value& value, std::string& out) {
  if (const auto* truth = std::get_if<bool>(&value)) {
    out += *truth ? "True" : "False";
  } else if (const auto* whole = std::get_if<int64_t>(&value)) {
    AppendWhole(*whole, out);
  } else if (const auto* number = std::get_if<double>(&value)) {
    AppendFloat(*number, out);
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    base::AppendCsvText(*text, out);
  } else {
    out += "nan";
  }
}

// Rounds numbers and spells them.
class Decimals {
 public:
  explicit Decimals(const CsvRules& rules)
      : digits_(static_cast<size_t>(rules.digits)),
        scale_(std::pow(10.0, rules.digits)),
        smallest_(rules.digits <= kMostExactDigits
                      ? std::pow(10.0, std::max(rules.digits - kMostZeros, 0))
                      : std::numeric_limits<double>::infinity()),
        significant_(rules.significant),
        too_few_(rules.significant > 0 ? std::pow(10.0, rules.significant - 1 - rules.digits) : 0),
        compat_(rules.compat) {}

  void Append(const Value& value, std::string& out) const {
    if (const auto* number = std::get_if<double>(&value)) {
      AppendNumber(*number, out);
    } else if (const auto* whole = std::get_if<int64_t>(&value)) {
      AppendNumber(static_cast<double>(*whole), out);
    } else {
      out += "nan";
    }
  }

 private:
  // Two numbers of so many digits are never the same double, so that those of the rounded number
  // are the shortest that read back the same.
  static constexpr int32_t kMostExactDigits = 15;
  static constexpr double kTooLarge = 1e15;
  // Behind the point; a number with more is spelled with an exponent.
  static constexpr int32_t kMostZeros = 4;

  void AppendNumber(double value, std::string& out) const {
    if (std::fabs(value) < too_few_ && value != 0) {
      AppendSignificant(value, out);
      return;
    }
    const double scaled = std::isfinite(value) ? std::nearbyint(value * scale_) : value;
    const double size = std::fabs(scaled);
    if (size >= smallest_ && size < kTooLarge) {
      out += scaled < 0 ? "-" : "";
      AppendScaled(static_cast<int64_t>(size), out);
    } else if (scaled == 0) {
      out += std::signbit(scaled) ? "-0.0" : "0.0";
    } else {
      const bool is_kept = !std::isfinite(scaled) && !compat_;
      AppendFloat(is_kept ? value : scaled / scale_, out);
    }
  }

  void AppendSignificant(double value, std::string& out) const {
    std::array<char, 32> text{};
    const auto end = fmt::format_to_n(text.data(), text.size(), "{:.{}e}", value, significant_ - 1);
    double rounded = value;
    std::from_chars(text.data(), end.out, rounded);
    base::AppendPythonFloatRepr(rounded, out);
  }

  // A number of units of 10^-digits_.
  void AppendScaled(int64_t units, std::string& out) const {
    const fmt::format_int text(units);
    std::string_view fraction(text.data(), text.size());
    if (fraction.size() > digits_) {
      out += fraction.substr(0, fraction.size() - digits_);
      fraction.remove_prefix(fraction.size() - digits_);
    } else {
      out += '0';
    }
    out += '.';
    out.append(digits_ - fraction.size(), '0');
    // Nothing but zeros: one of them stays.
    fraction = fraction.substr(0, fraction.find_last_not_of('0') + 1);
    out += fraction.empty() ? "0" : fraction;
  }

  size_t digits_;
  double scale_;
  double smallest_;  // in units, of what is spelled without an exponent
  int32_t significant_;
  double too_few_;  // below, digits_ decimals are fewer than significant_ digits
  bool compat_;
};

}  // namespace

void AppendCsvHeader(const Batch& batch, std::string& out) {
  out += "vpp_stage,name,step";
  out += batch.has_micro_step ? ",micro_step" : "";
  for (const Statistic op : batch.columns) {
    out += ',';
    out += StatisticName(op);
  }
  out += '\n';
}

void AppendCsvRows(const Batch& batch, const CsvRules& rules, std::string& out) {
  const size_t columns = batch.columns.size();
  const Decimals decimals(rules);
  std::vector<ColumnKind> kinds(columns);
  for (size_t i = 0; i < columns; ++i) {
    kinds[i] = KindOf(batch, i);
  }
  for (const Row& row : batch.rows) {
    AppendWhole(row.stage, out);
    out += ',';
    base::AppendCsvText(row.name, out);
    out += ',';
    AppendWhole(batch.step, out);
    if (batch.has_micro_step) {
      out += ',';
      AppendWhole(row.micro_step.value_or(0), out);
    }
    for (size_t i = 0; i < columns; ++i) {
      out += ',';
      if (kinds[i] == ColumnKind::kRounded) {
        decimals.Append(row.values[i], out);
      } else {
        AppendAsItIs(row.values[i], out);
      }
    }
    out += '\n';
  }
}

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

// Whether a file of `size` bytes begins with `header`. An unfinished last line is cut off and
// subtracted from `size`.
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

namespace {

class StoreWriter final : public Writer {
 public:
  StoreWriter(std::unique_ptr<TrendStore> store, int32_t rank)
      : store_(std::move(store)), rank_(rank) {}

  Status Write(const Batch& batch) override;
  Status EndStep(int64_t /*step*/) override {
    if (!is_open_) {
      return {};
    }
    is_open_ = false;
    return store_->Commit();
  }
  Status Close() override {
    is_open_ = false;
    return store_->Close();
  }

 private:
  std::unique_ptr<TrendStore> store_;
  const int64_t rank_;
  bool is_open_ = false;  // a transaction
};

Status StoreWriter::Write(const Batch& batch) {
  if (!TrendStore::IsMetric(batch.table)) {
    return {};
  }
  if (!is_open_) {
    MSP_RETURN_IF_ERROR(store_->Begin());
    is_open_ = true;
  }
  std::vector<std::string> statistics;
  std::vector<size_t> columns;
  for (size_t i = 0; i < batch.columns.size(); ++i) {
    if (TrendStore::IsStatistic(StatisticName(batch.columns[i]))) {
      statistics.emplace_back(StatisticName(batch.columns[i]));
      columns.push_back(i);
    }
  }
  MSP_ASSIGN_OR_RETURN(const int64_t metric, store_->Metric(batch.table, statistics));
  std::vector<double> values(columns.size());
  for (const Row& row : batch.rows) {
    MSP_ASSIGN_OR_RETURN(const int64_t target,
                         store_->Target(row.name, row.stage, row.micro_step.value_or(0), metric));
    for (size_t i = 0; i < columns.size(); ++i) {
      values[i] = columns[i] < row.values.size()
                      ? NumberOf(row.values[columns[i]]).value_or(std::nan(""))
                      : std::nan("");
    }
    MSP_RETURN_IF_ERROR(store_->Insert(rank_, batch.step, target, metric, values));
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Writer>> MakeStoreWriter(const std::filesystem::path& folder, int32_t rank) {
  MSP_ASSIGN_OR_RETURN(const SqliteApi* api, FindSqlite());
  MSP_ASSIGN_OR_RETURN(
      std::unique_ptr<TrendStore> store,
      TrendStore::Open(*api, folder / "monitor_data.trend.db", TrendStore::Use::kLive));
  return std::unique_ptr<Writer>(std::make_unique<StoreWriter>(std::move(store), rank));
}

namespace {

constexpr size_t kFlushBytes = size_t{256} * 1024;

class TensorBoardWriter final : public Writer {
 public:
  explicit TensorBoardWriter(std::filesystem::path folder) : folder_(std::move(folder)) {}
  ~TensorBoardWriter() override {
    if (descriptor_ >= 0) {
      ::close(descriptor_);
    }
  }

  Status Write(const Batch& batch) override;
  Status EndStep(int64_t /*step*/) override { return Flush(); }
  Status Close() override;

 private:
  Status Open();
  Status Flush();
  Status SystemError(std::string_view what) const {
    return IoError(fmt::format("cannot {} {}: {}", what, path_.string(),
                               std::generic_category().message(errno)));
  }

  const std::filesystem::path folder_;
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::string records_;  // whole ones that are not in the file yet
  std::string tag_;
};

// A viewer takes a file for a run as soon as it is there, so none is made before there is a number.
Status TensorBoardWriter::Open() {
  const double now_s = WallTimeNow();
  path_ = folder_ / EventFileName(now_s);
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0640);
  if (descriptor_ < 0) {
    return SystemError("make");
  }
  AppendFileVersion(now_s, records_);
  return {};
}

Status TensorBoardWriter::Write(const Batch& batch) {
  const double now_s = WallTimeNow();
  for (const Row& row : batch.rows) {
    for (size_t i = 0; i < batch.columns.size() && i < row.values.size(); ++i) {
      const std::optional<double> number = NumberOf(row.values[i]);
      if (!number.has_value()) {
        continue;
      }
      if (descriptor_ < 0) {
        MSP_RETURN_IF_ERROR(Open());
      }
      tag_ = row.tag;
      tag_ += '_';
      tag_ += StatisticName(batch.columns[i]);
      AppendScalar(tag_, batch.step, *number, now_s, records_);
    }
    if (records_.size() >= kFlushBytes) {
      MSP_RETURN_IF_ERROR(Flush());
    }
  }
  return {};
}

Status TensorBoardWriter::Flush() {
  std::string_view rest = records_;
  while (!rest.empty()) {
    const ssize_t written = ::write(descriptor_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      Status status = SystemError("write");
      // Nothing behind half a record can be read: the next number begins a file of its own.
      ::close(descriptor_);
      descriptor_ = -1;
      records_.clear();
      return status;
    }
    rest.remove_prefix(static_cast<size_t>(written));
  }
  records_.clear();
  return {};
}

Status TensorBoardWriter::Close() {
  if (descriptor_ < 0) {
    return {};
  }
  MSP_RETURN_IF_ERROR(Flush());
  const int descriptor = descriptor_;
  descriptor_ = -1;
  return ::close(descriptor) == 0 ? Status() : SystemError("close");
}

}  // namespace

std::unique_ptr<Writer> MakeTensorBoardWriter(std::filesystem::path folder) {
  return std::make_unique<TensorBoardWriter>(std::move(folder));
}

}  // namespace msprobe::monitor
