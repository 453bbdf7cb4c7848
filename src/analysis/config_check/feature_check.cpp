#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/config_check/check.h"
#include "src/analysis/config_check/name_budget.h"
#include "src/analysis/config_check/rules.h"
#include "src/analysis/config_check/step_files.h"
#include "src/analysis/config_check/values.h"
#include "src/base/strings.h"

namespace msprobe::analysis::config_check {
namespace {

using json::ValueKind;
using json::ValueNode;
using json::ValueTree;
using report::Cell;

constexpr std::array<std::string_view, 4> kFeatures = {"max", "min", "mean", "norm"};

// The nodes of max, min, mean and norm; nullopt when the node is not exactly these four.
using FeatureNodes = std::array<uint32_t, kFeatures.size()>;
std::optional<FeatureNodes> FeaturesAt(const ValueTree& tree, uint32_t node) {
  if (tree[node].kind != ValueKind::kObject || tree[node].child_count != kFeatures.size()) {
    return std::nullopt;
  }
  FeatureNodes nodes{};
  for (size_t i = 0; i < kFeatures.size(); ++i) {
    nodes[i] = tree.Find(node, kFeatures[i]);
    if (nodes[i] == ValueTree::kNone) {
      return std::nullopt;
    }
  }
  return nodes;
}

double NumberOf(const ValueNode& value) {
  switch (value.kind) {
    case ValueKind::kBool:
      return value.boolean ? 1 : 0;
    case ValueKind::kInt:
    case ValueKind::kFloat:
      return value.number;
    default:
      return std::nan("");
  }
}

// |bench - cmp| / bench: the sign of bench stays in it, as the Python tool has it. NaN where
// there is none.
double RelativeDifference(const ValueNode& bench, const ValueNode& cmp) {
  const double bench_value = NumberOf(bench);
  if (bench_value == 0) {
    return std::nan("");
  }
  return std::abs(bench_value - NumberOf(cmp)) / bench_value;
}

// Rows of the dataset or weights sheet, and what they add up to.
class FeatureRows {
 public:
  FeatureRows(Part part, std::string name_column) {
    result_.part = part;
    result_.compared = false;
    result_.table =
        report::Table(std::string(PartName(part)),
                      {"step", "rank", std::move(name_column), "equal", "max_relative_diff",
                       "min_relative_diff", "mean_relative_diff", "norm_relative_diff"});
  }

  void StartFile(const StepFile& file) {
    step_ = file.step;
    rank_ = file.rank;
    if (!first_step_) {
      first_step_ = step_;
    }
  }

  // Two tensors, both with features.
  void Compare(std::string_view name, const ValueTree& bench, const FeatureNodes& bench_nodes,
               const ValueTree& cmp, const FeatureNodes& cmp_nodes) {
    result_.compared = true;
    bool equal = true;
    bool only_nan = true;  // that makes them unequal
    std::array<Cell, kFeatures.size()> differences;
    double largest = 0;
    for (size_t i = 0; i < kFeatures.size(); ++i) {
      const bool same = PythonEqual(bench, bench_nodes[i], cmp, cmp_nodes[i]);
      const ValueNode& bench_value = bench[bench_nodes[i]];
      const ValueNode& cmp_value = cmp[cmp_nodes[i]];
      equal = equal && same;
      only_nan = only_nan &&
                 (same || (std::isnan(NumberOf(bench_value)) && std::isnan(NumberOf(cmp_value))));
      const double difference = RelativeDifference(bench_value, cmp_value);
      differences[i] = NumberCell(difference);
      if (!std::isnan(difference)) {
        largest = std::max(largest, std::abs(difference));
      }
    }
    AddRow(name, Cell::Boolean(equal), differences);
    if (equal) {
      return;
    }
    if (only_nan) {
      ++nan_count_;
      AddExample(nan_, fmt::format("{} (step {} rank {})", Shown(name), step_, rank_));
    } else {
      Differs(name, largest > 0 ? fmt::format("relative difference up to {:.2g}", largest) : "");
    }
  }

  // A row that is not equal and has no numbers.
  void AddUnequal(std::string_view name, std::string_view reason) {
    AddRow(name, Cell::Boolean(false), {});
    Differs(name, reason);
  }

  void AddOnly(std::string_view name, std::string_view text, std::string_view side) {
    AddRow(name, Cell::Text(text), {});
    ++only_count_;
    ++result_.warnings;
    AddExample(only_,
               fmt::format("{} (only in {}, step {} rank {})", Shown(name), side, step_, rank_));
  }

