// Joins the calls of ranks, and pairs those of two sides.
//
// Calls are sorted into buckets: those made inside of one call of a module, by construct.json.
// Ranks of a stage run the same program, so that the n-th child of a module's call is the same on
// each; where a rank makes calls of its own, the shortest edit of both lists tells. The call
// numbers of modules distinguish micro-batches. Numbers of functional calls are not used: every
// rank counts them for itself. The two sides are then paired bucket by bucket in the same way.
#include "src/analysis/compare/layouts/joined_side.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/compare/call_alignment.h"
#include "src/base/output_files.h"
#include "src/dump/call_facts.h"
#include "src/dump/layout.h"

namespace msprobe::analysis::compare::layouts {
namespace {

constexpr std::string_view kOptimizerParent = "optimizer";
constexpr std::string_view kReducedEnd = ".reduced";

uint64_t LetterOf(const dump::EntryName& name, const std::string& path) {
  const std::hash<std::string_view> hash;
  return name.is_module ? hash(path) * 31 + 7 : hash(name.kind) * 31 + hash(name.subject);
}

// The names that ranks give to the same module: without the wrappers that only some have.
std::string_view WithoutWrapper(std::string_view path, bool is_wrapped) {
  return is_wrapped && path == "module"              ? std::string_view()
         : is_wrapped && path.starts_with("module.") ? path.substr(7)
                                                     : path;
}

bool IsWrapped(const std::vector<dump::EntryName>& names) {
  bool any = false;
  for (const dump::EntryName& name : names) {
    if (name.is_module && !name.subject.empty()) {
      if (name.subject != "module" && !name.subject.starts_with("module.")) {
        return false;
      }
      any = true;
    }
  }
  return any;
}

// A forward call of one rank.
struct Node {
  uint32_t entry = 0;
  uint64_t letter = 0;
};

// How often each module of a side is called by a rank, and most of them are: once for each
// micro-batch.
struct ModuleCounts {
  std::unordered_map<std::string, int64_t> by_path;
  int64_t usual = 1;

