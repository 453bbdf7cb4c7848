// The sheets of the vendor's Excel result ...
#include "src/analysis/kernel_dump/vector_side.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <set>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "src/analysis/kernel_dump/dump_files.h"
#include "src/analysis/kernel_dump/numbers.h"
#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/io/contents.h"
#include "src/io/kernel_dump/format.h"
#include "src/io/kernel_dump/layout.h"
#include "src/json/document.h"

namespace msprobe::analysis::kernel_dump {
namespace {

namespace kd = io::kernel_dump;
using json::Json;

// Item number `index` of a list; null where there is none.
const Json& Item(const Json& list, size_t index) {
  static const Json kNull;
  const std::span<const Json> items = json::ItemsOf(list);
  return index < items.size() ? items[index] : kNull;
}

std::optional<int64_t> Integer(const Json& value) {
  return value.is_number_integer() ? std::optional<int64_t>(json::IntOf(value)) : std::nullopt;
}

std::optional<TensorPart> ReadPart(const Json& axes, size_t rank) {
  if (!axes.is_array() || axes.size() != rank) {
    return std::nullopt;
  }
  TensorPart part;
  for (const Json& range : axes) {
    const std::optional<int64_t> lower = Integer(json::Member(range, "lower"));
    const std::optional<int64_t> higher = Integer(json::Member(range, "higher"));
    if (!lower || !higher || *lower < 0 || *higher < *lower) {
      return std::nullopt;
    }
    part.lower.push_back(*lower);
    part.size.push_back(*higher - *lower);
  }
  return part;
}

bool Overlap(const TensorPart& a, const TensorPart& b) {
  for (size_t axis = 0; axis < a.lower.size(); ++axis) {
    if (a.lower[axis] >= b.lower[axis] + b.size[axis] ||
        b.lower[axis] >= a.lower[axis] + a.size[axis]) {
      return false;
    }
  }
  return true;
}

// The whole that the parts fill without gap or overlap.
std::optional<Shape> WholeOf(const std::vector<TensorPart>& parts) {
  Shape whole(parts[0].lower.size(), 0);
  for (const TensorPart& part : parts) {
    for (size_t axis = 0; axis < whole.size(); ++axis) {
      whole[axis] = std::max(whole[axis], part.lower[axis] + part.size[axis]);
    }
  }
  if (!io::DenseBytes(whole, 16).ok()) {
    return std::nullopt;
  }
  const int64_t wanted = ElementCount(whole);
  int64_t elements = 0;
  for (size_t i = 0; i < parts.size() && elements <= wanted; ++i) {
    elements += ElementCount(parts[i].size);
    for (size_t k = 0; k < i; ++k) {
      if (Overlap(parts[i], parts[k])) {
        return std::nullopt;
      }
    }
  }
  return elements == wanted ? std::optional<Shape>(std::move(whole)) : std::nullopt;
}

class SliceReader {
 public:
  SliceReader(const Json& tree, std::span<const kd::KernelDump* const> threads)
      : tree_(tree), threads_(threads) {}

  std::optional<std::vector<TensorSlices>> Read(bool is_output) const {
    const std::vector<kd::DumpedTensor>& first = TensorsOf(*threads_[0], is_output);
    const Json& cut = json::Member(tree_, is_output ? "outputCutList" : "inputCutList");
    const Json& slices =
        json::Member(tree_, is_output ? "output_tensor_slice" : "input_tensor_slice");
    std::vector<TensorSlices> all;
    for (size_t number = 0; number < first.size(); ++number) {
      TensorSlices& tensor = all.emplace_back();
      if (Integer(Item(cut, number)).value_or(1) == 0) {
        continue;
      }
      if (!ReadTensor(slices, is_output, number, tensor)) {
        return std::nullopt;
      }
    }
    return all;
  }

  static const std::vector<kd::DumpedTensor>& TensorsOf(const kd::KernelDump& dump,
                                                        bool is_output) {
    return is_output ? dump.outputs : dump.inputs;
  }

 private:
  bool ReadTensor(const Json& slices, bool is_output, size_t number, TensorSlices& tensor) const {
    std::vector<TensorPart> parts;
    for (size_t thread = 0; thread < threads_.size(); ++thread) {
      const kd::DumpedTensor& dumped = TensorsOf(*threads_[thread], is_output)[number];
      const kd::DataType* const type = kd::FindDataType(dumped.data_type);
      if (!dumped.shape || !kd::IsPlainFormat(dumped.format) ||
          (type != nullptr && type->packing == kd::Packing::kBits)) {
        return false;
      }
      std::optional<TensorPart> part =
          ReadPart(Item(Item(slices, thread), number), dumped.shape->size());
      if (!part || part->size != *dumped.shape) {
        return false;
      }
      parts.push_back(*std::move(part));
    }
    std::optional<Shape> whole = WholeOf(parts);
    if (!whole) {
      return false;
    }
    tensor.is_cut = true;
    tensor.whole = *std::move(whole);
    tensor.parts = std::move(parts);
    return true;
  }

