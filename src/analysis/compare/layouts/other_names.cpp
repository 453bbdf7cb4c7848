// The modules of two implementations of one model, which name them differently.
//
// The modules that have parameters are listed on both sides in the order of their layers and of
// execution, with the shapes and statistics of the whole parameters. The dearest alignment of both
// lists is taken: a module and one with parameters of the same shapes, or one whose weight has the
// rows of two or three that follow each other in one module (fused projections). Parameters with
// equal values count most, then equal roles of names; the order alone decides among the rest.
// Modules around others are partners where they hold the same of them. Both then have one path,
// which is that of the reference; of several fused into one it is made of their names.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/compare/layouts/joined_rows.h"
#include "src/analysis/compare/layouts/joined_side.h"
#include "src/layout/inference.h"
#include "src/layout/placement.h"

namespace msprobe::analysis::compare::layouts {
namespace {

constexpr double kSameNamesShare = 0.5;  // of the paths: names that are the same anyway
constexpr double kCostOfNothing = -1e9;  // what cannot be partners
constexpr double kGainOfShapes = 2;
constexpr double kGainOfValues = 4;
constexpr double kGainOfRole = 1;
constexpr double kSameValues = 1e-5;             // relative
constexpr size_t kMostFused = 3;                 // query, key and value
constexpr size_t kMostCells = size_t{1} << 24U;  // of the alignment

// What names call one thing: the first of each line.
constexpr std::array<std::array<std::string_view, 4>, 12> kRoles = {{
    {"embedding", "embed_tokens", "word_embeddings", "wte"},
    {"query_key_value", "linear_qkv", "qkv_proj", "c_attn"},
    {"output", "linear_proj", "o_proj", "out_proj"},
    {"gate_up", "linear_fc1", "gate_up_proj", "c_fc"},
    {"down", "linear_fc2", "down_proj", "fc2"},
    {"first_norm", "input_layernorm", "ln_1", "attention_norm"},
    {"second_norm", "pre_mlp_layernorm", "post_attention_layernorm", "ln_2"},
    {"last_norm", "final_layernorm", "norm", "ln_f"},
    {"head", "output_layer", "lm_head", "head"},
    {"query_norm", "q_layernorm", "q_norm", "q_norm"},
    {"key_norm", "k_layernorm", "k_norm", "k_norm"},
    {"router", "router", "gate", "gate"},
}};

std::string_view LastPart(std::string_view path) {
  return path.substr(path.rfind('.') == std::string_view::npos ? 0 : path.rfind('.') + 1);
}

std::string_view ParentPath(std::string_view path) {
  const size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
}

std::string_view RoleOf(std::string_view path) {
  const std::string_view last = LastPart(path);
  for (const auto& role : kRoles) {
    if (std::find(role.begin(), role.end(), last) != role.end()) {
      return role[0];
    }
  }
  return last;
}

struct WholeParameter {
  std::string name;
  Shape shape;
  layout::PieceStatistics statistics;
};

// A module with parameters of its own.
struct ParameterOwner {
  std::string path;
  int64_t layer = -1;                      // -1: in front of all, INT64_MAX: behind them
  std::vector<WholeParameter> parameters;  // by name
};

// The first number in a path; nullopt: none.
std::optional<int64_t> FirstNumber(std::string_view path) {
  while (!path.empty()) {
    const size_t dot = std::min(path.find('.'), path.size());
    const std::string_view part = path.substr(0, dot);
    if (!part.empty() && part.size() < 7 && part.find_first_not_of("0123456789") == part.npos) {
      return std::stoll(std::string(part));
    }
    path.remove_prefix(std::min(dot + 1, path.size()));
  }
  return std::nullopt;
}

layout::PieceStatistics Combined(const layout::PieceStatistics& a,
                                 const layout::PieceStatistics& b) {
  layout::PieceStatistics sum = a;
  if (a.values[0] && b.values[0]) {
    sum.values[0] = std::max(*a.values[0], *b.values[0]);
  }
  if (a.values[1] && b.values[1]) {
    sum.values[1] = std::min(*a.values[1], *b.values[1]);
  }
  if (a.values[2] && b.values[2] && a.elements + b.elements > 0) {
    sum.values[2] =
        (*a.values[2] * a.elements + *b.values[2] * b.elements) / (a.elements + b.elements);
  }
  if (a.values[3] && b.values[3]) {
    sum.values[3] = std::hypot(*a.values[3], *b.values[3]);
  }
  sum.elements += b.elements;
  return sum;
}

class ParameterOwners {
 public:
  explicit ParameterOwners(const JoinedSide& side) : side_(side) {
    std::vector<const LoadedRank*> ranks;
    for (const auto& rank : side.ranks) {
      ranks.push_back(rank.get());
    }
    std::stable_sort(ranks.begin(), ranks.end(), [](const LoadedRank* a, const LoadedRank* b) {
      return a->about.place.stage < b->about.place.stage;
    });
    for (const LoadedRank* const rank : ranks) {
      Read(*rank);
    }
    Number();
  }