  // How often a module is called in each round of all modules; 0: not equally often.
  int64_t InRound(const std::string& path) const {
    const auto found = by_path.find(path);
    return found == by_path.end() || found->second % usual != 0 ? 0 : found->second / usual;
  }
};

ModuleCounts CountsOf(const JoinedSide& side) {
  ModuleCounts counts;
  for (const auto& rank : side.ranks) {
    for (uint32_t entry = 0; entry < rank->names.size(); ++entry) {
      const dump::EntryName& name = rank->names[entry];
      if (name.is_module && name.direction == dump::Direction::kForward) {
        int64_t& count = counts.by_path[rank->paths[entry]];
        count = std::max(count, name.call.value_or(0) + 1);
      }
    }
  }
  std::map<int64_t, size_t> votes;
  for (const auto& [path, count] : counts.by_path) {
    ++votes[count];
  }
  const auto most = std::max_element(
      votes.begin(), votes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  counts.usual = most == votes.end() ? 1 : most->first;
  return counts;
}

class CallJoiner {
 public:
  CallJoiner(JoinedSide& side, const std::unordered_map<uint64_t, int64_t>& other_roots,
             const ModuleCounts& own, const ModuleCounts& other)
      : side_(side), other_roots_(other_roots), own_counts_(own), other_counts_(other) {}

  // Calls outside of modules on the first rank, by letter.
  static std::unordered_map<uint64_t, int64_t> RootsOf(const JoinedSide& side) {
    std::unordered_map<uint64_t, int64_t> roots;
    const LoadedRank& first = *side.ranks[0];
    for (uint32_t entry = 0; entry < first.names.size(); ++entry) {
      if (IsForward(first.names[entry]) && !first.names[entry].is_module &&
          ParentOf(first, entry).empty()) {
        ++roots[LetterOf(first.names[entry], first.paths[entry])];
      }
    }
    return roots;
  }

  void Run() {
    for (uint32_t rank = 0; rank < side_.ranks.size(); ++rank) {
      ReadRank(rank);
    }
    for (BucketNodes& bucket : buckets_) {
      JoinBucket(bucket);
    }
    if (side_.has_other_names) {
      for (JoinedCall& call : side_.calls) {
        NoteParts(call);
      }
      for (const auto calls : {&JoinedSide::gradients, &JoinedSide::reduced}) {
        for (auto& [path, call] : side_.*calls) {
          NoteParts(call);
        }
      }
    }
  }

 private:
  // The children of a module's call by stage, rank and micro-batch.
  struct BucketNodes {
    std::string key;
    std::map<std::tuple<int64_t, uint32_t, uint32_t>, std::vector<Node>> nodes;
  };

  void ReadRank(uint32_t rank) {
    const LoadedRank& loaded = *side_.ranks[rank];
    std::unordered_map<std::string, int64_t> module_counts;  // calls of each path
    std::unordered_map<uint64_t, int64_t> roots;             // calls outside of modules, by letter
    for (uint32_t entry = 0; entry < loaded.names.size(); ++entry) {
      const dump::EntryName& name = loaded.names[entry];
      if (name.is_module && name.direction == dump::Direction::kForward) {
        int64_t& count = module_counts[loaded.paths[entry]];
        count = std::max(count, name.call.value_or(0) + 1);
      }
      if (IsForward(name) && !name.is_module && ParentOf(loaded, entry).empty()) {
        ++roots[LetterOf(name, loaded.paths[entry])];
      }
    }
    // Which micro-batch a module's call belongs to, and which of its calls there it is.
    const auto place_of = [&](const std::string& path, int64_t call) {
      const int64_t count = module_counts[path];
      const int64_t of_each =
          count % side_.micro_batches == 0 ? count / side_.micro_batches : count;
      return std::pair(static_cast<uint32_t>(call / std::max<int64_t>(of_each, 1)),
                       NumberOf(loaded, path, call % std::max<int64_t>(of_each, 1)));
    };
    std::unordered_map<uint64_t, int64_t> seen;
    for (uint32_t entry = 0; entry < loaded.names.size(); ++entry) {
      const dump::EntryName& name = loaded.names[entry];
      if (name.is_parameters_grad) {
        const bool is_reduced = loaded.side.entries[entry].name.ends_with(kReducedEnd);
        JoinedCall& call = (is_reduced ? side_.reduced : side_.gradients)[loaded.paths[entry]];
        call.path = loaded.paths[entry];
        AddMember(call, rank, 0, entry);
        continue;
      }
      if (name.direction == dump::Direction::kBackward) {
        continue;  // follows its forward call
      }
      if (!IsForward(name)) {
        AddMember(side_.others[std::string(loaded.side.entries[entry].name)], rank, 0, entry);
        continue;
      }
      std::string key;
      uint32_t micro_batch = 0;
      const std::string_view parent = ParentOf(loaded, entry);
      const dump::EntryName parent_name = dump::ParseEntryName(parent);
      if (parent_name.is_module) {
        const std::string path = PathOf(loaded, parent_name);
        const auto [batch, number] = place_of(path, parent_name.call.value_or(0));
        micro_batch = batch;
        key = fmt::format("{}#{}#{}", path, number, static_cast<int>(parent_name.direction));
      } else if (name.is_module) {
        micro_batch = place_of(loaded.paths[entry], name.call.value_or(0)).first;
      } else if (!parent.empty()) {
        key = fmt::format("{}##", parent);
      } else {
        // Every micro-batch makes those of which there are as many times more than on the other
        // side.
        const uint64_t letter = LetterOf(name, loaded.paths[entry]);
        const int64_t count = roots[letter];
        const auto other = other_roots_.find(letter);
        const int64_t of_each = count / side_.micro_batches;
        if (count % side_.micro_batches == 0 &&
            (other == other_roots_.end() || other->second == of_each)) {
          micro_batch = static_cast<uint32_t>(seen[letter]++ / of_each);
        }
      }
      const auto [found, is_new] = place_of_bucket_.emplace(key, buckets_.size());
      if (is_new) {
        buckets_.push_back({key, {}});
      }
      buckets_[found->second].nodes[{loaded.about.place.stage, rank, micro_batch}].push_back(
          {entry, LetterOf(name, loaded.paths[entry])});
      if (name.is_module) {
        number_of_[{rank, entry}] = place_of(loaded.paths[entry], name.call.value_or(0)).second;
      }
    }
  }

  // The number that the other side gives to a call. Where both sides go several rounds and this one
  // calls a module more often in each, the further calls are numbered behind all of the other's.
  int64_t NumberOf(const LoadedRank& rank, const std::string& path, int64_t call) {
    const int64_t own = own_counts_.InRound(path);
    const int64_t other = other_counts_.InRound(path);
    const int64_t rounds = own_counts_.usual / side_.micro_batches;
    if (other < 1 || own <= other || rounds < 2 || !IsCalledRoundByRound(rank, path, own)) {
      return call;
    }
    const int64_t round = call / own;
    const int64_t in_round = call % own;
    return in_round < other ? round * other + in_round
                            : rounds * other + round * (own - other) + in_round - other;
  }

  // As many calls lie between each two calls of the first module that is called once a round: what
  // is computed again in a backward pass may come in any order.
  bool IsCalledRoundByRound(const LoadedRank& rank, const std::string& path, int64_t in_round) {
    const auto [known, is_new] = by_round_.emplace(std::pair(&rank, path), false);
    if (!is_new) {
      return known->second;
    }
    const std::string* first = nullptr;
    std::map<int64_t, int64_t> calls;  // by the number of rounds that have begun
    int64_t begun = 0;
    for (uint32_t entry = 0; entry < rank.names.size(); ++entry) {
      const std::string& own = rank.paths[entry];
      if (!rank.names[entry].is_module || !IsForward(rank.names[entry])) {
        continue;
      }
      if (first == nullptr && own_counts_.InRound(own) == 1) {
        first = &own;
      }
      begun += first != nullptr && own == *first ? 1 : 0;
      calls[begun] += own == path ? 1 : 0;
    }
    known->second =
        first != nullptr && std::all_of(calls.begin(), calls.end(), [&](const auto& round) {
          return round.second == in_round ||
                 (round.second == 0 && (round.first == 0 || round.first == begun));
        });
    return known->second;
  }

  static bool IsForward(const dump::EntryName& name) {
    return name.direction == dump::Direction::kForward && !name.is_debug &&
           !name.is_parameters_grad;
  }

  static std::string_view ParentOf(const LoadedRank& loaded, uint32_t entry) {
    return loaded.construct ? loaded.construct->ParentOf(loaded.side.entries[entry].name)
                            : std::string_view();
  }

  static std::string PathOf(const LoadedRank& loaded, const dump::EntryName& name) {
    return loaded.GlobalPath(name.subject);
  }

  static void AddMember(JoinedCall& call, uint32_t rank, uint32_t micro_batch, uint32_t entry) {
    call.members.push_back({rank, micro_batch, entry, 0, 1});
  }

  // Which part of a fused module each member is.
  void NoteParts(JoinedCall& call) const {
    for (CallMember& member : call.members) {
      const LoadedRank& rank = *side_.ranks[member.rank];
      if (!rank.fused.empty()) {
        member.part = rank.fused[member.entry].part;
        member.parts = rank.fused[member.entry].parts;
      }
    }
  }

  void JoinBucket(BucketNodes& bucket) {
    Bucket made{bucket.key, {}};
    const size_t place = side_.buckets.size();
    auto group = bucket.nodes.begin();
    while (group != bucket.nodes.end()) {
      const int64_t stage = std::get<0>(group->first);
      // The list of the first rank and micro-batch; others are aligned with it.
      std::vector<uint32_t> canonical;
      std::vector<uint64_t> letters;
      for (; group != bucket.nodes.end() && std::get<0>(group->first) == stage; ++group) {
        const auto [of_stage, rank, micro_batch] = group->first;
        std::vector<uint64_t> own;
        for (const Node& node : group->second) {
          own.push_back(node.letter);
        }
        const std::vector<uint32_t> partner = AlignLetters(own, letters);
        std::vector<uint32_t> merged;
        std::vector<uint64_t> merged_letters;
        size_t next = 0;
        for (size_t i = 0; i < own.size(); ++i) {
          if (partner[i] == UINT32_MAX) {
            merged.push_back(AddCall(group->second[i], rank, micro_batch, stage, place));
          } else {
            for (; next < partner[i]; ++next) {
              merged.push_back(canonical[next]);
              merged_letters.push_back(letters[next]);
            }
            AddMember(side_.calls[canonical[next]], rank, micro_batch, group->second[i].entry);
            merged.push_back(canonical[next++]);
          }
          merged_letters.push_back(own[i]);
        }
        for (; next < canonical.size(); ++next) {
          merged.push_back(canonical[next]);
          merged_letters.push_back(letters[next]);
        }
        canonical = std::move(merged);
        letters = std::move(merged_letters);
      }
      made.calls.insert(made.calls.end(), canonical.begin(), canonical.end());
    }
    side_.bucket_of[made.key] = place;
    side_.buckets.push_back(std::move(made));
  }

  uint32_t AddCall(const Node& node, uint32_t rank, uint32_t micro_batch, int64_t stage,
                   size_t bucket) {
    const LoadedRank& loaded = *side_.ranks[rank];
    const dump::EntryName& name = loaded.names[node.entry];
    if (name.is_module) {
      const int64_t number = number_of_[{rank, node.entry}];
      const auto [found, is_new] =
          side_.module_call.emplace(fmt::format("{}#{}", loaded.paths[node.entry], number),
                                    static_cast<uint32_t>(side_.calls.size()));
      if (!is_new) {  // a module around calls of several stages
        JoinedCall& call = side_.calls[found->second];
        AddMember(call, rank, micro_batch, node.entry);
        call.first_stage = std::min(call.first_stage, stage);
        call.last_stage = std::max(call.last_stage, stage);
        return found->second;
      }
    }
    JoinedCall& call = side_.calls.emplace_back();
    call.letter = node.letter;
    call.is_module = name.is_module;
    call.path = loaded.paths[node.entry];
    call.number = name.is_module ? number_of_[{rank, node.entry}] : 0;
    call.first_stage = call.last_stage = stage;
    call.is_communication = dump::IsCommunicationCall(name);
    call.bucket = bucket;
    AddMember(call, rank, micro_batch, node.entry);
    return static_cast<uint32_t>(side_.calls.size() - 1);
  }

  JoinedSide& side_;
  const std::unordered_map<uint64_t, int64_t>& other_roots_;
  const ModuleCounts& own_counts_;
  const ModuleCounts& other_counts_;
  std::map<std::pair<const LoadedRank*, std::string>, bool> by_round_;
  std::vector<BucketNodes> buckets_;
  std::unordered_map<std::string, size_t> place_of_bucket_;
  std::map<std::pair<uint32_t, uint32_t>, int64_t> number_of_;
};

// Calls without a partner, in the order in which the first rank that made them met them.
std::vector<uint32_t> LeftOver(const JoinedSide& side) {
  std::vector<uint32_t> left;
  for (uint32_t call = 0; call < side.calls.size(); ++call) {
    if (side.calls[call].partner == UINT32_MAX && !side.calls[call].is_communication) {
      left.push_back(call);
    }
  }
  const auto key = [&](uint32_t call) {
    const CallMember& first = side.calls[call].members.front();
    return std::tuple(side.calls[call].first_stage, first.micro_batch, first.entry);
  };
  std::stable_sort(left.begin(), left.end(),
                   [&](uint32_t a, uint32_t b) { return key(a) < key(b); });
  return left;
}

void PairLists(JoinedSide& npu, const std::vector<uint32_t>& of_npu, JoinedSide& bench,
               const std::vector<uint32_t>& of_bench) {
  std::vector<uint64_t> npu_letters;
  std::vector<uint64_t> bench_letters;
  for (const uint32_t call : of_npu) {
    npu_letters.push_back(npu.calls[call].letter);
  }
  for (const uint32_t call : of_bench) {
    bench_letters.push_back(bench.calls[call].letter);
  }
  const std::vector<uint32_t> partner = AlignLetters(npu_letters, bench_letters);
  for (size_t i = 0; i < partner.size(); ++i) {
    if (partner[i] == UINT32_MAX) {
      continue;
    }
    JoinedCall& n = npu.calls[of_npu[i]];
    JoinedCall& b = bench.calls[of_bench[partner[i]]];
    if (n.partner == UINT32_MAX && b.partner == UINT32_MAX) {
      n.partner = of_bench[partner[i]];
      b.partner = of_npu[i];
    }
  }
}

}  // namespace

namespace {

// The entries of another file of the same rank, behind those of `side`.
void AppendEntries(const Side& more, Side& side) {
  for (const SideEntry& entry : more.entries) {
    const auto number = static_cast<uint32_t>(side.entries.size());
    side.entries.push_back(
        {side.Keep(entry.name), static_cast<uint32_t>(side.rows.size()), entry.row_count});
    for (uint32_t i = 0; i < entry.row_count; ++i) {
      SideRow row = more.rows[entry.first_row + i];
      for (std::string_view SideRow::*text :
           {&SideRow::name, &SideRow::data_name, &SideRow::md5, &SideRow::api_name}) {
        row.*text = side.Keep(row.*text);
      }
      for (std::string_view SideRow::*text :
           {&SideRow::dtype, &SideRow::shape, &SideRow::type, &SideRow::problem}) {
        row.*text = side.Intern(row.*text);
      }
      for (StatValue& stat : row.stats) {
        if (stat.kind == StatKind::kText) {
          stat.SetText(side.Keep(stat.text()));
        }
      }
      row.entry = number;
      side.rows.push_back(row);
    }
  }
}

}  // namespace

namespace {

void NamePaths(LoadedRank& rank) {
  rank.paths.clear();
  rank.fused.assign(rank.new_names.empty() ? 0 : rank.names.size(), NewName());
  for (const dump::EntryName& name : rank.names) {
    std::string& path = rank.paths.emplace_back();
    if (name.is_module || name.is_parameters_grad) {
      NewName* const fused = rank.fused.empty() ? nullptr : &rank.fused[rank.paths.size() - 1];
      path = rank.GlobalPath(name.subject, fused);
    }
  }
}

// The number of the layer, or the expert, that a path is in: where it is in the text.
struct NumberInPath {
  size_t at = 0;
  size_t size = 0;
  int64_t number = -1;  // none
};
NumberInPath NumberOf(std::string_view path, bool is_expert) {
  size_t first = 0;
  std::string_view before;
  while (first <= path.size()) {
    const size_t dot = std::min(path.find('.', first), path.size());
    const std::string_view part = path.substr(first, dot - first);
    const bool numbered =
        is_expert ? before.ends_with("experts")
                  : before == "layers" || before == "h" || before == "blocks" || before == "layer";
    if (numbered && !part.empty() && part.size() < 7 &&
        std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; })) {
      return {first, part.size(), std::stoll(std::string(part))};
    }
    before = part;
    first = dot + 1;
  }
  return {};
}

std::string Renumbered(const std::string& path, bool is_expert, int64_t offset) {
  const NumberInPath found = NumberOf(path, is_expert);
  return found.number < 0 ? path
                          : path.substr(0, found.at) + std::to_string(found.number + offset) +
                                path.substr(found.at + found.size);
}

// One more than the largest number on a rank.
int64_t CountOf(const LoadedRank& rank, bool is_expert) {
  int64_t count = 0;
  for (const std::string& path : rank.paths) {
    count = std::max(count, NumberOf(path, is_expert).number + 1);
  }
  return count;
}

int64_t CountOf(const JoinedSide& side, bool is_expert) {
  int64_t count = 0;
  for (const auto& rank : side.ranks) {
    count = std::max(count, CountOf(*rank, is_expert));
  }
  return count;
}

// Calls visit(layer, key) for the parameters of layers: equal keys are equal parameters.
template <typename Visit>
void ForLayerParameters(const LoadedRank& rank, const Visit& visit) {
  for (uint32_t entry = 0; entry < rank.names.size(); ++entry) {
    const NumberInPath layer = NumberOf(rank.paths[entry], false);
    if (layer.number < 0 || !rank.names[entry].is_module) {
      continue;
    }
    const SideEntry& rows = rank.side.entries[entry];
    for (uint32_t i = rows.first_row; i < rows.first_row + rows.row_count; ++i) {
      const SideRow& row = rank.side.rows[i];
      if (row.state == dump::RowState::kParameters && row.stats[kNorm].is_numeric()) {
        visit(layer.number,
              fmt::format("{} {} {} {} {}", rank.paths[entry].substr(layer.at + layer.size),
                          row.name.substr(row.name.rfind('.') + 1), row.shape,
                          row.stats[kMax].number, row.stats[kNorm].number));
      }
    }
  }
}

// The layers of each stage are those of the other side that have the same weights, of which each
// has others.
void NumberLayersByWeights(JoinedSide& side, const JoinedSide& other) {
  std::map<std::string, std::set<int64_t>> layers;
  for (const auto& rank : other.ranks) {
    ForLayerParameters(*rank,
                       [&](int64_t layer, const std::string& key) { layers[key].insert(layer); });
  }
  std::map<int64_t, std::set<int64_t>> offsets;  // by stage
  for (const auto& rank : side.ranks) {
    ForLayerParameters(*rank, [&](int64_t layer, const std::string& key) {
      const auto found = layers.find(key);
      if (found != layers.end() && found->second.size() == 1) {
        offsets[rank->about.place.stage].insert(*found->second.begin() - layer);
      }
    });
  }
  if (std::any_of(offsets.begin(), offsets.end(), [](const auto& stage) {
        return stage.second.size() != 1 || *stage.second.begin() < 0;
      })) {
    return;
  }
  for (const auto& rank : side.ranks) {
    const auto found = offsets.find(rank->about.place.stage);
    if (found != offsets.end()) {
      rank->first_layer = *found->second.begin();
      NamePaths(*rank);
    }
  }
}

// The chunk that a path is in: "1.decoder" is "decoder" of chunk 1; -1: it is in none.
std::pair<int64_t, std::string_view> ChunkOf(std::string_view path) {
  const size_t dot = path.find('.');
  if (dot == 0 || dot > 3 || dot == std::string_view::npos ||
      !std::all_of(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(dot),
                   [](char c) { return c >= '0' && c <= '9'; })) {
    return {-1, path};
  }
  return {std::stoll(std::string(path.substr(0, dot))),
          WithoutWrapper(path.substr(dot + 1), path.substr(dot + 1).starts_with("module."))};
}

bool HasChunks(const LoadedRank& rank) {
  std::set<int64_t> chunks;
  for (const dump::EntryName& name : rank.names) {
    if (name.is_module && name.subject.find('.') != std::string_view::npos) {
      chunks.insert(ChunkOf(name.subject).first);
    }
  }
  return chunks.size() > 1 && !chunks.contains(-1);
}

// Virtual stages: each rank has several chunks of the model, whose modules a dump lists below their
// numbers. The first chunks of all stages come before the second ones. What several chunks have
// around their layers keeps its name: it is nothing that the whole model has.
bool NumberChunks(JoinedSide& side) {
  if (!std::all_of(side.ranks.begin(), side.ranks.end(),
                   [](const auto& rank) { return HasChunks(*rank); })) {
    return false;
  }
  std::map<std::pair<int64_t, int64_t>, int64_t> counts;  // layers by chunk and stage
  std::map<std::string, std::set<std::pair<int64_t, int64_t>>, std::less<>> holders;
  for (const auto& rank : side.ranks) {
    for (const dump::EntryName& name : rank->names) {
      if (!name.is_module && !name.is_parameters_grad) {
        continue;
      }
      const auto [chunk, path] = ChunkOf(name.subject);
      const std::pair place(chunk, rank->about.place.stage);
      int64_t& count = counts[place];
      count = std::max(count, NumberOf(path, false).number + 1);
      holders[std::string(path)].insert(place);
    }
  }
  std::map<std::pair<int64_t, int64_t>, int64_t> first;
  int64_t next = 0;
  for (const auto& [place, count] : counts) {
    first[place] = next;
    next += count;
  }
  for (const auto& rank : side.ranks) {
    for (const dump::EntryName& name : rank->names) {
      const auto [chunk, path] = ChunkOf(name.subject);
      if (chunk < 0 || (!name.is_module && !name.is_parameters_grad)) {
        continue;
      }
      const std::string inner(path);
      if (NumberOf(inner, false).number >= 0) {
        rank->chunk_names[std::string(name.subject)] =
            Renumbered(inner, false, first[{chunk, rank->about.place.stage}]);
      } else if (holders[inner].size() == 1) {
        rank->chunk_names[std::string(name.subject)] = inner;
      }
    }
    NamePaths(*rank);
  }
  return true;
}

void NumberLayers(JoinedSide& side, const JoinedSide& other) {
  for (const auto& rank : side.ranks) {
    if (rank->about.record && !rank->about.record->layers.empty()) {
      return;
    }
  }
  if (side.stages > 1 && !HasChunks(*other.ranks[0]) && NumberChunks(side)) {
    return;
  }
  std::map<int64_t, int64_t> counts;  // by stage
  for (const auto& rank : side.ranks) {
    int64_t& count = counts[rank->about.place.stage];
    count = std::max(count, CountOf(*rank, false));
  }
  int64_t sum = 0;
  for (const auto& [stage, count] : counts) {
    sum += count;
  }
  // Stages that number their layers as the whole model does have more numbers than layers; weights
  // tell where layers are missing.
  if (counts.size() < 2) {
    return;
  }
  if (sum != CountOf(other, false)) {
    NumberLayersByWeights(side, other);
    return;
  }
  std::map<int64_t, int64_t> first;
  int64_t next = 0;
  for (const auto& [stage, count] : counts) {
    first[stage] = next;
    next += count;
  }
  for (const auto& rank : side.ranks) {
    rank->first_layer = first[rank->about.place.stage];
    NamePaths(*rank);
  }
}

// A number for the first parameter of the first expert of a rank; 0: it has none.
uint64_t FirstExpert(const LoadedRank& rank) {
  for (uint32_t entry = 0; entry < rank.names.size(); ++entry) {
    if (NumberOf(rank.paths[entry], true).number < 0 || !rank.names[entry].is_module) {
      continue;
    }
    const SideEntry& rows = rank.side.entries[entry];
    for (uint32_t i = 0; i < rows.row_count; ++i) {
      const SideRow& row = rank.side.rows[rows.first_row + i];
      if (row.state == dump::RowState::kParameters && row.stats[kNorm].is_numeric()) {
        return std::hash<double>()(row.stats[kNorm].number) * 31 +
               std::hash<double>()(row.stats[kMax].number) + 1;
      }
    }
  }
  return 0;
}

void NumberExperts(JoinedSide& side, const JoinedSide& other) {
  const int64_t all = CountOf(other, true);
  const int64_t own = CountOf(side, true);
  for (const auto& rank : side.ranks) {
    if (rank->about.record && !rank->about.record->experts.empty()) {
      side.knows_experts = true;
      return;
    }
  }
  if (own == all || own == 0 || all % own != 0) {
    side.knows_experts = own == all;
    return;
  }
  // Ranks of one place in the tensors, or else all: those with equal first experts have the same.
  for (const bool by_tensor : {true, false}) {
    std::map<std::pair<int64_t, int64_t>, std::vector<uint64_t>> seen;
    std::vector<int64_t> place(side.ranks.size());
    bool fits = true;
    for (size_t i = 0; i < side.ranks.size(); ++i) {
      const RankPlace& at = side.ranks[i]->about.place;
      const uint64_t value = FirstExpert(*side.ranks[i]);
      if (value == 0) {
        continue;
      }
      std::vector<uint64_t>& values = seen[{at.stage, by_tensor ? at.tensor : 0}];
      const auto found = std::find(values.begin(), values.end(), value);
      place[i] = found - values.begin();
      if (found == values.end()) {
        values.push_back(value);
      }
    }
    for (const auto& [cell, values] : seen) {
      fits = fits && static_cast<int64_t>(values.size()) == all / own;
    }
    if (!fits || seen.empty()) {
      continue;
    }
    for (size_t i = 0; i < side.ranks.size(); ++i) {
      side.ranks[i]->first_expert = place[i] * own;
      NamePaths(*side.ranks[i]);
    }
    side.knows_experts = true;
    return;
  }
}

}  // namespace

