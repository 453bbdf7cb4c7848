#include "src/analysis/kernel_dump/kernel_dump.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "msprobe/status.h"
#include "msprobe/tensor_file.h"

#include "src/analysis/kernel_dump/dump_files.h"
#include "src/base/files.h"
#include "src/base/mapped_reads.h"
#include "src/base/output_files.h"
#include "src/base/progress.h"
#include "src/base/shared_run.h"
#include "src/base/strings.h"
#include "src/base/threads.h"
#include "src/io/kernel_dump/dump_file.h"
#include "src/io/kernel_dump/format.h"
#include "src/io/kernel_dump/layout.h"
#include "src/io/kernel_dump/overflow_record.h"
#include "src/io/npy.h"
#include "src/io/tensor_output.h"
#include "src/report/readers.h"
#include "src/report/writers.h"
#include "src/tensor/element_blocks.h"
#include "src/tensor/float_bits.h"

namespace msprobe::analysis::kernel_dump {
namespace {

// Statistics that a device computed itself (`dump_data: stats`): a .csv per kernel, called like its
// dump, and one table of all of them.

constexpr const char* kMergedStatistics = "statistic.csv";

// Writes <output>/<folder>/statistic.csv for each folder of `tables`, which are kernels in order of
// time: the columns of the device by name, its Count left out, behind those of the kernel. Adds a
// FileResult for each table and the written files to `findings`; a table that cannot be read is
// reported there, and the others go on. A table ends at kLargestStatistics bytes.
constexpr uint64_t kLargestStatistics = uint64_t{10} << 20U;

namespace kd = io::kernel_dump;

constexpr int64_t kPieceElements = int64_t{1} << 20U;
constexpr uint64_t kLargestWholeTensor = uint64_t{16} << 30U;

bool IsFloat8(DType dtype) { return dtype == DType::kFloat8E4M3FN || dtype == DType::kFloat8E5M2; }

// The element types of .npy files, and a block of elements as one of them.
std::string_view NpyDescr(DType dtype) {
  if (IsFloat8(dtype)) {
    return GetDTypeInfo(DType::kFloat64).numpy_descr;
  }
  const std::string_view own = GetDTypeInfo(dtype).numpy_descr;
  return own.empty() ? GetDTypeInfo(DType::kFloat32).numpy_descr : own;
}

class Widener {
 public:
  explicit Widener(DType dtype) : dtype_(dtype) {}

  std::span<const std::byte> operator()(std::span<const std::byte> block) {
    if (IsFloat8(dtype_)) {
      wide_.clear();
      for (const std::byte bits : block) {
        const auto value = std::to_integer<uint8_t>(bits);
        wide_.push_back(static_cast<double>(dtype_ == DType::kFloat8E4M3FN
                                                ? tensor::Float8E4M3FNToFloat(value)
                                                : tensor::Float8E5M2ToFloat(value)));
      }
      return std::as_bytes(std::span(wide_));
    }
    if (dtype_ == DType::kBFloat16) {
      floats_.resize(block.size() / 2);
      for (size_t i = 0; i < floats_.size(); ++i) {
        uint16_t bits = 0;
        std::memcpy(&bits, block.data() + i * 2, sizeof bits);
        floats_[i] = tensor::BFloat16ToFloat(bits);
      }
      return std::as_bytes(std::span(floats_));
    }
    return block;
  }

