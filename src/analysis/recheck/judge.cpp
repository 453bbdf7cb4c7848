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
constexpr double kNearlyAsFar = 8;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

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

// How one element stands.
struct ElementStanding {
  bool is_judged = false;
  bool is_unknown = false;  // nothing is known about it
  double ratio = 0;         // of how far it is off to its bound
  double wanted = 0;
  double bound = 0;
};

// How each element of a captured tensor stands.
class ElementJudge {
 public:
  ElementJudge(const CapturedTensor& captured, const Tensor& exact, const Rounding& rounding)
      : found_(captured.value->value),
        exact_(exact),
        dtype_(captured.dtype),
        is_float_(IsFloat(captured.dtype)),
        format_(FormatOf(captured.dtype)),
        largest_(std::min(format_.largest, rounding.working.largest)) {}

  ElementStanding Of(size_t i) const {
    ElementStanding element;
    const double found = found_[i];
    const double error = exact_.error_at(i) * kReferenceSlack;
    double wanted = exact_.value[i];
    if (!is_float_ && dtype_ != DType::kBool && std::isfinite(wanted)) {
      if (std::fabs(wanted) >= 0x1p53) {
        element.is_unknown = true;
        return element;
      }
      wanted = Wrapped(dtype_, wanted);
    }
    if (!std::isfinite(error)) {
      element.is_unknown = !std::isnan(wanted) || !std::isnan(found);
      return element;
    }
    element.is_judged = true;
    element.wanted = wanted;
    element.bound = error;
    if (std::isnan(wanted) || std::isinf(wanted)) {
      const bool agrees = std::isnan(wanted) ? std::isnan(found) : found == wanted;
      element.ratio = agrees ? 0 : kInfinity;
    } else {
      // A result that is a number of the type is stored as it is.
      if (is_float_ && !(exact_.error_at(i) == 0 && found == wanted)) {
        element.bound += format_.unit * (std::fabs(wanted) + error) + format_.tiny / 2;
      }
      const double bound = element.bound;
      const double off = std::fabs(found - wanted);
      const bool may_overflow = is_float_ && std::fabs(wanted) + bound >= largest_;
      if (std::isnan(found) || std::isinf(found)) {
        element.ratio =
            may_overflow && !std::isnan(found) && std::signbit(found) == std::signbit(wanted)
                ? 0
                : kInfinity;
      } else {
        element.ratio = off == 0 ? 0 : bound > 0 ? off / bound : kInfinity;
      }
    }
    return element;
  }

 private:
  const std::vector<double>& found_;
  const Tensor& exact_;
  const DType dtype_;
  const bool is_float_;
  const FloatFormat format_;
  const double largest_;
};

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
    judgement.ratio = kInfinity;
    judgement.reason = fmt::format("its shape is {} instead of {}",
                                   ShapeText(captured.value->shape), ShapeText(exact->shape));
    return judgement;
  }
  const ElementJudge judge(captured, *exact, rounding);
  judgement.elements = exact->size();
  double worst = -1;
  for (size_t i = 0; i < exact->size(); ++i) {
    const ElementStanding element = judge.Of(i);
    judgement.unjudged += element.is_unknown ? 1 : 0;
    judgement.beyond += element.ratio > 1 ? 1 : 0;
    if (element.is_judged && element.ratio > worst) {
      worst = element.ratio;
      judgement.element = ElementText(exact->shape, i);
      judgement.captured = captured.value->value[i];
      judgement.exact = element.wanted;
      judgement.bound = element.bound;
    }
  }
  for (size_t i = 0; judgement.beyond > 0 && i < exact->size(); ++i) {
    judgement.nearly_as_far += judge.Of(i).ratio >= worst / kNearlyAsFar ? 1 : 0;
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
