#include "src/analysis/graph/items.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "src/base/numbers.h"
#include "src/base/strings.h"
#include "src/dump/call_facts.h"
#include "src/dump/dump_file.h"
#include "src/dump/entry_scan.h"
#include "src/dump/entry_tree.h"

namespace msprobe::analysis::graph {
namespace {

constexpr std::string_view kModuleStarts[] = {"Module", "Cell"};
constexpr std::string_view kModuleWords[] = {"optimizer", "clip_grad"};
constexpr std::string_view kApiStarts[] = {"Tensor",    "Torch",       "Functional",    "NPU",
                                           "VF",        "Distributed", "Aten",          "Mint",
                                           "Primitive", "Jit",         "MintFunctional"};

// The start is followed by one more character, whatever it is.
bool StartsWithKind(std::string_view name, std::string_view kind) {
  return name.size() > kind.size() && name.starts_with(kind);
}

std::optional<NumberedDirection> ParseNumbered(std::string_view name, std::string_view direction) {
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || !name.substr(0, dot).ends_with(direction)) {
    return std::nullopt;
  }
  const std::string_view number = name.substr(dot + 1);
  if (number.empty() || !std::all_of(number.begin(), number.end(), base::IsDigit)) {
    return std::nullopt;
  }
  return NumberedDirection{name.substr(0, dot - direction.size()), number};
}

}  // namespace

NodeType TypeOfName(std::string_view name, Edition edition) {
  const auto starts = [name](std::string_view kind) { return StartsWithKind(name, kind); };
  if (std::any_of(std::begin(kApiStarts), std::end(kApiStarts), starts) ||
      (edition == Edition::kV26 && starts("MindSpeed"))) {
    return NodeType::kApi;
  }
  return name.starts_with(kCollectionName) ? NodeType::kCollection : NodeType::kModule;
}

bool IsModuleName(std::string_view name) {
  return std::any_of(std::begin(kModuleStarts), std::end(kModuleStarts),
                     [name](std::string_view kind) { return StartsWithKind(name, kind); }) ||
         std::any_of(std::begin(kModuleWords), std::end(kModuleWords),
                     [name](std::string_view word) { return name.starts_with(word); });
}

std::optional<NumberedDirection> ParseForward(std::string_view name) {
  return ParseNumbered(name, ".forward");
}

std::optional<NumberedDirection> ParseBackward(std::string_view name) {
  return ParseNumbered(name, ".backward");
}

std::string_view ApiOf(std::string_view name) {
  const size_t dot = name.find('.');
  return dot == std::string_view::npos ? std::string_view()
                                       : name.substr(dot + 1, name.find('.', dot + 1) - dot - 1);
}

bool ReturnsRawMemory(std::string_view name) {
  return dump::HasFact(ApiOf(name), dump::kToolRawMemory);
}

namespace {

using compare::CompareMode;
using compare::Metric;
using compare::MetricKind;
using compare::SideRow;
using dump::EntryTree;
using dump::NodeKind;

constexpr std::string_view kNull = "null";
constexpr int kDecimals = 6;
constexpr size_t kLongestNumber = 20;  // digits on each side of the point

constexpr std::array<std::string_view, 8> kStatisticCells = {
    "Max diff",       "Min diff",       "Mean diff",       "L2norm diff",
    "MaxRelativeErr", "MinRelativeErr", "MeanRelativeErr", "NormRelativeErr"};
constexpr std::array<std::string_view, 6> kRealCells = {"Cosine",
                                                        "EucDist",
                                                        "MaxAbsErr",
                                                        "MaxRelativeErr",
                                                        "One Thousandth Err Ratio",
                                                        "Five Thousandths Err Ratio"};

// Its place in kStatisticKeys; kStatCount: none.
size_t StatisticOf(std::string_view key) {
  if (dump::KeyIs(key, "type")) {
    return compare::kStatCount;
  }
  size_t place = 0;
  while (place < compare::kStatCount && dump::kStatisticKeys[place] != key) {
    ++place;
  }
  return place;
}

// The number of digits before and behind the point of "12.5" or "12.5%"; {0, 0} for other texts.
std::pair<size_t, size_t> DigitsAround(std::string_view text) {
  if (text.ends_with('%')) {
    text.remove_suffix(1);
  }
  const size_t point = text.find('.');
  if (point == std::string_view::npos || point == 0 || point > kLongestNumber ||
      text.size() - point - 1 == 0 || text.size() - point - 1 > kLongestNumber) {
    return {};
  }
  for (size_t i = 0; i < text.size(); ++i) {
    if (i != point && !base::IsDigit(text[i])) {
      return {};
    }
  }
  return {point, text.size() - point - 1};
}

bool HasDType(const EntryTree& tree, uint32_t leaf) {
  const uint32_t dtype = tree.Find(leaf, "dtype");
  return dtype != EntryTree::kNone && tree[dtype].kind == NodeKind::kText &&
         !tree[dtype].text.empty();
}

}  // namespace

