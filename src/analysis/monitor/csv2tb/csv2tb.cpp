#include "src/analysis/monitor/csv2tb/csv2tb.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sys/stat.h>

#include "src/analysis/monitor/common/document_parts.h"
#include "src/analysis/monitor/common/monitored_run.h"
#include "src/base/files.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/base/threads.h"
#include "src/monitor/event_file.h"
#include "src/monitor/output_folder.h"
#include "src/monitor/settings.h"

namespace msprobe::analysis::monitor {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBlockBytes = size_t{1} << 20U;
// A table has a name once for all its columns, an event file once for each value: longer names than
// a run has are left out, as in stores.
constexpr size_t kMostEventNameBytes = 1024;

// One table of one rank: one event file.
struct EventFile {
  std::string table;
  int32_t rank = 0;
  std::vector<const Series*> series;
  uint64_t scalars = 0;
  Status status;
};

Status WriteEvents(EventFile& file, const std::vector<std::string>& ops, const fs::path& folder) {
  MSP_RETURN_IF_ERROR(base::CreateFolders(folder));
  const double now_s = msprobe::monitor::WallTimeNow();
  MSP_ASSIGN_OR_RETURN(base::AtomicFile out,
                       base::AtomicFile::Create(folder / msprobe::monitor::EventFileName(now_s)));
  std::string block;
  block.reserve(kBlockBytes + 4096);
  msprobe::monitor::AppendFileVersion(now_s, block);
  for (const Series* series : file.series) {
    std::string stem = fmt::format("vp{}:{}", series->stage, series->name);
    if (series->micro_step >= 0) {
      stem += fmt::format(":micro{}", series->micro_step);
    }
    std::vector<std::pair<std::string, const double*>> columns;
    for (const std::string& op : ops) {
      const auto values = series->values.find(op);
      if (values != series->values.end()) {
        columns.emplace_back(fmt::format("{}/{}", stem, op), values->second.data());
      }
    }
    for (size_t row = 0; row < series->steps.size(); ++row) {
      if (series->ranks[row] != file.rank) {
        continue;
      }
      for (const auto& column : columns) {
        msprobe::monitor::AppendScalar(column.first, series->steps[row], column.second[row], now_s,
                                       block);
      }
      file.scalars += columns.size();
      if (block.size() >= kBlockBytes) {
        MSP_RETURN_IF_ERROR(out.Write(block));
        block.clear();
      }
    }
  }
  MSP_RETURN_IF_ERROR(out.Write(block));
  return out.Commit();
}

constexpr std::string_view kEventFileStart = "events.out.tfevents.";

// TensorBoard shows all event files of a folder as one run: those of an earlier conversion are
// refused, or go with --force. Everything else stays.
Status ClearEvents(const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(folder, error))) {
    return {};
  }
  MSP_RETURN_IF_ERROR(base::CheckOutputFolder(folder));
  MSP_ASSIGN_OR_RETURN(const std::vector<std::string> names, base::ListFolder(folder));
  for (const std::string& name : names) {
    if (name.starts_with(kEventFileStart)) {
      MSP_RETURN_IF_ERROR(base::CheckOutputFile(folder / name));
      fs::remove(folder / name, error);
    }
  }
  return {};
}

constexpr std::string_view kDefaultFolder = "-csv2tensorboard_by_step";

std::vector<fs::path> FoldersIn(const fs::path& folder) {
  std::vector<fs::path> folders;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (std::error_code unknown; at->symlink_status(unknown).type() == fs::file_type::directory) {
      folders.push_back(at->path());
    }
  }
  return folders;
}

// What killed conversions left unfinished in the folders of ranks and tables, whichever of them are
// written now.
void RemoveAbandonedEvents(const fs::path& output) {
  for (const fs::path& rank : FoldersIn(output)) {
    if (rank.filename().native().starts_with("rank")) {
      for (const fs::path& table : FoldersIn(rank)) {
        base::RemoveAbandoned(table);
      }
    }
  }
}

// <run>/<now>-csv2tensorboard_by_step, with a number behind it where another run made that.
Result<fs::path> MakeDefaultFolder(const fs::path& run) {
  constexpr int kMostTries = 1000;
  for (const fs::path& folder : FoldersIn(run)) {
    if (folder.filename().native().find(kDefaultFolder) != std::string::npos) {
      RemoveAbandonedEvents(folder);
    }
  }
  const std::string name =
      msprobe::monitor::StampOf(static_cast<int64_t>(msprobe::monitor::WallTimeNow())) +
      std::string(kDefaultFolder);
  for (int i = 0; i < kMostTries; ++i) {
    fs::path folder = run / (i == 0 ? name : fmt::format("{}_{}", name, i));
    if (::mkdir(folder.c_str(), 0750) == 0) {
      return folder;
    }
    if (errno != EEXIST) {
      return IoError(fmt::format("cannot make {}: {}", folder.string(), std::strerror(errno)))
          .WithHint("name another folder with -o");
    }
  }
  return IoError(fmt::format("{} is full of results", run.string()));
}

