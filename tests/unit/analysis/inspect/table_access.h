// Reading result tables by column name.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "src/analysis/inspect/inspect.h"
#include "src/report/table.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::analysis::inspect {

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

inline Result<Contents> InspectPath(const std::filesystem::path& path, bool statistics = false) {
  Options options;
  options.path = path;
  options.statistics = statistics;
  options.threads = 2;
  return Run(options);
}

using test_support::TemporaryFolder;

}  // namespace msprobe::analysis::inspect
