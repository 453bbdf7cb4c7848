#include "src/analysis/recheck/judge.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "src/base/strings.h"

namespace msprobe::analysis::recheck {
namespace {

// The reference is computed in double, whose own rounding is far below that of other types.
constexpr double kReferenceSlack = 1 + 0x1p-20;

std::string ElementText(const Shape& shape, size_t index) {
  Shape place(shape.size());
  for (size_t dim = shape.size(); dim-- > 0;) {
    const auto size = static_cast<size_t>(shape[dim]);
    place[dim] = static_cast<int64_t>(index % size);
    index /= size;
  }
  return ShapeText(place);
}

// What an integer type holds of a whole number: modulo 2^bits.
double Wrapped(DType dtype, double value) {
  const DTypeInfo& info = GetDTypeInfo(dtype);
  const double range = std::ldexp(1.0, info.size_bytes * 8);
  double rest = std::fmod(value, range);
  const double low = info.kind == DTypeKind::kSigned ? -range / 2 : 0;
  if (rest < low) {
    rest += range;
  } else if (rest >= low + range) {
    rest -= range;
  }
  return rest;
}

}  // namespace

std::string_view VerdictName(Verdict verdict) {
  constexpr std::array<std::string_view, 3> kNames = {"within", "beyond", "not checkable"};
  return kNames[static_cast<size_t>(verdict)];
}

Judgement Judge(const CapturedTensor& captured, const Value& exact, const Rounding& rounding) {
  Judgement judgement;
  judgement.tensor = captured.name;
  if (captured.value == nullptr) {
    judgement.reason = captured.problem;
    return judgement;
  }
  if (captured.value->shape != exact->shape) {
    judgement.verdict = Verdict::kBeyond;
    judgement.ratio = std::numeric_limits<double>::infinity();
    judgement.reason = fmt::format("its shape is {} instead of {}",
                                   ShapeText(captured.value->shape), ShapeText(exact->shape));
    return judgement;
  }
  const bool is_float = IsFloat(captured.dtype);
  const FloatFormat format = FormatOf(captured.dtype);
  judgement.elements = exact->size();
  double worst = -1;
  for (size_t i = 0; i < exact->size(); ++i) {
    const double found = captured.value->value[i];
    double wanted = exact->value[i];
    double bound = exact->error_at(i) * kReferenceSlack;
    if (!is_float && captured.dtype != DType::kBool && std::isfinite(wanted)) {
      if (std::fabs(wanted) >= 0x1p53) {
        ++judgement.unjudged;
        continue;
      }
      wanted = Wrapped(captured.dtype, wanted);
    }
    double ratio = 0;
    if (!std::isfinite(bound)) {
      if (!std::isnan(wanted) || !std::isnan(found)) {
        ++judgement.unjudged;
      }
      continue;
    }
    if (std::isnan(wanted) || std::isinf(wanted)) {
      const bool agrees = std::isnan(wanted) ? std::isnan(found) : found == wanted;
      ratio = agrees ? 0 : std::numeric_limits<double>::infinity();
    } else {
      if (is_float) {
        bound += format.unit * (std::fabs(wanted) + bound) + format.tiny / 2;
        // A result that is a number of the type is stored as it is.
        if (exact->error_at(i) == 0 && found == wanted) {
          bound = 0;
        }
      }
      const double off = std::fabs(found - wanted);
      const double reach = std::fabs(wanted) + bound;
      const bool may_overflow =
          is_float && reach >= std::min(format.largest, rounding.working.largest);
      if (std::isnan(found) || std::isinf(found)) {
        ratio = may_overflow && !std::isnan(found) && std::signbit(found) == std::signbit(wanted)
                    ? 0
                    : std::numeric_limits<double>::infinity();
      } else {
        ratio = off == 0 ? 0 : bound > 0 ? off / bound : std::numeric_limits<double>::infinity();
      }
    }
    if (ratio > 1) {
      ++judgement.beyond;
    }
    if (ratio > worst) {
      worst = ratio;
      judgement.element = ElementText(exact->shape, i);
      judgement.captured = found;
      judgement.exact = wanted;
      judgement.bound = bound;
    }
  }
  judgement.ratio = std::max(worst, 0.0);
  if (judgement.elements > 0 && judgement.unjudged == judgement.elements) {
    judgement.reason = "errors of its inputs leave nothing to say about its values";
    return judgement;
  }
  judgement.verdict = judgement.beyond > 0 ? Verdict::kBeyond : Verdict::kWithin;
  return judgement;
}

}  // namespace msprobe::analysis::recheck