 private:
  const DType dtype_;
  std::vector<double> wide_;
  std::vector<float> floats_;
};

}  // namespace

std::string_view SuffixOf(ArrayFile kind) {
  switch (kind) {
    case ArrayFile::kNpy:
      return "npy";
    case ArrayFile::kPt:
      return "pt";
    case ArrayFile::kBin:
      break;
  }
  return "bin";
}

Status WriteArray(const std::filesystem::path& path, ArrayFile kind, const TensorView& view) {
  MSP_ASSIGN_OR_RETURN(base::AtomicFile file, base::AtomicFile::Create(path));
  if (kind == ArrayFile::kPt) {
    MSP_RETURN_IF_ERROR(io::WritePtTo(file, view, std::nullopt));
  } else if (kind == ArrayFile::kNpy && !IsFloat8(view.dtype)) {
    MSP_RETURN_IF_ERROR(io::WriteNpyTo(file, view));
  } else {
    if (kind == ArrayFile::kNpy) {
      MSP_RETURN_IF_ERROR(file.Write(io::FormatNpyHeader(NpyDescr(view.dtype), view.shape)));
    }
    Widener widen(kind == ArrayFile::kNpy ? view.dtype : DType::kUInt8);
    std::vector<std::byte> scratch;
    MSP_RETURN_IF_ERROR(tensor::ForEachBlock(
        view, tensor::kCopyBlockElements, scratch,
        [&](std::span<const std::byte> block, size_t) { return file.Write(widen(block)); }));
  }
  return file.Commit();
}

Status WriteConverted(const std::filesystem::path& path, ArrayFile kind, const TensorView& device,
                      const kd::Layout& layout) {
  const size_t element_bytes = DTypeSize(device.dtype);
  const auto elements = static_cast<uint64_t>(ElementCount(layout.plain_shape));
  if (kind == ArrayFile::kPt) {
    if (elements > kLargestWholeTensor / element_bytes) {
      return UnsupportedError(
                 fmt::format("a tensor of {} elements is too large for a .pt file here", elements))
          .WithHint("convert it to .npy, which is written piece by piece");
    }
    std::vector<std::byte> plain(static_cast<size_t>(elements) * element_bytes);
    kd::ToPlainRows(layout, element_bytes, device.bytes(), plain);
    return WriteArray(path, kind, tensor::RowMajorView(device.dtype, layout.plain_shape, plain));
  }
  MSP_ASSIGN_OR_RETURN(base::AtomicFile file, base::AtomicFile::Create(path));
  if (kind == ArrayFile::kNpy) {
    MSP_RETURN_IF_ERROR(
        file.Write(io::FormatNpyHeader(NpyDescr(device.dtype), layout.plain_shape)));
  }
  Widener widen(kind == ArrayFile::kNpy ? device.dtype : DType::kUInt8);
  std::vector<std::byte> plain;
  MSP_RETURN_IF_ERROR(kd::ForEachPiece(layout, kPieceElements, [&](const kd::LayoutPiece& piece) {
    plain.resize(static_cast<size_t>(ElementCount(piece.layout.plain_shape)) * element_bytes);
    kd::ToPlainRows(piece.layout, element_bytes,
                    device.bytes().subspan(static_cast<size_t>(piece.device_first) * element_bytes),
                    plain);
    return file.Write(widen(plain));
  }));
  return file.Commit();
}

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

namespace {

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

using base::FormatCount;
using base::Plural;
using report::AnswerOutcome;
using report::List;
using report::ListKind;
using report::Section;
using report::Tone;

constexpr size_t kShownFailures = 20;

report::Verdict MakeVerdict(const Findings& findings) {
  report::Verdict verdict;
  verdict.unit = "arrays";
  verdict.number = static_cast<double>(findings.converted());
  const std::string done = fmt::format("{} of {}", Plural(findings.converted(), "array"),
                                       Plural(findings.files.size(), "file"));
  if (findings.failed_files() == 0) {
    verdict.Say("CONVERTED", done, Tone::kGood);
    return verdict;
  }
  verdict.Say("INCOMPLETE",
              fmt::format("{}; {} could not be converted whole", done,
                          Plural(findings.failed_files(), "file")),
              Tone::kBad, AnswerOutcome::kIncomplete);
  return verdict;
}

Section Failures(const Findings& findings) {
  List list{ListKind::kNamed, {}, {kShownFailures}};
  for (const FileResult& file : findings.files) {
    const std::string name = base::Printable(file.path.string());
    if (!file.status.ok()) {
      list.items.push_back({name, base::Printable(file.status.message()), Tone::kBad});
    }
    for (const Converted& part : file.parts) {
      if (!part.status.ok()) {
        list.items.push_back({fmt::format("{}, {}", name, part.what),
                              base::Printable(part.status.message()), Tone::kBad});
      }
    }
  }
  return report::MakeSection("Not converted", std::move(list));
}

// The layouts that there were, and the outcome for each.
Section Layouts(const Findings& findings) {
  std::map<std::string, uint64_t> counts;
  for (const FileResult& file : findings.files) {
    for (const Converted& part : file.parts) {
      if (part.status.ok() && !part.device_format.empty()) {
        ++counts[part.device_format == part.format
                     ? part.device_format
                     : fmt::format("{} to {}", part.device_format, part.format)];
      }
    }
  }
  Section section;
  if (!counts.empty()) {
    List list{ListKind::kAligned, {}};
    for (const auto& [layout, count] : counts) {
      list.items.push_back({layout, Plural(count, "tensor")});
    }
    section.blocks.emplace_back(std::move(list));
  }
  return section;
}

}  // namespace

report::Document MakeDocument(const Findings& findings, const std::filesystem::path& output) {
  report::Document document;
  document.command = "parse";
  document.verdict = MakeVerdict(findings);
  if (Section layouts = Layouts(findings); !layouts.blocks.empty()) {
    document.sections.push_back(std::move(layouts));
  }
  if (findings.failed_files() > 0) {
    document.sections.push_back(Failures(findings));
  }
  document.files.push_back({output / ""});  // a folder
  document.AddFiles(findings.written_beside);
  for (const FileResult& file : findings.files) {
    for (const std::string& warning : file.warnings) {
      document.warnings.push_back(
          base::Printable(fmt::format("{}: {}", file.path.string(), warning)));
    }
  }
  document.bytes = findings.bytes;
  document.action = "converted";
  return document;
}

report::Document MakeDocument(const CodeMapping& mapping) {
  report::Document document;
  document.command = "code_mapping";
  document.verdict.unit = "rows";
  document.verdict.number = static_cast<double>(mapping.mapped);
  const std::string counts =
      fmt::format("{} of {} have lines of code ({} in the graph)", FormatCount(mapping.mapped),
                  Plural(mapping.rows, "row"), Plural(mapping.scopes, "scope"));
  if (mapping.mapped == 0) {
    document.verdict.word = "NOTHING MAPPED";
    document.verdict.tone = Tone::kBad;
    document.verdict.outcome = AnswerOutcome::kNothingCompared;
    document.next.emplace_back("code_mapping.other_run");
  } else {
    document.verdict.word = "MAPPED";
    document.verdict.tone = Tone::kGood;
  }
  document.verdict.text = fmt::format("{}: {}", document.verdict.word, counts);
  document.AddFiles(mapping.files);
  document.warnings = mapping.warnings;
  document.action = "mapped";
  return document;
}

namespace {

constexpr std::string_view kAtbMagic = "$Version=";
constexpr uint64_t kUnpackLimit = uint64_t{1} << 30U;
constexpr std::string_view kAtbSuffix = ".bin";

// "2x3x4", "2_3_4"
std::string SizesText(const Shape& shape, std::string_view separator) {
  std::string text;
  for (size_t i = 0; i < shape.size(); ++i) {
    text += fmt::format("{}{}", i > 0 ? separator : "", shape[i]);
  }
  return text;
}

// One dump file and what becomes of it.
class FileConversion {
 public:
  FileConversion(const Options& options, std::optional<uint32_t> format, const DumpPath& dump,
                 FileResult& result)
      : options_(options), format_(format), dump_(dump), result_(result) {}

