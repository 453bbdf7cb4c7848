// Statistics of whole tensors from those of parts: the largest maximum, the smallest minimum, the
// average of the means, the root of the sum of squared norms. Equal statistics are those of copies
// and stay. Between a ColumnParallelLinear and the next RowParallelLinear all tensors are parts,
// equal or not, but for the inputs and outputs that these layers share by definition.
//
// Shapes of the whole follow from the layers: they divide known dimensions, and a tensor is known
// again elsewhere by what the first rank recorded of it. From there the dimension is followed
// through calls that keep, permute, reshape or cut the shape.
#include "src/analysis/graph/shard_merge.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/graph/items.h"
#include "src/analysis/graph/rank_groups.h"
#include "src/base/numbers.h"
#include "src/base/strings.h"
#include "src/dump/call_facts.h"
#include "src/layout/placement.h"

namespace msprobe::analysis::graph {
namespace {

constexpr std::string_view kColumnLayer = ".ColumnParallelLinear.";
constexpr std::string_view kRowLayer = ".RowParallelLinear.";
constexpr std::string_view kVocabularyLayer = ".VocabParallelEmbedding.";

// Empty: a scalar, or no shape.
Shape ShapeIn(std::string_view text) {
  std::optional<Shape> shape = ParseShape(text);
  const bool fits = shape && std::all_of(shape->begin(), shape->end(),
                                         [](int64_t size) { return size <= INT32_MAX; });
  return fits ? *std::move(shape) : Shape();
}

// Parts of equal rank along one dimension, in the order of the ranks.
layout::Placement PartsAlong(size_t dimension, size_t parts) {
  constexpr auto kAxis = static_cast<size_t>(layout::Axis::kTensor);
  layout::Placement placement;
  placement.grid[kAxis] = static_cast<int64_t>(parts);
  placement.spreads[kAxis].kind = layout::SpreadKind::kShard;
  placement.spreads[kAxis].dimension = static_cast<int64_t>(dimension);
  return placement;
}

bool Contains(std::string_view name, std::string_view word) {
  return name.find(word) != std::string_view::npos;
}

size_t Last(const Shape& shape) { return shape.size() - 1; }

// Product of the sizes in front of a dimension.
int64_t SizeBefore(const Shape& shape, size_t dimension) {
  int64_t size = 1;
  for (size_t i = 0; i < dimension; ++i) {
    if (__builtin_mul_overflow(size, shape[i], &size)) {
      return -1;
    }
  }
  return size;
}

// Where dimension `from` of a call's input is in its output, as far as the shapes decide.
std::optional<size_t> Follow(const Shape& in, size_t from, const Shape& out) {
  if (in == out) {
    return from;
  }
  Shape sorted_in = in;
  Shape sorted_out = out;
  std::sort(sorted_in.begin(), sorted_in.end());
  std::sort(sorted_out.begin(), sorted_out.end());
  if (sorted_in == sorted_out) {  // permuted
    if (std::count(in.begin(), in.end(), in[from]) != 1) {
      return std::nullopt;
    }
    return static_cast<size_t>(std::find(out.begin(), out.end(), in[from]) - out.begin());
  }
  if (SizeBefore(in, in.size()) == SizeBefore(out, out.size())) {  // reshaped: parts stay blocks
    const int64_t before = SizeBefore(in, from);
    for (size_t dimension = 0; dimension < out.size(); ++dimension) {
      if (out[dimension] > 1 && SizeBefore(out, dimension) == before) {
        return dimension;
      }
    }
    return std::nullopt;
  }
  if (in.size() == out.size()) {  // cut, or multiplied, along one dimension
    size_t differing = 0;
    for (size_t i = 0; i < in.size(); ++i) {
      differing += in[i] == out[i] ? 0 : 1;
    }
    if (differing == 1 && in[from] == out[from]) {
      return from;
    }
  }
  return std::nullopt;
}

class ShapeJoiner {
 public:
  explicit ShapeJoiner(MergedModel& whole) : whole_(whole) {}

