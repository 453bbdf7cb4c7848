#include <algorithm>
#include <array>
#include <optional>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/config_check/check.h"
#include "src/analysis/config_check/parameters.h"
#include "src/analysis/config_check/rules.h"
#include "src/base/numbers.h"
#include "src/base/strings.h"
#include "src/report/advice.h"

namespace msprobe::analysis::config_check {
namespace {

using json::Json;
using report::Cell;

constexpr std::array<std::string_view, 2> kFiles = {"hyperparameters_static.json",
                                                    "hyperparameters_dynamic.json"};
constexpr double kLeastSimilarity = 0.8;  // exclusive
// Real configs have hundreds of names; beyond this many pairs, or kMostSimilaritySteps, only names
// that are equal or aliases are matched.
constexpr size_t kMaxFuzzyPairs = 20'000'000;

struct Row {
  std::string_view bench_name;  // or what stands in its place
  std::string_view cmp_name;
  const Json* bench = nullptr;
  const Json* cmp = nullptr;
  std::string matched_with;
};

// One file of both sides.
class FileCheck {
 public:
  FileCheck(const Rules& rules, const Json& bench, const Json& cmp, uint64_t most_steps)
      : rules_(rules), most_steps_(most_steps), bench_members_(bench), cmp_members_(cmp) {
    taken_.resize(cmp_members_.size(), false);
  }

  std::vector<Row> Rows() {
    std::vector<Row> rows;
    for (const Members::Member& member : bench_members_) {
      std::string matched_with;
      const std::optional<size_t> partner = FindPartner(member.key, matched_with);
      if (!partner) {
        rows.push_back({member.key, "Only in benchmark", member.value, nullptr, ""});
        continue;
      }
      taken_[*partner] = true;
      const Members::Member& other = cmp_members_[*partner];
      if (!PythonEqual(*member.value, *other.value)) {
        rows.push_back({member.key, other.key, member.value, other.value, std::move(matched_with)});
      } else if (other.key != member.key) {
        renamed_.push_back(fmt::format("{} = {}", Shown(member.key), Shown(other.key)));
      }
    }
    for (size_t i = 0; i < cmp_members_.size(); ++i) {
      if (!taken_[i]) {
        const Members::Member& member = cmp_members_[i];
        rows.push_back({"Only in comparison", member.key, nullptr, member.value, ""});
      }
    }
    std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
      return std::tie(a.bench_name, a.cmp_name) < std::tie(b.bench_name, b.cmp_name);
    });
    return rows;
  }

  // Names that were taken for one another and have equal values.
  const std::vector<std::string>& renamed() const { return renamed_; }
  bool gave_up() const { return gave_up_; }
  bool matched_any() const { return std::find(taken_.begin(), taken_.end(), true) != taken_.end(); }

 private:
  // An empty name is not a partner for the Python tool.
  std::optional<size_t> FreePlace(std::string_view name) const {
    const std::optional<size_t> place = cmp_members_.IndexOf(name);
    return place && !taken_[*place] && !name.empty() ? place : std::nullopt;
  }

  std::optional<size_t> FindPartner(std::string_view name, std::string& matched_with) {
    if (const std::optional<size_t> same = FreePlace(name)) {
      matched_with = "pure name";
      return same;
    }
    for (const auto& [canonical, others] : rules_.aliases) {
      if (name != canonical && std::find(others.begin(), others.end(), name) == others.end()) {
        continue;
      }
      matched_with = "mapping";
      if (const std::optional<size_t> place = FreePlace(canonical)) {
        return place;
      }
      for (const std::string& alias : others) {
        if (const std::optional<size_t> place = FreePlace(alias)) {
          return place;
        }
      }
    }
    return MostSimilar(name, matched_with);
  }

  std::optional<size_t> MostSimilar(std::string_view name, std::string& matched_with) {
    fuzzy_pairs_ += cmp_members_.size();
    if (fuzzy_pairs_ > kMaxFuzzyPairs || fuzzy_steps_ > most_steps_) {
      gave_up_ = true;
      return std::nullopt;
    }
    if (cmp_texts_.empty()) {
      for (const Members::Member& member : cmp_members_) {
        cmp_texts_.emplace_back(member.key, true);
      }
    }
    const SimilarityText text(name, true);
    std::optional<size_t> best;
    double best_ratio = kLeastSimilarity;
    for (size_t i = 0; i < cmp_texts_.size(); ++i) {
      if (taken_[i] || cmp_members_[i].key.empty() ||
          SimilarityBound(text, cmp_texts_[i]) <= best_ratio) {
        continue;
      }
      const double ratio = Similarity(text, cmp_texts_[i], fuzzy_steps_);
      if (ratio > best_ratio) {
        best_ratio = ratio;
        best = i;
      }
    }
    if (best) {
      matched_with = "similarity:" + base::PythonFloatRepr(best_ratio);
    }
    return best;
  }

  const Rules& rules_;
  const uint64_t most_steps_;
  const Members bench_members_;
  const Members cmp_members_;
  std::vector<bool> taken_;  // per member of cmp
  std::vector<SimilarityText> cmp_texts_;
  std::vector<std::string> renamed_;
  size_t fuzzy_pairs_ = 0;
  uint64_t fuzzy_steps_ = 0;
  bool gave_up_ = false;
};

