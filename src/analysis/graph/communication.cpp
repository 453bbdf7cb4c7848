#include "src/analysis/graph/communication.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/graph/items.h"
#include "src/analysis/graph/node_names.h"
#include "src/base/number_text.h"
#include "src/base/strings.h"
#include "src/dump/leaves.h"

namespace msprobe::analysis::graph {
namespace {

using compare::SideRow;
using dump::EntryTree;
using dump::NodeKind;

constexpr std::string_view kSend = "send";
constexpr std::string_view kReceive = "receive";
constexpr std::string_view kBoth = "send_receive";

struct PointToPoint {
  std::string_view api;
  std::string_view counterpart;
  std::string_view argument;  // that names the other rank
  std::string_view kind;
};
constexpr PointToPoint kPointToPoint[] = {{"send", "recv", ".input.dst", kSend},
                                          {"recv", "send", ".input.src", kReceive},
                                          {"isend", "irecv", ".input.dst", kSend},
                                          {"irecv", "isend", ".input.src", kReceive}};

// One rank on one side, all others on the other.
struct OneToMany {
  std::string_view api;
  std::string_view argument;  // that names the one
  std::string_view kind;      // of the one's part
};
constexpr OneToMany kOneToMany[] = {{"broadcast", ".input.1", kSend},
                                    {"reduce", ".input.1", kReceive},
                                    {"scatter", ".input.src", kSend},
                                    {"gather", ".input.dst", kReceive}};

template <typename Table>
const auto* FindApi(const Table& table, std::string_view api) {
  for (const auto& row : table) {
    if (row.api == api) {
      return &row;
    }
  }
  return static_cast<decltype(&table[0])>(nullptr);
}

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
      : dump_(dump), graph_(graph), scores_(scores), with_levels_(with_levels) {
    found_.rank = rank;
  }

  Result<RankCommunications> Read() {
    for (uint32_t node = 0; node < graph_.nodes.size(); ++node) {
      const Node& call = graph_.nodes[node];
      if (call.entry != kNone && IsCommunicationName(call.name)) {
        MSP_ASSIGN_OR_RETURN(const EntryTree tree, dump_.ReadEntry(call.entry));
        Add(node, call, tree);
      }
    }
    return std::move(found_);
  }

 private:
  void Add(uint32_t node, const Node& call, const EntryTree& tree) {
    const std::string_view api = ApiOf(call.name);
    if (api == "batch_isend_irecv") {
      AddBatch(node, tree);
    } else if (const PointToPoint* transfer = FindApi(kPointToPoint, api)) {
      AddTransfer(node, call, *transfer);
    } else {
      AddCollective(node, call, api, tree);
    }
  }