  void JoinTensors() {
    const std::vector<uint32_t> order = whole_.graph.PostOrder();
    for (const uint32_t node : order) {
      JoinLayer(node);
    }
    for (const uint32_t node : order) {
      JoinWeights(node);
    }
    for (const uint32_t node : order) {
      PassOn(node);
    }
    for (const uint32_t node : order) {
      JoinSequence(node);
    }
    Finish();
  }

  void JoinSequences() {
    for (const MergedContent& content : whole_.contents) {
      if (!sequence_dimension_ && content.entry != kNone) {
        FindSequence(content);
      }
    }
    for (uint32_t node = 0; node < whole_.contents.size(); ++node) {
      JoinSequence(node);
    }
    Finish();
  }

 private:
  // The parts lie beside each other along a dimension: their sizes there add up.
  bool Join(uint32_t node, uint32_t row, size_t dimension) {
    MergedContent& content = whole_.contents[node];
    const auto parts = content.part_shapes.find(row);
    if (parts == content.part_shapes.end()) {
      return false;
    }
    std::vector<Shape> shapes;
    for (const std::string_view text : parts->second) {
      shapes.push_back(ShapeIn(text));
    }
    const Shape& first = shapes.front();
    const std::optional<Shape> made =
        layout::WholeShape(PartsAlong(dimension, shapes.size()), shapes);
    if (!made) {
      return false;
    }
    // Dimensions that tensor parallelism divided are whole already.
    const auto joined = content.shapes.find(row);
    Shape shape = joined == content.shapes.end() ? first : joined->second;
    const int64_t before = shape[dimension] / std::max<int64_t>(first[dimension], 1);
    if (__builtin_mul_overflow(before, (*made)[dimension], &shape[dimension])) {
      return false;
    }
    content.shapes[row] = std::move(shape);
    dimensions_.emplace(KeyOf(content, row), dimension);
    content.part_shapes.erase(parts);
    return true;
  }

  void JoinItem(uint32_t node, std::string_view item, bool last, size_t dimension = 0) {
    const MergedContent& content = whole_.contents[node];
    if (const std::optional<uint32_t> row = content.RowOf(item)) {
      const Shape shape = ShapeOf(content, *row);
      if (!shape.empty()) {
        Join(node, *row, last ? Last(shape) : dimension);
      }
    }
  }

  static Shape ShapeOf(const MergedContent& content, uint32_t row) {
    return ShapeIn(content.Source(row).shape);
  }

  // A tensor is known again by what the first rank recorded of it.
  static std::string KeyOf(const MergedContent& content, uint32_t row) {
    const compare::SideRow& about = content.Source(row);
    std::string key = fmt::format("{} {}", about.dtype, about.shape);
    for (const compare::StatValue& value : about.stats) {
      key += fmt::format(" {}", value.number);
    }
    return key;
  }

  // The tensors that these layers divide.
  void JoinLayer(uint32_t node) {
    const std::string_view name = whole_.graph.nodes[node].name;
    const MergedContent& content = whole_.contents[node];
    const bool is_column = Contains(name, kColumnLayer);
    const bool is_row = Contains(name, kRowLayer);
    const bool is_vocabulary = Contains(name, kVocabularyLayer);
    if (content.entry == kNone || (!is_column && !is_row && !is_vocabulary)) {
      return;
    }
    for (uint32_t row = 0; row < content.RowCount(); ++row) {
      const std::string_view item = content.ItemName(row);
      const dump::RowState state = content.Row(row).state;
      if (state == dump::RowState::kParameters || state == dump::RowState::kParametersGrad) {
        if (item.ends_with("weight") || (is_column && item.ends_with("bias"))) {
          Join(node, row, is_row ? 1 : 0);
        }
      }
    }
    if (is_vocabulary) {
      return;
    }
    const bool is_backward = Contains(name, ".backward.");
    JoinItem(node, is_column != is_backward ? "output.0" : "input.0", /*last=*/true);
    // The other end is the sequence in parts where sequence parallelism divides it.
    const std::string_view other = is_column != is_backward ? "input.0" : "output.0";
    const std::optional<uint32_t> divided = content.RowOf(other);
    const std::optional<uint32_t> full =
        content.RowOf(is_column != is_backward ? "output.0" : "input.0");
    if (divided && full && content.part_shapes.contains(*divided)) {
      const Shape part = ShapeOf(content, *divided);
      const Shape whole = ShapeOf(content, *full);
      const auto parts = static_cast<int64_t>(content.part_shapes.at(*divided).size());
      if (!part.empty() && part.size() == whole.size() && part.front() * parts == whole.front()) {
        sequence_dimension_ = 0;
        sequence_size_ = part.front();
        Join(node, *divided, 0);
      }
    }
  }

