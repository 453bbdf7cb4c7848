#include "src/analysis/monitor/analyse/analyse.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/monitor/common/anomaly_reader.h"
#include "src/analysis/monitor/common/document_parts.h"
#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/output_files.h"
#include "src/base/shared_run.h"
#include "src/base/strings.h"

namespace msprobe::analysis::monitor {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kForward = 0;
constexpr int64_t kBackward = 1;
constexpr int64_t kOptimizer = 2;

int64_t StageOf(std::string_view tag, AnomalyOrder order) {
  const std::string_view task = tag.substr(tag.rfind('/') + 1);
  const auto is_one_of = [task](std::initializer_list<std::string_view> tasks) {
    return std::find(tasks.begin(), tasks.end(), task) != tasks.end();
  };
  if (task == "actv") {
    return kForward;
  }
  if (is_one_of({"actv_grad", "pre_grad", "post_grad", "acc_grad"})) {
    return kBackward;
  }
  if (is_one_of({"exp_avg", "exp_avg_sq"})) {
    return kOptimizer;
  }
  if (order == AnomalyOrder::kPython) {
    return -1;
  }
  // Parameters are read around the optimizer's step; communication, mostly of gradients, comes with
  // them.
  return is_one_of({"param_origin", "mg_direction"}) ? kOptimizer
         : task == "param_updated"                   ? kOptimizer + 1
                                                     : kBackward;
}

// By which alerts are put in order.
using CausalKey = std::array<int64_t, 6>;

// Wraps only for the least number, which no file of a monitor holds.
int64_t Negated(int64_t value) { return value == INT64_MIN ? INT64_MAX : -value; }

CausalKey CausalKeyOf(const msprobe::monitor::Anomaly& anomaly, AnomalyOrder order) {
  const int64_t stage = StageOf(anomaly.tag_name, order);
  const bool forward = stage == kForward;
  return {anomaly.step,
          anomaly.micro_step,
          stage,
          forward ? anomaly.vpp_stage : Negated(anomaly.vpp_stage),
          forward ? anomaly.pp_stage : Negated(anomaly.pp_stage),
          anomaly.call_id};
}

Status WriteResult(const fs::path& path, const std::vector<msprobe::monitor::Anomaly>& anomalies) {
  std::string text;
  json::Writer json(text, 1);
  json.BeginObject();
  std::unordered_map<std::string_view, size_t> last;  // of equal keys the last one's values count
  for (size_t i = 0; i < anomalies.size(); ++i) {
    last[anomalies[i].key] = i;
  }
  for (const msprobe::monitor::Anomaly& anomaly : anomalies) {
    const auto found = last.find(anomaly.key);
    if (found != last.end()) {
      msprobe::monitor::WriteAnomaly(anomalies[found->second], json);
      last.erase(found);
    }
  }
  json.EndObject();
  return base::WriteFileAtomically(path, text);
}

}  // namespace

void SortAnomalies(std::vector<msprobe::monitor::Anomaly>& anomalies, size_t count,
                   AnomalyOrder order) {
  std::vector<std::pair<CausalKey, size_t>> places;
  places.reserve(anomalies.size());
  for (size_t i = 0; i < anomalies.size(); ++i) {
    places.emplace_back(CausalKeyOf(anomalies[i], order), i);
  }
  count = std::min(count, places.size());
  std::partial_sort(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(count),
                    places.end());
  std::vector<msprobe::monitor::Anomaly> sorted;
  sorted.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    sorted.push_back(std::move(anomalies[places[i].second]));
  }
  anomalies = std::move(sorted);
}

Result<std::vector<int64_t>> ParseStepList(std::string_view text) {
  std::string_view list = base::Trim(text);
  if (list.starts_with('[') && list.ends_with(']') && list.size() >= 2) {
    list = list.substr(1, list.size() - 2);
  }
  std::vector<int64_t> steps;
  if (base::Trim(list).empty()) {
    return steps;
  }
  for (const std::string_view part : base::Split(list, ',')) {
    const std::optional<int64_t> step = base::ParseInt(part);
    if (!step.has_value()) {
      return UsageError(fmt::format("steps {}: not a list of integers", base::Printable(text)))
          .WithHint("write -s '[1,3]' or -s 1,3");
    }
    steps.push_back(*step);
  }
  return steps;
}

