// The order of execution of a dump, the modules around its calls, and the alignment of the calls of
// two dumps: a shortest edit script between two sequences of letters, where a letter is the hash of
// a call's name without its number and of its input shapes. Equal letters in front and at the end
// are paired first, so that usual pairs cost no more than reading them; the rest takes O(ND) time
// and is given up after kMostEdits edits.
#include "src/analysis/compare/call_alignment.h"

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "src/analysis/compare/agreement.h"
#include "src/analysis/compare/divergence_thresholds.h"
#include "src/base/hash_index.h"
#include "src/dump/call_facts.h"
#include "src/dump/names.h"

namespace msprobe::analysis::compare {
namespace {

using dump::Direction;

// "Module.a.fc.Linear.forward.0" and "Module.a.fc.Linear.parameters_grad" -> "Module.a.fc.Linear".
std::string_view ModulePrefix(std::string_view entry_name, const dump::EntryName& parsed) {
  if (parsed.class_name.data() != nullptr && !parsed.class_name.empty()) {
    return entry_name.substr(0, static_cast<size_t>(parsed.class_name.data() +
                                                    parsed.class_name.size() - entry_name.data()));
  }
  return entry_name.substr(0, entry_name.rfind('.'));
}

// Entries of a side by their name; of several the first.
class EntriesByName {
 public:
  EntriesByName(const Side& side, size_t expected) : side_(side), index_(expected) {}

  void Add(uint32_t entry) {
    const std::string_view name = side_.entries[entry].name;
    index_.FindOrAdd(Hash(name), entry, IsNamed{side_, name});
  }
  // kNoEntry if there is none.
  uint32_t Find(std::string_view name) const {
    return index_.Find(Hash(name), IsNamed{side_, name});
  }

 private:
  static_assert(base::HashIndex::kNone == kNoEntry);

  struct IsNamed {
    const Side& side;
    std::string_view name;
    bool operator()(uint32_t entry) const { return side.entries[entry].name == name; }
  };

  static uint64_t Hash(std::string_view name) { return std::hash<std::string_view>()(name); }