  // The weights within these layers' calls, as they are or transposed.
  void JoinWeights(uint32_t node) {
    const Node& about = whole_.graph.nodes[node];
    if (whole_.contents[node].entry == kNone || about.type != NodeType::kApi ||
        about.parent == kNone || whole_.contents[about.parent].entry == kNone) {
      return;
    }
    const std::string_view layer = whole_.graph.nodes[about.parent].name;
    const bool is_row = Contains(layer, kRowLayer);
    const MergedContent& above = whole_.contents[about.parent];
    const std::optional<uint32_t> weight = above.RowOf("parameters.weight");
    const std::optional<uint32_t> given = whole_.contents[node].RowOf("input.1");
    if ((!is_row && !Contains(layer, kColumnLayer)) || !Contains(layer, ".forward.") || !given) {
      return;
    }
    const Shape shape = ShapeOf(whole_.contents[node], *given);
    const size_t divided = is_row ? 1 : 0;  // of the weight
    if (shape.size() != 2) {
      return;
    }
    const bool is_linear = ApiOf(about.name) == "linear";
    bool is_transposed = !is_linear;
    if (weight) {
      const Shape own = ShapeOf(above, *weight);
      is_transposed =
          own.size() == 2 && shape == Shape{own[1], own[0]} && (shape != own || !is_linear);
    }
    Join(node, *given, is_transposed ? 1 - divided : divided);
    JoinItem(node, is_row ? "input.0" : "output.0", /*last=*/true);
  }

  // Tensors that were joined elsewhere, and those that calls make of them.
  void PassOn(uint32_t node) {
    const MergedContent& content = whole_.contents[node];
    if (content.entry == kNone || content.part_shapes.empty()) {
      return;
    }
    std::vector<std::pair<Shape, size_t>> given;
    for (uint32_t row = 0; row < content.RowCount(); ++row) {
      const auto known = dimensions_.find(KeyOf(content, row));
      if (known == dimensions_.end()) {
        continue;
      }
      const size_t dimension = known->second;
      Join(node, row, dimension);
      if (compare::IsInput(content.Row(row))) {
        given.emplace_back(ShapeOf(content, row), dimension);
      }
    }
    for (uint32_t row = 0; row < content.RowCount(); ++row) {
      if (!content.part_shapes.contains(row) || content.Row(row).state != dump::RowState::kOutput) {
        continue;
      }
      const Shape out = ShapeOf(content, row);
      for (const auto& [in, dimension] : given) {
        const std::optional<size_t> there = out.empty() ? std::nullopt : Follow(in, dimension, out);
        if (there && Join(node, row, *there)) {
          break;
        }
      }
    }
  }

  // The remaining tensors whose sequence is divided.
  void JoinSequence(uint32_t node) {
    const MergedContent& content = whole_.contents[node];
    if (!sequence_dimension_ || content.entry == kNone) {
      return;
    }
    for (uint32_t row = 0; row < content.RowCount(); ++row) {
      const auto joined = content.shapes.find(row);
      const Shape shape = joined == content.shapes.end() ? ShapeOf(content, row) : joined->second;
      // Samples as they come are [batch, sequence].
      const size_t dimension = shape.size() == 2 && has_samples_ ? 1 : *sequence_dimension_;
      if (shape.size() >= (has_samples_ ? 2 : 3) && shape[dimension] == sequence_size_ &&
          content.Row(row).state != dump::RowState::kParameters) {
        Join(node, row, dimension);
      }
    }
  }

