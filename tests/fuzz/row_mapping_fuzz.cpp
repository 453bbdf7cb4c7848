// The mapping files of a comparison: calls, cells, data, layers and modules. The first byte says
// which one the input is.
#include <cstdint>

#include "src/analysis/compare/mapping.h"
#include "tests/fuzz/input_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace compare = msprobe::analysis::compare;
  static const msprobe::fuzz::InputFolder folder;
  static const compare::Side side = [] {
    folder.Write(
        "construct.json",
        R"({"Module.fc.Linear.forward.0": null, "Functional.linear.0.forward": "Module.fc.Linear.forward.0"})");
    folder.Write("stack.json", R"({"0": [["Functional.linear.0.forward"], ["a.py, line 1"]]})");
    return *compare::LoadSide(folder.Write(
        "dump.json",
        R"({"task": "statistics", "level": "mix", "data": {"Functional.linear.0.forward": {"input_args": [{"type": "torch.Tensor", "dtype": "torch.float32", "shape": [1], "Max": 1.0, "Min": 1.0, "Mean": 1.0, "Norm": 1.0}], "input_kwargs": {}, "output": []}, "Module.fc.Linear.forward.0": {"input_args": [{"type": "torch.Tensor", "dtype": "torch.float32", "shape": [1], "Max": 1.0, "Min": 1.0, "Mean": 1.0, "Norm": 1.0}], "input_kwargs": {}, "output": []}}})"));
  }();
  std::string_view input = msprobe::fuzz::TextOf(data, size);
  const size_t choice = msprobe::fuzz::TakeChoice(input, 6);
  const std::filesystem::path file = folder.Write("mapping.yaml", input);
  compare::RowMapping mapping;
  for (const compare::SideRow& row : side.rows) {
    mapping.keys.push_back(row.name);
    mapping.bench_keys.push_back(row.name);
  }
  switch (choice) {
    case 0:
      static_cast<void>(compare::LoadTextMap(file).ok());
      break;
    case 1:
      static_cast<void>(compare::MapRowsByData(file, side, mapping).ok());
      break;
    case 2:
      static_cast<void>(compare::MapRowsByCell(file, side, mapping).ok());
      break;
    case 3:
      static_cast<void>(compare::MapRowsByApi(file, side, side, mapping).ok());
      break;
    case 4:
      static_cast<void>(compare::MapRowsByLayer(file, false, side, side, mapping).ok());
      break;
    default:
      static_cast<void>(compare::MapRowsByModule(file, side, mapping).ok());
      break;
  }
  return 0;
}