  std::vector<ParameterOwner>& all() { return holders_; }
  // Modules that were called, in their order.
  const std::vector<std::string>& called() const { return called_; }

 private:
  void Read(const LoadedRank& rank) {
    for (uint32_t entry = 0; entry < rank.names.size(); ++entry) {
      const dump::EntryName& name = rank.names[entry];
      if (!name.is_module || name.direction != dump::Direction::kForward) {
        continue;
      }
      const std::string& path = rank.paths[entry];
      if (seen_.insert(path).second) {
        called_.push_back(path);
      }
      const SideEntry& rows = rank.side.entries[entry];
      for (uint32_t i = 0; i < rows.row_count; ++i) {
        const SideRow& row = rank.side.rows[rows.first_row + i];
        if (row.state == dump::RowState::kParameters && row.is_tensor) {
          Add(rank, path, name.subject, row);
        }
      }
    }
  }

  void Add(const LoadedRank& rank, const std::string& path, std::string_view local,
           const SideRow& row) {
    const std::optional<Shape> shape = ParseShape(row.shape);
    if (!shape) {
      return;
    }
    const std::string name(row.name.substr(row.name.rfind('.') + 1));
    const auto [found, is_new] = place_.emplace(path, holders_.size());
    if (is_new) {
      holders_.push_back({path, -1, {}});
    }
    ParameterOwner& holder = holders_[found->second];
    const layout::PieceStatistics piece = PieceStatisticsOf(row, shape);
    const layout::ParameterRecord* const record =
        rank.about.record ? rank.about.record->Find(fmt::format("{}.{}", local, name)) : nullptr;
    const Shape whole =
        record != nullptr && !record->global_shape.empty() ? record->global_shape : *shape;
    const auto known =
        std::find_if(holder.parameters.begin(), holder.parameters.end(),
                     [&](const WholeParameter& parameter) { return parameter.name == name; });
    const auto piece_of = std::tuple(path, name, rank.about.place.tensor);
    if (!pieces_.insert(piece_of).second) {
      return;  // a copy of what another rank or call has
    }
    if (known == holder.parameters.end()) {
      holder.parameters.push_back({name, whole, piece});
    } else if (known->statistics.elements + piece.elements <=
               static_cast<double>(msprobe::ElementCount(whole))) {
      known->statistics = Combined(known->statistics, piece);
    }
  }

  // What has no number stands in front of all layers or behind them.
  void Number() {
    bool behind = false;
    for (ParameterOwner& holder : holders_) {
      const std::optional<int64_t> number = FirstNumber(holder.path);
      behind = behind || number.has_value();
      holder.layer = number ? *number : behind ? INT64_MAX : -1;
      std::sort(holder.parameters.begin(), holder.parameters.end(),
                [](const WholeParameter& a, const WholeParameter& b) { return a.name < b.name; });
    }
    std::stable_sort(
        holders_.begin(), holders_.end(),
        [](const ParameterOwner& a, const ParameterOwner& b) { return a.layer < b.layer; });
  }