  // `scratch` holds small files, and outlives this.
  Status Convert(std::vector<std::byte>& scratch, size_t item, base::FilesAhead& ahead) {
    const auto begin = std::chrono::steady_clock::now();
    scratch.reserve(base::kReadWholeBelowBytes);
    MSP_ASSIGN_OR_RETURN(const base::FileBytes file, base::FileBytes::Open(dump_.path, &scratch));
    ahead.Took(item, file.bytes().size(), std::chrono::steady_clock::now() - begin);
    result_.bytes = file.bytes().size();
    if (dump_.parsed) {
      result_.op_type = dump_.parsed->op_type;
      result_.op_name = dump_.parsed->op_name;
    }
    MSP_RETURN_IF_ERROR(file.text().starts_with(kAtbMagic) ? ConvertAtb()
                                                           : ConvertDump(file.bytes()));
    return base::CheckMappedFile(file.bytes());
  }

 private:
  std::filesystem::path OutputPath(const std::string& name) const {
    return base::Below(options_.output, dump_.folder) / name;
  }

  // A file like any other of tensors: one tensor, no layout.
  Status ConvertAtb() {
    MSP_ASSIGN_OR_RETURN(const TensorFile file, TensorFile::Open(dump_.path));
    MSP_ASSIGN_OR_RETURN(const NamedTensor* tensor, file.Single());
    for (const std::string& warning : file.warnings()) {
      result_.warnings.push_back(warning);
    }
    std::string stem = dump_.name;
    if (stem.ends_with(kAtbSuffix)) {
      stem.resize(stem.size() - kAtbSuffix.size());
    }
    Converted part;
    part.what = "tensor";
    part.data_type = DTypeName(tensor->view.dtype);
    part.shape = tensor->view.shape;
    part.path = OutputPath(fmt::format("{}.{}", stem, SuffixOf(options_.kind)));
    part.status = WriteArray(part.path, options_.kind, tensor->view);
    result_.parts.push_back(std::move(part));
    return {};
  }

