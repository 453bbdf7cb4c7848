#include "src/analysis/compare/kernel/kernel_side.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/kernel_dump/plain_tensor.h"
#include "src/analysis/kernel_dump/statistics.h"
#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/dump/layout.h"
#include "src/io/kernel_dump/dump_file.h"

namespace msprobe::analysis::compare {
namespace {

namespace fs = std::filesystem;
namespace kd = io::kernel_dump;

constexpr std::string_view kStepFolder = "step";

// Only names that the runtime gives; other files in a folder are none of ours.
bool IsKernelFile(const kernel_dump::DumpPath& file) {
  return file.parsed && !file.parsed->is_overflow();
}

std::optional<int64_t> NumberOf(std::string_view text) {
  const std::optional<int64_t> value = base::ParseInt(text);
  return value && *value >= 0 && text.find_first_not_of("0123456789") == std::string_view::npos
             ? value
             : std::nullopt;
}

const kd::DumpedTensor* TensorOf(const kd::KernelDump& dump, size_t slot) {
  if (slot < dump.inputs.size()) {
    return &dump.inputs[slot];
  }
  slot -= dump.inputs.size();
  return slot < dump.outputs.size() ? &dump.outputs[slot] : nullptr;
}

struct TensorFacts {
  bool is_output = false;
  size_t number = 0;
  Status status;
  DType dtype = DType::kFloat32;
  Shape shape;
  kernels::TensorStats stats;
};

struct KernelFacts {
  std::string op_type;
  std::string op_name;
  std::vector<TensorFacts> tensors;
  std::vector<std::string> warnings;
  Status status;
};

void ReadTensors(const std::vector<kd::DumpedTensor>& tensors, bool are_outputs,
                 KernelFacts& facts) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    TensorFacts& tensor = facts.tensors.emplace_back();
    tensor.is_output = are_outputs;
    tensor.number = i;
    const Result<tensor::TensorBuffer> buffer = kernel_dump::ReadPlainTensor(tensors[i]);
    if (buffer.ok()) {
      tensor.dtype = buffer->view().dtype;
      tensor.shape = buffer->view().shape;
      tensor.stats = kernel_dump::StatisticsOf(buffer->view());
    } else {
      tensor.status = buffer.status();
    }
  }
}

Status ReadKernel(const fs::path& path, KernelFacts& facts) {
  MSP_ASSIGN_OR_RETURN(const base::FileBytes file, base::FileBytes::Open(path));
  MSP_ASSIGN_OR_RETURN(const kd::KernelDump dump, kd::ReadKernelDump(file.bytes()));
  if (!dump.op_name.empty()) {
    facts.op_name = dump.op_name;
  }
  facts.warnings = dump.warnings;
  ReadTensors(dump.inputs, false, facts);
  ReadTensors(dump.outputs, true, facts);
  return base::CheckMappedFile(file.bytes());
}

std::string WithoutDots(std::string text) {
  std::replace(text.begin(), text.end(), '.', '_');
  return text;
}

void AddRow(const std::string& entry_name, const TensorFacts& tensor, uint32_t entry, uint32_t slot,
            Side& side) {
  SideRow row;
  row.name = side.Keep(
      fmt::format("{}.{}.{}", entry_name, tensor.is_output ? "output" : "input", tensor.number));
  row.entry = entry;
  row.leaf = slot;
  row.state = tensor.is_output ? dump::RowState::kOutput : dump::RowState::kInput;
  row.api_name = row.name.substr(0, entry_name.size() + 1);
  row.is_tensor = true;
  row.type = "tensor";
  row.data_name = row.name;  // KernelTensors reads it, or says why it cannot be read
  row.dtype = "None";
  row.shape = "None";
  row.md5 = kNotApplicable;
  if (tensor.status.ok()) {
    row.dtype = DTypeName(tensor.dtype);
    row.shape = side.Intern(ShapeText(tensor.shape));
    const std::array<double, kStatCount> stats = {tensor.stats.max, tensor.stats.min,
                                                  tensor.stats.mean, tensor.stats.norm};
    for (size_t i = 0; i < kStatCount && tensor.stats.element_count > 0; ++i) {
      row.stats[i].kind = StatKind::kNumber;
      row.stats[i].number = stats[i];
    }
  } else {
    row.problem = side.Keep(tensor.status.message());
  }
  side.rows.push_back(row);
}

}  // namespace

bool LeadsToKernelDumps(const fs::path& path) {
  if (dump::FindDump(path).ok()) {
    return false;
  }
  return FindKernelRuns(path).ok();
}

