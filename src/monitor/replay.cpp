#include "src/monitor/replay.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/json/document.h"
#include "src/monitor/measure.h"
#include "src/monitor/settings.h"
#include "src/monitor/writer.h"

namespace msprobe::monitor {
namespace {

namespace fs = std::filesystem;

using json::Json;

constexpr std::string_view kEvents = "feed.jsonl";
constexpr std::string_view kBytes = "feed.bin";
constexpr size_t kMostAxes = 64;  // as in tensor files

struct Measured {
  TensorNumbers numbers;
  Shape shape;
  std::string dtype_text;
};

// Typed members of one line.
Status Missing(std::string_view key, std::string_view wanted) {
  return BadFormatError(fmt::format("\"{}\" is missing, or is not {}", key, wanted));
}
Result<std::string_view> Text(const Json& event, std::string_view key) {
  const Json& text = json::Member(event, key);
  return text.is_string() ? Result<std::string_view>(json::TextOf(text)) : Missing(key, "a text");
}
Result<std::span<const Json>> List(const Json& event, std::string_view key) {
  const Json& list = json::Member(event, key);
  return list.is_array() ? Result<std::span<const Json>>(json::ItemsOf(list))
                         : Missing(key, "a list");
}
Result<int64_t> Count(const Json& event, std::string_view key) {
  const Json& count = json::Member(event, key);
  if (!count.is_number_integer()) {
    return Missing(key, "an integer");
  }
  const int64_t value = json::IntOf(count);
  return value >= 0 ? Result<int64_t>(value)
                    : BadFormatError(fmt::format("\"{}\" is {}", key, value));
}
bool Flag(const Json& event, std::string_view key) {
  return json::BoolOf(json::Member(event, key));
}

class Player {
 public:
  Player(const Settings& settings, std::span<const std::byte> bytes, std::unique_ptr<Writer> writer)
      : bytes_(bytes), writer_(std::move(writer)) {
    rules_.compat = settings.compat;
  }

  Status Play(const Json& event) {
    MSP_ASSIGN_OR_RETURN(const std::string_view kind, Text(event, "event"));
    if (kind == "metrics") {
      return TakeMetrics(event);
    }
    if (kind == "write") {
      return WriteRows(event);
    }
    return BadFormatError(fmt::format("no event is called \"{}\"", base::Printable(kind)));
  }

  Status Finish() {
    MSP_RETURN_IF_ERROR(writer_->EndStep(step_));
    return writer_->Close();
  }

  const ReplayTotals& totals() const { return totals_; }

 private:
  Status TakeMetrics(const Json& event) {
    const Json& eps = json::Member(event, "eps");
    if (!eps.is_number_float()) {
      return Missing("eps", "a number");
    }
    MSP_ASSIGN_OR_RETURN(const auto ops, List(event, "ops"));
    MSP_ASSIGN_OR_RETURN(const auto items, List(event, "items"));
    columns_.clear();
    for (const Json& name : ops) {
      const std::optional<Statistic> op = FindWantedStatistic(json::TextOf(name));
      if (!op) {
        return BadFormatError(
            fmt::format("no statistic is called \"{}\"", base::Printable(json::TextOf(name))));
      }
      columns_.push_back(*op);
    }
    rules_.eps = json::NumberOf(eps);
    for (const Json& item : items) {
      MSP_RETURN_IF_ERROR(TakeItem(item));
    }
    return {};
  }

  Status TakeItem(const Json& item) {
    MSP_ASSIGN_OR_RETURN(const std::string_view tag, Text(item, "tag"));
    Measured& measured = measured_[std::string(tag)];
    measured = {};
    ++totals_.tensors;
    if (Flag(item, "non_tensor")) {
      return {};
    }
    MSP_ASSIGN_OR_RETURN(const int64_t offset, Count(item, "offset"));
    MSP_ASSIGN_OR_RETURN(const int64_t size_bytes, Count(item, "nbytes"));
    MSP_ASSIGN_OR_RETURN(const std::string_view dtype_text, Text(item, "dtype"));
    MSP_ASSIGN_OR_RETURN(const auto shape, List(item, "shape"));
    const std::optional<DType> dtype = ParseDType(dtype_text);
    if (!dtype) {
      return BadFormatError(fmt::format("no dtype is called \"{}\"", base::Printable(dtype_text)));
    }
    auto needed = static_cast<int64_t>(DTypeSize(*dtype));
    bool fits = true;
    bool empty = false;
    for (const Json& axis : shape) {
      const int64_t size = axis.is_number_integer() ? json::IntOf(axis) : -1;
      empty = empty || size == 0;
      // Checked for empty tensors, too: strides are products of sizes.
      fits = fits && size >= 0 && measured.shape.size() < kMostAxes &&
             (size == 0 || !__builtin_mul_overflow(needed, size, &needed));
      if (fits) {
        measured.shape.push_back(size);
      }
    }
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

  Status WriteRows(const Json& event) {
    MSP_ASSIGN_OR_RETURN(const std::string_view prefix, Text(event, "prefix"));
    MSP_ASSIGN_OR_RETURN(const int64_t step, Count(event, "step"));
    MSP_ASSIGN_OR_RETURN(const auto tags, List(event, "tags"));
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
        prefix == "actv" || prefix == "actv_grad" || Flag(event, "use_micro_step");
    for (const Json& tag : tags) {
      MSP_RETURN_IF_ERROR(AddRow(json::TextOf(tag), batch));
    }
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
    MSP_ASSIGN_OR_RETURN(const Json event, json::ParseDocument(line), place);
    MSP_RETURN_IF_ERROR(player.Play(event), place);
  }
  MSP_RETURN_IF_ERROR(player.Finish());
  MSP_RETURN_IF_ERROR(staging.MoveFiles());
  return player.totals();
}

}  // namespace msprobe::monitor
