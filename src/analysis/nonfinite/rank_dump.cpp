// dump/entry_scan hands over every entry as text; only those that hold a suspicious word or move
// data are parsed. FactsReader takes the facts out of the stream of one entry without a tree.
#include "src/analysis/nonfinite/rank_dump.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <system_error>

#include <fmt/format.h>

#include "src/base/strings.h"
#include "src/dump/call_facts.h"
#include "src/dump/communication.h"
#include "src/dump/dump_file.h"
#include "src/dump/entry_scan.h"
#include "src/dump/entry_tree.h"
#include "src/dump/layout.h"
#include "src/dump/names.h"
#include "src/json/stream_reader.h"
#include "src/tensor/float_limits.h"

namespace msprobe::analysis::nonfinite {
namespace {

// The largest finite float16.
constexpr double kHalfMax = tensor::FormatOf(DType::kFloat16).largest;

BadValues BadValuesOfNumber(double value, double threshold) {
  if (std::isnan(value)) {
    return kNan;
  }
  if (std::isinf(value)) {
    return value > 0 ? kPositiveInfinity : kNegativeInfinity;
  }
  return std::fabs(value) > threshold ? kTooLarge : BadValues{0};
}

double NumberOf(BadValues bad) {
  return bad == kNan                ? std::numeric_limits<double>::quiet_NaN()
         : bad == kPositiveInfinity ? std::numeric_limits<double>::infinity()
                                    : -std::numeric_limits<double>::infinity();
}

// The lowest finite numbers of float16, bfloat16 and float32, which masks use in place of -inf.
bool IsLowest(double value) { return value == -kHalfMax || value <= -3.38e38; }

enum class EntrySection : uint8_t { kNone, kArguments, kKeywords, kParameters, kOutput };

EntrySection EntrySectionOf(std::string_view key) {
  if (key == "input_args" || key == "input") {
    return EntrySection::kArguments;
  }
  if (key == "input_kwargs") {
    return EntrySection::kKeywords;
  }
  if (key == "parameters") {
    return EntrySection::kParameters;
  }
  return key == "output" ? EntrySection::kOutput : EntrySection::kNone;
}

// Depth counts open containers: 1 is inside the entry, 2 inside a section, 3 inside one of its
// items.
class FactsReader final : public json::Handler {
 public:
  explicit FactsReader(double threshold) : threshold_(threshold) {}

  const EntryFacts& facts() const { return facts_; }

  bool OnNull() override {
    Start();
    role_ = Role::kOther;
    return true;
  }
  bool OnBool(bool value) override {
    Start();
    if (depth_ == 1 && role_ == Role::kRecompute) {
      facts_.is_recompute = value;
    }
    role_ = Role::kOther;
    return true;
  }
  // Shapes, means and norms are not decoded: half of the numbers.
  bool OnNumber(std::string_view digits) override {
    if (role_ == Role::kOther) {
      Start();
      return true;
    }
    double value = 0;
    const char* const end = digits.data() + digits.size();
    const auto [behind, error] = std::from_chars(digits.data(), end, value);
    return error == std::errc() && behind == end ? Number(value) : json::Handler::OnNumber(digits);
  }
  bool OnInt(int64_t value) override { return Number(static_cast<double>(value)); }
  bool OnFloat(double value, std::string_view /*digits*/) override { return Number(value); }
  bool OnText(std::string_view value) override {
    if (role_ == Role::kMax || role_ == Role::kMin) {
      const BadValues bad = BadValuesOfText(value);
      return Number(bad != 0 ? NumberOf(bad) : 0);
    }
    Start();
    role_ = Role::kOther;
    return true;
  }
  bool OnBeginObject() override { return Begin(); }
  bool OnBeginArray() override { return Begin(); }
  bool OnEndObject() override {
    if (depth_ == tensor_depth_) {
      FinishTensor();
    }
    --depth_;
    return true;
  }
  bool OnEndArray() override {
    --depth_;
    return true;
  }
  bool OnKey(std::string_view key) override {
    role_ = Role::kOther;
    if (depth_ == 1) {
      section_ = EntrySectionOf(key);
      item_ = 0;
      is_buffer_ = false;
      if (key == "is_recompute") {
        role_ = Role::kRecompute;
      } else if (key == "is_nan") {
        role_ = Role::kIsNan;
      }
      return true;
    }
    if (depth_ == 2) {
      is_buffer_ = section_ == EntrySection::kKeywords && key == "out";
    }
    if (key == dump::KeyOf(dump::kMax)) {
      role_ = Role::kMax;
    } else if (key == dump::KeyOf(dump::kMin)) {
      role_ = Role::kMin;
    } else if (key == "value") {
      role_ = Role::kConstant;
    }
    return true;
  }

