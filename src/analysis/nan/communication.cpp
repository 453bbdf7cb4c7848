#include "src/analysis/nan/communication.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <unordered_set>

#include "src/base/strings.h"
#include "src/dump/names.h"
#include "src/dump/statistic_keys.h"

namespace msprobe::analysis::nan {
namespace {

using dump::EntryTree;
using dump::Node;
using dump::NodeKind;

// Found anywhere in a name behind "Distributed.".
constexpr std::array<std::string_view, 8> kWords = {
    "send", "recv", "broadcast", "reduce", "all_gather", "all_to_all", "scatter", "gather"};

constexpr std::array<std::string_view, 3> kSends = {"send", "isend", "send_object_list"};
constexpr std::array<std::string_view, 3> kReceives = {"recv", "irecv", "recv_object_list"};
constexpr std::array<std::string_view, 5> kRooted = {
    "broadcast", "scatter", "broadcast_object_list", "scatter_object_list", "batch_broadcast"};
constexpr std::array<std::string_view, 3> kToRoot = {"reduce", "gather", "gather_object"};

// The argument that a collective fills: its keyword, and its position where no keyword is given.
struct OutputBuffer {
  std::string_view api;
  std::string_view keyword;
  uint32_t position;
};
constexpr std::array<OutputBuffer, 10> kOutputBuffers = {{
    {"all_gather", "tensor_list", 0},
    {"all_gather_into_tensor", "output_tensor", 0},
    {"_all_gather_base", "output_tensor", 0},
    {"reduce_scatter", "output", 0},
    {"reduce_scatter_tensor", "output", 0},
    {"_reduce_scatter_base", "output", 0},
    {"all_to_all", "output_tensor_list", 0},
    {"all_to_all_single", "output", 0},
    {"gather", "gather_list", 1},
    {"scatter", "tensor", 0},
}};

BadValues BadValuesOfNode(const Node& node, double threshold) {
  if (node.kind == NodeKind::kText) {
    return BadValuesOfText(node.text);
  }
  if (node.kind != NodeKind::kFloat && node.kind != NodeKind::kInt) {
    return 0;
  }
  if (std::isnan(node.number)) {
    return kNan;
  }
  if (std::isinf(node.number)) {
    return node.number > 0 ? kPositiveInfinity : kNegativeInfinity;
  }
  return std::fabs(node.number) > threshold ? kTooLarge : BadValues{0};
}

struct TensorsBelow {
  BadValues bad = 0;
  bool any = false;
};

// Everything below a node, however deep.
TensorsBelow LookBelow(const EntryTree& tree, uint32_t root, double threshold) {
  TensorsBelow found;
  for (uint32_t index = root; index < tree[root].end; ++index) {
    const Node& node = tree[index];
    if (node.key == dump::KeyOf(dump::kMax) || node.key == dump::KeyOf(dump::kMin)) {
      found.any = true;
      found.bad |= BadValuesOfNode(node, threshold);
    }
  }
  return found;
}

std::optional<int64_t> IntegerOf(const EntryTree& tree, uint32_t index) {
  if (tree[index].kind == NodeKind::kInt) {
    return tree[index].integer;
  }
  if (tree[index].kind != NodeKind::kObject) {
    return std::nullopt;
  }
  const uint32_t type = tree.Find(index, "type");
  const uint32_t value = tree.Find(index, "value");
  if (type == EntryTree::kNone || value == EntryTree::kNone || tree[type].text != "int" ||
      tree[value].kind != NodeKind::kInt) {
    return std::nullopt;
  }
  return tree[value].integer;
}

class CallReader {
 public:
  CallReader(const EntryTree& tree, bool returns_results, double threshold)
      : tree_(tree),
        returns_results_(returns_results),
        threshold_(threshold),
        arguments_(Member("input_args")),
        keywords_(Member("input_kwargs")),
        output_(Member("output")) {}

  CommunicationCall Read(std::string_view api) {
    CommunicationCall call;
    call.channel.api = api;
    call.output = Below(output_).bad;
    ReadGroup(call);
    if (api == "batch_isend_irecv") {
      call.is_point_to_point = true;
      ReadBatch(call);
    } else if (base::IsOneOf(api, kSends) || base::IsOneOf(api, kReceives)) {
      call.is_point_to_point = true;
      ReadTransfer(call);
    } else {
      ReadCollective(call);
    }
    return call;
  }

