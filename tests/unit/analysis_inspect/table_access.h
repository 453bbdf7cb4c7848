// Reading result tables by column name, and folders for one test.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "src/analysis/inspect/inspect.h"
#include "src/report/table.h"

namespace msprobe::analysis {

inline std::string At(const report::Table& table, size_t row, std::string_view column) {
  for (size_t i = 0; i < table.columns().size(); ++i) {
    if (table.columns()[i] == column) {
      return row < table.row_count() ? report::CellText(table.row(row)[i]) : "no such row";
    }
  }
  return "no such column";
}

// The cell of the row whose first column is `name`.
inline std::string At(const report::Table& table, std::string_view name, std::string_view column) {
  for (size_t row = 0; row < table.row_count(); ++row) {
    if (report::CellText(table.row(row)[0]) == name) {
      return At(table, row, column);
    }
  }
  return "no row " + std::string(name);
}

inline Result<InspectResult> InspectPath(const std::filesystem::path& path,
                                         bool statistics = false) {
  InspectOptions options;
  options.path = path;
  options.statistics = statistics;
  options.threads = 2;
  return Inspect(options);
}

class ScratchFolder {
 public:
  ScratchFolder() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "msprobe_inspect_XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path Write(const std::filesystem::path& name, std::string_view text) const {
    const std::filesystem::path path = path_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace msprobe::analysis
