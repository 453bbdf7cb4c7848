// With W the weights of the finer side, E the error of the coarser one and x what a module was
// given, the ranking is by |E x| / |W x|, Frobenius norms over all tokens that were recorded. Rows
// of W and E are read in blocks and multiplied together, so that neither is ever whole in memory. A
// dump of statistics holds |x| and the norm of the output only; then |E| |x| / |y| bounds the
// effect from above. Without a dump the ranking is by |E| / |W|.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "msprobe/tensor_file.h"

#include "src/analysis/ckpt/block_sums.h"
#include "src/analysis/ckpt/ckpt.h"
#include "src/analysis/ckpt/compare_pairs.h"
#include "src/dump/dump_file.h"
#include "src/dump/layout.h"
#include "src/dump/names.h"
#include "src/kernels/element_pairs.h"
#include "src/kernels/matrix_product.h"

namespace msprobe::analysis::ckpt {
namespace {

namespace fs = std::filesystem;

// Tokens that are multiplied, spread over those of a call, and elements of them in memory.
constexpr int64_t kMostTokens = 512;
constexpr int64_t kMostTokenElements = int64_t{1} << 24U;
// Elements of a block of rows of W; E takes as many.
constexpr int64_t kRowBlockElements = int64_t{1} << 20U;
constexpr int64_t kMostRowsOfBlock = 128;

// What a module was given in one call, and how large its answer was.
struct Call {
  fs::path input_file;  // empty: statistics only
  std::optional<double> input_norm;
  std::optional<double> output_norm;
  std::string shape;
};

// Calls by the path of their module, found by the end of a path as well: wrappers and models put
// parts in front of either name.
class ModuleCalls {
 public:
  void Add(std::string_view path, Call call) {
    std::vector<Call>& calls = by_path_[std::string(path)];
    calls.push_back(std::move(call));
    if (calls.size() > 1) {
      return;
    }
    for (size_t dot = path.find('.'); dot != std::string_view::npos;
         dot = path.find('.', dot + 1)) {
      const auto [end, is_new] = by_end_.emplace(path.substr(dot + 1), path);
      if (!is_new) {
        end->second.clear();  // of several modules
      }
    }
  }

  const std::vector<Call>* Find(const std::string& module) const {
    if (const auto found = by_path_.find(module); found != by_path_.end()) {
      return &found->second;
    }
    if (const auto end = by_end_.find(module); end != by_end_.end() && !end->second.empty()) {
      return &by_path_.at(end->second);
    }
    for (size_t dot = module.find('.'); dot != std::string::npos; dot = module.find('.', dot + 1)) {
      const auto found = by_path_.find(module.substr(dot + 1));
      if (found != by_path_.end() && found->first.find('.') != std::string::npos) {
        return &found->second;
      }
    }
    return nullptr;
  }

