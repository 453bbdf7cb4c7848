#include "src/analysis/recheck/messages.h"

#include <algorithm>
#include <array>

#include "src/analysis/recheck/call.h"
#include "src/dump/leaves.h"

namespace msprobe::analysis::recheck {
namespace {

using dump::EntryTree;
using dump::NodeKind;

constexpr std::array<std::string_view, 2> kSends = {"send", "isend"};
constexpr std::array<std::string_view, 2> kReceives = {"recv", "irecv"};
constexpr std::string_view kBatch = "batch_isend_irecv";

bool Is(const std::array<std::string_view, 2>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

int64_t IntegerBelow(const EntryTree& tree, uint32_t index, std::string_view key,
                     int64_t otherwise) {
  const uint32_t node = tree.Find(index, key);
  return node == EntryTree::kNone || tree[node].kind != NodeKind::kInt ? otherwise
                                                                       : tree[node].integer;
}

// The rank that has this place in a group; -1 where the dump does not tell.
int64_t RankAt(const EntryTree& tree, uint32_t group, int64_t place) {
  const uint32_t ranks =
      group == EntryTree::kNone ? EntryTree::kNone : tree.Find(group, "group_ranks");
  int64_t rank = -1;
  if (ranks != EntryTree::kNone) {
    int64_t at = 0;
    tree.ForEachChild(ranks,
                      [&](uint32_t child) { rank = at++ == place ? tree[child].integer : rank; });
  }
  return rank;
}

// send(tensor, dst, group, tag, group_dst), recv(tensor, src, group, tag, group_src)
std::vector<Message> Single(const EntryTree& tree, bool is_sent) {
  Call call(tree, {});
  Message message;
  message.is_sent = is_sent;
  if (!call.IsTensor(0, "tensor")) {
    return {};
  }
  message.tensor = call.Find(0, "tensor");
  const uint32_t group = call.Find(2, "group");
  if (group != EntryTree::kNone) {
    message.group = dump::LeafText(tree, group, "group_id");
  }
  message.peer = call.Int(1, is_sent ? "dst" : "src", -1);
  if (message.peer < 0) {
    message.peer = RankAt(tree, group, call.Int(4, is_sent ? "group_dst" : "group_src", -1));
  }
  message.tag = call.Int(3, "tag", 0);
  return call.failed() ? std::vector<Message>() : std::vector<Message>{std::move(message)};
}

// batch_isend_irecv([P2POp, ...])
std::vector<Message> Batch(const EntryTree& tree) {
  std::vector<Message> messages;
  const uint32_t list = Call(tree, {}).Find(0, "p2p_op_list");
  if (list == EntryTree::kNone || tree[list].kind != NodeKind::kList) {
    return messages;
  }
  bool is_known = true;
  tree.ForEachChild(list, [&](uint32_t child) {
    const std::string_view operation = dump::LeafText(tree, child, "op");
    Message message;
    message.is_sent = Is(kSends, operation);
    message.peer = IntegerBelow(tree, child, "peer", -1);
    message.tag = IntegerBelow(tree, child, "tag", 0);
    message.group = dump::LeafText(tree, child, "group_id");
    message.tensor = tree.Find(child, "tensor");
    is_known = is_known && message.tensor != EntryTree::kNone &&
               (message.is_sent || Is(kReceives, operation));
    messages.push_back(std::move(message));
  });
  return is_known ? messages : std::vector<Message>();
}

}  // namespace

bool IsPointToPoint(std::string_view api) {
  return Is(kSends, api) || Is(kReceives, api) || api == kBatch;
}

std::vector<Message> MessagesOf(std::string_view api, const EntryTree& forward) {
  if (api == kBatch) {
    return Batch(forward);
  }
  return Single(forward, Is(kSends, api));
}

}  // namespace msprobe::analysis::recheck
