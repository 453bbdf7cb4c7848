#include "src/analysis/nan/levels.h"

#include <algorithm>
#include <cmath>

#include "src/base/strings.h"
#include "src/dump/entry_scan.h"
#include "src/dump/layout.h"
#include "src/dump/dump_file.h"
#include "src/json/writer.h"

namespace msprobe::analysis::nan {
namespace {

using dump::EntryTree;
using dump::Node;
using dump::NodeKind;

constexpr double kMutationRatio = 100;

// Positions that may be bad without a reason to worry. A list that is empty asks for nothing.
struct Allowed {
  std::string_view name;  // the first two parts of the operator's, in lower case
  std::vector<uint32_t> arguments;
  std::vector<std::string> keywords;
  std::vector<uint32_t> outputs;
};

const std::vector<Allowed>& AllowedPositions() {
  static const std::vector<Allowed> kAllowed = {
      {"torch.empty", {}, {}, {0}},
      {"torch.empty_like", {}, {}, {0}},
      {"torch.empty_strided", {}, {}, {0}},
      {"distributed.recv", {0}, {"tensor"}, {}},
      {"distributed.all_gather", {0}, {}, {}},
      {"distributed.reduce_scatter", {0}, {"output"}, {}},
      {"distributed._reduce_scatter_base", {0}, {}, {}},
      {"distributed.all_gather_into_tensor", {0}, {}, {}},
      {"distributed.reduce_scatter_tensor", {0}, {}, {}},
      {"tensor.masked_fill_", {0}, {}, {}},
  };
  return kAllowed;
}

template <typename Position>
bool HoldsOnly(const std::vector<Position>& bad, const std::vector<Position>& allowed) {
  return allowed.empty() || std::all_of(bad.begin(), bad.end(), [&](const Position& entry) {
           return std::find(allowed.begin(), allowed.end(), entry) != allowed.end();
         });
}

bool IsAllowed(const LevelFinding& finding) {
  const std::string lower = base::AsciiLower(finding.name);
  const std::vector<std::string_view> parts = base::Split(lower, '.');
  if (parts.size() < 2) {
    return false;
  }
  const std::string key = std::string(parts[0]) + "." + std::string(parts[1]);
  const auto& rules = AllowedPositions();
  const auto rule = std::find_if(rules.begin(), rules.end(),
                                 [&](const Allowed& entry) { return entry.name == key; });
  return rule != rules.end() && HoldsOnly(finding.bad_arguments, rule->arguments) &&
         HoldsOnly(finding.bad_keywords, rule->keywords) &&
         HoldsOnly(finding.bad_outputs, rule->outputs);
}

bool IsNonFinite(const Node& node) {
  return node.kind == NodeKind::kText
             ? BadValuesOfText(node.text) != 0
             : (node.kind == NodeKind::kFloat && !std::isfinite(node.number));
}

// Here the mean counts, too.
bool IsBad(const EntryTree& tree, uint32_t root) {
  for (uint32_t index = root; index < tree[root].end; ++index) {
    const Node& node = tree[index];
    if ((node.key == dump::KeyOf(dump::kMax) || node.key == dump::KeyOf(dump::kMin) ||
         node.key == dump::KeyOf(dump::kMean)) &&
        IsNonFinite(node)) {
      return true;
    }
  }
  return false;
}

class Judge {
 public:
  explicit Judge(const EntryTree& tree) : tree_(tree) {
    arguments_ = Member("input_args");
    if (arguments_ == EntryTree::kNone) {
      arguments_ = Member("input");
    }
    keywords_ = Member("input_kwargs");
    output_ = Member("output");
  }

  std::optional<LevelFinding> Run() {
    LevelFinding finding;
    finding.bad_arguments = BadPositions(arguments_);
    finding.bad_outputs = BadPositions(output_);
    if (keywords_ != EntryTree::kNone) {
      tree_.ForEachChild(keywords_, [&](uint32_t child) {
        if (IsBad(tree_, child)) {
          finding.bad_keywords.emplace_back(tree_[child].key);
        }
      });
    }
    const bool bad_input = !finding.bad_arguments.empty() || !finding.bad_keywords.empty();
    const bool bad_output = !finding.bad_outputs.empty();
    if (!bad_input && !bad_output) {
      finding.scene = Scene::kMutation;
      finding.level = Level::kHigh;
      return Mutates() ? std::optional(finding) : std::nullopt;
    }
    finding.scene =
        bad_input ? (bad_output ? Scene::kInputOutput : Scene::kInputOnly) : Scene::kOutputOnly;
    finding.level = bad_input ? (bad_output ? Level::kHigh : Level::kMedium) : Level::kCritical;
    return finding;
  }

 private:
  uint32_t Member(std::string_view key) const {
    return tree_.size() > 0 && tree_[0].kind == NodeKind::kObject ? tree_.Find(0, key)
                                                                  : EntryTree::kNone;
  }

