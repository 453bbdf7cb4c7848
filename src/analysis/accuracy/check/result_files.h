// The two CSV files of a check. They grow operator by operator, so that a run that is killed can go
// on: everything up to the last operator is whole.
#pragma once

#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/base/output_files.h"

namespace msprobe::analysis::accuracy {

class ResultFiles {
 public:
  // Files of a new run in `folder`, with these headers.
  static Result<ResultFiles> Create(const std::filesystem::path& folder,
                                    std::span<const std::string_view> result_header,
                                    std::span<const std::string_view> details_header);
  // Goes on with the files of an earlier run: `result_file` is accuracy_checking_result_<time>.csv,
  // the details are beside it. A row that a killed run left half-written is cut off.
  static Result<ResultFiles> Resume(const std::filesystem::path& result_file);

  // Operators that have a row.
  const std::set<std::string, std::less<>>& finished() const { return finished_; }
  const std::filesystem::path& result_path() const { return result_path_; }
  const std::filesystem::path& details_path() const { return details_path_; }
  const std::string& time() const { return time_; }

  // All rows of one operator; its details first. `result` has three cells or four.
  Status Append(const std::vector<std::vector<std::string>>& details,
                const std::vector<std::string>& result);

 private:
  ResultFiles() = default;

  base::RunStamp stamp_;
  std::string time_;
  std::filesystem::path result_path_;
  std::filesystem::path details_path_;
  std::set<std::string, std::less<>> finished_;
};

// The cells of a row as a line of CSV.
std::string CsvRow(std::span<const std::string> cells);

// Appends all of `text` to an existing file; links are not followed.
Status AppendToFile(const std::filesystem::path& path, std::string_view text);

// The bytes of `text` up to and with its last whole row.
size_t WholeRows(std::string_view text);

}  // namespace msprobe::analysis::accuracy
