#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "src/base/files.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/checkpoint/common/readers.h"
#include "src/io/coded/coded_tensor.h"
#include "src/io/contents.h"
#include "src/json/config.h"
#include "src/kernels/convert.h"
#include "src/tensor/tensor_buffer.h"

namespace msprobe::checkpoint {
namespace {

using json::Json;

constexpr std::string_view kAdapterConfigName = "adapter_config.json";
constexpr int64_t kMostRank = 65536;

// A matrix in memory: adapters are small.
struct Matrix {
  int64_t rows = 0;
  int64_t columns = 0;
  std::vector<float> values;

  float at(int64_t row, int64_t column) const {
    return values[static_cast<size_t>(row * columns + column)];
  }
};

Result<Matrix> LoadMatrix(const Parameter& parameter) {
  MSP_RETURN_IF_ERROR(parameter.status, parameter.name);
  Shape shape = parameter.shape;
  // Convolutions with a kernel of one are matrices.
  while (shape.size() > 2 && shape.back() == 1) {
    shape.pop_back();
  }
  if (shape.size() != 2) {
    return UnsupportedError(
        fmt::format("{} of shape {}: only adapters of linear layers and "
                    "embeddings are merged",
                    parameter.name, ShapeText(parameter.shape)));
  }
  if (parameter.pieces.size() != 1 || parameter.pieces.front().coded != nullptr) {
    return UnsupportedError(fmt::format("{} does not lie in one piece", parameter.name));
  }
  const TensorView& view = parameter.pieces.front().view;
  Matrix matrix{shape[0], shape[1], {}};
  std::vector<std::byte> stored(view.size_bytes());
  tensor::CopyElements(view, 0, view.element_count(), stored.data());
  matrix.values.resize(static_cast<size_t>(view.element_count()));
  kernels::WidenToFloat(view.dtype, stored, matrix.values);
  return matrix;
}

struct Update {
  Matrix left;   // rows of the weight by rank
  Matrix right;  // rank by columns of the weight
  double scale = 1;
  std::string kind;  // "LoRA", for notes
  // DoRA: the length of each row after merging.
  std::vector<float> magnitudes;
};

// The weight with the update. Nothing but the two small matrices is in memory.
class MergedWeight final : public io::CodedTensor {
 public:
  MergedWeight(const Piece& base, DType dtype, std::shared_ptr<const Update> update, double factor)
      : CodedTensor(base.view.shape, std::string(io::ShortDTypeName(dtype))),
        base_(base),
        dtype_(dtype),
        update_(std::move(update)),
        factor_(factor),
        norms_(std::make_shared<std::vector<std::atomic<float>>>(
            update_->magnitudes.empty() ? 0 : static_cast<size_t>(base.view.shape[0]))) {
    for (std::atomic<float>& norm : *norms_) {
      norm.store(-1, std::memory_order_relaxed);
    }
    if (base.coded != nullptr) {
      set_format(base.coded->format());
    }
  }

  void DecodeFrom(const ReadCodes* /*read*/, int64_t first, size_t count, DType partner,
                  float* values, float* bounds) const override {
    const int64_t columns = shape()[1];
    std::vector<double> sums;
    std::vector<double> sizes;
    std::vector<float> base_values;
    std::vector<float> base_bounds;
    while (count > 0) {
      const int64_t row = first / columns;
      const int64_t column = first % columns;
      const int64_t run = std::min(static_cast<int64_t>(count), columns - column);
      AddRow(row, column, run, sums, sizes, base_values, base_bounds);
      const double length =
          DirectionLength(row, sums.size() == static_cast<size_t>(columns) ? &sums : nullptr);
      for (int64_t i = 0; i < run; ++i) {
        const auto at = static_cast<size_t>(i);
        const double value = sums[at] * length;
        values[i] = static_cast<float>(value);
        if (bounds != nullptr) {
          bounds[i] = static_cast<float>(BoundOf(partner, base_values[at],
                                                 sums[at] - static_cast<double>(base_values[at]),
                                                 value, sizes[at], length) +
                                         static_cast<double>(base_bounds[at]) * std::fabs(length));
        }
      }
      values += run;
      bounds = bounds == nullptr ? nullptr : bounds + run;
      first += run;
      count -= static_cast<size_t>(run);
    }
  }