  // An output that is one tensor instead of a list counts as position 0.
  std::vector<uint32_t> BadPositions(uint32_t part) const {
    std::vector<uint32_t> bad;
    if (part == EntryTree::kNone) {
      return bad;
    }
    if (tree_[part].kind != NodeKind::kList) {
      if (IsBad(tree_, part)) {
        bad.push_back(0);
      }
      return bad;
    }
    uint32_t position = 0;
    tree_.ForEachChild(part, [&](uint32_t child) {
      if (IsBad(tree_, child)) {
        bad.push_back(position);
      }
      ++position;
    });
    return bad;
  }

  // The largest norm among the direct tensors of these parts.
  std::optional<double> LargestNorm(std::initializer_list<uint32_t> parts) const {
    std::optional<double> largest;
    for (const uint32_t part : parts) {
      if (part == EntryTree::kNone) {
        continue;
      }
      tree_.ForEachChild(part, [&](uint32_t child) {
        if (tree_[child].kind != NodeKind::kObject) {
          return;
        }
        const uint32_t type = tree_.Find(child, "type");
        const uint32_t norm = tree_.Find(child, dump::KeyOf(dump::kNorm));
        if (type == EntryTree::kNone || norm == EntryTree::kNone ||
            !tree_[type].text.ends_with(".Tensor")) {
          return;
        }
        const Node& node = tree_[norm];
        const bool is_number = node.kind == NodeKind::kFloat || node.kind == NodeKind::kInt;
        if (is_number && !std::isnan(node.number)) {
          largest = std::max(largest.value_or(node.number), node.number);
        }
      });
    }
    return largest;
  }

  bool Mutates() const {
    const std::optional<double> input = LargestNorm({arguments_, keywords_});
    const std::optional<double> output = LargestNorm({output_});
    if (!input || !output) {
      return false;
    }
    return *input == 0 ? *output > kMutationRatio : *output / *input > kMutationRatio;
  }

  const EntryTree& tree_;
  uint32_t arguments_ = EntryTree::kNone;
  uint32_t keywords_ = EntryTree::kNone;
  uint32_t output_ = EntryTree::kNone;
};

}  // namespace

std::string_view LevelName(Level level) {
  constexpr std::array<std::string_view, 3> kNames = {"medium", "high", "critical"};
  return kNames[static_cast<size_t>(level)];
}

std::string_view SceneName(Scene scene) {
  constexpr std::array<std::string_view, 4> kNames = {"output_only", "input_and_output",
                                                      "input_only", "numerical_mutation"};
  return kNames[static_cast<size_t>(scene)];
}

std::optional<LevelFinding> JudgeEntry(std::string_view name, const EntryTree& entry) {
  std::optional<LevelFinding> finding = Judge(entry).Run();
  if (!finding) {
    return std::nullopt;
  }
  finding->name = name;
  return IsAllowed(*finding) ? std::nullopt : finding;
}

Result<LevelSummary> JudgeRanks(std::span<const RankDump> ranks, base::ThreadPool& pool) {
  std::vector<std::vector<LevelFinding>> found(ranks.size());
  std::vector<Status> statuses(ranks.size());
  pool.ParallelFor(ranks.size(), [&](size_t place, size_t /*worker*/) {
    const RankDump& rank = ranks[place];
    const auto visit = [&](const dump::ScannedEntry& entry, const dump::EntryScanOutcome&) {
      const Result<EntryTree> tree = json::ParseValueTree(entry.text);
      if (!tree.ok()) {
        return true;  // told when the rank was loaded
      }
      if (std::optional<LevelFinding> finding = JudgeEntry(entry.name, *tree)) {
        finding->rank = rank.rank;
        found[place].push_back(std::move(*finding));
      }
      return true;
    };
    statuses[place] = dump::ScanEntries(rank.folder / dump::kDumpFileName, visit).status();
  });
  LevelSummary summary;
  for (size_t place = 0; place < ranks.size(); ++place) {
    MSP_RETURN_IF_ERROR(std::move(statuses[place]));
    for (LevelFinding& finding : found[place]) {
      ++summary.counts[static_cast<size_t>(finding.level)];
      summary.findings.push_back(std::move(finding));
    }
  }
  return summary;
}

std::string LevelsJson(const LevelSummary& summary) {
  std::string text;
  json::Writer json(text, 2);
  json.BeginArray();
  for (const LevelFinding& finding : summary.findings) {
    const auto positions = [&](std::string_view key, const std::vector<uint32_t>& values) {
      json.Key(key);
      json.BeginArray();
      for (const uint32_t value : values) {
        json.Int(value);
      }
      json.EndArray();
    };
    json.BeginObject();
    json.Member("device_rank", finding.rank);
    json.Member("api_name", finding.name);
    json.Member("rank", LevelName(finding.level));
    json.Member("scene_type", SceneName(finding.scene));
    positions("input_args_anomaly_indices", finding.bad_arguments);
    json.Key("input_kwargs_anomaly_keys");
    json.BeginArray();
    for (const std::string& key : finding.bad_keywords) {
      json.Text(key);
    }
    json.EndArray();
    positions("output_anomaly_indices", finding.bad_outputs);
    if (finding.scene == Scene::kMutation) {
      json.Member("threshold", kMutationRatio);
      json.Member("scale_change_detected", true);
    }
    json.EndObject();
  }
  json.EndArray();
  text += '\n';
  return text;
}

}  // namespace msprobe::analysis::nan