  const Json& tree_;
  const std::span<const kd::KernelDump* const> threads_;
};

}  // namespace

std::optional<ThreadSlices> FindThreadSlices(std::span<const kd::KernelDump* const> threads) {
  if (threads.size() < 2 || threads.size() > kMostThreads || threads[0]->attributes.empty()) {
    return std::nullopt;
  }
  if (threads[0]->inputs.size() > kMostSlicedTensors ||
      threads[0]->outputs.size() > kMostSlicedTensors) {
    return std::nullopt;
  }
  for (const kd::KernelDump* thread : threads) {
    if (thread->inputs.size() != threads[0]->inputs.size() ||
        thread->outputs.size() != threads[0]->outputs.size()) {
      return std::nullopt;
    }
  }
  const Result<Json> tree = json::ParseDocument(threads[0]->attributes[0].second);
  if (!tree.ok() || !tree->is_object()) {
    return std::nullopt;
  }
  const std::optional<int64_t> told = Integer(json::Member(*tree, "slice_instance_num"));
  if (told && *told != static_cast<int64_t>(threads.size())) {
    return std::nullopt;  // the file of a thread is missing
  }
  const SliceReader reader(*tree, threads);
  std::optional<std::vector<TensorSlices>> inputs = reader.Read(false);
  std::optional<std::vector<TensorSlices>> outputs = reader.Read(true);
  return inputs && outputs ? std::optional<ThreadSlices>({*std::move(inputs), *std::move(outputs)})
                           : std::nullopt;
}

Result<tensor::TensorBuffer> PutTogether(const TensorSlices& slices,
                                         std::span<const TensorView> parts) {
  tensor::TensorBuffer whole(parts[0].dtype, slices.whole);
  const size_t element = DTypeSize(parts[0].dtype);
  const Shape strides = ContiguousStrides(slices.whole);
  for (size_t thread = 0; thread < parts.size(); ++thread) {
    const TensorView& part = parts[thread];
    if (part.dtype != parts[0].dtype) {
      return MismatchError(
          fmt::format("threads have {} and {}", DTypeName(parts[0].dtype), DTypeName(part.dtype)));
    }
    const Shape& lower = slices.parts[thread].lower;
    if (part.shape != slices.parts[thread].size) {
      return MismatchError(fmt::format("a thread has {}, its part is {}", ShapeText(part.shape),
                                       ShapeText(slices.parts[thread].size)));
    }
    if (part.element_count() == 0) {
      continue;
    }
    // Row by row of the last axis.
    const int64_t row = part.shape.empty() ? 1 : part.shape.back();
    const std::byte* from = part.bytes().data();
    for (int64_t done = 0; done < part.element_count(); done += row) {
      int64_t rest = done / row;
      int64_t place = part.shape.empty() ? 0 : lower.back();
      for (size_t axis = part.shape.size(); axis-- > 0;) {
        if (axis + 1 < part.shape.size()) {
          place += (lower[axis] + rest % part.shape[axis]) * strides[axis];
          rest /= part.shape[axis];
        }
      }
      std::memcpy(whole.mutable_bytes().data() + static_cast<size_t>(place) * element, from,
                  static_cast<size_t>(row) * element);
      from += static_cast<size_t>(row) * element;
    }
  }
  return whole;
}

namespace {

namespace fs = std::filesystem;

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
    // If the same array is in two folders, the first by name counts, whatever the order of the file
    // system.
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

// An operator that FFTS+ ran as threads, by type, name, task and stream, and which time it was.
using ThreadedRun = std::tuple<std::string, std::string, uint64_t, uint64_t, size_t>;
constexpr uint64_t kFftsPlus = 4;  // the kind of a task

// The threads of each run, by number.
std::map<ThreadedRun, std::map<uint64_t, size_t>> ThreadsOf(const std::vector<DumpPath>& dumps) {
  std::map<ThreadedRun, std::map<uint64_t, size_t>> runs;
  for (size_t i = 0; i < dumps.size(); ++i) {
    const std::optional<kd::DumpFileName>& name = dumps[i].parsed;
    if (name && name->task_type == kFftsPlus && name->thread_id && !name->is_overflow()) {
      ThreadedRun run(name->op_type, name->op_name, name->task_id, name->stream_id.value_or(0), 0);
      while (!runs[run].emplace(*name->thread_id, i).second) {
        ++std::get<4>(run);
      }
    }
  }
  return runs;
}

bool CanBeJoined(const VectorOperator& op) { return OpenOperator::Open(op).ok(); }

// The first thread of each run that can be put together, with the paths of the others; those of
// `joined` stand for no operator of their own.
std::map<size_t, std::vector<fs::path>> JoinThreads(const std::vector<DumpPath>& dumps,
                                                    std::set<size_t>& joined) {
  std::map<size_t, std::vector<fs::path>> further;
  for (const auto& [run, threads] : ThreadsOf(dumps)) {
    VectorOperator op;
    op.dump = dumps[threads.begin()->second].path;
    for (auto thread = std::next(threads.begin()); thread != threads.end(); ++thread) {
      op.further.push_back(dumps[thread->second].path);
    }
    if (!op.further.empty() && op.further.size() < kMostThreads && CanBeJoined(op)) {
      further[threads.begin()->second] = std::move(op.further);
      for (auto thread = std::next(threads.begin()); thread != threads.end(); ++thread) {
        joined.insert(thread->second);
      }
    }
  }
  return further;
}

}  // namespace

Result<std::vector<VectorOperator>> FindVectorOperators(const fs::path& path, bool join_threads) {
  uint64_t left_out = 0;
  MSP_ASSIGN_OR_RETURN(std::vector<DumpPath> dumps, FindDumpFiles(path, "", left_out));
  std::sort(dumps.begin(), dumps.end(), [](const DumpPath& a, const DumpPath& b) {
    const uint64_t left = a.parsed ? a.parsed->timestamp : 0;
    const uint64_t right = b.parsed ? b.parsed->timestamp : 0;
    return std::tie(left, a.path) < std::tie(right, b.path);
  });
  std::set<size_t> joined;
  std::map<size_t, std::vector<fs::path>> further;
  if (join_threads) {
    further = JoinThreads(dumps, joined);
  }
  std::vector<VectorOperator> operators;
  for (size_t i = 0; i < dumps.size(); ++i) {
    DumpPath& dump = dumps[i];
    if (dump.parsed && !dump.parsed->is_overflow() && joined.count(i) == 0) {
      VectorOperator& op = operators.emplace_back();
      if (const auto threads = further.find(i); threads != further.end()) {
        op.further = std::move(threads->second);
      }
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
  MSP_RETURN_IF_ERROR(open.OpenThread(op.dump));
  for (const std::filesystem::path& path : op.further) {
    MSP_RETURN_IF_ERROR(open.OpenThread(path));
  }
  if (!op.further.empty()) {
    std::vector<const kd::KernelDump*> dumps;
    for (const Thread& thread : open.threads_) {
      dumps.push_back(&thread.dump);
    }
    open.slices_ = FindThreadSlices(dumps);
    if (!open.slices_) {
      return MismatchError(
          fmt::format("{} and the files of {} other threads do not make up an "
                      "operator",
                      op.dump.string(), op.further.size()));
    }
  }
  return open;
}

Status OpenOperator::OpenThread(const std::filesystem::path& path) {
  Thread thread;
  MSP_ASSIGN_OR_RETURN(thread.file, base::FileBytes::Open(path));
  MSP_ASSIGN_OR_RETURN(thread.dump, kd::ReadKernelDump(thread.file.bytes()), path.string());
  threads_.push_back(std::move(thread));
  return {};
}

size_t OpenOperator::count(bool outputs) const {
  if (is_dump_) {
    return outputs ? threads_[0].dump.outputs.size() : threads_[0].dump.inputs.size();
  }
  return outputs && !arrays_.empty() ? arrays_.rbegin()->first + 1 : 0;
}

bool OpenOperator::has(bool outputs, size_t number) const {
  return is_dump_ ? number < count(outputs) : outputs && arrays_.count(number) > 0;
}

std::vector<size_t> OpenOperator::NumbersFrom(bool outputs, size_t first) const {
  std::vector<size_t> numbers;
  if (is_dump_) {
    for (size_t number = first; number < count(outputs); ++number) {
      numbers.push_back(number);
    }
  } else if (outputs) {
    for (auto array = arrays_.lower_bound(first); array != arrays_.end(); ++array) {
      numbers.push_back(array->first);
    }
  }
  return numbers;
}

const kd::DumpedTensor* OpenOperator::dumped(bool outputs, size_t number) const {
  if (!is_dump_ || number >= count(outputs)) {
    return nullptr;
  }
  return outputs ? &threads_[0].dump.outputs[number] : &threads_[0].dump.inputs[number];
}

bool OpenOperator::is_joined(bool outputs, size_t number) const {
  return slices_ && number < count(outputs) && slices_->of(outputs, number).is_cut;
}

Result<tensor::TensorBuffer> OpenOperator::AsFrameworkKnows(bool outputs, size_t number) const {
  if (is_joined(outputs, number)) {
    std::vector<tensor::TensorBuffer> parts;
    std::vector<TensorView> views;
    for (const Thread& thread : threads_) {
      MSP_ASSIGN_OR_RETURN(
          parts.emplace_back(),
          ReadPlainTensor(outputs ? thread.dump.outputs[number] : thread.dump.inputs[number]));
      views.push_back(parts.back().view());
    }
    return PutTogether(slices_->of(outputs, number), views);
  }
  if (is_dump_) {
    return ReadPlainTensor(*dumped(outputs, number));
  }
  MSP_ASSIGN_OR_RETURN(const NamedTensor* tensor, arrays_.at(number).Single());
  return tensor::MakeContiguous(tensor->view, kMostPlainBytes);
}

Status OpenOperator::Check() const {
  for (const Thread& thread : threads_) {
    MSP_RETURN_IF_ERROR(base::CheckMappedFile(thread.file.bytes()));
  }
  return {};
}

}  // namespace msprobe::analysis::kernel_dump
