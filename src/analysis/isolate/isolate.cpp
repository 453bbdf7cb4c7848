#include "src/analysis/isolate/isolate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "src/base/numbers.h"
#include "src/base/strings.h"
#include "src/dump/dump_file.h"
#include "src/dump/layout.h"
#include "src/report/readers.h"
#include "src/report/table.h"

namespace msprobe::analysis::isolate {
namespace {

constexpr std::string_view kRemedy =
    "record the good run with: msprobe dump --task tensor --level L0 -o good -- python3 train.py";

}  // namespace

Status CheckReference(const std::filesystem::path& path) {
  MSP_ASSIGN_OR_RETURN(const dump::DumpLayout layout, dump::FindDump(path));
  const auto steps = [](const dump::RankFolder& rank) { return rank.step && rank.has_dump; };
  if (layout.ranks.empty() || !steps(layout.ranks.front()) ||
      std::filesystem::equivalent(layout.root, layout.ranks.front().folder)) {
    return UnsupportedError(
               fmt::format("{} is not the folder of a run with its steps", path.string()))
        .WithHint("name the dump_path of the good run, which holds step0 and so on");
  }
  const std::filesystem::path file = layout.ranks.front().folder / dump::kDumpFileName;
  uint64_t modules = 0;
  uint64_t tensors = 0;
  dump::LeafWalker walker;
  const Result<dump::DumpHeader> header = dump::ReadDumpFile(
      file, {.allow_truncated = true},
      [&](std::string_view name, const dump::EntryTree& tree) -> Status {
        if (!name.starts_with("Module.")) return {};
        ++modules;
        walker.ForEach(name, tree, [&](std::string_view /*leaf*/, uint32_t index) {
          tensors += dump::LeafText(tree, index, "data_name").empty() ? 0 : 1;
        });
        return {};
      });
  if (!header.ok()) return header.status();
  if (modules == 0) {
    return UnsupportedError(fmt::format("{} holds no modules", file.string()))
        .WithHint(std::string(kRemedy));
  }
  if (tensors == 0) {
    return UnsupportedError(fmt::format("{} holds statistics only, and modules cannot run on those",
                                        file.string()))
        .WithHint(std::string(kRemedy));
  }
  return {};
}

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTableName = "isolate.csv";
constexpr std::string_view kUnfinishedName = "isolate.csv.part";
constexpr size_t kMostNotJudged = 10000;

// tools/python/msprobe/pytorch/isolate/rows.py writes them.
enum TableColumn : size_t {
  kRankColumn,
  kStepColumn,
  kModuleColumn,
  kClassColumn,
  kCallColumn,
  kDirectionColumn,
  kWhatColumn,
  kErrorColumn,
  kFloorColumn,
  kFactorColumn,
  kVerdictColumn,
  kCauseColumn,
  kColumnCount
};

class Collection {
 public:
  Status Add(const fs::path& path) {
    MSP_ASSIGN_OR_RETURN(const report::Table table, report::ReadCsv(path));
    if (table.columns().size() != kColumnCount || table.columns()[kVerdictColumn] != "verdict") {
      return BadFormatError(fmt::format("{} is not a table of isolate", path.string()));
    }
    std::set<std::string> here;
    for (size_t i = 0; i < table.row_count(); ++i) {
      const std::span<const report::Cell> row = table.row(i);
      const std::string_view verdict = row[kVerdictColumn].text();
      if (verdict == "not judged") {
        if (result_.not_judged.size() < kMostNotJudged) {
          result_.not_judged.push_back(
              {std::string(row[kCallColumn].text()), std::string(row[kCauseColumn].text())});
        }
        continue;
      }
      ++result_.comparisons;
      const std::string name(row[kModuleColumn].text());
      modules_.insert(name);
      if (verdict == "random") random_.insert(name);
      if (verdict == "guilty") AddGuilty(name, row, here.insert(name).second);
    }
    result_.tables.push_back(path);
    return {};
  }

