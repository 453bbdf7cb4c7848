#include "src/monitor/replay.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/json/value_tree.h"
#include "src/monitor/measure.h"
#include "src/monitor/settings.h"
#include "src/monitor/writer.h"

namespace msprobe::monitor {
namespace {

namespace fs = std::filesystem;

using json::ValueKind;
using json::ValueTree;

constexpr std::string_view kEvents = "feed.jsonl";
constexpr std::string_view kBytes = "feed.bin";
constexpr size_t kMostAxes = 64;  // as in tensor files

struct Measured {
  TensorNumbers numbers;
  Shape shape;
  std::string dtype_text;
};

// Typed members of one line.
class Event {
 public:
  Event(const ValueTree& tree, uint32_t node) : tree_(tree), node_(node) {}

  Result<uint32_t> Member(std::string_view key, ValueKind kind, std::string_view wanted) const {
    const uint32_t found =
        tree_[node_].kind == ValueKind::kObject ? tree_.Find(node_, key) : ValueTree::kNone;
    if (found == ValueTree::kNone || tree_[found].kind != kind) {
      return BadFormatError(fmt::format("\"{}\" is missing, or is not {}", key, wanted));
    }
    return found;
  }
  Result<std::string_view> Text(std::string_view key) const {
    MSP_ASSIGN_OR_RETURN(const uint32_t found, Member(key, ValueKind::kText, "a text"));
    return tree_[found].text;
  }
  Result<int64_t> Count(std::string_view key) const {
    MSP_ASSIGN_OR_RETURN(const uint32_t found, Member(key, ValueKind::kInt, "an integer"));
    if (tree_[found].integer < 0) {
      return BadFormatError(fmt::format("\"{}\" is {}", key, tree_[found].integer));
    }
    return tree_[found].integer;
  }
  bool Flag(std::string_view key) const {
    const uint32_t found =
        tree_[node_].kind == ValueKind::kObject ? tree_.Find(node_, key) : ValueTree::kNone;
    return found != ValueTree::kNone && tree_[found].boolean;
  }

 private:
  const ValueTree& tree_;
  const uint32_t node_;
};

class Player {
 public:
  Player(const Settings& settings, std::span<const std::byte> bytes, std::unique_ptr<Writer> writer)
      : bytes_(bytes), writer_(std::move(writer)) {
    rules_.compat = settings.compat;
  }

  Status Play(const ValueTree& tree) {
    const Event event(tree, 0);
    MSP_ASSIGN_OR_RETURN(const std::string_view kind, event.Text("event"));
    if (kind == "metrics") {
      return TakeMetrics(tree, event);
    }
    if (kind == "write") {
      return WriteRows(tree, event);
    }
    return BadFormatError(fmt::format("no event is called \"{}\"", base::Printable(kind)));
  }

  Status Finish() {
    MSP_RETURN_IF_ERROR(writer_->EndStep(step_));
    return writer_->Close();
  }

  const ReplayTotals& totals() const { return totals_; }

 private:
  Status TakeMetrics(const ValueTree& tree, const Event& event) {
    MSP_ASSIGN_OR_RETURN(const uint32_t eps, event.Member("eps", ValueKind::kFloat, "a number"));
    MSP_ASSIGN_OR_RETURN(const uint32_t ops, event.Member("ops", ValueKind::kList, "a list"));
    MSP_ASSIGN_OR_RETURN(const uint32_t items, event.Member("items", ValueKind::kList, "a list"));
    columns_.clear();
    Status known;
    tree.ForEachChild(ops, [&](uint32_t child) {
      const std::optional<Statistic> op = FindWantedStatistic(tree[child].text);
      if (!op) {
        known = BadFormatError(
            fmt::format("no statistic is called \"{}\"", base::Printable(tree[child].text)));
      } else {
        columns_.push_back(*op);
      }
    });
    MSP_RETURN_IF_ERROR(std::move(known));
    rules_.eps = tree[eps].number;
    Status status;
    tree.ForEachChild(items, [&](uint32_t child) {
      if (status.ok()) {
        status = TakeItem(tree, Event(tree, child));
      }
    });
    return status;
  }

  Status TakeItem(const ValueTree& tree, const Event& item) {
    MSP_ASSIGN_OR_RETURN(const std::string_view tag, item.Text("tag"));
    Measured& measured = measured_[std::string(tag)];
    measured = {};
    ++totals_.tensors;
    if (item.Flag("non_tensor")) {
      return {};
    }
    MSP_ASSIGN_OR_RETURN(const int64_t offset, item.Count("offset"));
    MSP_ASSIGN_OR_RETURN(const int64_t size_bytes, item.Count("nbytes"));
    MSP_ASSIGN_OR_RETURN(const std::string_view dtype_text, item.Text("dtype"));
    MSP_ASSIGN_OR_RETURN(const uint32_t shape, item.Member("shape", ValueKind::kList, "a list"));
    const std::optional<DType> dtype = ParseDType(dtype_text);
    if (!dtype) {
      return BadFormatError(fmt::format("no dtype is called \"{}\"", base::Printable(dtype_text)));
    }
    auto needed = static_cast<int64_t>(DTypeSize(*dtype));
    bool fits = true;
    bool empty = false;
    tree.ForEachChild(shape, [&](uint32_t child) {
      const int64_t size = tree[child].kind == ValueKind::kInt ? tree[child].integer : -1;
      empty = empty || size == 0;
      // Of an empty tensor, too: strides are products of sizes.
      fits = fits && size >= 0 && measured.shape.size() < kMostAxes &&
             (size == 0 || !__builtin_mul_overflow(needed, size, &needed));
      if (fits) {
        measured.shape.push_back(size);
      }
    });
    needed = empty ? 0 : needed;
    const auto available = static_cast<int64_t>(bytes_.size());
    if (!fits || needed != size_bytes || offset > available || size_bytes > available - offset) {
      return BadFormatError(
          fmt::format("{}: {} bytes at {} are not a tensor of this shape and dtype, or lie behind "
                      "the end of {}",
                      base::Printable(tag), size_bytes, offset, kBytes));
    }
    TensorView view;
    view.dtype = *dtype;
    view.shape = measured.shape;
    view.strides = ContiguousStrides(view.shape);
    view.data = bytes_.data() + offset;
    view.extent_bytes = static_cast<size_t>(size_bytes);
    measured.numbers = Measure(view, rules_);
    measured.dtype_text = dtype_text;
    return {};
  }

