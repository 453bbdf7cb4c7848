#include "src/analysis/inspect/tensor_contents.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "msprobe/tensor_file.h"

#include "src/analysis/inspect/inspect.h"
#include "src/base/files.h"
#include "src/base/progress.h"
#include "src/base/strings.h"
#include "src/checkpoint/checkpoint.h"
#include "src/dump/dump_file.h"
#include "src/io/coded/coded_tensor.h"
#include "src/io/contents.h"
#include "src/io/kernel_dump/format.h"
#include "src/report/readers.h"
#include "src/tensor/element_blocks.h"

namespace msprobe::analysis::inspect {
namespace {

// Pages behind the reader are given back in runs of this many blocks.
constexpr size_t kBlocksPerRelease = 64;

}  // namespace

kernels::TensorStats StatisticsOf(const TensorFile& file, const TensorView& view,
                                  std::vector<std::byte>& scratch) {
  const bool plain = view.is_plain();
  kernels::StatsPartial total;
  size_t released = 0;
  tensor::ForEachBlock(
      view, tensor::kSumBlockElements, scratch,
      [&](std::span<const std::byte> block, size_t first) {
        kernels::MergeStats(total, kernels::StatsOfBlock(view.dtype, block));
        const size_t end = first + block.size() / DTypeSize(view.dtype);
        if (plain && end - released >= kBlocksPerRelease * tensor::kSumBlockElements) {
          file.ReleasePages(view, static_cast<int64_t>(released),
                            static_cast<int64_t>(end - released));
          released = end;
        }
      });
  return kernels::FinishStats(total);
}

namespace {

namespace fs = std::filesystem;
using report::Cell;

// Statistics of the numbers that codes stand for, of a run of elements.
kernels::TensorStats StatisticsOfCodes(const io::CodedTensor& coded, int64_t begin,
                                       int64_t elements) {
  const auto count = static_cast<size_t>(elements);
  std::vector<float> values(std::min(count, tensor::kSumBlockElements));
  kernels::StatsPartial total;
  for (size_t first = 0; first < count; first += values.size()) {
    const size_t size = std::min(values.size(), count - first);
    coded.Decode(begin + static_cast<int64_t>(first), size, DType::kFloat32, values.data(),
                 nullptr);
    kernels::MergeStats(total, kernels::StatsOfBlock(DType::kFloat32,
                                                     std::as_bytes(std::span(values).first(size))));
  }
  return kernels::FinishStats(total);
}

kernels::TensorStats StatisticsOfNamed(const TensorFile& file, const NamedTensor& tensor,
                                       std::vector<std::byte>& scratch) {
  return tensor.coded == nullptr
             ? inspect::StatisticsOf(file, tensor.view, scratch)
             : StatisticsOfCodes(*tensor.coded, 0, ElementCount(tensor.coded->shape()));
}

std::string ScaleText(const io::CodedTensor& coded) {
  const std::optional<io::CodedTensor::ScaleRange> range = coded.Scales();
  if (!range) {
    return "";
  }
  return range->least == range->most
             ? fmt::format("scale {:.4g}", range->least)
             : fmt::format("scales {:.4g} to {:.4g}", range->least, range->most);
}

struct TensorRow {
  std::string name;
  std::string type;  // dtype, or a value's type
  std::string shape;
  std::optional<uint64_t>
      bytes;  // of the elements; nullopt for values and tensors that cannot be read
  bool requires_grad = false;
  std::string file;                // below the folder that is shown
  std::optional<uint64_t> offset;  // nullopt where the elements are not in the file as they are
  std::string strides;
  std::optional<kernels::TensorStats> stats;
  std::string value;
  std::string note;
  bool bad = false;
  bool unreadable = false;  // bad, and not for a limit of ours
};

void MarkUnreadable(const Status& why, TensorRow& row) {
  row.note = why.message();
  row.bad = true;
  row.unreadable = true;
}

bool AllUnreadable(const std::vector<TensorRow>& rows) {
  return !rows.empty() &&
         std::all_of(rows.begin(), rows.end(), [](const TensorRow& row) { return row.unreadable; });
}

constexpr std::array<const char*, 5> kColumnsBefore = {"Name", "Type", "Shape", "Bytes",
                                                       "Requires_grad"};
constexpr std::array<std::string_view, 7> kColumnsOfStatistics = {dump::KeyOf(dump::kMax),
                                                                  dump::KeyOf(dump::kMin),
                                                                  dump::KeyOf(dump::kMean),
                                                                  dump::KeyOf(dump::kNorm),
                                                                  "NaN",
                                                                  "Inf",
                                                                  "Zeros"};
constexpr std::array<const char*, 3> kColumnsOfOffsets = {"File", "Offset", "Strides"};
constexpr std::array<const char*, 2> kColumnsBehind = {"Value", "Note"};

report::Table MakeTable(std::string name, const Options& options) {
  std::vector<std::string> columns(kColumnsBefore.begin(), kColumnsBefore.end());
  if (options.offsets) {
    columns.insert(columns.end(), kColumnsOfOffsets.begin(), kColumnsOfOffsets.end());
  }
  if (options.statistics) {
    columns.insert(columns.end(), kColumnsOfStatistics.begin(), kColumnsOfStatistics.end());
  }
  columns.insert(columns.end(), kColumnsBehind.begin(), kColumnsBehind.end());
  return {std::move(name), std::move(columns)};
}

void AddStatistics(const kernels::TensorStats& stats, std::vector<Cell>& cells) {
  // A tensor without elements has no largest one.
  const bool empty = stats.element_count == 0;
  for (double value : {stats.max, stats.min, stats.mean, stats.norm}) {
    cells.push_back(empty ? Cell() : NumberCell(value));
  }
  cells.push_back(CountCell(stats.nan_count));
  cells.push_back(CountCell(stats.positive_inf_count + stats.negative_inf_count));
  cells.push_back(CountCell(stats.zero_count));
}

void AddRow(const TensorRow& row, const Options& options, report::Table& table) {
  const auto text = [&table](std::string_view value) {
    return value.empty() ? Cell() : table.KeepText(value);
  };
  std::vector<Cell> cells = {text(row.name), text(row.type), text(row.shape)};
  cells.push_back(row.bytes ? CountCell(*row.bytes) : Cell());
  cells.push_back(row.bytes ? FlagCell(row.requires_grad) : Cell());
  if (options.offsets) {
    cells.push_back(text(row.file));
    cells.push_back(row.offset ? CountCell(*row.offset) : Cell());
    cells.push_back(text(row.strides));
  }
  if (row.stats) {
    AddStatistics(*row.stats, cells);
  } else if (options.statistics) {
    cells.resize(cells.size() + kColumnsOfStatistics.size());
  }
  cells.push_back(text(row.value));
  cells.push_back(text(row.note));
  table.AddRow(cells, row.bad ? report::Fill::kRed : report::Fill::kNone);
}

// Totals over all tensors of a file or folder.
class Totals {
 public:
  void Add(const NamedTensor& tensor) {
    ++tensors_;
    if (!tensor.status.ok()) {
      ++bad_;
      return;
    }
    OfDType& of_dtype =
        of_dtype_[{tensor.view.dtype, tensor.coded == nullptr ? "" : tensor.raw_dtype}];
    ++of_dtype.tensors;
    of_dtype.elements +=
        static_cast<uint64_t>(tensor.coded == nullptr ? tensor.view.element_count()
                                                      : ElementCount(tensor.coded->shape()));
    of_dtype.bytes += static_cast<uint64_t>(tensor.view.size_bytes());
  }
  void Add(const Totals& other) {
    tensors_ += other.tensors_;
    bad_ += other.bad_;
    for (const auto& [dtype, of_dtype] : other.of_dtype_) {
      of_dtype_[dtype].tensors += of_dtype.tensors;
      of_dtype_[dtype].elements += of_dtype.elements;
      of_dtype_[dtype].bytes += of_dtype.bytes;
    }
  }

