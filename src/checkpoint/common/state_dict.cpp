#include "src/checkpoint/common/state_dict.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/io/contents.h"
#include "src/io/torch_rebuild.h"

namespace msprobe::checkpoint {
namespace {

constexpr const char* kTrackerName = "latest_checkpointed_iteration.txt";
constexpr std::string_view kIterationPrefix = "iter_";
constexpr std::string_view kRelease = "release";
constexpr size_t kShortestIteration = 7;  // digits
constexpr uint64_t kLongestTracker = 4096;

std::optional<int64_t> IterationOfName(std::string_view name) {
  if (!name.starts_with(kIterationPrefix) ||
      name.size() < kIterationPrefix.size() + kShortestIteration) {
    return std::nullopt;
  }
  return base::ParseInt(name.substr(kIterationPrefix.size()));
}

// The existing iterations, for the hint of an error.
std::string IterationsIn(const std::filesystem::path& root) {
  std::vector<std::string> found;
  if (const auto names = base::ListFolder(root); names.ok()) {
    for (const std::string& name : *names) {
      if (name == kRelease || name.starts_with(kIterationPrefix)) {
        found.push_back(name);
      }
    }
  }
  constexpr size_t kShown = 5;
  const size_t count = found.size();
  if (count > kShown) {
    found.erase(found.begin(), found.end() - kShown);
    return fmt::format("there are {} iterations, the last ones {}; pass one of them", count,
                       base::Join(found, ", "));
  }
  return found.empty() ? "the folder has no iter_* folder at all"
                       : fmt::format("there is {}; pass that folder", base::Join(found, ", "));
}

}  // namespace

Result<IterationFolder> FindIterationFolder(const std::filesystem::path& root) {
  const std::filesystem::path tracker = root / kTrackerName;
  if (!base::Exists(tracker)) {
    // "iter_0000005/" has an empty last component.
    const std::filesystem::path named = base::WithoutLastSlash(root);
    return IterationFolder{root, IterationOfName(named.filename().native())};
  }
  MSP_ASSIGN_OR_RETURN(const std::string text, base::ReadTextFile(tracker, kLongestTracker));
  const std::string_view word = base::Trim(text);
  IterationFolder result;
  if (word == kRelease) {
    result.folder = root / kRelease;
  } else {
    result.iteration = base::ParseInt(word);
    if (!result.iteration || *result.iteration < 0) {
      return BadFormatError(fmt::format("{}: \"{}\" is neither an iteration nor \"release\"",
                                        tracker.native(), base::Printable(word.substr(0, 50))))
          .WithHint(IterationsIn(root));
    }
    result.folder = root / fmt::format("{}{:07}", kIterationPrefix, *result.iteration);
  }
  if (!base::IsFolder(result.folder)) {
    return NotFoundError(fmt::format("{} names the folder {}, which does not exist",
                                     tracker.native(), result.folder.filename().native()))
        .WithHint(IterationsIn(root));
  }
  return result;
}

namespace {

// Anywhere among the keys.
constexpr std::string_view kOptimizerKeys[] = {
    "optimizer",        "optimizers",       "optimizer_state_dict",
    "optimizer_states", "optimizer_state",  "optim",
    "optims",           "optim_state",      "optim_state_dict",
    "opt_state",        "optimizer_groups", "param_groups",
};
constexpr std::string_view kBookkeepingKeys[] = {
    // as the first key
    "rng_state", "rng_states", "rng_tracker_states", "random_rng_state", "np_rng_state",
    "torch_rng_state", "cuda_rng_state", "npu_rng_state", "lr_scheduler", "lr_schedulers",
    "opt_param_scheduler", "scheduler", "grad_scaler", "loss_scaler", "scaler", "amp", "args",
    "dataloader", "train_state",
    // MindSpore: one entry per parameter, "moments.NAME".
    "moments", "moment1", "moment2", "adam_m", "adam_v", "accum", "accu_grads"};
constexpr std::string_view kBookkeepingNames[] = {
    // as the whole name
    "step", "epoch", "iteration", "global_step", "step_num", "epoch_num", "beta1_power",
    "beta2_power", "learning_rate", "lr", "momentum", "weight_decay", "loss_scale", "scale_sense",
    "scale_sense.loss_scale", "current_iterator_step", "last_overflow_iterator_step",
    "has_trained_epoches", "has_trained_steps",
    // Megatron
    "checkpoint_version", "num_floating_point_operations_so_far"};
// As the last key: what optimizers keep per parameter.
constexpr std::string_view kStateKeys[] = {
    "exp_avg",      "exp_avg_sq", "max_exp_avg_sq", "momentum_buffer",
    "master_param", "fp32_param", "_extra_state",
};

// "rng_state/shard_0_1" -> "rng_state": how sharded objects are named.
std::string_view WithoutShard(std::string_view key) { return key.substr(0, key.find('/')); }

}  // namespace

bool IsOptimizerState(std::string_view name) {
  if (base::IsOneOf(name, kBookkeepingNames)) {
    return true;
  }
  const std::vector<std::string_view> keys = base::Split(name, '.');
  return base::IsOneOf(WithoutShard(keys.front()), kBookkeepingKeys) ||
         base::IsOneOf(WithoutShard(keys.back()), kStateKeys) ||
         std::any_of(keys.begin(), keys.end(),
                     [](std::string_view key) { return base::IsOneOf(key, kOptimizerKeys); });
}

namespace {

struct Number {
  DType dtype = DType::kFloat64;
  double real = 0;
  int64_t integer = 0;
};

std::optional<Number> ParseNumber(std::string_view text) {
  if (text == "True" || text == "False") {
    return Number{DType::kInt64, 0, text == "True" ? 1 : 0};
  }
  if (const std::optional<int64_t> integer = base::ParseInt(text)) {
    return Number{DType::kInt64, static_cast<double>(*integer), *integer};
  }
  if (const std::optional<double> real = base::ParseDouble(text)) {
    return Number{DType::kFloat64, *real, 0};
  }
  return std::nullopt;
}

// One number, or a list or tuple of them.
std::vector<Number> ParseNumbers(std::string_view text, bool* is_list) {
  *is_list = text.size() > 1 && (text.front() == '(' || text.front() == '[');
  std::vector<Number> numbers;
  if (!*is_list) {
    if (const std::optional<Number> number = ParseNumber(text)) {
      numbers.push_back(*number);
    }
    return numbers;
  }
  for (std::string_view part : base::Split(text.substr(1, text.size() - 2), ',')) {
    part = base::Trim(part);
    if (part.empty()) {
      continue;  // "(1,)"
    }
    const std::optional<Number> number = ParseNumber(part);
    if (!number) {
      return {};
    }
    numbers.push_back(*number);
  }
  return numbers;
}

Parameter MakeNumbers(const std::string& name, const std::vector<Number>& numbers, bool is_list) {
  bool real = false;
  for (const Number& number : numbers) {
    real = real || number.dtype == DType::kFloat64;
  }
  auto memory = std::make_shared<std::vector<std::byte>>(numbers.size() * sizeof(double));
  for (size_t i = 0; i < numbers.size(); ++i) {
    std::byte* out = memory->data() + i * sizeof(double);
    if (real) {
      std::memcpy(out, &numbers[i].real, sizeof(double));
    } else {
      std::memcpy(out, &numbers[i].integer, sizeof(int64_t));
    }
  }
  TensorView view;
  view.dtype = real ? DType::kFloat64 : DType::kInt64;
  view.shape = is_list ? Shape{static_cast<int64_t>(numbers.size())} : Shape{};
  view.strides = ContiguousStrides(view.shape);
  view.data = memory->data();
  view.extent_bytes = memory->size();
  Parameter parameter = MakeParameter(name, view, kNoFile);
  for (Piece& piece : parameter.pieces) {
    piece.memory = memory;
  }
  return parameter;
}

}  // namespace

void AddOptimizerNumbers(const std::vector<NamedScalar>& scalars, Checkpoint& checkpoint) {
  std::unordered_set<std::string> taken;
  for (const Parameter& parameter : checkpoint.parameters) {
    taken.insert(parameter.name);
  }
  for (const NamedScalar& scalar : scalars) {
    const std::string name = base::Join(scalar.path, ".");
    // "params" lists which parameters a group has, by numbers of the optimizer's own.
    if (scalar.path.empty() || scalar.path.back() == "params" || !IsOptimizerState(name) ||
        !taken.insert(name).second) {
      continue;
    }
    bool is_list = false;
    const bool is_text = scalar.type == "str";
    const std::vector<Number> numbers =
        is_text ? std::vector<Number>() : ParseNumbers(scalar.text, &is_list);
    if (numbers.empty()) {
      checkpoint.settings.push_back({name, scalar.text});
    } else {
      checkpoint.parameters.push_back(MakeNumbers(name, numbers, is_list));
    }
  }
}

namespace {

// Levels that hold a model, the likeliest first.
constexpr std::string_view kModelLevels[] = {"model", "state_dict", "model_state_dict", "module",
                                             "app",   "net",        "generator_model",  "network"};
// Levels of a module that was saved as a whole: they are not part of a parameter's name.
constexpr std::string_view kModuleLevels[] = {"_modules", "_parameters", "_buffers"};
constexpr size_t kMostLevels = 4;
constexpr size_t kNamesShown = 3;
constexpr std::string_view kNameOfBareTensor = "tensor";

using Path = std::vector<std::string>;

bool Below(const Path& path, std::span<const std::string> levels) {
  return path.size() > levels.size() && std::equal(levels.begin(), levels.end(), path.begin());
}

// "model0", "model1", ...: stages of virtual pipelines, whose parameters have equal names.
bool IsNumberedModel(std::string_view key) {
  constexpr std::string_view kModel = "model";
  return key.starts_with(kModel) && key.size() > kModel.size() &&
         std::all_of(key.begin() + kModel.size(), key.end(),
                     [](unsigned char c) { return std::isdigit(c) != 0; });
}

bool IsOptimizerPath(const Path& path) { return IsOptimizerState(base::Join(path, ".")); }

// The keys above the model. The first may have neighbours of all kinds, further ones may not.
Path FindModelLevel(std::span<const Path> paths) {
  Path levels;
  while (levels.size() < kMostLevels) {
    const auto has_level = [&](const Path& path, std::string_view level) {
      return Below(path, levels) && path.size() > levels.size() + 1 &&
             path[levels.size()] == level && !IsOptimizerPath(path);
    };
    std::string_view found;
    for (const std::string_view level : kModelLevels) {
      if (found.empty() && std::any_of(paths.begin(), paths.end(),
                                       [&](const Path& path) { return has_level(path, level); })) {
        found = level;
      }
    }
    const bool alone = std::all_of(paths.begin(), paths.end(), [&](const Path& path) {
      return !Below(path, levels) || has_level(path, found) || IsOptimizerPath(path);
    });
    if (found.empty() || (!levels.empty() && !alone)) {
      break;
    }
    levels.emplace_back(found);
  }
  return levels;
}

std::string NameBelow(const Path& path, size_t levels) {
  std::string name;
  for (size_t i = levels; i < path.size(); ++i) {
    const bool of_module = std::find(std::begin(kModuleLevels), std::end(kModuleLevels), path[i]) !=
                           std::end(kModuleLevels);
    if (of_module && i + 1 < path.size()) {
      continue;
    }
    if (!name.empty()) {
      name.push_back('.');
    }
    name += path[i];
  }
  return name.empty() ? std::string(kNameOfBareTensor) : name;
}

// The rectangle that begins at element `first` of a row-major tensor and holds as many of the next
// `count` elements as one can. At most two per axis cover any run of elements.
Piece LongestPieceAt(const TensorView& whole, int64_t first, int64_t count) {
  Piece piece;
  piece.offset.assign(whole.shape.size(), 0);
  piece.view.dtype = whole.dtype;
  piece.view.shape.assign(whole.shape.size(), 1);
  piece.view.strides = whole.strides;
  bool inner_is_whole = true;
  for (size_t axis = whole.shape.size(); axis-- > 0;) {
    const int64_t stride = whole.strides[axis];
    piece.offset[axis] = first / stride % whole.shape[axis];
    if (inner_is_whole && stride <= count) {
      piece.view.shape[axis] = std::min(whole.shape[axis] - piece.offset[axis], count / stride);
      inner_is_whole = piece.view.shape[axis] == whole.shape[axis];
    } else {
      inner_is_whole = false;
    }
  }
  return piece;
}

// A tensor whose elements follow each other in several places.
Parameter ParameterOfSlices(const NamedTensor& tensor, size_t file) {
  Parameter parameter;
  parameter.dtype = tensor.view.dtype;
  parameter.shape = tensor.view.shape;
  int64_t first = 0;
  for (std::span<const std::byte> slice : tensor.slices) {
    while (!slice.empty()) {
      Piece piece = LongestPieceAt(tensor.view, first,
                                   static_cast<int64_t>(slice.size() / DTypeSize(parameter.dtype)));
      piece.file = file;
      piece.view.data = slice.data();
      piece.view.extent_bytes = piece.view.size_bytes();
      slice = slice.subspan(piece.view.extent_bytes);
      first += piece.view.element_count();
      parameter.pieces.push_back(std::move(piece));
    }
  }
  return parameter;
}

// The numbers that the integers stand for; how they do so is described in the notes.
Parameter DequantizedParameter(const NamedTensor& tensor, io::ReadBudget& budget) {
  constexpr size_t kLimitBytes = size_t{4} << 30U;
  // Its integers may repeat, and so may its names; and without any element it has scales.
  TensorView floats = tensor.view;
  floats.dtype = DType::kFloat32;
  TensorView scales;
  scales.dtype = DType::kFloat64;
  scales.shape = {static_cast<int64_t>(tensor.quantization->scales.size())};
  scales.extent_bytes = tensor.view.extent_bytes;
  Status status = budget.Take(floats);
  if (status.ok()) {
    status = budget.Take(scales);
  }
  Result<tensor::TensorBuffer> buffer =
      status.ok() ? io::Dequantize(tensor, kLimitBytes) : Result<tensor::TensorBuffer>(status);
  if (!buffer.ok()) {
    Parameter parameter;
    parameter.shape = tensor.view.shape;
    parameter.status = std::move(buffer).status();
    return parameter;
  }
  auto memory = std::make_shared<std::vector<std::byte>>(std::move(*buffer).TakeBytes());
  TensorView view;
  view.shape = tensor.view.shape;
  view.strides = ContiguousStrides(view.shape);
  view.data = memory->data();
  view.extent_bytes = memory->size();
  Parameter parameter = MakeParameter("", view, kNoFile);
  for (Piece& piece : parameter.pieces) {
    piece.memory = memory;
  }
  parameter.notes.push_back(fmt::format("{}, {}: its dequantised values are compared",
                                        tensor.quantization->dtype,
                                        io::QuantizationText(*tensor.quantization)));
  return parameter;
}

// Names for one warning: a few, and how many.
class NameList {
 public:
  void Add(const std::string& name) {
    if (++count_ <= kNamesShown) {
      shown_.push_back(name.substr(0, 200));
    }
  }
  void Warn(std::string_view what, std::vector<std::string>& warnings) const {
    if (count_ > 0) {
      warnings.push_back(fmt::format(
          "{}: {}{}", what, base::Join(shown_, ", "),
          count_ > kNamesShown ? fmt::format(" and {} more", count_ - kNamesShown) : ""));
    }
  }