class HyperparameterCheck {
 public:
  HyperparameterCheck(const Rules& rules, uint64_t most_steps)
      : rules_(rules), most_steps_(most_steps) {
    result_.part = Part::kHyperparameters;
    result_.compared = false;
    result_.table =
        report::Table("hyperparameters", {"file_name", "bench_para", "cmp_para", "bench_value",
                                          "cmp_value", "matched_with", "level"});
    by_topic_.resize(rules.topics.size() + 1);
    only_.part = renamed_.part = Part::kHyperparameters;
  }

  void AddFile(std::string_view file, const Json& bench, const Json& cmp) {
    FileCheck check(rules_, bench, cmp, most_steps_);
    for (const Row& row : check.Rows()) {
      AddRow(file, row);
    }
    for (const std::string& pair : check.renamed()) {
      AddExample(renamed_, pair);
      ++renamed_count_;
    }
    gave_up_ |= check.gave_up();
    result_.compared = result_.compared || check.matched_any();
  }

  CheckResult Finish() {
    TellDiffering();
    if (result_.warnings > 0) {
      only_.severity = Severity::kWarning;
      only_.what =
          fmt::format("{} hyperparameter{} no partner", base::FormatCount(result_.warnings),
                      result_.warnings == 1 ? " has" : "s have");
      only_.why = report::AdviceText("config_check.default_may_differ");
      only_.fix = report::AdviceText("config_check.set_on_both_sides");
      result_.findings.push_back(std::move(only_));
    }
    if (renamed_count_ > 0) {
      renamed_.severity = Severity::kNote;
      renamed_.what =
          fmt::format("{} pair{} of different names matched, with equal values",
                      base::FormatCount(renamed_count_), renamed_count_ == 1 ? "" : "s");
      result_.findings.push_back(std::move(renamed_));
    }
    if (gave_up_) {
      Finding finding;
      finding.severity = Severity::kWarning;
      finding.part = Part::kHyperparameters;
      finding.what = "too many unmatched names: the search for similar names was cut short";
      result_.findings.push_back(std::move(finding));
    }
    result_.passed = result_.errors == 0;
    return std::move(result_);
  }

 private:
  Cell NameCell(std::string_view name) {
    return name.empty() ? Cell() : result_.table.KeepText(name);
  }

  void AddRow(std::string_view file, const Row& row) {
    report::Table& table = result_.table;
    const bool error = row.bench != nullptr && row.cmp != nullptr;
    const std::array<Cell, 7> cells = {Cell::Text(file),
                                       NameCell(row.bench_name),
                                       NameCell(row.cmp_name),
                                       row.bench != nullptr ? ValueCell(table, *row.bench) : Cell(),
                                       row.cmp != nullptr ? ValueCell(table, *row.cmp) : Cell(),
                                       NameCell(row.matched_with),
                                       Cell::Text(error ? "error" : "warning")};
    table.AddRow(cells);
    ++(error ? result_.errors : result_.warnings);
    if (error) {
      const std::string name = row.bench_name == row.cmp_name
                                   ? Shown(row.bench_name)
                                   : Shown(row.cmp_name) + " = " + Shown(row.bench_name);
      by_topic_[rules_.TopicOf(row.bench_name)].push_back(
          fmt::format("{}: {} / {}", name, Shown(json::PythonStr(*row.cmp)),
                      Shown(json::PythonStr(*row.bench))));
    } else {
      AddExample(only_, row.bench != nullptr ? Shown(row.bench_name) + " (reference)"
                                             : Shown(row.cmp_name) + " (test)");
    }
  }

  // One finding, the names that matter most first, each with what it does.
  void TellDiffering() {
    if (result_.errors == 0) {
      return;
    }
    const Remedy& remedy = rules_.RemedyOf("hyperparameters");
    Finding finding;
    finding.part = Part::kHyperparameters;
    finding.what = fmt::format("{} hyperparameter{}", base::FormatCount(result_.errors),
                               result_.errors == 1 ? " differs" : "s differ");
    constexpr size_t kPerTopic = 3;
    constexpr size_t kInAll = 10;
    for (size_t topic = 0; topic < by_topic_.size(); ++topic) {
      const std::vector<std::string>& texts = by_topic_[topic];
      for (size_t i = 0; i < std::min(texts.size(), kPerTopic); ++i) {
        if (finding.examples.size() < kInAll) {
          const bool explain = i == 0 && topic < rules_.topics.size();
          finding.examples.push_back(
              explain ? fmt::format("{} ({})", texts[i], rules_.topics[topic].why) : texts[i]);
        }
      }
    }
    finding.why = remedy.why;
    finding.fix = remedy.fix;
    result_.findings.push_back(std::move(finding));
  }

  const Rules& rules_;
  const uint64_t most_steps_;
  CheckResult result_;
  std::vector<std::vector<std::string>> by_topic_;  // differing ones
  Finding only_;
  Finding renamed_;
  size_t renamed_count_ = 0;
  bool gave_up_ = false;
};

}  // namespace

Result<CheckResult> CheckHyperparameters(const PackPair& packs, uint64_t most_steps) {
  HyperparameterCheck check(BuiltInRules(), most_steps);
  for (const std::string_view file : kFiles) {
    const std::string member = fmt::format("hyperparameters/{}", file);
    if (packs.bench.HasMember(member) && packs.cmp.HasMember(member)) {
      MSP_ASSIGN_OR_RETURN(Json bench, packs.bench.ReadJsonObject(member));
      MSP_ASSIGN_OR_RETURN(Json cmp, packs.cmp.ReadJsonObject(member));
      MaskParameters(bench);
      MaskParameters(cmp);
      check.AddFile(file, bench, cmp);
    }
  }
  return check.Finish();
}

}  // namespace msprobe::analysis::config_check
