// Stacks of both snapshots by their text: what is live in either, and how much more it is.
#include "src/analysis/memory/growth.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "src/base/output_files.h"
#include "src/report/table.h"
#include "src/report/writers.h"

namespace msprobe::analysis::memory {
namespace {

using report::Cell;

std::vector<StackGrowth> Join(const Snapshot* before, const Snapshot& after) {
  std::map<std::string_view, StackGrowth> by_stack;
  const auto row_of = [&](const StackAmount& of) -> StackGrowth& {
    StackGrowth& row = by_stack[of.stack];
    row.stack = of.stack;
    row.code = of.code;
    return row;
  };
  for (size_t i = 0; before != nullptr && i < before->stacks.size(); ++i) {
    row_of(before->stacks[i]).before = before->stacks[i].live;
  }
  for (const StackAmount& of : after.stacks) {
    StackGrowth& row = row_of(of);
    row.after = of.live;
    row.unfreed = of.unfreed;
  }
  std::vector<StackGrowth> rows;
  for (auto& [stack, row] : by_stack) {
    if (row.before.blocks > 0 || row.after.blocks > 0) {
      rows.push_back(std::move(row));
    }
  }
  std::stable_sort(rows.begin(), rows.end(), [&](const StackGrowth& a, const StackGrowth& b) {
    return before == nullptr ? a.after.bytes > b.after.bytes
                             : std::abs(a.change()) > std::abs(b.change());
  });
  return rows;
}

Cell Bytes(uint64_t bytes) { return Cell::Integer(static_cast<int64_t>(bytes)); }

Status WriteTable(const Growth& growth) {
  report::Table table("memory", {"stack", "before", "after", "change", "blocks"});
  table.Reserve(growth.rows.size());
  for (const StackGrowth& row : growth.rows) {
    const bool is_pair = growth.before.has_value();
    table.AddRow(
        std::vector<Cell>{table.KeepText(row.stack), is_pair ? Bytes(row.before.bytes) : Cell(),
                          Bytes(row.after.bytes), is_pair ? Cell::Integer(row.change()) : Cell(),
                          Bytes(row.after.blocks)});
  }
  return report::WriteCsv(growth.csv, table);
}

}  // namespace

Result<Growth> Run(const Options& options) {
  Growth growth;
  growth.csv = options.output / "memory.csv";
  MSP_RETURN_IF_ERROR(base::CheckOutputFolder(options.output));
  MSP_RETURN_IF_ERROR(base::CheckOutputFile(growth.csv));
  // One after the other: what a pickle takes while it is read is the most of it.
  if (options.after) {
    MSP_ASSIGN_OR_RETURN(growth.before, ReadSnapshot(options.before));
  }
  MSP_ASSIGN_OR_RETURN(growth.after, ReadSnapshot(options.after.value_or(options.before)));
  growth.rows = Join(growth.before ? &*growth.before : nullptr, growth.after);
  MSP_RETURN_IF_ERROR(base::CreateFolders(options.output));
  MSP_RETURN_IF_ERROR(WriteTable(growth));
  return growth;
}

}  // namespace msprobe::analysis::memory