 private:
  enum class Role : uint8_t { kOther, kMax, kMin, kConstant, kRecompute, kIsNan };

  // In front of every value.
  void Start() {
    if (depth_ == 2) {
      ++item_;
    }
  }

  bool Begin() {
    Start();
    if (depth_ == 0) {
      facts_.is_object = true;
    }
    ++depth_;
    role_ = Role::kOther;
    return true;
  }

  bool Number(double value) {
    Start();
    if (role_ == Role::kIsNan) {
      // A dump of nan_check has no statistics, and the kind of value is not known.
      facts_.output |= depth_ == 1 && value != 0 ? kNan : BadValues{0};
    } else if (depth_ >= 2 && (role_ == Role::kMax || role_ == Role::kMin)) {
      tensor_depth_ = depth_;
      (role_ == Role::kMax ? maximum_ : minimum_) = value;
    } else if (role_ == Role::kConstant &&
               (section_ == EntrySection::kArguments || section_ == EntrySection::kKeywords)) {
      facts_.constants |= BadValuesOfNumber(value, std::numeric_limits<double>::infinity());
      facts_.has_huge_constant = facts_.has_huge_constant || std::fabs(value) > kHalfMax;
    }
    role_ = Role::kOther;
    return true;
  }

  void FinishTensor() {
    BadValues bad = 0;
    bad |= maximum_ ? BadValuesOfNumber(*maximum_, threshold_) : BadValues{0};
    bad |= minimum_ ? BadValuesOfNumber(*minimum_, threshold_) : BadValues{0};
    const bool looks_like_mask =
        bad == kNegativeInfinity && maximum_ && (*maximum_ == 0 || std::isinf(*maximum_));
    const bool has_lowest = minimum_ && IsLowest(*minimum_);
    maximum_.reset();
    minimum_.reset();
    tensor_depth_ = 0;
    if (section_ == EntrySection::kOutput) {
      facts_.output |= bad;
      return;
    }
    if (section_ == EntrySection::kNone || is_buffer_) {
      return;
    }
    facts_.has_bad_parameters =
        facts_.has_bad_parameters || (section_ == EntrySection::kParameters && bad != 0);
    // item_ was counted up in front of the item that this tensor is or lies in.
    const bool first = section_ == EntrySection::kArguments && item_ == 1;
    (first ? facts_.first_input : facts_.other_inputs) |= bad;
    facts_.inputs_look_like_masks = facts_.inputs_look_like_masks && (bad == 0 || looks_like_mask);
    facts_.has_lowest_input = facts_.has_lowest_input || has_lowest;
  }