  Status ConvertDump(std::span<const std::byte> bytes) {
    MSP_ASSIGN_OR_RETURN(const kd::KernelDump dump, kd::ReadKernelDump(bytes));
    if (!dump.op_name.empty()) {
      result_.op_name = dump.op_name;
    }
    result_.warnings = dump.warnings;
    const bool is_overflow = dump_.parsed && dump_.parsed->is_overflow();
    ConvertTensors("input", dump.inputs, options_.input, options_.output_number.has_value(), false);
    ConvertTensors("output", dump.outputs, options_.output_number, options_.input.has_value(),
                   is_overflow);
    if (!options_.input && !options_.output_number) {
      ConvertBytes("l1buffer", dump.buffers);
      ConvertBytes("space", dump.workspaces);
    }
    return {};
  }

  void ConvertTensors(std::string_view what, const std::vector<kd::DumpedTensor>& tensors,
                      const std::optional<int64_t>& only, bool none, bool is_overflow) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (only ? static_cast<int64_t>(i) != *only : none) {
        continue;
      }
      Converted part;
      part.what = fmt::format("{}.{}", what, i);
      part.status =
          is_overflow ? ConvertOverflow(tensors[i], part) : ConvertTensor(tensors[i], part);
      result_.parts.push_back(std::move(part));
    }
    if (only && static_cast<size_t>(*only) >= tensors.size()) {
      Converted part;
      part.what = fmt::format("{}.{}", what, *only);
      part.status = NotFoundError(fmt::format("the file has {} {}s", tensors.size(), what));
      result_.parts.push_back(std::move(part));
    }
  }

  Status ConvertOverflow(const kd::DumpedTensor& tensor, Converted& part) {
    MSP_RETURN_IF_ERROR(Status(tensor.status));
    MSP_ASSIGN_OR_RETURN(const kd::OverflowRecord record, kd::ReadOverflowRecord(tensor.data));
    for (const std::string& warning : record.warnings) {
      result_.warnings.push_back(fmt::format("{}: {}", part.what, warning));
    }
    part.data_type = "overflow record";
    part.path = OutputPath(fmt::format("{}.{}.json", dump_.name, part.what));
    return base::WriteFileAtomically(part.path, kd::OverflowJson(record));
  }

  // The plain format that is asked for; nothing for the layout of the device.
  std::optional<uint32_t> Wanted(const kd::DumpedTensor& tensor) const {
    if (format_) {
      return format_;
    }
    if (options_.to_original && !kd::IsPlainFormat(tensor.format)) {
      return kd::NaturalPlainFormat(tensor.format,
                                    tensor.original_shape ? tensor.original_shape->size() : 0);
    }
    return std::nullopt;
  }

  Status ConvertTensor(const kd::DumpedTensor& tensor, Converted& part) {
    part.data_type = kd::DataTypeName(tensor.data_type);
    part.device_format = kd::FormatName(tensor.format);
    MSP_ASSIGN_OR_RETURN(const kd::PlainTensor plain, kd::ToPlain(tensor, kUnpackLimit));
    if (plain.is_opaque) {
      result_.warnings.push_back(
          fmt::format("{}: elements of {} are written as bytes", part.what, part.data_type));
    }
    const std::optional<uint32_t> wanted = Wanted(tensor);
    // "4-d formats whose shape has other than 4 axes" are ND for the Python tool, too.
    uint32_t from = tensor.format;
    const size_t rank = plain.view.shape.size();
    if (wanted &&
        (from == kd::format::kNCHW || from == kd::format::kNHWC || from == kd::format::kHWCN) &&
        rank != 4) {
      from = kd::format::kND;
    }
    if (!wanted || plain.is_opaque || from == *wanted) {
      part.format = part.device_format;
      part.shape = plain.view.shape;
      part.path = OutputPath(NameOf(part, wanted.has_value(), plain.view.dtype));
      return WriteArray(part.path, options_.kind, plain.view);
    }
    const Shape* target = options_.shape ? &*options_.shape
                          : tensor.original_shape && !tensor.original_shape->empty()
                              ? &*tensor.original_shape
                              : nullptr;
    MSP_ASSIGN_OR_RETURN(const kd::Layout layout, kd::FindLayout({from, *wanted, tensor.groups(),
                                                                  &plain.view.shape, target}));
    part.format = kd::FormatName(*wanted);
    part.shape = layout.plain_shape;
    part.path = OutputPath(NameOf(part, true, plain.view.dtype));
    return WriteConverted(part.path, options_.kind, plain.view, layout);
  }

