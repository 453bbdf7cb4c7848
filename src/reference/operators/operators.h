// The operators that can be recomputed: one list, one function each. A function reads the arguments
// of the call, computes what exact arithmetic gives, with bounds, and returns the results in the
// order of the call's outputs (null: nothing to say about this one). Formulas are those of the
// frameworks' documentation.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/dump/names.h"
#include "src/reference/arithmetic/arithmetic.h"
#include "src/reference/call.h"

namespace msprobe::reference {

using Values = std::vector<Value>;
using Recompute = Values (*)(Call& call, const Arithmetic& arithmetic);

enum class Rounds : uint8_t {
  kOnce,   // 16-bit types: computed in float32, rounded at the end
  kSteps,  // may be made of several calls, each of which rounds to the storage type
};

struct Operator {
  // Every name that means this operator, separated by blanks: of functions (torch, Tensor,
  // functional, aten, mint), without underscores around them; classes of primitives in lower case.
  std::string_view names;
  Recompute recompute = nullptr;
  Rounds rounds = Rounds::kOnce;
  // Finds what such a call changed without returning it, and makes it the call's outputs, or fails
  // it with a reason. Null: its entry has them.
  void (*find_outputs)(Call& call) = nullptr;
};

// The list of functions, sorted by family; communication is not among them.
const std::vector<Operator>& AllOperators();
// Null: not known. Of modules the class decides, and only where the dump tells all that is needed.
const Operator* FindOperator(const dump::EntryName& call);
// "__iadd__" and "add_" are "add"; "matmul.MatMul" is "matmul".
std::string PlainOperatorName(const dump::EntryName& call);

// The lists of the families.
using OperatorList = std::vector<Operator>;
OperatorList ElementwiseOperators();
OperatorList ComparisonOperators();
OperatorList ActivationOperators();
OperatorList ContractionOperators();
OperatorList NormalizationOperators();
OperatorList ReductionOperators();
OperatorList LossOperators();
OperatorList MoveOperators();
OperatorList CopyOperators();
OperatorList CreationOperators();
OperatorList ConvolutionOperators();
OperatorList PoolingOperators();
OperatorList CollectiveOperators();    // of the kind Distributed
OperatorList PointToPointOperators();  // of the kind Distributed
OperatorList InterpolationOperators();
OperatorList SelectionOperators();
OperatorList AttentionOperators();
OperatorList MomentOperators();
OperatorList ListOperators();       // of lists of tensors, element by element
OperatorList OptimizerOperators();  // whole steps
OperatorList EliminationOperators();
OperatorList TriangularOperators();
OperatorList ModuleOperators();  // names are classes

// Helpers by which operators read their arguments.

// A tensor, or a number that goes with tensors.
Value Operand(Call& call, const Arithmetic& arithmetic, size_t position, std::string_view name);
// The larger or the smaller of each two; equal ones share the gradient.
Value ExtremeOfTwo(const Arithmetic& arithmetic, const Value& a, const Value& b, bool largest);
// The root of a sum of squares, whose error may reach down to 0; without a gradient.
Value RootOfSquares(const Arithmetic& arithmetic, const Value& x);
// 0 <= result < rank; a problem of the call otherwise. A tensor without dims counts as one dim.
int64_t DimOf(Call& call, int64_t dim, size_t rank);
// The dims of a reduction: as given, or all of them. Sorted, without doubles.
std::vector<int64_t> DimsOf(Call& call, size_t position, std::string_view name, size_t rank);
// `numbers` with one of them repeated to `count`; empty: `otherwise`.
std::vector<int64_t> Spread(Call& call, std::vector<int64_t> numbers, size_t count,
                            int64_t otherwise);
// x with dim `dim` as the last one, and back.
Value DimLast(const Arithmetic& arithmetic, const Value& x, int64_t dim);
Value DimBack(const Arithmetic& arithmetic, const Value& x, int64_t dim);
// The dtype of the argument at this place; nullopt where it names none that is known.
std::optional<DType> DTypeArgument(Call& call, size_t position, std::string_view name);

}  // namespace msprobe::reference