  const Side& side_;
  base::HashIndex index_;
};

}  // namespace

ExecutionPlan PlanExecution(const Side& side) {
  const auto count = static_cast<uint32_t>(side.entries.size());
  ExecutionPlan plan;
  plan.names.reserve(count);
  plan.partner.assign(count, kNoEntry);
  plan.module_of.assign(count, kNoEntry);
  EntriesByName forward_entries(side, count);
  std::unordered_map<std::string_view, uint32_t> module_numbers;
  uint32_t last_backward = kNoEntry;
  std::vector<uint32_t> last_backward_of_module;
  for (uint32_t entry = 0; entry < count; ++entry) {
    const std::string_view name = side.entries[entry].name;
    plan.names.push_back(dump::ParseEntryName(name));
    const dump::EntryName& parsed = plan.names.back();
    if (parsed.is_module || parsed.is_parameters_grad) {
      const auto [found, is_new] =
          module_numbers.try_emplace(ModulePrefix(name, parsed), plan.module_count);
      plan.module_count += is_new ? 1 : 0;
      last_backward_of_module.resize(plan.module_count, kNoEntry);
      plan.module_of[entry] = found->second;
    }
    if (parsed.direction == Direction::kForward) {
      forward_entries.Add(entry);
    } else if (parsed.direction == Direction::kBackward) {
      last_backward = entry;
      if (parsed.is_module) {
        last_backward_of_module[plan.module_of[entry]] = entry;
      }
    }
  }

  // followers[i]: parameters_grad entries that come behind entry i, chained through next_follower.
  std::vector<uint32_t> first_follower(count, kNoEntry);
  std::vector<uint32_t> next_follower(count, kNoEntry);
  std::vector<uint32_t> at_end;
  std::vector<uint32_t> reduced;
  for (uint32_t entry = count; entry-- > 0;) {
    const dump::EntryName& parsed = plan.names[entry];
    if (parsed.is_parameters_grad) {
      plan.partner[entry] = last_backward_of_module[plan.module_of[entry]];
      if (last_backward != kNoEntry && side.entries[entry].name.ends_with(".reduced")) {
        reduced.push_back(entry);
        continue;
      }
      const uint32_t leader = plan.partner[entry] != kNoEntry ? plan.partner[entry] : last_backward;
      if (leader == kNoEntry) {
        at_end.push_back(entry);
      } else {
        next_follower[entry] = first_follower[leader];
        first_follower[leader] = entry;
      }
    } else if (parsed.direction == Direction::kBackward) {
      plan.partner[entry] =
          forward_entries.Find(dump::WithDirection(side.entries[entry].name, Direction::kForward));
    }
  }

  // In the order of the backward pass.
  std::sort(reduced.begin(), reduced.end(), [&](uint32_t a, uint32_t b) {
    return std::pair(plan.partner[a], a) < std::pair(plan.partner[b], b);
  });

  plan.order.reserve(count);
  for (uint32_t entry = 0; entry < count; ++entry) {
    if (plan.names[entry].is_parameters_grad) {
      continue;
    }
    plan.order.push_back(entry);
    for (uint32_t follower = first_follower[entry]; follower != kNoEntry;
         follower = next_follower[follower]) {
      plan.order.push_back(follower);
    }
    if (entry == last_backward) {
      plan.order.insert(plan.order.end(), reduced.begin(), reduced.end());
    }
  }
  plan.order.insert(plan.order.end(), at_end.rbegin(), at_end.rend());
  return plan;
}

Containment::Containment(const Side& side, const ExecutionPlan& plan,
                         const dump::ConstructFile* construct)
    : side_(side),
      plan_(plan),
      construct_(construct != nullptr && !construct->empty() ? construct : nullptr) {}

// Hashes of the modules around an entry, innermost first, until `visit` returns false.
template <typename Visit>
void Containment::ForModulesAround(uint32_t entry, const Visit& visit) {
  if (construct_ != nullptr) {
    for (std::string_view parent = construct_->ParentOf(side_.entries[entry].name);
         !parent.empty() && visit(std::hash<std::string_view>()(parent));
         parent = construct_->ParentOf(parent)) {
    }
    return;
  }
  const dump::EntryName& name = plan_.names[entry];
  std::string_view path = name.is_module ? name.subject : std::string_view();
  for (int level = 0; level < kMostLevels; ++level) {
    const size_t dot = path.rfind('.');
    if (dot == std::string_view::npos) {
      return;
    }
    path = path.substr(0, dot);
    if (!visit(PathHash(path, name.direction))) {
      return;
    }
  }
}

uint64_t Containment::PathHash(std::string_view path, dump::Direction direction) {
  return std::hash<std::string_view>()(path) * 3 + static_cast<uint64_t>(direction);
}

// Both end at a module that knew as much before, so that every module is visited once, also when
// construct.json runs in circles.
void Containment::MarkDiverging(uint32_t entry) {
  ForModulesAround(entry,
                   [&](uint64_t module) { return !std::exchange(inside_[module].diverges, true); });
}

void Containment::RecordError(uint32_t entry, double error) {
  ForModulesAround(entry, [&](uint64_t module) {
    double& largest = inside_[module].error;
    const bool is_larger = error > largest;
    largest = is_larger ? error : largest;
    return is_larger;
  });
}

Containment::Inside Containment::InsideOf(uint32_t entry) const {
  const dump::EntryName& name = plan_.names[entry];
  if (construct_ == nullptr && !name.is_module) {
    return {};
  }
  const auto found =
      inside_.find(construct_ != nullptr ? std::hash<std::string_view>()(side_.entries[entry].name)
                                         : PathHash(name.subject, name.direction));
  return found == inside_.end() ? Inside{} : found->second;
}

bool Containment::IsInside(uint32_t entry, uint32_t module) const {
  const std::string_view wanted = side_.entries[module].name;
  if (construct_ != nullptr) {
    int depth = 0;
    for (std::string_view parent = construct_->ParentOf(side_.entries[entry].name);
         !parent.empty() && depth < kDeepestParent;
         parent = construct_->ParentOf(parent), ++depth) {
      if (parent == wanted) {
        return true;
      }
    }
    return false;
  }
  const std::string_view path = plan_.names[module].subject;
  const dump::EntryName& inner = plan_.names[entry];
  return inner.is_module && inner.subject.size() > path.size() && inner.subject.starts_with(path) &&
         inner.subject[path.size()] == '.';
}

std::string_view Containment::ParentOf(uint32_t entry) const {
  return construct_ == nullptr ? std::string_view()
                               : construct_->ParentOf(side_.entries[entry].name);
}

std::string Containment::LayerOf(uint32_t entry) const {
  const dump::EntryName& own = plan_.names[entry];
  return dump::LayerText(
      own.is_module || own.is_parameters_grad ? own : dump::ParseEntryName(ParentOf(entry)));
}

namespace {

bool IsForwardCall(const dump::EntryName& name) {
  return !name.is_parameters_grad && !name.is_debug && name.direction == Direction::kForward;
}

// Hashes of shapes, of which a side keeps each once: most are those of the row before.
class ShapeHashes {
 public:
  uint64_t Of(std::string_view shape) {
    if (shape.data() != last_.data() || shape.size() != last_.size()) {
      last_ = shape;
      hash_ = std::hash<std::string_view>()(shape);
    }
    return hash_;
  }

