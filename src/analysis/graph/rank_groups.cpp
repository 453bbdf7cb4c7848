// dump/communication finds the calls of different ranks that belong to one communication; here its
// matches become the partners of nodes. Groups of ranks are connected components: every recorded
// group joins its ranks, for each kind of parallelism by the calls that show it.
#include "src/analysis/graph/rank_groups.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/graph/items.h"
#include "src/base/numbers.h"
#include "src/base/strings.h"
#include "src/dump/call_facts.h"
#include "src/dump/communication.h"

namespace msprobe::analysis::graph {
namespace {

using compare::SideRow;
using dump::EntryTree;

constexpr std::string_view kSend = "send";
constexpr std::string_view kReceive = "receive";
constexpr std::string_view kBoth = "send_receive";

std::string_view Opposite(std::string_view kind) {
  return kind == kSend ? kReceive : kind == kReceive ? kSend : kBoth;
}

std::string StatText(const compare::StatValue& value) {
  std::string text = std::to_string(static_cast<int>(value.kind));
  if (value.is_numeric()) {
    base::AppendPythonFloatRepr(value.number, text);
  } else {
    text += value.text();
  }
  return text;
}

class CallReader {
 public:
  CallReader(int64_t rank, const RankDump& dump, const Graph& graph,
             const std::vector<NodeScore>& scores, bool with_levels)
      : dump_(dump),
        graph_(graph),
        scores_(scores),
        with_levels_(with_levels),
        found_{dump::RankCommunications(rank, dump::MatchRules::kPythonGraph), {}} {}

  Result<RankCommunications> Read() {
    for (uint32_t node = 0; node < graph_.nodes.size(); ++node) {
      const Node& call = graph_.nodes[node];
      if (call.entry != kNone && IsCommunicationName(call.name)) {
        MSP_ASSIGN_OR_RETURN(const EntryTree tree, dump_.ReadEntry(call.entry));
        Add(node, dump::ReadCommunication(ApiOf(call.name), tree, dump::MatchRules::kPythonGraph));
      }
    }
    return std::move(found_);
  }

 private:
  void Add(uint32_t node, dump::Communication call) {
    if (call.is_incomplete) {
      return;
    }
    found_.calls.Add(call);
    CommunicationNode& known = found_.nodes.emplace_back(NodeOf(node));
    known.root = call.root;
    known.kind =
        call.root ? dump::FindCommunicationApi(call.api)->IsFromRoot() ? kSend : kReceive : kBoth;
    known.group = std::move(call.group.ranks);
    std::sort(known.group.begin(), known.group.end());
    known.group.erase(std::unique(known.group.begin(), known.group.end()), known.group.end());
  }

  CommunicationNode NodeOf(uint32_t node) const {
    CommunicationNode call;
    const NodeScore& score = scores_[node];
    call.node.name = graph_.nodes[node].name;
    call.node.figure = "Nan";
    if (with_levels_) {
      call.node.figure = score.level.empty() ? call.node.figure : std::string(score.level);
    } else if (score.precision) {
      call.node.figure = IndexText(*score.precision);
    }
    const compare::Side& side = dump_.side();
    const compare::SideEntry& entry = side.entries[graph_.nodes[node].entry];
    for (uint32_t i = entry.first_row; i < entry.first_row + entry.row_count; ++i) {
      const SideRow& row = side.rows[i];
      if (row.name.ends_with(".output.0")) {
        call.first_output = fmt::format("{} {}", row.dtype, row.shape);
        for (const compare::StatValue& stat : row.stats) {
          call.first_output += ' ' + StatText(stat);
          if (stat.is_numeric() && std::isnan(stat.number)) {
            call.first_output += fmt::format(" of {}", found_.calls.rank());  // NaN equals nothing
          }
        }
        break;
      }
    }
    return call;
  }