  std::vector<Reading> OtherReadings() const override {
    std::vector<Reading> readings;
    // A weight without its update; of DoRA neither is the direction scaled.
    auto bare = std::make_shared<Update>(*update_);
    bare->magnitudes.clear();
    readings.push_back(
        {"adapter_not_merged", std::make_shared<MergedWeight>(base_, dtype_, bare, 0)});
    if (!update_->magnitudes.empty()) {
      readings.push_back(
          {"adapter_scale", std::make_shared<MergedWeight>(base_, dtype_, bare, factor_)});
    }
    return readings;
  }

  uint64_t stored_bytes() const override {
    return base_.coded != nullptr
               ? base_.coded->stored_bytes()
               : static_cast<uint64_t>(base_.view.element_count()) * DTypeSize(base_.view.dtype);
  }

 private:
  // Elements of a row of the base in `base_values`; the sum with the update in `sums`; the sum of
  // the magnitudes of what was added in `sizes`.
  void AddRow(int64_t row, int64_t column, int64_t run, std::vector<double>& sums,
              std::vector<double>& sizes, std::vector<float>& base_values,
              std::vector<float>& base_bounds) const {
    const auto count = static_cast<size_t>(run);
    base_values.resize(count);
    base_bounds.assign(count, 0);
    ReadBase(row, column, run, base_values, base_bounds);
    sums.assign(base_values.begin(), base_values.end());
    sizes.assign(count, 0);
    if (factor_ == 0) {
      return;
    }
    const Matrix& right = update_->right;
    for (int64_t k = 0; k < right.rows; ++k) {
      const double weight =
          factor_ * update_->scale * static_cast<double>(update_->left.at(row, k));
      const double magnitude = std::fabs(weight);
      const float* values = right.values.data() + static_cast<size_t>(k * right.columns + column);
      for (size_t i = 0; i < count; ++i) {
        const double product = weight * static_cast<double>(values[i]);
        sums[i] += product;
        sizes[i] += magnitude * std::fabs(static_cast<double>(values[i]));
      }
    }
  }

  void ReadBase(int64_t row, int64_t column, int64_t run, std::vector<float>& values,
                std::vector<float>& bounds) const {
    const int64_t row_stride = base_.view.strides[0];
    const int64_t column_stride = base_.view.strides[1];
    if (base_.coded != nullptr) {
      for (int64_t i = 0; i < run;) {
        const int64_t length = column_stride == 1 ? run : 1;
        // Codes of a base are exact here: what was merged into them is what they stand for.
        base_.coded->Decode(base_.coded_first + row * row_stride + (column + i) * column_stride,
                            static_cast<size_t>(length), DType::kFloat32, values.data() + i,
                            nullptr);
        i += length;
      }
      std::fill(bounds.begin(), bounds.end(), 0.F);
      return;
    }
    TensorView view = base_.view;
    const size_t skipped =
        static_cast<size_t>(row * row_stride + column * column_stride) * DTypeSize(view.dtype);
    view.data += skipped;
    view.extent_bytes -= skipped;
    view.shape = {run};
    view.strides = {column_stride};
    thread_local std::vector<std::byte> stored;
    stored.resize(static_cast<size_t>(run) * DTypeSize(view.dtype));
    tensor::CopyElements(view, 0, run, stored.data());
    kernels::WidenToFloat(view.dtype, stored, values);
  }

  // DoRA: the magnitude of the row by the length of the sum, which takes the whole row.
  double DirectionLength(int64_t row, const std::vector<double>* whole) const {
    if (update_->magnitudes.empty()) {
      return 1;
    }
    std::atomic<float>& norm = (*norms_)[static_cast<size_t>(row)];
    float known = norm.load(std::memory_order_relaxed);
    if (known < 0) {
      std::vector<double> sums;
      if (whole == nullptr) {
        std::vector<double> sizes;
        std::vector<float> values;
        std::vector<float> bounds;
        AddRow(row, 0, shape()[1], sums, sizes, values, bounds);
        whole = &sums;
      }
      double square = 0;
      for (const double value : *whole) {
        square += value * value;
      }
      known = static_cast<float>(std::sqrt(square));
      norm.store(known, std::memory_order_relaxed);
    }
    const auto magnitude = static_cast<double>(update_->magnitudes[static_cast<size_t>(row)]);
    return known == 0 ? 0 : magnitude / static_cast<double>(known);
  }

