// Names that a file may use: operators, and the constants among their arguments. Everything that
// runs an operator, or writes a script that does, holds names against these lists, and so does the
// worker, which is given them (WorkerVocabulary).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/analysis/accuracy/common/standards.h"

namespace msprobe::analysis::accuracy {

// "Functional.linear": types Functional, Tensor, Torch, NPU and Aten are listed. Other types are
// not, and are let through: nothing is run for them but what a file of the user defines.
bool IsKnownApi(std::string_view type, std::string_view api, StandardVersion version);
// Under any type: what white and black lists may name.
bool IsKnownAnywhere(std::string_view api);

// A function of MindSpore that dumps record: type Mint, MintFunctional, Functional (ops) or Tensor.
bool IsKnownMindSporeApi(std::string_view type, std::string_view api);

// The row's words for an operator that is not on the lists.
std::string WhyNotNamed(std::string_view type, std::string_view api, StandardVersion version);

// The name of a constant without its module: "float32" of {"type": "torch.dtype", "value":
// "torch.float32"}. Types torch.dtype, mindspore.dtype, torch.memory_format and torch.layout;
// nullopt: the value is none of the type's.
bool IsConstantType(std::string_view type);
std::optional<std::string> ConstantName(std::string_view type, std::string_view value);
// "float32" of NumPy's scalars of numbers.
bool IsNumpyScalar(std::string_view name);
// What stands for itself: "int", "str", ...
const std::vector<std::string_view>& PlainTypes();
bool IsPlainType(std::string_view type);
// By type: "torch.dtype".
const std::vector<std::string_view>& ConstantsOf(std::string_view type);

// The collectives of torch.distributed.
std::vector<std::string_view> Collectives();

// The framework whose names a worker is given.
enum class Vocabulary { kPyTorch, kMindSpore, kMindTorch };
struct NamedGroup {
  std::string_view kind;  // "Functional"; "torch.dtype"
  std::vector<std::string_view> names;
};
std::vector<NamedGroup> WorkerVocabulary(Vocabulary vocabulary);

}  // namespace msprobe::analysis::accuracy