  const JoinedSide& side_;
  std::vector<ParameterOwner> holders_;
  std::unordered_map<std::string, size_t> place_;
  std::set<std::tuple<std::string, std::string, int64_t>> pieces_;
  std::set<std::string> seen_;
  std::vector<std::string> called_;
};

bool AreSame(const layout::PieceStatistics& a, const layout::PieceStatistics& b) {
  const std::optional<double> apart = layout::StatisticsApart(a, b);
  return apart && *apart <= kSameValues;
}

// Partners: one module, or `count` fused ones of one side.
struct ModuleMatch {
  size_t npu = 0;
  size_t bench = 0;
  size_t npu_count = 1;
  size_t bench_count = 1;
  bool by_values = false;
};

class ModuleAligner {
 public:
  ModuleAligner(const std::vector<ParameterOwner>& npu, const std::vector<ParameterOwner>& bench)
      : npu_(npu), bench_(bench) {}

  std::vector<ModuleMatch> Run() const {
    const size_t rows = npu_.size() + 1;
    const size_t columns = bench_.size() + 1;
    // The best gain of the first modules of both sides, and how its last step came about: number of
    // modules of both.
    std::vector<double> gain(rows * columns, 0);
    std::vector<std::pair<uint8_t, uint8_t>> step(rows * columns);
    for (size_t i = 0; i < rows; ++i) {
      for (size_t j = 0; j < columns; ++j) {
        const size_t at = i * columns + j;
        const auto take = [&](size_t of_npu, size_t of_bench, double more) {
          const double sum = gain[at - of_npu * columns - of_bench] + more;
          if (step[at] == std::pair<uint8_t, uint8_t>() || sum > gain[at]) {
            gain[at] = sum;
            step[at] = {static_cast<uint8_t>(of_npu), static_cast<uint8_t>(of_bench)};
          }
        };
        if (i > 0) {
          take(1, 0, 0);
        }
        if (j > 0) {
          take(0, 1, 0);
        }
        if (i > 0 && j > 0) {
          take(1, 1, GainOf(i - 1, j - 1).first);
        }
        for (size_t count = 2; count <= kMostFused; ++count) {
          if (i > 0 && j >= count) {
            take(1, count, GainOfFused(npu_[i - 1], bench_, j - count, count).first);
          }
          if (j > 0 && i >= count) {
            take(count, 1, GainOfFused(bench_[j - 1], npu_, i - count, count).first);
          }
        }
      }
    }
    std::vector<ModuleMatch> matches;
    size_t i = npu_.size();
    size_t j = bench_.size();
    while (i > 0 || j > 0) {
      const auto [of_npu, of_bench] = step[i * columns + j];
      i -= of_npu;
      j -= of_bench;
      if (of_npu > 0 && of_bench > 0) {
        const bool by_values = of_npu > 1     ? GainOfFused(bench_[j], npu_, i, of_npu).second
                               : of_bench > 1 ? GainOfFused(npu_[i], bench_, j, of_bench).second
                                              : GainOf(i, j).second;
        matches.push_back({i, j, of_npu, of_bench, by_values});
      }
    }
    std::reverse(matches.begin(), matches.end());
    return matches;
  }

 private:
  // And whether the values say so.
  std::pair<double, bool> GainOf(size_t i, size_t j) const {
    const ParameterOwner& n = npu_[i];
    const ParameterOwner& b = bench_[j];
    if (n.layer != b.layer) {
      return {kCostOfNothing, false};
    }
    bool all_same = true;
    bool any = false;
    for (const WholeParameter& parameter : n.parameters) {
      for (const WholeParameter& other : b.parameters) {
        if (parameter.name == other.name) {
          if (parameter.shape != other.shape) {
            return {kCostOfNothing, false};
          }
          any = true;
          all_same = all_same && AreSame(parameter.statistics, other.statistics);
        }
      }
    }
    if (!any) {
      return {kCostOfNothing, false};
    }
    return {kGainOfShapes + (all_same ? kGainOfValues : 0) +
                (RoleOf(n.path) == RoleOf(b.path) ? kGainOfRole : 0),
            all_same};
  }

