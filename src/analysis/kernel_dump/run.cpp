#include "src/analysis/kernel_dump/run.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "msprobe/tensor_file.h"

#include "src/analysis/kernel_dump/array_writer.h"
#include "src/analysis/kernel_dump/device_statistics.h"
#include "src/analysis/kernel_dump/dump_files.h"
#include "src/analysis/kernel_dump/index_file.h"
#include "src/base/files.h"
#include "src/base/output_files.h"
#include "src/base/progress.h"
#include "src/base/strings.h"
#include "src/base/threads.h"
#include "src/io/kernel_dump/format.h"
#include "src/io/kernel_dump/dump_file.h"
#include "src/io/kernel_dump/layout.h"
#include "src/io/kernel_dump/overflow_record.h"

namespace msprobe::analysis::kernel_dump {
namespace {

namespace kd = io::kernel_dump;

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

  Status Convert() {
    MSP_ASSIGN_OR_RETURN(const base::FileBytes file, base::FileBytes::Open(dump_.path));
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

  // options.h has the forms. The shape stands where a layout was asked for, as in the Python tool.
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
  findings.files.resize(dumps.size());
  base::ThreadPool pool(
      std::clamp<size_t>(options.threads == 0 ? base::UsableCores() : options.threads, 1,
                         std::max<size_t>(dumps.size(), 1)));
  base::Progress progress("converting", dumps.size(), "files", false);
  pool.ParallelFor(dumps.size(), [&](size_t item, size_t) {
    FileResult& result = findings.files[item];
    result.path = dumps[item].path;
    result.status = FileConversion(options, format, dumps[item], result).Convert();
    progress.Add(1, result.bytes);
  });
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
