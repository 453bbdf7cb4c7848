// Dumps of torchair: the text of a graph, kernels of GE, arrays of FX. Whatever they hold, the
// comparison ends with rows or an error.
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "src/analysis/compare/folders/torchair.h"
#include "tests/fuzz/input_folder.h"

namespace {

namespace compare = msprobe::analysis::compare;
namespace fs = std::filesystem;

constexpr size_t kMostBytes = size_t{1} << 16U;
constexpr const char* kGraph = "dynamo_original_graph_0.txt";
constexpr const char* kKernel = "1/0/Add.Add_0Mul_1.1.1.1700000000000001";
constexpr std::string_view kGraphText =
    R"(op { name: "Add_0" output_desc { attr { key: "_fx_tensor_name" value { s: "add-aten.add.Tensor" } } } }
       op { name: "Mul_1" output_desc { attr { key: "_fx_tensor_name" value { s: "mul-aten.mul.Tensor.OUTPUT.0" } } } })";

// Names that the text itself holds make up fused ones again; others have no parts.
void ReadGraph(std::string_view text) {
  compare::GeGraph graph;
  if (!compare::ReadGeGraph(text, graph).ok()) {
    return;
  }
  std::string fused(text.substr(0, 255));
  for (const auto& [name, node] : graph) {
    fused = fused.size() < 255 ? fused + name : fused;
  }
  std::vector<std::string> names;
  if (compare::SplitFused(graph, fused, &names).empty()) {
    return;
  }
  std::string whole;
  for (const std::string& name : names) {
    whole += name;
  }
  if (whole != fused) {
    std::abort();
  }
}

void CompareFiles(std::string_view graph, std::string_view kernel, std::string_view array) {
  static msprobe::base::ThreadPool pool(1);
  static const msprobe::fuzz::InputFolder folder;
  for (const char* place : {"ge/1/0", "fx/1/1"}) {
    folder.MakeFolder(place);
  }
  compare::Options options;
  options.npu_path = folder.path() / "ge";
  options.bench_path = folder.path() / "fx";
  options.v26.emplace();
  options.v26->torchair = true;
  folder.Write(std::string("ge/") + kGraph, graph);
  folder.Write(std::string("ge/") + kKernel, kernel);
  folder.Write("fx/1/1/add-aten.add.Tensor.INPUT.0.20251120100000.npy", array);
  folder.Write("fx/1/1/mul-aten.mul.Tensor.OUTPUT.0.20251120100000.npy", array);
  (void)compare::CompareTorchair(options, pool).ok();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view input = msprobe::fuzz::TextOf(data, size);
  if (size > kMostBytes) {
    return 0;
  }
  switch (msprobe::fuzz::TakeChoice(input, 3)) {
    case 0:
      ReadGraph(input);
      break;
    case 1:
      CompareFiles(kGraphText, input, input.substr(input.size() / 2));
      break;
    default:
      CompareFiles(input, "", "");
  }
  return 0;
}
