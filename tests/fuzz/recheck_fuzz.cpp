// A dump.json of any content beside tensor files of many shapes, rechecked call by call: whatever
// arguments a dump claims, a call ends as a verdict.
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "msprobe/tensor_file.h"

#include "src/analysis/recheck/run.h"
#include "tests/fuzz/input_folder.h"

namespace {

using msprobe::Shape;

// t0.npy, t1.npy, ...: what the corpus names.
void WriteTensors(const std::filesystem::path& folder) {
  const std::vector<Shape> shapes = {{},     {1},    {4},       {2, 3},       {3, 4},    {0},
                                     {2, 0}, {1, 4}, {2, 3, 4}, {1, 2, 3, 4}, {4, 4, 4}, {8}};
  for (size_t i = 0; i < shapes.size(); ++i) {
    std::vector<float> numbers(static_cast<size_t>(msprobe::ElementCount(shapes[i])));
    for (size_t j = 0; j < numbers.size(); ++j) {
      numbers[j] = static_cast<float>(j % 5) - 1.5F;
    }
    msprobe::TensorView view;
    view.dtype = msprobe::DType::kFloat32;
    view.shape = shapes[i];
    view.strides = msprobe::ContiguousStrides(shapes[i]);
    view.data = reinterpret_cast<const std::byte*>(numbers.data());
    view.extent_bytes = numbers.size() * sizeof(float);
    if (!msprobe::WriteNpyFile(folder / ("t" + std::to_string(i) + ".npy"), view).ok()) {
      std::abort();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace recheck = msprobe::analysis::recheck;
  static const msprobe::fuzz::InputFolder folder;
  static msprobe::base::ThreadPool pool(1);
  static const bool is_ready = [] {
    WriteTensors(folder.MakeFolder("dump_tensor_data"));
    return true;
  }();
  if (!is_ready || size > size_t{1} << 18U) {
    return 0;
  }
  const msprobe::Result<recheck::DumpEntries> entries =
      recheck::DumpEntries::Open(folder.Write("dump.json", msprobe::fuzz::TextOf(data, size)));
  if (!entries.ok()) {
    return 0;
  }
  for (const std::string& name : entries->calls()) {
    const msprobe::Result<recheck::CallVerdict> verdict =
        recheck::RecheckCall(*entries, name, recheck::Accumulation::kAny, pool);
    if (verdict.ok() && verdict->verdict == recheck::Verdict::kBeyond &&
        verdict->worst() == nullptr) {
      std::abort();
    }
  }
  return 0;
}
