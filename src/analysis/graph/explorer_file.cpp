// The three formats with a file per rank: Perfetto's trace events, .vis of 8.1.1, Model Explorer.
#include "src/analysis/graph/explorer_file.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/compare/summary.h"
#include "src/analysis/graph/items.h"
#include "src/analysis/graph/step_views.h"
#include "src/base/files.h"
#include "src/base/strings.h"
#include "src/base/threads.h"
#include "src/json/writer.h"

namespace msprobe::analysis::graph {
namespace {

constexpr int64_t kNpuThread = 1;
constexpr int64_t kBenchThread = 2;

// When nodes begin and end, in calls.
struct Times {
  std::vector<int64_t> begin;
  std::vector<int64_t> end;
};

Times TimesOf(const Graph& graph) {
  Times times;
  times.begin.resize(graph.nodes.size());
  times.end.resize(graph.nodes.size());
  int64_t now = 0;
  // Children come before their parents.
  for (const uint32_t node : graph.PostOrder()) {
    const std::vector<uint32_t>& children = graph.nodes[node].children;
    times.begin[node] = children.empty() ? now : times.begin[children.front()];
    now += children.empty() ? 1 : 0;
    times.end[node] = now;
  }
  return times;
}

class TraceWriter {
 public:
  TraceWriter(base::AtomicFile& file, const RankView& view)
      : file_(file), view_(view), json_(text_, 0, json::Writer::NonFinite::kText) {}

  Status Write() {
    json_.BeginObject();
    json_.Key("traceEvents");
    json_.BeginArray();
    Name("process_name", kNpuThread, fmt::format("step {} rank {}", view_.step, view_.rank));
    Name("thread_name", kNpuThread, view_.bench ? "test" : "calls");
    if (view_.bench) {
      Name("thread_name", kBenchThread, "reference");
    }
    MSP_RETURN_IF_ERROR(WriteSide(view_.npu, kNpuThread));
    if (view_.bench) {
      MSP_RETURN_IF_ERROR(WriteSide(*view_.bench, kBenchThread));
    }
    json_.EndArray();
    json_.Member("displayTimeUnit", "ns");
    json_.EndObject();
    return file_.Write(text_);
  }

 private:
  void Begin(std::string_view phase, std::string_view name, int64_t thread) {
    json_.BeginObject();
    json_.Member("ph", phase);
    json_.Member("name", name);
    json_.Member("pid", view_.rank);
    json_.Member("tid", thread);
  }

  void Name(std::string_view what, int64_t thread, std::string_view name) {
    Begin("M", what, thread);
    json_.Object("args", [&] { json_.Member("name", name); });
    json_.EndObject();
  }

  Status WriteSide(const SideView& side, int64_t thread) {
    const Times times = TimesOf(side.graph);
    std::vector<uint32_t> open = {kRoot};
    while (!open.empty()) {
      const uint32_t node = open.back();
      open.pop_back();
      const std::vector<uint32_t>& children = side.graph.nodes[node].children;
      open.insert(open.end(), children.rbegin(), children.rend());
      WriteNode(side, node, thread, times.begin[node], times.end[node]);
      if (text_.size() > kFlushBytes) {
        MSP_RETURN_IF_ERROR(file_.Write(text_));
        text_.clear();
      }
    }
    return {};
  }

  void WriteNode(const SideView& side, uint32_t index, int64_t thread, int64_t begin, int64_t end) {
    const Node& node = side.graph.nodes[index];
    Begin("X", node.name, thread);
    json_.Member("cat", node.type == NodeType::kApi ? "call" : "module");
    json_.Member("ts", begin);
    json_.Member("dur", end - begin);
    json_.Key("args");
    json_.BeginObject();
    const bool is_npu = thread == kNpuThread;
    const NodeDivergence* divergence =
        is_npu && !view_.divergence.empty() ? &view_.divergence[index] : nullptr;
    if (divergence != nullptr && divergence->input_error) {
      json_.Member("standing", compare::RowStatusName(divergence->standing));
      json_.Member("error in", compare::ErrorText(*divergence->input_error));
      json_.Member("error out", compare::ErrorText(*divergence->output_error));
    }
    if (divergence != nullptr && divergence->point != nullptr) {
      json_.Member("origin", OriginText(*divergence));
    }
    if (view_.bench && node.match == kNone) {
      json_.Member("unmatched", WhyUnmatched(is_npu ? *view_.bench : view_.npu, node));
    }
    if (!node.stack.empty()) {
      json_.Member("stack", node.stack.front());
    }
    json_.EndObject();
    json_.EndObject();
    if (divergence != nullptr && node.children.empty() && divergence->input_error) {
      WriteErrors(*divergence, begin);
    }
  }

