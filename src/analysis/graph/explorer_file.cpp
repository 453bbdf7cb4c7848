#include "src/analysis/graph/explorer_file.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/compare/summary.h"
#include "src/analysis/graph/divergence.h"
#include "src/analysis/graph/items.h"
#include "src/base/files.h"
#include "src/base/strings.h"
#include "src/json/writer.h"

namespace msprobe::analysis::graph {
namespace {

// A node names all that it stands in: many times what a model has, and the more nodes there are the
// less each of them may take.
constexpr size_t kMostNamespaces = size_t{1} << 30U;  // bytes of all nodes
constexpr size_t kShortestLimit = size_t{4} << 10U;
constexpr size_t kLongestNamespace = size_t{16} << 10U;

class ExplorerWriter {
 public:
  ExplorerWriter(base::AtomicFile& file, const RankView& view)
      : file_(file), view_(view), json_(text_, 0, json::Writer::NonFinite::kText) {}

  Status Write() {
    json_.BeginObject();
    json_.Member("label", fmt::format("step {} rank {}", view_.step, view_.rank));
    json_.Key("graphs");
    json_.BeginArray();
    MSP_RETURN_IF_ERROR(WriteGraph(view_.npu, view_.bench ? "NPU" : "graph"));
    if (view_.bench) {
      MSP_RETURN_IF_ERROR(WriteGraph(*view_.bench, "bench"));
    }
    json_.EndArray();
    json_.EndObject();
    return file_.Write(text_);
  }

 private:
  // A slash would be another level.
  static std::string LevelName(std::string_view name) { return base::ReplaceAll(name, "/", ":"); }

  // Of what stands in a node: the modules from the root down, without the root itself. Only those
  // in front of the first for which there is no room; `whole` says whether that is all.
  static std::string NamespaceOf(const Graph& graph, uint32_t node, bool* whole = nullptr) {
    const size_t most =
        std::clamp(kMostNamespaces / graph.nodes.size(), kShortestLimit, kLongestNamespace);
    std::string text;
    bool fits = true;
    for (const uint32_t above : graph.PathOf(node)) {
      if (above != kRoot) {
        const std::string_view name = graph.nodes[above].name;
        fits = text.size() + 1 + name.size() <= most;
        if (!fits) {
          break;
        }
        text += text.empty() ? "" : "/";
        text += LevelName(name);
      }
    }
    if (whole != nullptr) {
      *whole = fits;
    }
    return text;
  }

  Status WriteGraph(const SideView& side, std::string_view id) {
    const Graph& graph = side.graph;
    json_.BeginObject();
    json_.Member("id", id);
    json_.Key("nodes");
    json_.BeginArray();
    std::vector<uint32_t> modules;
    uint32_t before = kNone;
    std::vector<uint32_t> open = {kRoot};
    while (!open.empty()) {
      const uint32_t index = open.back();
      open.pop_back();
      const std::vector<uint32_t>& children = graph.nodes[index].children;
      open.insert(open.end(), children.rbegin(), children.rend());
      if (!children.empty() || index == kRoot) {
        modules.push_back(index);
        continue;
      }
      WriteNode(side, index, before);
      before = index;
      MSP_RETURN_IF_ERROR(Flush());
    }
    json_.EndArray();
    json_.Key("groupNodeAttributes");
    json_.BeginObject();
    for (const uint32_t index : modules) {
      bool whole = true;
      const std::string name = NamespaceOf(graph, index, &whole);
      if (!whole) {
        continue;  // what stands in it is shown in a module further up
      }
      // The root's attributes stand at the empty name.
      json_.Key(name);
      json_.BeginObject();
      ForEachAttribute(side, index, [this](std::string_view key, std::string_view value) {
        json_.Member(key, value);
      });
      json_.EndObject();
      MSP_RETURN_IF_ERROR(Flush());
    }
    json_.EndObject();
    json_.EndObject();
    return {};
  }

  Status Flush() {
    if (text_.size() > kFlushBytes) {
      MSP_RETURN_IF_ERROR(file_.Write(text_));
      text_.clear();
    }
    return {};
  }

  void WriteNode(const SideView& side, uint32_t index, uint32_t before) {
    const Node& node = side.graph.nodes[index];
    json_.BeginObject();
    json_.Member("id", node.name);
    json_.Member("label", node.name);
    json_.Member("namespace",
                 node.parent == kNone ? std::string() : NamespaceOf(side.graph, node.parent));
    json_.Key("attrs");
    json_.BeginArray();
    ForEachAttribute(side, index, [this](std::string_view key, std::string_view value) {
      json_.BeginObject();
      json_.Member("key", key);
      json_.Member("value", value);
      json_.EndObject();
    });
    json_.EndArray();
    json_.Key("incomingEdges");
    json_.BeginArray();
    if (before != kNone) {
      json_.BeginObject();
      json_.Member("sourceNodeId", side.graph.nodes[before].name);
      json_.Member("sourceNodeOutputId", "0");
      json_.Member("targetNodeInputId", "0");
      json_.EndObject();
    }
    json_.EndArray();
    json_.EndObject();
  }

  template <typename Visit>
  void ForEachAttribute(const SideView& side, uint32_t index, const Visit& visit) const {
    const Node& node = side.graph.nodes[index];
    const bool is_npu = &side == &view_.npu;
    if (is_npu && !view_.divergence.empty()) {
      const NodeDivergence& divergence = view_.divergence[index];
      if (divergence.input_error) {
        visit("standing", compare::RowStandingName(divergence.standing));
        visit("error in", compare::ErrorText(*divergence.input_error));
        visit("error out", compare::ErrorText(*divergence.output_error));
      }
      if (divergence.point != nullptr) {
        visit("origin", OriginText(divergence));
      }
    }
    if (view_.bench) {
      const SideView& other = is_npu ? *view_.bench : view_.npu;
      if (node.match != kNone) {
        visit("partner", other.graph.nodes[node.match].name);
      } else {
        visit("unmatched", WhyUnmatched(other, node));
      }
    }
    const NodeScore& score = side.scores[index];
    if (score.precision) {
      visit("precision_index", IndexText(*score.precision));
    }
    if (!score.level.empty()) {
      visit("overflow_level", score.level);
    }
    if (node.entry != kNone) {
      const compare::Side& rows = side.dump->side();
      const compare::SideEntry& entry = rows.entries[node.entry];
      for (uint32_t i = entry.first_row; i < entry.first_row + entry.row_count; ++i) {
        const compare::SideRow& row = rows.rows[i];
        if (row.is_tensor) {
          visit(row.name, fmt::format("{} {}", row.dtype, row.shape));
        }
      }
    }
    if (!node.stack.empty()) {
      visit("stack",
            base::Join(std::vector<std::string>(node.stack.begin(), node.stack.end()), "\n"));
    }
  }

  base::AtomicFile& file_;
  const RankView& view_;
  std::string text_;
  json::Writer json_;
};

}  // namespace

Status WriteExplorerFile(const std::filesystem::path& path, const RankView& view) {
  MSP_ASSIGN_OR_RETURN(base::AtomicFile file, base::AtomicFile::Create(path));
  MSP_RETURN_IF_ERROR(ExplorerWriter(file, view).Write());
  return file.Commit();
}

}  // namespace msprobe::analysis::graph