  Status WriteRows(const ValueTree& tree, const Event& event) {
    MSP_ASSIGN_OR_RETURN(const std::string_view prefix, event.Text("prefix"));
    MSP_ASSIGN_OR_RETURN(const int64_t step, event.Count("step"));
    MSP_ASSIGN_OR_RETURN(const uint32_t tags, event.Member("tags", ValueKind::kList, "a list"));
    if (prefix.empty() || prefix.find_first_of("/\\") != std::string_view::npos) {
      return BadFormatError(
          fmt::format("\"{}\" is not the name of a table", base::Printable(prefix)));
    }
    if (step != step_) {
      MSP_RETURN_IF_ERROR(writer_->EndStep(step_));
      step_ = step;
    }
    Batch batch;
    batch.table = prefix;
    batch.step = step;
    batch.columns = columns_;
    batch.has_micro_step =
        prefix == "actv" || prefix == "actv_grad" || event.Flag("use_micro_step");
    Status status;
    tree.ForEachChild(tags, [&](uint32_t child) {
      if (status.ok()) {
        status = AddRow(tree[child].text, batch);
      }
    });
    MSP_RETURN_IF_ERROR(std::move(status));
    totals_.rows += batch.rows.size();
    return writer_->Write(batch);
  }

  Status AddRow(std::string_view tag, Batch& batch) {
    const auto found = measured_.find(tag);
    if (found == measured_.end()) {
      return BadFormatError(
          fmt::format("{} is written, but was never measured", base::Printable(tag)));
    }
    const Measured& measured = found->second;
    Row row;
    row.tag = tag;
    const std::vector<std::string_view> parts = base::Split(tag.substr(0, tag.find('/')), ':');
    const bool has_micro_step = parts.size() == 3;
    const int64_t stage = base::ParseInt(parts[0]).value_or(-1);
    const int64_t micro_step = has_micro_step ? base::ParseInt(parts[2]).value_or(-1) : 0;
    if (parts.size() < 2 || parts.size() > 3 || stage < 0 || stage > INT32_MAX || micro_step < 0 ||
        micro_step > INT32_MAX) {
      return BadFormatError(fmt::format("{} is not a tag \"<stage>:<name>[:<micro step>]/...\"",
                                        base::Printable(tag)));
    }
    row.stage = static_cast<int32_t>(stage);
    row.name = parts[1];
    if (has_micro_step) {
      row.micro_step = static_cast<int32_t>(micro_step);
    }
    const bool is_tensor = measured.numbers.kind == TensorNumbers::Kind::kTensor;
    for (const Statistic op : batch.columns) {
      if (op == Statistic::kShape) {
        row.values.push_back(is_tensor ? Value(ShapeText(measured.shape)) : Value());
      } else if (op == Statistic::kDType) {
        row.values.push_back(is_tensor ? Value(measured.dtype_text) : Value());
      } else {
        row.values.push_back(ColumnValue(op, measured.numbers, rules_));
      }
    }
    batch.rows.push_back(std::move(row));
    return {};
  }

  const std::span<const std::byte> bytes_;
  const std::unique_ptr<Writer> writer_;
  MeasureRules rules_;
  std::vector<Statistic> columns_;
  std::map<std::string, Measured, std::less<>> measured_;
  int64_t step_ = 0;
  ReplayTotals totals_;
};

}  // namespace

Result<ReplayTotals> Replay(const ReplayOptions& options) {
  MSP_ASSIGN_OR_RETURN(Settings settings, LoadSettings(options.config, {}));
  settings.compat = settings.compat || options.compat;
  const fs::path folder =
      base::Exists(options.feed / kEvents) ? options.feed : options.feed / "feed";
  const fs::path events_path = folder / kEvents;
  MSP_ASSIGN_OR_RETURN(const base::FileBytes events, base::FileBytes::Open(events_path));
  MSP_ASSIGN_OR_RETURN(const base::FileBytes bytes, base::FileBytes::Open(folder / kBytes));
  // Tables grow step by step, and what a training leaves is of use: here they are results, that are
  // there as a whole or not at all.
  base::StagingFolder staging(options.output);
  MSP_RETURN_IF_ERROR(staging.Create());
  Player player(settings, bytes.bytes(),
                MakeCsvWriter(staging.path(), CsvRulesOf(settings), settings.steps_per_file));
  std::string_view rest = events.text();
  for (uint64_t number = 1; !rest.empty(); ++number) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = base::Trim(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.empty()) {
      continue;
    }
    const std::string place = fmt::format("{} line {}", events_path.string(), number);
    MSP_ASSIGN_OR_RETURN(const ValueTree tree, json::ParseValueTree(line), place);
    MSP_RETURN_IF_ERROR(player.Play(tree), place);
  }
  MSP_RETURN_IF_ERROR(player.Finish());
  MSP_RETURN_IF_ERROR(staging.MoveFiles());
  return player.totals();
}

}  // namespace msprobe::monitor