  static double HalfGap(DType dtype, double value) {
    switch (dtype) {
      case DType::kBFloat16:
        return std::ldexp(std::max(std::fabs(value), 0x1p-126), -8);
      case DType::kFloat16:
        return std::ldexp(std::max(std::fabs(value), 0x1p-14), -11);
      default:
        return std::ldexp(std::max(std::fabs(value), 0x1p-126), -24);
    }
  }

  // What merging in the dtype of the partner may be off by: the update is rounded, the sum is, and
  // so is the product, whose terms are added up in float32 at least. A few units of the dtype.
  double BoundOf(DType partner, double base, double added, double value, double size,
                 double length) const {
    const double terms = static_cast<double>(update_->right.rows) + 2;
    const double sum =
        2 * HalfGap(partner, value) + HalfGap(partner, base) * std::fabs(length) +
        4 * HalfGap(partner, added) * std::fabs(length) +
        size * std::fabs(length) * terms * 0x1p-23 +
        (partner == DType::kBFloat16 || partner == DType::kFloat16
             ? size * std::fabs(length) * (partner == DType::kBFloat16 ? 0x1p-9 : 0x1p-12)
             : 0);
    // The length of a row in the dtype, and the quotient.
    return update_->magnitudes.empty() ? sum : sum + 4 * HalfGap(partner, value);
  }

