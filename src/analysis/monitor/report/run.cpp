#include "src/analysis/monitor/report/run.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "src/analysis/monitor/diff/run.h"
#include "src/analysis/monitor/report/page_model.h"
#include "src/base/output_rule.h"
#include "src/base/strings.h"
#include "src/base/thread_pool.h"
#include "src/json/writer.h"
#include "src/report/web_page.h"

namespace msprobe::resources {
extern const std::string_view kMonitorReportPage;  // empty: not built
}

namespace msprobe::analysis::monitor {
namespace {

constexpr int64_t kPageFormat = 1;  // what main.js of the page expects

void AddBlocks(const ReportModel& model, char side, std::vector<report::PageBlock>& blocks) {
  for (size_t chunk = 0; chunk < model.chunks().size(); ++chunk) {
    for (const size_t op : model.OpsOf(model.chunks()[chunk])) {
      blocks.push_back(
          {fmt::format("{}{}_{}", side, chunk, op), [&model, chunk, op](std::string& out) {
             model.AppendChunk(model.chunks()[chunk], model.ops()[op], out);
           }});
    }
  }
}

void Describe(const MonitoredRun& run, ReportResult& outcome) {
  outcome.series = run.series.size();
  outcome.first_step = std::numeric_limits<int64_t>::max();
  outcome.last_step = std::numeric_limits<int64_t>::min();
  std::set<int32_t> ranks;
  for (const Series& series : run.series) {
    ranks.insert(series.ranks.begin(), series.ranks.end());
    if (!series.steps.empty()) {
      outcome.first_step = std::min(outcome.first_step, series.steps.front());
      outcome.last_step = std::max(outcome.last_step, series.steps.back());
    }
  }
  outcome.ranks = ranks.size();
}

// A name that no run has is a slip: the page would be empty, or lack what was meant.
Status CheckNames(const std::vector<MonitoredRun>& runs, const ReportOptions& options) {
  std::set<std::string> tables;
  std::set<std::string> ops;
  for (const MonitoredRun& run : runs) {
    for (const Series& series : run.series) {
      tables.insert(series.table);
      for (const auto& [op, values] : series.values) {
        ops.insert(op);
      }
    }
  }
  const auto check = [](std::string_view kind, const std::vector<std::string>& wanted,
                        const std::set<std::string>& known) {
    for (const std::string& name : wanted) {
      if (!known.contains(name)) {
        return NotFoundError(fmt::format("the run has no {} \"{}\"", kind, name))
            .WithHint(
                "names are those of the files: table actv of actv_0-9.csv, statistic norm of "
                "its columns");
      }
    }
    return OkStatus();
  };
  MSP_RETURN_IF_ERROR(check("table", options.read.tables, tables));
  return check("statistic", options.read.ops, ops);
}

// Where two runs diverge, as `monitor diff` tells it: {"compared", "first": {...} or null}; null
// for one run, or where nothing could be held against anything.
void WriteComparison(const std::optional<DiffResult>& diff, json::Writer& writer) {
  uint64_t compared = 0;
  if (diff) {
    for (const DiffLine& line : diff->lines) {
      compared += line.compared;
    }
  }
  writer.Key("divergence");
  if (compared == 0) {
    writer.Null();
    return;
  }
  writer.BeginObject();
  writer.Member("compared", compared);
  writer.Key("first");
  if (const DiffLine* const line = diff->first(); line != nullptr && line->first) {
    const Divergence& first = *line->first;
    writer.BeginObject();
    writer.Member("table", line->table);
    writer.Member("op", line->op);
    writer.Member("step", first.step);
    writer.Member("stage", first.stage);
    writer.Member("name", first.name);
    writer.Member("micro_step", first.micro_step);
    writer.Member("rank", first.rank);
    writer.Member("a", first.a);
    writer.Member("b", first.b);
    writer.Member("relative", first.relative);
    writer.EndObject();
  } else {
    writer.Null();
  }
  writer.EndObject();
}

struct PackedPage {
  std::vector<std::string> elements;
  uint64_t bytes = 0;  // of the file
  uint64_t non_finite = 0;
  std::vector<std::string> ops;  // the main one first
};

PackedPage Pack(const std::vector<MonitoredRun>& runs, const std::optional<DiffResult>& diff,
                base::ThreadPool& pool) {
  PackedPage page;
  std::vector<std::unique_ptr<ReportModel>> models;
  std::vector<report::PageBlock> blocks;
  blocks.push_back({"listing", [&models, &diff](std::string& out) {
                      json::Writer writer(out, -1, json::Writer::NonFinite::kText);
                      writer.BeginObject();
                      writer.Member("format", kPageFormat);
                      WriteComparison(diff, writer);
                      writer.Key("runs");
                      writer.BeginArray();
                      for (const auto& model : models) {
                        model->WriteListing(writer);
                      }
                      writer.EndArray();
                      writer.EndObject();
                    }});
  for (const MonitoredRun& run : runs) {
    models.push_back(std::make_unique<ReportModel>(run, pool));
    AddBlocks(*models.back(), models.size() == 1 ? 'a' : 'b', blocks);
    page.non_finite += models.back()->non_finite();
  }
  page.ops = models[0]->ops();
  page.elements = report::PackBlocks(blocks, pool);
  page.bytes = resources::kMonitorReportPage.size();
  for (const std::string& element : page.elements) {
    page.bytes += element.size();
  }
  return page;
}

// Takes so many of the last statistics out of the runs as the page is too large by; each series
// keeps one. False when there was nothing to take.
bool LeaveOut(const PackedPage& page, uint64_t most_bytes, std::vector<MonitoredRun>& runs,
              std::set<std::string>& left_out) {
  const double share = static_cast<double>(most_bytes) / static_cast<double>(page.bytes);
  const auto fitting = static_cast<size_t>(static_cast<double>(page.ops.size()) * share);
  const size_t kept = std::clamp<size_t>(fitting, 1, std::max<size_t>(page.ops.size(), 2) - 1);
  bool any = false;
  for (size_t op = page.ops.size(); op > kept; --op) {
    for (MonitoredRun& run : runs) {
      for (Series& series : run.series) {
        if (series.values.size() > 1 && series.values.erase(page.ops[op - 1]) > 0) {
          left_out.insert(page.ops[op - 1]);
          any = true;
        }
      }
    }
  }
  return any;
}

}  // namespace

Result<ReportResult> RunReport(const ReportOptions& options) {
  MSP_RETURN_IF_ERROR(base::CheckOutputFile(options.output));
  if (resources::kMonitorReportPage.empty()) {
    return UnsupportedError("this msprobe was built without the page for reports")
        .WithHint(
            "run tools/dev/build_web.sh (needs npm) and build msprobe again; analyse, diff, top "
            "and csv2tb do not need it");
  }
  std::vector<MonitoredRun> runs;
  MSP_ASSIGN_OR_RETURN(MonitoredRun first, ReadMonitoredRun(options.run, options.read));
  runs.push_back(std::move(first));
  if (!options.other.empty()) {
    MSP_ASSIGN_OR_RETURN(MonitoredRun second, ReadMonitoredRun(options.other, options.read));
    runs.push_back(std::move(second));
  }
  MSP_RETURN_IF_ERROR(CheckNames(runs, options));
  std::optional<DiffResult> diff;
  if (!options.other.empty()) {
    DiffOptions diff_options;
    diff_options.a = options.run;
    diff_options.b = options.other;
    diff_options.tables = options.read.tables;
    diff_options.ops = options.read.ops;
    // Runs that have nothing in common still make a page.
    if (Result<DiffResult> found = RunDiff(diff_options); found.ok()) {
      diff = std::move(*found);
    }
  }
  ReportResult outcome;
  Describe(runs[0], outcome);
  for (const MonitoredRun& run : runs) {
    if (run.series.empty()) {
      return NotFoundError(fmt::format("{} has no rows to show", run.root.string()))
          .WithHint("a monitored run has files such as actv_0-0.csv in <stamp>-rank<R>-<id>/");
    }
    outcome.rows += run.rows;
    outcome.unread_files += run.unread_files;
    outcome.alerts += run.alerts.size();
  }
  for (MonitoredRun& run : runs) {
    LeaveOutUnmeasured(run);
  }
  base::ThreadPool pool(0);
  const size_t warnings = runs[0].warnings.size();
  PackedPage page = Pack(runs, diff, pool);
  outcome.non_finite = page.non_finite;  // before anything is left out
  std::set<std::string> left_out;
  while (page.bytes > options.most_bytes && LeaveOut(page, options.most_bytes, runs, left_out)) {
    runs[0].warnings.resize(warnings);
    runs[0].warnings.push_back(
        fmt::format("left out of the page, which would be larger than {} otherwise: {}; --tables "
                    "and --statistics choose what it shows",
                    base::FormatBytes(options.most_bytes), fmt::join(left_out, ", ")));
    page = Pack(runs, diff, pool);
  }
  for (const MonitoredRun& run : runs) {
    outcome.warnings.insert(outcome.warnings.end(), run.warnings.begin(), run.warnings.end());
  }
  if (page.bytes > options.most_bytes) {
    outcome.warnings.push_back(
        fmt::format("a page of {} may take a browser long to open; --tables, --time_start and "
                    "--time_end choose a part of the run",
                    base::FormatBytes(page.bytes)));
  }
  MSP_ASSIGN_OR_RETURN(
      outcome.size_bytes,
      report::WriteWebPage(options.output, resources::kMonitorReportPage, page.elements));
  return outcome;
}

}  // namespace msprobe::analysis::monitor
