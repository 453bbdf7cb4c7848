// A merged entry is written from the JSON of the rank that recorded it, with some statistics and
// shapes exchanged, or with a whole part from another rank.
#include "src/analysis/graph/merged_dump.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/graph/build.h"
#include "src/analysis/graph/items.h"
#include "src/analysis/graph/step_views.h"
#include "src/base/files.h"
#include "src/dump/entry_tree.h"
#include "src/dump/layout.h"
#include "src/json/writer.h"

namespace msprobe::analysis::graph {
namespace {

// The node of that name below `above`, made if it is not there.
uint32_t CollectionOf(MergedModel& model, const std::string& name, uint32_t above) {
  uint32_t node = model.graph.Find(name);
  if (node == kNone) {
    node = model.graph.Add(name, NodeType::kCollection);
    model.contents.emplace_back();
    model.graph.Attach(node, above);
  }
  return node;
}

std::string AllRanksName(std::string_view number) {
  return fmt::format("{}_All_Ranks.{}", kCollectionName, number);
}

}  // namespace

std::string NameWithRank(std::string_view call, int64_t rank) {
  const size_t first = call.find('.');
  const size_t second = first == call.npos ? first : call.find('.', first + 1);
  const size_t at = std::min(second, call.size());
  return fmt::format("{}_rank{}{}", call.substr(0, at), rank, call.substr(at));
}

std::vector<RankCollection> DetachCollections(MergedModel& model, int64_t rank, bool keep_places) {
  std::vector<RankCollection> found;
  const std::vector<uint32_t> children = model.graph.nodes[kRoot].children;
  std::vector<uint32_t> kept;
  for (const uint32_t child : children) {
    if (model.graph.nodes[child].type != NodeType::kCollection) {
      kept.push_back(child);
      continue;
    }
    RankCollection& collection = found.emplace_back();
    const std::string_view name = model.graph.nodes[child].name;
    collection.rank = rank;
    collection.number = name.substr(name.rfind('.') + 1);
    for (const uint32_t call : model.graph.nodes[child].children) {
      const Node& node = model.graph.nodes[call];
      collection.calls.push_back({std::string(node.name), node.stack, model.contents[call]});
    }
    if (keep_places) {
      const uint32_t place =
          model.graph.Add(AllRanksName(collection.number), NodeType::kCollection);
      model.graph.nodes[place].parent = kRoot;
      model.contents.emplace_back();
      kept.push_back(place);
    }
  }
  model.graph.nodes[kRoot].children = std::move(kept);
  return found;
}

void AttachCollections(MergedModel& whole, std::vector<RankCollection> collections, int64_t lead) {
  std::stable_sort(collections.begin(), collections.end(),
                   [](const auto& a, const auto& b) { return a.rank < b.rank; });
  for (RankCollection& collection : collections) {
    const uint32_t all = CollectionOf(whole, AllRanksName(collection.number), kRoot);
    const uint32_t own = CollectionOf(
        whole, fmt::format("{}_Rank{}.{}", kCollectionName, collection.rank, collection.number),
        all);
    for (CollectedCall& call : collection.calls) {
      const std::string name =
          collection.rank == lead ? call.name : NameWithRank(call.name, collection.rank);
      uint32_t node = whole.graph.Find(name);
      if (node == kNone) {
        node = whole.graph.Add(name, NodeType::kApi);
        whole.contents.emplace_back();
      }
      whole.graph.nodes[node].stack = call.stack;
      whole.contents[node] = std::move(call.content);
      whole.contents[node].bare = collection.rank != lead;
      whole.graph.Attach(node, own);
    }
  }
}

namespace {

using compare::SideRow;
using dump::EntryTree;
using dump::NodeKind;

constexpr std::string_view kParametersKey = "parameters";
constexpr double kSameShare = 1e-6;  // of Mean and Norm

void PutStatistic(json::Writer& json, const compare::StatValue& value) {
  switch (value.kind) {
    case compare::StatKind::kInteger:
      json.Int(value.integer());
      break;
    case compare::StatKind::kNumber:
      json.Float(value.number);
      break;
    case compare::StatKind::kBool:
      json.Bool(value.boolean);
      break;
    case compare::StatKind::kText:
      json.Text(value.text());
      break;
    case compare::StatKind::kNone:
      json.Null();
      break;
  }
}

// "input.0" of "Torch.add.0.forward.input.0"
std::string_view ItemOf(const SideRow& row, const compare::SideEntry& entry) {
  const std::string_view name = row.name;
  const std::string_view own = entry.name;
  return name.size() > own.size() && name.starts_with(own) ? name.substr(own.size() + 1) : name;
}

// The members of one entry.
class EntryWriter {
 public:
  EntryWriter(const MergedContent& content, MergedFor purpose, json::Writer& json)
      : content_(content), purpose_(purpose), json_(json) {}