 private:
  std::vector<std::string> shown_;
  size_t count_ = 0;
};

}  // namespace

StateEntry MakeStateEntry(const NamedTensor& tensor, size_t file, io::ReadBudget& memory) {
  StateEntry entry;
  entry.path = tensor.path;
  if (tensor.status.ok() && !tensor.slices.empty()) {
    entry.parameter = ParameterOfSlices(tensor, file);
    return entry;
  }
  if (tensor.status.ok() && tensor.quantization != nullptr) {
    entry.parameter = DequantizedParameter(tensor, memory);
    return entry;
  }
  if (tensor.status.ok() && tensor.coded != nullptr) {
    entry.parameter = MakeParameter("", tensor.coded);
    return entry;
  }
  if (tensor.status.ok()) {
    entry.parameter = MakeParameter("", tensor.view, file);
    if (!tensor.raw_dtype.empty()) {
      entry.parameter.raw_dtype = tensor.raw_dtype;
      entry.parameter.notes.push_back(
          fmt::format("{}: its bytes are compared, not its values", tensor.raw_dtype));
    }
    return entry;
  }
  entry.parameter.status = tensor.status;
  entry.parameter.dtype = tensor.view.dtype;
  // A refused tensor may have any shape.
  if (io::DenseBytes(tensor.view.shape, DTypeSize(tensor.view.dtype)).ok()) {
    entry.parameter.shape = tensor.view.shape;
  }
  return entry;
}

std::vector<std::string> NameParameters(std::span<const Path> paths, bool optimizer,
                                        std::vector<std::string>& warnings, bool whole_names) {
  const Path levels = whole_names ? Path() : FindModelLevel(paths);
  const bool numbered = !whole_names && levels.empty() &&
                        std::any_of(paths.begin(), paths.end(), [](const Path& path) {
                          return path.size() > 1 && IsNumberedModel(path.front());
                        });
  std::unordered_set<std::string> taken;
  NameList beside;
  NameList repeated;
  std::vector<std::string> names(paths.size());
  for (size_t i = 0; i < paths.size(); ++i) {
    const Path& path = paths[i];
    const bool is_model = numbered         ? IsNumberedModel(path.front())
                          : levels.empty() ? true
                                           : Below(path, levels);
    std::string name = NameBelow(path, is_model ? levels.size() : 0);
    if (IsOptimizerPath(path) || IsOptimizerState(name)) {
      if (!optimizer) {
        continue;
      }
      name = NameBelow(path, 0);
    } else if (!is_model) {
      beside.Add(name);
      continue;
    }
    if (taken.insert(name).second) {
      names[i] = std::move(name);
    } else {
      repeated.Add(name);
    }
  }
  const std::string level = numbered ? "model0" : base::Join(levels, ".");
  beside.Warn(fmt::format("left out, since \"{}\" holds the model", level), warnings);
  repeated.Warn("the same name occurs again and is left out", warnings);
  return names;
}

void AddParameters(std::vector<StateEntry> entries, bool optimizer, Checkpoint& checkpoint,
                   bool whole_names) {
  std::vector<Path> paths;
  paths.reserve(entries.size());
  for (StateEntry& entry : entries) {
    paths.push_back(std::move(entry.path));
  }
  std::vector<std::string> names =
      NameParameters(paths, optimizer, checkpoint.warnings, whole_names);
  for (size_t i = 0; i < entries.size(); ++i) {
    if (!names[i].empty()) {
      entries[i].parameter.name = std::move(names[i]);
      checkpoint.parameters.push_back(std::move(entries[i].parameter));
    }
  }
}

Status CheckNotEmpty(const Checkpoint& checkpoint, bool optimizer) {
  if (!checkpoint.parameters.empty()) {
    return {};
  }
  Status status = BadFormatError("no parameters of a model in it");
  if (!optimizer) {
    status.WithHint("optimizer states were left out; --optimizer takes them, too");
  }
  return status;
}

}  // namespace msprobe::checkpoint
