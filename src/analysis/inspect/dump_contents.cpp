#include "src/analysis/inspect/dump_contents.h"

#include <array>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "msprobe/tensor_file.h"

#include "src/analysis/inspect/cells.h"
#include "src/analysis/inspect/tensor_statistics.h"
#include "src/base/progress.h"
#include "src/base/strings.h"
#include "src/base/threads.h"
#include "src/base/utf8.h"
#include "src/dump/dump_file.h"
#include "src/dump/layout.h"
#include "src/dump/names.h"
#include "src/io/read_budget.h"

namespace msprobe::analysis::inspect {
namespace {

namespace fs = std::filesystem;
using dump::EntryTree;
using dump::Node;
using dump::NodeKind;
using report::Cell;

enum Column : size_t {
  kName,
  kType,
  kShape,
  kMax,
  kMin,
  kMean,
  kNorm,
  kNaN,
  kInf,
  kZeros,
  kRequiresGrad,
  kMd5,
  kValue,
  kFile,
  kNote,
  kColumnCount,
};
constexpr std::array<std::string_view, kColumnCount> kColumnNames = {"Name",
                                                                     "Type",
                                                                     "Shape",
                                                                     dump::KeyOf(dump::kMax),
                                                                     dump::KeyOf(dump::kMin),
                                                                     dump::KeyOf(dump::kMean),
                                                                     dump::KeyOf(dump::kNorm),
                                                                     "NaN",
                                                                     "Inf",
                                                                     "Zeros",
                                                                     "Requires_grad",
                                                                     "Md5",
                                                                     "Value",
                                                                     "File",
                                                                     "Note"};

// Longer names and values than any real dump has are cut, so that a hostile one cannot fill the
// memory.
constexpr size_t kMaxNameBytes = 1000;
constexpr size_t kMaxValueBytes = 200;

struct Row {
  std::array<Cell, kColumnCount> cells;
  bool bad = false;
};

std::string_view KindName(NodeKind kind) {
  switch (kind) {
    case NodeKind::kNull:
      return "null";
    case NodeKind::kBool:
      return "bool";
    case NodeKind::kInt:
      return "int";
    case NodeKind::kFloat:
      return "float";
    case NodeKind::kText:
      return "str";
    case NodeKind::kList:
      return "list";
    case NodeKind::kObject:
      return "object";
  }
  return "";
}

class Reader {
 public:
  explicit Reader(const Options& options) : options_(options), filter_(options, result_) {
    result_.table = report::Table("contents", {kColumnNames.begin(), kColumnNames.end()});
  }

  Result<Contents> Run() {
    MSP_ASSIGN_OR_RETURN(const dump::DumpHeader header,
                         dump::ReadDumpFile(options_.path, {.allow_truncated = true},
                                            [this](std::string_view name, const EntryTree& tree) {
                                              AddEntry(name, tree);
                                              return OkStatus();
                                            }));
    if (!header.has_data && !header.truncated) {
      return BadFormatError(
                 fmt::format("{} is not a dump: it has no object \"data\"", options_.path.string()))
          .WithHint(
              "a dump.json or debug.json holds task, level, framework, dump_data_dir and data");
    }
    if (options_.statistics) {
      ComputeStatistics();
    }
    for (const Row& row : rows_) {
      result_.table.AddRow(row.cells, row.bad ? report::Fill::kRed : report::Fill::kNone);
    }
    Summarize(header);
    return std::move(result_);
  }

 private:
  Cell Text(std::string_view text, size_t limit = kMaxValueBytes) {
    if (text.empty()) {
      return {};
    }
    return text.size() <= limit ? result_.table.KeepText(text)
                                : result_.table.KeepText(base::Shortened(text, limit));
  }

  Cell ValueCell(const EntryTree& tree, uint32_t index) {
    const Node& node = tree[index];
    switch (node.kind) {
      case NodeKind::kNull:
        return {};
      case NodeKind::kBool:
        return FlagCell(node.boolean);
      case NodeKind::kInt:
        return Cell::Integer(node.integer);
      case NodeKind::kFloat:
        return NumberCell(node.number);
      default:
        return Text(dump::CompactText(tree, index));
    }
  }

