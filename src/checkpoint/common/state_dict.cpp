#include "src/checkpoint/common/state_dict.h"

#include <algorithm>
#include <cctype>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "src/base/strings.h"
#include "src/checkpoint/common/optimizer_names.h"
#include "src/io/dense_view.h"
#include "src/io/quantization.h"

namespace msprobe::checkpoint {
namespace {

// Levels that hold a model, the likeliest first.
constexpr std::string_view kModelLevels[] = {"model", "state_dict", "model_state_dict", "module",
                                             "app",   "net",        "generator_model",  "network"};
// Levels of a module that was saved as a whole: they are no part of a parameter's name.
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

// The numbers that the integers stand for; how they do so is told in the notes.
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
