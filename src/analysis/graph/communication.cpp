#include "src/analysis/graph/communication.h"

#include <optional>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

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

// A transfer or a part of a collective, as one rank tells it.
struct Call {
  uint32_t node = kNone;
  std::string partner_key;      // of a point-to-point call: what the other side is called
  std::optional<int64_t> peer;  // its rank
  std::vector<int64_t> group;   // of a collective
  std::optional<int64_t> root;  // of a one-to-many collective
  std::string_view kind;
  bool is_point_to_point = false;
};

std::string_view Opposite(std::string_view kind) {
  return kind == kSend ? kReceive : kind == kReceive ? kSend : kBoth;
}

class RankCalls {
 public:
  explicit RankCalls(const RankGraph& rank) : rank_(rank) {}

  Status Read() {
    for (uint32_t node = 0; node < rank_.graph->nodes.size(); ++node) {
      const Node& call = rank_.graph->nodes[node];
      if (call.entry != kNone && IsCommunicationName(call.name)) {
        MSP_ASSIGN_OR_RETURN(const EntryTree tree, rank_.dump->ReadEntry(call.entry));
        Add(node, call, tree);
      }
    }
    return {};
  }

  const std::vector<std::pair<std::string, Call>>& calls() const { return calls_; }
  const Call* Find(const std::string& key) const {
    const auto found = index_.find(key);
    return found == index_.end() ? nullptr : &calls_[found->second].second;
  }
  const RankGraph& rank() const { return rank_; }

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

  // The row whose name ends with an argument's.
  const SideRow* RowOf(const Node& call, std::string_view argument) const {
    const compare::Side& side = rank_.dump->side();
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
    Call call;
    call.node = node;
    call.is_point_to_point = true;
    call.peer = peer;
    call.kind = transfer.kind;
    call.partner_key = fmt::format("{}rank{}_{}", transfer.counterpart, rank_.rank, count);
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
      Call call;
      call.node = node;
      call.is_point_to_point = true;
      call.peer = other;
      call.kind = transfer->kind;
      call.partner_key =
          fmt::format("{}_rank{}_{}_{}", transfer->counterpart, rank_.rank, group, count);
      Keep(fmt::format("{}_rank{}_{}_{}", op, other, group, count), std::move(call));
    });
  }

  void AddCollective(uint32_t node, const Node& name, std::string_view api, const EntryTree& tree) {
    const SideRow* group = RowOf(name, ".input.group");
    if (group == nullptr || group->leaf >= tree.size() ||
        tree[group->leaf].kind != NodeKind::kObject) {
      return;
    }
    Call call;
    call.node = node;
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

  void Keep(std::string key, Call call) {
    index_.emplace(key, calls_.size());
    calls_.emplace_back(std::move(key), std::move(call));
  }

  const RankGraph rank_;
  std::vector<std::pair<std::string, Call>> calls_;
  std::unordered_map<std::string, size_t> index_;
  std::unordered_map<std::string, size_t> counts_;
};

// Whether the first outputs of two calls tell the same.
bool SameFirstOutput(const RankGraph& a, uint32_t a_node, const RankGraph& b, uint32_t b_node) {
  const auto first_output = [](const RankGraph& rank, uint32_t node) -> const SideRow* {
    const compare::Side& side = rank.dump->side();
    const compare::SideEntry& entry = side.entries[rank.graph->nodes[node].entry];
    for (uint32_t i = entry.first_row; i < entry.first_row + entry.row_count; ++i) {
      if (side.rows[i].name.ends_with(".output.0")) {
        return &side.rows[i];
      }
    }
    return nullptr;
  };
  const SideRow* x = first_output(a, a_node);
  const SideRow* y = first_output(b, b_node);
  if (x == nullptr || y == nullptr) {
    return x == y;
  }
  if (x->dtype != y->dtype || x->shape != y->shape) {
    return false;
  }
  for (size_t i = 0; i < compare::kStatCount; ++i) {
    if (x->stats[i].kind != y->stats[i].kind || x->stats[i].number != y->stats[i].number ||
        x->stats[i].text != y->stats[i].text) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool IsCommunicationName(std::string_view node_name) {
  return node_name.starts_with("Distributed");
}

Result<std::vector<PartnersOfNodes>> FindPartners(std::span<const RankGraph> ranks,
                                                  Edition edition) {
  std::vector<RankCalls> all;
  all.reserve(ranks.size());
  std::unordered_map<int64_t, size_t> place_of_rank;
  for (const RankGraph& rank : ranks) {
    place_of_rank.emplace(rank.rank, all.size());
    MSP_RETURN_IF_ERROR(all.emplace_back(rank).Read());
  }
  std::vector<PartnersOfNodes> found(ranks.size());
  for (size_t place = 0; place < all.size(); ++place) {
    const RankGraph& own = all[place].rank();
    for (const auto& [key, call] : all[place].calls()) {
      if (call.is_point_to_point) {
        const auto other = place_of_rank.find(*call.peer);
        const Call* partner =
            other == place_of_rank.end() ? nullptr : all[other->second].Find(call.partner_key);
        if (partner != nullptr &&
            (edition == Edition::k26 ||
             SameFirstOutput(own, call.node, all[other->second].rank(), partner->node))) {
          found[place][call.node].push_back({call.kind, {{*call.peer, partner->node}}});
        }
        continue;
      }
      if (call.root && *call.root != own.rank) {
        continue;  // told by that rank
      }
      Partners partners = {call.kind, {}};
      for (const int64_t rank : call.group) {
        const auto other = place_of_rank.find(rank);
        if (rank == own.rank || other == place_of_rank.end()) {
          continue;
        }
        if (const Call* partner = all[other->second].Find(key)) {
          partners.nodes.emplace(rank, partner->node);
          if (call.root) {
            found[other->second][partner->node].push_back(
                {Opposite(call.kind), {{own.rank, call.node}}});
          }
        }
      }
      if (!partners.nodes.empty()) {
        found[place][call.node].push_back(std::move(partners));
      }
    }
  }
  return found;
}

}  // namespace msprobe::analysis::graph