namespace {

// The alerts of a rank that may be among the first of all: those that are the first of its own.
struct RankAlerts {
  std::vector<msprobe::monitor::Anomaly> first;
  uint64_t count = 0;  // of the steps asked for
  std::vector<std::string> warnings;
};

template <typename Archive>
void PackMembers(Archive& archive, RankAlerts& alerts) {
  archive(alerts.first, alerts.count, alerts.warnings);
}

RankAlerts AlertsOf(RankAnomalies rank, const AnalyseOptions& options) {
  ReadAnomalies(rank);
  RankAlerts alerts;
  alerts.warnings = std::move(rank.file.warnings);
  for (msprobe::monitor::Anomaly& anomaly : rank.file.entries) {
    if (options.steps.empty() || std::find(options.steps.begin(), options.steps.end(),
                                           anomaly.step) != options.steps.end()) {
      alerts.first.push_back(std::move(anomaly));
    }
  }
  alerts.count = alerts.first.size();
  SortAnomalies(alerts.first, options.top, options.order);
  return alerts;
}

// The alerts of all ranks; under a launcher each process reads its share of the files.
Status ReadRanks(const AnalyseOptions& options, const fs::path& folder,
                 const std::vector<RankAnomalies>& ranks, AnalyseResult& result) {
  MSP_ASSIGN_OR_RETURN(base::SharedRun shared,
                       base::SharedRun::Join(folder, "monitor_analyse", base::TimestampNow()));
  std::vector<base::WorkUnit> units;
  for (const RankAnomalies& rank : ranks) {
    units.push_back(base::UnitOfFiles({rank.path}));
  }
  std::vector<std::optional<RankAlerts>> found;
  MSP_RETURN_IF_ERROR(shared.ShareOut(
      units,
      [&](std::span<const size_t> mine, const auto& give) {
        for (const size_t place : mine) {
          give(place, AlertsOf(ranks[place], options));
        }
        return Status();
      },
      found));
  result.reports = shared.answers();
  for (size_t place = 0; place < found.size() && result.reports; ++place) {
    if (!found[place]) {
      result.is_incomplete = true;
      continue;
    }
    result.alerts += found[place]->count;
    std::move(found[place]->warnings.begin(), found[place]->warnings.end(),
              std::back_inserter(result.warnings));
    std::move(found[place]->first.begin(), found[place]->first.end(),
              std::back_inserter(result.top));
  }
  for (std::string& sentence :
       shared.Missing("files", [&](size_t place) { return ranks[place].path.string(); })) {
    result.warnings.push_back(std::move(sentence));
  }
  return {};
}

}  // namespace

Result<AnalyseResult> RunAnalyse(const AnalyseOptions& options) {
  if (options.top == 0) {
    return UsageError("The top k number must be greater than 0.");
  }
  const fs::path& folder = options.output.empty() ? options.data : options.output;
  const fs::path file = folder / "anomaly_analyse.json";
  MSP_RETURN_IF_ERROR(base::CheckOutputFolder(folder));
  // Beside the alerts every look after the first finds the list of the one before.
  const bool stands_beside = options.output.empty() && base::Exists(file) &&
                             base::ExistingFiles() == base::Existing::kRefuse;
  if (!stands_beside) {
    MSP_RETURN_IF_ERROR(base::CheckOutputFile(file));
  }
  if (!base::IsFolder(options.data)) {
    return NotFoundError(fmt::format("{}: no such directory", options.data.string()));
  }
  MSP_ASSIGN_OR_RETURN(std::vector<RankAnomalies> ranks, FindAnomalyFiles(options.data));
  AnalyseResult result;
  MSP_ASSIGN_OR_RETURN(result.laws, ReadLaws(options.data));
  if (!options.steps.empty()) {
    std::erase_if(result.laws.broken, [&](const BrokenLaw& law) {
      return std::find(options.steps.begin(), options.steps.end(), law.step) == options.steps.end();
    });
  }
  result.top_laws = options.top;
  if (ranks.empty() && result.laws.were_checked) {
    return result;
  }
  if (ranks.empty()) {
    const fs::path below = options.data / "anomaly_detected";
    return NotFoundError(fmt::format("{} holds no rank<R>/anomaly.json", options.data.string()))
        .WithHint(base::IsFolder(below)
                      ? fmt::format("take {}", below.string())
                      : "the monitor writes them with \"alert\": {..., \"dump\": true}");
  }
  result.ranks = ranks.size();
  MSP_RETURN_IF_ERROR(ReadRanks(options, folder, ranks, result));
  if (!result.reports) {
    return result;
  }
  SortAnomalies(result.top, options.top, options.order);
  MSP_RETURN_IF_ERROR(base::CreateFolders(folder));
  result.file = file;
  base::RunStamp stamp;
  if (stands_beside) {
    MSP_ASSIGN_OR_RETURN(stamp, base::RunStamp::Take(folder, base::TimestampNow()));
    result.file = folder / fmt::format("anomaly_analyse_{}.json", stamp.text());
  }
  MSP_RETURN_IF_ERROR(WriteResult(result.file, result.top));
  return result;
}