 private:
  uint32_t Member(std::string_view key) const {
    return tree_.size() > 0 && tree_[0].kind == NodeKind::kObject ? tree_.Find(0, key)
                                                                  : EntryTree::kNone;
  }

  TensorsBelow Below(uint32_t index) const {
    return index == EntryTree::kNone ? TensorsBelow() : LookBelow(tree_, index, threshold_);
  }

  std::vector<uint32_t> Children(uint32_t index) const {
    std::vector<uint32_t> children;
    if (index != EntryTree::kNone) {
      tree_.ForEachChild(index, [&](uint32_t child) { children.push_back(child); });
    }
    return children;
  }

  uint32_t Keyword(std::string_view name) const {
    return keywords_ == EntryTree::kNone || tree_[keywords_].kind != NodeKind::kObject
               ? EntryTree::kNone
               : tree_.Find(keywords_, name);
  }

  std::optional<int64_t> KeywordInteger(std::string_view name) const {
    const uint32_t index = Keyword(name);
    return index == EntryTree::kNone ? std::nullopt : IntegerOf(tree_, index);
  }

  void ReadGroup(CommunicationCall& call) {
    for (const uint32_t part : {keywords_, arguments_}) {
      for (const uint32_t item : Children(part)) {
        if (tree_[item].kind != NodeKind::kObject) {
          continue;
        }
        if (const uint32_t ranks = tree_.Find(item, "group_ranks"); ranks != EntryTree::kNone) {
          for (const uint32_t rank : Children(ranks)) {
            if (const std::optional<int64_t> number = IntegerOf(tree_, rank)) {
              group_.push_back(*number);
            }
          }
          members_.insert(group_.begin(), group_.end());
          call.channel.group = group_;
          std::sort(call.channel.group.begin(), call.channel.group.end());
          return;
        }
      }
    }
    if (const uint32_t group = Keyword("group"); group != EntryTree::kNone) {
      const uint32_t value =
          tree_[group].kind == NodeKind::kObject ? tree_.Find(group, "value") : group;
      if (value != EntryTree::kNone && tree_[value].kind == NodeKind::kText) {
        call.channel.group_name = tree_[value].text;
      }
    }
  }

  int64_t FromGroup(int64_t local) const {
    return local >= 0 && static_cast<uint64_t>(local) < group_.size()
               ? group_[static_cast<size_t>(local)]
               : local;
  }

  // A rank given as dst or src: global, or of the group where no member has that number.
  int64_t ToGlobal(int64_t rank) const { return members_.contains(rank) ? rank : FromGroup(rank); }

  // The rank that a call names: global keyword, group keyword, then the first positional integer.
  std::optional<int64_t> NamedRank(std::string_view keyword) const {
    if (const auto rank = KeywordInteger(keyword)) {
      return ToGlobal(*rank);
    }
    const std::string word(keyword);
    for (const std::string& local : {"group_" + word, word + "_group", word + "_rank"}) {
      if (const auto rank = KeywordInteger(local)) {
        return FromGroup(*rank);
      }
    }
    for (const uint32_t item : Children(arguments_)) {
      if (const auto rank = IntegerOf(tree_, item)) {
        return ToGlobal(*rank);
      }
    }
    return std::nullopt;
  }

  void ReadTransfer(CommunicationCall& call) {
    const bool sends = base::IsOneOf(call.channel.api, kSends);
    Transfer transfer;
    transfer.kind = sends ? TransferKind::kSend : TransferKind::kReceive;
    transfer.peer = NamedRank(sends ? "dst" : "src").value_or(-1);
    transfer.data = sends ? Inputs({}).bad : BadValues{0};
    transfer.output = call.output;
    call.data = transfer.data;
    call.transfers.push_back(transfer);
  }

