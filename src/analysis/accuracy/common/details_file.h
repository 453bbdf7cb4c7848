// An accuracy_checking_details_*.csv, read back.
#pragma once

#include <array>
#include <filesystem>
#include <string_view>

#include "msprobe/status.h"

#include "src/analysis/accuracy/common/columns.h"
#include "src/report/table.h"

namespace msprobe::analysis::accuracy {

class DetailsFile {
 public:
  // Columns are found by their names, in Chinese or English, wherever they stand. An error names
  // those that are missing.
  static Result<DetailsFile> Read(const std::filesystem::path& path);
  // The same for a text in memory.
  static Result<DetailsFile> ReadText(std::string_view text);

  size_t row_count() const { return table_.row_count(); }
  // Texts are borrowed from this object. Columns that the file lacks are blank.
  std::array<std::string_view, detail_column::kCount> row(size_t index) const;

 private:
  static Result<DetailsFile> Make(report::Table table);

  report::Table table_;
  std::array<size_t, detail_column::kCount> places_ = {};
};

}  // namespace msprobe::analysis::accuracy