  Status Write() {
    MSP_ASSIGN_OR_RETURN(const EntryTree tree, content_.dump->ReadEntry(content_.entry));
    if (tree[0].kind != NodeKind::kObject) {
      dump::WriteTree(tree, 0, json_);
      return {};
    }
    json_.BeginObject();
    Status status;
    tree.ForEachChild(0, [&](uint32_t member) {
      const std::string_view key = tree[member].key;
      const bool dropped =
          content_.bare && purpose_ == MergedFor::kExport &&
          (key == kParametersKey || (key == "input_kwargs" && tree[member].child_count == 0));
      if (dropped || !status.ok()) {
        return;
      }
      json_.Key(content_.bare && key == "input" ? "input_args" : key);
      const auto other = content_.parts.find(std::string(key.substr(0, key.find('_'))));
      if (other == content_.parts.end()) {
        WritePart(content_.dump->side(), content_.entry, tree, member);
      } else {
        status = WriteOther(*other->second.first, other->second.second, key);
      }
    });
    MSP_RETURN_IF_ERROR(std::move(status));
    if (!content_.info.empty()) {
      json_.Member("parallel_merge_info", content_.info);
    }
    json_.EndObject();
    return {};
  }

 private:
  Status WriteOther(const RankDump& dump, uint32_t entry, std::string_view key) {
    MSP_ASSIGN_OR_RETURN(const EntryTree tree, dump.ReadEntry(entry));
    const uint32_t member = tree.Find(0, key);
    if (member == EntryTree::kNone) {
      json_.Null();
    } else {
      WritePart(dump.side(), entry, tree, member);
    }
    return {};
  }

  // The entry of this or of another rank, whose rows are those of the same item here.
  void WritePart(const compare::Side& side, uint32_t entry, const EntryTree& tree,
                 uint32_t member) {
    rows_.clear();
    const compare::SideEntry& range = side.entries[entry];
    for (uint32_t row = 0; row < range.row_count; ++row) {
      const SideRow& about = side.rows[range.first_row + row];
      const std::optional<uint32_t> own =
          &side == &content_.dump->side() ? row : content_.RowOf(ItemOf(about, range));
      rows_.emplace(about.leaf, WrittenRow{&about, own});
    }
    WriteNode(tree, member);
  }

  // As deep as the parser allows.
  void WriteNode(const EntryTree& tree, uint32_t node) {
    if (const auto row = rows_.find(node);
        row != rows_.end() && tree[node].kind == NodeKind::kObject) {
      WriteLeaf(*row->second.row, row->second.own, tree, node);
      return;
    }
    if (tree[node].kind == NodeKind::kObject) {
      json_.BeginObject();
      tree.ForEachChild(node, [&](uint32_t child) {
        json_.Key(tree[child].key);
        WriteNode(tree, child);
      });
      json_.EndObject();
    } else if (tree[node].kind == NodeKind::kList) {
      json_.BeginArray();
      tree.ForEachChild(node, [&](uint32_t child) { WriteNode(tree, child); });
      json_.EndArray();
    } else {
      dump::WriteTree(tree, node, json_);
    }
  }