  const RankDump& dump_;
  const Graph& graph_;
  const std::vector<NodeScore>& scores_;
  const bool with_levels_;
  RankCommunications found_;
};

}  // namespace

bool IsCommunicationName(std::string_view node_name) {
  return node_name.starts_with("Distributed");
}

Result<RankCommunications> ReadCommunications(int64_t rank, const RankDump& dump,
                                              const Graph& graph,
                                              const std::vector<NodeScore>& scores,
                                              bool with_levels) {
  return CallReader(rank, dump, graph, scores, with_levels).Read();
}

PartnerFinder::PartnerFinder(std::vector<RankCommunications> ranks, Edition edition)
    : ranks_(std::move(ranks)), edition_(edition) {
  std::sort(ranks_.begin(), ranks_.end(),
            [](const RankCommunications& a, const RankCommunications& b) {
              return a.calls.rank() < b.calls.rank();
            });
  std::vector<const dump::RankCommunications*> calls;
  for (const RankCommunications& one : ranks_) {
    calls.push_back(&one.calls);
  }
  matching_ = dump::MatchCommunications(calls);
}

PartnersOfNodes PartnerFinder::Of(int64_t rank) const {
  PartnersOfNodes found;
  const auto own = std::find_if(ranks_.begin(), ranks_.end(),
                                [rank](const auto& one) { return one.calls.rank() == rank; });
  if (own == ranks_.end() || ranks_.size() < 2) {
    return found;
  }
  const auto contains = [](const std::vector<int64_t>& group, int64_t number) {
    return std::binary_search(group.begin(), group.end(), number);
  };
  const auto rank_of = [this](const dump::EventMember& member) {
    return ranks_[member.rank_place].calls.rank();
  };
  const auto node_of = [this](const dump::EventMember& member) -> const CommunicationNode& {
    const RankCommunications& there = ranks_[member.rank_place];
    return there.nodes[there.calls.endpoints()[member.endpoint].call];
  };
  const std::vector<uint32_t>& events =
      matching_.event_of_endpoint[static_cast<size_t>(own - ranks_.begin())];
  for (size_t endpoint = 0; endpoint < events.size(); ++endpoint) {
    const dump::Endpoint& end = own->calls.endpoints()[endpoint];
    const CommunicationNode& call = own->nodes[end.call];
    const dump::CommunicationEvent& event = matching_.events[events[endpoint]];
    Partners partners = {call.kind, {}};
    if (event.is_transfer) {
      partners.kind = end.sends ? kSend : kReceive;
    }
    std::span<const dump::EventMember> members = matching_.MembersOf(event);
    const bool is_led = call.root && *call.root != rank;  // then the root's group decides
    if (is_led) {
      const auto root = std::lower_bound(members.begin(), members.end(), *call.root,
                                         [&](const dump::EventMember& member, int64_t number) {
                                           return rank_of(member) < number;
                                         });
      const bool is_there = root != members.end() && rank_of(*root) == *call.root;
      members = members.subspan(static_cast<size_t>(root - members.begin()), is_there ? 1 : 0);
    }
    for (const dump::EventMember& member : members) {
      const int64_t other = rank_of(member);
      const CommunicationNode& partner = node_of(member);
      if (event.is_transfer) {
        if (member.contributes != end.sends &&
            (edition_ == Edition::kV26 || call.first_output == partner.first_output)) {
          partners.nodes.emplace_back(other, &partner.node);
        }
      } else if (is_led) {
        if (partner.root == call.root && contains(partner.group, rank)) {
          partners.kind = Opposite(partner.kind);
          partners.nodes.emplace_back(other, &partner.node);
        }
      } else if (other != rank && contains(call.group, other)) {
        partners.nodes.emplace_back(other, &partner.node);
      }
    }
    if (!partners.nodes.empty()) {
      found[call.node.name].push_back(std::move(partners));
    }
  }
  return found;
}

namespace {

using Groups = std::vector<std::vector<int64_t>>;

// Where a sequence is shared, its parts meet in these modules only.
constexpr std::string_view kAttentionWords[] = {"attention", "attn"};
// Where tokens go to the experts of other ranks.
constexpr std::string_view kMixtureWords[] = {"moe", "expert"};
constexpr std::string_view kSharedExpertWords[] = {"shared_expert", "sharedexpert"};
constexpr int kMostParents = 1000;

// Ranks that a chain of links joins.
class Components {
 public:
  explicit Components(size_t ranks) : above_(ranks) { std::iota(above_.begin(), above_.end(), 0); }

