#include "src/analysis/perf/group_findings.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/perf/kernel_kinds.h"
#include "src/base/strings.h"

namespace msprobe::analysis::perf {
namespace {

constexpr double kMostOfIt = 0.7;      // a context that makes up this share of a change is named
constexpr double kWorthTelling = 0.2;  // share of a group's time from which on a part counts
constexpr double kSmallGroup = 0.002;  // share of all time below which nothing is a replacement
constexpr size_t kLongestText = 90;

using AmountPart = std::pair<const std::string, Amounts>;

std::string Cut(const std::string& text) {
  return text.size() <= kLongestText ? text : text.substr(0, kLongestText - 3) + "...";
}

// The part with the most time on a side; null: none has any there.
const AmountPart* Largest(const std::map<std::string, Amounts>& parts, size_t side) {
  const AmountPart* largest = nullptr;
  for (const AmountPart& part : parts) {
    if (part.second[side].calls > 0 &&
        (largest == nullptr || part.second[side].ms > largest->second[side].ms)) {
      largest = &part;
    }
  }
  return largest;
}

// The share of a side's time that stands in parts which the other side lacks.
double ShareOfOwn(const std::map<std::string, Amounts>& parts, size_t side) {
  double own = 0;
  double all = 0;
  for (const AmountPart& part : parts) {
    all += part.second[side].ms;
    own += part.second[1 - side].calls == 0 ? part.second[side].ms : 0;
  }
  return all > 0 ? own / all : 0;
}

// "A -> B" where both sides spend much of their time in parts that the other one lacks; the largest
// part of such on each side.
std::optional<std::string> Exchanged(const std::map<std::string, Amounts>& parts,
                                     std::string_view what) {
  if (ShareOfOwn(parts, 0) < kWorthTelling || ShareOfOwn(parts, 1) < kWorthTelling) {
    return std::nullopt;
  }
  const auto own = [&](size_t side) {
    const AmountPart* largest = nullptr;
    for (const AmountPart& part : parts) {
      if (part.second[1 - side].calls == 0 && part.second[side].calls > 0 &&
          (largest == nullptr || part.second[side].ms > largest->second[side].ms)) {
        largest = &part;
      }
    }
    return largest;
  };
  const AmountPart* before = own(0);
  const AmountPart* after = own(1);
  if (before == nullptr || after == nullptr) {
    return std::nullopt;
  }
  return fmt::format("{} {} -> {}", what, Cut(before->first), Cut(after->first));
}

void AppendNote(const std::optional<std::string>& text, std::string& note) {
  if (text.has_value()) {
    note += (note.empty() ? "" : "; ") + *text;
  }
}

// The part whose time changed most in a direction, 1 or -1; null: none did.
const AmountPart* MostChanged(const std::map<std::string, Amounts>& parts, double direction) {
  const AmountPart* most = nullptr;
  for (const AmountPart& part : parts) {
    const double change = Change(part.second) * direction;
    if (change > 0 && (most == nullptr || change > Change(most->second) * direction)) {
      most = &part;
    }
  }
  return most;
}

std::string_view FamilyOf(const WorkGroup& group, const AmountPart& kernel) {
  const auto known = group.families.find(kernel.first);
  return known == group.families.end() ? group.family : known->second;
}

// Why the time changed, as far as the records tell.
std::string NoteOf(const WorkGroup& group) {
  std::string note;
  const auto& [base, comparison] = group.total;
  if (group.is_added() || group.is_removed()) {
    note = group.is_added() ? "only in the comparison" : "only in the base";
    const AmountPart* kernel = Largest(group.kernels, group.is_added() ? 1 : 0);
    if (kernel != nullptr && group.is_operator) {
      AppendNote(fmt::format("{} kernel {}", FamilyOf(group, *kernel), kernel->first), note);
    }
    return note;
  }
  if (base.calls != comparison.calls) {
    const double per_call = base.ms > 0 ? (comparison.ms / static_cast<double>(comparison.calls)) /
                                              (base.ms / static_cast<double>(base.calls))
                                        : 1;
    AppendNote(fmt::format("{} calls", comparison.calls > base.calls ? "more" : "fewer") +
                   (std::fabs(per_call - 1) < 0.1 ? ", each as long as before" : ""),
               note);
  }
  AppendNote(Exchanged(group.types, "types"), note);
  AppendNote(Exchanged(group.shapes, "shapes"), note);
  const std::optional<std::string> kernels = Exchanged(group.kernels, "other kernels:");
  AppendNote(kernels, note);
  const AmountPart* kernel = MostChanged(group.kernels, comparison.ms >= base.ms ? 1 : -1);
  if (kernel == nullptr) {
    kernel = Largest(group.kernels, comparison.ms >= base.ms ? 1 : 0);
  }
  if (kernel == nullptr) {
    return note;
  }
  const std::string_view family = FamilyOf(group, *kernel);
  if (!kernels.has_value() && group.is_operator) {
    const double change = Change(kernel->second);
    AppendNote(std::fabs(change) >= kMostOfIt * std::fabs(Change(group.total)) &&
                       kernel->second[0].calls > 0
                   ? fmt::format("{} kernel {} ({:.3f} -> {:.3f} ms)", family, kernel->first,
                                 kernel->second[0].ms, kernel->second[1].ms)
                   : fmt::format("{} kernel {}", family, kernel->first),
               note);
  } else if (!group.is_operator) {
    AppendNote(fmt::format("{} kernel", family), note);
  } else {
    AppendNote(fmt::format("family {}", family), note);
  }
  return note;
}

// The one context in which most of a change happened, or nothing.
std::string WhereOf(const WorkGroup& group) {
  const double change = Change(group.total);
  const AmountPart* largest = nullptr;
  for (const AmountPart& part : group.contexts) {
    if (Change(part.second) * change > 0 &&
        (largest == nullptr ||
         std::fabs(Change(part.second)) > std::fabs(Change(largest->second)))) {
      largest = &part;
    }
  }
  const bool most =
      largest != nullptr && std::fabs(Change(largest->second)) >= kMostOfIt * std::fabs(change);
  return group.label + (most ? largest->first : "");
}

Finding GroupFinding(const WorkGroup& group, std::string_view metric) {
  Finding finding;
  finding.where = WhereOf(group);
  finding.metric = metric;
  finding.note = NoteOf(group);
  finding.call_stack = group.call_stack;
  finding.base = group.total[0].ms;
  finding.comparison = group.total[1].ms;
  finding.base_calls = group.total[0].calls;
  finding.comparison_calls = group.total[1].calls;
  return finding;
}

// ---- Replacements ----

bool IsAttention(const WorkGroup& group) {
  const std::string lower = base::AsciiLower(group.label);
  return group.family == "attention" || lower.find("attention") != std::string::npos;
}

// What attention is made of where no one kernel does all of it.
bool IsPartOfAttention(const WorkGroup& group) {
  const std::string lower = base::AsciiLower(group.label);
  for (const std::string_view word : {"softmax", "bmm", "baddbmm", "dropout", "masked_fill"}) {
    if (lower.find(word) != std::string::npos) {
      return true;
    }
  }
  return IsAttention(group);
}

// The nearest operator or optimizer step that both were called by; empty: none. What a whole pass
// or model holds proves nothing.
std::string CommonCaller(const WorkGroup& a, const WorkGroup& b) {
  for (const std::string& caller : a.callers) {
    if (caller.starts_with("##") || caller.starts_with("nn.Module") ||
        caller.starts_with("DistributedDataParallel") ||
        caller.starts_with("FullyShardedDataParallel")) {
      continue;
    }
    if (std::find(b.callers.begin(), b.callers.end(), caller) != b.callers.end()) {
      return caller;
    }
  }
  return {};
}

bool ReplacesIt(const WorkGroup& removed, const WorkGroup& added) {
  if (IsAttention(removed) || IsAttention(added)) {
    // Forward by forward and backward by backward.
    return IsPartOfAttention(removed) && IsPartOfAttention(added) &&
           (IsBackwardName(removed.label) == IsBackwardName(added.label) || !IsAttention(removed) ||
            !IsAttention(added));
  }
  if (!removed.is_operator && !added.is_operator) {
    // Kernels have other names on another device: those of a family do the same work.
    return removed.family == added.family && removed.family != "other";
  }
  return !CommonCaller(removed, added).empty() ||
         (removed.family == added.family && removed.family != "other" &&
          removed.is_operator == added.is_operator &&
          removed.total[0].calls == added.total[1].calls);
}

// "a, b and 2 more", the largest first.
std::string NamesOf(std::vector<const WorkGroup*> groups, size_t side) {
  std::stable_sort(groups.begin(), groups.end(), [side](const WorkGroup* a, const WorkGroup* b) {
    return a->total[side].ms > b->total[side].ms;
  });
  constexpr size_t kNamed = 2;
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(kNamed, groups.size()); ++i) {
    names.push_back(groups[i]->label);
  }
  std::string text = base::Join(names, ", ");
  return groups.size() > kNamed ? text + fmt::format(" and {} more", groups.size() - kNamed) : text;
}

Finding ReplacementOf(const std::vector<const WorkGroup*>& removed,
                      const std::vector<const WorkGroup*>& added, std::string_view metric) {
  Finding finding;
  finding.metric = metric;
  const WorkGroup& first = *removed.front();
  const std::string caller =
      first.is_operator ? CommonCaller(first, *added.front()) : std::string();
  finding.where = fmt::format(
      "{}{} -> {}{}", first.is_operator ? "" : fmt::format("{} kernels: ", first.family),
      NamesOf(removed, 0), NamesOf(added, 1), caller.empty() ? "" : " in " + caller);
  for (const auto* groups : {&removed, &added}) {
    for (const WorkGroup* group : *groups) {
      finding.base += group->total[0].ms;
      finding.comparison += group->total[1].ms;
      finding.base_calls += group->total[0].calls;
      finding.comparison_calls += group->total[1].calls;
      if (finding.call_stack.empty()) {
        finding.call_stack = group->call_stack;
      }
    }
  }
  finding.note = "replaced; the change is the net one";
  return finding;
}

// Takes replaced operators and their replacements out of `groups`.
std::vector<Finding> TakeReplacements(std::vector<WorkGroup>& groups, std::string_view metric) {
  double all = 0;
  for (const WorkGroup& group : groups) {
    all += std::max(group.total[0].ms, group.total[1].ms);
  }
  std::vector<const WorkGroup*> removed;
  std::vector<const WorkGroup*> added;
  for (const WorkGroup& group : groups) {
    if (std::max(group.total[0].ms, group.total[1].ms) >= all * kSmallGroup) {
      if (group.is_removed()) {
        removed.push_back(&group);
      } else if (group.is_added()) {
        added.push_back(&group);
      }
    }
  }
  constexpr size_t kMostCompared = 400;  // by pairs
  removed.resize(std::min(removed.size(), kMostCompared));
  added.resize(std::min(added.size(), kMostCompared));
  std::vector<Finding> findings;
  std::vector<const WorkGroup*> taken;
  const auto is_free = [&](const WorkGroup* group) {
    return std::find(taken.begin(), taken.end(), group) == taken.end();
  };
  // Everything that is linked to a removed operator by replacing it, or by replacing its like.
  for (const WorkGroup* first : removed) {
    if (!is_free(first)) {
      continue;
    }
    std::vector<const WorkGroup*> gone = {first};
    std::vector<const WorkGroup*> come;
    for (bool grew = true; grew;) {
      grew = false;
      const auto join = [&](const std::vector<const WorkGroup*>& candidates, auto& mine,
                            const auto& fits) {
        for (const WorkGroup* candidate : candidates) {
          if (is_free(candidate) && std::find(mine.begin(), mine.end(), candidate) == mine.end() &&
              fits(candidate)) {
            mine.push_back(candidate);
            grew = true;
          }
        }
      };
      join(added, come, [&](const WorkGroup* group) {
        return std::any_of(gone.begin(), gone.end(),
                           [&](const WorkGroup* other) { return ReplacesIt(*other, *group); });
      });
      join(removed, gone, [&](const WorkGroup* group) {
        return std::any_of(come.begin(), come.end(),
                           [&](const WorkGroup* other) { return ReplacesIt(*group, *other); });
      });
    }
    if (!come.empty()) {
      findings.push_back(ReplacementOf(gone, come, metric));
      taken.insert(taken.end(), gone.begin(), gone.end());
      taken.insert(taken.end(), come.begin(), come.end());
    }
  }
  // What is left on both sides in similar amounts did the same work in another way, too.
  std::vector<const WorkGroup*> gone;
  std::vector<const WorkGroup*> come;
  double gone_ms = 0;
  double come_ms = 0;
  for (const WorkGroup* group : removed) {
    if (is_free(group)) {
      gone.push_back(group);
      gone_ms += group->total[0].ms;
    }
  }
  for (const WorkGroup* group : added) {
    if (is_free(group)) {
      come.push_back(group);
      come_ms += group->total[1].ms;
    }
  }
  constexpr double kComparable = 0.3;
  if (!gone.empty() && !come.empty() &&
      std::min(gone_ms, come_ms) >= kComparable * std::max(gone_ms, come_ms)) {
    findings.push_back(ReplacementOf(gone, come, metric));
    taken.insert(taken.end(), gone.begin(), gone.end());
    taken.insert(taken.end(), come.begin(), come.end());
  }
  std::vector<WorkGroup> rest;
  for (WorkGroup& group : groups) {
    if (is_free(&group)) {
      rest.push_back(std::move(group));
    }
  }
  groups = std::move(rest);
  return findings;
}

// ---- A change that all share ----

// All that takes time takes longer (or less long) by about the same factor, with the same calls.
std::optional<Finding> SharedChange(const std::vector<WorkGroup>& groups, std::string_view metric) {
  Finding all;
  for (const WorkGroup& group : groups) {
    all.base += group.total[0].ms;
    all.comparison += group.total[1].ms;
    all.base_calls += group.total[0].calls;
    all.comparison_calls += group.total[1].calls;
  }
  if (all.base <= 0 || all.comparison <= 0) {
    return std::nullopt;
  }
  const double growth = all.comparison / all.base;
  constexpr double kWorthIt = 0.03;
  if (std::fabs(growth - 1) < kWorthIt) {
    return std::nullopt;
  }
  double alike = 0;
  size_t families = 0;
  double largest = 0;
  for (const WorkGroup& group : groups) {
    const auto& [base, comparison] = group.total;
    if (base.ms <= 0 || base.calls != comparison.calls) {
      continue;
    }
    if (std::fabs(comparison.ms / base.ms - growth) <= 0.35 * std::fabs(growth - 1)) {
      alike += base.ms;
      families += base.ms >= all.base / 100 ? 1 : 0;
      largest = std::max(largest, base.ms);
    }
  }
  constexpr double kNearlyAll = 0.85;
  if (alike < kNearlyAll * all.base || families < 4 || largest > 0.8 * all.base) {
    return std::nullopt;
  }
  all.where = "all operators alike";
  all.metric = metric;
  all.note = fmt::format(
      "each takes about {:+.0f} % with the same calls: look at clocks, power limits and what else "
      "runs there",
      (growth - 1) * 100);
  return all;
}

}  // namespace

std::vector<Finding> FindingsOfGroups(std::vector<WorkGroup> groups, std::string_view metric) {
  std::vector<Finding> findings;
  const std::optional<Finding> shared = SharedChange(groups, metric);
  if (shared.has_value()) {
    findings.push_back(*shared);
  }
  for (Finding& replacement : TakeReplacements(groups, metric)) {
    findings.push_back(std::move(replacement));
  }
  for (const WorkGroup& group : groups) {
    findings.push_back(GroupFinding(group, metric));
  }
  return findings;
}

}  // namespace msprobe::analysis::perf
