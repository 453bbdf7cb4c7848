// Error bounds of calls from recorded statistics; error_bound.h has the derivation.
//
// FamilyOf() maps an operator to one of a few families (contraction, sum, elementwise,
// normalisation, softmax, branching, ...), by name without underscores and prefixes. Each family
// has a function for the forward and one for the backward direction that turns errors of the
// operands, relative to their scale, into the largest error of the output that correct
// arithmetic can produce, plus rounding within the call. Infinity stands for "no bound".
#include "src/analysis/compare/error_bound.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "src/analysis/compare/agreement.h"
#include "src/analysis/compare/divergence_thresholds.h"
#include "src/base/strings.h"

namespace msprobe::analysis::compare {
namespace {

using enum OperatorFamily;

// Names in lower case without underscores. addcdiv is an optimizer's m / (sqrt(v) + eps): where a
// gradient cancels, the quotient is chance.
struct FamilyNames {
  OperatorFamily family;
  std::string_view names;
};
constexpr FamilyNames kFamilies[] = {
    {kContraction,
     "linear dense matmul batchmatmul rmatmul imatmul mm bmm mv dot vdot inner addmm addmv "
     "addbmm baddbmm einsum tensordot chainmatmul conv1d conv2d conv3d convtranspose1d "
     "convtranspose2d convtranspose3d columnparallellinear rowparallellinear"},
    {kSmooth,
     "add iadd radd sub isub rsub neg gelu fastgelu silu swish tanh sigmoid softplus "
     "softsign elu selu celu mish hardswish hardsigmoid logsigmoid sin cos atan dropout "
     "dropout1d dropout2d dropout3d embedding interpolate upsample avgpool1d avgpool2d "
     "avgpool3d adaptiveavgpool1d adaptiveavgpool2d adaptiveavgpool3d lerp"},
    {kThreshold,
     "relu relu6 leakyrelu prelu rrelu hardtanh hardshrink softshrink threshold clamp clip "
     "abs max min amax amin maximum minimum maxpool1d maxpool2d maxpool3d "
     "adaptivemaxpool1d adaptivemaxpool2d adaptivemaxpool3d l1loss smoothl1loss huberloss"},
    {kProduct,
     "mul imul rmul multiply div divide truediv itruediv rtruediv idiv square pow ipow "
     "outer addcmul glu swiglu rotarymul"},
    {kNormalisation,
     "layernorm groupnorm batchnorm batchnorm1d batchnorm2d batchnorm3d syncbatchnorm "
     "instancenorm instancenorm1d instancenorm2d instancenorm3d rmsnorm addrmsnorm "
     "llamarmsnorm fusedlayernorm mixedfusedlayernorm normalize"},
    {kSoftmax,
     "softmax logsoftmax softmin logsumexp crossentropy crossentropyloss nllloss "
     "binarycrossentropywithlogits bcewithlogitsloss scaledmaskedsoftmax gumbelsoftmax"},
    {kReduction, "sum mean nansum nanmean cumsum trace mseloss var std"},
    {kDiscrete,
     "addcdiv topk argmax argmin argsort sort round floor ceil trunc sign eq ne gt ge lt "
     "le nonzero unique multinomial histc bincount"},
    {kExact,
     "view viewas reshape flatten unflatten transpose t permute contiguous clone detach "
     "expand repeat squeeze unsqueeze cat concat stack split chunk unbind getitem "
     "indexselect gather pad roll flip maskedfill where tril triu identity float half "
     "bfloat16 double to type cpu cuda narrow select setitem swapaxes movedim tile "
     "repeatinterleave"},
};

// The class of a module, the name of a function.
std::string_view NameOf(const dump::EntryName& call) {
  return call.class_name.empty() ? call.subject : call.class_name;
}

// "layer_norm", "LayerNorm" and "npu_layer_norm" -> "layernorm"; "__add__" and "add_" -> "add".
std::string Plain(std::string_view name) {
  if (name.starts_with("npu_")) {
    name.remove_prefix(4);
  }
  std::string plain;
  for (const char c : name) {
    if (c != '_') {
      plain.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
    }
  }
  return plain;
}

}  // namespace

OperatorFamily FamilyOf(const dump::EntryName& call) {
  static const auto kFamilyOfName = [] {
    std::unordered_map<std::string_view, OperatorFamily> families;
    for (const FamilyNames& family : kFamilies) {
      for (const std::string_view name : base::Split(family.names, ' ')) {
        families.emplace(name, family.family);
      }
    }
    return families;
  }();
  const auto found = kFamilyOfName.find(Plain(NameOf(call)));
  return found == kFamilyOfName.end() ? kComposite : found->second;
}

namespace {

// Sums that may cancel; other reductions divide by the number of elements, or sum what cannot
// cancel.
constexpr std::array<std::string_view, 4> kSums = {"sum", "nansum", "cumsum", "trace"};
constexpr std::array<std::string_view, 2> kMeans = {"mean", "nanmean"};
constexpr std::array<std::string_view, 4> kMultiplications = {"mul", "imul", "rmul", "multiply"};
constexpr std::array<std::string_view, 5> kDivisions = {"div", "idiv", "divide", "truediv",
                                                        "itruediv"};

bool IsAmong(const dump::EntryName& call, std::span<const std::string_view> names) {
  return base::IsOneOf(Plain(NameOf(call)), names);
}

using dump::Direction;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
double ErrorOf(const Operand& operand, const BoundOptions& options) {
  return operand.epsilon > 0 && !operand.is_state ? std::max(operand.error, options.hidden_error)
                                                  : operand.error;
}

double SumsOf(double elements, double size) {
  return std::max(1.0, elements / std::max(1.0, size));
}

// Axes of "[2, 3]"; empty for "[]".
std::vector<double> Axes(std::string_view shape) {
  std::vector<double> axes;
  double axis = 0;
  bool any = false;
  for (const char c : shape) {
    if (c >= '0' && c <= '9') {
      axis = axis * 10 + (c - '0');
      any = true;
    } else if (any) {
      axes.push_back(axis);
      axis = 0;
      any = false;
    }
  }
  return axes;
}

const Operand* LargestOf(std::span<const Operand> operands, bool state) {
  const Operand* largest = nullptr;
  for (const Operand& operand : operands) {
    if (operand.epsilon > 0 && operand.is_state == state && operand.rms > 0 &&
        (largest == nullptr || operand.elements > largest->elements)) {
      largest = &operand;
    }
  }
  return largest;
}

// The two factors of a sum of products.
struct Factors {
  const Operand* first = nullptr;
  const Operand* second = nullptr;
};

Factors FactorsOf(std::span<const Operand> operands) {
  Factors factors;
  factors.first = LargestOf(operands, false);
  factors.second = LargestOf(operands, true);
  if (factors.second == nullptr) {
    for (const Operand& operand : operands) {
      if (&operand != factors.first && operand.epsilon > 0 && operand.rms > 0 &&
          operand.elements > 1) {
        factors.second = &operand;
        break;
      }
    }
  }
  return factors;
}

// How many products stand behind all outputs of a forward contraction.
double ProductCount(const dump::EntryName& call, const Factors& factors, double outputs) {
  const std::vector<double> first = Axes(factors.first->shape);
  const std::vector<double> second = Axes(factors.second->shape);
  const std::string_view name = NameOf(call);
  const bool transposed = name.find("ranspose") != std::string_view::npos;
  const bool is_convolution = name.find("onv") != std::string_view::npos;
  double sum_length = first.empty() ? 1 : first.back();
  if (is_convolution && second.size() > 1) {
    sum_length = factors.second->elements / std::max(1.0, transposed ? second[1] : second[0]);
  }
  return std::max(1.0, sum_length * outputs);
}

double Contraction(double error, const Operand& a, const Operand& b, double products,
                   const Operand& output) {
  const double size = output.rms * std::sqrt(output.elements);
  return size > 0 ? error * a.rms * b.rms * std::sqrt(products) / size : kInfinity;
}

// sum of e_i rms_i over the operands, as a share of the output's scale.
double ScaledErrors(std::span<const Operand> operands, const Operand& output,
                    const BoundOptions& options) {
  double sum = 0;
  for (const Operand& operand : operands) {
    if (operand.epsilon > 0) {
      sum += (ErrorOf(operand, options) + operand.hidden_error / kSlack) *
             (operand.rms > 0 ? operand.rms : operand.largest);
    }
  }
  if (sum == 0) {
    return 0;
  }
  return output.rms > 0 ? sum / output.rms : kInfinity;
}

double LargestErrorOf(std::span<const Operand> operands, const BoundOptions& options) {
  double largest = 0;
  for (const Operand& operand : operands) {
    largest = std::max(largest, ErrorOf(operand, options));
  }
  return largest;
}

// What rounding inside the call adds where its sums cancel. Kernels of 16-bit types accumulate in
// float32.
double OwnRounding(const Operand& output) {
  return kOwnUnits * std::min(output.epsilon, kEpsilonFloat32);
}

// The rounding error of a sum of `terms` terms: the errors of partial sums grow with the root of
// their number.
double OwnRounding(const Operand& output, double terms) {
  return std::max(kOwnUnits, kUnitsPerRoot * std::sqrt(terms)) *
         std::min(output.epsilon, kEpsilonFloat32);
}

double ForwardContraction(const dump::EntryName& call, const CallOperands& operands,
                          const Operand& output, const BoundOptions& options) {
  const Factors factors = FactorsOf(operands.inputs);
  if (factors.first == nullptr || factors.second == nullptr) {
    return kCompositeSlack * LargestErrorOf(operands.inputs, options);
  }
  const double products = ProductCount(call, factors, output.elements);
  const double error = ErrorOf(*factors.first, options) + ErrorOf(*factors.second, options) +
                       (factors.first->hidden_error + factors.second->hidden_error) / kSlack;
  double explained = Contraction(kSlack * error + OwnRounding(output), *factors.first,
                                 *factors.second, products, output);
  for (const Operand& operand : operands.inputs) {  // a bias, the addend of addmm
    if (output.rms > 0 && operand.epsilon > 0) {
      const bool is_factor = &operand == factors.first || &operand == factors.second;
      explained += (is_factor ? 0.0 : kSlack * ErrorOf(operand, options) + operand.hidden_error) *
                   operand.rms / output.rms;
    }
  }
  return explained;
}

// The part of a group's scale that its mean takes away: |x| / |x - mean|, by the mean over all
// elements.
double Magnification(const Operand& operand) {
  const double square = operand.rms * operand.rms;
  const double variance = square - operand.mean * operand.mean;
  return variance > square * kLeastVarianceShare ? std::sqrt(square / variance)
                                                 : kLargestMagnification;
}

bool NormalisesFew(const dump::EntryName& call, const Operand& input) {
  const std::string_view name = NameOf(call);
  if (name.find("atch") == std::string_view::npos) {
    return false;
  }
  const std::vector<double> axes = Axes(input.shape);
  return axes.size() > 1 && input.elements / std::max(1.0, axes[1]) < kFewPerGroup;
}

double ForwardNormalisation(const dump::EntryName& call, const CallOperands& operands,
                            const Operand& output, const BoundOptions& options) {
  const Operand* input = LargestOf(operands.inputs, false);
  if (input == nullptr) {
    return kCompositeSlack * LargestErrorOf(operands.inputs, options);
  }
  double explained = kSlack * ErrorOf(*input, options) * Magnification(*input) +
                     OwnRounding(output) * Magnification(*input);
  if (NormalisesFew(call, *input)) {
    explained *= kSmallGroupSlack;
  }
  for (const Operand& operand : operands.inputs) {
    if (operand.is_state && operand.epsilon > 0 && output.rms > 0) {
      // A weight scales values of size 1, a bias is added to them.
      explained += kSlack * ErrorOf(operand, options) * operand.rms / output.rms;
    }
  }
  return explained;
}

// Softmax and cross entropy answer to absolute errors of the logits.
double ForwardSoftmax(const CallOperands& operands, const Operand& output,
                      const BoundOptions& options) {
  double absolute = 0;
  for (const Operand& operand : operands.inputs) {
    const double scale =
        operand.rms > 0 && std::isfinite(operand.rms) ? operand.rms : operand.largest;
    absolute = std::max(absolute,
                        ErrorOf(operand, options) * scale + OwnRounding(operand) * operand.largest);
  }
  if (absolute == 0) {
    return 0;
  }
  const double scale = std::max(output.rms, output.largest * kSoftmaxPeakShare);
  return scale > 0 ? kSlack * absolute * std::max(1.0, kSoftmaxSlope / scale) : kInfinity;
}

// A sum that cancels is small beside what it sums: rounding of n terms of size g moves it by up to
// about g sqrt(n) units, and by g n units where all of them point in one direction, as the last
// place of another machine's kernel may.
double ForwardSum(const Operand& input, double error, const Operand& output) {
  const std::vector<double> axes = Axes(input.shape);
  // A running sum has as many results as terms.
  const double count = output.elements < input.elements || axes.empty()
                           ? SumsOf(input.elements, output.elements)
                           : std::max(1.0, *std::max_element(axes.begin(), axes.end()));
  if (!(output.rms > 0)) {
    return kInfinity;
  }
  const double size = input.rms / output.rms;
  const double one_way = error > 0 ? std::max(input.error, input.epsilon) * size * count : 0;
  return (kSlack * error + OwnRounding(output, count)) * std::max(2.0, size * std::sqrt(count)) +
         one_way;
}

double ForwardReduction(const dump::EntryName& call, const CallOperands& operands,
                        const Operand& output, const BoundOptions& options) {
  const Operand* input = LargestOf(operands.inputs, false);
  if (input == nullptr) {
    return kCompositeSlack * LargestErrorOf(operands.inputs, options);
  }
  double error = 0;
  for (const Operand& operand : operands.inputs) {
    error = std::max(error, ErrorOf(operand, options));
  }
  if (IsAmong(call, kSums)) {
    return ForwardSum(*input, error, output);
  }
  const double count = SumsOf(input->elements, output.elements);
  if (IsAmong(call, kMeans)) {
    // Errors in random directions average out; what a weight or bias rounds to is the same in all
    // elements, so it stays.
    const double size = output.rms > 0 ? input->rms / output.rms : kInfinity;
    return (kSlack * error + OwnRounding(output)) * std::max(1.0, size / std::sqrt(count)) +
           error * size;
  }
  // A sum is as large as count * mean where nothing cancels; a mean or a loss is a sum divided by
  // count.
  const double sum_scale = output.rms > 0 ? input->rms * std::sqrt(count) / output.rms : kInfinity;
  const double mean_scale = sum_scale / count;
  const double cancelling = output.rms > input->rms ? sum_scale : mean_scale * std::sqrt(count);
  return (kSlack * error + OwnRounding(output)) * std::max(2.0, cancelling);
}

// A tensor times or over one number, or a gradient on its way through such a call: all statistics
// of the result are the tensor's times one factor, so they are as far apart as those are, whatever
// single elements hide.
std::optional<double> ScaledByNumber(const dump::EntryName& call, bool is_backward,
                                     const CallOperands& operands, const Operand& output) {
  const bool is_division = IsAmong(call, kDivisions);
  const std::vector<Operand>& factors = is_backward ? operands.forward_inputs : operands.inputs;
  if ((!is_division && !IsAmong(call, kMultiplications)) || factors.size() != 2) {
    return std::nullopt;
  }
  const Operand* scaled = nullptr;
  double error = std::max(OwnRounding(output), output.epsilon);  // half a unit on either side
  for (const Operand& operand : factors) {
    error += operand.elements == 1 || !is_backward ? operand.error : 0;
    const bool is_number = operand.elements == 1;
    if (is_number ? is_division && scaled == nullptr : scaled != nullptr || operand.epsilon == 0) {
      return std::nullopt;
    }
    scaled = is_number ? scaled : &operand;
  }
  if (is_backward && scaled != nullptr) {
    scaled = LargestOf(operands.inputs, false);
    error += scaled == nullptr ? 0 : scaled->error;
  }
  return scaled != nullptr && scaled->elements == output.elements
             ? std::optional(kScaledSlack * error)
             : std::nullopt;
}

double ForwardProduct(const dump::EntryName& call, const CallOperands& operands,
                      const Operand& output, const BoundOptions& options) {
  if (IsAmong(call, kMultiplications) && operands.inputs.size() == 2 && output.rms > 0) {
    // a (b + db) + da b: of errors in random directions as large as the mean of the other operand.
    const Operand& a = operands.inputs.front();
    const Operand& b = operands.inputs.back();
    return kSlack *
               (ErrorOf(a, options) + ErrorOf(b, options) +
                (a.hidden_error + b.hidden_error) / kSlack) *
               std::max(1.0, a.rms * b.rms / output.rms) +
           OwnRounding(output);
  }
  double largest_ratio = 1;
  for (const Operand& operand : operands.inputs) {
    if (operand.rms > 0) {
      largest_ratio = std::max(largest_ratio, operand.largest / operand.rms);
    }
  }
  const double error = LargestErrorOf(operands.inputs, options);
  return kSlack * error * (2 + error) * std::min(largest_ratio, kLargestPeak) +  // (1 + e)^2 - 1
         OwnRounding(output);
}

}  // namespace

double FlippedShare(double error, double elements) {
  const double flips = kFlipDensity * std::min(1.0, error) * elements;
  return flips < kFewestFlips ? 0 : std::min(1.0, (2 * flips + 1) / elements);
}

namespace {

// x + value a / b, the step of Adam. An error of a or b counts by the smallest b, which is next to
// zero where a gradient is.
double ForwardUpdateByQuotient(const CallOperands& operands, const Operand& output,
                               const BoundOptions& options) {
  if (LargestErrorOf(operands.inputs, options) == 0) {
    return 0;
  }
  const auto absolute = [&](const Operand& operand) {
    return kSlack * ErrorOf(operand, options) *
           (operand.rms > 0 ? std::max(operand.rms, operand.largest) : operand.largest);
  };
  if (operands.inputs.size() < 3 || !(operands.inputs[2].smallest > 0) || !(output.rms > 0)) {
    return kInfinity;
  }
  const Operand& a = operands.inputs[1];
  const Operand& b = operands.inputs[2];
  const double left = b.smallest - absolute(b);
  if (!(left > 0)) {
    return kInfinity;
  }
  const double value = operands.inputs.size() > 3 ? operands.inputs[3].largest : 1.0;
  const double quotient = (absolute(a) + a.largest / b.smallest * absolute(b)) / left;
  return (absolute(operands.inputs[0]) + value * quotient) / output.rms + OwnRounding(output);
}

double FlippedShareOf(const CallOperands& operands, const BoundOptions& options) {
  double elements = 1;
  for (const Operand& operand : operands.forward_inputs) {
    elements = std::max(elements, operand.elements);
  }
  return FlippedShare(LargestErrorOf(operands.forward_inputs, options), elements);
}

double Backward(const dump::EntryName& call, OperatorFamily family, const CallOperands& operands,
                const Operand& output, const BoundOptions& options) {
  const Operand* gradient = LargestOf(operands.inputs, false);
  if (gradient == nullptr) {
    return operands.inputs.empty() && options.hidden_error == 0 && operands.inner_error == 0
               ? OwnRounding(output)
               : kInfinity;
  }
  const double gradient_error = ErrorOf(*gradient, options);
  const double terms = SumsOf(gradient->elements, output.elements);
  // For a sum over the gradient, where the errors of all its elements point in one direction.
  const double one_way = terms > 1 && gradient_error > 0
                             ? std::max(gradient->error, gradient->epsilon) * std::sqrt(terms)
                             : 0;
  const double forward_error = LargestErrorOf(operands.forward_inputs, options);
  // Where one gradient (of a loss) scales all of the output, it does so with what the output is.
  const double gradient_scale =
      gradient->elements == 1 && output.elements > 1 ? 1.0
      : output.rms > 0
          ? gradient->rms * std::sqrt(gradient->elements / output.elements) / output.rms
          : kInfinity;
  switch (family) {
    case OperatorFamily::kContraction: {
      const Factors factors = FactorsOf(operands.forward_inputs);
      if (factors.first == nullptr || factors.second == nullptr) {
        break;
      }
      const double products = ProductCount(call, factors, gradient->elements);
      // The factor that is not the output's own; a bias sums the gradient alone.
      const bool of_first =
          output.shape == factors.first->shape ||
          (output.shape != factors.second->shape && output.elements == factors.first->elements &&
           output.elements != factors.second->elements);
      if (of_first ||
          output.elements == factors.second->elements) {  // a weight's may be transposed
        const Operand& other = of_first ? *factors.second : *factors.first;
        return Contraction(kSlack * (gradient_error + ErrorOf(other, options)) +
                               OwnRounding(output, products / output.elements),
                           *gradient, other, products, output);
      }
      return (kSlack * gradient_error + one_way + OwnRounding(output, terms)) * gradient_scale;
    }
    case OperatorFamily::kNormalisation: {
      const Operand* input = LargestOf(operands.forward_inputs, false);
      const double few = input != nullptr && NormalisesFew(call, *input) ? kSmallGroupSlack : 1.0;
      const double magnified = input == nullptr ? 1.0 : Magnification(*input);
      double spread = input == nullptr ? 1.0 : input->rms / magnified;  // the standard deviation
      if (output.elements < gradient->elements) {
        spread = 1;  // a weight or bias: sums of the gradient times normalised values
      }
      const double scale =
          spread > 0 ? std::max(1.0, gradient_scale / std::min(spread, 1.0)) : kInfinity;
      return few * scale *
             (kSlack * (gradient_error + forward_error * magnified) + OwnRounding(output, terms));
    }
    case OperatorFamily::kThreshold: {
      const double flipped = std::sqrt(FlippedShareOf(operands, options));
      return (kSlack * gradient_error +
              flipped * std::max(1.0, gradient->largest / std::max(gradient->rms, 1e-300) / 2) +
              OwnRounding(output)) *
             std::max(1.0, gradient_scale);
    }
    case OperatorFamily::kSmooth:
    case OperatorFamily::kExact:
    case OperatorFamily::kSoftmax:
    case OperatorFamily::kProduct:
    case OperatorFamily::kReduction: {
      // The second derivative of smooth functions is at most about 1: an error of x moves the
      // factor of the gradient by as much. The factor of a product is the other operand itself.
      double largest_rms = 0;
      for (const Operand& operand : operands.forward_inputs) {
        largest_rms = std::max(largest_rms, operand.rms);
      }
      const double forward_scale = family == OperatorFamily::kProduct ? 1.0 : largest_rms;
      const double forward = family == OperatorFamily::kExact ? 0 : forward_error * forward_scale;
      // What is summed over a broadcast product is the gradient times the other operand.
      const double factor =
          family == OperatorFamily::kProduct && terms > 1 ? std::max(1.0, largest_rms) : 1.0;
      return (kSlack * (gradient_error + forward) + one_way + OwnRounding(output, terms)) *
             std::max(1.0, gradient_scale * factor);
    }
    case OperatorFamily::kDiscrete:
      return kInfinity;
    case OperatorFamily::kComposite:
      break;
  }
  const double error = std::max({gradient_error, forward_error, operands.inner_error});
  return (kCompositeSlack * error + kOwnUnits * output.epsilon) *
         std::clamp(gradient_scale, 1.0, kCompositeLargestScale);
}

double Forward(const dump::EntryName& call, OperatorFamily family, const CallOperands& operands,
               const Operand& output, const BoundOptions& options) {
  switch (family) {
    case OperatorFamily::kContraction:
      return ForwardContraction(call, operands, output, options);
    case OperatorFamily::kSmooth:
    case OperatorFamily::kThreshold:
    case OperatorFamily::kExact:
      return kSlack * ScaledErrors(operands.inputs, output, options) + OwnRounding(output);
    case OperatorFamily::kProduct:
      return ForwardProduct(call, operands, output, options);
    case OperatorFamily::kNormalisation:
      return ForwardNormalisation(call, operands, output, options);
    case OperatorFamily::kSoftmax:
      return ForwardSoftmax(operands, output, options);
    case OperatorFamily::kReduction:
      return ForwardReduction(call, operands, output, options);
    case OperatorFamily::kDiscrete:
      return !call.is_module && Plain(call.subject) == "addcdiv"
                 ? ForwardUpdateByQuotient(operands, output, options)
             : LargestErrorOf(operands.inputs, options) > 0 ? kInfinity
                                                            : 0.0;
    case OperatorFamily::kComposite:
      break;
  }
  return kCompositeSlack *
             std::max(LargestErrorOf(operands.inputs, options), operands.inner_error) +
         OwnRounding(output);
}

}  // namespace

double ExplainedError(const dump::EntryName& call, OperatorFamily family,
                      const CallOperands& operands, const Operand& output,
                      const BoundOptions& options) {
  const bool is_backward = call.direction == Direction::kBackward || call.is_parameters_grad;
  if (const std::optional<double> scaled = ScaledByNumber(call, is_backward, operands, output)) {
    return *scaled;
  }
  return options.slack * (is_backward ? Backward(call, family, operands, output, options)
                                      : Forward(call, family, operands, output, options));
}

}  // namespace msprobe::analysis::compare