  // A counter knows finite numbers only: infinite ones are at the call.
  void WriteErrors(const NodeDivergence& node, int64_t time) {
    Begin("C", "error", kNpuThread);
    json_.Member("ts", time);
    json_.Key("args");
    json_.BeginObject();
    for (const auto& [name, error] :
         {std::pair("in", *node.input_error), std::pair("out", *node.output_error)}) {
      if (std::isfinite(error)) {
        json_.Member(name, error);
      }
    }
    json_.EndObject();
    json_.EndObject();
  }

  base::AtomicFile& file_;
  const RankView& view_;
  std::string text_;
  json::Writer json_;
};

}  // namespace

Status WriteTraceFile(const std::filesystem::path& path, const RankView& view) {
  MSP_ASSIGN_OR_RETURN(base::AtomicFile file, base::AtomicFile::Create(path));
  MSP_RETURN_IF_ERROR(TraceWriter(file, view).Write());
  return file.Commit();
}

namespace {

constexpr int kIndent = 4;
constexpr size_t kNodeDepth = 3;  // of a comparison: the file, the side, its nodes

// The nodes of a side as text, for one thread.
class NodeWriter {
 public:
  NodeWriter(const RankView& view, const SideView& side)
      : view_(view),
        side_(side),
        other_(!view.bench          ? nullptr
               : &side == &view.npu ? &*view.bench
                                    : &view.npu),
        is_npu_(&side == &view.npu),
        items_(*side.dump, Edition::kV8, view.mode == compare::CompareMode::kMd5) {}

  // Members of the object that holds the nodes; a comma comes before all but the first.
  Status Write(uint32_t first, uint32_t end, std::string& text) {
    const size_t depth = view_.bench ? kNodeDepth : kNodeDepth - 1;
    for (uint32_t node = first; node < end; ++node) {
      text += node == 0 ? "\n" : ",\n";
      text.append(depth * kIndent, ' ');
      json::Writer json(text, kIndent, json::Writer::NonFinite::kPython, depth);
      MSP_RETURN_IF_ERROR(WriteNode(node, json));
    }
    return {};
  }

 private:
  Status WriteNode(uint32_t index, json::Writer& json) {
    const Node& node = side_.graph.nodes[index];
    MSP_RETURN_IF_ERROR(items_.Open(node.entry));
    ComparedRows compared;
    if (is_npu_ && view_.result && node.match != kNone) {
      compared = {&view_.bench->dump->side(), &*view_.result};
    }
    json.Key(node.name);
    json.BeginObject();
    json.Member("id", node.name);
    json.Member("node_type", static_cast<int>(node.type));
    json.Key("output_data");
    items_.Write(/*outputs=*/true, compared, json);
    json.Key("input_data");
    items_.Write(/*outputs=*/false, compared, json);
    json.Member("upnode", node.parent == kNone ? "None" : side_.graph.nodes[node.parent].name);
    json.Array("subnodes", node.children,
               [&](const uint32_t child) { json.Text(side_.graph.nodes[child].name); });
    json.Key("matched_node_link");
    WriteMatchedLink(other_ == nullptr ? side_.graph : other_->graph,
                     other_ == nullptr ? kNone : node.match, json);
    json.Object("suggestions", [&] {
      if (other_ != nullptr && node.match == kNone) {
        json.Member("unmatched", WhyUnmatched(*other_, node));
      }
      if (is_npu_ && !view_.divergence.empty()) {
        WriteDivergence(view_.divergence[index], json);
      }
    });
    json.Member("stack_info", node.stack);
    if (node.micro_step) {
      json.Member("micro_step_id", *node.micro_step);
    }
    WriteData(index, json);
    if (const std::vector<Partners>* partners = side_.PartnersOf(node)) {
      json.Key("matched_distributed");
      WritePartners(*partners, json);
    }
    json.EndObject();
    return {};
  }

  static void WriteDivergence(const NodeDivergence& node, json::Writer& json) {
    if (node.standing == compare::RowStatus::kDrifts ||
        node.standing == compare::RowStatus::kDiffers) {
      json.Member("divergence", fmt::format("{}: error {} in, {} out (relative)",
                                            compare::RowStatusName(node.standing),
                                            compare::ErrorText(node.input_error.value_or(0)),
                                            compare::ErrorText(node.output_error.value_or(0))));
    }
    if (node.point != nullptr) {
      json.Member("origin", OriginText(node));
    }
  }

  void WriteData(uint32_t index, json::Writer& json) {
    json.Key("data");
    json.BeginObject();
    const NodeScore& score = side_.scores[index];
    if (score.precision) {
      json.Key("precision_index");
      json.Raw(IndexText(*score.precision));
      if (view_.mode == compare::CompareMode::kMd5 &&
          side_.graph.nodes[index].type != NodeType::kCollection) {
        json.Member("Result", score.sums_differ ? "Different" : "pass");
      }
    }
    if (!score.level.empty()) {
      json.Member("overflow_level", score.level);
    }
    json.EndObject();
  }

