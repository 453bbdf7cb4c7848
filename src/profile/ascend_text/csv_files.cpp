#include "src/profile/ascend_text/csv_files.h"

#include <algorithm>
#include <array>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/profile/ascend_text/csv_rows.h"

namespace msprobe::profile {
namespace {

constexpr double kMbPerGb = 1024;

// Hands every row of a file to `visit`; `prepare` looks up the columns first.
Status ForEachRow(const std::filesystem::path& path, bool strict,
                  std::initializer_list<std::string_view> needed, Profile& profile,
                  const std::function<void(const CsvRows&)>& prepare,
                  const std::function<void(const CsvRows&, CsvNumbers&)>& visit) {
  const auto report = [&](Status status) -> Status {
    if (strict) {
      return status;
    }
    profile.warnings.push_back(status.message());
    return {};
  };
  if (!base::Exists(path)) {
    return report(NotFoundError(fmt::format("{} does not exist", path.string())));
  }
  Result<CsvRows> rows = CsvRows::Open(path);
  if (!rows.ok()) {
    return report(std::move(rows).status());
  }
  if (const std::vector<std::string> missing = rows->Missing(needed); !missing.empty()) {
    return report(BadFormatError(fmt::format("{} has no column {}: it is left out", path.string(),
                                             base::Join(missing, ", "))));
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
  return broken.ok() ? broken : report(std::move(broken));
}

class KernelDetailRows {
 public:
  KernelDetailRows(Profile& profile, const CsvRows& rows)
      : profile_(profile),
        step_(rows.Find(rows.Find("Step Id") == CsvRows::kNoColumn ? "Step ID" : "Step Id")),
        name_(rows.Find("Name")),
        type_(rows.Find("Type")),
        core_type_(rows.Find("Accelerator Core")),
        shapes_(rows.Find("Input Shapes")),
        start_(rows.Find("Start Time(us)")),
        duration_(rows.Find("Duration(us)")) {
    for (size_t index = 0; index < kMetrics.size(); ++index) {
      metrics_[index] = rows.Find(kMetrics[index].first);
    }
    profile.has_kernel_metrics = rows.Find("mac_time(us)") != CsvRows::kNoColumn ||
                                 rows.Find("aiv_vec_time(us)") != CsvRows::kNoColumn;
  }

  void Add(const CsvRows& rows, CsvNumbers& numbers) {
    Texts& texts = profile_.texts;
    KernelDetail& detail = profile_.kernel_details.emplace_back();
    detail.step = texts.Intern(rows[step_]);
    detail.name = texts.Intern(rows[name_]);
    detail.type = texts.Intern(rows[type_]);
    detail.core_type = texts.Intern(rows[core_type_]);
    detail.shapes = texts.Intern(rows[shapes_]);
    detail.duration_us = numbers.Number(duration_, "Duration(us)");
    for (size_t index = 0; index < kMetrics.size(); ++index) {
      if (metrics_[index] != CsvRows::kNoColumn) {
        detail.*kMetrics[index].second =
            numbers.NumberOrNan(metrics_[index], kMetrics[index].first);
      }
    }
    detail.is_cube = detail.mac_us > 0 || detail.aicore_us > 0;
    const std::optional<Nanoseconds> start = ParseMicroseconds(rows[start_]);
    detail.start = start.value_or(0);
    without_start_ += start.has_value() ? 0 : 1;
  }

  void Warn(const std::filesystem::path& path) {
    if (without_start_ > 0) {
      profile_.warnings.push_back(
          fmt::format("{}: {} without a readable Start Time(us), which no operator can launch",
                      path.string(), base::Plural(without_start_, "row")));
    }
  }

 private:
  static constexpr std::array<std::pair<std::string_view, double KernelDetail::*>, 6> kMetrics = {{
      {"aiv_vec_time(us)", &KernelDetail::vector_us},
      {"aicore_time(us)", &KernelDetail::aicore_us},
      {"mac_time(us)", &KernelDetail::mac_us},
      {"aic_mac_time(us)", &KernelDetail::cube_us},
      {"aic_mte2_time(us)", &KernelDetail::load_us},
      {"aiv_time(us)", &KernelDetail::vector_core_us},
  }};

  Profile& profile_;
  size_t step_;
  size_t name_;
  size_t type_;
  size_t core_type_;
  size_t shapes_;
  size_t start_;
  size_t duration_;
  std::array<size_t, kMetrics.size()> metrics_{};
  uint64_t without_start_ = 0;
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

}  // namespace

Status ReadKernelDetails(const std::filesystem::path& folder, bool strict, Profile& profile) {
  const std::filesystem::path path = folder / "kernel_details.csv";
  std::optional<KernelDetailRows> reader;
  MSP_RETURN_IF_ERROR(ForEachRow(
      path, strict, {"Name", "Type", "Start Time(us)", "Duration(us)"}, profile,
      [&](const CsvRows& rows) { reader.emplace(profile, rows); },
      [&](const CsvRows& rows, CsvNumbers& numbers) { reader->Add(rows, numbers); }));
  if (reader.has_value()) {
    reader->Warn(path);
  }
  GiveShapes(profile);
  return {};
}

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

Status ReadOperatorStatistic(const std::filesystem::path& folder, bool strict, Profile& profile) {
  static constexpr std::array<std::pair<std::string_view, double OperatorStatistic::*>, 5> kValues =
      {{{"Count", &OperatorStatistic::count},
        {"Total Time(us)", &OperatorStatistic::total_us},
        {"Avg Time(us)", &OperatorStatistic::average_us},
        {"Max Time(us)", &OperatorStatistic::max_us},
        {"Min Time(us)", &OperatorStatistic::min_us}}};
  size_t type = 0;
  size_t core_type = 0;
  std::array<size_t, kValues.size()> columns{};
  return ForEachRow(
      folder / "op_statistic.csv", strict,
      {"OP Type", "Core Type", "Count", "Total Time(us)", "Avg Time(us)", "Max Time(us)",
       "Min Time(us)"},
      profile,
      [&](const CsvRows& rows) {
        type = rows.Find("OP Type");
        core_type = rows.Find("Core Type");
        for (size_t index = 0; index < kValues.size(); ++index) {
          columns[index] = rows.Find(kValues[index].first);
        }
      },
      [&](const CsvRows& rows, CsvNumbers& numbers) {
        OperatorStatistic& row = profile.operator_statistics.emplace_back();
        row.type = profile.texts.Intern(rows[type]);
        row.core_type = profile.texts.Intern(rows[core_type]);
        for (size_t index = 0; index < kValues.size(); ++index) {
          row.*kValues[index].second = numbers.Number(columns[index], kValues[index].first);
        }
      });
}

}  // namespace msprobe::profile