  std::string Sentence() const {
    std::string text = Counted(tensors_, "tensor");
    if (bad_ > 0) {
      text += fmt::format(", {} of them unreadable", base::FormatCount(bad_));
    }
    std::string_view separator = ": ";
    for (const auto& [dtype, of_dtype] : of_dtype_) {
      text += fmt::format("{}{} x {} ({}, {})", separator, base::FormatCount(of_dtype.tensors),
                          dtype.second.empty() ? DTypeName(dtype.first) : dtype.second,
                          Counted(of_dtype.elements, "element"), base::FormatBytes(of_dtype.bytes));
      separator = "; ";
    }
    return text;
  }

 private:
  struct OfDType {
    uint64_t tensors = 0;
    uint64_t elements = 0;
    uint64_t bytes = 0;
  };
  uint64_t tensors_ = 0;
  uint64_t bad_ = 0;
  std::map<std::pair<DType, std::string>, OfDType> of_dtype_;  // and the name of codes
};

TensorRow DescribeTensor(const Options& options, const TensorFile& file, const NamedTensor& tensor,
                         std::string name, std::string_view file_name) {
  TensorRow row;
  row.name = std::move(name);
  if (options.offsets) {
    row.file = file_name;
  }
  if (!tensor.status.ok()) {
    MarkUnreadable(tensor.status, row);
    return row;
  }
  row.type = tensor.raw_dtype.empty() ? DTypeName(tensor.view.dtype) : tensor.raw_dtype;
  row.shape = ShapeText(tensor.coded == nullptr ? tensor.view.shape : tensor.coded->shape());
  row.bytes = tensor.view.size_bytes();
  row.requires_grad = tensor.requires_grad;
  if (options.offsets) {
    row.offset = file.OffsetOf(tensor);
    row.strides = row.offset ? ShapeText(tensor.view.strides) : "";
  }
  return row;
}

// Figures of a file that shrank meanwhile are none.
void RefuseShrunk(const TensorView& view, TensorRow& row) {
  const Status whole = base::CheckMappedFile(view.bytes());
  if (!whole.ok()) {
    row.stats.reset();
    MarkUnreadable(whole, row);
  }
}

uint64_t FileBytesOrZero(const fs::path& path) {
  std::error_code ignored;
  const uintmax_t size = fs::file_size(path, ignored);
  return ignored ? 0 : static_cast<uint64_t>(size);
}

// A bare tensor has no name inside its file: it gets the file's.
std::string NameOf(const NamedTensor& tensor, const fs::path& path) {
  return tensor.path.empty() ? path.filename().string() : tensor.name();
}

std::string NameOf(const NamedScalar& scalar) { return base::Join(scalar.path, "."); }

}  // namespace

Result<Contents> InspectTensorFile(const Options& options) {
  TensorFile::Options open;
  open.headers_only = !options.statistics;
  MSP_ASSIGN_OR_RETURN(const TensorFile file, TensorFile::Open(options.path, open));
  Contents result;
  result.warnings = file.warnings();
  RowFilter filter(options, result);
  Totals totals;
  io::ReadBudget budget(FileBytesOrZero(options.path));
  std::vector<TensorRow> rows;
  struct Work {
    const NamedTensor* tensor;
    size_t row;
  };
  std::vector<Work> work;
  const std::string file_name = options.path.filename().string();
  for (const NamedTensor& tensor : file.tensors()) {
    totals.Add(tensor);
    std::string name = NameOf(tensor, options.path);
    if (!filter.Matches(name) || !filter.TakePlace()) {
      continue;
    }
    rows.push_back(DescribeTensor(options, file, tensor, std::move(name), file_name));
    if (options.statistics && tensor.status.ok()) {
      const Status fits = budget.Take(tensor.view);
      if (fits.ok()) {
        work.push_back({&tensor, rows.size() - 1});
      } else {
        rows.back().note = fits.message();
        rows.back().bad = true;
      }
    }
  }
  if (!work.empty()) {
    base::ThreadPool pool(options.threads);
    base::Progress progress("reading", work.size(), "tensors", options.quiet);
    std::vector<std::vector<std::byte>> scratch(pool.thread_count());
    pool.ParallelFor(work.size(), [&](size_t item, size_t worker) {
      const TensorView& view = work[item].tensor->view;
      TensorRow& row = rows[work[item].row];
      row.stats = StatisticsOfNamed(file, *work[item].tensor, scratch[worker]);
      if (work[item].tensor->coded != nullptr) {
        row.note = ScaleText(*work[item].tensor->coded);
      }
      RefuseShrunk(view, row);
      progress.Add(1, view.size_bytes());
    });
  }
  result.table = MakeTable("contents", options);
  result.table.Reserve(rows.size());
  uint64_t unreadable = 0;
  std::string first_unreadable;
  for (const TensorRow& row : rows) {
    AddRow(row, options, result.table);
    if (row.unreadable && unreadable++ == 0) {
      first_unreadable = row.note;
    }
  }
  if (unreadable > 0) {
    result.warnings.push_back(fmt::format("{}: {} could not be read; the first: {}",
                                          options.path.string(), Counted(unreadable, "tensor"),
                                          first_unreadable));
  }
  result.nothing_readable = AllUnreadable(rows) && file.scalars().empty();
  for (const NamedScalar& scalar : file.scalars()) {
    TensorRow row;
    row.name = NameOf(scalar);
    if (filter.Matches(row.name) && filter.TakePlace()) {
      row.type = scalar.type;
      row.value = scalar.text;
      AddRow(row, options, result.table);
    }
  }
  result.summary.push_back(fmt::format("{}: {}, {}", options.path.string(),
                                       TensorFileFormatName(file.format()),
                                       base::FormatBytes(FileBytesOrZero(options.path))));
  result.summary.push_back(totals.Sentence());
  if (!file.scalars().empty()) {
    result.summary.back() += "; " + Counted(file.scalars().size(), "other value");
  }
  return result;
}

bool HasTensorFileName(const fs::path& name) {
  const std::string extension = name.extension().string();
  constexpr std::array<std::string_view, 8> kKnown = {".pt",          ".pth", ".npy",  ".npz",
                                                      ".safetensors", ".bin", ".ckpt", ".gguf"};
  return std::find(kKnown.begin(), kKnown.end(), extension) != kKnown.end() ||
         io::kernel_dump::ParseDumpFileName(name.filename().string()).has_value();
}

namespace {

// The totals of one file of a folder.
struct FileContents {
  std::vector<TensorRow> rows;
  Totals totals;
  std::string why_unreadable;  // empty where a tensor could be read
};

FileContents ReadOne(const Options& options, const std::string& name,
                     std::vector<std::byte>& file_bytes, std::vector<std::byte>& scratch) {
  FileContents contents;
  const fs::path path = options.path / name;
  TensorFile::Options open;
  open.scratch = &file_bytes;
  open.headers_only = !options.statistics;
  const Result<TensorFile> file = TensorFile::Open(path, open);
  if (!file.ok()) {
    TensorRow row;
    row.name = name;
    MarkUnreadable(file.status(), row);
    contents.why_unreadable = row.note;
    contents.rows.push_back(std::move(row));
    return contents;
  }
  io::ReadBudget budget(FileBytesOrZero(path));
  for (const NamedTensor& tensor : file->tensors()) {
    contents.totals.Add(tensor);
    TensorRow row = DescribeTensor(options, *file, tensor,
                                   tensor.path.empty() ? name : name + ":" + tensor.name(), name);
    if (options.statistics && tensor.status.ok()) {
      const Status fits = budget.Take(tensor.view);
      if (fits.ok()) {
        row.stats = StatisticsOfNamed(*file, tensor, scratch);
        RefuseShrunk(tensor.view, row);
      } else {
        row.note = fits.message();
        row.bad = true;
      }
    }
    contents.rows.push_back(std::move(row));
  }
  if (contents.rows.empty()) {
    TensorRow row;
    row.name = name;
    row.note = "no tensors in it";
    contents.rows.push_back(std::move(row));
  }
  if (AllUnreadable(contents.rows)) {
    contents.why_unreadable = fmt::format("{}: {}", name, contents.rows.front().note);
  }
  return contents;
}

}  // namespace

Result<Contents> InspectTensorFolder(const Options& options,
                                     const std::vector<std::string>& names) {
  Contents result;
  RowFilter filter(options, result);
  std::vector<std::string> chosen;
  for (const std::string& name : names) {
    if (filter.Matches(name) && filter.TakePlace()) {
      chosen.push_back(name);
    }
  }
  std::vector<FileContents> contents(chosen.size());
  base::ThreadPool pool(options.threads);
  base::Progress progress("reading", chosen.size(), "files", options.quiet);
  std::vector<std::vector<std::byte>> file_bytes(pool.thread_count());
  std::vector<std::vector<std::byte>> scratch(pool.thread_count());
  pool.ParallelFor(chosen.size(), [&](size_t item, size_t worker) {
    contents[item] = ReadOne(options, chosen[item], file_bytes[worker], scratch[worker]);
    progress.Add();
  });
  result.table = MakeTable("contents", options);
  Totals totals;
  uint64_t bad_files = 0;
  std::string first_bad;
  for (const FileContents& file : contents) {
    totals.Add(file.totals);
    if (!file.why_unreadable.empty() && bad_files++ == 0) {
      first_bad = file.why_unreadable;
    }
    for (const TensorRow& row : file.rows) {
      AddRow(row, options, result.table);
    }
  }
  result.summary.push_back(
      fmt::format("{}: {} of tensors", options.path.string(), Counted(chosen.size(), "file")));
  result.summary.push_back(totals.Sentence());
  result.nothing_readable = !contents.empty() && bad_files == contents.size();
  if (bad_files > 0) {
    result.warnings.push_back(
        fmt::format("{} could not be read; the first: {}", Counted(bad_files, "file"), first_bad));
  }
  return result;
}

std::optional<Contents> InspectQuantisedFolder(const Options& options) {
  Result<checkpoint::Checkpoint> opened = checkpoint::OpenCheckpoint(options.path, {});
  if (!opened.ok() || opened->kind != checkpoint::Kind::kHuggingFace) {
    return std::nullopt;
  }
  const auto coded_of = [](const checkpoint::Parameter& parameter) {
    return parameter.pieces.empty() ? nullptr : parameter.pieces.front().coded;
  };
  const std::vector<checkpoint::Parameter>& parameters = opened->parameters;
  if (std::none_of(parameters.begin(), parameters.end(),
                   [&](const auto& parameter) { return coded_of(parameter) != nullptr; })) {
    return std::nullopt;
  }
  Contents result;
  result.warnings = opened->warnings;
  RowFilter filter(options, result);
  std::vector<TensorRow> rows;
  std::vector<const checkpoint::Parameter*> chosen;
  std::map<std::string, std::pair<uint64_t, uint64_t>> formats;  // parameters, elements
  uint64_t bad = 0;
  for (const checkpoint::Parameter& parameter : parameters) {
    const std::string format =
        parameter.status.ok() ? checkpoint::FormatOf(parameter) : std::string();
    if (parameter.status.ok()) {
      ++formats[format].first;
      formats[format].second += static_cast<uint64_t>(parameter.element_count());
    } else {
      ++bad;
    }
    if (!filter.Matches(parameter.name) || !filter.TakePlace()) {
      continue;
    }
    TensorRow& row = rows.emplace_back();
    row.name = parameter.name;
    row.shape = ShapeText(parameter.shape);
    row.type = format;
    row.note = base::Join(parameter.notes, "; ");
    chosen.push_back(&parameter);
    if (!parameter.status.ok()) {
      MarkUnreadable(parameter.status, row);
      continue;
    }
    const auto coded = coded_of(parameter);
    row.bytes = coded != nullptr
                    ? coded->stored_bytes()
                    : static_cast<uint64_t>(parameter.element_count()) * DTypeSize(parameter.dtype);
  }
  if (options.statistics) {
    base::ThreadPool pool(options.threads);
    base::Progress progress("reading", rows.size(), "parameters", options.quiet);
    std::vector<std::vector<std::byte>> scratch(pool.thread_count());
    pool.ParallelFor(rows.size(), [&](size_t item, size_t worker) {
      const checkpoint::Parameter& parameter = *chosen[item];
      TensorRow& row = rows[item];
      if (parameter.status.ok() && parameter.pieces.size() == 1) {
        const checkpoint::Piece& piece = parameter.pieces.front();
        if (piece.coded != nullptr) {
          // Moved rows and columns have the statistics of the whole; a part is a run, or has none.
          const int64_t count = parameter.element_count();
          if (count == ElementCount(piece.coded->shape())) {
            row.stats = StatisticsOfCodes(*piece.coded, 0, count);
          } else if (piece.view.is_plain()) {
            row.stats = StatisticsOfCodes(*piece.coded, piece.coded_first, count);
          }
          const std::string scales = ScaleText(*piece.coded);
          row.note += row.note.empty() || scales.empty() ? scales : "; " + scales;
        } else if (piece.file != checkpoint::kNoFile) {
          row.stats = inspect::StatisticsOf(opened->files[piece.file], piece.view, scratch[worker]);
          RefuseShrunk(piece.view, row);
        }
      }
      progress.Add();
    });
  }
  result.table = MakeTable("contents", options);
  result.table.Reserve(rows.size());
  for (const TensorRow& row : rows) {
    AddRow(row, options, result.table);
  }
  result.nothing_readable = AllUnreadable(rows);
  result.summary.push_back(
      fmt::format("{}: a quantised model, {}; --offsets shows the tensors that it is stored in",
                  options.path.string(), base::FormatBytes(opened->file_bytes())));
  std::string counts = Counted(parameters.size(), "parameter");
  if (bad > 0) {
    counts += fmt::format(", {} of them unreadable", base::FormatCount(bad));
  }
  std::string_view separator = ": ";
  for (const auto& [format, count] : formats) {
    counts += fmt::format("{}{} x {} ({})", separator, base::FormatCount(count.first), format,
                          Counted(count.second, "element"));
    separator = "; ";
  }
  result.summary.push_back(std::move(counts));
  return result;
}

Result<Contents> InspectTable(const Options& options) {
  MSP_ASSIGN_OR_RETURN(const report::Table table, report::ReadCsv(options.path));
  Contents result;
  result.table = report::Table("contents", table.columns());
  RowFilter filter(options, result);
  std::vector<report::Cell> cells;
  for (size_t i = 0; i < table.row_count(); ++i) {
    const std::span<const report::Cell> row = table.row(i);
    const std::string first = row.empty() ? "" : report::CellText(row[0]);
    if (!filter.Matches(first) || !filter.TakePlace()) {
      continue;
    }
    cells.clear();
    for (const report::Cell& cell : row) {
      cells.push_back(result.table.KeepText(report::CellText(cell)));
    }
    result.table.AddRow(cells);
  }
  result.summary.push_back(fmt::format("{}: table", options.path.string()));
  result.summary.push_back(fmt::format("{}, {}", Counted(table.row_count(), "row"),
                                       Counted(table.columns().size(), "column")));
  return result;
}

}  // namespace msprobe::analysis::inspect
