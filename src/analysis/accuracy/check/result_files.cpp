#include "src/analysis/accuracy/check/result_files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "src/analysis/accuracy/common/outcome.h"
#include "src/base/csv.h"
#include "src/base/files.h"
#include "src/base/strings.h"
#include "src/base/utf8.h"
#include "src/report/writers.h"

namespace msprobe::analysis::accuracy {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kResultStem = "accuracy_checking_result_";
constexpr std::string_view kDetailsStem = "accuracy_checking_details_";
constexpr uint64_t kMostResultBytes = uint64_t{4} << 30U;
constexpr size_t kTimeDigits = 14;

// accuracy_checking_result_<14 digits>.csv, possibly with _<n> behind the digits.
bool HasResultName(const std::string& name) {
  if (!name.starts_with(kResultStem) || !name.ends_with(".csv")) {
    return false;
  }
  const std::string_view time = std::string_view(name).substr(
      kResultStem.size(), name.size() - kResultStem.size() - std::string_view(".csv").size());
  const auto digits = [](std::string_view text) {
    return !text.empty() && std::all_of(text.begin(), text.end(), base::IsDigit);
  };
  return time.size() >= kTimeDigits && digits(time.substr(0, kTimeDigits)) &&
         (time.size() == kTimeDigits ||
          (time[kTimeDigits] == '_' && digits(time.substr(kTimeDigits + 1))));
}

// The end of the last row that `wanted` wants, or of the header.
size_t EndOfLastRow(std::string_view text, const auto& wanted) {
  base::CsvTokenizer rows(text);
  size_t end = 0;
  for (bool is_header = true; rows.Next() == base::CsvTokenizer::Row::kFields; is_header = false) {
    if (is_header || wanted(rows.fields())) {
      end = static_cast<size_t>(rows.row_text().data() - text.data()) + rows.row_text().size();
    }
  }
  const size_t line_end = text.find('\n', end);
  return line_end == std::string_view::npos ? text.size() : line_end + 1;
}

Result<base::Descriptor> OpenToAppend(const fs::path& path) {
  base::Descriptor file(::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW));
  if (!file.is_open()) {
    return IoError(
        fmt::format("cannot open {}: {}", base::Printable(path.string()), std::strerror(errno)));
  }
  return file;
}

}  // namespace

std::string CsvRow(std::span<const std::string> cells) {
  std::string text;
  const std::vector<std::string_view> views(cells.begin(), cells.end());
  report::AppendCsvRow(views, text);
  return text;
}

Status AppendToFile(const fs::path& path, std::string_view text) {
  MSP_ASSIGN_OR_RETURN(const base::Descriptor file, OpenToAppend(path));
  while (!text.empty()) {
    const ssize_t count = ::write(file.get(), text.data(), text.size());
    if (count < 0 && errno != EINTR) {
      return IoError(
          fmt::format("cannot write {}: {}", base::Printable(path.string()), std::strerror(errno)));
    }
    text.remove_prefix(count > 0 ? static_cast<size_t>(count) : 0);
  }
  return {};
}

size_t WholeRows(std::string_view text) {
  // Rows end with a line end outside of quotes.
  size_t whole = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    quoted = quoted != (text[i] == '"');
    if (text[i] == '\n' && !quoted) {
      whole = i + 1;
    }
  }
  return whole;
}

Result<ResultFiles> ResultFiles::Create(const fs::path& folder,
                                        std::span<const std::string_view> result_header,
                                        std::span<const std::string_view> details_header) {
  ResultFiles files;
  MSP_ASSIGN_OR_RETURN(files.stamp_, base::RunStamp::Take(folder, base::TimestampNow()));
  files.time_ = files.stamp_.text();
  files.result_path_ = folder / fmt::format("{}{}.csv", kResultStem, files.time_);
  files.details_path_ = folder / fmt::format("{}{}.csv", kDetailsStem, files.time_);
  std::string result(base::kByteOrderMark);
  std::string details(base::kByteOrderMark);
  report::AppendCsvRow(result_header, result);
  report::AppendCsvRow(details_header, details);
  MSP_RETURN_IF_ERROR(base::WriteFileAtomically(files.result_path_, result));
  MSP_RETURN_IF_ERROR(base::WriteFileAtomically(files.details_path_, details));
  return files;
}

Result<ResultFiles> ResultFiles::Resume(const fs::path& result_file) {
  ResultFiles files;
  const std::string name = result_file.filename().string();
  if (!HasResultName(name)) {
    return UsageError("When continue run ut, please do not modify the result csv name.")
        .WithHint(fmt::format("-csv_path takes a file named {}<time>.csv", kResultStem));
  }
  files.result_path_ = result_file;
  files.details_path_ =
      result_file.parent_path() / base::ReplaceFirst(name, kResultStem, kDetailsStem);
  files.time_ = name.substr(kResultStem.size(), name.size() - kResultStem.size() - 4);
  MSP_ASSIGN_OR_RETURN(std::string result,
                       base::ReadTextFile(files.result_path_, kMostResultBytes));
  MSP_ASSIGN_OR_RETURN(std::string details,
                       base::ReadTextFile(files.details_path_, kMostResultBytes));
  result.resize(WholeRows(result));
  EndOfLastRow(result, [&](std::span<const std::string_view> cells) {
    files.finished_.emplace(cells[0]);
    return true;
  });
  details.resize(WholeRows(details));
  details.resize(EndOfLastRow(details, [&](std::span<const std::string_view> cells) {
    const std::optional<OutputName> row = ParseOutputName(cells[0]);
    // Rows of names that cannot be taken apart are made with their operator's row at once.
    const std::string_view whole =
        row ? row->whole : cells[0].substr(0, cells[0].find(".forward."));
    return files.finished_.contains(whole);
  }));
  for (const auto& [path, size] : {std::pair{&files.result_path_, result.size()},
                                   std::pair{&files.details_path_, details.size()}}) {
    MSP_ASSIGN_OR_RETURN(const base::Descriptor file, OpenToAppend(*path));
    if (::ftruncate(file.get(), static_cast<off_t>(size)) != 0) {
      return IoError(fmt::format("cannot cut {}: {}", base::Printable(result_file.string()),
                                 std::strerror(errno)));
    }
  }
  return files;
}

Status ResultFiles::Append(const std::vector<std::vector<std::string>>& details,
                           const std::vector<std::string>& result) {
  std::string text;
  for (const std::vector<std::string>& row : details) {
    text += CsvRow(row);
  }
  MSP_RETURN_IF_ERROR(AppendToFile(details_path_, text));
  return AppendToFile(result_path_, CsvRow(result));
}

}  // namespace msprobe::analysis::accuracy