 private:
  std::unordered_map<std::string, std::vector<Call>> by_path_;
  std::unordered_map<std::string, std::string> by_end_;  // empty: more than one module ends so
};

std::optional<double> NormIn(const dump::EntryTree& tree, uint32_t index) {
  const uint32_t norm = tree.Find(index, dump::KeyOf(dump::kNorm));
  if (norm == dump::EntryTree::kNone ||
      (tree[norm].kind != dump::NodeKind::kFloat && tree[norm].kind != dump::NodeKind::kInt)) {
    return std::nullopt;
  }
  const double value = tree[norm].number;
  return std::isfinite(value) && value >= 0 ? std::optional(value) : std::nullopt;
}

// The modules' calls of the first step and rank.
Result<ModuleCalls> ReadCalls(const fs::path& path) {
  MSP_ASSIGN_OR_RETURN(const dump::DumpLayout layout, dump::FindDump(path));
  const auto first = std::find_if(layout.ranks.begin(), layout.ranks.end(),
                                  [](const dump::RankFolder& rank) { return rank.has_dump; });
  if (first == layout.ranks.end()) {
    return NotFoundError(fmt::format("{} has no {}", path.string(), dump::kDumpFileName));
  }
  const fs::path folder = first->folder;
  const fs::path file =
      folder / (layout.is_single_file ? layout.single_file_name : dump::kDumpFileName);
  ModuleCalls calls;
  dump::LeafWalker walker;
  dump::ReadOptions options;
  options.allow_truncated = true;
  const Result<dump::DumpHeader> header =
      dump::ReadDumpFile(file, options, [&](std::string_view name, const dump::EntryTree& tree) {
        const dump::EntryName parts = dump::ParseEntryName(name);
        if (!parts.is_module || parts.direction != dump::Direction::kForward) {
          return Status();
        }
        Call call;
        walker.ForEach(name, tree, [&](std::string_view leaf, uint32_t index) {
          if (!dump::IsTensorLeaf(tree, index)) {
            return;
          }
          if (leaf.ends_with(".input.0")) {
            call.input_norm = NormIn(tree, index);
            const std::string_view data_name = dump::LeafText(tree, index, "data_name");
            if (!data_name.empty() && dump::CheckDataName(data_name).ok()) {
              call.input_file = folder / dump::kTensorFolderName / data_name;
            }
          } else if (leaf.ends_with(".output.0") || leaf.ends_with(".output")) {
            call.output_norm = NormIn(tree, index);
          }
        });
        if (!call.input_file.empty() || call.input_norm) {
          calls.Add(parts.subject, std::move(call));
        }
        return Status();
      });
  MSP_RETURN_IF_ERROR(header.status());
  return calls;
}

const std::vector<Call>* CallsOf(const ModuleCalls& calls, const MatchedPair& pair) {
  constexpr std::string_view kWeight = ".weight";
  for (const std::string* name : {&pair.name, &pair.a.name, &pair.b.name}) {
    if (!name->ends_with(kWeight)) {
      continue;
    }
    const std::vector<Call>* found = calls.Find(name->substr(0, name->size() - kWeight.size()));
    if (found != nullptr) {
      return found;
    }
  }
  return nullptr;
}

// Tokens of one call, [tokens][columns].
struct Tokens {
  std::vector<double> values;
  int64_t count = 0;
};

Result<Tokens> ReadTokens(const fs::path& path, int64_t columns) {
  MSP_ASSIGN_OR_RETURN(const TensorFile file, TensorFile::Open(path, TensorFile::Options()));
  if (file.tensors().size() != 1 || !file.tensors().front().status.ok() ||
      file.tensors().front().coded != nullptr) {
    return BadFormatError(fmt::format("{} does not hold one tensor", path.string()));
  }
  const TensorView& view = file.tensors().front().view;
  if (view.shape.empty() || view.shape.back() != columns || view.element_count() == 0) {
    return BadFormatError(fmt::format("the input {} has shape {}, the weights have {} columns",
                                      path.filename().string(), ShapeText(view.shape), columns));
  }
  Tokens tokens;
  const int64_t all = view.element_count() / columns;
  tokens.count = std::min({all, kMostTokens, std::max<int64_t>(kMostTokenElements / columns, 1)});
  tokens.values.reserve(static_cast<size_t>(tokens.count * columns));
  kernels::NumberReader<double> reader(view);
  for (int64_t i = 0; i < tokens.count; ++i) {
    const std::span<const double> row = reader.Read(
        static_cast<size_t>(i * all / tokens.count * columns), static_cast<size_t>(columns));
    tokens.values.insert(tokens.values.end(), row.begin(), row.end());
  }
  if (!std::all_of(tokens.values.begin(), tokens.values.end(),
                   [](double value) { return std::isfinite(value); })) {
    return BadFormatError(
        fmt::format("the input {} has values that are not finite", path.filename().string()));
  }
  return tokens;
}

// Sums of squares of E x and W x.
struct Effect {
  double error = 0;
  double output = 0;
};

// `weights_are_b`: the second side is W, the other one W + E.
Result<Effect> EffectOf(const MatchedPair& pair, bool weights_are_b,
                        const std::vector<Tokens>& inputs, base::ThreadPool& pool) {
  MSP_ASSIGN_OR_RETURN(const std::vector<Box> boxes, Refine(pair.a, pair.b));
  const int64_t rows = pair.a.shape[0];
  const int64_t columns = pair.a.shape[1];
  const int64_t height = std::clamp<int64_t>(kRowBlockElements / columns, 1, kMostRowsOfBlock);
  BlockScratch scratch;
  Effect effect;
  std::vector<double> stacked;  // rows of W, then those of E
  std::vector<double> product;
  for (int64_t first = 0; first < rows; first += height) {
    const int64_t block_rows = std::min(height, rows - first);
    stacked.assign(static_cast<size_t>(2 * block_rows * columns), 0);
    for (const Box& box : boxes) {
      const int64_t width = box.a.shape[1];
      const int64_t begin = std::max(first, box.offset[0]);
      const int64_t end = std::min(first + block_rows, box.offset[0] + box.a.shape[0]);
      for (int64_t row = begin; row < end; ++row) {
        for (int64_t done = 0; done < width;) {
          const int64_t count =
              std::min(width - done, static_cast<int64_t>(tensor::kSumBlockElements));
          const auto [a, b] =
              DoublesOfBlock(box, (row - box.offset[0]) * width + done, count, scratch);
          double* weights = stacked.data() + (row - first) * columns + box.offset[1] + done;
          double* errors = weights + block_rows * columns;
          for (int64_t i = 0; i < count; ++i) {
            const auto at = static_cast<size_t>(i);
            weights[i] = weights_are_b ? b[at] : a[at];
            errors[i] = (weights_are_b ? a[at] : b[at]) - weights[i];
          }
          done += count;
        }
      }
    }
    for (const Tokens& input : inputs) {
      product.resize(static_cast<size_t>(2 * block_rows * input.count));
      kernels::MultiplyMatrices(
          static_cast<size_t>(2 * block_rows), static_cast<size_t>(input.count),
          static_cast<size_t>(columns), {stacked.data(), static_cast<size_t>(columns), 1},
          {input.values.data(), 1, static_cast<size_t>(columns)}, product.data(), pool);
      const auto half = static_cast<size_t>(block_rows * input.count);
      for (size_t i = 0; i < half; ++i) {
        effect.output += product[i] * product[i];
        effect.error += product[half + i] * product[half + i];
      }
    }
  }
  return effect;
}

double Ratio(double error, double whole) {
  return error == 0   ? 0
         : whole == 0 ? std::numeric_limits<double>::infinity()
                      : std::sqrt(error / whole);
}

void AddEffect(const MatchedPair& pair, const std::vector<Call>* calls, bool weights_are_b,
               base::ThreadPool& pool, Sensitivity& row) {
  if (calls == nullptr) {
    row.why_no_effect = "the dump has no call of its module";
    return;
  }
  if (pair.a.shape.size() != 2) {
    row.why_no_effect = "not a matrix";
    return;
  }
  std::vector<Tokens> inputs;
  double input_square = 0;
  double output_square = 0;
  for (const Call& call : *calls) {
    if (!call.input_file.empty()) {
      Result<Tokens> tokens = ReadTokens(call.input_file, pair.a.shape[1]);
      if (!tokens.ok()) {
        row.why_no_effect = tokens.status().message();
        continue;
      }
      row.tokens += static_cast<uint64_t>(tokens->count);
      inputs.push_back(*std::move(tokens));
      if (static_cast<int64_t>(row.tokens) >= kMostTokens) {
        break;
      }
    } else if (call.input_norm && call.output_norm) {
      input_square += *call.input_norm * *call.input_norm;
      output_square += *call.output_norm * *call.output_norm;
    }
  }
  if (!inputs.empty()) {
    const Result<Effect> effect = EffectOf(pair, weights_are_b, inputs, pool);
    if (!effect.ok()) {
      row.why_no_effect = effect.status().message();
      return;
    }
    row.why_no_effect.clear();
    row.basis = "recorded";
    row.effect_error = effect->error;
    row.effect_output = effect->output;
  } else if (input_square > 0) {
    row.basis = "at most";
    row.effect_error = row.error_square * input_square;
    row.effect_output = output_square;
  } else if (row.why_no_effect.empty()) {
    row.why_no_effect = "the dump has neither its input nor the norms of input and output";
  }
  if (!row.basis.empty()) {
    row.effect = Ratio(row.effect_error, row.effect_output);
  }
}

bool IsCodedSide(const checkpoint::Parameter& side) {
  return !side.pieces.empty() && side.pieces.front().coded != nullptr;
}

// By effect, those without one behind, by the error of the weights.
bool IsMoreSensitive(const Sensitivity& x, const Sensitivity& y) {
  if (x.effect.has_value() != y.effect.has_value()) {
    return x.effect.has_value();
  }
  return x.effect ? *x.effect > *y.effect : x.relative_error > y.relative_error;
}

}  // namespace

Status RankSensitivity(std::span<const MatchedPair> pairs, const fs::path& activations,
                       base::ThreadPool& pool, Comparison& comparison) {
  ModuleCalls calls;
  if (!activations.empty()) {
    MSP_ASSIGN_OR_RETURN(calls, ReadCalls(activations));
  }
  comparison.with_sensitivity = true;
  comparison.activations = activations;
  double total = 0;
  for (size_t i = 0; i < pairs.size() && i < comparison.pairs.size(); ++i) {
    const PairResult& result = comparison.pairs[i];
    const MatchedPair& pair = pairs[i];
    const bool coded_a = IsCodedSide(pair.a);
    const bool coded_b = IsCodedSide(pair.b);
    if (!result.computed() || result.has_non_finite() || !(coded_a || coded_b) ||
        pair.a.shape.size() < 2 || result.sums.finite.element_count == 0) {
      continue;
    }
    const bool weights_are_b = coded_a || !coded_b;
    Sensitivity row;
    row.name = result.name;
    row.layer = LayerOf(result.name);
    row.format = weights_are_b ? result.format_a : result.format_b;
    row.error_square = result.sums.finite.difference_square_sum;
    row.weight_square =
        weights_are_b ? result.sums.finite.bench_square_sum : result.sums.finite.npu_square_sum;
    row.relative_error = Ratio(row.error_square, row.weight_square);
    total += row.error_square;
    if (!activations.empty()) {
      AddEffect(pair, CallsOf(calls, pair), weights_are_b, pool, row);
    }
    comparison.sensitivity.push_back(std::move(row));
  }
  for (Sensitivity& row : comparison.sensitivity) {
    row.share = total == 0 ? 0 : row.error_square / total;
  }
  std::stable_sort(comparison.sensitivity.begin(), comparison.sensitivity.end(), IsMoreSensitive);
  // Layers: the sums of their parameters.
  std::vector<Sensitivity>& layers = comparison.sensitivity_of_layers;
  std::unordered_map<std::string, size_t> places;
  for (const Sensitivity& row : comparison.sensitivity) {
    const auto [place, added] = places.emplace(row.layer, layers.size());
    if (added) {
      layers.emplace_back().name = row.layer;
    }
    Sensitivity& layer = layers[place->second];
    layer.error_square += row.error_square;
    layer.weight_square += row.weight_square;
    layer.share += row.share;
    if (row.effect && (layer.basis.empty() || layer.basis == row.basis)) {
      layer.basis = row.basis;
      layer.effect_error += row.effect_error;
      layer.effect_output += row.effect_output;
    }
  }
  for (Sensitivity& layer : layers) {
    layer.relative_error = Ratio(layer.error_square, layer.weight_square);
    if (!layer.basis.empty()) {
      layer.effect = Ratio(layer.effect_error, layer.effect_output);
    }
  }
  std::stable_sort(layers.begin(), layers.end(), IsMoreSensitive);
  return {};
}

report::Table SensitivityTable(const Comparison& comparison) {
  report::Table table("sensitivity", {"Parameter", "Format", "Relative error", "Share of error",
                                      "Effect on output", "Basis", "Tokens"});
  for (const Sensitivity& row : comparison.sensitivity) {
    table.AddRow({table.KeepText(row.name), table.KeepText(row.format),
                  report::Cell::Number(row.relative_error), report::Cell::Number(row.share),
                  row.effect ? report::Cell::Number(*row.effect) : report::Cell(),
                  table.KeepText(row.effect ? row.basis : row.why_no_effect),
                  row.tokens > 0 ? report::Cell::Integer(static_cast<int64_t>(row.tokens))
                                 : report::Cell()});
  }
  return table;
}

void PutSensitivity(json::Writer& writer, const Comparison& comparison) {
  const auto put = [&](std::string_view key, const std::vector<Sensitivity>& rows,
                       bool of_parameters) {
    writer.Key(key);
    writer.BeginArray();
    for (const Sensitivity& row : rows) {
      writer.BeginObject();
      writer.Member("name", row.name);
      if (of_parameters) {
        writer.Member("format", row.format);
      }
      writer.Member("relative_error", row.relative_error);
      writer.Member("share_of_error", row.share);
      writer.Key("effect_on_output");
      if (row.effect) {
        writer.Float(*row.effect);
      } else {
        writer.Null();
      }
      writer.Member("basis", row.basis);
      if (of_parameters) {
        writer.Member("tokens", row.tokens);
        writer.Member("note", row.why_no_effect);
      }
      writer.EndObject();
    }
    writer.EndArray();
  };
  writer.Key("sensitivity");
  writer.BeginObject();
  writer.Member("activations", comparison.activations.string());
  put("layers", comparison.sensitivity_of_layers, false);
  put("parameters", comparison.sensitivity, true);
  writer.EndObject();
}

}  // namespace msprobe::analysis::ckpt