  CommunicationCall CallOf(uint32_t node) const {
    CommunicationCall call;
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
            call.first_output += fmt::format(" of {}", found_.rank);  // NaN equals nothing
          }
        }
        break;
      }
    }
    return call;
  }

  // The row whose name ends with an argument's.
  const SideRow* RowOf(const Node& call, std::string_view argument) const {
    const compare::Side& side = dump_.side();
    const compare::SideEntry& entry = side.entries[call.entry];
    for (uint32_t i = entry.first_row; i < entry.first_row + entry.row_count; ++i) {
      if (side.rows[i].name.size() == call.name.size() + argument.size() &&
          side.rows[i].name.ends_with(argument)) {
        return &side.rows[i];
      }
    }
    return nullptr;
  }

  std::optional<int64_t> RankOf(const Node& call, std::string_view argument) const {
    const SideRow* row = RowOf(call, argument);
    if (row == nullptr) {
      return std::nullopt;
    }
    const compare::StatValue& value = row->stats[compare::kMax];
    return value.kind == compare::StatKind::kInteger ? std::optional(value.integer)
           : value.kind == compare::StatKind::kText  ? base::ParseInt(value.text)
                                                     : std::nullopt;
  }

  void AddTransfer(uint32_t node, const Node& name, const PointToPoint& transfer) {
    const std::optional<int64_t> peer = RankOf(name, transfer.argument);
    if (!peer) {
      return;
    }
    const size_t count = ++counts_[fmt::format("{}rank{}", transfer.api, *peer)];
    CommunicationCall call = CallOf(node);
    call.is_point_to_point = true;
    call.peer = peer;
    call.kind = transfer.kind;
    call.partner_key = fmt::format("{}rank{}_{}", transfer.counterpart, found_.rank, count);
    Keep(fmt::format("{}rank{}_{}", transfer.api, *peer, count), std::move(call));
  }

  // The transfers stand in the first output: {"op", "peer", "group_id"}.
  void AddBatch(uint32_t node, const EntryTree& tree) {
    const uint32_t output =
        tree[0].kind == NodeKind::kObject ? tree.Find(0, "output") : EntryTree::kNone;
    if (output == EntryTree::kNone || tree[output].kind != NodeKind::kList ||
        tree[output].child_count == 0) {
      return;
    }
    const uint32_t first = output + 1;
    const uint32_t list = tree[first].kind == NodeKind::kList ? first : output;
    tree.ForEachChild(list, [&](uint32_t item) {
      if (tree[item].kind != NodeKind::kObject) {
        return;
      }
      const std::string_view op = dump::LeafText(tree, item, "op");
      const PointToPoint* transfer = FindApi(kPointToPoint, op);
      const uint32_t peer = tree.Find(item, "peer");
      if (transfer == nullptr || peer == EntryTree::kNone || tree[peer].kind != NodeKind::kInt) {
        return;
      }
      const std::string_view group = dump::LeafText(tree, item, "group_id");
      const int64_t other = tree[peer].integer;
      const size_t count = ++counts_[fmt::format("{}_rank{}_{}", op, other, group)];
      CommunicationCall call = CallOf(node);
      call.is_point_to_point = true;
      call.peer = other;
      call.kind = transfer->kind;
      call.partner_key =
          fmt::format("{}_rank{}_{}_{}", transfer->counterpart, found_.rank, group, count);
      Keep(fmt::format("{}_rank{}_{}_{}", op, other, group, count), std::move(call));
    });
  }

  void AddCollective(uint32_t node, const Node& name, std::string_view api, const EntryTree& tree) {
    const SideRow* group = RowOf(name, ".input.group");
    if (group == nullptr || group->leaf >= tree.size() ||
        tree[group->leaf].kind != NodeKind::kObject) {
      return;
    }
    CommunicationCall call = CallOf(node);
    const uint32_t ranks = tree.Find(group->leaf, "group_ranks");
    if (ranks == EntryTree::kNone || tree[ranks].kind != NodeKind::kList) {
      return;
    }
    tree.ForEachChild(ranks, [&](uint32_t rank) {
      if (tree[rank].kind == NodeKind::kInt) {
        call.group.push_back(tree[rank].integer);
      }
    });
    call.kind = kBoth;
    if (const OneToMany* pattern = FindApi(kOneToMany, api)) {
      call.root = RankOf(name, pattern->argument);
      call.kind = pattern->kind;
      if (!call.root) {
        return;
      }
    }
    const std::string_view id = dump::LeafText(tree, group->leaf, "group_id");
    const std::string key = fmt::format("{}{}", id, api);
    Keep(fmt::format("{}_{}", key, ++counts_[key]), std::move(call));
  }

  void Keep(std::string key, CommunicationCall call) {
    call.key = std::move(key);
    found_.calls.push_back(std::move(call));
  }

  const RankDump& dump_;
  const Graph& graph_;
  const std::vector<NodeScore>& scores_;
  const bool with_levels_;
  RankCommunications found_;
  std::unordered_map<std::string, size_t> counts_;
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
    : ranks_(std::move(ranks)), calls_(ranks_.size()), edition_(edition) {
  for (size_t place = 0; place < ranks_.size(); ++place) {
    place_of_rank_.emplace(ranks_[place].rank, place);
    for (const CommunicationCall& call : ranks_[place].calls) {
      const auto number = static_cast<KeyNumber>(numbers_.size());
      calls_[place].keys.push_back(numbers_.try_emplace(call.key, number).first->second);
      calls_[place].by_key.emplace(calls_[place].keys.back(), &call);
    }
  }
}

const CommunicationCall* PartnerFinder::Find(int64_t rank, KeyNumber key) const {
  const auto place = place_of_rank_.find(rank);
  if (place == place_of_rank_.end()) {
    return nullptr;
  }
  const auto& calls = calls_[place->second].by_key;
  const auto found = calls.find(key);
  return found == calls.end() ? nullptr : found->second;
}

const CommunicationCall* PartnerFinder::Find(int64_t rank, std::string_view key) const {
  const auto number = numbers_.find(key);
  return number == numbers_.end() ? nullptr : Find(rank, number->second);
}

PartnersOfNodes PartnerFinder::Of(int64_t rank) const {
  PartnersOfNodes found;
  const auto place = place_of_rank_.find(rank);
  if (place == place_of_rank_.end() || ranks_.size() < 2) {
    return found;
  }
  const auto contains = [](const std::vector<int64_t>& group, int64_t number) {
    return std::find(group.begin(), group.end(), number) != group.end();
  };
  const std::vector<CommunicationCall>& calls = ranks_[place->second].calls;
  for (size_t number = 0; number < calls.size(); ++number) {
    const CommunicationCall& call = calls[number];
    const KeyNumber key = calls_[place->second].keys[number];
    if (call.is_point_to_point) {
      const CommunicationCall* partner = Find(*call.peer, call.partner_key);
      if (partner != nullptr &&
          (edition_ == Edition::k26 || call.first_output == partner->first_output)) {
        found[call.node.name].push_back({call.kind, {{*call.peer, &partner->node}}});
      }
      continue;
    }
    if (call.root && *call.root != rank) {
      // The one rank tells who belongs to it.
      const CommunicationCall* root = Find(*call.root, key);
      if (root != nullptr && root->root == call.root && contains(root->group, rank)) {
        found[call.node.name].push_back({Opposite(root->kind), {{*call.root, &root->node}}});
      }
      continue;
    }
    Partners partners = {call.kind, {}};
    partners.nodes.reserve(call.group.size());
    for (const int64_t other : call.group) {
      const CommunicationCall* partner = other == rank ? nullptr : Find(other, key);
      if (partner != nullptr) {
        partners.nodes.emplace_back(other, &partner->node);
      }
    }
    // A group that names a rank twice means it once.
    std::sort(partners.nodes.begin(), partners.nodes.end());
    partners.nodes.erase(std::unique(partners.nodes.begin(), partners.nodes.end()),
                         partners.nodes.end());
    if (!partners.nodes.empty()) {
      found[call.node.name].push_back(std::move(partners));
    }
  }
  return found;
}

}  // namespace msprobe::analysis::graph
