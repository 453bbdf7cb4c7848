#include "src/analysis/kernel_dump/device_statistics.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "src/base/files.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/report/readers.h"
#include "src/report/writers.h"

namespace msprobe::analysis::kernel_dump {
namespace {

using report::Cell;
using report::Table;

// A column of the device, and what it is called in the merged table.
struct Renamed {
  std::string_view device;
  std::string_view merged;
};
constexpr std::array<Renamed, 6> kTensorColumns = {{{"Input/Output", "Input/Output"},
                                                    {"Index", "Slot"},
                                                    {"Data Size", "Data Size"},
                                                    {"Data Type", "Data Type"},
                                                    {"Format", "Format"},
                                                    {"Shape", "Shape"}}};
constexpr std::array<Renamed, 7> kStatisticColumns = {
    {{"Max Value", "Max Value"},
     {"Min Value", "Min Value"},
     {"Avg Value", "Avg Value"},
     {"l2norm", "L2Norm Value"},
     {"Nan Count", "NaN Count"},
     {"Negative Inf Count", "Negative Inf Count"},
     {"Positive Inf Count", "Positive Inf Count"}}};
constexpr size_t kAbsentColumn = SIZE_MAX;

size_t ColumnOf(const Table& table, std::string_view name) {
  const auto& columns = table.columns();
  const auto found = std::find_if(columns.begin(), columns.end(), [&](const std::string& column) {
    return base::EqualsIgnoringCase(base::Trim(column), name);
  });
  return found == columns.end() ? kAbsentColumn : static_cast<size_t>(found - columns.begin());
}

Result<Table> ReadDeviceTable(const std::filesystem::path& path) {
  MSP_ASSIGN_OR_RETURN(const std::string text, base::ReadTextFile(path, kLargestStatistics));
  // A chunk of a device ends with a zero byte.
  std::string_view rows = text;
  while (!rows.empty() && rows.back() == '\0') {
    rows.remove_suffix(1);
  }
  MSP_ASSIGN_OR_RETURN(Table table, report::ReadCsvText(rows, "statistics"));
  for (const Renamed& column : kTensorColumns) {
    if (ColumnOf(table, column.device) == kAbsentColumn) {
      return BadFormatError(
          fmt::format("no column \"{}\": no statistics of a device", column.device));
    }
  }
  return table;
}

class Merge {
 public:
  explicit Merge(const std::vector<const Table*>& tables) {
    std::vector<std::string> columns = {"Op Type", "Op Name", "Task ID", "Stream ID", "Timestamp"};
    for (const Renamed& column : kTensorColumns) {
      columns.emplace_back(column.merged);
    }
    for (const Renamed& column : kStatisticColumns) {
      if (std::any_of(tables.begin(), tables.end(), [&](const Table* table) {
            return ColumnOf(*table, column.device) != kAbsentColumn;
          })) {
        columns.emplace_back(column.merged);
        statistics_.push_back(column.device);
      }
    }
    merged_ = Table("statistic", std::move(columns));
  }

  void Add(const io::kernel_dump::DumpFileName& name, const Table& table) {
    std::vector<size_t> places;
    for (const Renamed& column : kTensorColumns) {
      places.push_back(ColumnOf(table, column.device));
    }
    for (const std::string_view column : statistics_) {
      places.push_back(ColumnOf(table, column));
    }
    for (size_t i = 0; i < table.row_count(); ++i) {
      const std::span<const Cell> row = table.row(i);
      std::vector<Cell> cells = {merged_.KeepText(name.op_type), merged_.KeepText(name.op_name),
                                 merged_.KeepText(std::to_string(name.task_id)),
                                 merged_.KeepText(std::to_string(name.stream_id.value_or(0))),
                                 merged_.KeepText(std::to_string(name.timestamp))};
      for (const size_t place : places) {
        cells.push_back(place < row.size() ? merged_.KeepText(report::CellText(row[place]))
                                           : Cell::Text("NA"));
      }
      merged_.AddRow(cells);
    }
  }

  const Table& table() const { return merged_; }

 private:
  std::vector<std::string_view> statistics_;  // of the device, that any table has
  Table merged_;
};

}  // namespace

Status MergeDeviceStatistics(const std::filesystem::path& output,
                             const std::vector<DumpPath>& tables, Findings& findings) {
  std::map<std::string, std::vector<std::pair<const DumpPath*, Table>>> by_folder;
  for (const DumpPath& path : tables) {
    FileResult& result = findings.files.emplace_back();
    result.path = path.path;
    result.op_type = path.parsed->op_type;
    result.op_name = path.parsed->op_name;
    Result<Table> table = ReadDeviceTable(path.path);
    if (!table.ok()) {
      result.status = std::move(table).status();
      continue;
    }
    Converted part;
    part.what = "statistics";
    part.data_type = "table";
    part.shape = {static_cast<int64_t>(table->row_count())};
    part.path = base::Below(output, path.folder) / kMergedStatistics;
    result.parts.push_back(std::move(part));
    by_folder[path.folder].emplace_back(&path, *std::move(table));
  }
  for (auto& [folder, read] : by_folder) {
    std::stable_sort(read.begin(), read.end(), [](const auto& a, const auto& b) {
      return a.first->parsed->timestamp < b.first->parsed->timestamp;
    });
    std::vector<const Table*> all;
    for (const auto& [path, table] : read) {
      all.push_back(&table);
    }
    Merge merge(all);
    for (const auto& [path, table] : read) {
      merge.Add(*path->parsed, table);
    }
    const std::filesystem::path place = base::Below(output, folder);
    MSP_RETURN_IF_ERROR(base::CreateFolders(place));
    const std::filesystem::path file = place / kMergedStatistics;
    MSP_RETURN_IF_ERROR(report::WriteCsv(file, merge.table()));
    findings.written_beside.push_back(file);
  }
  return {};
}

}  // namespace msprobe::analysis::kernel_dump