report::Document MakeDocument(const AnalyseResult& result) {
  report::Document document;
  document.command = "monitor analyse";
  report::Verdict& verdict = document.verdict;
  verdict.word = result.alerts > 0 ? "ALERTS" : "NO ALERTS";
  verdict.text = result.alerts > 0
                     ? fmt::format("Top {} anomalies are listed as follows:", result.top.size())
                     : "NO ALERTS: nothing broke a rule";
  verdict.number = static_cast<double>(result.alerts);
  verdict.unit = "alerts";
  verdict.tone = report::Tone::kStrong;
  verdict.outcome = result.alerts > 0          ? report::AnswerOutcome::kFindings
                    : !result.warnings.empty() ? report::AnswerOutcome::kNothingCompared
                                               : report::AnswerOutcome::kClean;
  if (result.is_incomplete) {
    verdict.outcome = report::AnswerOutcome::kIncomplete;
  }
  const bool is_broken = !result.laws.broken.empty();
  if (is_broken) {
    verdict.word = "LAW BROKEN";
    verdict.text = "LAW BROKEN: " + result.laws.broken.front().Sentence();
    verdict.number = static_cast<double>(result.laws.broken.size());
    verdict.unit = "broken laws";
    verdict.outcome = report::AnswerOutcome::kFindings;
  } else if (result.laws.were_checked && result.alerts == 0) {
    verdict.word = "NO LAW BROKEN";
    verdict.text = "NO LAW BROKEN: what was checked held";
    verdict.outcome = report::AnswerOutcome::kClean;
  }
  document.levels = report::OutcomesOf(kAnalyseLevels);
  report::SetFound(document.levels, "law", is_broken);
  report::SetFound(document.levels, "alert", result.alerts > 0);
  report::TestCase laws = internal::CaseOf("laws", "law", result.laws.broken.size(), "broken law");
  for (const BrokenLaw& law : result.laws.broken) {
    laws.details += law.Sentence() + "\n";
  }
  if (result.laws.were_checked) {
    document.cases.push_back(std::move(laws));
  }
  report::TestCase alerts = internal::CaseOf("alerts", "alert", result.alerts, "alert");
  for (const msprobe::monitor::Anomaly& anomaly : result.top) {
    alerts.details += anomaly.message + "\n";
  }
  if (verdict.outcome == report::AnswerOutcome::kNothingCompared) {
    alerts.outcome = report::CaseOutcome::kError;
    alerts.message = result.warnings.front();
  }
  document.cases.push_back(std::move(alerts));
  report::List list{report::ListKind::kNamed, {}};
  for (size_t i = 0; i < result.top.size(); ++i) {
    list.items.push_back({fmt::format("{}", i), result.top[i].message});
  }
  report::List counts{report::ListKind::kSentences,
                      {{"", fmt::format("{} of {}", base::Plural(result.alerts, "alert"),
                                        base::Plural(result.ranks, "rank"))}}};
  AddLaws(result.laws, result.top_laws, document);
  if (!result.laws.were_checked || result.alerts > 0) {
    report::Section& section = document.sections.emplace_back();
    section.blocks.emplace_back(std::move(list));
  }
  document.Add("Counts", std::move(counts));
  if (!result.file.empty()) {
    document.files.push_back({result.file});
  }
  document.warnings = result.warnings;
  return document;
}

}  // namespace msprobe::analysis::monitor