  // [batch, sequence] -> [sequence, batch, width] or [batch, sequence, width]
  void FindSequence(const MergedContent& content) {
    const std::optional<uint32_t> given = content.RowOf("input.0");
    const std::optional<uint32_t> made = content.RowOf("output.0");
    const std::string_view name = content.dump->side().entries[content.entry].name;
    if (!given || !made || !Contains(base::AsciiLower(name), "embedding") ||
        !content.part_shapes.contains(*given) || !content.part_shapes.contains(*made)) {
      return;
    }
    const Shape in = ShapeOf(content, *given);
    const auto joined = content.shapes.find(*made);
    const Shape out = joined == content.shapes.end() ? ShapeOf(content, *made) : joined->second;
    if (in.size() != 2 || out.size() != 3 || in[0] == in[1]) {
      return;
    }
    if (out[0] == in[1] && out[1] == in[0]) {
      sequence_dimension_ = 0;
    } else if (out[0] == in[0] && out[1] == in[1]) {
      sequence_dimension_ = 1;
    }
    sequence_size_ = in[1];
    has_samples_ = true;
  }

  void Finish() {
    for (MergedContent& content : whole_.contents) {
      content.part_shapes.clear();
    }
  }

  MergedModel& whole_;
  std::unordered_map<std::string, size_t> dimensions_;  // of tensors, by KeyOf
  std::optional<size_t> sequence_dimension_;
  int64_t sequence_size_ = 0;  // of a part
  bool has_samples_ = false;   // context parallelism: the inputs of the model are divided too
};

}  // namespace

void JoinTensorShapes(MergedModel& whole) { ShapeJoiner(whole).JoinTensors(); }

void JoinSequenceShapes(MergedModel& whole) { ShapeJoiner(whole).JoinSequences(); }

namespace {

using compare::StatValue;

bool IsForwardOf(std::string_view name, std::string_view layer) {
  return Contains(name, layer) && Contains(name, ".forward");
}
bool IsBackwardOf(std::string_view name, std::string_view layer) {
  return Contains(name, layer) && Contains(name, ".backward");
}

std::string NumberText(const StatValue& value) {
  return value.kind == compare::StatKind::kInteger ? std::to_string(value.integer())
                                                   : base::PythonFloatRepr(value.number);
}

std::string Listed(std::span<const Statistics> values, size_t stat, std::string_view behind,
                   std::string_view between) {
  std::string text;
  for (const Statistics& value : values) {
    text += text.empty() ? "" : between;
    text += NumberText(value[stat]);
    text += behind;
  }
  return text;
}

// The statistics of the whole tensor, and how they were made. Parts count as equally large, as for
// the Python tool.
Statistics Combine(std::span<const Statistics> values, std::string_view item,
                   std::vector<std::string>& info) {
  std::vector<layout::PieceStatistics> pieces;
  for (const Statistics& value : values) {
    layout::PieceStatistics& piece = pieces.emplace_back();
    for (size_t stat = 0; stat < compare::kStatCount; ++stat) {
      piece.values[stat] = value[stat].number;
    }
    piece.elements = 1;
  }
  const layout::PieceStatistics made =
      layout::CombineStatistics(PartsAlong(0, pieces.size()), pieces);
  Statistics whole = values.front();
  for (size_t stat = 0; stat < compare::kStatCount; ++stat) {
    const double number = made.values[stat].value_or(std::nan(""));
    const auto same = std::find_if(values.begin(), values.end(), [&](const Statistics& value) {
      return value[stat].number == number;
    });
    if ((stat == compare::kMax || stat == compare::kMin) && same != values.end()) {
      whole[stat] = (*same)[stat];  // an integer stays one
      continue;
    }
    whole[stat].kind = compare::StatKind::kNumber;
    whole[stat].number = number;
  }
  info.push_back(fmt::format("The Max value merging method for {} is: max({}) = {}", item,
                             Listed(values, compare::kMax, "", ", "),
                             NumberText(whole[compare::kMax])));
  info.push_back(fmt::format("The Min value merging method for {} is: min({}) = {}", item,
                             Listed(values, compare::kMin, "", ", "),
                             NumberText(whole[compare::kMin])));
  info.push_back(fmt::format("The Mean value merging method for {} is: ({}) / {} = {}", item,
                             Listed(values, compare::kMean, "", " + "), values.size(),
                             NumberText(whole[compare::kMean])));
  info.push_back(fmt::format("The Norm value merging method for {} is: ({}) ** 0.5 = {}", item,
                             Listed(values, compare::kNorm, " ** 2", " + "),
                             NumberText(whole[compare::kNorm])));
  return whole;
}

// Nodes that not every rank has with the same tensors: they stay as the first rank recorded them.
struct MissingNodes {
  uint64_t count = 0;
  std::string first;
  int64_t rank = 0;