  static std::pair<double, bool> GainOfFused(const ParameterOwner& one,
                                             const std::vector<ParameterOwner>& others,
                                             size_t first, size_t count) {
    const auto weight_of = [](const ParameterOwner& holder) -> const WholeParameter* {
      for (const WholeParameter& parameter : holder.parameters) {
        if (parameter.name == "weight" && parameter.shape.size() == 2) {
          return &parameter;
        }
      }
      return nullptr;
    };
    const WholeParameter* const fused = weight_of(one);
    if (fused == nullptr) {
      return {kCostOfNothing, false};
    }
    layout::PieceStatistics sum;
    int64_t rows = 0;
    for (size_t i = first; i < first + count; ++i) {
      const WholeParameter* const part = weight_of(others[i]);
      if (part == nullptr || others[i].layer != one.layer || part->shape[1] != fused->shape[1] ||
          ParentPath(others[i].path) != ParentPath(others[first].path)) {
        return {kCostOfNothing, false};
      }
      rows += part->shape[0];
      sum = i == first ? part->statistics : Combined(sum, part->statistics);
    }
    if (rows != fused->shape[0]) {
      return {kCostOfNothing, false};
    }
    const bool same = AreSame(sum, fused->statistics);
    return {kGainOfShapes + (same ? kGainOfValues : 0) + kGainOfRole, same};
  }