  const double threshold_;
  EntryFacts facts_;
  EntrySection section_ = EntrySection::kNone;
  Role role_ = Role::kOther;
  bool is_buffer_ = false;
  uint64_t depth_ = 0;
  uint64_t item_ = 0;
  uint64_t tensor_depth_ = 0;  // of the map whose Max or Min was seen; 0: none
  std::optional<double> maximum_;
  std::optional<double> minimum_;
};

}  // namespace

std::string BadValuesText(BadValues bad) {
  std::string text;
  const auto add = [&](BadValues kind, std::string_view name) {
    if ((bad & kind) != 0) {
      text += text.empty() ? "" : ", ";
      text += name;
    }
  };
  add(kNan, "NaN");
  add(kPositiveInfinity, "+inf");
  add(kNegativeInfinity, "-inf");
  add(kTooLarge, "beyond the threshold");
  return text.empty() ? "good" : text;
}

BadValues BadValuesOfText(std::string_view text) {
  const std::string word = base::AsciiLower(base::Trim(text));
  if (word == "nan") {
    return kNan;
  }
  if (word == "inf") {
    return kPositiveInfinity;
  }
  return word == "-inf" ? kNegativeInfinity : BadValues{0};
}

BadValues BadValuesOfNode(const dump::Node& node, double threshold) {
  if (node.kind == dump::NodeKind::kText) {
    return BadValuesOfText(node.text);
  }
  const bool is_number = node.kind == dump::NodeKind::kFloat || node.kind == dump::NodeKind::kInt;
  return is_number ? BadValuesOfNumber(node.number, threshold) : BadValues{0};
}

Result<EntryFacts> ReadEntryFacts(std::string_view text, double threshold) {
  if (FactsReader quick(threshold); json::ParsePlainObject(text, quick)) {
    return quick.facts();
  }
  FactsReader reader(threshold);
  MSP_RETURN_IF_ERROR(json::ParseStream(text, reader));
  return reader.facts();
}

namespace {

// Whether the index of a __setitem__ is that of all elements: [:], [...], [:, :].
bool IsWholeIndex(const dump::EntryTree& entry, uint32_t index) {
  using dump::EntryTree;
  using dump::NodeKind;
  if (entry[index].kind == NodeKind::kList) {
    bool all = entry[index].child_count > 0;
    entry.ForEachChild(index, [&](uint32_t child) { all = all && IsWholeIndex(entry, child); });
    return all;
  }
  if (entry[index].kind != NodeKind::kObject) {
    return false;
  }
  const uint32_t type = entry.Find(index, "type");
  const uint32_t value = entry.Find(index, "value");
  if (type == EntryTree::kNone || value == EntryTree::kNone) {
    return false;
  }
  if (entry[type].text == "slice" && entry[value].kind == NodeKind::kList) {
    bool all = entry[value].child_count > 0;
    entry.ForEachChild(value,
                       [&](uint32_t end) { all = all && entry[end].kind == NodeKind::kNull; });
    return all;
  }
  return entry[type].text.find("llipsis") != std::string_view::npos;
}

// tensor[index] = value returns nothing: what it did to its first argument follows from the others.
Status SetByIndex(const dump::ScannedEntry& scanned, EntryFacts& facts) {
  MSP_ASSIGN_OR_RETURN(const dump::EntryTree entry, dump::ParseEntry(scanned.text));
  const uint32_t arguments = entry.Find(0, "input_args");
  bool is_whole = false;
  size_t place = 0;
  if (arguments != dump::EntryTree::kNone) {
    entry.ForEachChild(arguments, [&](uint32_t child) {
      is_whole = is_whole || (place == 1 && IsWholeIndex(entry, child));
      ++place;
    });
  }
  facts.output = static_cast<BadValues>(facts.other_inputs | facts.constants);
  facts.first_input = is_whole ? BadValues{0} : facts.first_input;
  return {};
}

// Calls that no mask of -inf is handed to: it would spoil whole rows.
constexpr std::array<std::string_view, 23> kTakesNoMasks = {
    "linear",     "matmul",     "__matmul__", "mm",        "bmm",  "mv",    "einsum",  "tensordot",
    "conv1d",     "conv2d",     "conv3d",     "embedding", "gelu", "silu",  "relu",    "layer_norm",
    "group_norm", "batch_norm", "rms_norm",   "dot",       "sqrt", "rsqrt", "mse_loss"};

// Calls by which additive masks reach the scores.
constexpr std::array<std::string_view, 9> kAdditions = {
    "add", "add_", "__add__", "__radd__", "__iadd__", "baddbmm", "baddbmm_", "addmm", "sub"};

Behaviour BehaviourOf(std::string_view name, std::string_view api, const EntryFacts& facts,
                      BadValues input) {
  if (dump::HasFact(api, dump::kRawMemory) || name.find("Torch.empty") != std::string_view::npos) {
    return Behaviour::kUninitialised;
  }
  if (facts.output == 0 || input != 0) {
    return Behaviour::kOrdinary;
  }
  // A constant beyond the range of float16 becomes infinite in it.
  const BadValues constants =
      facts.has_huge_constant
          ? static_cast<BadValues>(facts.constants | kPositiveInfinity | kNegativeInfinity)
          : facts.constants;
  if (dump::HasFact(api, dump::kTakesConstant) && (facts.output & ~constants) == 0) {
    return Behaviour::kFill;
  }
  if (facts.output == kNegativeInfinity) {
    // (1 - mask) * -inf, scores + -inf: where no NaN comes out, it is a mask in the making.
    if ((facts.constants & kNegativeInfinity) != 0) {
      return Behaviour::kFill;
    }
    if (facts.has_lowest_input && base::IsOneOf(api, kAdditions)) {
      return Behaviour::kLowestMask;
    }
  }
  return name.find("Torch.fill") != std::string_view::npos ? Behaviour::kFill
                                                           : Behaviour::kOrdinary;
}

// The bad values below a node, however deep; `any` is set where there is a tensor.
BadValues BadValuesBelow(const dump::EntryTree& tree, uint32_t root, double threshold, bool& any) {
  BadValues bad = 0;
  const uint32_t end = root == dump::EntryTree::kNone ? 0 : tree[root].end;
  for (uint32_t index = root; index < end; ++index) {
    if (tree[index].key == dump::KeyOf(dump::kMax) || tree[index].key == dump::KeyOf(dump::kMin)) {
      any = true;
      bad |= BadValuesOfNode(tree[index], threshold);
    }
  }
  return bad;
}

// Bad values of all arguments but the buffer. Where no other is a tensor, the buffer is the data.
BadValues BadValuesOfData(const dump::EntryTree& tree, uint32_t buffer, double threshold) {
  BadValues bad = 0;
  bool any = false;
  for (const char* key : {"input_args", "input_kwargs"}) {
    const uint32_t part = tree.Find(0, key);
    for (uint32_t item = part + 1; part != dump::EntryTree::kNone && item < tree[part].end;
         item = tree[item].end) {
      bad |= item == buffer ? BadValues{0} : BadValuesBelow(tree, item, threshold, any);
    }
  }
  return any || buffer == dump::EntryTree::kNone ? bad
                                                 : BadValuesBelow(tree, buffer, threshold, any);
}

// Communication is recorded in the forward direction; what an entry of the other one says is its
// gradient.
bool IsCommunication(std::string_view name) {
  return dump::MovesDataBetweenRanks(name) && name.find(".forward") != std::string_view::npos;
}

class Loader {
 public:
  Loader(RankDump& dump, const LoadOptions& options)
      : dump_(dump), options_(options), reads_all_(std::isfinite(options.threshold)) {}