  void Join(int64_t a, int64_t b) {
    if (IsRank(a) && IsRank(b)) {
      above_[static_cast<size_t>(Top(a))] = Top(b);
    }
  }

  void Join(const std::vector<int64_t>& ranks) {
    for (const int64_t rank : ranks) {
      Join(ranks.front(), rank);
    }
  }

  Groups All() {
    std::map<int64_t, std::vector<int64_t>> groups;
    for (size_t rank = 0; rank < above_.size(); ++rank) {
      groups[Top(static_cast<int64_t>(rank))].push_back(static_cast<int64_t>(rank));
    }
    Groups all;
    for (auto& [top, ranks] : groups) {
      all.push_back(std::move(ranks));
    }
    std::sort(all.begin(), all.end());
    return all;
  }

 private:
  bool IsRank(int64_t rank) const { return rank >= 0 && static_cast<size_t>(rank) < above_.size(); }

  int64_t Top(int64_t rank) {
    while (above_[static_cast<size_t>(rank)] != rank) {
      int64_t& above = above_[static_cast<size_t>(rank)];
      above = above_[static_cast<size_t>(above)];
      rank = above;
    }
    return rank;
  }

  std::vector<int64_t> above_;
};

bool AreAllOf(const Groups& groups, uint64_t size) {
  return std::all_of(groups.begin(), groups.end(),
                     [size](const auto& group) { return group.size() == size; });
}

// Groups that show in the calls of all ranks.
class RecordedGroups {
 public:
  explicit RecordedGroups(const std::vector<RankDump>& dumps)
      : reducing_(dumps.size()),
        sending_(dumps.size()),
        attending_(dumps.size()),
        dispatching_(dumps.size()) {
    for (size_t rank = 0; rank < dumps.size(); ++rank) {
      Read(dumps[rank], static_cast<int64_t>(rank));
    }
  }

  Groups Reducing() { return reducing_.All(); }
  Groups Sending() { return sending_.All(); }
  // Tokens go to experts by all_to_all, or are gathered by ranks beyond those that share the
  // layers.
  Groups Dispatching(const Groups& tensor) {
    for (const std::vector<int64_t>& ranks : gathering_groups_) {
      if (!AreTogether(ranks, tensor)) {
        dispatching_.Join(ranks);
      }
    }
    Groups groups = dispatching_.All();
    std::erase_if(groups, [](const std::vector<int64_t>& ranks) { return ranks.size() == 1; });
    return groups;
  }
  // Ranks that share the layers and gather tokens in front of experts: these may be parts of the
  // same experts as well as other ones. Empty: there are none.
  std::vector<int64_t> GatheringForSomeExperts(const Groups& tensor, const Groups& experts) const {
    for (const std::vector<int64_t>& ranks : gathering_groups_) {
      if (AreTogether(ranks, tensor) && !AreTogether(ranks, experts)) {
        return ranks;
      }
    }
    return {};
  }
  // Leaves out what tensor parallelism exchanges: it also adds up parts of sums there.
  Groups Attending(const Groups& tensor) {
    std::set<std::vector<int64_t>> known(tensor.begin(), tensor.end());
    for (const std::vector<int64_t>& ranks : attention_groups_) {
      if (!known.contains(ranks) && !summing_groups_.contains(ranks)) {
        attending_.Join(ranks);
      }
    }
    return attending_.All();
  }