  const std::vector<ParameterOwner>& npu_;
  const std::vector<ParameterOwner>& bench_;
};

// "model.layers.0.self_attn.q_proj+k_proj+v_proj"
std::string NameOfFused(const std::vector<ParameterOwner>& holders, size_t first, size_t count) {
  std::string name(holders[first].path);
  for (size_t i = first + 1; i < first + count; ++i) {
    name += "+";
    name += LastPart(holders[i].path);
  }
  return name;
}

using NewNames = std::map<std::string, NewName>;

// Modules around others, by the set of those: the outermost ones first.
std::map<std::set<std::string>, std::vector<std::string>> ModulesAround(
    const std::vector<std::string>& called, const NewNames& names) {
  std::map<std::set<std::string>, std::vector<std::string>> found;
  for (const std::string& path : called) {
    if (names.contains(path)) {
      continue;
    }
    std::set<std::string> inside;
    for (const auto& [inner, name] : names) {
      if (path.empty() || inner.starts_with(path + ".")) {
        inside.insert(name.path);
      }
    }
    if (!inside.empty()) {
      found[inside].push_back(path);
    }
  }
  for (auto& [inside, paths] : found) {
    std::sort(paths.begin(), paths.end(), [](const std::string& a, const std::string& b) {
      return a.size() < b.size() || (a.size() == b.size() && a < b);
    });
  }
  return found;
}

bool AreNamedAlike(const std::vector<ParameterOwner>& npu,
                   const std::vector<ParameterOwner>& bench) {
  std::set<std::string_view> known;
  for (const ParameterOwner& holder : bench) {
    known.insert(holder.path);
  }
  const auto count = std::count_if(npu.begin(), npu.end(), [&](const ParameterOwner& holder) {
    return known.contains(holder.path);
  });
  const size_t fewer = std::min(npu.size(), known.size());
  return static_cast<double>(count) >= kSameNamesShare * static_cast<double>(fewer);
}

// The first result of a module's first call.
std::optional<Shape> OutputShape(const JoinedSide& side, const std::string& path) {
  for (const auto& rank : side.ranks) {
    for (uint32_t entry = 0; entry < rank->names.size(); ++entry) {
      const dump::EntryName& name = rank->names[entry];
      if (!name.is_module || name.direction != dump::Direction::kForward ||
          rank->paths[entry] != path) {
        continue;
      }
      const SideEntry& rows = rank->side.entries[entry];
      for (uint32_t i = rows.first_row; i < rows.first_row + rows.row_count; ++i) {
        const SideRow& row = rank->side.rows[i];
        if (row.state == dump::RowState::kOutput && row.is_tensor) {
          return ParseShape(row.shape);
        }
      }
    }
  }
  return std::nullopt;
}

// Whether results have [sequence, batch, ..] on the test side and [batch, sequence, ..] on the
// other: by the length of the sequence, which both have.
bool HaveSwappedAxes(const JoinedSide& npu, const JoinedSide& bench,
                     const std::vector<std::pair<std::string, std::string>>& partners) {
  constexpr size_t kMostLookedAt = 32;
  std::array<size_t, 2> votes = {0, 0};
  for (size_t i = 0; i < std::min(partners.size(), kMostLookedAt); ++i) {
    const std::optional<Shape> n = OutputShape(npu, partners[i].first);
    const std::optional<Shape> b = OutputShape(bench, partners[i].second);
    if (!n || !b || n->size() != 3 || b->size() != 3) {
      continue;
    }
    // Either side may be the one with the batch in front, whole or in parts.
    const bool straight = (*n)[1] == (*b)[1] || (*n)[0] == (*b)[0];
    const bool crossed = (*n)[0] == (*b)[1] || (*n)[1] == (*b)[0];
    votes[0] += straight && !crossed ? 1 : 0;
    votes[1] += crossed && !straight ? 1 : 0;
  }
  return votes[1] > votes[0];
}

}  // namespace

bool HoldsParameters(const JoinedSide& side, const CallMember& member) {
  const Side& read = side.ranks[member.rank]->side;
  const SideEntry& entry = read.entries[member.entry];
  for (uint32_t i = 0; i < entry.row_count; ++i) {
    if (read.rows[entry.first_row + i].state == dump::RowState::kParameters) {
      return true;
    }
  }
  return false;
}

bool IsOfAnyImplementation(const JoinedSide& side, const JoinedCall& call,
                           dump::Direction direction, const SideRow& row, std::string_view suffix) {
  if (!side.has_other_names || direction == dump::Direction::kNone ||
      row.state == dump::RowState::kParameters) {
    return true;
  }
  const bool is_owner = HoldsParameters(side, call.members[0]);
  const bool backward = direction == dump::Direction::kBackward;
  return suffix == ".output.0" ? is_owner || !backward
                               : suffix == ".input.0" && (is_owner || backward);
}

void PairNames(JoinedSide& npu, JoinedSide& bench) {
  ParameterOwners of_npu(npu);
  ParameterOwners of_bench(bench);
  const std::vector<ParameterOwner>& n = of_npu.all();
  const std::vector<ParameterOwner>& b = of_bench.all();
  if (n.empty() || b.empty() || AreNamedAlike(n, b) ||
      (n.size() + 1) * (b.size() + 1) > kMostCells) {
    return;
  }
  const std::vector<ModuleMatch> matches = ModuleAligner(n, b).Run();
  // Without most of the modules it is another model, of which nothing is said.
  if (matches.size() * 2 < std::min(n.size(), b.size())) {
    return;
  }
  std::array<NewNames, 2> names;
  std::map<std::string, std::string> paired_by;
  std::vector<std::pair<std::string, std::string>> partners;
  for (const ModuleMatch& match : matches) {
    const std::string name = NameOfFused(b, match.bench, match.bench_count);
    for (size_t i = 0; i < match.npu_count; ++i) {
      names[0][n[match.npu + i].path] = {name, static_cast<uint32_t>(i),
                                         static_cast<uint32_t>(match.npu_count)};
    }
    for (size_t i = 0; i < match.bench_count; ++i) {
      names[1][b[match.bench + i].path] = {name, static_cast<uint32_t>(i),
                                           static_cast<uint32_t>(match.bench_count)};
    }
    partners.emplace_back(n[match.npu].path, b[match.bench].path);
    paired_by[name] = match.by_values ? "weights" : "structure";
  }
  const auto around_npu = ModulesAround(of_npu.called(), names[0]);
  const auto around_bench = ModulesAround(of_bench.called(), names[1]);
  std::array<NewNames, 2> containers;
  for (const auto& [inside, paths] : around_npu) {
    const auto other = around_bench.find(inside);
    if (other == around_bench.end()) {
      continue;
    }
    for (size_t i = 0; i < std::min(paths.size(), other->second.size()); ++i) {
      containers[0][paths[i]] = {other->second[i], 0, 1};
      paired_by[other->second[i]] = "structure";
    }
  }
  npu.swaps_axes = HaveSwappedAxes(npu, bench, partners);
  names[0].insert(containers[0].begin(), containers[0].end());
  for (size_t side = 0; side < 2; ++side) {
    JoinedSide& joined = side == 0 ? npu : bench;
    joined.has_other_names = true;
    joined.paired_by = paired_by;
    for (auto& rank : joined.ranks) {
      rank->Rename(names[side]);
    }
  }
}

}  // namespace msprobe::analysis::compare::layouts