  void Warn(std::vector<std::string>& warnings) const {
    if (count > 0) {
      warnings.push_back(
          fmt::format("{} of rank {} cannot be merged, as other ranks have no such tensors there: "
                      "{}, which stands as that rank recorded it, is the first",
                      base::Plural(count, "node"), rank, first));
    }
  }
};

// "Module.layers.0.mlp.experts.local_experts.1.MLP.forward.0", and the calls inside of it. Shared
// experts are the same on all ranks.
bool IsOfExperts(const Graph& graph, uint32_t node) {
  for (; node != kNone; node = graph.nodes[node].parent) {
    for (const std::string_view field : base::Split(graph.nodes[node].name, '.')) {
      const std::string lower = base::AsciiLower(field);
      if (lower.find("expert") != std::string::npos) {
        return lower.find("shared") == std::string::npos;
      }
    }
  }
  return false;
}

// Nodes of experts that other ranks do not have.
class KeptExperts {
 public:
  explicit KeptExperts(bool keeps) : keeps_(keeps) {}

  // Whether the node stays as it is; it is given a note then.
  bool Keep(MergedModel& whole, uint32_t node) {
    if (!keeps_ || !IsOfExperts(whole.graph, node)) {
      return false;
    }
    MergedContent& content = whole.contents[node];
    const std::string note = fmt::format(
        "This data is that of rank {} alone: other ranks have other experts of this name.",
        content.rank);
    if (content.info.empty() || content.info.back() != note) {  // by another kind of parallelism
      content.info.push_back(note);
    }
    if (count_++ == 0) {
      first_ = whole.graph.nodes[node].name;
      rank_ = content.rank;
    }
    return true;
  }

  void Warn(std::vector<std::string>& warnings) const {
    if (count_ > 0) {
      warnings.push_back(fmt::format(
          "{} of experts stand as rank {} recorded them, as the ranks that share the other layers "
          "have other experts each: {} is the first",
          base::Plural(count_, "node"), rank_, first_));
    }
  }

 private:
  const bool keeps_;
  uint64_t count_ = 0;
  std::string first_;
  int64_t rank_ = 0;
};

// The same node of all ranks; empty: one lacks it.
std::vector<const MergedContent*> PartsOf(std::span<MergedModel> shards, uint32_t node,
                                          MissingNodes& missing) {
  const MergedContent& content = shards.front().contents[node];
  const std::string_view name = shards.front().graph.nodes[node].name;
  std::vector<const MergedContent*> parts = {&content};
  for (size_t place = 1; place < shards.size(); ++place) {
    const MergedModel& shard = shards[place];
    const uint32_t other = shard.graph.Find(name);
    if (other == kNone || shard.contents[other].entry == kNone ||
        shard.contents[other].RowCount() != content.RowCount()) {
      if (missing.count++ == 0) {
        missing.first = name;
        missing.rank = content.rank;
      }
      return {};
    }
    parts.push_back(&shard.contents[other]);
  }
  return parts;
}

// The rows of one node, merged one after the other.
class MergedRows {
 public:
  MergedRows(MergedContent& content, const std::vector<const MergedContent*>& parts,
             std::string_view parallelism)
      : content_(content), parts_(parts), parallelism_(parallelism) {}

  // Whether the row is a tensor whose statistics all ranks tell.
  bool Read(uint32_t row) {
    row_ = row;
    values_.clear();
    for (const MergedContent* part : parts_) {
      values_.push_back(part->StatisticsOf(row));
    }
    return content_.Source(row).is_tensor && std::all_of(values_.begin(), values_.end(), IsNumeric);
  }