std::string IndexText(double value) {
  return value == static_cast<double>(static_cast<int64_t>(value))
             ? std::to_string(static_cast<int64_t>(value))
             : base::PythonFloatRepr(value);
}

Status ItemWriter::Open(uint32_t entry) {
  entry_ = entry;
  if (entry == kNone) {
    return {};
  }
  const dump::CommunicationApi* api =
      dump::FindCommunicationApi(ApiOf(dump_.side().entries[entry].name));
  is_batch_ = api != nullptr && api->kind == dump::CommunicationKind::kBatch;
  return dump_.ReadEntry(entry, tree_);
}

void ItemWriter::Write(bool outputs, const ComparedRows& compared, json::Writer& json) {
  json.BeginObject();
  if (entry_ != kNone) {
    const compare::SideEntry& entry = dump_.side().entries[entry_];
    for (uint32_t i = entry.first_row; i < entry.first_row + entry.row_count; ++i) {
      const SideRow& row = dump_.side().rows[i];
      if (dump_.IsOutput(i) == outputs && row.leaf < tree_.size()) {
        WriteItem(row, compared, i, json);
      }
    }
  }
  json.EndObject();
}

void ItemWriter::WriteItem(const SideRow& row, const ComparedRows& compared, uint32_t index,
                           json::Writer& json) {
  const uint32_t leaf = row.leaf;
  json.Key(row.name);
  json.BeginObject();
  const bool is_leaf = tree_[leaf].kind == NodeKind::kObject && row.problem.find("Nested") != 0;
  if (is_leaf && row.type == kProcessGroup && !HasDType(tree_, leaf)) {
    WriteProcessGroup(leaf, row, json);
  } else if (!is_leaf || row.stats[compare::kMax].kind == compare::StatKind::kNone) {
    json.Member("value", kNull);
  } else {
    WriteFields(leaf, row, json);
    if (compared.result != nullptr) {
      WriteCells(row, compared, index, json);
    }
  }
  json.EndObject();
}

void ItemWriter::WriteProcessGroup(uint32_t leaf, const SideRow& row, json::Writer& json) {
  for (const std::string_view key : {"type", "group_ranks", "group_id"}) {
    const uint32_t child = tree_.Find(leaf, key);
    if (child != EntryTree::kNone) {
      json.Member(key, TextOf(child));
    }
  }
  json.Member("data_name", row.data_name);
}