  Cell MemberCell(const EntryTree& tree, uint32_t leaf, std::string_view key) {
    const uint32_t child = tree.Find(leaf, key);
    return child == EntryTree::kNone ? Cell() : ValueCell(tree, child);
  }

  void AddEntry(std::string_view name, const EntryTree& tree) {
    const dump::EntryName parsed = dump::ParseEntryName(name);
    if (parsed.direction == dump::Direction::kForward) {
      ++forward_;
    } else if (parsed.direction == dump::Direction::kBackward) {
      ++backward_;
    } else if (parsed.is_parameters_grad) {
      ++gradients_;
    }
    walker_.ForEach(base::Shortened(name, kMaxNameBytes), tree,
                    [this, &tree](std::string_view leaf_name, uint32_t index) {
                      AddLeaf(leaf_name, tree, index);
                    });
  }

  void AddLeaf(std::string_view name, const EntryTree& tree, uint32_t index) {
    const bool is_tensor = dump::IsTensorLeaf(tree, index);
    tensors_ += is_tensor ? 1 : 0;
    const std::string_view shown_name = name.substr(0, kMaxNameBytes);
    if (!filter_.Matches(shown_name) || !filter_.TakePlace()) {
      return;
    }
    Row row;
    row.cells[kName] = Text(shown_name, kMaxNameBytes);
    if (is_tensor) {
      FillTensor(tree, index, row);
    } else {
      FillValue(tree, index, row);
    }
    rows_.push_back(row);
  }

  void FillTensor(const EntryTree& tree, uint32_t index, Row& row) {
    row.cells[kType] = Text(dump::LeafText(tree, index, "dtype"));
    row.cells[kShape] = MemberCell(tree, index, "shape");
    for (size_t i = 0; i < dump::kStatisticCount; ++i) {
      row.cells[kMax + i] = MemberCell(tree, index, dump::kStatisticKeys[i]);
    }
    row.cells[kRequiresGrad] = MemberCell(tree, index, "requires_grad");
    row.cells[kMd5] = MemberCell(tree, index, "md5");
    row.cells[kFile] = MemberCell(tree, index, "data_name");
    if (const std::string_view file = dump::LeafText(tree, index, "data_name");
        !file.empty() && options_.statistics) {
      const auto [known, is_new] = place_of_file_.try_emplace(std::string(file), files_.size());
      if (is_new) {
        files_.push_back(known->first);
      }
      work_.push_back({rows_.size(), known->second});
    }
  }

  void FillValue(const EntryTree& tree, uint32_t index, Row& row) {
    if (tree[index].kind != NodeKind::kObject) {
      row.cells[kType] = Text(KindName(tree[index].kind));
      row.cells[kValue] = ValueCell(tree, index);
      return;
    }
    row.cells[kType] = Text(dump::LeafText(tree, index, "type"));
    for (std::string_view key : {"value", "format", "group_ranks"}) {
      if (const uint32_t child = tree.Find(index, key); child != EntryTree::kNone) {
        row.cells[kValue] = ValueCell(tree, child);
        return;
      }
    }
  }