  void AddUnplaced(const Pack& pack, const std::vector<std::string>& members) {
    if (members.empty()) {
      return;
    }
    Finding finding;
    finding.severity = Severity::kWarning;
    finding.part = result_.part;
    finding.what = fmt::format("{}: {} file{} left out: not in a folder step<S>/rank<R>",
                               pack.label(), members.size(), members.size() == 1 ? "" : "s");
    for (const std::string& member : members) {
      AddExample(finding, Shown(member));
    }
    unplaced_.push_back(std::move(finding));
  }

  CheckResult Finish(const Rules& rules) {
    const std::string_view noun = result_.part == Part::kDataset ? "input" : "weight";
    if (differing_count_ > 0) {
      const Remedy& remedy = rules.RemedyOf(PartName(result_.part));
      differing_.part = result_.part;
      const bool started_alike = first_differing_step_ > *first_step_;
      differing_.what = fmt::format(
          "{} of {} recorded {}s differ, from step {} on{}", base::FormatCount(differing_count_),
          base::FormatCount(result_.table.row_count()), noun, first_differing_step_,
          started_alike ? fmt::format(" (equal before, since step {})", *first_step_) : "");
      differing_.why = remedy.why;
      differing_.fix = remedy.fix;
      if (started_alike && result_.part == Part::kWeights) {
        differing_.consequence = true;
        differing_.why = "the runs started from the same weights and diverged during training";
        differing_.fix =
            "resolve everything above first; if the runs still diverge, capture the step before "
            "with msprobe dump on both sides, and msprobe compare names the call";
      }
      result_.findings.push_back(std::move(differing_));
    }
    if (nan_count_ > 0) {
      nan_.part = result_.part;
      nan_.what =
          fmt::format("{} {}{} NaN on both sides, and NaN never equals NaN",
                      base::FormatCount(nan_count_), noun, nan_count_ == 1 ? " is" : "s are");
      nan_.why = "a run with NaN is broken whatever the comparison says";
      nan_.fix = "find the call that makes the first NaN: msprobe dump, then msprobe compare";
      result_.findings.push_back(std::move(nan_));
    }
    if (only_count_ > 0) {
      only_.severity = Severity::kWarning;
      only_.part = result_.part;
      only_.what =
          fmt::format("{} {}{} no partner, which does not fail the check",
                      base::FormatCount(only_count_), noun, only_count_ == 1 ? " has" : "s have");
      only_.why = "the two sides built different models, or use different names";
      only_.fix = "if only names differ, compare the checkpoints: msprobe ckpt_compare";
      result_.findings.push_back(std::move(only_));
    }
    for (Finding& finding : unplaced_) {
      result_.findings.push_back(std::move(finding));
    }
    result_.errors = differing_count_ + nan_count_;
    result_.nan_errors = nan_count_;
    result_.passed = result_.errors == 0;
    return std::move(result_);
  }

 private:
  void AddRow(std::string_view name, Cell equal,
              const std::array<Cell, kFeatures.size()>& differences) {
    std::array<Cell, 8> cells = {Cell::Integer(step_), Cell::Integer(rank_),
                                 name.empty() ? Cell() : result_.table.KeepText(name), equal};
    std::copy(differences.begin(), differences.end(), cells.begin() + 4);
    result_.table.AddRow(cells);
  }

  void Differs(std::string_view name, std::string_view reason) {
    if (differing_count_ == 0) {
      first_differing_step_ = step_;
    }
    ++differing_count_;
    AddExample(differing_, fmt::format("{} (step {} rank {}){}{}", Shown(name), step_, rank_,
                                       reason.empty() ? "" : ": ", reason));
  }

