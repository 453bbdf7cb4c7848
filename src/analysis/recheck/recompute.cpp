#include "src/analysis/recheck/recompute.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/base/strings.h"
#include "src/dump/names.h"
#include "src/kernels/ratios.h"
#include "src/reference/arithmetic/arithmetic.h"
#include "src/reference/operators/operators.h"

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
  double ratio = -1;    // below 0: none was judged
  size_t index = 0;     // of the first one of this ratio
  bool is_run = false;  // that is the first element of the run which it is in
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

  // The worst of the elements [first, end), perhaps known by its run only; `Found`: its own place.
  Worst WorstOf(size_t first, size_t end) const {
    Worst worst;
    for (; first < end; first += kRunElements) {
      const size_t last = std::min(end, first + kRunElements);
      const std::optional<kernels::BoundRun> run = OrdinaryRun(first, last, kJustBeyond);
      if (!run) {
        AddOneByOne(first, last, worst);
        continue;
      }
      worst.beyond += run->reaching;
      if (run->largest > worst.ratio) {
        worst.ratio = run->largest;
        worst.index = first;
        worst.is_run = true;
      }
    }
    return worst;
  }
  size_t Found(const Worst& worst) const {
    if (!worst.is_run) {
      return worst.index;
    }
    Worst one;
    AddOneByOne(worst.index, std::min(found_.size(), worst.index + kRunElements), one);
    return one.index;
  }

  // How many of the elements [first, end) have at least this ratio.
  uint64_t CountOf(size_t first, size_t end, double ratio) const {
    uint64_t count = 0;
    for (; first < end; first += kRunElements) {
      const size_t last = std::min(end, first + kRunElements);
      if (const std::optional<kernels::BoundRun> run = OrdinaryRun(first, last, ratio)) {
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

  // Nothing where a number of one is not finite, or integers may have wrapped around.
  std::optional<kernels::BoundRun> OrdinaryRun(size_t first, size_t end, double asked) const {
    if (!is_float_) {
      return std::nullopt;
    }
    const size_t count = end - first;
    return kernels::BoundRatiosOf(
        std::span(found_.data() + first, count), std::span(exact_.value.data() + first, count),
        std::span(exact_.errors_from(first), count),
        {.slack = kReferenceSlack, .unit = format_.unit, .tiny = format_.tiny / 2, .asked = asked});
  }

  void AddOneByOne(size_t first, size_t end, Worst& worst) const {
    for (size_t i = first; i < end; ++i) {
      const ElementStanding element = Of(i);
      worst.unjudged += element.is_unknown ? 1 : 0;
      worst.beyond += element.ratio > 1 ? 1 : 0;
      if (element.is_judged && element.ratio > worst.ratio) {
        worst.ratio = element.ratio;
        worst.index = i;
        worst.is_run = false;
      }
    }
  }

  const reference::Numbers& found_;
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
      worst.is_run = part.is_run;
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
    judgement.index = judge.Found(worst);
    const ElementStanding element = judge.Of(judgement.index);
    judgement.element = ElementText(exact->shape, judgement.index);
    judgement.captured = captured.value->value[judgement.index];
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

using reference::Arithmetic;
using reference::Call;
using reference::CapturedTensor;
using reference::FindOperator;
using reference::FollowGradients;
using reference::FormatOf;
using reference::Gradients;
using reference::IsFloat;
using reference::kTf32;
using reference::Operator;
using reference::PlainOperatorName;
using reference::Remarks;
using reference::Rounding;
using reference::Rounds;
using reference::StorageOf;
using reference::Tensor;
using reference::Value;
using reference::Values;

namespace {

CallVerdict NotCheckable(std::string operation, std::string reason) {
  CallVerdict verdict;
  verdict.operation = std::move(operation);
  verdict.reason = std::move(reason);
  return verdict;
}

void Conclude(CallVerdict& verdict) {
  bool any = false;
  for (const Judgement& tensor : verdict.tensors) {
    if (tensor.verdict == Verdict::kNotCheckable) {
      if (verdict.reason.empty()) {
        verdict.reason = tensor.reason;
      }
      continue;
    }
    any = true;
    verdict.ratio = std::max(verdict.ratio, tensor.ratio);
    if (tensor.verdict == Verdict::kBeyond) {
      verdict.verdict = Verdict::kBeyond;
    }
  }
  if (any && verdict.verdict != Verdict::kBeyond) {
    verdict.verdict = Verdict::kWithin;
  }
  if (verdict.verdict == Verdict::kWithin) {
    verdict.reason.clear();  // of tensors beside the ones that were judged
  } else if (verdict.verdict == Verdict::kBeyond) {
    verdict.reason = verdict.worst()->reason;
  } else if (verdict.reason.empty()) {
    verdict.reason = "it has no tensor that can be recomputed";
  }
}

// A gradient that a hook may have seen, and how it takes the captured shape.
struct Candidate {
  Value gradient;
  bool is_transposed = false;
  bool is_certain = true;  // its elements are in the captured order
};

Value InShape(const Arithmetic& arithmetic, const Candidate& candidate, const Shape& shape) {
  const Value gradient =
      candidate.is_transposed ? arithmetic.Permute(candidate.gradient, {1, 0}) : candidate.gradient;
  return gradient->shape == shape ? gradient : arithmetic.Reshape(gradient, shape);
}

Judgement BestOf(const Arithmetic& arithmetic, const CapturedTensor& captured,
                 const std::vector<Candidate>& candidates) {
  Judgement best;
  best.tensor = captured.name;
  best.reason = captured.value == nullptr
                    ? captured.problem
                    : "it is the gradient of an inner step that is not recomputed";
  if (captured.value == nullptr) {
    return best;
  }
  Judgement unknown;  // that of one which it may be, whatever its elements are
  for (const Candidate& candidate : candidates) {
    if (candidate.is_transposed && best.verdict == Verdict::kWithin) {
      continue;  // those before explain it
    }
    Judgement judgement = Judge(captured, InShape(arithmetic, candidate, captured.value->shape),
                                arithmetic.rounding(), arithmetic.pool());
    if (judgement.verdict == Verdict::kNotCheckable) {
      unknown = std::move(judgement);
      continue;
    }
    if (judgement.verdict == Verdict::kBeyond && !candidate.is_certain) {
      continue;
    }
    if (best.verdict == Verdict::kNotCheckable || judgement.ratio < best.ratio) {
      best = std::move(judgement);
    }
  }
  if (best.verdict == Verdict::kBeyond && captured.is_shared) {
    best.verdict = Verdict::kNotCheckable;
    best.reason =
        "other uses of the parameter, hooks or settings of the module may have a share in it";
    return best;
  }
  return best.verdict == Verdict::kWithin || unknown.reason.empty() ? best : unknown;
}

Shape WithoutOnes(Shape shape) {
  std::erase(shape, 1);
  return shape;
}

// Elements in the last dim, in the last two, and so on, but for dims of 1.
std::vector<int64_t> BlockSizes(const Shape& shape) {
  std::vector<int64_t> sizes;
  int64_t size = 1;
  for (auto dim = shape.rbegin(); dim != shape.rend(); ++dim) {
    if (*dim != 1) {
      sizes.push_back(size *= *dim);
    }
  }
  return sizes;
}

// Whether one of two shapes that are not empty has several dims of the other as one, so that the
// elements have the same order.
bool IsMerged(const Shape& one, const Shape& other) {
  const std::vector<int64_t> blocks = BlockSizes(one);
  const std::vector<int64_t> others = BlockSizes(other);
  return std::includes(blocks.begin(), blocks.end(), others.begin(), others.end()) ||
         std::includes(others.begin(), others.end(), blocks.begin(), blocks.end());
}

// Gradients of the steps of a call that a hook may have seen, those that are to be transposed last.
std::vector<Candidate> Candidates(const Values& results, const Gradients& gradients,
                                  const Values& incoming,
                                  const std::vector<CapturedTensor>& outgoing,
                                  const CapturedTensor& captured) {
  std::vector<Candidate> candidates;
  const auto add = [&](const Value& gradient) {
    if (gradient == nullptr || captured.value == nullptr ||
        gradient->size() != captured.value->size()) {
      return;
    }
    const Shape& own = gradient->shape;
    const Shape& wanted = captured.value->shape;
    if (own == wanted) {
      candidates.push_back({gradient});
      return;
    }
    // The node worked on a view: dims of 1 more or less, several dims as one, or a transposed
    // matrix.
    if (gradient->size() == 0 || IsMerged(own, wanted)) {
      const bool same_order = WithoutOnes(own) == WithoutOnes(wanted) ||
                              (!own.empty() && !wanted.empty() && own.back() == wanted.back());
      candidates.push_back({gradient, false, same_order});
    }
    if (own.size() == 2 && wanted.size() == 2) {
      candidates.push_back({gradient, true});
    }
  };
  for (const Tensor* tensor : gradients.order) {
    // That of a result comes in, and does not go out.
    if (std::none_of(results.begin(), results.end(),
                     [&](const Value& result) { return result.get() == tensor; })) {
      add(gradients.of.at(tensor));
    }
  }
  for (const auto& [gradient, parent] : gradients.passed) {
    // An operand that saw the sum over a broadcast dimension did not see its terms.
    if (gradient->shape == parent || std::none_of(outgoing.begin(), outgoing.end(),
                                                  [&shape = parent](const CapturedTensor& other) {
                                                    return other.value != nullptr &&
                                                           other.value->shape == shape;
                                                  })) {
      add(gradient);
    }
  }
  for (const Value& gradient : incoming) {
    if (gradient != nullptr && captured.value != nullptr &&
        gradient->shape != captured.value->shape) {
      add(gradient);
    }
  }
  std::stable_partition(candidates.begin(), candidates.end(),
                        [](const Candidate& candidate) { return !candidate.is_transposed; });
  return candidates;
}

}  // namespace

const Judgement* CallVerdict::worst() const {
  const Judgement* worst = nullptr;
  for (const Judgement& tensor : tensors) {
    if (tensor.verdict != Verdict::kNotCheckable &&
        (worst == nullptr || tensor.ratio > worst->ratio)) {
      worst = &tensor;
    }
  }
  return worst;
}

namespace {

// An operator, or why there is none.
struct Request {
  const Operator* operation = nullptr;
  std::string name;  // "linear"
  std::string problem;
  std::string_view call = {};  // "Functional.linear.3.forward"
};

Request RequestFor(const RecordedCall& recorded) {
  const dump::EntryName name = dump::ParseEntryName(recorded.name);
  Request asked{FindOperator(name),
                name.is_module ? std::string(name.class_name) : PlainOperatorName(name),
                {},
                recorded.name};
  if (asked.operation == nullptr) {
    asked.problem =
        name.is_module ? "modules of this class are not known" : "the operator is not known";
    if (!name.is_module) {
      asked.name.clear();
    }
  } else if (recorded.forward == nullptr) {
    asked.problem = "its forward call is not in the dump";
  }
  return asked;
}

// What an operator gives, and the arithmetic that made it, which gradients go through.
struct Recomputed {
  Recomputed(Call& call, const Request& asked, const Rounding& rounding, base::ThreadPool& pool,
             bool taping)
      : arithmetic(rounding, pool, taping, call.loaded()),
        results(asked.operation->recompute(call, arithmetic)),
        problem(call.failed() ? call.problem() : arithmetic.problem()) {}
  Recomputed(const Recomputed&) = delete;
  Recomputed& operator=(const Recomputed&) = delete;

  const Arithmetic arithmetic;
  const Values results;
  const std::string problem;
};

CallVerdict JudgeForward(Call& call, const Request& asked, const Recomputed& made) {
  if (!made.problem.empty()) {
    return NotCheckable(asked.name, made.problem);
  }
  const Arithmetic& arithmetic = made.arithmetic;
  const Values& results = made.results;
  CallVerdict verdict;
  verdict.operation = asked.name;
  verdict.has_products = arithmetic.has_products();
  if (results.size() > call.outputs().size()) {
    Judgement judgement;
    judgement.verdict = Verdict::kBeyond;
    judgement.ratio = std::numeric_limits<double>::infinity();
    judgement.tensor = "output";
    judgement.reason =
        fmt::format("it has {} outputs instead of {}", call.outputs().size(), results.size());
    verdict.tensors.push_back(std::move(judgement));
  }
  for (size_t i = 0; i < results.size() && i < call.outputs().size(); ++i) {
    if (results[i] != nullptr) {
      verdict.tensors.push_back(
          Judge(call.outputs()[i], results[i], arithmetic.rounding(), arithmetic.pool()));
    }
  }
  Conclude(verdict);
  return verdict;
}

CallVerdict JudgeBackward(const Request& asked, const std::vector<CapturedTensor>& incoming,
                          const std::vector<CapturedTensor>& outgoing, const Recomputed& made) {
  if (!made.problem.empty()) {
    return NotCheckable(asked.name, made.problem);
  }
  const Arithmetic& arithmetic = made.arithmetic;
  const Values& results = made.results;
  for (const Value& result : results) {
    if (result != nullptr && result->pass_gradient == nullptr) {
      return NotCheckable(
          asked.name, result->wants_gradient
                          ? "it hands its input on, so that the gradient is of the call before it"
                          : "its gradients are not recomputed");
    }
  }
  Values seeds(results.size());
  for (const CapturedTensor& gradient : incoming) {
    if (gradient.value == nullptr) {
      return NotCheckable(asked.name, gradient.problem);
    }
    if (gradient.position >= seeds.size() || results[gradient.position] == nullptr) {
      return NotCheckable(asked.name, "a gradient comes in for an output that is not known");
    }
    if (gradient.value->shape != results[gradient.position]->shape) {
      return NotCheckable(asked.name, "a gradient that comes in has not the output's shape");
    }
    seeds[gradient.position] = gradient.value;
  }
  const Gradients gradients = FollowGradients(arithmetic, results, seeds);
  if (!arithmetic.problem().empty()) {
    return NotCheckable(asked.name, arithmetic.problem());
  }
  CallVerdict verdict;
  verdict.operation = asked.name;
  verdict.has_products = arithmetic.has_products();
  for (const CapturedTensor& captured : outgoing) {
    verdict.tensors.push_back(
        BestOf(arithmetic, captured, Candidates(results, gradients, seeds, outgoing, captured)));
  }
  Conclude(verdict);
  return verdict;
}

// Less exact arithmetic reaches all elements of a tensor alike: where of this many elements fewer
// than one in a hundred are off, and one of them stands out, it is not what happened.
constexpr uint64_t kManyElements = 1000;
constexpr uint64_t kOneIn = 100;

bool ReachesAllAlike(const CallVerdict& verdict) {
  return std::none_of(verdict.tensors.begin(), verdict.tensors.end(), [](const Judgement& tensor) {
    return tensor.verdict == Verdict::kBeyond && tensor.elements >= kManyElements &&
           std::max(tensor.beyond, tensor.nearly_as_far) * kOneIn < tensor.elements;
  });
}

// Arithmetic that is less exact than float32 and found in correct implementations, too.
struct LessExact {
  Rounding rounding;
  std::string reason;  // "only if ..."
};

// `narrow`: the 16-bit type of arguments of a call whose result is wider. Under autocast a step in
// the middle may keep its results in that type, as the logarithms of cross_entropy are, while sums
// are in float32. The gradients of float32 parameters are computed in it as a whole, of factors
// that were cast to it, and cast back.
std::vector<LessExact> LessExactThan(const Rounding& rounding, std::optional<DType> narrow,
                                     bool is_backward, const CallVerdict& verdict,
                                     const Precision& precision) {
  std::vector<LessExact> all;
  const auto add_steps = [&](const Rounding& steps) {
    all.push_back(
        {steps, fmt::format("only if its steps round to {}", GetDTypeInfo(steps.storage).name)});
  };
  const Rounding steps = Rounding::Of(rounding.storage, true);
  if (precision.accumulation == Accumulation::kAny) {
    if (steps.unit != rounding.unit) {
      add_steps(steps);
    } else if (rounding.storage == DType::kFloat32 && narrow) {
      add_steps(is_backward ? Rounding::Of(*narrow, true).WithFactorsOf(FormatOf(*narrow))
                            : Rounding::Of(*narrow, false));
    }
  }
  if (rounding.storage == DType::kFloat32 && verdict.has_products &&
      precision.factors == ProductFactors::kAny) {
    all.push_back(
        {rounding.WithFactorsOf(kTf32), "only if its factors are rounded to TF32 or HF32"});
  }
  return all;
}

// As if its steps were computed in float32, and where that does not explain a result, in less exact
// arithmetic.
template <typename With, typename Narrow>
CallVerdict WithEitherRounding(const Request& asked, DType storage, const Precision& precision,
                               const Narrow& narrow, const With& with) {
  const Rounding rounding = Rounding::Of(storage, asked.operation->rounds == Rounds::kSteps);
  CallVerdict verdict = with(rounding);
  if (verdict.verdict != Verdict::kBeyond || !ReachesAllAlike(verdict)) {
    return verdict;
  }
  const bool is_backward = dump::ParseEntryName(asked.call).direction == dump::Direction::kBackward;
  for (const LessExact& less : LessExactThan(rounding, narrow(), is_backward, verdict, precision)) {
    CallVerdict second = with(less.rounding);
    if (second.verdict == Verdict::kWithin) {
      second.is_less_exact = true;
      second.rounds_factors = less.rounding.factors.unit == kTf32.unit;
      second.reason = less.reason;
      return second;
    }
  }
  return verdict;
}

// What is off in a module that computes more than its class does says nothing; what agrees does.
void AllowForAlteration(const Remarks& remarks, CallVerdict& verdict) {
  if (remarks.alteration.empty() || verdict.verdict != Verdict::kBeyond) {
    return;
  }
  for (Judgement& tensor : verdict.tensors) {
    if (tensor.verdict == Verdict::kBeyond) {
      tensor.verdict = Verdict::kNotCheckable;
      tensor.reason = remarks.alteration;
    }
  }
  verdict.verdict = Verdict::kNotCheckable;
  verdict.ratio = 0;
  verdict.reason = remarks.alteration;
}

// Outputs of the forward call. `made`: what is known of it already, or null.
CallVerdict CheckForward(Call& call, const Request& asked, const Precision& precision,
                         base::ThreadPool& pool, const Recomputed* made) {
  return WithEitherRounding(
      asked, StorageOf(call.outputs()), precision, [&] { return call.NarrowArgument(); },
      [&](const Rounding& rounding) {
        const Recomputed* const known = std::exchange(made, nullptr);  // it is of the first one
        return known != nullptr
                   ? JudgeForward(call, asked, *known)
                   : JudgeForward(call, asked, Recomputed(call, asked, rounding, pool, false));
      });
}

// The gradients of a backward call.
struct BackwardTensors {
  std::vector<CapturedTensor> incoming;
  std::vector<CapturedTensor> outgoing;
};

BackwardTensors ReadBackward(Call& call, const RecordedCall& recorded) {
  BackwardTensors read{call.ReadAll(*recorded.backward, "input"),
                       call.ReadAll(*recorded.backward, "output")};
  if (recorded.parameters_grad != nullptr) {
    recorded.parameters_grad->ForEachChild(0, [&](uint32_t child) {
      const std::string_view key = (*recorded.parameters_grad)[child].key;
      for (CapturedTensor& tensor : call.ReadAll(*recorded.parameters_grad, key)) {
        tensor.name = fmt::format("parameters_grad.{}", key);
        tensor.is_shared = recorded.remarks.own_gradients.count(key) == 0;
        read.outgoing.push_back(std::move(tensor));
      }
    });
  }
  return read;
}

// `made`: the results with their tape, as far as they are known; they are used up. There are
// gradients that go out.
CallVerdict CheckBackward(Call& call, const Request& asked, const BackwardTensors& tensors,
                          const Precision& precision, base::ThreadPool& pool,
                          std::unique_ptr<Recomputed> made) {
  return WithEitherRounding(
      asked, StorageOf(tensors.outgoing), precision,
      [&] {
        const auto narrow = std::find_if(
            tensors.incoming.begin(), tensors.incoming.end(), [](const CapturedTensor& gradient) {
              return IsFloat(gradient.dtype) && DTypeSize(gradient.dtype) == 2;
            });
        return narrow == tensors.incoming.end() ? std::optional<DType>()
                                                : std::optional(narrow->dtype);
      },
      [&](const Rounding& rounding) {
        const std::unique_ptr<Recomputed> known = std::move(made);
        return known != nullptr && known->arithmetic.rounding().storage == rounding.storage
                   ? JudgeBackward(asked, tensors.incoming, tensors.outgoing, *known)
                   : JudgeBackward(asked, tensors.incoming, tensors.outgoing,
                                   Recomputed(call, asked, rounding, pool, true));
      });
}

}  // namespace

CallVerdict RecheckForward(const RecordedCall& recorded, const Precision& precision,
                           base::ThreadPool& pool) {
  const Request asked = RequestFor(recorded);
  if (!asked.problem.empty()) {
    return NotCheckable(asked.name, asked.problem);
  }
  Call call(*recorded.forward, recorded.tensors);
  call.SetOthers(recorded.others);
  if (asked.operation->find_outputs != nullptr) {
    asked.operation->find_outputs(call);
    if (call.failed()) {
      return NotCheckable(asked.name, call.problem());
    }
  }
  if (call.outputs().empty()) {
    return NotCheckable(asked.name, "it has no tensor as output");
  }
  CallVerdict verdict = CheckForward(call, asked, precision, pool, nullptr);
  AllowForAlteration(recorded.remarks, verdict);
  verdict.unreadable = call.unreadable();
  return verdict;
}

CallVerdict RecheckBackward(const RecordedCall& recorded, const Precision& precision,
                            base::ThreadPool& pool) {
  const Request asked = RequestFor(recorded);
  if (!asked.problem.empty()) {
    return NotCheckable(asked.name, asked.problem);
  }
  Call call(*recorded.forward, recorded.tensors);
  call.WantGradients();
  const BackwardTensors tensors = ReadBackward(call, recorded);
  if (tensors.outgoing.empty()) {
    return NotCheckable(asked.name, "no gradient goes out of it");
  }
  CallVerdict verdict = CheckBackward(call, asked, tensors, precision, pool, nullptr);
  AllowForAlteration(recorded.remarks, verdict);
  verdict.unreadable = call.unreadable();
  return verdict;
}

BothVerdicts RecheckBoth(const RecordedCall& forward, const RecordedCall& backward,
                         const Precision& precision, base::ThreadPool& pool) {
  const auto one_by_one = [&] {
    return BothVerdicts{RecheckForward(forward, precision, pool),
                        RecheckBackward(backward, precision, pool)};
  };
  const Request asked = RequestFor(forward);
  const Request asked_back = RequestFor(backward);
  // Results that another call tells are those of the forward half only.
  if (!asked.problem.empty() || asked.operation != asked_back.operation ||
      asked.operation->find_outputs != nullptr) {
    return one_by_one();
  }
  Call call(*forward.forward, forward.tensors);
  call.WantGradients();
  if (call.outputs().empty()) {
    return one_by_one();
  }
  const Rounding rounding =
      Rounding::Of(StorageOf(call.outputs()), asked.operation->rounds == Rounds::kSteps);
  auto made = std::make_unique<Recomputed>(call, asked, rounding, pool, true);
  if (!made->problem.empty() || !call.unreadable().empty()) {
    return one_by_one();  // each half has problems of its own
  }
  BothVerdicts verdicts;
  verdicts.forward = CheckForward(call, asked, precision, pool,
                                  made->arithmetic.asked_whether_taping() ? nullptr : made.get());
  AllowForAlteration(forward.remarks, verdicts.forward);
  verdicts.forward.unreadable = call.unreadable();
  const BackwardTensors tensors = ReadBackward(call, backward);
  verdicts.backward =
      tensors.outgoing.empty()
          ? NotCheckable(asked_back.name, "no gradient goes out of it")
          : CheckBackward(call, asked_back, tensors, precision, pool, std::move(made));
  AllowForAlteration(backward.remarks, verdicts.backward);
  verdicts.backward.unreadable = call.unreadable();
  return verdicts;
}

}  // namespace msprobe::analysis::recheck