 private:
  void Read(const RankDump& dump, int64_t rank) {
    bool has_reduced = false;
    for (uint32_t index = 0; index < dump.side().entries.size(); ++index) {
      const compare::SideEntry& entry = dump.side().entries[index];
      if (!IsCommunicationName(entry.name)) {
        continue;
      }
      const bool attends = IsInside(dump.construct(), entry.name, kAttentionWords);
      const dump::CollectiveEffect effect = dump::EffectOf(ApiOf(entry.name));
      const bool is_reduction =
          effect == dump::CollectiveEffect::kSum || effect == dump::CollectiveEffect::kScatteredSum;
      const bool is_exchange = effect == dump::CollectiveEffect::kExchange;
      const bool is_gather = effect == dump::CollectiveEffect::kGather;
      const bool mixes = !attends && (is_exchange || is_gather) &&
                         IsInside(dump.construct(), entry.name, kMixtureWords);
      const bool gathers =
          mixes && is_gather && !IsInside(dump.construct(), entry.name, kSharedExpertWords);
      const bool is_between = dump.construct().ParentOf(entry.name).empty();
      for (uint32_t i = 0; i < entry.row_count; ++i) {
        const compare::SideRow& row = dump.side().rows[entry.first_row + i];
        if (row.dtype != kProcessGroup) {
          continue;
        }
        std::vector<int64_t> ranks = dump::ParseProcessGroup(row.stats[compare::kMax].text()).ranks;
        std::sort(ranks.begin(), ranks.end());
        if (ranks.size() > 1 && attends) {
          (is_reduction ? summing_groups_ : attention_groups_).insert(ranks);
        }
        if (ranks.size() > 1 && gathers) {
          gathering_groups_.insert(ranks);
        }
        if (mixes && is_exchange) {
          dispatching_.Join(ranks);
        }
        if (!ranks.empty() && !has_reduced && is_reduction) {
          has_reduced = true;
          reducing_.Join(ranks);
        }
      }
      for (const int64_t peer : PeersOf(dump, index)) {
        if (attends) {
          attending_.Join(rank, peer);
        } else if (is_between) {
          sending_.Join(rank, peer);
        }
      }
    }
  }

  static bool AreTogether(const std::vector<int64_t>& ranks, const Groups& groups) {
    return std::any_of(groups.begin(), groups.end(), [&ranks](const std::vector<int64_t>& group) {
      return std::all_of(ranks.begin(), ranks.end(), [&group](int64_t rank) {
        return std::find(group.begin(), group.end(), rank) != group.end();
      });
    });
  }

  // Whether a call is inside of a module with one of these words in its name.
  static bool IsInside(const dump::ConstructFile& construct, std::string_view name,
                       std::span<const std::string_view> words) {
    for (int i = 0; i < kMostParents && !name.empty(); ++i) {
      const std::string lower = base::AsciiLower(name);
      for (const std::string_view word : words) {
        if (lower.find(word) != std::string::npos) {
          return true;
        }
      }
      name = construct.ParentOf(name);
    }
    return false;
  }

  // The other ends of a call between two ranks, or of a batch of them.
  static std::vector<int64_t> PeersOf(const RankDump& dump, uint32_t index) {
    std::vector<int64_t> peers;
    const std::string_view api = ApiOf(dump.side().entries[index].name);
    const dump::CommunicationApi* facts = dump::FindCommunicationApi(api);
    if (facts == nullptr || facts->kind == dump::CommunicationKind::kCollective) {
      return peers;
    }
    if (const Result<dump::EntryTree> tree = dump.ReadEntry(index); tree.ok()) {
      for (const dump::Transfer& transfer :
           dump::ReadCommunication(api, *tree, dump::MatchRules::kLibraries).transfers) {
        peers.push_back(transfer.peer);
      }
    }
    return peers;
  }

