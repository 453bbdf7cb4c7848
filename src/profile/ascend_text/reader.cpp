#include "src/profile/ascend_text/reader.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "msprobe/status.h"

#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/json/document.h"
#include "src/json/stream_reader.h"
#include "src/profile/ascend_text/trace.h"
#include "src/profile/profile.h"

namespace msprobe::profile {

Result<CsvRows> CsvRows::Open(const std::filesystem::path& path) {
  MSP_ASSIGN_OR_RETURN(base::FileBytes file, base::FileBytes::Open(path));
  MSP_ASSIGN_OR_RETURN(CsvRows rows, FromText(file.text(), path.string()));
  rows.file_ = std::move(file);
  return rows;
}

Result<CsvRows> CsvRows::FromText(std::string_view text, std::string name) {
  CsvRows rows(base::WithoutByteOrderMark(text), std::move(name));
  MSP_RETURN_IF_ERROR(rows.ReadRow().status());
  for (const std::string_view cell : rows.tokenizer_.fields()) {
    rows.columns_.emplace_back(base::Trim(cell));
  }
  return rows;
}

size_t CsvRows::Find(std::string_view column) const {
  const auto found = std::find(columns_.begin(), columns_.end(), column);
  return found == columns_.end() ? kNoColumn : static_cast<size_t>(found - columns_.begin());
}

std::vector<std::string> CsvRows::Missing(std::initializer_list<std::string_view> columns) const {
  std::vector<std::string> missing;
  for (const std::string_view column : columns) {
    if (Find(column) == kNoColumn) {
      missing.emplace_back(column);
    }
  }
  return missing;
}

Result<bool> CsvRows::Next() {
  tokenizer_.SkipEmptyLines();
  return ReadRow();
}

Result<bool> CsvRows::ReadRow() {
  switch (tokenizer_.Next()) {
    case base::CsvTokenizer::Row::kFields:
      return true;
    case base::CsvTokenizer::Row::kEnd:
      return false;
    case base::CsvTokenizer::Row::kOpenQuote:
    case base::CsvTokenizer::Row::kTextAfterQuote:
      break;
  }
  return BadFormatError(fmt::format("{} line {}: unterminated quoted cell", name_, line()));
}

std::string_view CsvRows::operator[](size_t column) const {
  const std::span<const std::string_view> cells = tokenizer_.fields();
  return column < std::min(cells.size(), columns_.size()) ? base::Trim(cells[column])
                                                          : std::string_view();
}

double CsvNumbers::Number(size_t column, std::string_view column_name) {
  const std::optional<double> number = base::ParseDouble(rows_[column]);
  if (!number.has_value() || !std::isfinite(*number)) {
    Note(column_name);
    return 0;
  }
  return *number;
}

double CsvNumbers::NumberOrNan(size_t column, std::string_view column_name) {
  const std::string_view cell = rows_[column];
  if (cell.empty() || cell == "N/A") {
    return std::numeric_limits<double>::quiet_NaN();
  }
  return Number(column, column_name);
}

void CsvNumbers::Note(std::string_view column_name) {
  for (Bad& bad : bad_) {
    if (bad.column == column_name) {
      ++bad.count;
      return;
    }
  }
  bad_.push_back({column_name, rows_.line(), 1});
}

void CsvNumbers::Warn(std::vector<std::string>& warnings) const {
  for (const Bad& bad : bad_) {
    warnings.push_back(fmt::format("{} line {}: no number in column {} ({}); counts as 0",
                                   rows_.name(), bad.first_line, bad.column,
                                   base::Plural(bad.count, "row")));
  }
}

namespace {

constexpr double kMbPerGb = 1024;

// A file that is missing, damaged or has other columns: an error when `strict`, else a warning.
Status Report(Status status, bool strict, Profile& profile) {
  if (strict) {
    return status;
  }
  profile.warnings.push_back(status.message());
  return {};
}

// ---- The csv files beside trace_view.json ----

// Hands every row of a file to `visit`; `prepare` looks up the columns first.
Status ForEachRow(const std::filesystem::path& path, bool strict,
                  std::initializer_list<std::string_view> needed, Profile& profile,
                  const std::function<void(const CsvRows&)>& prepare,
                  const std::function<void(const CsvRows&, CsvNumbers&)>& visit) {
  if (!base::Exists(path)) {
    return Report(NotFoundError(fmt::format("{} does not exist", path.string())), strict, profile);
  }
  Result<CsvRows> rows = CsvRows::Open(path);
  if (!rows.ok()) {
    return Report(std::move(rows).status(), strict, profile);
  }
  if (const std::vector<std::string> missing = rows->Missing(needed); !missing.empty()) {
    return Report(BadFormatError(fmt::format("{} has no column {}: it is left out", path.string(),
                                             base::Join(missing, ", "))),
                  strict, profile);
  }
  prepare(*rows);
  CsvNumbers numbers(*rows);
  Status broken;
  for (;;) {
    Result<bool> more = rows->Next();
    if (!more.ok()) {
      broken = std::move(more).status();
      break;
    }
    if (!*more) {
      break;
    }
    visit(*rows, numbers);
  }
  numbers.Warn(profile.warnings);
  return broken.ok() ? broken : Report(std::move(broken), strict, profile);
}

// The columns of a file by the members of the rows they fill.
template <typename Row>
class RowColumns {
 public:
  using Text = std::pair<std::string_view, TextId Row::*>;
  using Number = std::pair<std::string_view, double Row::*>;