  Piece base_;
  DType dtype_;
  std::shared_ptr<const Update> update_;
  double factor_;
  std::shared_ptr<std::vector<std::atomic<float>>> norms_;
};

struct AdapterConfig {
  double alpha = 8;
  int64_t rank = 8;
  bool by_root = false;  // rsLoRA
  bool transposed = false;
  bool has_directions = false;                         // DoRA
  std::vector<std::pair<std::string, double>> alphas;  // by the end of a module's name
  std::vector<std::pair<std::string, int64_t>> ranks;
};

Result<AdapterConfig> ReadConfig(const std::filesystem::path& folder) {
  MSP_ASSIGN_OR_RETURN(const json::Config file, json::LoadJsonConfig(folder / kAdapterConfigName));
  const Json& root = file.root();
  AdapterConfig config;
  const Json* kind = json::Find(root, "peft_type");
  if (kind != nullptr && kind->is_string() && json::TextOf(*kind) != "LORA") {
    return UnsupportedError(
        fmt::format("{}: an adapter of type {}: only LoRA, rsLoRA and DoRA are "
                    "merged",
                    folder.native(), json::TextOf(*kind)));
  }
  if (const Json* rank = json::Find(root, "r"); rank != nullptr && rank->is_number_integer()) {
    config.rank = json::IntOf(*rank);
  }
  if (const Json* alpha = json::Find(root, "lora_alpha"); alpha != nullptr && alpha->is_number()) {
    config.alpha = json::NumberOf(*alpha);
  }
  config.by_root = json::BoolOf(json::Member(root, "use_rslora"));
  config.transposed = json::BoolOf(json::Member(root, "fan_in_fan_out"));
  config.has_directions = json::BoolOf(json::Member(root, "use_dora"));
  if (const Json& pattern = json::Member(root, "alpha_pattern"); pattern.is_object()) {
    for (const auto& [name, value] : pattern.items()) {
      if (value.is_number()) {
        config.alphas.emplace_back(name, json::NumberOf(value));
      }
    }
  }
  if (const Json& pattern = json::Member(root, "rank_pattern"); pattern.is_object()) {
    for (const auto& [name, value] : pattern.items()) {
      if (value.is_number_integer()) {
        config.ranks.emplace_back(name, json::IntOf(value));
      }
    }
  }
  if (config.rank <= 0 || config.rank > kMostRank) {
    return BadFormatError(fmt::format("{}: a rank of {}", folder.native(), config.rank));
  }
  return config;
}

// The value for a module: its own where a pattern names it ("q_proj", "layers.0.q_proj"; '^' in
// front is left out).
template <typename Value>
Value For(std::string_view module, const std::vector<std::pair<std::string, Value>>& patterns,
          Value fallback) {
  for (const auto& [pattern, value] : patterns) {
    std::string_view name = pattern;
    if (name.starts_with('^')) {
      name.remove_prefix(1);
    }
    if (module == name || module.ends_with("." + std::string(name))) {
      return value;
    }
  }
  return fallback;
}

struct Parts {
  const Parameter* a = nullptr;
  const Parameter* b = nullptr;
  const Parameter* magnitude = nullptr;
  bool is_embedding = false;
};

// "base_model.model.X" -> "X".
std::string_view WithoutWrapper(std::string_view name) {
  for (const std::string_view prefix : {"base_model.model.", "base_model."}) {
    if (name.starts_with(prefix)) {
      return name.substr(prefix.size());
    }
  }
  return name;
}

// What a tensor of an adapter is and the module it belongs to.
void Sort(const Parameter& tensor, std::map<std::string, Parts>& modules,
          std::vector<std::pair<std::string, const Parameter*>>& whole) {
  const std::string_view name = WithoutWrapper(tensor.name);
  struct Mark {
    std::string_view text;
    const Parameter* Parts::*part;
    bool is_embedding;
  };
  constexpr Mark kMarks[] = {{".lora_A", &Parts::a, false},
                             {".lora_B", &Parts::b, false},
                             {".lora_embedding_A", &Parts::a, true},
                             {".lora_embedding_B", &Parts::b, true},
                             {".lora_magnitude_vector", &Parts::magnitude, false}};
  for (const Mark& mark : kMarks) {
    const size_t at = name.rfind(mark.text);
    if (at == std::string_view::npos) {
      continue;
    }
    const std::string_view rest = name.substr(at + mark.text.size());
    if (!rest.empty() && rest.front() != '.') {
      continue;
    }
    Parts& parts = modules[std::string(name.substr(0, at))];
    parts.*mark.part = &tensor;
    parts.is_embedding = parts.is_embedding || mark.is_embedding;
    return;
  }
  std::string of_base = base::ReplaceAll(std::string(name), ".modules_to_save", "");
  whole.emplace_back(base::ReplaceAll(of_base, ".base_layer", ""), &tensor);
}

Matrix Turned(const Matrix& source) {
  Matrix turned{source.columns, source.rows, std::vector<float>(source.values.size())};
  for (int64_t row = 0; row < source.rows; ++row) {
    for (int64_t column = 0; column < source.columns; ++column) {
      turned.values[static_cast<size_t>(column * source.rows + row)] = source.at(row, column);
    }
  }
  return turned;
}

Result<Parameter> Merged(const Parameter& base, const std::string& module, const Parts& parts,
                         const AdapterConfig& config) {
  MSP_RETURN_IF_ERROR(base.status);
  if (parts.a == nullptr || parts.b == nullptr) {
    return BadFormatError(
        fmt::format("its adapter has no {}", parts.a == nullptr ? "lora_A" : "lora_B"));
  }
  auto update = std::make_shared<Update>();
  MSP_ASSIGN_OR_RETURN(Matrix a, LoadMatrix(*parts.a));
  MSP_ASSIGN_OR_RETURN(Matrix b, LoadMatrix(*parts.b));
  const int64_t rank = a.rows;
  if (b.columns != rank) {
    return BadFormatError(fmt::format("lora_A of shape {} and lora_B of shape {} do not fit",
                                      ShapeText(parts.a->shape), ShapeText(parts.b->shape)));
  }
  const int64_t stated = For(module, config.ranks, config.rank);
  const double alpha = For(module, config.alphas, config.alpha);
  update->scale = alpha / (config.by_root ? std::sqrt(static_cast<double>(stated))
                                          : static_cast<double>(stated));
  const bool turned = parts.is_embedding || config.transposed;
  update->left = turned ? Turned(a) : std::move(b);
  update->right = turned ? Turned(b) : std::move(a);
  if (base.shape.size() != 2 || update->left.rows != base.shape[0] ||
      update->right.columns != base.shape[1]) {
    return BadFormatError(fmt::format("its shape {} and an adapter of shapes {} and {} do not fit",
                                      ShapeText(base.shape), ShapeText(parts.b->shape),
                                      ShapeText(parts.a->shape)));
  }
  if (base.pieces.size() != 1) {
    return UnsupportedError("a weight in several pieces cannot be merged with an adapter");
  }
  update->kind = config.by_root ? "rsLoRA" : "LoRA";
  if (parts.magnitude != nullptr) {
    if (turned || parts.magnitude->element_count() != base.shape[0] ||
        parts.magnitude->pieces.size() != 1) {
      return UnsupportedError(fmt::format("DoRA with magnitudes of shape {} for a weight of {}",
                                          ShapeText(parts.magnitude->shape),
                                          ShapeText(base.shape)));
    }
    const TensorView& view = parts.magnitude->pieces.front().view;
    std::vector<std::byte> stored(view.size_bytes());
    tensor::CopyElements(view, 0, view.element_count(), stored.data());
    update->magnitudes.resize(static_cast<size_t>(view.element_count()));
    kernels::WidenToFloat(view.dtype, stored, update->magnitudes);
    update->kind = "DoRA";
  }
  const std::string kind = update->kind;
  const double scale = update->scale;
  Parameter merged = MakeParameter(
      base.name, std::make_shared<MergedWeight>(base.pieces.front(), base.dtype, update, 1.0));
  merged.notes = base.notes;
  merged.notes.push_back(
      fmt::format("merged with an adapter: {}, rank {}, scale {:.6g}", kind, rank, scale));
  return merged;
}

}  // namespace

std::optional<std::pair<std::filesystem::path, std::filesystem::path>> SplitAtAdapter(
    const std::filesystem::path& path) {
  const std::string text = path.string();
  if (base::Exists(path)) {
    return std::nullopt;
  }
  for (size_t at = text.rfind('+'); at != std::string::npos && at > 0;
       at = at == 0 ? std::string::npos : text.rfind('+', at - 1)) {
    std::filesystem::path first = text.substr(0, at);
    std::filesystem::path second = text.substr(at + 1);
    if (base::Exists(first) && !second.empty() && base::Exists(second)) {
      return std::pair(std::move(first), std::move(second));
    }
  }
  return std::nullopt;
}

Status MergeAdapter(const std::filesystem::path& folder, const Options& options, Checkpoint& base) {
  const std::filesystem::path place = base::IsFolder(folder) ? folder : folder.parent_path();
  if (!base::Exists(place / kAdapterConfigName)) {
    return NotFoundError(fmt::format("{}: no {} beside the adapter, which says how strong it is",
                                     place.native(), kAdapterConfigName));
  }
  MSP_ASSIGN_OR_RETURN(const AdapterConfig config, ReadConfig(place));
  MSP_ASSIGN_OR_RETURN(Checkpoint adapter, OpenCheckpoint(folder, options));
  std::map<std::string, Parts> modules;
  std::vector<std::pair<std::string, const Parameter*>> whole;
  for (const Parameter& tensor : adapter.parameters) {
    Sort(tensor, modules, whole);
  }
  std::unordered_map<std::string, size_t> places;
  for (size_t i = 0; i < base.parameters.size(); ++i) {
    places.emplace(base.parameters[i].name, i);
  }
  // The base may be saved with or without the model's own prefix.
  const auto find = [&](const std::string& name) {
    for (const std::string& candidate :
         {name, name.starts_with("model.") ? name.substr(6) : "model." + name}) {
      if (const auto found = places.find(candidate); found != places.end()) {
        return found;
      }
    }
    return places.end();
  };
  for (const auto& [module, parts] : modules) {
    const auto found = find(module + ".weight");
    if (found == places.end()) {
      return MismatchError(fmt::format("{}: the adapter changes {}.weight, which {} does not have",
                                       folder.native(), module, base.path.native()));
    }
    Parameter& parameter = base.parameters[found->second];
    Result<Parameter> merged = Merged(parameter, module, parts, config);
    if (merged.ok()) {
      parameter = *std::move(merged);
    } else {
      parameter.status = merged.status();
      parameter.pieces.clear();
    }
  }
  const size_t first_file = base.files.size();
  for (const auto& [name, tensor] : whole) {
    // Embeddings that have an adapter are saved beside it, as they were.
    if (name.ends_with(".weight") && modules.contains(name.substr(0, name.size() - 7))) {
      continue;
    }
    Parameter replaced = *tensor;
    replaced.name = name;
    for (Piece& piece : replaced.pieces) {
      piece.file = piece.file == kNoFile ? kNoFile : piece.file + first_file;
    }
    replaced.notes.emplace_back("of the adapter, which holds it as a whole");
    if (const auto found = find(name); found != places.end()) {
      replaced.name = base.parameters[found->second].name;
      base.parameters[found->second] = std::move(replaced);
    } else {
      base.parameters.push_back(std::move(replaced));
    }
  }
  for (TensorFile& file : adapter.files) {
    base.files.push_back(std::move(file));
  }
  base.warnings.insert(base.warnings.end(), adapter.warnings.begin(), adapter.warnings.end());
  base.path += "+" + adapter.path.string();
  return {};
}

}  // namespace msprobe::checkpoint
