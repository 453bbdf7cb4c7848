#include "src/analysis/kernel_dump/index_file.h"

#include <algorithm>
#include <array>
#include <string>

#include "src/base/files.h"
#include "src/report/writers.h"

namespace msprobe::analysis::kernel_dump {

using report::Cell;

Result<std::filesystem::path> WriteIndex(const std::filesystem::path& folder,
                                         const Findings& findings) {
  report::Table table("parse_index", {"Dump File", "Op Type", "Op Name", "Tensor", "Data Type",
                                      "Device Format", "Format", "Shape", "File", "Error"});
  for (const FileResult& file : findings.files) {
    const Cell dump = table.KeepText(file.path.string());
    const Cell type = table.KeepText(file.op_type);
    const Cell name = table.KeepText(file.op_name);
    if (!file.status.ok()) {
      const std::array<Cell, 10> cells = {
          dump,   type,   name,   Cell(), Cell(),
          Cell(), Cell(), Cell(), Cell(), table.KeepText(file.status.message())};
      table.AddRow(cells);
    }
    for (const Converted& part : file.parts) {
      const std::array<Cell, 10> cells = {
          dump,
          type,
          name,
          table.KeepText(part.what),
          table.KeepText(part.data_type),
          table.KeepText(part.device_format),
          table.KeepText(part.format),
          table.KeepText(part.status.ok() ? ShapeText(part.shape) : ""),
          table.KeepText(part.status.ok() ? part.path.lexically_relative(folder).string() : ""),
          table.KeepText(part.status.ok() ? "" : part.status.message())};
      table.AddRow(cells);
    }
  }
  const std::filesystem::path path = folder / "parse_index.csv";
  MSP_RETURN_IF_ERROR(report::WriteCsv(path, table));
  return path;
}

Result<std::filesystem::path> WriteFailedList(const std::filesystem::path& folder,
                                              const Findings& findings) {
  std::string text;
  for (const FileResult& file : findings.files) {
    std::string parts;
    for (const Converted& part : file.parts) {
      if (!part.status.ok()) {
        std::string what = part.what;
        std::replace(what.begin(), what.end(), '.', ':');
        parts += "," + what;
      }
    }
    if (!file.status.ok() || !parts.empty()) {
      text += file.path.string() + parts + "\n";
    }
  }
  std::filesystem::path path = folder / "convert_failed_file_list.txt";
  MSP_RETURN_IF_ERROR(base::WriteFileAtomically(path, text));
  return path;
}

}  // namespace msprobe::analysis::kernel_dump
