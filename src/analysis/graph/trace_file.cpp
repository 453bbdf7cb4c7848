#include "src/analysis/graph/trace_file.h"

#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/compare/summary.h"
#include "src/analysis/graph/divergence.h"
#include "src/base/files.h"
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
  // Children stand in front of their parents.
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
    Name("thread_name", kNpuThread, view_.bench ? "NPU" : "calls");
    if (view_.bench) {
      Name("thread_name", kBenchThread, "bench");
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
    json_.Key("args");
    json_.BeginObject();
    json_.Member("name", name);
    json_.EndObject();
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
      json_.Member("standing", compare::RowStandingName(divergence->standing));
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

  // A counter knows finite numbers only: what is infinite stands at the call.
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

}  // namespace msprobe::analysis::graph