void ItemWriter::WriteFields(uint32_t leaf, const SideRow& row, json::Writer& json) {
  constexpr std::string_view kBatchKeys[] = {"op", "peer", "tag", "group_id"};
  const bool is_tensor = HasDType(tree_, leaf);
  uint32_t value = EntryTree::kNone;
  bool has_requires_grad = false;
  bool has_data_name = false;
  bool has_checksum = false;
  bool has_dtype = false;
  bool has_shape = false;
  std::array<bool, compare::kStatCount> has_statistic{};
  tree_.ForEachChild(leaf, [&](uint32_t child) {
    const std::string_view key = tree_[child].key;
    if (dump::KeyIs(key, "value")) {
      value = child;
    }
    const size_t statistic = StatisticOf(key);
    const bool is_statistic = statistic < compare::kStatCount;
    if (is_statistic) {
      has_statistic[statistic] = true;
    }
    const bool is_26 = edition_ == Edition::kV26;
    const bool is_dtype = dump::KeyIs(key, "dtype");
    const bool is_shape = !is_dtype && key == kShapeKey;
    const bool is_checksum = dump::KeyIs(key, "md5");
    const bool is_gradient_flag = dump::KeyIs(key, "requires_grad");
    if (is_26 && is_shape && tree_.Find(leaf, kLocalShapeKey) != EntryTree::kNone) {
      json.Member(key, TextOf(tree_.Find(leaf, kLocalShapeKey)));  // as the 26.x line has it
      has_shape = true;
      return;
    }
    const bool dropped = dump::KeyIs(key, "full_op_name") || (is_26 && key == kLocalShapeKey) ||
                         (is_26 ? dump::KeyIs(key, "state") : is_gradient_flag) ||
                         (is_checksum && !with_checksums_) ||
                         (is_batch_ && base::IsOneOf(key, kBatchKeys)) ||
                         (!is_tensor && (is_statistic || is_dtype || is_shape));
    if (dropped) {
      return;
    }
    has_requires_grad = has_requires_grad || is_gradient_flag;
    has_data_name = has_data_name || dump::KeyIs(key, "data_name");
    has_checksum = has_checksum || is_checksum;
    has_dtype = has_dtype || is_dtype;
    has_shape = has_shape || is_shape;
    json.Member(key, TextOf(child));
  });
  if (!has_data_name) {
    json.Member("data_name", row.data_name);
  }
  if (edition_ == Edition::kV26 && !has_requires_grad) {
    json.Member("requires_grad", kNull);
  }
  for (size_t i = 0; i < compare::kStatCount; ++i) {
    if (!is_tensor) {
      json.Member(dump::kStatisticKeys[i], value == EntryTree::kNone ? kNull : TextOf(value));
    } else if (!has_statistic[i]) {
      json.Member(dump::kStatisticKeys[i], kNull);
    }
  }
  if (!has_dtype) {
    json.Member("dtype", TextOfText(row.dtype));
  }
  if (!has_shape && !is_tensor) {
    json.Member("shape", TextOfText(row.shape));
  }
  if (with_checksums_ && !has_checksum) {
    json.Member("md5", row.md5);
  }
}

void ItemWriter::WriteCells(const SideRow& row, const ComparedRows& compared, uint32_t index,
                            json::Writer& json) {
  const compare::RowResult& result = compared.result->rows[index];
  const SideRow* bench = result.pair.bench < compared.bench->rows.size()
                             ? &compared.bench->rows[result.pair.bench]
                             : nullptr;
  const bool is_26 = edition_ == Edition::kV26;
  switch (compared.result->mode) {
    case CompareMode::kStatistics:
      for (size_t i = 0; i < kStatisticCells.size(); ++i) {
        const size_t stat = i % compare::kStatCount;
        const bool is_integer = i < compare::kStatCount && bench != nullptr &&
                                row.stats[stat].kind == compare::StatKind::kInteger &&
                                bench->stats[stat].kind == compare::StatKind::kInteger;
        json.Member(kStatisticCells[i], TextOfMetric(result.metrics[i], is_integer));
      }
      break;
    case CompareMode::kRealData:
      for (size_t i = 0; i < kRealCells.size(); ++i) {
        json.Member(kRealCells[i], TextOfMetric(result.metrics[i], false));
      }
      break;
    case CompareMode::kMd5:
      if (!is_26) {
        json.Member("Result", compare::VerdictText(result.verdict));
      }
      break;
  }
  if (is_26) {
    json.Member("Requires_grad Consistent",
                bench == nullptr || row.requires_grad == bench->requires_grad ? "True" : "False");
    json.Member("Result", compare::ResultWord(result.verdict));
    json.Member("Err_message", TextOfText(result.message));
  }
}

