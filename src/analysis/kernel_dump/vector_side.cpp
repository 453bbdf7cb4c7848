#include "src/analysis/kernel_dump/vector_side.h"

#include <algorithm>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/kernel_dump/dump_files.h"
#include "src/analysis/kernel_dump/plain_tensor.h"
#include "src/base/files.h"
#include "src/base/number_text.h"
#include "src/base/path_kind.h"
#include "src/base/strings.h"

namespace msprobe::analysis::kernel_dump {
namespace {

namespace fs = std::filesystem;
namespace kd = io::kernel_dump;

std::optional<uint64_t> NumberOf(std::string_view text) {
  const std::optional<int64_t> number = base::ParseInt(text);
  return number && *number >= 0 ? std::optional<uint64_t>(static_cast<uint64_t>(*number))
                                : std::nullopt;
}

// {op_name}.{output}.{time}.npy, as a run of the original model is saved.
struct ArrayName {
  std::string op_name;
  size_t output = 0;
  uint64_t time = 0;
};
std::optional<ArrayName> ParseArrayName(const std::string& name) {
  const std::vector<std::string_view> fields = base::Split(name, '.');
  if (fields.size() != 4 || fields[3] != "npy" || fields[0].empty()) {
    return std::nullopt;
  }
  const std::optional<uint64_t> output = NumberOf(fields[1]);
  const std::optional<uint64_t> time = NumberOf(fields[2]);
  if (!output || !time || *output >= kd::kMostKernelTensors) {
    return std::nullopt;
  }
  return ArrayName{std::string(fields[0]), static_cast<size_t>(*output), *time};
}

Result<std::vector<VectorOperator>> FindArrays(const fs::path& folder) {
  std::map<std::pair<std::string, uint64_t>, VectorOperator> found;
  std::error_code error;
  for (auto entry = fs::recursive_directory_iterator(
           folder, fs::directory_options::skip_permission_denied, error);
       !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    const std::optional<ArrayName> name = ParseArrayName(entry->path().filename().string());
    std::error_code ignored;
    if (!name || entry->is_symlink(ignored) || !entry->is_regular_file(ignored)) {
      continue;
    }
    VectorOperator& op = found[{name->op_name, name->time}];
    op.name = name->op_name;
    op.time = name->time;
    // Of the same array in two folders the first by name, whatever the order of the file system.
    fs::path& array = op.arrays[name->output];
    if (array.empty() || entry->path() < array) {
      array = entry->path();
    }
  }
  if (error) {
    return IoError(fmt::format("cannot list {}: {}", folder.string(), error.message()));
  }
  std::vector<VectorOperator> operators;
  for (auto& [key, op] : found) {
    operators.push_back(std::move(op));
  }
  return operators;
}

}  // namespace

Result<std::vector<VectorOperator>> FindVectorOperators(const fs::path& path) {
  uint64_t left_out = 0;
  MSP_ASSIGN_OR_RETURN(std::vector<DumpPath> dumps, FindDumpFiles(path, "", left_out));
  std::vector<VectorOperator> operators;
  for (DumpPath& dump : dumps) {
    if (dump.parsed && !dump.parsed->is_overflow()) {
      VectorOperator& op = operators.emplace_back();
      op.name = dump.parsed->op_name;
      op.op_type = dump.parsed->op_type;
      op.time = dump.parsed->timestamp;
      op.dump = std::move(dump.path);
    }
  }
  if (operators.empty() && base::IsFolder(path)) {
    MSP_ASSIGN_OR_RETURN(operators, FindArrays(path));
  }
  if (operators.empty()) {
    return NotFoundError(fmt::format("{} holds no kernel dump", path.string()))
        .WithHint(
            "a dump is called {op_type}.{op_name}.{task}.{stream}.{time}, an array of the "
            "reference {op_name}.{output}.{time}.npy");
  }
  std::stable_sort(
      operators.begin(), operators.end(),
      [](const VectorOperator& a, const VectorOperator& b) { return a.time < b.time; });
  return operators;
}

Result<OpenOperator> OpenOperator::Open(const VectorOperator& op) {
  OpenOperator open;
  if (op.dump.empty()) {
    for (const auto& [output, path] : op.arrays) {
      MSP_ASSIGN_OR_RETURN(TensorFile file, TensorFile::Open(path));
      open.arrays_.emplace(output, std::move(file));
    }
    return open;
  }
  open.is_dump_ = true;
  MSP_ASSIGN_OR_RETURN(open.file_, base::FileBytes::Open(op.dump));
  MSP_ASSIGN_OR_RETURN(open.dump_, kd::ReadKernelDump(open.file_.bytes()), op.dump.string());
  return open;
}

size_t OpenOperator::count(bool outputs) const {
  if (is_dump_) {
    return outputs ? dump_.outputs.size() : dump_.inputs.size();
  }
  return outputs && !arrays_.empty() ? arrays_.rbegin()->first + 1 : 0;
}

bool OpenOperator::has(bool outputs, size_t number) const {
  return is_dump_ ? number < count(outputs) : outputs && arrays_.count(number) > 0;
}

const kd::DumpedTensor* OpenOperator::dumped(bool outputs, size_t number) const {
  if (!is_dump_ || number >= count(outputs)) {
    return nullptr;
  }
  return outputs ? &dump_.outputs[number] : &dump_.inputs[number];
}

Result<tensor::TensorBuffer> OpenOperator::AsFrameworkKnows(bool outputs, size_t number) const {
  if (is_dump_) {
    return ReadPlainTensor(*dumped(outputs, number));
  }
  MSP_ASSIGN_OR_RETURN(const NamedTensor* tensor, arrays_.at(number).Single());
  return tensor::MakeContiguous(tensor->view, kMostPlainBytes);
}

Status OpenOperator::Check() const {
  return is_dump_ ? base::CheckMappedFile(file_.bytes()) : Status();
}

}  // namespace msprobe::analysis::kernel_dump