Result<std::unique_ptr<LoadedRank>> LoadRank(const JoinedRank& rank, const SideOptions& options) {
  auto loaded = std::make_unique<LoadedRank>();
  loaded->about = rank;
  MSP_ASSIGN_OR_RETURN(loaded->side, LoadSide(rank.folder.folder / dump::kDumpFileName, options));
  const std::filesystem::path construct = rank.folder.folder / dump::kConstructFileName;
  if (Result<dump::ConstructFile> read = dump::ConstructFile::Read(construct); read.ok()) {
    loaded->construct = *std::move(read);
  }
  if (const std::filesystem::path reduced = rank.folder.folder / dump::kReducedGradientsFileName;
      base::Exists(reduced)) {
    MSP_ASSIGN_OR_RETURN(const Side gradients, LoadSide(reduced, options));
    AppendEntries(gradients, loaded->side);
  }
  const Side& side = loaded->side;
  loaded->names.reserve(side.entries.size());
  for (uint32_t entry = 0; entry < side.entries.size(); ++entry) {
    loaded->names.push_back(dump::ParseEntryName(side.entries[entry].name));
    loaded->entry_of.emplace(side.entries[entry].name, entry);
  }
  loaded->is_wrapped = IsWrapped(loaded->names);
  NamePaths(*loaded);
  return loaded;
}