Result<std::vector<KernelRun>> FindKernelRuns(const fs::path& path) {
  uint64_t left_out = 0;
  MSP_ASSIGN_OR_RETURN(std::vector<kernel_dump::DumpPath> files,
                       kernel_dump::FindDumpFiles(path, "", left_out));
  std::map<std::pair<std::optional<int64_t>, std::optional<int64_t>>, KernelRun> runs;
  for (kernel_dump::DumpPath& file : files) {
    if (!IsKernelFile(file)) {
      continue;
    }
    std::optional<int64_t> step;
    std::optional<int64_t> device;
    const fs::path place = fs::absolute(file.path).parent_path();
    for (const fs::path& part : place) {
      const std::string name = part.string();
      if (name.starts_with(kStepFolder)) {
        const std::optional<int64_t> number =
            NumberOf(std::string_view(name).substr(kStepFolder.size()));
        step = number ? number : step;
      }
    }
    device = NumberOf(place.filename().string());
    KernelRun& run = runs[{step, device}];
    if (run.files.empty()) {
      run.step = step;
      run.device = device;
      run.path = file.path.parent_path();
    }
    run.files.push_back(std::move(file));
  }
  if (runs.empty()) {
    return NotFoundError(fmt::format("{} holds no kernel dump", path.string()))
        .WithHint("their names are {op type}.{op name}.{task}.{stream}.{time}");
  }
  std::vector<KernelRun> sorted;
  for (auto& [key, run] : runs) {
    std::stable_sort(run.files.begin(), run.files.end(),
                     [](const kernel_dump::DumpPath& a, const kernel_dump::DumpPath& b) {
                       return std::pair(a.parsed->timestamp, a.parsed->task_id) <
                              std::pair(b.parsed->timestamp, b.parsed->task_id);
                     });
    sorted.push_back(std::move(run));
  }
  return sorted;
}

KernelSide LoadKernelSide(const KernelRun& run, base::ThreadPool& pool) {
  std::vector<KernelFacts> kernels(run.files.size());
  pool.ParallelFor(kernels.size(), [&](size_t i, size_t) {
    kernels[i].op_type = run.files[i].parsed->op_type;
    kernels[i].op_name = run.files[i].parsed->op_name;
    kernels[i].status = ReadKernel(run.files[i].path, kernels[i]);
  });
  KernelSide loaded;
  Side& side = loaded.side;
  side.json_path = run.path;
  side.tensor_folder = run.path;
  side.header.task = "tensor";
  side.header.level = "L2";
  side.header.has_data = true;
  std::map<std::string, uint64_t> occurrences;
  for (size_t i = 0; i < kernels.size(); ++i) {
    KernelFacts& kernel = kernels[i];
    if (!kernel.status.ok()) {
      side.warnings.push_back(
          fmt::format("{}: {}", run.files[i].path.string(), kernel.status.message()));
      // A row that says so: of a kernel that nobody can read nothing is equal.
      kernel.tensors.resize(1);
      kernel.tensors[0].is_output = true;
      kernel.tensors[0].status = kernel.status;
    }
    for (const std::string& warning : kernel.warnings) {
      side.warnings.push_back(fmt::format("{}: {}", run.files[i].path.string(), warning));
    }
    const std::string label =
        fmt::format("{}.{}", WithoutDots(kernel.op_type), WithoutDots(kernel.op_name));
    const std::string name = fmt::format("{}.{}.forward", label, occurrences[label]++);
    const auto entry = static_cast<uint32_t>(side.entries.size());
    side.entries.push_back({side.Keep(name), static_cast<uint32_t>(side.rows.size()),
                            static_cast<uint32_t>(kernel.tensors.size())});
    loaded.files.push_back(run.files[i].path);
    for (size_t slot = 0; slot < kernel.tensors.size(); ++slot) {
      AddRow(name, kernel.tensors[slot], entry, static_cast<uint32_t>(slot), side);
    }
  }
  side.header.entry_count = side.entries.size();
  return loaded;
}

Result<std::optional<tensor::TensorBuffer>> KernelTensors::Load(bool of_npu,
                                                                const SideRow& row) const {
  const KernelSide* const side = of_npu ? npu_ : bench_;
  if (side == nullptr) {
    return std::optional<tensor::TensorBuffer>();
  }
  const fs::path& path = side->files[row.entry];
  MSP_ASSIGN_OR_RETURN(const base::FileBytes file, base::FileBytes::Open(path));
  MSP_ASSIGN_OR_RETURN(const kd::KernelDump dump, kd::ReadKernelDump(file.bytes()), path.string());
  const kd::DumpedTensor* const dumped = TensorOf(dump, row.leaf);
  if (dumped == nullptr) {
    return MismatchError(fmt::format("{} changed while it was read", path.string()));
  }
  MSP_ASSIGN_OR_RETURN(tensor::TensorBuffer buffer, kernel_dump::ReadPlainTensor(*dumped),
                       path.string());
  MSP_RETURN_IF_ERROR(base::CheckMappedFile(file.bytes()));
  const auto wanted = side->shapes.find({row.entry, row.leaf});
  if (wanted == side->shapes.end()) {
    return std::optional(std::move(buffer));
  }
  TensorView view = buffer.view();
  if (view.element_count() != msprobe::ElementCount(wanted->second)) {
    return MismatchError(fmt::format("{} changed while it was read", path.string()));
  }
  view.shape = wanted->second;
  view.strides = ContiguousStrides(view.shape);
  MSP_ASSIGN_OR_RETURN(tensor::TensorBuffer reshaped,
                       tensor::MakeContiguous(view, kernel_dump::kMostPlainBytes));
  return std::optional(std::move(reshaped));
}

}  // namespace msprobe::analysis::compare