  RowColumns(std::initializer_list<Text> texts, std::initializer_list<Number> numbers)
      : texts_(texts), numbers_(numbers) {}

  void Find(const CsvRows& rows) {
    places_.clear();
    for (const Text& text : texts_) {
      places_.push_back(rows.Find(text.first));
    }
    for (const Number& number : numbers_) {
      places_.push_back(rows.Find(number.first));
    }
  }
  // Numbers of columns that are not there stay as they are. `may_be_empty`: see NumberOrNan.
  void Fill(const CsvRows& rows, bool may_be_empty, CsvNumbers& numbers, Texts& texts,
            Row& row) const {
    size_t next = 0;
    for (const auto& [name, member] : texts_) {
      row.*member = texts.Intern(rows[places_[next++]]);
    }
    for (const auto& [name, member] : numbers_) {
      const size_t place = places_[next++];
      if (place != CsvRows::kNoColumn) {
        row.*member = may_be_empty ? numbers.NumberOrNan(place, name) : numbers.Number(place, name);
      }
    }
  }

 private:
  const std::vector<Text> texts_;
  const std::vector<Number> numbers_;
  std::vector<size_t> places_;  // of the texts' columns, then of the numbers'
};

// Kernels get the shapes of the row that starts at the same time; the last one of several.
void GiveShapes(Profile& profile) {
  std::unordered_map<Nanoseconds, TextId> shapes;
  shapes.reserve(profile.kernel_details.size());
  for (const KernelDetail& detail : profile.kernel_details) {
    shapes[detail.start] = detail.shapes;
  }
  for (Kernel& kernel : profile.kernels) {
    if (kernel.is_communication) {
      continue;
    }
    if (const auto found = shapes.find(kernel.start); found != shapes.end()) {
      kernel.shapes = found->second;
    }
  }
}

// kernel_details.csv; kernels that were read before get their shapes from it.
Status ReadKernelDetails(const std::filesystem::path& folder, bool strict, Profile& profile) {
  const std::filesystem::path path = folder / "kernel_details.csv";
  using Detail = KernelDetail;
  RowColumns<Detail> columns({{"Name", &Detail::name},
                              {"Type", &Detail::type},
                              {"Accelerator Core", &Detail::core_type},
                              {"Input Shapes", &Detail::shapes}},
                             {{"aiv_vec_time(us)", &Detail::vector_us},
                              {"aicore_time(us)", &Detail::aicore_us},
                              {"mac_time(us)", &Detail::mac_us},
                              {"aic_mac_time(us)", &Detail::cube_us},
                              {"aic_mte2_time(us)", &Detail::load_us},
                              {"aiv_time(us)", &Detail::vector_core_us}});
  size_t step = 0;
  size_t start = 0;
  size_t duration = 0;
  uint64_t without_start = 0;
  MSP_RETURN_IF_ERROR(ForEachRow(
      path, strict, {"Name", "Type", "Start Time(us)", "Duration(us)"}, profile,
      [&](const CsvRows& rows) {
        columns.Find(rows);
        step = rows.Find(rows.Find("Step Id") == CsvRows::kNoColumn ? "Step ID" : "Step Id");
        start = rows.Find("Start Time(us)");
        duration = rows.Find("Duration(us)");
        profile.has_kernel_metrics = rows.Find("mac_time(us)") != CsvRows::kNoColumn ||
                                     rows.Find("aiv_vec_time(us)") != CsvRows::kNoColumn;
      },
      [&](const CsvRows& rows, CsvNumbers& numbers) {
        Detail& detail = profile.kernel_details.emplace_back();
        detail.step = profile.texts.Intern(rows[step]);
        detail.duration_us = numbers.Number(duration, "Duration(us)");
        columns.Fill(rows, /*may_be_empty=*/true, numbers, profile.texts, detail);
        detail.is_cube = detail.mac_us > 0 || detail.aicore_us > 0;
        const std::optional<Nanoseconds> at = ParseMicroseconds(rows[start]);
        detail.start = at.value_or(0);
        without_start += at.has_value() ? 0 : 1;
      }));
  if (without_start > 0) {
    profile.warnings.push_back(
        fmt::format("{}: {} without a readable Start Time(us), which no operator can launch",
                    path.string(), base::Plural(without_start, "row")));
  }
  GiveShapes(profile);
  return {};
}

// operator_memory.csv; `queue` places what the driver allocated.
Status ReadOperatorMemory(const std::filesystem::path& folder, const TaskQueue& queue, bool strict,
                          Profile& profile) {
  const std::filesystem::path path = folder / "operator_memory.csv";
  size_t name = 0;
  size_t size = 0;
  size_t allocated = 0;
  size_t released = 0;
  uint64_t unreadable = 0;
  uint64_t unplaced = 0;
  const TextId never = profile.texts.Intern("0");
  MSP_RETURN_IF_ERROR(ForEachRow(
      path, strict, {"Name", "Size(KB)", "Allocation Time(us)", "Release Time(us)"}, profile,
      [&](const CsvRows& rows) {
        name = rows.Find("Name");
        size = rows.Find("Size(KB)");
        allocated = rows.Find("Allocation Time(us)");
        released = rows.Find("Release Time(us)");
      },
      [&](const CsvRows& rows, CsvNumbers& numbers) {
        const std::string_view allocated_text = rows[allocated];
        if (allocated_text.empty() || allocated_text == "N/A") {
          return;
        }
        const std::optional<Nanoseconds> at = ParseMicroseconds(allocated_text);
        if (!at.has_value()) {
          ++unreadable;
          return;
        }
        Allocation allocation;
        allocation.at = *at;
        if (rows[name].find("cann::") != std::string_view::npos) {
          const std::optional<Nanoseconds> host_time = queue.HostTime(*at);
          if (!host_time.has_value()) {
            ++unplaced;
            return;
          }
          allocation.at = *host_time;
          allocation.name = profile.texts.Intern(rows[name]);
        }
        const std::string_view released_text = rows[released];
        const std::optional<Nanoseconds> end = ParseMicroseconds(released_text);
        const bool was_released = end.has_value() && *end != 0;
        allocation.allocated = profile.texts.Intern(allocated_text);
        allocation.released = was_released ? profile.texts.Intern(released_text) : never;
        Nanoseconds lifetime = 0;
        if (was_released && *at != 0 && !__builtin_sub_overflow(*end, *at, &lifetime)) {
          allocation.duration_us = static_cast<double>(lifetime) / kNanosecondsPerUs;
        }
        allocation.size_kb = numbers.Number(size, "Size(KB)");
        profile.allocations.push_back(allocation);
      }));
  if (unreadable > 0) {
    profile.warnings.push_back(fmt::format("{}: {} without a readable Allocation Time(us) left out",
                                           path.string(), base::Plural(unreadable, "row")));
  }
  if (unplaced > 0) {
    profile.warnings.push_back(
        fmt::format("{}: {} of cann:: left out, no operator is known that was dequeued then",
                    path.string(), base::Plural(unplaced, "row")));
  }
  return {};
}

// memory_record.csv: the most memory that was reserved.
Status ReadMemoryRecord(const std::filesystem::path& folder, bool strict, Profile& profile) {
  constexpr std::string_view kReserved = "Total Reserved(MB)";
  size_t reserved = 0;
  double most_mb = 0;
  MSP_RETURN_IF_ERROR(ForEachRow(
      folder / "memory_record.csv", strict, {kReserved}, profile,
      [&](const CsvRows& rows) { reserved = rows.Find(kReserved); },
      [&](const CsvRows& rows, CsvNumbers& numbers) {
        if (!rows[reserved].empty() && rows[reserved] != "N/A") {
          most_mb = std::max(most_mb, numbers.Number(reserved, kReserved));
        }
      }));
  profile.memory_used_gb = most_mb / kMbPerGb;
  return {};
}

// op_statistic.csv.
Status ReadOperatorStatistic(const std::filesystem::path& folder, bool strict, Profile& profile) {
  using Row = OperatorStatistic;
  RowColumns<Row> columns({{"OP Type", &Row::type}, {"Core Type", &Row::core_type}},
                          {{"Count", &Row::count},
                           {"Total Time(us)", &Row::total_us},
                           {"Avg Time(us)", &Row::average_us},
                           {"Max Time(us)", &Row::max_us},
                           {"Min Time(us)", &Row::min_us}});
  return ForEachRow(
      folder / "op_statistic.csv", strict,
      {"OP Type", "Core Type", "Count", "Total Time(us)", "Avg Time(us)", "Max Time(us)",
       "Min Time(us)"},
      profile, [&](const CsvRows& rows) { columns.Find(rows); },
      [&](const CsvRows& rows, CsvNumbers& numbers) {
        columns.Fill(rows, /*may_be_empty=*/false, numbers, profile.texts,
                     profile.operator_statistics.emplace_back());
      });
}

// ---- The JSON files beside it ----

constexpr uint64_t kMetadataLimitBytes = uint64_t{64} << 20U;

// {step: {"collective": {"Total Op Info": {"Communication Bandwidth Info": {"RDMA": {...}}}}}}
class BandwidthHandler final : public json::Handler {
 public:
  explicit BandwidthHandler(std::vector<Bandwidth>& steps) : steps_(steps) {}