  // kernel_dump.h has the forms. The shape stands where a layout was asked for, as in the Python
  // tool.
  std::string NameOf(const Converted& part, bool with_shape, DType dtype) const {
    const std::string stem = fmt::format("{}.{}", dump_.name, part.what);
    if (options_.names == ArrayNames::kMindSpore && dump_.parsed) {
      const std::string_view rest = std::string_view(stem).substr(dump_.parsed->op_type.size() +
                                                                  dump_.parsed->op_name.size() + 1);
      const std::string_view path = result_.op_name;
      return fmt::format("{}.{}{}.{}.{}", dump_.parsed->op_type,
                         base::ReplaceAll(path.substr(path.rfind('/') + 1), ".", "_"), rest,
                         part.format, SuffixOf(options_.kind));
    }
    if (options_.kind == ArrayFile::kBin) {
      const bool counts = options_.names == ArrayNames::kVendor && !with_shape;
      return fmt::format(
          "{}.{}.{}.{}.bin", stem,
          counts ? fmt::format("{}", ElementCount(part.shape)) : SizesText(part.shape, "_"),
          DTypeName(dtype), part.format);
    }
    if (with_shape && !options_.to_original) {
      return fmt::format("{}.{}.{}", stem, SizesText(part.shape, "x"), SuffixOf(options_.kind));
    }
    return fmt::format("{}.{}", stem, SuffixOf(options_.kind));
  }

  void ConvertBytes(std::string_view what, const std::vector<kd::DumpedBytes>& parts) {
    for (size_t i = 0; i < parts.size(); ++i) {
      Converted part;
      part.what = fmt::format("{}.{}", what, i);
      part.status = parts[i].status;
      if (part.status.ok()) {
        part.path = OutputPath(fmt::format("{}.{}.bin", dump_.name, part.what));
        part.shape = {static_cast<int64_t>(parts[i].data.size())};
        part.status = WriteBytes(part.path, parts[i].data);
      }
      result_.parts.push_back(std::move(part));
    }
  }

  static Status WriteBytes(const std::filesystem::path& path, std::span<const std::byte> bytes) {
    MSP_ASSIGN_OR_RETURN(base::AtomicFile file, base::AtomicFile::Create(path));
    MSP_RETURN_IF_ERROR(file.Write(bytes));
    return file.Commit();
  }

  const Options& options_;
  const std::optional<uint32_t> format_;
  const DumpPath& dump_;
  FileResult& result_;
};

}  // namespace

uint64_t Findings::converted() const {
  uint64_t count = 0;
  for (const FileResult& file : files) {
    for (const Converted& part : file.parts) {
      count += part.status.ok() ? 1U : 0U;
    }
  }
  return count;
}

uint64_t Findings::failed_parts() const {
  uint64_t count = 0;
  for (const FileResult& file : files) {
    for (const Converted& part : file.parts) {
      count += part.status.ok() ? 0U : 1U;
    }
  }
  return count;
}

std::string Findings::FirstFailure() const {
  for (const FileResult& file : files) {
    if (!file.status.ok()) {
      return fmt::format("{}: {}", file.path.string(), file.status.message());
    }
    for (const Converted& part : file.parts) {
      if (!part.status.ok()) {
        return fmt::format("{}, {}: {}", file.path.string(), part.what, part.status.message());
      }
    }
  }
  return {};
}

uint64_t Findings::failed_files() const {
  return static_cast<uint64_t>(
      std::count_if(files.begin(), files.end(), [](const FileResult& file) {
        return !file.status.ok() ||
               std::any_of(file.parts.begin(), file.parts.end(),
                           [](const Converted& part) { return !part.status.ok(); });
      }));
}