  void WriteLeaf(const SideRow& row, std::optional<uint32_t> own, const EntryTree& tree,
                 uint32_t node) {
    const auto changed = own ? content_.changed.find(*own) : content_.changed.end();
    const bool keeps = row.state == dump::RowState::kParameters && purpose_ == MergedFor::kExport;
    json_.BeginObject();
    tree.ForEachChild(node, [&](uint32_t child) {
      json_.Key(tree[child].key);
      if (tree[child].key == kShapeKey && WriteShape(own)) {
        json_.Key(kLocalShapeKey);
      }
      if (changed != content_.changed.end() && !keeps) {
        for (size_t stat = 0; stat < compare::kStatCount; ++stat) {
          if (tree[child].key == dump::kStatisticKeys[stat]) {
            PutStatistic(json_, changed->second[stat]);
            return;
          }
        }
      }
      dump::WriteTree(tree, child, json_);
    });
    // Values that are not numbers are written as texts.
    if (!row.is_tensor && row.stats[compare::kMax].kind == compare::StatKind::kText) {
      for (size_t stat = 0; stat < compare::kStatCount; ++stat) {
        if (tree.Find(node, dump::kStatisticKeys[stat]) == EntryTree::kNone) {
          json_.Member(dump::kStatisticKeys[stat], row.stats[stat].text());
        }
      }
      if (content_.bare && purpose_ == MergedFor::kExport) {
        json_.Member("dtype", row.type);
        json_.Key("shape");
        json_.BeginArray();
        json_.EndArray();
      }
    }
    json_.EndObject();
  }

  const MergedContent& content_;
  const MergedFor purpose_;
  json::Writer& json_;
  // The shape of the whole, where it is known.
  bool WriteShape(std::optional<uint32_t> own) {
    const auto whole = own ? content_.shapes.find(*own) : content_.shapes.end();
    if (whole == content_.shapes.end() || purpose_ == MergedFor::kExport) {
      return false;
    }
    json_.Array(whole->second, [&](const int64_t size) { json_.Int(size); });
    return true;
  }

  struct WrittenRow {
    const SideRow* row;
    std::optional<uint32_t> own;  // the row of content_ with its statistics; none: unchanged
  };
  std::unordered_map<uint32_t, WrittenRow> rows_;  // by leaf
};

Status WriteConstruct(const MergedModel& model, const std::vector<uint32_t>& order,
                      const std::filesystem::path& path) {
  std::string text;
  json::Writer json(text, 1);
  json.BeginObject();
  for (const uint32_t index : order) {
    const Node& node = model.graph.nodes[index];
    if (index != kRoot) {
      json.Member(node.name, model.graph.nodes[node.parent].name);
    }
  }
  json.EndObject();
  return base::WriteFileAtomically(path, text);
}

Status WriteStacks(const MergedModel& model, const std::vector<uint32_t>& order,
                   const std::filesystem::path& path) {
  struct Stack {
    std::vector<std::string> names;
    std::span<const std::string> lines;
  };
  std::vector<Stack> stacks;
  std::unordered_map<std::string, size_t> known;
  for (const uint32_t index : order) {
    const Node& node = model.graph.nodes[index];
    if (node.stack.empty()) {
      continue;
    }
    std::string key;
    for (const std::string& line : node.stack) {
      key += line;
      key += '\0';
    }
    const auto [place, added] = known.try_emplace(std::move(key), stacks.size());
    if (added) {
      stacks.push_back({{}, node.stack});
    }
    stacks[place->second].names.emplace_back(node.name);
  }
  std::string text;
  json::Writer json(text, 1);
  json.BeginObject();
  for (size_t i = 0; i < stacks.size(); ++i) {
    json.Key(std::to_string(i));
    json.BeginArray();
    json.Array(stacks[i].names, [&](const std::string& name) { json.Text(name); });
    json.Array(stacks[i].lines, [&](const std::string& line) { json.Text(line); });
    json.EndArray();
  }
  json.EndObject();
  return base::WriteFileAtomically(path, text);
}

}  // namespace

bool IsNumeric(const Statistics& stats) {
  return std::all_of(stats.begin(), stats.end(),
                     [](const compare::StatValue& value) { return value.is_numeric(); });
}

bool SameStatistics(const Statistics& a, const Statistics& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    const bool exact = i == compare::kMax || i == compare::kMin;
    const double scale = std::max(std::abs(a[i].number), std::abs(b[i].number));
    const bool same = exact ? a[i].number == b[i].number
                            : std::abs(a[i].number - b[i].number) <= kSameShare * scale;
    if (!same && !(std::isnan(a[i].number) && std::isnan(b[i].number))) {
      return false;
    }
  }
  return true;
}

