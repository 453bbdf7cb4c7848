// The arguments of one recorded call, made again and written into a frame for the worker.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

#include "src/analysis/accuracy/check/frames.h"
#include "src/analysis/accuracy/check/generator.h"
#include "src/analysis/accuracy/check/shared_memory.h"
#include "src/json/value_tree.h"

namespace msprobe::analysis::accuracy {

// The tensor that a record names, from elsewhere than a file. Borrowed for the call.
using TensorSource = std::function<Result<TensorView>(std::string_view name)>;

struct MakeOptions {
  // Of a dump with real data: where its tensors lie; empty: they are drawn.
  std::filesystem::path tensor_folder;
  const TensorSource* source = nullptr;  // in place of the folder
  bool hf32 = false;  // float32 values lose 12 bits, as NPUs' convolutions take them
  bool with_gradients = true;
  bool for_mindspore = false;  // drawn as its checker does; all floats have gradients
};

// Draws or reads, and encodes. One object per call, because what it learns is about that call.
class ArgumentMaker {
 public:
  ArgumentMaker(std::string_view api, const MakeOptions& options, TorchGenerator& generator,
                SharedMemory& memory)
      : api_(api), options_(options), generator_(generator), memory_(memory) {}

  // `list`: a record's "input_args"; `dict`: its "input_kwargs". Their encoded values.
  Status Positional(const json::ValueTree& tree, uint32_t list, FrameWriter& out);
  Status Keywords(const json::ValueTree& tree, uint32_t dict, FrameWriter& out);
  // A gradient of an output: the tensor flags of arguments do not hold for it.
  Status Gradient(const json::ValueTree& tree, uint32_t place, FrameWriter& out);

  // The dtypes of float16, bfloat16 and float32 tensors among what was made.
  const std::set<DType>& float_dtypes() const { return float_dtypes_; }
  bool has_float8() const { return has_float8_; }

  // What is saved of an operator that failed: one per leaf, without a shape where it is no tensor.
  struct Leaf {
    bool is_tensor = false;
    DType dtype = DType::kFloat32;
    Shape shape;
    uint64_t offset = 0;
  };
  const std::vector<Leaf>& leaves() const { return leaves_; }
  // Tensors of a list that are read and not sent: outputs that the dump holds.
  Status Read(const json::ValueTree& tree, uint32_t list, std::vector<Leaf>& out);

 private:
  Status Value(const json::ValueTree& tree, uint32_t place, size_t depth, FrameWriter& out);
  Status Object(const json::ValueTree& tree, uint32_t place, size_t depth, FrameWriter& out);
  Status Scalar(const json::ValueNode& node, FrameWriter& out);
  Status Constant(const json::ValueTree& tree, std::string_view type, uint32_t value,
                  FrameWriter& out);
  Status Tensor(const json::ValueTree& tree, uint32_t place, FrameWriter& out);
  // Bytes of the tensor in the shared memory; dtype and shape as they are there.
  Result<Leaf> Draw(TensorRecord record);
  // By the name that the record tells.
  Result<Leaf> Load(std::string_view name);
  Result<Leaf> Copied(const TensorView& view);
  Result<Leaf> Converted(const Leaf& leaf);

  const std::string_view api_;
  const MakeOptions& options_;
  TorchGenerator& generator_;
  SharedMemory& memory_;
  bool in_keyword_list_ = false;
  bool is_gradient_ = false;
  bool is_keyword_ = false;
  size_t position_ = 0;  // among the positional arguments
  std::set<DType> float_dtypes_;
  bool has_float8_ = false;
  std::vector<Leaf> leaves_;
};

}  // namespace msprobe::analysis::accuracy
