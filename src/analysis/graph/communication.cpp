#include "src/analysis/graph/communication.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/graph/items.h"
#include "src/analysis/graph/node_names.h"
#include "src/base/numbers.h"

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
    text += value.text;
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
            (edition_ == Edition::k26 || call.first_output == partner.first_output)) {
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

}  // namespace msprobe::analysis::graph