void LoadedRank::Rename(std::map<std::string, NewName> renamed) {
  new_names = std::move(renamed);
  NamePaths(*this);
}

std::string LoadedRank::GlobalPath(std::string_view local, NewName* as) const {
  // A record knows the paths as they are in the dump; what a user gives may leave wrappers out.
  std::string global(local);
  if (const auto chunk = chunk_names.find(global); chunk != chunk_names.end()) {
    return chunk->second;
  }
  if (about.record) {
    global = about.record->GlobalPath(local);
  }
  if (global == local) {
    global = WithoutWrapper(local, is_wrapped);
    global = about.record ? about.record->GlobalPath(global) : global;
  }
  for (const auto& [offset, is_expert] :
       {std::pair(first_layer, false), std::pair(first_expert, true)}) {
    if (offset != 0) {
      global = Renumbered(global, is_expert, offset);
    }
  }
  if (const auto renamed = new_names.find(global); renamed != new_names.end()) {
    if (as != nullptr) {
      *as = renamed->second;
    }
    return renamed->second.path;
  }
  return global;
}

void NumberParts(JoinedSide& side, const JoinedSide& other) {
  NumberLayers(side, other);
  NumberExperts(side, other);
}

std::unordered_map<uint64_t, int64_t> CallCounts(const JoinedSide& side) {
  std::unordered_map<uint64_t, int64_t> counts;
  std::set<int64_t> stages;
  for (const auto& rank : side.ranks) {
    if (!stages.insert(rank->about.place.stage).second) {
      continue;  // one rank of each stage
    }
    for (size_t entry = 0; entry < rank->names.size(); ++entry) {
      const dump::EntryName& name = rank->names[entry];
      if (name.direction == dump::Direction::kForward && !name.is_debug &&
          !dump::IsCommunicationCall(name) &&
          (!rank->construct ||
           rank->construct->ParentOf(rank->side.entries[entry].name) != kOptimizerParent)) {
        ++counts[LetterOf(name, rank->paths[entry])];
      }
    }
  }
  return counts;
}