  bool Differ() const {
    return std::any_of(values_.begin() + 1, values_.end(), [this](const Statistics& value) {
      return !SameStatistics(values_.front(), value);
    });
  }

  void Combine() {
    changed_[row_] = graph::Combine(values_, content_.ItemName(row_), info_);
    for (const MergedContent* part : parts_) {
      part_shapes_[row_].push_back(part->Source(row_).shape);
    }
  }

  void Replace(const Statistics& stats, std::string source) {
    changed_[row_] = stats;
    replaced_from_ = std::move(source);
  }

  void Note(std::string text) { notes_.push_back(std::move(text)); }

  void Finish() {
    if (!changed_.empty()) {
      std::vector<std::string> ranks;
      for (const MergedContent* part : parts_) {
        ranks.push_back(std::to_string(part->rank));
      }
      content_.info.push_back(fmt::format(
          "This data is the merged data after {}, and the data is merged from rank [{}].",
          parallelism_, base::Join(ranks, ", ")));
      content_.info.insert(content_.info.end(), info_.begin(), info_.end());
      if (!replaced_from_.empty()) {
        content_.info.push_back(
            fmt::format("The output of this data is merged from {}", replaced_from_));
      }
    }
    content_.info.insert(content_.info.end(), notes_.begin(), notes_.end());
    for (const auto& [row, stats] : changed_) {
      content_.changed[row] = stats;
    }
    content_.part_shapes = std::move(part_shapes_);
  }

 private:
  MergedContent& content_;
  const std::vector<const MergedContent*>& parts_;
  const std::string_view parallelism_;
  uint32_t row_ = 0;
  std::vector<Statistics> values_;  // of that row, by rank
  std::map<uint32_t, Statistics> changed_;
  std::map<uint32_t, std::vector<std::string_view>> part_shapes_;
  std::vector<std::string> info_;
  std::vector<std::string> notes_;
  std::string replaced_from_;
};

// Nodes of all parts into those of the first: merge(node, rows) decides row by row. What experts
// have stays as it is with `keeps_experts`, and so does what a part lacks.
template <typename Merge>
void MergeParts(std::span<MergedModel> parts, bool keeps_experts, std::string_view parallelism,
                std::vector<std::string>& warnings, const Merge& merge) {
  MissingNodes missing;
  KeptExperts experts(keeps_experts);
  MergedModel& whole = parts.front();
  for (const uint32_t node : whole.graph.PostOrder()) {
    MergedContent& content = whole.contents[node];
    if (content.entry == kNone || IsCommunicationName(whole.graph.nodes[node].name) ||
        experts.Keep(whole, node)) {
      continue;
    }
    const std::vector<const MergedContent*> all = PartsOf(parts, node, missing);
    if (!all.empty()) {
      MergedRows rows(content, all, parallelism);
      merge(node, rows);
      rows.Finish();
    }
  }
  missing.Warn(warnings);
  experts.Warn(warnings);
}

// How tensor parallelism divides the values of a model, by the names of its layers.
class TensorDivision {
 public:
  explicit TensorDivision(const MergedModel& whole) : whole_(whole) { FindSplitRegions(); }

  void Merge(uint32_t node, MergedRows& rows) {
    const MergedContent& content = whole_.contents[node];
    const std::optional<Statistics> reduced = ReducedOutput(node);
    for (uint32_t row = 0; row < content.RowCount(); ++row) {
      const std::string_view item = content.ItemName(row);
      if (!rows.Read(row)) {
        continue;
      }
      if (reduced && item == "output.0") {
        rows.Replace(*reduced, fmt::format("{}.output.0", reduced_from_));
      } else if (rows.Differ() || (split_[node] && !IsShared(node, item))) {
        rows.Combine();
      }
    }
  }