  Components reducing_;
  Components sending_;      // between modules
  Components attending_;    // inside of attention
  Components dispatching_;  // inside of MoE modules
  std::set<std::vector<int64_t>> attention_groups_;
  std::set<std::vector<int64_t>> summing_groups_;    // in attention
  std::set<std::vector<int64_t>> gathering_groups_;  // inside of MoE modules
};

// Ranks that differ in one kind of parallelism only.
Groups GroupsOf(const Parallelism& sizes, uint64_t context, std::string_view kind) {
  std::map<std::string_view, uint64_t> size_of = {
      {"tp", sizes.tensor},
      {"pp", sizes.pipeline},
      {"cp", context},
      {"dp", sizes.rank_count / (sizes.tensor * sizes.pipeline * context)}};
  uint64_t stride = 1;
  for (const std::string_view part : base::Split(sizes.order, '-')) {
    if (part == kind) {
      break;
    }
    const auto found = size_of.find(part);
    stride *= found == size_of.end() ? 1 : found->second;
  }
  const uint64_t size = size_of[kind];
  Groups groups;
  for (uint64_t rank = 0; rank < sizes.rank_count; ++rank) {
    if (rank / stride % size == 0) {
      std::vector<int64_t>& group = groups.emplace_back();
      for (uint64_t place = 0; place < size; ++place) {
        group.push_back(static_cast<int64_t>(rank + place * stride));
      }
    }
  }
  return groups;
}

// Whether the ranks of each group of one kind are, place by place, in the same groups of the other.
bool MakeAGrid(const Groups& a, const Groups& b) {
  std::map<int64_t, size_t> group_of;
  for (size_t group = 0; group < b.size(); ++group) {
    for (const int64_t rank : b[group]) {
      group_of[rank] = group;
    }
  }
  std::map<std::vector<size_t>, size_t> seen;  // how many groups cross the same groups
  for (const std::vector<int64_t>& ranks : a) {
    std::vector<size_t> crossed;
    for (const int64_t rank : ranks) {
      crossed.push_back(group_of[rank]);
    }
    if (std::set<size_t>(crossed.begin(), crossed.end()).size() != ranks.size()) {
      return false;
    }
    ++seen[crossed];
  }
  return std::all_of(seen.begin(), seen.end(), [&b](const auto& crossing) {
    return crossing.second == b[crossing.first.front()].size();
  });
}

std::string Listed(const std::vector<int64_t>& ranks) {
  return fmt::format("[{}]", fmt::join(ranks, ", "));
}

}  // namespace

bool RankGroups::HaveOtherExperts(const std::vector<std::vector<int64_t>>& joined) const {
  std::map<int64_t, size_t> place;  // of a rank: its group of experts
  for (size_t group = 0; group < expert.size(); ++group) {
    for (const int64_t rank : expert[group]) {
      place[rank] = group;
    }
  }
  return std::any_of(joined.begin(), joined.end(), [&place](const std::vector<int64_t>& ranks) {
    std::set<size_t> seen;
    return std::any_of(ranks.begin(), ranks.end(), [&](int64_t rank) {
      const auto found = place.find(rank);
      return found != place.end() && !seen.insert(found->second).second;
    });
  });
}

Status CheckParallelism(const Parallelism& sizes, size_t rank_folders) {
  const auto usage = [](std::string text) { return UsageError("--rank_size: " + std::move(text)); };
  if (sizes.rank_count != rank_folders) {
    return usage(
        fmt::format("{} ranks were asked for, but {} are there", sizes.rank_count, rank_folders));
  }
  const uint64_t context = sizes.context.value_or(1);
  for (const uint64_t size : {sizes.tensor, sizes.pipeline, context}) {
    if (size == 0 || size > sizes.rank_count) {
      return usage(fmt::format("{} ranks cannot be divided by {}", sizes.rank_count, size));
    }
  }
  if (sizes.rank_count % (sizes.tensor * sizes.pipeline) != 0) {
    return usage(fmt::format("{} ranks cannot be divided by --tp {} and --pp {}", sizes.rank_count,
                             sizes.tensor, sizes.pipeline));
  }
  if (sizes.rank_count % (sizes.tensor * sizes.pipeline * context) != 0) {
    return usage(fmt::format("{} ranks cannot be divided by --tp {}, --pp {} and --cp {}",
                             sizes.rank_count, sizes.tensor, sizes.pipeline, context));
  }
  if (sizes.virtual_pipeline > 1 && sizes.pipeline == 1) {
    return UsageError("--vpp above 1 needs --pp above 1");
  }
  std::set<std::string_view> kinds;
  for (const std::string_view part : base::Split(sizes.order, '-')) {
    constexpr std::string_view kKinds[] = {"tp", "cp", "ep", "dp", "pp"};
    if (!base::IsOneOf(part, kKinds) || !kinds.insert(part).second) {
      return UsageError(
          fmt::format("--order: \"{}\" is none of tp, cp, ep, dp and pp, or stands "
                      "there twice",
                      part));
    }
  }
  if (!kinds.contains("tp") || !kinds.contains("pp") || !kinds.contains("dp")) {
    return UsageError("--order must name tp, dp and pp");
  }
  if (context > 1 && !kinds.contains("cp")) {
    return UsageError("with --cp, --order must name cp");
  }
  return {};
}

RankGroups FindRankGroups(const std::vector<RankDump>& dumps, const Parallelism& sizes,
                          std::vector<std::string>& warnings) {
  RecordedGroups recorded(dumps);
  Groups tensor = recorded.Reducing();
  Groups pipeline = recorded.Sending();
  const bool tells_tensor = sizes.tensor > 1 && AreAllOf(tensor, sizes.tensor);
  const bool tells_pipeline = sizes.pipeline > 1 && AreAllOf(pipeline, sizes.pipeline);
  const uint64_t asked = sizes.context.value_or(1);
  Groups context = recorded.Attending(tells_tensor ? tensor : GroupsOf(sizes, asked, "tp"));
  const uint64_t found = context.front().size();
  const bool tells_context = found > 1 && AreAllOf(context, found) &&
                             sizes.rank_count % (sizes.tensor * sizes.pipeline * found) == 0;
  const uint64_t size = sizes.context.value_or(tells_context ? found : 1);

  RankGroups groups = {
      GroupsOf(sizes, size, "pp"), GroupsOf(sizes, size, "tp"), GroupsOf(sizes, size, "cp"), {}};
  RankGroups told = groups;
  if (tells_tensor) {
    told.tensor = std::move(tensor);
  }
  if (tells_pipeline) {
    told.pipeline = std::move(pipeline);
  }
  if (tells_context && size == found) {
    told.context = context;
  }
  const bool fits =
      MakeAGrid(told.tensor, told.pipeline) && MakeAGrid(told.pipeline, told.tensor) &&
      MakeAGrid(told.tensor, told.context) && MakeAGrid(told.context, told.tensor) &&
      MakeAGrid(told.pipeline, told.context) && MakeAGrid(told.context, told.pipeline);
  for (const auto& [name, by_order, by_calls] :
       {std::tuple("tensor", &groups.tensor, &told.tensor),
        std::tuple("pipeline", &groups.pipeline, &told.pipeline),
        std::tuple("context", &groups.context, &told.context)}) {
    if (fits && *by_order != *by_calls) {
      warnings.push_back(fmt::format(
          "the calls tell of {} parallelism between ranks {}, not {} as --order {} says; theirs is "
          "taken",
          name, Listed(by_calls->front()), Listed(by_order->front()), sizes.order));
    }
  }
  if (fits) {
    groups = std::move(told);
  }
  groups.expert = recorded.Dispatching(groups.tensor);
  if (!sizes.context && !tells_context && found > 1) {
    warnings.push_back(fmt::format(
        "ranks {} exchange values inside of attention modules, but not all ranks do so in groups "
        "of that size: they are not taken for parts of a sequence; --cp N says how many are",
        Listed(context.front())));
  }
  if (!sizes.context && size > 1) {
    warnings.push_back(fmt::format(
        "ranks {} exchange values inside of attention modules: they are taken for parts "
        "of a sequence and merged, as with --cp {}; --cp 1 keeps them apart",
        Listed(groups.context.front()), size));
  }
  if (!groups.expert.empty()) {
    warnings.push_back(fmt::format(
        "ranks {} exchange tokens inside of MoE modules (expert parallelism): experts are not "
        "joined, as a dump does not tell which ones a rank has; they stand under the numbers that "
        "their rank counts them by",
        Listed(groups.expert.front())));
  }
  if (const std::vector<int64_t> ranks =
          recorded.GatheringForSomeExperts(groups.tensor, groups.expert);
      !ranks.empty()) {
    warnings.push_back(
        fmt::format("ranks {} gather tokens inside of MoE modules and share the other layers: "
                    "their experts are joined as parts of the same ones; where each rank has other "
                    "experts, the joined figures of experts mean nothing. A dump would have to "
                    "tell the number of experts of the model, and the first one of each rank",
                    Listed(ranks)));
  }
  return groups;
}

}  // namespace msprobe::analysis::graph
