#include "src/analysis/accuracy/check/error_data.h"

#include <string>
#include <vector>

#include <fmt/format.h>

#include "msprobe/tensor_file.h"

#include "src/base/files.h"

namespace msprobe::analysis::accuracy {
namespace {

class Saver {
 public:
  Saver(const std::filesystem::path& folder, std::string_view name, std::string_view what)
      : stem_(folder / fmt::format("{}.{}", name, what)) {}

  Status Add(const TensorView* view) {
    const size_t number = next_++;
    if (view == nullptr) {
      return {};
    }
    std::filesystem::path path = stem_;
    path += fmt::format(".{}.pt", number);
    return WritePtFile(path, *view);
  }
  Status Add(const OutputValue& value) {
    if (value.kind == OutputValue::Kind::kList || value.kind == OutputValue::Kind::kDict) {
      for (const OutputValue& item : value.items) {
        MSP_RETURN_IF_ERROR(Add(item));
      }
      return {};
    }
    return Add(value.kind == OutputValue::Kind::kTensor ? &value.tensor : nullptr);
  }

 private:
  const std::filesystem::path stem_;
  size_t next_ = 0;
};

}  // namespace

Status SaveErrorData(const std::filesystem::path& folder, std::string_view name,
                     const MadeCall& call, SharedMemory& memory, const WorkerAnswer& answer) {
  MSP_RETURN_IF_ERROR(base::CreateFolders(folder));
  const std::pair<std::string_view, const std::vector<ArgumentMaker::Leaf>&> made[] = {
      {"forward.input", call.arguments},
      {"forward.kwargs", call.keywords},
      {"backward.input", call.gradients}};
  for (const auto& [what, leaves] : made) {
    Saver saver(folder, name, what);
    for (const ArgumentMaker::Leaf& leaf : leaves) {
      TensorView view;
      view.dtype = leaf.dtype;
      view.shape = leaf.shape;
      view.strides = ContiguousStrides(leaf.shape);
      if (leaf.is_tensor) {
        view.data = memory.at(leaf.offset);
        view.extent_bytes = view.size_bytes();
      }
      MSP_RETURN_IF_ERROR(saver.Add(leaf.is_tensor ? &view : nullptr));
    }
  }
  const std::pair<std::string_view, const OutputValue&> outputs[] = {
      {"forward.output.bench", answer.bench},
      {"forward.output.device", answer.device},
      {"backward.output.bench", answer.bench_gradients},
      {"backward.output.device", answer.device_gradients}};
  for (const auto& [what, value] : outputs) {
    MSP_RETURN_IF_ERROR(Saver(folder, name, what).Add(value));
  }
  return {};
}

}  // namespace msprobe::analysis::accuracy
