#include "src/analysis/graph/vis_file.h"

#include <string>

#include <fmt/format.h>

#include "src/analysis/compare/run_verdict.h"
#include "src/analysis/graph/divergence.h"
#include "src/analysis/graph/items.h"
#include "src/base/files.h"
#include "src/json/writer.h"

namespace msprobe::analysis::graph {
namespace {

constexpr int kIndent = 4;
constexpr size_t kFlushBytes = size_t{1} << 20U;

class VisWriter {
 public:
  VisWriter(base::AtomicFile& file, const RankView& view, const std::vector<RankView>& all,
            bool with_levels)
      : file_(file), view_(view), all_(all), with_levels_(with_levels), json_(text_, kIndent) {}

  Status Write() {
    json_.BeginObject();
    if (view_.bench) {
      json_.Key("NPU");
      json_.BeginObject();
      MSP_RETURN_IF_ERROR(WriteSide(view_.npu, &*view_.bench));
      json_.EndObject();
      json_.Key("Bench");
      json_.BeginObject();
      MSP_RETURN_IF_ERROR(WriteSide(*view_.bench, &view_.npu));
      json_.EndObject();
      json_.Member("ToolTip", ToolTip(view_.mode));
      WriteColors();
    } else {
      MSP_RETURN_IF_ERROR(WriteSide(view_.npu, nullptr));
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
  Status WriteSide(const SideView& side, const SideView* other) {
    json_.Member("root", kRootName);
    json_.Key("dump_data_dir");
    const auto& folder = side.dump->side().header.dump_data_dir;
    if (folder) {
      json_.Text(*folder);
    } else {
      json_.Null();
    }
    json_.Key("node");
    json_.BeginObject();
    ItemWriter items(*side.dump, Edition::k8, view_.mode == compare::CompareMode::kMd5);
    for (uint32_t node = 0; node < side.graph.nodes.size(); ++node) {
      MSP_RETURN_IF_ERROR(WriteNode(side, other, node, items));
      if (text_.size() > kFlushBytes) {
        MSP_RETURN_IF_ERROR(file_.Write(text_));
        text_.clear();
      }
    }
    json_.EndObject();
    return {};
  }

  Status WriteNode(const SideView& side, const SideView* other, uint32_t index, ItemWriter& items) {
    const Node& node = side.graph.nodes[index];
    const bool is_npu = &side == &view_.npu;
    MSP_RETURN_IF_ERROR(items.Open(node.entry));
    ComparedRows compared;
    if (is_npu && view_.result && node.match != kNone) {
      compared = {&view_.bench->dump->side(), &*view_.result};
    }
    json_.Key(node.name);
    json_.BeginObject();
    json_.Member("id", node.name);
    json_.Member("node_type", static_cast<int>(node.type));
    json_.Key("output_data");
    items.Write(/*outputs=*/true, compared, json_);
    json_.Key("input_data");
    items.Write(/*outputs=*/false, compared, json_);
    json_.Member("upnode", node.parent == kNone ? "None" : side.graph.nodes[node.parent].name);
    json_.Key("subnodes");
    json_.BeginArray();
    for (const uint32_t child : node.children) {
      json_.Text(side.graph.nodes[child].name);
    }
    json_.EndArray();
    json_.Key("matched_node_link");
    WriteMatchedLink(other == nullptr ? side.graph : other->graph,
                     other == nullptr ? kNone : node.match, json_);
    json_.Key("suggestions");
    json_.BeginObject();
    if (other != nullptr && node.match == kNone) {
      json_.Member("unmatched", WhyUnmatched(*other, node));
    }
    if (is_npu && !view_.divergence.empty()) {
      WriteDivergence(view_.divergence[index]);
    }
    json_.EndObject();
    json_.Key("stack_info");
    json_.BeginArray();
    for (const std::string& line : node.stack) {
      json_.Text(line);
    }
    json_.EndArray();
    if (node.micro_step) {
      json_.Member("micro_step_id", *node.micro_step);
    }
    WriteData(side, index);
    if (const auto partners = side.partners.find(index); partners != side.partners.end()) {
      json_.Key("matched_distributed");
      WritePartners(partners->second, all_, is_npu, with_levels_, json_);
    }
    json_.EndObject();
    return {};
  }

  void WriteDivergence(const NodeDivergence& node) {
    if (node.standing == compare::RowStanding::kDrifts ||
        node.standing == compare::RowStanding::kDiffers) {
      json_.Member("divergence", fmt::format("{}: error {} in, {} out (relative)",
                                             compare::RowStandingName(node.standing),
                                             compare::ErrorText(node.input_error.value_or(0)),
                                             compare::ErrorText(node.output_error.value_or(0))));
    }
    if (node.point != nullptr) {
      json_.Member("origin", OriginText(node));
    }
  }

  void WriteData(const SideView& side, uint32_t index) {
    json_.Key("data");
    json_.BeginObject();
    const NodeScore& score = side.scores[index];
    if (score.precision) {
      json_.Key("precision_index");
      json_.Raw(IndexText(*score.precision));
      if (view_.mode == compare::CompareMode::kMd5 &&
          side.graph.nodes[index].type != NodeType::kCollection) {
        json_.Member("Result", score.sums_differ ? "Different" : "pass");
      }
    }
    if (!score.level.empty()) {
      json_.Member("overflow_level", score.level);
    }
    json_.EndObject();
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
  const std::vector<RankView>& all_;
  const bool with_levels_;
  std::string text_;
  json::Writer json_;
};

}  // namespace

Status WriteVisFile(const std::filesystem::path& path, const RankView& view,
                    const std::vector<RankView>& all, bool with_levels) {
  MSP_ASSIGN_OR_RETURN(base::AtomicFile file, base::AtomicFile::Create(path));
  MSP_RETURN_IF_ERROR(VisWriter(file, view, all, with_levels).Write());
  return file.Commit();
}

}  // namespace msprobe::analysis::graph
