// Captured numbers against recomputed ones and their bounds.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "src/base/threads.h"
#include "src/reference/arithmetic/rounding.h"
#include "src/reference/call.h"

namespace msprobe::analysis::recheck {

enum class Verdict : uint8_t { kWithin, kBeyond, kNotCheckable };
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

}  // namespace msprobe::analysis::recheck
