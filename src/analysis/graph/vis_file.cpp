#include "src/analysis/graph/vis_file.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "src/analysis/compare/summary.h"
#include "src/analysis/graph/divergence.h"
#include "src/analysis/graph/items.h"
#include "src/base/files.h"
#include "src/base/threads.h"
#include "src/json/writer.h"

namespace msprobe::analysis::graph {
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
        items_(*side.dump, Edition::k8, view.mode == compare::CompareMode::kMd5) {}

  // Members of the object that holds the nodes; a comma stands in front of all but the first.
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
    json.Key("subnodes");
    json.BeginArray();
    for (const uint32_t child : node.children) {
      json.Text(side_.graph.nodes[child].name);
    }
    json.EndArray();
    json.Key("matched_node_link");
    WriteMatchedLink(other_ == nullptr ? side_.graph : other_->graph,
                     other_ == nullptr ? kNone : node.match, json);
    json.Key("suggestions");
    json.BeginObject();
    if (other_ != nullptr && node.match == kNone) {
      json.Member("unmatched", WhyUnmatched(*other_, node));
    }
    if (is_npu_ && !view_.divergence.empty()) {
      WriteDivergence(view_.divergence[index], json);
    }
    json.EndObject();
    json.Key("stack_info");
    json.BeginArray();
    for (const std::string& line : node.stack) {
      json.Text(line);
    }
    json.EndArray();
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
    if (node.standing == compare::RowStanding::kDrifts ||
        node.standing == compare::RowStanding::kDiffers) {
      json.Member("divergence", fmt::format("{}: error {} in, {} out (relative)",
                                            compare::RowStandingName(node.standing),
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
      WriteColors();
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
    json_.Key("dump_data_dir");
    const auto& folder = side.dump->side().header.dump_data_dir;
    if (folder) {
      json_.Text(*folder);
    } else {
      json_.Null();
    }
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

  void WriteColors() {
    json_.Key("Colors");
    json_.BeginObject();
    for (const ColorClass& color : ColorsOf(view_.mode, Edition::k8)) {
      json_.Key(color.color);
      json_.BeginObject();
      json_.Key("value");
      json_.BeginArray();
      if (color.range) {
        json_.Raw(IndexText(color.range->first));
        json_.Raw(IndexText(color.range->second));
      }
      json_.EndArray();
      json_.Member("description", color.description);
      json_.EndObject();
    }
    json_.EndObject();
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

}  // namespace msprobe::analysis::graph
