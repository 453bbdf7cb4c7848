#include "src/analysis/graph/shard_shapes.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/graph/node_names.h"
#include "src/base/numbers.h"
#include "src/base/strings.h"

namespace msprobe::analysis::graph {
namespace {

using Shape = std::vector<int64_t>;

constexpr std::string_view kColumnLayer = ".ColumnParallelLinear.";
constexpr std::string_view kRowLayer = ".RowParallelLinear.";
constexpr std::string_view kVocabularyLayer = ".VocabParallelEmbedding.";

// "[2, 3]"; empty: a scalar, or no shape.
Shape ParseShape(std::string_view text) {
  Shape shape;
  if (text.size() < 3 || text.front() != '[' || text.back() != ']') {
    return shape;
  }
  for (const std::string_view part : base::Split(text.substr(1, text.size() - 2), ',')) {
    const std::optional<int64_t> size = base::ParseInt(base::Trim(part));
    if (!size || *size < 0 || *size > INT32_MAX) {
      return {};
    }
    shape.push_back(*size);
  }
  return shape;
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
    const Shape first = ParseShape(parts->second.front());
    if (dimension >= first.size()) {
      return false;
    }
    int64_t size = 0;
    for (const std::string_view text : parts->second) {
      Shape part = ParseShape(text);
      if (part.size() != first.size()) {
        return false;
      }
      size += std::exchange(part[dimension], first[dimension]);
      if (part != first) {
        return false;
      }
    }
    // What tensor parallelism divided before is whole already.
    const auto joined = content.shapes.find(row);
    Shape shape = joined == content.shapes.end() ? first : joined->second;
    const int64_t before = shape[dimension] / std::max<int64_t>(first[dimension], 1);
    if (__builtin_mul_overflow(before, size, &shape[dimension])) {
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
    return ParseShape(content.Source(row).shape);
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

  // What these layers divide.
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

  // What was joined elsewhere, and what calls make of it.
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

  // What is left of the tensors whose sequence is divided.
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

}  // namespace msprobe::analysis::graph