  void Take(const dump::ScannedEntry& scanned) {
    dump_.has_statistics =
        dump_.has_statistics || scanned.text.find("\"Max\"") != std::string_view::npos;
    const bool is_communication = IsCommunication(scanned.name);
    if (!is_communication && !scanned.is_suspicious && !reads_all_) {
      return;
    }
    Operator op;
    op.text_offset = scanned.offset;
    op.text_bytes = static_cast<uint32_t>(scanned.text.size());
    op.index = static_cast<uint32_t>(dump_.operator_count - 1);
    const Status status = is_communication ? TakeCall(scanned, op) : TakeOrdinary(scanned, op);
    if (!status.ok()) {
      ++damaged_;
      if (damaged_ == 1) {
        dump_.warnings.push_back(fmt::format("entry {} is damaged and left out: {}",
                                             base::Printable(scanned.name), status.message()));
      }
    }
  }

  void Finish() {
    dump_.damaged = damaged_;
    if (damaged_ > 1) {
      dump_.warnings.push_back(
          fmt::format("{} in all are damaged and left out", base::Plural(damaged_, "operator")));
    }
  }

 private:
  Status TakeCall(const dump::ScannedEntry& scanned, Operator& op) {
    MSP_ASSIGN_OR_RETURN(const dump::EntryTree tree, dump::ParseEntry(scanned.text));
    const dump::Communication call = dump::ReadCommunication(
        dump::CommunicationApiOf(scanned.name), tree, dump::MatchRules::kLibraries,
        dump_.is_mindspore && scanned.name.starts_with("Distributed."));
    const auto below = [&](uint32_t node) {
      bool any = false;
      return BadValuesBelow(tree, node, options_.threshold, any);
    };
    op.output = below(tree.Find(0, "output"));
    op.call = dump_.communications.Add(call);
    EndpointValues end = {static_cast<uint32_t>(dump_.operators.size()), 0, 0};
    for (const dump::Transfer& transfer : call.transfers) {
      const bool is_of_batch = transfer.input != dump::EntryTree::kNone;
      end.data = !transfer.sends ? BadValues{0}
                 : is_of_batch   ? below(transfer.input)
                                 : BadValuesOfData(tree, call.buffer, options_.threshold);
      end.output = transfer.output != dump::EntryTree::kNone ? below(transfer.output) : op.output;
      op.input |= end.data;
      dump_.endpoints.push_back(end);
    }
    if (!call.is_point_to_point) {
      op.input = BadValuesOfData(tree, call.buffer, options_.threshold);
      end.data = op.input;
      end.output = op.output;
      dump_.endpoints.push_back(end);
    }
    Keep(scanned, op);
    return {};
  }