  Verdicts Finish() && {
    result_.modules = modules_.size();
    result_.random_modules.assign(random_.begin(), random_.end());
    for (auto& [name, guilty] : guilty_) result_.guilty.push_back(std::move(guilty));
    std::stable_sort(result_.guilty.begin(), result_.guilty.end(),
                     [](const Guilty& a, const Guilty& b) { return a.factor > b.factor; });
    return std::move(result_);
  }

  Verdicts& result() { return result_; }

 private:
  void AddGuilty(const std::string& name, std::span<const report::Cell> row, bool is_new_table) {
    Guilty& guilty = guilty_[name];
    guilty.ranks += is_new_table ? 1 : 0;
    const bool forward = row[kDirectionColumn].text() == "forward";
    (forward ? guilty.forward : guilty.backward) = true;
    const auto number = [&row](size_t column) {
      return base::ParseDouble(row[column].text()).value_or(0);
    };
    if (guilty.cause.empty()) guilty.cause = row[kCauseColumn].text();
    if (guilty.module.empty() || number(kFactorColumn) > guilty.factor) {
      guilty.module = name;
      guilty.kind = row[kClassColumn].text();
      guilty.factor = number(kFactorColumn);
      guilty.error = number(kErrorColumn);
      guilty.floor = number(kFloorColumn);
      guilty.what = row[kWhatColumn].text();
      guilty.call = row[kCallColumn].text();
    }
  }

  Verdicts result_;
  std::set<std::string> modules_;
  std::set<std::string> random_;
  std::map<std::string, Guilty> guilty_;
};

}  // namespace

Result<std::vector<fs::path>> TablesIn(const fs::path& folder, bool unfinished) {
  return dump::FilesOfSteps(folder, [unfinished](const fs::path& path) {
    return path.filename() == (unfinished ? kUnfinishedName : kTableName);
  });
}

Result<Verdicts> Run(const Options& options) {
  Collection collection;
  Status first_error;
  MSP_ASSIGN_OR_RETURN(const std::vector<fs::path> tables, TablesIn(options.output));
  for (const fs::path& path : tables) {
    if (Status status = collection.Add(path); !status.ok()) {
      collection.result().warnings.push_back(status.message());
      ++collection.result().unreadable;
      if (first_error.ok()) first_error = std::move(status);
    }
  }
  if (!first_error.ok() && collection.result().tables.empty()) return first_error;
  MSP_ASSIGN_OR_RETURN(collection.result().unfinished, TablesIn(options.output, true));
  return std::move(collection).Finish();
}

