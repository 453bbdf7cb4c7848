#include "src/analysis/isolate/run.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "src/base/numbers.h"
#include "src/dump/layout.h"
#include "src/report/readers.h"

namespace msprobe::analysis::isolate {
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

}  // namespace msprobe::analysis::isolate
