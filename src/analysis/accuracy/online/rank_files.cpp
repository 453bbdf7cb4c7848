#include "src/analysis/accuracy/online/rank_files.h"

#include <cerrno>
#include <cstring>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "src/analysis/accuracy/check/result_files.h"
#include "src/analysis/accuracy/common/columns.h"
#include "src/base/files.h"
#include "src/base/strings.h"
#include "src/base/utf8.h"
#include "src/report/writers.h"

namespace msprobe::analysis::accuracy {
namespace {

constexpr std::array<std::string_view, 4> kStems = {
    "accuracy_checking_details", "accuracy_checking_result", "api_precision_compare_details",
    "api_precision_compare_result"};

template <size_t kCount>
std::string HeaderOf(const std::array<ColumnName, kCount>& columns, bool english) {
  std::vector<std::string_view> cells;
  for (const ColumnName& column : columns) {
    cells.push_back(column.In(english));
  }
  std::string text(base::kByteOrderMark);
  report::AppendCsvRow(cells, text);
  return text;
}
std::string HeaderOf(std::span<const std::string_view> columns) {
  std::string text(base::kByteOrderMark);
  report::AppendCsvRow(columns, text);
  return text;
}

}  // namespace

Result<RankFiles> RankFiles::Create(const std::filesystem::path& folder, const std::string& time,
                                    int64_t rank, bool english) {
  const std::array<std::string, 4> headers = {
      HeaderOf(kDetailColumns, english), HeaderOf(kResultColumns),
      HeaderOf(kPrecisionColumns, english), HeaderOf(kPrecisionResultColumns)};
  RankFiles files;
  for (size_t i = 0; i < kStems.size(); ++i) {
    files.paths_[i] = folder / fmt::format("{}_{}_rank{}.csv", kStems[i], time, rank);
    MSP_RETURN_IF_ERROR(base::WriteFileAtomically(files.paths_[i], headers[i]));
  }
  return files;
}

Status RankFiles::Append(const JudgedCall& judged) {
  const std::array<std::string_view, 4> rows = {judged.details, judged.result,
                                                judged.precision_details, judged.precision_result};
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].empty()) {
      continue;
    }
    const int descriptor = ::open(paths_[i].c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
    if (descriptor < 0) {
      return IoError(fmt::format("cannot open {}: {}", base::Printable(paths_[i].string()),
                                 std::strerror(errno)));
    }
    const Status written = WriteWhole(descriptor, rows[i], paths_[i]);
    ::close(descriptor);
    MSP_RETURN_IF_ERROR(written);
  }
  return {};
}

}  // namespace msprobe::analysis::accuracy
