#include "src/analysis/perf/module_match.h"

#include <algorithm>

#include "src/base/strings.h"

namespace msprobe::analysis::perf {
namespace {

using profile::TextId;

class ModuleMatcher {
 public:
  ModuleMatcher(const ModuleSide& base, const ModuleSide& comparison, const PairOptions& options)
      : base_(base), comparison_(comparison), options_(options) {
    // Paths of the comparison numbered as those of the base, new ones beyond them.
    const auto known = static_cast<uint32_t>(base.paths().size());
    for (TextId id = 0; id < comparison.paths().size(); ++id) {
      const TextId same = base.paths().Find(comparison.paths()[id]);
      comparison_keys_.push_back(same != profile::kNoText ? same : known + id);
    }
  }

  std::vector<AlignedPair> Match() {
    Pair(base_.ForwardRoots(), comparison_.ForwardRoots());
    Pair(base_.BackwardRoots(), comparison_.BackwardRoots());
    // Grows while it is walked.
    for (size_t i = 0; i < pairs_.size(); ++i) {  // NOLINT(modernize-loop-convert)
      const AlignedPair pair = pairs_[i];
      Pair(pair.base == kUnmatched ? Modules() : base_.Children(pair.base),
           pair.comparison == kUnmatched ? Modules() : comparison_.Children(pair.comparison));
    }
    return std::move(pairs_);
  }

 private:
  using Modules = std::vector<uint32_t>;

  void Pair(const Modules& base, const Modules& comparison) {
    if (base.empty() || comparison.empty() || !options_.details) {
      for (const uint32_t module : base) {
        pairs_.push_back({module, kUnmatched});
      }
      for (const uint32_t module : comparison) {
        pairs_.push_back({kUnmatched, module});
      }
      return;
    }
    Modules base_keys;
    for (const uint32_t module : base) {
      base_keys.push_back(base_[module].path);
    }
    Modules comparison_keys;
    for (const uint32_t module : comparison) {
      comparison_keys.push_back(comparison_keys_[comparison_[module].path]);
    }
    for (const AlignedPair& pair : Align(base_keys, comparison_keys, options_.alignment).pairs) {
      pairs_.push_back({pair.base == kUnmatched ? kUnmatched : base[pair.base],
                        pair.comparison == kUnmatched ? kUnmatched : comparison[pair.comparison]});
    }
  }

  const ModuleSide& base_;
  const ModuleSide& comparison_;
  const PairOptions& options_;
  std::vector<uint32_t> comparison_keys_;
  std::vector<AlignedPair> pairs_;
};

}  // namespace

bool CanCompareModules(const ModuleSide& base, const ModuleSide& comparison,
                       const PairOptions& options) {
  return options.modules && base.has_modules() && comparison.has_modules();
}

std::vector<AlignedPair> MatchModules(const ModuleSide& base, const ModuleSide& comparison,
                                      const PairOptions& options) {
  const std::vector<AlignedPair> matched = ModuleMatcher(base, comparison, options).Match();
  std::vector<AlignedPair> with_base;
  std::vector<AlignedPair> alone;
  for (const AlignedPair& pair : matched) {
    (pair.base == kUnmatched ? alone : with_base).push_back(pair);
  }
  std::stable_sort(with_base.begin(), with_base.end(),
                   [&base](const AlignedPair& a, const AlignedPair& b) {
                     return base[a.base].start < base[b.base].start;
                   });
  std::stable_sort(alone.begin(), alone.end(),
                   [&comparison](const AlignedPair& a, const AlignedPair& b) {
                     return comparison[a.comparison].start < comparison[b.comparison].start;
                   });
  std::vector<AlignedPair> ordered;
  ordered.reserve(matched.size());
  size_t next = 0;
  for (const AlignedPair& pair : with_base) {
    while (pair.comparison != kUnmatched && next < alone.size() &&
           comparison[alone[next].comparison].start < comparison[pair.comparison].start) {
      ordered.push_back(alone[next++]);
    }
    ordered.push_back(pair);
  }
  ordered.insert(ordered.end(), alone.begin() + static_cast<std::ptrdiff_t>(next), alone.end());
  return ordered;
}

std::string_view ModuleClass(std::string_view path) {
  std::string_view part = path.substr(path.rfind('/') + 1);
  const size_t last = part.find_last_not_of("0123456789");
  if (last != std::string_view::npos && last + 1 < part.size() && part[last] == '_') {
    part = part.substr(0, last);
  }
  return part;
}

std::string ModuleName(std::string_view path) { return base::ReplaceAll(path, "nn.Module:", ""); }

}  // namespace msprobe::analysis::perf