std::string_view ItemWriter::TextOf(uint32_t node) {
  const dump::Node& value = tree_[node];
  switch (value.kind) {
    case NodeKind::kNull:
      return kNull;
    case NodeKind::kBool:
      return value.boolean ? "True" : "False";
    case NodeKind::kInt:
      text_ = std::to_string(value.integer);
      return text_;
    case NodeKind::kFloat:
      return TextOfFloat(value.number);
    case NodeKind::kText:
      return TextOfText(value.text);
    default:
      text_.clear();
      dump::AppendPythonRepr(tree_, node, text_);
      return text_;
  }
}

std::string_view ItemWriter::TextOfFloat(double value) {
  constexpr size_t kLongestRepr = 50;
  // Digits of this size are the shortest ones of the rounded number, too.
  constexpr double kLeast = 1e-3;
  constexpr double kMost = 1e8;
  text_.clear();
  if (const double size = std::fabs(value);
      edition_ == Edition::kV8 && size >= kLeast && size < kMost) {
    base::AppendFixed(value, kDecimals, text_);
    while (text_.ends_with('0') && text_[text_.size() - 2] != '.') {
      text_.pop_back();
    }
    return text_;
  }
  base::AppendPythonFloatRepr(value, text_);
  const bool has_exponent = text_.find('e') != std::string::npos;
  if (edition_ == Edition::kV26 || text_.find_first_of("naif") != std::string::npos) {
    return text_;
  }
  if (has_exponent) {
    if (text_.size() < kLongestRepr) {
      text_.clear();
      fmt::format_to(std::back_inserter(text_), "{:.6e}", value);
    }
    return text_;
  }
  if (text_.size() - text_.find('.') - 1 > size_t{kDecimals}) {
    std::string rounded;
    base::AppendFixed(value, kDecimals, rounded);
    double number = value;
    std::from_chars(rounded.data(), rounded.data() + rounded.size(), number);
    text_.clear();
    base::AppendPythonFloatRepr(number, text_);
    if (text_.find('e') != std::string::npos) {
      text_ = fmt::format("{}", number);
    }
  }
  return text_;
}

std::string_view ItemWriter::TextOfText(std::string_view text) {
  if (text.empty() || text == " ") {
    return text.empty() ? text : kNull;
  }
  if (text.find('\'') != std::string_view::npos || text.find("None") != std::string_view::npos) {
    scratch_ = base::ReplaceAll(base::ReplaceAll(text, "'", ""), "None", kNull);
    text = scratch_;
  }
  const auto [before, behind] = DigitsAround(text);
  if (behind <= size_t{kDecimals}) {
    return text;
  }
  const bool is_percent = text.ends_with('%');
  double number = 0;
  std::from_chars(text.data(), text.data() + before + 1 + behind, number);
  text_.clear();
  base::AppendFixed(number, kDecimals, text_);
  text_ += is_percent ? "%" : "";
  return text_;
}

std::string_view ItemWriter::TextOfMetric(const Metric& metric, bool is_integer) {
  switch (metric.kind) {
    case MetricKind::kNumber:
      if (is_integer) {
        text_.clear();
        base::AppendFixed(metric.number(), 0, text_);
        return text_;
      }
      return TextOfFloat(metric.number());
    case MetricKind::kPercent:
      scratch_.clear();
      base::AppendPythonFloatRepr(metric.number(), scratch_);
      scratch_ += '%';
      return TextOfText(scratch_);
    default:
      return metric.text();
  }
}

}  // namespace msprobe::analysis::graph