const SideRow& MergedContent::Row(uint32_t row) const {
  return dump->side().rows[dump->side().entries[entry].first_row + row];
}

const SideRow& MergedContent::Source(uint32_t row) const {
  const auto other = taken.find(row);
  return other == taken.end() ? Row(row) : *other->second;
}

std::string_view MergedContent::ItemName(uint32_t row) const {
  return ItemOf(Row(row), dump->side().entries[entry]);
}

Statistics MergedContent::StatisticsOf(uint32_t row) const {
  const auto found = changed.find(row);
  return found == changed.end() ? Row(row).stats : found->second;
}

std::optional<uint32_t> MergedContent::RowOf(std::string_view item) const {
  for (uint32_t row = 0; row < RowCount(); ++row) {
    if (ItemName(row) == item) {
      return row;
    }
  }
  return std::nullopt;
}

std::optional<Statistics> MergedContent::Find(std::string_view item) const {
  const std::optional<uint32_t> row = RowOf(item);
  return row ? std::optional(StatisticsOf(*row)) : std::nullopt;
}

void MergedContent::TakeFrom(const MergedContent& other, const std::string& part) {
  parts[part] = {other.dump, other.entry};
  for (uint32_t row = 0; row < RowCount(); ++row) {
    if (!ItemName(row).starts_with(part + ".")) {
      continue;
    }
    if (const std::optional<uint32_t> source = other.RowOf(ItemName(row))) {
      changed[row] = other.StatisticsOf(*source);
      taken[row] = &other.Source(*source);
    }
  }
}

MergedModel MergedModel::Of(const RankDump& dump, int64_t rank,
                            std::vector<std::string>& warnings) {
  MergedModel model;
  model.graph = BuildGraph(dump, {}, warnings);
  for (const Node& node : model.graph.nodes) {
    MergedContent& content = model.contents.emplace_back();
    content.dump = &dump;
    content.entry = node.entry;
    content.rank = rank;
  }
  return model;
}

Status WriteMergedDump(const MergedModel& model, MergedFor purpose,
                       const std::filesystem::path& folder) {
  MSP_RETURN_IF_ERROR(base::CreateFolders(folder));
  const std::vector<uint32_t> order = model.graph.PostOrder();
  std::string text;
  json::Writer json(text, 1);
  MSP_ASSIGN_OR_RETURN(base::AtomicFile file,
                       base::AtomicFile::Create(folder / dump::kDumpFileName));
  const dump::DumpHeader& header = model.contents.front().dump->side().header;
  json.BeginObject();
  const auto optional_text = [&json](std::string_view key,
                                     const std::optional<std::string>& value) {
    json.Member(key, value);
  };
  optional_text("task", header.task);
  optional_text("level", header.level);
  optional_text("framework", header.framework);
  optional_text("dump_data_dir", std::nullopt);  // tensors are not merged
  json.Member("is_merged", true);
  json.Key("data");
  json.BeginObject();
  for (const uint32_t index : order) {
    if (model.contents[index].entry != kNone) {
      json.Key(model.graph.nodes[index].name);
      MSP_RETURN_IF_ERROR(EntryWriter(model.contents[index], purpose, json).Write());
    }

    if (text.size() > kFlushBytes) {
      MSP_RETURN_IF_ERROR(file.Write(text));
      text.clear();
    }
  }
  json.EndObject();
  json.EndObject();
  MSP_RETURN_IF_ERROR(file.Write(text));
  MSP_RETURN_IF_ERROR(file.Commit());
  MSP_RETURN_IF_ERROR(WriteConstruct(model, order, folder / dump::kConstructFileName));
  return WriteStacks(model, order, folder / dump::kStackFileName);
}

}  // namespace msprobe::analysis::graph