namespace {

using report::Cell;
using report::List;
using report::ListKind;

constexpr size_t kShownReasons = 5;

// Tables that may hold a guilty module: those that cannot be read, and those of processes that
// ended within the step.
uint64_t UnseenTables(const Verdicts& verdicts) {
  return verdicts.unreadable + verdicts.unfinished.size();
}

report::Verdict MakeVerdict(const Verdicts& verdicts) {
  report::Verdict verdict;
  verdict.number = static_cast<double>(verdicts.guilty.size());
  verdict.unit = "modules";
  if (verdicts.comparisons == 0) {
    verdict.Say("NOTHING JUDGED", "no call of a module was held against the reference",
                report::Tone::kCaution, report::AnswerOutcome::kNothingCompared);
  } else if (verdicts.guilty.empty() && UnseenTables(verdicts) > 0) {
    verdict.Say(
        "CLEAN IN PART",
        fmt::format("none of {} that could be read computes wrong by itself, but {} could not "
                    "be read or {} not complete",
                    base::Plural(verdicts.modules, "module"),
                    base::Plural(UnseenTables(verdicts), "table"),
                    UnseenTables(verdicts) == 1 ? "is" : "are"),
        report::Tone::kCaution, report::AnswerOutcome::kFindings);
  } else if (verdicts.guilty.empty()) {
    verdict.Say("CLEAN",
                fmt::format("none of {} computes wrong by itself",
                            base::Plural(verdicts.modules, "module")),
                report::Tone::kGood);
  } else {
    verdict.Say("GUILTY",
                fmt::format("{} of {} compute{} wrong on the reference's own inputs",
                            base::FormatCount(verdicts.guilty.size()),
                            base::Plural(verdicts.modules, "module"),
                            verdicts.guilty.size() == 1 ? "s" : ""),
                report::Tone::kBad, report::AnswerOutcome::kFindings);
  }
  return verdict;
}

// "inf" where a number cannot say it.
Cell NumberOrText(report::Table& table, double value) {
  return std::isfinite(value) ? Cell::Number(value) : table.KeepText(report::NumberText(value));
}

report::DataTable GuiltyTable(const std::vector<Guilty>& guilty) {
  report::Table table("guilty", {"Module", "Class", "Factor", "Error", "Floor", "Direction",
                                 "Largest_error_in", "Cause", "Ranks", "Call"});
  for (const Guilty& item : guilty) {
    table.AddRow(std::vector<Cell>{
        table.KeepText(item.module), table.KeepText(item.kind), NumberOrText(table, item.factor),
        NumberOrText(table, item.error), NumberOrText(table, item.floor),
        Cell::Text(item.forward && item.backward ? "both"
                   : item.forward                ? "forward"
                                                 : "backward"),
        table.KeepText(item.what), table.KeepText(item.cause),
        Cell::Integer(static_cast<int64_t>(item.ranks)), table.KeepText(item.call)});
  }
  report::DataTable rows{std::move(table)};
  rows.names_rows = true;
  rows.digits = 4;
  return rows;
}

// The commonest reasons first.
List Reasons(const std::vector<NotJudged>& not_judged) {
  std::map<std::string, uint64_t> counts;
  for (const NotJudged& item : not_judged) ++counts[item.why];
  List reasons{ListKind::kNamed, {}};
  reasons.display_limit.items = kShownReasons;
  std::vector<std::pair<std::string, uint64_t>> sorted(counts.begin(), counts.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  for (const auto& [why, count] : sorted) {
    reasons.items.push_back({base::Plural(count, "call"), why});
  }
  return reasons;
}

}  // namespace

report::Document MakeDocument(const Verdicts& verdicts) {
  report::Document document;
  document.command = "isolate";
  document.verdict = MakeVerdict(verdicts);
  document.levels = report::OutcomesOf(kGateLevels);
  // No gate passes beside a table that may hold a guilty module.
  report::SetFound(document.levels, "guilty",
                   !verdicts.guilty.empty() || UnseenTables(verdicts) > 0);
  document.warnings = verdicts.warnings;
  for (const auto& path : verdicts.unfinished) {
    document.warnings.push_back(
        fmt::format("{} is not complete: the script ended within the step", path.string()));
  }
  if (!verdicts.guilty.empty()) {
    report::Section& section = document.sections.emplace_back();
    section.title = "Wrong on their own inputs (error over floor, relative to the reference)";
    section.blocks.emplace_back(GuiltyTable(verdicts.guilty));
  }
  List counts{ListKind::kFacts, {}};
  counts.items.push_back({"comparisons", base::FormatCount(verdicts.comparisons)});
  if (!verdicts.random_modules.empty()) {
    counts.items.push_back(
        {"not judged", fmt::format("{}: different, but random numbers are drawn there",
                                   base::Join(verdicts.random_modules, ", "))});
  }
  report::Section& section = document.sections.emplace_back();
  section.title = "Counts";
  section.blocks.emplace_back(std::move(counts));
  if (!verdicts.not_judged.empty()) {
    report::Section& left_out = document.sections.emplace_back();
    left_out.title = "Not judged";
    left_out.blocks.emplace_back(Reasons(verdicts.not_judged));
  }
  for (const auto& path : verdicts.tables) document.files.push_back({path});
  return document;
}

}  // namespace msprobe::analysis::isolate