Result<Findings> Run(const Options& options) {
  std::optional<uint32_t> format;
  if (!options.format.empty()) {
    format = kd::FindFormat(options.format);
    if (!format) {
      return UsageError(fmt::format("\"{}\" is not a layout", options.format))
          .WithHint("plain layouts are ND, NCHW, NHWC, HWCN, CHWN, NCDHW, NDHWC, DHWCN and DHWNC");
    }
  }
  Findings findings;
  std::vector<DumpPath> dumps;
  std::vector<DumpPath> statistics;
  for (const std::filesystem::path& input : options.inputs) {
    MSP_ASSIGN_OR_RETURN(std::vector<DumpPath> found,
                         FindDumpFiles(input, options.filter, findings.left_out, &statistics));
    std::move(found.begin(), found.end(), std::back_inserter(dumps));
  }
  if (dumps.empty() && statistics.empty()) {
    return NotFoundError(fmt::format("{}: no dump file",
                                     options.inputs.empty() ? "" : options.inputs[0].string()))
        .WithHint(
            "a kernel dump is called {op_type}.{op_name}.{task_id}.{stream_id}.{timestamp}, "
            "an ATB dump {name}.bin");
  }
  // Once each: looking at every level of a path costs more than a small file.
  std::set<std::string> folders;
  for (const DumpPath& dump : dumps) {
    if (folders.insert(dump.folder).second) {
      MSP_RETURN_IF_ERROR(base::CreateFolders(options.output / dump.folder));
    }
  }
  MSP_ASSIGN_OR_RETURN(base::SharedRun shared,
                       base::SharedRun::Join(options.output, "parse", base::TimestampNow()));
  std::vector<base::WorkUnit> units(dumps.size());
  if (shared.is_shared()) {
    std::transform(dumps.begin(), dumps.end(), units.begin(),
                   [](const DumpPath& dump) { return base::UnitOfFiles({dump.path}); });
  }
  std::vector<std::optional<FileResult>> results;
  MSP_RETURN_IF_ERROR(shared.ShareOut(
      units,
      [&](std::span<const size_t> places, const auto& give) {
        std::vector<size_t> mine(places.begin(), places.end());
        std::sort(mine.begin(), mine.end());
        std::vector<FileResult> found(mine.size());
        base::ThreadPool pool(
            std::clamp<size_t>(options.threads == 0 ? base::UsableCores() : options.threads, 1,
                               std::max<size_t>(mine.size(), 1)));
        std::vector<std::vector<std::byte>> scratch(pool.thread_count());
        base::FilesAhead ahead(mine.size(), [&](size_t item) {
          return std::vector<std::filesystem::path>{dumps[mine[item]].path};
        });
        base::Progress progress("converting", mine.size(), "files", false);
        pool.ParallelFor(mine.size(), [&](size_t item, size_t worker) {
          const DumpPath& dump = dumps[mine[item]];
          found[item].path = dump.path;
          found[item].status = FileConversion(options, format, dump, found[item])
                                   .Convert(scratch[worker], item, ahead);
          progress.Add(1, found[item].bytes);
        });
        for (size_t item = 0; item < mine.size(); ++item) {
          give(mine[item], std::move(found[item]));
        }
        return Status();
      },
      results));
  findings.reports = shared.answers();
  if (!findings.reports) {
    return findings;
  }
  for (size_t place = 0; place < results.size(); ++place) {
    if (results[place]) {
      findings.files.push_back(*std::move(results[place]));
    } else {
      FileResult& missing = findings.files.emplace_back();
      missing.path = dumps[place].path;
      missing.status = IoError(shared.WhyMissing(place));
    }
  }
  findings.missing =
      shared.Missing("files", [&](size_t place) { return dumps[place].path.string(); });
  for (const FileResult& file : findings.files) {
    findings.bytes += file.bytes;
    for (const Converted& part : file.parts) {
      // A result that exists: the command line is wrong, not the dump.
      MSP_RETURN_IF_ERROR(part.status.code() == StatusCode::kUsage ? part.status : Status());
    }
  }
  MSP_RETURN_IF_ERROR(MergeDeviceStatistics(options.output, statistics, findings));
  if (options.index) {
    MSP_ASSIGN_OR_RETURN(std::filesystem::path index, WriteIndex(options.output, findings));
    findings.written_beside.push_back(std::move(index));
  }
  return findings;
}

}  // namespace msprobe::analysis::kernel_dump