void JoinCalls(JoinedSide& npu, JoinedSide& bench) {
  const auto npu_roots = CallJoiner::RootsOf(npu);
  const auto bench_roots = CallJoiner::RootsOf(bench);
  const ModuleCounts npu_counts = CountsOf(npu);
  const ModuleCounts bench_counts = CountsOf(bench);
  npu.rounds = npu_counts.usual;
  bench.rounds = bench_counts.usual;
  CallJoiner(npu, bench_roots, npu_counts, bench_counts).Run();
  CallJoiner(bench, npu_roots, bench_counts, npu_counts).Run();
}

void PairCalls(JoinedSide& npu, JoinedSide& bench) {
  for (const auto& [key, call] : npu.module_call) {
    const auto other = bench.module_call.find(key);
    if (other != bench.module_call.end()) {
      npu.calls[call].partner = other->second;
      bench.calls[other->second].partner = call;
    }
  }
  if (npu.has_other_names) {
    return;  // of other implementations only the modules are the same
  }
  for (const Bucket& bucket : npu.buckets) {
    const auto other = bench.bucket_of.find(bucket.key);
    if (other != bench.bucket_of.end()) {
      PairLists(npu, bucket.calls, bench, bench.buckets[other->second].calls);
    }
  }
  PairLists(npu, LeftOver(npu), bench, LeftOver(bench));
}

}  // namespace msprobe::analysis::compare::layouts