  // Operations stand in a list; the outputs are the same operations after the call.
  void ReadBatch(CommunicationCall& call) {
    const std::vector<uint32_t> inputs = Operations(arguments_, keywords_);
    const std::vector<uint32_t> outputs = Operations(output_, EntryTree::kNone);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const uint32_t name = tree_.Find(inputs[i], "op");
      const uint32_t peer = tree_.Find(inputs[i], "peer");
      const auto number = peer == EntryTree::kNone ? std::nullopt : IntegerOf(tree_, peer);
      if (name == EntryTree::kNone || !number) {
        continue;
      }
      Transfer transfer;
      const bool sends = tree_[name].text.find("send") != std::string_view::npos;
      transfer.kind = sends ? TransferKind::kSend : TransferKind::kReceive;
      transfer.peer = ToGlobal(*number);
      transfer.data = sends ? Below(inputs[i]).bad : BadValues{0};
      transfer.output = i < outputs.size() ? Below(outputs[i]).bad : call.output;
      call.data |= transfer.data;
      call.transfers.push_back(transfer);
    }
  }

  std::vector<uint32_t> Operations(uint32_t first, uint32_t second) const {
    std::vector<uint32_t> operations;
    for (const uint32_t part : {first, second}) {
      const uint32_t end = part == EntryTree::kNone ? 0 : tree_[part].end;
      for (uint32_t index = part; part != EntryTree::kNone && index < end; ++index) {
        if (tree_[index].kind == NodeKind::kObject && tree_.Find(index, "op") != EntryTree::kNone &&
            tree_.Find(index, "peer") != EntryTree::kNone) {
          operations.push_back(index);
        }
      }
    }
    return operations;
  }

  void ReadCollective(CommunicationCall& call) {
    if (base::IsOneOf(call.channel.api, kRooted)) {
      call.channel.contributors = Contributors::kRoot;
      call.channel.root = NamedRank("src").value_or(ToGlobal(0));
    } else if (base::IsOneOf(call.channel.api, kToRoot)) {
      call.channel.root = NamedRank("dst").value_or(ToGlobal(0));
    }
    const auto buffer =
        std::find_if(kOutputBuffers.begin(), kOutputBuffers.end(),
                     [&](const OutputBuffer& known) { return known.api == call.channel.api; });
    if (buffer == kOutputBuffers.end() || returns_results_) {
      call.data = Inputs({}).bad;
      return;
    }
    uint32_t excluded = Keyword(buffer->keyword);
    if (excluded == EntryTree::kNone) {
      const std::vector<uint32_t> items = Children(arguments_);
      if (buffer->position < items.size()) {
        excluded = items[buffer->position];
      }
    }
    // Where the dump names no other tensor, that one must be the data.
    const TensorsBelow data = Inputs(excluded);
    call.data = data.any ? data.bad : Inputs({}).bad;
  }

  // All arguments but one.
  TensorsBelow Inputs(std::optional<uint32_t> excluded) const {
    TensorsBelow all;
    for (const uint32_t part : {arguments_, keywords_}) {
      for (const uint32_t item : Children(part)) {
        if (item != excluded) {
          const TensorsBelow below = Below(item);
          all.bad |= below.bad;
          all.any = all.any || below.any;
        }
      }
    }
    return all;
  }

  const EntryTree& tree_;
  const bool returns_results_;
  const double threshold_;
  const uint32_t arguments_;
  const uint32_t keywords_;
  const uint32_t output_;
  std::unordered_set<int64_t> members_;  // of the group
  std::vector<int64_t> group_;           // as listed: a rank of the group is a place in it
};

}  // namespace

bool IsCommunication(std::string_view entry_name) {
  if ((!entry_name.starts_with("Distributed.") && !entry_name.starts_with("MintDistributed.")) ||
      entry_name.find(".forward") == std::string_view::npos) {
    return false;
  }
  const std::string_view rest = entry_name.substr(entry_name.find('.') + 1);
  return std::any_of(kWords.begin(), kWords.end(), [rest](std::string_view word) {
    return rest.find(word) != std::string_view::npos;
  });
}

CommunicationCall ReadCommunication(std::string_view entry_name, const EntryTree& entry,
                                    bool is_mindspore, double threshold) {
  const bool returns_results = is_mindspore && entry_name.starts_with("Distributed.");
  return CallReader(entry, returns_results, threshold)
      .Read(dump::ParseEntryName(entry_name).subject);
}

}  // namespace msprobe::analysis::nan
