// One captured call, recomputed and judged: what is asked of it, and the verdict.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/threads.h"
#include "src/dump/json_source.h"
#include "src/reference/arithmetic/arithmetic.h"
#include "src/reference/call.h"

namespace msprobe::analysis::recheck {

// What is asked of a recheck.

// What steps of calls on 16-bit tensors may be rounded to.
enum class Accumulation : uint8_t {
  kAny,      // float32 or the type itself: both are found in correct implementations
  kFloat32,  // float32, as the matrix units of accelerators do
};

// What products of float32 tensors (matrices, convolutions, attention) may round their factors to.
enum class ProductFactors : uint8_t {
  kAny,      // float32, or TF32 or HF32, which matrix units of accelerators are allowed by default
  kFloat32,  // float32
};

// What an implementation may compute with.
struct Precision {
  Accumulation accumulation = Accumulation::kAny;
  ProductFactors factors = ProductFactors::kAny;
};

struct Options {
  std::filesystem::path dump;
  std::filesystem::path bench;   // empty: one dump alone
  std::filesystem::path output;  // empty: no table is written
  std::vector<std::string> formats = {"csv"};
  std::vector<std::string> calls;  // only calls whose names contain one of these; empty: all
  bool forward = true;
  bool backward = true;
  Precision precision;
  size_t threads = 0;
  bool quiet = false;
};

// Captured numbers against recomputed ones and their bounds.

enum class Verdict : uint8_t { kWithin, kBeyond, kNotCheckable };
inline constexpr size_t kVerdictCount = 3;
std::string_view VerdictName(Verdict verdict);  // "within", "beyond", "not checkable"

// How one captured tensor stands.
struct Judgement {
  Verdict verdict = Verdict::kNotCheckable;
  // The largest |captured - exact| over its bound; infinite where the bound is 0, or where one side
  // is NaN or infinite and the other is not. Beyond: more than 1.
  double ratio = 0;
  std::string tensor;   // "output.0"
  std::string element;  // of the worst one: "[3, 17]"
  size_t index = 0;     // where it is in the order of memory of a contiguous tensor
  double captured = 0;  // there
  double exact = 0;
  double bound = 0;
  uint64_t elements = 0;
  uint64_t beyond = 0;  // elements beyond their bounds
  // Where one is: elements of an eighth of the largest ratio at least. Of a million normally
  // distributed errors it is every second one.
  uint64_t nearly_as_far = 0;
  uint64_t unjudged = 0;  // elements about which nothing is known
  std::string reason;     // not checkable: why
};

// An element may be off by the error of its value, and by what storing it in `captured.dtype`
// costs. A value that may round beyond the largest number of the dtype, or of the arithmetic, may
// be infinite. Integers wrap around.
Judgement Judge(const reference::CapturedTensor& captured, const reference::Value& exact,
                const reference::Rounding& rounding, base::ThreadPool& pool);

// One captured call, recomputed and judged.

struct CallVerdict {
  Verdict verdict = Verdict::kNotCheckable;
  double ratio = 0;                // of the worst tensor; 0 where nothing was judged
  std::vector<Judgement> tensors;  // in the order of the outputs
  std::string reason;              // not checkable, or a shape that is wrong: why
  // It is within its bound only if less exact arithmetic than float32 is allowed: `reason` tells
  // which.
  bool is_less_exact = false;
  bool rounds_factors = false;  // that is TF32 or HF32
  bool has_products = false;    // products of matrices are among what it computes
  std::string unreadable;       // a tensor file of it that could not be read, and why; empty: none
  std::string operation;        // "linear"; empty when the operator is not known

  // The tensor that decides: the one of the largest ratio. Null where nothing was judged.
  const Judgement* worst() const;
};

// Trees of a dump's entries. `backward` and `parameters_grad` may be null.
struct RecordedCall {
  std::string_view name;  // of the entry that is rechecked: "Functional.linear.3.forward"
  const dump::EntryTree* forward = nullptr;
  const dump::EntryTree* backward = nullptr;
  const dump::EntryTree* parameters_grad = nullptr;
  reference::TensorSource tensors;
  reference::OtherCalls others = {};
  reference::Remarks remarks = {};
};

// Outputs of the forward call.
CallVerdict RecheckForward(const RecordedCall& call, const Precision& precision,
                           base::ThreadPool& pool);
// Gradients that go out of the backward call, from those that come in and the forward call's
// inputs; of a module also those of its parameters, which are wrong only where they are the call's
// alone: they sum up all uses, and hooks may change them. Autograd's hooks see the gradients of the
// last node of a call: each is held against the gradients of all steps of the call that have its
// shape.
CallVerdict RecheckBackward(const RecordedCall& call, const Precision& precision,
                            base::ThreadPool& pool);
// The same of both halves of one call, whose tensors are read and whose results are recomputed
// once.
struct BothVerdicts {
  CallVerdict forward;
  CallVerdict backward;
};
BothVerdicts RecheckBoth(const RecordedCall& forward, const RecordedCall& backward,
                         const Precision& precision, base::ThreadPool& pool);

}  // namespace msprobe::analysis::recheck