 private:
  std::string_view last_;
  uint64_t hash_ = std::hash<std::string_view>()({});
};

// The call's name without its number, and the shapes of what entered it.
uint64_t LetterOf(const Side& side, uint32_t entry, const dump::EntryName& name,
                  ShapeHashes& shapes) {
  const std::hash<std::string_view> hash;
  uint64_t letter = hash(name.kind) * 31 + hash(name.subject);
  letter = letter * 31 + hash(name.class_name);
  const SideEntry& rows = side.entries[entry];
  for (uint32_t i = 0; i < rows.row_count; ++i) {
    const SideRow& row = side.rows[rows.first_row + i];
    if (IsInput(row)) {
      letter = letter * 1099511628211ULL + shapes.Of(row.shape);
    }
  }
  return letter;
}

struct Sequence {
  std::vector<uint32_t> entries;
  std::vector<uint64_t> letters;
};

Sequence SequenceOf(const Side& side, const std::vector<dump::EntryName>& names,
                    const SharedKinds& kinds, bool by_whole_name) {
  Sequence sequence;
  ShapeHashes shapes;
  for (uint32_t entry = 0; entry < side.entries.size(); ++entry) {
    if (IsForwardCall(names[entry]) && kinds.Has(names[entry])) {
      sequence.entries.push_back(entry);
      sequence.letters.push_back(by_whole_name
                                     ? std::hash<std::string_view>()(side.entries[entry].name)
                                     : LetterOf(side, entry, names[entry], shapes));
    }
  }
  return sequence;
}

bool SameCalls(const Side& npu, const Sequence& a, const Side& bench, const Sequence& b) {
  return a.entries.size() == b.entries.size() &&
         std::equal(
             a.entries.begin(), a.entries.end(), b.entries.begin(),
             [&](uint32_t n, uint32_t m) { return npu.entries[n].name == bench.entries[m].name; });
}

// partner[i]: index in b, or kNoEntry. False when more than kMostEdits are needed.
bool ShortestEdit(const std::vector<uint64_t>& a, const std::vector<uint64_t>& b,
                  std::vector<uint32_t>& partner) {
  partner.assign(a.size(), kNoEntry);
  size_t front = 0;
  while (front < a.size() && front < b.size() && a[front] == b[front]) {
    partner[front] = static_cast<uint32_t>(front);
    ++front;
  }
  size_t a_end = a.size();
  size_t b_end = b.size();
  while (a_end > front && b_end > front && a[a_end - 1] == b[b_end - 1]) {
    --a_end;
    --b_end;
    partner[a_end] = static_cast<uint32_t>(b_end);
  }
  const auto n = static_cast<int64_t>(a_end - front);
  const auto m = static_cast<int64_t>(b_end - front);
  const int64_t most = std::min(n + m, kMostEdits);
  std::vector<std::vector<int64_t>> trace;  // furthest reaching x of diagonals -d..d after d edits
  std::vector<int64_t> reach(static_cast<size_t>(2 * most + 3), 0);
  const auto at = [&](int64_t diagonal) -> int64_t& {
    return reach[static_cast<size_t>(diagonal + most + 1)];
  };
  for (int64_t d = 0; d <= most; ++d) {
    for (int64_t k = -d; k <= d; k += 2) {
      int64_t x = k == -d || (k != d && at(k - 1) < at(k + 1)) ? at(k + 1) : at(k - 1) + 1;
      if (x - k < 0 || x - k > m + 1) {
        at(k) = x;
        continue;
      }
      while (x < n && x - k < m &&
             a[front + static_cast<size_t>(x)] == b[front + static_cast<size_t>(x - k)]) {
        ++x;
      }
      at(k) = x;
      if (x >= n && x - k >= m) {
        // Back along the stored fronts.
        int64_t end_x = n;
        int64_t end_y = m;
        for (int64_t edits = d; edits > 0; --edits) {
          const std::vector<int64_t>& before = trace[static_cast<size_t>(edits - 1)];
          const auto old = [&](int64_t diagonal) {
            return before[static_cast<size_t>(diagonal + edits - 1)];
          };
          const int64_t diagonal = end_x - end_y;
          const bool down =
              diagonal == -edits ||
              (diagonal != edits && (diagonal - 1 < -(edits - 1) ? -1 : old(diagonal - 1)) <
                                        (diagonal + 1 > edits - 1 ? -1 : old(diagonal + 1)));
          const int64_t from = down ? diagonal + 1 : diagonal - 1;
          const int64_t start_x = old(from);
          const int64_t after_x = down ? start_x : start_x + 1;
          while (end_x > after_x) {
            --end_x;
            --end_y;
            partner[front + static_cast<size_t>(end_x)] =
                static_cast<uint32_t>(front + static_cast<size_t>(end_y));
          }
          end_x = start_x;
          end_y = start_x - from;
        }
        while (end_x > 0) {
          --end_x;
          --end_y;
          partner[front + static_cast<size_t>(end_x)] =
              static_cast<uint32_t>(front + static_cast<size_t>(end_y));
        }
        return true;
      }
    }
    std::vector<int64_t>& kept = trace.emplace_back();
    for (int64_t k = -d; k <= d; ++k) {
      kept.push_back(at(k));
    }
  }
  return false;
}

}  // namespace

std::vector<uint32_t> AlignLetters(const std::vector<uint64_t>& a, const std::vector<uint64_t>& b) {
  std::vector<uint32_t> partner;
  if (!ShortestEdit(a, b, partner)) {
    partner.assign(a.size(), kNoEntry);
  }
  return partner;
}

namespace {

// How unlike the inputs of two calls are: 0 equal, 1 per input of other values.
double Unlikeness(const Side& npu, uint32_t npu_entry, const Side& bench, uint32_t bench_entry) {
  double sum = 0;
  const SideEntry& a = npu.entries[npu_entry];
  const SideEntry& b = bench.entries[bench_entry];
  for (uint32_t i = 0; i < std::min(a.row_count, b.row_count); ++i) {
    const SideRow& n = npu.rows[a.first_row + i];
    const SideRow& m = bench.rows[b.first_row + i];
    if (!IsInput(n) || !IsInput(m)) {
      continue;
    }
    const Distance distance = StatisticsDistance(n, m);
    sum += n.shape != m.shape ? 1.0 : distance.comparable ? std::min(1.0, distance.relative) : 0.0;
  }
  return sum;
}

// Moves a run of `length` unmatched letters of one side, which ends before `end`, to where the
// values of its neighbours fit best. `pair_cost(a, b)`: how unlike letter a of the side with the
// run is to letter b of the other.
template <typename Cost>
void PlaceRun(const std::vector<uint64_t>& letters, std::vector<uint32_t>& partner, size_t begin,
              size_t end, const Cost& pair_cost) {
  const size_t length = end - begin;
  // As far right as letters allow, then left, remembering the cheapest place.
  while (end < letters.size() && partner[end] != kNoEntry && letters[begin] == letters[end]) {
    partner[begin] = partner[end];
    partner[end] = kNoEntry;
    ++begin;
    ++end;
  }
  double cost = 0;
  double best = 0;
  size_t best_moves = 0;
  size_t moves = 0;
  size_t place = begin;
  while (place > 0 && partner[place - 1] != kNoEntry &&
         letters[place - 1] == letters[place + length - 1]) {
    const uint32_t other = partner[place - 1];
    cost += pair_cost(place + length - 1, other) - pair_cost(place - 1, other);
    partner[place + length - 1] = other;
    partner[place - 1] = kNoEntry;
    --place;
    ++moves;
    if (cost < best) {
      best = cost;
      best_moves = moves;
    }
  }
  for (; moves > best_moves; --moves) {
    partner[place] = partner[place + length];
    partner[place + length] = kNoEntry;
    ++place;
  }
}

template <typename Cost>
void PlaceRuns(const std::vector<uint64_t>& letters, std::vector<uint32_t>& partner,
               const Cost& pair_cost) {
  for (size_t i = 0; i < partner.size();) {
    if (partner[i] != kNoEntry) {
      ++i;
      continue;
    }
    size_t end = i;
    while (end < partner.size() && partner[end] == kNoEntry) {
      ++end;
    }
    PlaceRun(letters, partner, i, end, pair_cost);
    i = end;
  }
}

std::vector<uint32_t> Inverse(const std::vector<uint32_t>& partner, size_t size) {
  std::vector<uint32_t> inverse(size, kNoEntry);
  for (uint32_t i = 0; i < partner.size(); ++i) {
    if (partner[i] != kNoEntry) {
      inverse[partner[i]] = i;
    }
  }
  return inverse;
}

std::vector<UnmatchedCalls> RunsOf(const std::vector<uint32_t>& partner, size_t bench_count) {
  std::vector<UnmatchedCalls> runs;
  uint32_t next_bench = 0;
  uint32_t i = 0;
  const auto count = static_cast<uint32_t>(partner.size());
  while (i < count || next_bench < bench_count) {
    UnmatchedCalls run{i, i, next_bench, next_bench};
    while (run.npu_end < count && partner[run.npu_end] == kNoEntry) {
      ++run.npu_end;
    }
    run.bench_end = run.npu_end < count ? partner[run.npu_end] : static_cast<uint32_t>(bench_count);
    if (run.npu_end > run.npu_begin || run.bench_end > run.bench_begin) {
      runs.push_back(run);
    }
    i = run.npu_end + 1;
    next_bench = run.bench_end + 1;
    if (run.npu_end >= count) {
      break;
    }
  }
  return runs;
}

// Runs of the same calls on both sides, of other shapes: what differs is what was fed to them.
void PairByName(const Sequence& a, const Sequence& b, const std::vector<dump::EntryName>& npu_names,
                const std::vector<dump::EntryName>& bench_names, std::vector<uint32_t>& partner) {
  for (const UnmatchedCalls& run : RunsOf(partner, b.entries.size())) {
    const uint32_t length = run.npu_end - run.npu_begin;
    bool same = length == run.bench_end - run.bench_begin;
    for (uint32_t i = 0; same && i < length; ++i) {
      const dump::EntryName& n = npu_names[a.entries[run.npu_begin + i]];
      const dump::EntryName& m = bench_names[b.entries[run.bench_begin + i]];
      same = n.kind == m.kind && n.subject == m.subject && n.class_name == m.class_name;
    }
    for (uint32_t i = 0; same && i < length; ++i) {
      partner[run.npu_begin + i] = run.bench_begin + i;
    }
  }
}

}  // namespace

SharedKinds SharedKindsOf(const Side& npu, const Side& bench) {
  const std::string a = npu.header.level.value_or("");
  const std::string b = bench.header.level.value_or("");
  const bool mixes =
      (a == "mix" && (b == "L0" || b == "L1")) || (b == "mix" && (a == "L0" || a == "L1"));
  if (!mixes) {
    return {};
  }
  return {a == "L0" || b == "L0", a == "L1" || b == "L1"};
}

namespace {

std::vector<dump::EntryName> NamesOf(const Side& side) {
  std::vector<dump::EntryName> names;
  names.reserve(side.entries.size());
  for (const SideEntry& entry : side.entries) {
    names.push_back(dump::ParseEntryName(entry.name));
  }
  return names;
}

// The letters that the other sequence lacks or that were aligned: without those that stand
// elsewhere.
Sequence WithoutMoved(const Sequence& own, const std::vector<uint32_t>& partner,
                      const Sequence& other) {
  const std::unordered_set<uint64_t> known(other.letters.begin(), other.letters.end());
  Sequence kept;
  for (size_t i = 0; i < own.entries.size(); ++i) {
    if (partner[i] != kNoEntry || !known.contains(own.letters[i])) {
      kept.entries.push_back(own.entries[i]);
      kept.letters.push_back(own.letters[i]);
    }
  }
  return kept;
}

CallAlignment AlignUniqueNames(const Side& npu, Sequence a, const Side& bench, Sequence b) {
  CallAlignment alignment;
  std::vector<uint32_t> partner;
  if (a.entries.empty() || b.entries.empty() || SameCalls(npu, a, bench, b) ||
      !ShortestEdit(a.letters, b.letters, partner)) {
    return alignment;
  }
  Sequence kept = WithoutMoved(b, Inverse(partner, b.entries.size()), a);
  a = WithoutMoved(a, partner, b);
  b = std::move(kept);
  if (a.entries.empty() || b.entries.empty() || SameCalls(npu, a, bench, b) ||
      !ShortestEdit(a.letters, b.letters, partner)) {
    return alignment;
  }
  alignment.differs = true;
  alignment.unmatched = RunsOf(partner, b.entries.size());
  EntriesByName bench_entries(bench, bench.entries.size());
  for (uint32_t entry = 0; entry < bench.entries.size(); ++entry) {
    bench_entries.Add(entry);
  }
  for (const SideEntry& entry : npu.entries) {
    alignment.bench_of.push_back(bench_entries.Find(entry.name));
  }
  alignment.forward_npu = std::move(a.entries);
  alignment.forward_bench = std::move(b.entries);
  return alignment;
}

CallAlignment AlignSequences(const Side& npu, const ExecutionPlan& npu_plan, Sequence a,
                             const Side& bench, const std::vector<dump::EntryName>& bench_names,
                             Sequence b) {
  CallAlignment alignment;
  if (a.entries.empty() || b.entries.empty() || SameCalls(npu, a, bench, b)) {
    return alignment;
  }
  std::vector<uint32_t> partner;
  if (!ShortestEdit(a.letters, b.letters, partner)) {
    return alignment;
  }
  PlaceRuns(a.letters, partner, [&](size_t n, uint32_t m) {
    return Unlikeness(npu, a.entries[n], bench, b.entries[m]);
  });
  std::vector<uint32_t> inverse = Inverse(partner, b.entries.size());
  PlaceRuns(b.letters, inverse, [&](size_t m, uint32_t n) {
    return Unlikeness(npu, a.entries[n], bench, b.entries[m]);
  });
  partner = Inverse(inverse, a.entries.size());
  PairByName(a, b, npu_plan.names, bench_names, partner);
  if (std::all_of(partner.begin(), partner.end(),
                  [](uint32_t other) { return other == kNoEntry; })) {
    return alignment;
  }

  alignment.differs = true;
  alignment.unmatched = RunsOf(partner, b.entries.size());
  alignment.bench_of.assign(npu.entries.size(), kNoEntry);
  EntriesByName bench_entries(bench, bench.entries.size());
  for (uint32_t entry = 0; entry < bench.entries.size(); ++entry) {
    bench_entries.Add(entry);
  }
  for (size_t i = 0; i < partner.size(); ++i) {
    if (partner[i] != kNoEntry) {
      alignment.bench_of[a.entries[i]] = b.entries[partner[i]];
    }
  }
  for (uint32_t entry = 0; entry < npu.entries.size(); ++entry) {
    const dump::EntryName& name = npu_plan.names[entry];
    if (IsForwardCall(name)) {
      continue;
    }
    const uint32_t forward =
        name.direction == Direction::kBackward ? npu_plan.partner[entry] : kNoEntry;
    if (forward == kNoEntry) {
      alignment.bench_of[entry] = bench_entries.Find(npu.entries[entry].name);
    } else if (alignment.bench_of[forward] != kNoEntry) {
      alignment.bench_of[entry] = bench_entries.Find(dump::WithDirection(
          bench.entries[alignment.bench_of[forward]].name, Direction::kBackward));
    }
  }
  alignment.forward_npu = std::move(a.entries);
  alignment.forward_bench = std::move(b.entries);
  return alignment;
}

}  // namespace

CallOrder OrderCalls(const Side& npu, const Side& bench, CallPairs pairs, base::ThreadPool& pool) {
  CallOrder order;
  const bool by_name = pairs == CallPairs::kByName;
  const bool by_whole_name = pairs == CallPairs::kByUniqueName;
  const SharedKinds kinds = SharedKindsOf(npu, bench);
  Sequence calls;
  Sequence bench_calls;
  std::vector<dump::EntryName> bench_names;
  pool.ParallelFor(by_name ? 1 : 2, [&](size_t item, size_t) {
    if (item == 1) {
      bench_names = NamesOf(bench);
      bench_calls = SequenceOf(bench, bench_names, kinds, by_whole_name);
      return;
    }
    order.plan = PlanExecution(npu);
    if (!by_name) {
      calls = SequenceOf(npu, order.plan.names, kinds, by_whole_name);
    }
  });
  if (by_whole_name) {
    order.alignment = AlignUniqueNames(npu, std::move(calls), bench, std::move(bench_calls));
  } else if (!by_name) {
    order.alignment = AlignSequences(npu, order.plan, std::move(calls), bench, bench_names,
                                     std::move(bench_calls));
  }
  return order;
}

}  // namespace msprobe::analysis::compare