Status CheckTables(const std::vector<std::string>& tables) {
  for (const std::string& table : tables) {
    if (std::find(KnownTables().begin(), KnownTables().end(), table) == KnownTables().end()) {
      const std::optional<std::string> nearest = base::NearestMatch(table, KnownTables());
      return UsageError(fmt::format("there is no table {}", base::Printable(table)))
          .WithHint(nearest.has_value() ? fmt::format("did you mean {}?", *nearest)
                                        : "known: " + base::Join(KnownTables(), ", "));
    }
  }
  return {};
}

}  // namespace

const std::vector<std::string>& EventTables() {
  static const std::vector<std::string> kTables = [] {
    std::vector<std::string> tables = {"actv",         "actv_grad",      "exp_avg",
                                       "exp_avg_sq",   "grad_unreduced", "grad_reduced",
                                       "param_origin", "param_updated"};
    for (const msprobe::monitor::FeatureTable& table : msprobe::monitor::kFeatureTables) {
      tables.emplace_back(table.name);
    }
    return tables;
  }();
  return kTables;
}

const std::vector<std::string>& KnownTables() {
  static const std::vector<std::string> kTables = [] {
    std::vector<std::string> tables = EventTables();
    tables.insert(tables.end(), {"update_ratio", "other"});
    return tables;
  }();
  return kTables;
}

Result<Csv2TbResult> RunCsv2Tb(const Csv2TbOptions& options) {
  MSP_RETURN_IF_ERROR(CheckTables(options.tables));
  ReadOptions read;
  read.find = options.find;
  read.tables = options.tables.empty() ? EventTables() : options.tables;
  read.threads = options.threads;
  MSP_ASSIGN_OR_RETURN(MonitoredRun run, ReadMonitoredRun(options.run, read));
  Csv2TbResult result;
  result.warnings = std::move(run.warnings);
  result.unread_files = run.unread_files;
  if (options.output.empty()) {
    MSP_ASSIGN_OR_RETURN(result.output, MakeDefaultFolder(options.run));
  } else {
    result.output = options.output;
    MSP_RETURN_IF_ERROR(base::CheckOutputFolder(result.output));
    MSP_RETURN_IF_ERROR(base::CreateFolders(result.output));
  }
  RemoveAbandonedEvents(result.output);

  std::vector<EventFile> files;
  std::set<int32_t> all_ranks;
  for (size_t begin = 0; begin < run.series.size();) {
    size_t end = begin;
    std::set<int32_t> ranks;
    for (; end < run.series.size() && run.series[end].table == run.series[begin].table; ++end) {
      ranks.insert(run.series[end].ranks.begin(), run.series[end].ranks.end());
    }
    for (const int32_t rank : ranks) {
      EventFile& file = files.emplace_back();
      file.table = run.series[begin].table;
      file.rank = rank;
      for (size_t i = begin; i < end; ++i) {
        if (run.series[i].name.size() <= kMostEventNameBytes) {
          file.series.push_back(&run.series[i]);
        }
      }
    }
    all_ranks.insert(ranks.begin(), ranks.end());
    begin = end;
  }
  const auto long_names = static_cast<uint64_t>(
      std::count_if(run.series.begin(), run.series.end(),
                    [](const Series& series) { return series.name.size() > kMostEventNameBytes; }));
  if (long_names > 0) {
    result.warnings.push_back(fmt::format("{}: left out {} of more than {} bytes",
                                          options.run.string(), base::Plural(long_names, "name"),
                                          kMostEventNameBytes));
  }
  const auto folder_of = [&](const EventFile& file) {
    return result.output / fmt::format("rank{}", file.rank) / file.table;
  };
  for (const EventFile& file : files) {
    MSP_RETURN_IF_ERROR(ClearEvents(folder_of(file)));
  }
  base::ThreadPool pool(options.threads);
  pool.ParallelFor(files.size(), [&](size_t i, size_t) {
    EventFile& file = files[i];
    file.status = WriteEvents(file, run.ops.find(file.table)->second, folder_of(file));
  });
  for (EventFile& file : files) {
    MSP_RETURN_IF_ERROR(std::move(file.status));
    result.scalars += file.scalars;
  }
  result.files = files.size();
  result.ranks = all_ranks.size();
  return result;
}

report::Document MakeDocument(const Csv2TbResult& result) {
  report::Document document;
  document.command = "monitor csv2tb";
  document.verdict = internal::Written(
      fmt::format("{} of {} in {}", base::Plural(result.scalars, "number"),
                  base::Plural(result.ranks, "rank"), base::Plural(result.files, "event file")),
      result.scalars, "numbers");
  internal::TellUnread(result.unread_files, document.verdict);
  document.sections.push_back(
      internal::FiguresSection({{"ranks", static_cast<double>(result.ranks)},
                                {"files", static_cast<double>(result.files)}}));
  document.files.push_back({result.output / "", "event files"});
  document.warnings = result.warnings;
  return document;
}

}  // namespace msprobe::analysis::monitor