  bool OnNull() override { return true; }
  bool OnBool(bool /*unused*/) override { return true; }
  bool OnInt(int64_t value) override { return Number(static_cast<double>(value)); }
  bool OnFloat(double value, std::string_view /*unused*/) override { return Number(value); }
  bool OnText(std::string_view value) override {
    const std::optional<double> number = base::ParseDouble(value);
    return !number.has_value() || Number(*number);
  }
  bool OnKey(std::string_view key) override {
    if (depth_ == 1) {
      step_ = key;
      matched_ = 1;
    } else if (depth_ <= matched_ + 1 && depth_ <= kDepth) {
      // Keys on the way down, each below the one before.
      matched_ = Matches(key) ? depth_ : depth_ - 1;
    }
    if (depth_ == kDepth + 1 && matched_ == kDepth) {
      value_ = key == "Transit Size(MB)"   ? &size_mb_
               : key == "Transit Time(ms)" ? &time_ms_
                                           : nullptr;
    }
    return true;
  }
  bool OnBeginObject() override {
    ++depth_;
    if (depth_ == 2) {
      steps_.push_back({step_, 0, 0});
    } else if (depth_ == kDepth + 1 && matched_ == kDepth) {
      size_mb_ = time_ms_ = 0;
    }
    value_ = nullptr;
    return true;
  }
  bool OnEndObject() override {
    if (depth_ == kDepth + 1 && matched_ == kDepth) {
      const double rate = time_ms_ > 0 ? size_mb_ / time_ms_ : 0;
      (is_rdma_ ? steps_.back().rdma : steps_.back().sdma) = std::isfinite(rate) ? rate : 0;
    }
    --depth_;
    value_ = nullptr;
    return true;
  }
  bool OnBeginArray() override {
    value_ = nullptr;
    return ++depth_ > 1;  // a list of steps is not such a file
  }
  bool OnEndArray() override {
    --depth_;
    return true;
  }