  Status TakeOrdinary(const dump::ScannedEntry& scanned, Operator& op) {
    MSP_ASSIGN_OR_RETURN(EntryFacts facts, ReadEntryFacts(scanned.text, options_.threshold));
    const dump::EntryName name = dump::ParseEntryName(scanned.name);
    const bool sets_by_index = !name.is_module && name.subject == "__setitem__";
    const bool is_any_bad = (facts.first_input | facts.other_inputs | facts.output) != 0;
    if (!is_any_bad && (!sets_by_index || facts.constants == 0)) {
      return {};
    }
    if (sets_by_index) {
      MSP_RETURN_IF_ERROR(SetByIndex(scanned, facts));
    }
    const bool overwrites = !name.is_module && name.direction == dump::Direction::kForward &&
                            dump::HasFact(name.subject, dump::kOverwrites);
    op.input = static_cast<BadValues>(facts.other_inputs | (overwrites ? 0 : facts.first_input));
    op.output = facts.output;
    op.inputs_look_like_masks = facts.inputs_look_like_masks;
    op.is_module = name.is_module;
    op.takes_no_masks = !name.is_module && base::IsOneOf(name.subject, kTakesNoMasks);
    op.has_bad_parameters = facts.has_bad_parameters;
    op.is_recompute = facts.is_recompute;
    if (name.direction != dump::Direction::kBackward) {
      const bool pads = name.is_module && name.class_name.starts_with("ConstantPad");
      op.behaviour =
          BehaviourOf(scanned.name, pads ? "constant_pad_nd" : name.subject, facts, op.input);
    }
    Keep(scanned, op);
    return {};
  }

  void Keep(const dump::ScannedEntry& scanned, Operator& op) {
    op.name = dump_.names->Keep(scanned.name);
    dump_.operators.push_back(op);
  }

  RankDump& dump_;
  const LoadOptions& options_;
  const bool reads_all_;
  uint64_t damaged_ = 0;
};

}  // namespace

Result<RankDump> LoadRank(int64_t rank, const std::filesystem::path& folder,
                          const LoadOptions& options) {
  RankDump dump(rank);
  dump.folder = folder;
  Loader loader(dump, options);
  bool framework_known = false;
  MSP_ASSIGN_OR_RETURN(
      const dump::EntryScanOutcome outcome,
      dump::ScanEntries(folder / dump::kDumpFileName,
                        [&](const dump::ScannedEntry& entry, const dump::EntryScanOutcome& header) {
                          if (!framework_known) {
                            framework_known = true;
                            dump.is_mindspore = header.framework == "mindspore";
                          }
                          ++dump.operator_count;
                          loader.Take(entry);
                          return true;
                        }));
  loader.Finish();
  dump.size_bytes = outcome.size_bytes;
  dump.truncated = outcome.truncated || outcome.recovery.has_value();
  if (outcome.truncated) {
    dump.warnings.push_back(fmt::format("dump.json is truncated: its {} are used",
                                        base::Plural(outcome.entry_count, "complete operator")));
  }
  if (outcome.recovery) {
    dump.warnings.push_back(fmt::format("the capture was interrupted: {} were recovered",
                                        base::Plural(outcome.entry_count, "operator")));
  }
  if (!outcome.has_data || outcome.entry_count == 0) {
    dump.warnings.emplace_back("dump.json holds no operators");
  }
  return dump;
}

}  // namespace msprobe::analysis::nonfinite