  CheckResult result_;
  int64_t step_ = 0;
  int64_t rank_ = 0;
  std::optional<int64_t> first_step_;
  int64_t first_differing_step_ = 0;
  size_t differing_count_ = 0;
  size_t nan_count_ = 0;
  size_t only_count_ = 0;
  Finding differing_;
  Finding nan_;
  Finding only_;
  std::vector<Finding> unplaced_;
};

std::string Joined(const std::string& path, std::string_view key) {
  return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
}

// The inputs of one forward call. Depth is bounded by the JSON reader.
Status CompareInputs(const ValueTree& bench, uint32_t bench_node, const ValueTree& cmp,
                     uint32_t cmp_node, const std::string& path, internal::NameBudget& names,
                     FeatureRows& rows) {
  const Members bench_members(bench, bench_node);
  const Members cmp_members(cmp, cmp_node);
  for (const Members::Member& member : bench_members) {
    const std::string tag = Joined(path, member.key);
    MSP_RETURN_IF_ERROR(names.Take(tag));
    const uint32_t other = cmp_members.Find(member.key);
    if (other == ValueTree::kNone) {
      rows.AddUnequal(tag, "only in bench");
      continue;
    }
    if (bench[member.node].kind != ValueKind::kObject) {
      continue;  // no tensor
    }
    const std::optional<FeatureNodes> bench_features = FeaturesAt(bench, member.node);
    if (!bench_features) {
      if (cmp[other].kind == ValueKind::kObject) {
        MSP_RETURN_IF_ERROR(CompareInputs(bench, member.node, cmp, other, tag, names, rows));
      } else {
        rows.AddUnequal(tag, "a container in bench only");
      }
      continue;
    }
    const std::optional<FeatureNodes> cmp_features = FeaturesAt(cmp, other);
    if (cmp_features) {
      rows.Compare(tag, bench, *bench_features, cmp, *cmp_features);
    } else {
      rows.AddUnequal(tag, "a tensor in bench only");
    }
  }
  for (const Members::Member& member : cmp_members) {
    if (bench_members.Find(member.key) == ValueTree::kNone) {
      const std::string tag = Joined(path, member.key);
      MSP_RETURN_IF_ERROR(names.Take(tag));
      rows.AddUnequal(tag, "only in cmp");
    }
  }
  return {};
}

void CompareParameters(const ValueTree& bench, const ValueTree& cmp, FeatureRows& rows) {
  const Members bench_members(bench, 0);
  const Members cmp_members(cmp, 0);
  for (const Members::Member& member : bench_members) {
    const uint32_t other = cmp_members.Find(member.key);
    if (other == ValueTree::kNone) {
      rows.AddOnly(member.key, "only bench have", "bench");
      continue;
    }
    const std::optional<FeatureNodes> bench_features = FeaturesAt(bench, member.node);
    const std::optional<FeatureNodes> cmp_features = FeaturesAt(cmp, other);
    if (bench_features && cmp_features) {
      rows.Compare(member.key, bench, *bench_features, cmp, *cmp_features);
    } else {
      rows.AddUnequal(member.key, "no max, min, mean and norm");
    }
  }
  for (const Members::Member& member : cmp_members) {
    if (bench_members.Find(member.key) == ValueTree::kNone) {
      rows.AddOnly(member.key, "only cmp have", "cmp");
    }
  }
}

}  // namespace

Result<CheckResult> CheckDataset(const PackPair& packs) {
  FeatureRows rows(Part::kDataset, "tag");
  internal::NameBudget names;
  constexpr uint64_t kTimesFileSize = 4;  // short keys and values below a path of some length
  const StepFiles files = FindStepFiles(packs.bench, Part::kDataset, "dataset.json");
  for (const StepFile& file : files.files) {
    if (!packs.cmp.HasMember(file.member)) {
      continue;  // told with the gaps
    }
    MSP_ASSIGN_OR_RETURN(const ValueTree bench, packs.bench.ReadJsonObject(file.member));
    MSP_ASSIGN_OR_RETURN(const ValueTree cmp, packs.cmp.ReadJsonObject(file.member));
    rows.StartFile(file);
    names.Add(kTimesFileSize * (packs.bench.BytesOf(file.member) + packs.cmp.BytesOf(file.member)));
    MSP_RETURN_IF_ERROR(CompareInputs(bench, 0, cmp, 0, "", names, rows), file.member);
  }
  rows.AddUnplaced(packs.bench, files.unplaced);
  rows.AddUnplaced(packs.cmp, FindStepFiles(packs.cmp, Part::kDataset, "dataset.json").unplaced);
  return rows.Finish(BuiltInRules());
}

Result<CheckResult> CheckWeights(const PackPair& packs) {
  FeatureRows rows(Part::kWeights, "weight_name");
  const StepFiles files = FindStepFiles(packs.bench, Part::kWeights, "");
  for (const StepFile& file : files.files) {
    MSP_ASSIGN_OR_RETURN(const ValueTree bench, packs.bench.ReadJsonObject(file.member));
    rows.StartFile(file);
    if (!packs.cmp.HasMember(file.member)) {
      for (const Members::Member& member : Members(bench, 0)) {
        rows.AddOnly(member.key, "only bench have", "bench");
      }
      continue;
    }
    MSP_ASSIGN_OR_RETURN(const ValueTree cmp, packs.cmp.ReadJsonObject(file.member));
    CompareParameters(bench, cmp, rows);
  }
  rows.AddUnplaced(packs.bench, files.unplaced);
  rows.AddUnplaced(packs.cmp, FindStepFiles(packs.cmp, Part::kWeights, "").unplaced);
  return rows.Finish(BuiltInRules());
}

}  // namespace msprobe::analysis::config_check