  void ComputeStatistics() {
    if (work_.empty()) {
      result_.warnings.emplace_back(
          "no tensor files belong to the rows shown: the statistics are those of the capture");
      return;
    }
    const fs::path folder = options_.path.parent_path() / dump::kTensorFolderName;
    base::ThreadPool pool(options_.threads);
    base::Progress progress("reading", files_.size(), "tensors", options_.quiet);
    std::vector<std::vector<std::byte>> file_bytes(pool.thread_count());
    std::vector<std::vector<std::byte>> scratch(pool.thread_count());
    // A file is read once, however many rows name it.
    std::vector<Result<kernels::TensorStats>> outcomes(files_.size(), kernels::TensorStats{});
    pool.ParallelFor(files_.size(), [&](size_t item, size_t worker) {
      outcomes[item] = StatisticsOfFile(folder, files_[item], file_bytes[worker], scratch[worker]);
      progress.Add();
    });
    for (const Work& work : work_) {
      Row& row = rows_[work.row];
      const Result<kernels::TensorStats>& outcome = outcomes[work.file];
      if (!outcome.ok()) {
        row.cells[kNote] = Text(outcome.status().message(), kMaxNameBytes);
        row.bad = true;
        if (bad_files_++ == 0) {
          first_bad_ = outcome.status().message();
        }
        continue;
      }
      const kernels::TensorStats& stats = *outcome;
      if (stats.element_count > 0) {
        row.cells[kMax] = NumberCell(stats.max);
        row.cells[kMin] = NumberCell(stats.min);
        row.cells[kMean] = NumberCell(stats.mean);
        row.cells[kNorm] = NumberCell(stats.norm);
      }
      row.cells[kNaN] = CountCell(stats.nan_count);
      row.cells[kInf] = CountCell(stats.positive_inf_count + stats.negative_inf_count);
      row.cells[kZeros] = CountCell(stats.zero_count);
    }
  }

  static Result<kernels::TensorStats> StatisticsOfFile(const fs::path& folder,
                                                       const std::string& name,
                                                       std::vector<std::byte>& file_bytes,
                                                       std::vector<std::byte>& scratch) {
    if (name.find('/') != std::string::npos) {
      return BadFormatError(
          fmt::format("data_name \"{}\" points outside {}", name, dump::kTensorFolderName));
    }
    TensorFile::Options open;
    open.scratch = &file_bytes;
    MSP_ASSIGN_OR_RETURN(const TensorFile file, TensorFile::Open(folder / name, open));
    MSP_ASSIGN_OR_RETURN(const NamedTensor* tensor, file.Single());
    MSP_RETURN_IF_ERROR(tensor->status);
    std::error_code ignored;
    const uintmax_t size = fs::file_size(folder / name, ignored);
    MSP_RETURN_IF_ERROR(io::ReadBudget(ignored ? 0 : size).Take(tensor->view));
    return StatisticsOf(file, tensor->view, scratch);
  }

  void Summarize(const dump::DumpHeader& header) {
    result_.summary.push_back(fmt::format(
        "{}: task {}, level {}, framework {}, {}", options_.path.string(),
        header.task.value_or("unknown"), header.level.value_or("unknown"),
        header.framework.value_or("not recorded"), base::FormatBytes(header.size_bytes)));
    std::string counts =
        header.entry_count == 1 ? "1 entry" : base::FormatCount(header.entry_count) + " entries";
    if (forward_ + backward_ + gradients_ > 0) {
      counts += fmt::format(" ({} forward, {} backward, {} of parameter gradients)",
                            base::FormatCount(forward_), base::FormatCount(backward_),
                            base::FormatCount(gradients_));
    }
    result_.summary.push_back(counts + ", " + Counted(tensors_, "tensor"));
    if (header.recovery) {
      result_.warnings.push_back(
          fmt::format("{}: the capture was interrupted; showing what its log holds",
                      options_.path.parent_path().string()));
    }
    if (header.truncated) {
      result_.warnings.push_back(fmt::format("{} is truncated: only its complete entries are shown",
                                             options_.path.string()));
    }
    if (bad_files_ > 0) {
      result_.warnings.push_back(fmt::format("{} could not be read; the first: {}",
                                             Counted(bad_files_, "tensor file"), first_bad_));
    }
  }

  const Options& options_;
  Contents result_;
  RowFilter filter_;
  dump::LeafWalker walker_;
  std::vector<Row> rows_;
  struct Work {
    size_t row;
    size_t file;  // in files_
  };
  std::vector<Work> work_;
  std::vector<std::string> files_;  // each once
  std::unordered_map<std::string, size_t> place_of_file_;
  uint64_t forward_ = 0;
  uint64_t backward_ = 0;
  uint64_t gradients_ = 0;
  uint64_t tensors_ = 0;
  uint64_t bad_files_ = 0;
  std::string first_bad_;  // why
};

}  // namespace

Result<Contents> InspectDumpFile(const Options& options) { return Reader(options).Run(); }

}  // namespace msprobe::analysis::inspect