 private:
  static constexpr int kDepth = 5;  // of "RDMA" and "SDMA"; the step is 1

  bool Matches(std::string_view key) {
    switch (depth_) {
      case 2:
        return key == "collective";
      case 3:
        return key == "Total Op Info";
      case 4:
        return key == "Communication Bandwidth Info";
      default:
        is_rdma_ = key == "RDMA";
        return is_rdma_ || key == "SDMA";
    }
  }
  bool Number(double value) {
    if (value_ != nullptr && depth_ == kDepth + 1) {
      *value_ = value;
    }
    value_ = nullptr;
    return true;
  }

  std::vector<Bandwidth>& steps_;
  int depth_ = 0;
  int matched_ = 0;  // levels of the way down that the keys above agree with
  std::string step_;
  bool is_rdma_ = false;
  double size_mb_ = 0;
  double time_ms_ = 0;
  double* value_ = nullptr;
};

// communication.json: what each step sent, in file order. The file lists every collective, so it
// can be large; only the totals are kept.
Status ReadBandwidth(const std::filesystem::path& folder, bool strict, Profile& profile) {
  const std::filesystem::path path = folder / "communication.json";
  Result<base::FileBytes> file = base::FileBytes::Open(path);
  if (!file.ok()) {
    return Report(std::move(file).status(), strict, profile);
  }
  BandwidthHandler handler(profile.bandwidth);
  json::ParseOutcome outcome;
  Status status = json::ParseStream(file->text(), handler, &outcome);
  if (status.ok() && outcome.truncated) {
    status = BadFormatError("it is truncated");
  }
  if (!status.ok()) {
    return Report(std::move(status).AddContext(fmt::format("cannot read all of {}", path.string())),
                  strict, profile);
  }
  return {};
}

// profiler_metadata.json: what groups of ranks are for ("tp", "dp"). Its absence is not a fault.
Status ReadGroupNames(const std::filesystem::path& folder, bool strict, Profile& profile) {
  const std::filesystem::path path = folder / "profiler_metadata.json";
  if (profile.groups.empty() || !base::Exists(path)) {
    return {};
  }
  Result<std::string> text = base::ReadTextFile(path, kMetadataLimitBytes);
  if (!text.ok()) {
    return Report(std::move(text).status(), strict, profile);
  }
  Result<json::Json> parsed = json::ParseDocument(*text);
  if (!parsed.ok()) {
    return Report(
        std::move(parsed).status().AddContext(fmt::format("cannot read {}", path.string())), strict,
        profile);
  }
  const json::Json& groups = json::Member(*parsed, "parallel_group_info");
  if (!groups.is_object()) {
    return {};
  }
  std::unordered_map<TextId, std::vector<CommunicationGroup*>> by_name;
  for (CommunicationGroup& known : profile.groups) {
    by_name[known.name].push_back(&known);
  }
  for (const auto& [key, group] : groups.items()) {
    const json::Json& name = json::Member(group, "group_name");
    const TextId thread = profile.texts.Find(fmt::format("Group {} Communication", key));
    const auto named = by_name.find(thread);
    if (!name.is_string() || thread == kNoText || named == by_name.end()) {
      continue;
    }
    std::string ranks;
    for (const json::Json& rank : json::ItemsOf(json::Member(group, "global_ranks"))) {
      if (rank.is_number_integer()) {
        ranks += fmt::format("{}{}", ranks.empty() ? "[" : ",", json::IntOf(rank));
      }
    }
    for (CommunicationGroup* known : named->second) {
      known->parallel_name = profile.texts.Intern(json::TextOf(name));
      if (!ranks.empty()) {
        known->ranks = profile.texts.Intern(ranks + "]");
      }
    }
  }
  return {};
}

Profile NewProfile(const std::filesystem::path& path, Source source) {
  Profile profile;
  profile.path = path;
  profile.device = Device::kNpu;
  profile.source = source;
  return profile;
}

// Everything else is in smaller files, and the trace is not opened.
bool NeedsTrace(const Needs& needs) {
  return needs.operators || needs.kernels || needs.flows || needs.python_calls || needs.memory ||
         needs.communication || needs.overlap;
}

}  // namespace

Result<Profile> ReadAscendTrace(const std::filesystem::path& file, const Needs& needs) {
  Profile profile = NewProfile(file, Source::kTrace);
  if (NeedsTrace(needs)) {
    AscendTraceReader reader(needs);
    MSP_RETURN_IF_ERROR(reader.Read(file, profile));
  }
  return profile;
}

Result<Profile> ReadAscendText(const std::filesystem::path& root,
                               const std::filesystem::path& output, const Needs& needs) {
  Profile profile = NewProfile(root, Source::kText);
  AscendTraceReader reader(needs);
  if (NeedsTrace(needs)) {
    MSP_RETURN_IF_ERROR(reader.Read(output / "trace_view.json", profile));
  }
  if (needs.kernel_details || needs.kernels) {
    MSP_RETURN_IF_ERROR(ReadKernelDetails(output, needs.strict, profile));
  }
  if (needs.memory) {
    MSP_RETURN_IF_ERROR(ReadOperatorMemory(output, reader.queue(), needs.strict, profile));
  }
  if (needs.overlap) {
    MSP_RETURN_IF_ERROR(ReadMemoryRecord(output, needs.strict, profile));
  }
  if (needs.operator_statistics) {
    MSP_RETURN_IF_ERROR(ReadOperatorStatistic(output, needs.strict, profile));
  }
  if (needs.bandwidth) {
    MSP_RETURN_IF_ERROR(ReadBandwidth(output, needs.strict, profile));
  }
  if (needs.communication) {
    MSP_RETURN_IF_ERROR(ReadGroupNames(root, needs.strict, profile));
  }
  return profile;
}

}  // namespace msprobe::profile
