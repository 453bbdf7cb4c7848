#include "src/analysis/recheck/judge.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "src/base/strings.h"

namespace msprobe::analysis::recheck {

using reference::CapturedTensor;
using reference::FloatFormat;
using reference::FormatOf;
using reference::IsFloat;
using reference::kRunElements;
using reference::Rounding;
using reference::Tensor;
using reference::Value;

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

// How far off the worst of some elements is, and how many are how far.
struct Worst {
  double ratio = -1;  // below 0: none was judged
  size_t index = 0;   // of the first one of this ratio
  uint64_t beyond = 0;
  uint64_t unjudged = 0;
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

  // The worst of the elements [first, end).
  Worst WorstOf(size_t first, size_t end) const {
    Worst worst;
    for (; first < end; first += kRunElements) {
      const size_t last = std::min(end, first + kRunElements);
      const std::optional<Run> run = OrdinaryRun(first, last, kJustBeyond);
      if (run && run->largest <= worst.ratio) {
        worst.beyond += run->reaching;
      } else {
        AddOneByOne(first, last, worst);
      }
    }
    return worst;
  }

  // How many of the elements [first, end) have at least this ratio.
  uint64_t CountOf(size_t first, size_t end, double ratio) const {
    uint64_t count = 0;
    for (; first < end; first += kRunElements) {
      const size_t last = std::min(end, first + kRunElements);
      if (const std::optional<Run> run = OrdinaryRun(first, last, ratio)) {
        count += run->reaching;
        continue;
      }
      for (size_t i = first; i < last; ++i) {
        count += Of(i).ratio >= ratio ? 1 : 0;
      }
    }
    return count;
  }

 private:
  static constexpr double kJustBeyond = 1 + std::numeric_limits<double>::epsilon();
  struct Run {
    double largest;     // ratio
    uint64_t reaching;  // so many have at least the ratio that was asked for
  };

  // Without a branch per element. Nothing where a number of one is not finite.
  std::optional<Run> OrdinaryRun(size_t first, size_t end, double asked) const {
    if (!is_float_) {
      return std::nullopt;
    }
    const size_t count = end - first;
    const double* const found = found_.data() + first;
    const double* const wanted = exact_.value.data() + first;
    const double* const errors = exact_.errors_from(first);
    const double half_tiny = format_.tiny / 2;
    const double unit = format_.unit;
    double largest = 0;
    double not_finite = 0;  // x - x is 0, or NaN
    uint64_t reaching = 0;
    for (size_t i = 0; i < count; ++i) {
      const double error = errors[i] * kReferenceSlack;
      const double off = std::fabs(found[i] - wanted[i]);
      const double bound = error + (unit * (std::fabs(wanted[i]) + error) + half_tiny);
      const double ratio = off / bound;
      not_finite += (off - off) + (bound - bound);
      reaching += ratio >= asked ? 1 : 0;
      largest = ratio > largest ? ratio : largest;
    }
    return not_finite == 0 ? std::optional(Run{largest, reaching}) : std::nullopt;
  }

  void AddOneByOne(size_t first, size_t end, Worst& worst) const {
    for (size_t i = first; i < end; ++i) {
      const ElementStanding element = Of(i);
      worst.unjudged += element.is_unknown ? 1 : 0;
      worst.beyond += element.ratio > 1 ? 1 : 0;
      if (element.is_judged && element.ratio > worst.ratio) {
        worst.ratio = element.ratio;
        worst.index = i;
      }
    }
  }

  const std::vector<double>& found_;
  const Tensor& exact_;
  const DType dtype_;
  const bool is_float_;
  const FloatFormat format_;
  const double largest_;
};

// In parts of fixed size, the first of several that are equally far off.
Worst WorstOfAll(const ElementJudge& judge, size_t elements, base::ThreadPool& pool) {
  constexpr size_t kPartElements = size_t{1} << 16U;
  if (elements <= kPartElements) {
    return judge.WorstOf(0, elements);
  }
  std::vector<Worst> parts((elements + kPartElements - 1) / kPartElements);
  pool.ParallelFor(parts.size(), [&](size_t part, size_t) {
    parts[part] =
        judge.WorstOf(part * kPartElements, std::min(elements, (part + 1) * kPartElements));
  });
  Worst worst;
  for (const Worst& part : parts) {
    if (part.ratio > worst.ratio) {
      worst.ratio = part.ratio;
      worst.index = part.index;
    }
    worst.beyond += part.beyond;
    worst.unjudged += part.unjudged;
  }
  return worst;
}

}  // namespace

std::string_view VerdictName(Verdict verdict) {
  constexpr std::array<std::string_view, 3> kNames = {"within", "beyond", "not checkable"};
  return kNames[static_cast<size_t>(verdict)];
}

Judgement Judge(const CapturedTensor& captured, const Value& exact, const Rounding& rounding,
                base::ThreadPool& pool) {
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
  const Worst worst = WorstOfAll(judge, exact->size(), pool);
  judgement.unjudged = worst.unjudged;
  judgement.beyond = worst.beyond;
  if (worst.ratio >= 0) {
    const ElementStanding element = judge.Of(worst.index);
    judgement.element = ElementText(exact->shape, worst.index);
    judgement.index = worst.index;
    judgement.captured = captured.value->value[worst.index];
    judgement.exact = element.wanted;
    judgement.bound = element.bound;
  }
  if (judgement.beyond > 0) {
    judgement.nearly_as_far = judge.CountOf(0, exact->size(), worst.ratio / kNearlyAsFar);
  }
  judgement.ratio = std::max(worst.ratio, 0.0);
  if (judgement.elements > 0 && judgement.unjudged == judgement.elements) {
    judgement.reason = "errors of its inputs leave nothing to say about its values";
    return judgement;
  }
  judgement.verdict = judgement.beyond > 0 ? Verdict::kBeyond : Verdict::kWithin;
  return judgement;
}

}  // namespace msprobe::analysis::recheck