 private:
  // From a ColumnParallelLinear to the next RowParallelLinear each rank has a part of the tensors,
  // equal or not.
  void FindSplitRegions() {
    split_.assign(whole_.graph.nodes.size(), false);
    const std::vector<uint32_t> order = whole_.graph.PostOrder();
    constexpr size_t kNowhere = SIZE_MAX;
    size_t begin = kNowhere;
    for (size_t place = 0; place < order.size(); ++place) {
      const Node& node = whole_.graph.nodes[order[place]];
      if (begin == kNowhere && IsForwardOf(node.name, kColumnLayer)) {
        begin = place;
        while (begin > 0 && whole_.graph.nodes[order[begin - 1]].parent == order[place]) {
          --begin;
        }
      } else if (begin != kNowhere && IsForwardOf(node.name, kRowLayer)) {
        for (; begin <= place; ++begin) {
          split_[order[begin]] = true;
        }
        begin = kNowhere;
      }
    }
  }

  // Whether a row is the same on all ranks by the way these layers work.
  bool IsShared(uint32_t node, std::string_view item) const {
    const std::string_view name = whole_.graph.nodes[node].name;
    const uint32_t above = whole_.graph.nodes[node].parent;
    const bool in_column =
        IsForwardOf(name, kColumnLayer) ||
        (above != kNone && IsForwardOf(whole_.graph.nodes[above].name, kColumnLayer));
    return (in_column && item == "input.0") ||
           (IsForwardOf(name, kRowLayer) &&
            (item.starts_with("output.") || item == "parameters.bias"));
  }

  // Where a call's output is a part of a sum, the sum that the collective behind it made.
  std::optional<Statistics> ReducedOutput(uint32_t node) {
    const uint32_t above = whole_.graph.nodes[node].parent;
    if (above == kNone || whole_.graph.nodes[node].type != NodeType::kApi) {
      return std::nullopt;
    }
    const std::string_view layer = whole_.graph.nodes[above].name;
    if (!IsForwardOf(layer, kRowLayer) && !IsBackwardOf(layer, kColumnLayer)) {
      return std::nullopt;
    }
    const MergedContent& content = whole_.contents[node];
    const std::optional<Statistics> own = content.Find("output.0");
    const std::vector<uint32_t>& siblings = whole_.graph.nodes[above].children;
    for (auto at = std::find(siblings.begin(), siblings.end(), node); at != siblings.end(); ++at) {
      const std::string_view name = whole_.graph.nodes[*at].name;
      const dump::CollectiveEffect effect = dump::EffectOf(ApiOf(name));
      const bool is_scattered = effect == dump::CollectiveEffect::kScatteredSum;
      if (whole_.contents[*at].entry == kNone ||
          (effect != dump::CollectiveEffect::kSum && !is_scattered)) {
        continue;
      }
      // reduce_scatter is given the buffer for its output first.
      const std::string_view input = is_scattered ? "input.1" : "input.0";
      const std::optional<Statistics> given = whole_.contents[*at].Find(input);
      const std::optional<Statistics> made = whole_.contents[*at].Find("output.0");
      if (own && given && made && IsNumeric(*own) && IsNumeric(*given) &&
          SameStatistics(*own, *given)) {
        reduced_from_ = name;
        return made;
      }
    }
    return std::nullopt;
  }

  const MergedModel& whole_;
  std::vector<bool> split_;  // by node
  std::string_view reduced_from_;
};

}  // namespace

void MergeTensorShards(std::span<MergedModel> shards, bool keeps_experts,
                       std::vector<std::string>& warnings) {
  TensorDivision division(shards.front());
  MergeParts(shards, keeps_experts, "tensor parallelism(TP)", warnings,
             [&](uint32_t node, MergedRows& rows) { division.Merge(node, rows); });
}

void MergeSequenceParts(std::span<MergedModel> parts, bool keeps_experts,
                        std::vector<std::string>& warnings) {
  MergeParts(parts, keeps_experts, "context parallelism(CP)", warnings,
             [&](uint32_t node, MergedRows& rows) {
               const MergedContent& content = parts.front().contents[node];
               for (uint32_t row = 0; row < content.RowCount(); ++row) {
                 if (!rows.Read(row) || !rows.Differ()) {
                   continue;
                 }
                 if (content.Row(row).state == dump::RowState::kParametersGrad) {
                   rows.Note(fmt::format("{} is that of rank {}: a part of a sum over the sequence",
                                         content.ItemName(row), content.rank));
                 } else {
                   rows.Combine();
                 }
               }
             });
}

}  // namespace msprobe::analysis::graph