  const RankView& view_;
  const SideView& side_;
  const SideView* const other_;  // null: build only
  const bool is_npu_;
  ItemWriter items_;
};

class VisWriter {
 public:
  VisWriter(base::AtomicFile& file, const RankView& view, bool with_levels, base::ThreadPool& pool)
      : file_(file), view_(view), with_levels_(with_levels), pool_(pool), json_(text_, kIndent) {}

  Status Write() {
    json_.BeginObject();
    if (view_.bench) {
      json_.Key("NPU");
      json_.BeginObject();
      MSP_RETURN_IF_ERROR(WriteSide(view_.npu));
      json_.EndObject();
      json_.Key("Bench");
      json_.BeginObject();
      MSP_RETURN_IF_ERROR(WriteSide(*view_.bench));
      json_.EndObject();
      json_.Member("ToolTip", ToolTip(view_.mode));
      json_.Key("Colors");
      WriteColors(view_.mode, Edition::kV8, json_);
    } else {
      MSP_RETURN_IF_ERROR(WriteSide(view_.npu));
    }
    json_.Member("MicroSteps", view_.npu.graph.micro_step_count);
    if (view_.bench) {
      json_.Member("task", TaskName(view_.mode));
    }
    json_.Member("OverflowCheck", with_levels_);
    json_.EndObject();
    return file_.Write(text_);
  }

 private:
  Status WriteSide(const SideView& side) {
    json_.Member("root", kRootName);
    json_.Member("dump_data_dir", side.dump->side().header.dump_data_dir);
    json_.Key("node");
    json_.Raw("{");
    MSP_RETURN_IF_ERROR(WriteNodes(side));
    text_ += '\n';
    text_.append((view_.bench ? kNodeDepth - 1 : kNodeDepth - 2) * kIndent, ' ');
    text_ += '}';
    return {};
  }

  Status WriteNodes(const SideView& side) {
    MSP_RETURN_IF_ERROR(file_.Write(text_));
    text_.clear();
    std::vector<NodeWriter> writers;
    writers.reserve(pool_.thread_count());
    for (size_t thread = 0; thread < pool_.thread_count(); ++thread) {
      writers.emplace_back(view_, side);
    }
    const size_t count = side.graph.nodes.size();
    return base::MakeInOrder<std::string>(
        pool_, (count + kBlockNodes - 1) / kBlockNodes,
        [&](size_t block, size_t worker, std::string& text) -> Status {
          text.clear();
          const size_t first = block * kBlockNodes;
          return writers[worker].Write(static_cast<uint32_t>(first),
                                       static_cast<uint32_t>(std::min(first + kBlockNodes, count)),
                                       text);
        },
        [this](std::string& text) { return file_.Write(text); });
  }

  base::AtomicFile& file_;
  const RankView& view_;
  const bool with_levels_;
  base::ThreadPool& pool_;
  std::string text_;
  json::Writer json_;
};

}  // namespace

Status WriteVisFile(const std::filesystem::path& path, const RankView& view, bool with_levels,
                    base::ThreadPool& pool) {
  MSP_ASSIGN_OR_RETURN(base::AtomicFile file, base::AtomicFile::Create(path));
  MSP_RETURN_IF_ERROR(VisWriter(file, view, with_levels, pool).Write());
  return file.Commit();
}

namespace {

// A node names everything around it: many times what a model has, and the more nodes there are the
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
    MSP_RETURN_IF_ERROR(WriteGraph(view_.npu, view_.bench ? "test" : "graph"));
    if (view_.bench) {
      MSP_RETURN_IF_ERROR(WriteGraph(*view_.bench, "reference"));
    }
    json_.EndArray();
    json_.EndObject();
    return file_.Write(text_);
  }

 private:
  // A slash would be another level.
  static std::string LevelName(std::string_view name) { return base::ReplaceAll(name, "/", ":"); }

  // The namespace of what a node contains: the modules from the root down, without the root itself.
  // It ends before the first module for which there is no room; `whole` says whether it is
  // complete.
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
        continue;  // its contents are shown in a module further up
      }
      // The root's attributes are at the empty name.
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
      json_.Object([&] {
        json_.Member("key", key);
        json_.Member("value", value);
      });
    });
    json_.EndArray();
    json_.Key("incomingEdges");
    json_.BeginArray();
    if (before != kNone) {
      json_.Object([&] {
        json_.Member("sourceNodeId", side.graph.nodes[before].name);
        json_.Member("sourceNodeOutputId", "0");
        json_.Member("targetNodeInputId", "0");
      });
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
        visit("standing", compare::RowStatusName(divergence.standing));
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
