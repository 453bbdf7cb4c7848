#include "src/analysis/compare/operator_family.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <string_view>

#include "src/base/strings.h"

namespace msprobe::analysis::compare {
namespace {

struct NamedFamily {
  std::string_view name;  // lower case without underscores
  OperatorFamily family;
};

using enum OperatorFamily;

// Sorted by name.
constexpr auto kFamilies = [] {
  std::array table = {
      NamedFamily{"linear", kContraction},
      NamedFamily{"dense", kContraction},
      NamedFamily{"matmul", kContraction},
      NamedFamily{"batchmatmul", kContraction},
      NamedFamily{"rmatmul", kContraction},
      NamedFamily{"imatmul", kContraction},
      NamedFamily{"mm", kContraction},
      NamedFamily{"bmm", kContraction},
      NamedFamily{"mv", kContraction},
      NamedFamily{"dot", kContraction},
      NamedFamily{"vdot", kContraction},
      NamedFamily{"inner", kContraction},
      NamedFamily{"addmm", kContraction},
      NamedFamily{"addmv", kContraction},
      NamedFamily{"addbmm", kContraction},
      NamedFamily{"baddbmm", kContraction},
      NamedFamily{"einsum", kContraction},
      NamedFamily{"tensordot", kContraction},
      NamedFamily{"chainmatmul", kContraction},
      NamedFamily{"conv1d", kContraction},
      NamedFamily{"conv2d", kContraction},
      NamedFamily{"conv3d", kContraction},
      NamedFamily{"convtranspose1d", kContraction},
      NamedFamily{"convtranspose2d", kContraction},
      NamedFamily{"convtranspose3d", kContraction},
      NamedFamily{"columnparallellinear", kContraction},
      NamedFamily{"rowparallellinear", kContraction},

      NamedFamily{"add", kSmooth},
      NamedFamily{"iadd", kSmooth},
      NamedFamily{"radd", kSmooth},
      NamedFamily{"sub", kSmooth},
      NamedFamily{"isub", kSmooth},
      NamedFamily{"rsub", kSmooth},
      NamedFamily{"neg", kSmooth},
      NamedFamily{"gelu", kSmooth},
      NamedFamily{"fastgelu", kSmooth},
      NamedFamily{"silu", kSmooth},
      NamedFamily{"swish", kSmooth},
      NamedFamily{"tanh", kSmooth},
      NamedFamily{"sigmoid", kSmooth},
      NamedFamily{"softplus", kSmooth},
      NamedFamily{"softsign", kSmooth},
      NamedFamily{"elu", kSmooth},
      NamedFamily{"selu", kSmooth},
      NamedFamily{"celu", kSmooth},
      NamedFamily{"mish", kSmooth},
      NamedFamily{"hardswish", kSmooth},
      NamedFamily{"hardsigmoid", kSmooth},
      NamedFamily{"logsigmoid", kSmooth},
      NamedFamily{"sin", kSmooth},
      NamedFamily{"cos", kSmooth},
      NamedFamily{"atan", kSmooth},
      NamedFamily{"dropout", kSmooth},
      NamedFamily{"dropout1d", kSmooth},
      NamedFamily{"dropout2d", kSmooth},
      NamedFamily{"dropout3d", kSmooth},
      NamedFamily{"embedding", kSmooth},
      NamedFamily{"interpolate", kSmooth},
      NamedFamily{"upsample", kSmooth},
      NamedFamily{"avgpool1d", kSmooth},
      NamedFamily{"avgpool2d", kSmooth},
      NamedFamily{"avgpool3d", kSmooth},
      NamedFamily{"adaptiveavgpool1d", kSmooth},
      NamedFamily{"adaptiveavgpool2d", kSmooth},
      NamedFamily{"adaptiveavgpool3d", kSmooth},
      NamedFamily{"lerp", kSmooth},

      NamedFamily{"relu", kThreshold},
      NamedFamily{"relu6", kThreshold},
      NamedFamily{"leakyrelu", kThreshold},
      NamedFamily{"prelu", kThreshold},
      NamedFamily{"rrelu", kThreshold},
      NamedFamily{"hardtanh", kThreshold},
      NamedFamily{"hardshrink", kThreshold},
      NamedFamily{"softshrink", kThreshold},
      NamedFamily{"threshold", kThreshold},
      NamedFamily{"clamp", kThreshold},
      NamedFamily{"clip", kThreshold},
      NamedFamily{"abs", kThreshold},
      NamedFamily{"max", kThreshold},
      NamedFamily{"min", kThreshold},
      NamedFamily{"amax", kThreshold},
      NamedFamily{"amin", kThreshold},
      NamedFamily{"maximum", kThreshold},
      NamedFamily{"minimum", kThreshold},
      NamedFamily{"maxpool1d", kThreshold},
      NamedFamily{"maxpool2d", kThreshold},
      NamedFamily{"maxpool3d", kThreshold},
      NamedFamily{"adaptivemaxpool1d", kThreshold},
      NamedFamily{"adaptivemaxpool2d", kThreshold},
      NamedFamily{"adaptivemaxpool3d", kThreshold},
      NamedFamily{"l1loss", kThreshold},
      NamedFamily{"smoothl1loss", kThreshold},
      NamedFamily{"huberloss", kThreshold},

      NamedFamily{"mul", kProduct},
      NamedFamily{"imul", kProduct},
      NamedFamily{"rmul", kProduct},
      NamedFamily{"multiply", kProduct},
      NamedFamily{"div", kProduct},
      NamedFamily{"divide", kProduct},
      NamedFamily{"truediv", kProduct},
      NamedFamily{"itruediv", kProduct},
      NamedFamily{"rtruediv", kProduct},
      NamedFamily{"idiv", kProduct},
      NamedFamily{"square", kProduct},
      NamedFamily{"pow", kProduct},
      NamedFamily{"ipow", kProduct},
      NamedFamily{"outer", kProduct},
      NamedFamily{"addcmul", kProduct},
      NamedFamily{"glu", kProduct},
      NamedFamily{"swiglu", kProduct},
      NamedFamily{"rotarymul", kProduct},

      NamedFamily{"layernorm", kNormalisation},
      NamedFamily{"groupnorm", kNormalisation},
      NamedFamily{"batchnorm", kNormalisation},
      NamedFamily{"batchnorm1d", kNormalisation},
      NamedFamily{"batchnorm2d", kNormalisation},
      NamedFamily{"batchnorm3d", kNormalisation},
      NamedFamily{"syncbatchnorm", kNormalisation},
      NamedFamily{"instancenorm", kNormalisation},
      NamedFamily{"instancenorm1d", kNormalisation},
      NamedFamily{"instancenorm2d", kNormalisation},
      NamedFamily{"instancenorm3d", kNormalisation},
      NamedFamily{"rmsnorm", kNormalisation},
      NamedFamily{"addrmsnorm", kNormalisation},
      NamedFamily{"llamarmsnorm", kNormalisation},
      NamedFamily{"fusedlayernorm", kNormalisation},
      NamedFamily{"mixedfusedlayernorm", kNormalisation},
      NamedFamily{"normalize", kNormalisation},

      NamedFamily{"softmax", kSoftmax},
      NamedFamily{"logsoftmax", kSoftmax},
      NamedFamily{"softmin", kSoftmax},
      NamedFamily{"logsumexp", kSoftmax},
      NamedFamily{"crossentropy", kSoftmax},
      NamedFamily{"crossentropyloss", kSoftmax},
      NamedFamily{"nllloss", kSoftmax},
      NamedFamily{"binarycrossentropywithlogits", kSoftmax},
      NamedFamily{"bcewithlogitsloss", kSoftmax},
      NamedFamily{"scaledmaskedsoftmax", kSoftmax},
      NamedFamily{"gumbelsoftmax", kSoftmax},

      NamedFamily{"sum", kReduction},
      NamedFamily{"mean", kReduction},
      NamedFamily{"nansum", kReduction},
      NamedFamily{"nanmean", kReduction},
      NamedFamily{"cumsum", kReduction},
      NamedFamily{"trace", kReduction},
      NamedFamily{"mseloss", kReduction},
      NamedFamily{"var", kReduction},
      NamedFamily{"std", kReduction},

      // An optimizer's m / (sqrt(v) + eps): where a gradient cancels, the quotient is chance.
      NamedFamily{"addcdiv", kDiscrete},
      NamedFamily{"topk", kDiscrete},
      NamedFamily{"argmax", kDiscrete},
      NamedFamily{"argmin", kDiscrete},
      NamedFamily{"argsort", kDiscrete},
      NamedFamily{"sort", kDiscrete},
      NamedFamily{"round", kDiscrete},
      NamedFamily{"floor", kDiscrete},
      NamedFamily{"ceil", kDiscrete},
      NamedFamily{"trunc", kDiscrete},
      NamedFamily{"sign", kDiscrete},
      NamedFamily{"eq", kDiscrete},
      NamedFamily{"ne", kDiscrete},
      NamedFamily{"gt", kDiscrete},
      NamedFamily{"ge", kDiscrete},
      NamedFamily{"lt", kDiscrete},
      NamedFamily{"le", kDiscrete},
      NamedFamily{"nonzero", kDiscrete},
      NamedFamily{"unique", kDiscrete},
      NamedFamily{"multinomial", kDiscrete},
      NamedFamily{"histc", kDiscrete},
      NamedFamily{"bincount", kDiscrete},

      NamedFamily{"view", kExact},
      NamedFamily{"viewas", kExact},
      NamedFamily{"reshape", kExact},
      NamedFamily{"flatten", kExact},
      NamedFamily{"unflatten", kExact},
      NamedFamily{"transpose", kExact},
      NamedFamily{"t", kExact},
      NamedFamily{"permute", kExact},
      NamedFamily{"contiguous", kExact},
      NamedFamily{"clone", kExact},
      NamedFamily{"detach", kExact},
      NamedFamily{"expand", kExact},
      NamedFamily{"repeat", kExact},
      NamedFamily{"squeeze", kExact},
      NamedFamily{"unsqueeze", kExact},
      NamedFamily{"cat", kExact},
      NamedFamily{"concat", kExact},
      NamedFamily{"stack", kExact},
      NamedFamily{"split", kExact},
      NamedFamily{"chunk", kExact},
      NamedFamily{"unbind", kExact},
      NamedFamily{"getitem", kExact},
      NamedFamily{"indexselect", kExact},
      NamedFamily{"gather", kExact},
      NamedFamily{"pad", kExact},
      NamedFamily{"roll", kExact},
      NamedFamily{"flip", kExact},
      NamedFamily{"maskedfill", kExact},
      NamedFamily{"where", kExact},
      NamedFamily{"tril", kExact},
      NamedFamily{"triu", kExact},
      NamedFamily{"identity", kExact},
      NamedFamily{"float", kExact},
      NamedFamily{"half", kExact},
      NamedFamily{"bfloat16", kExact},
      NamedFamily{"double", kExact},
      NamedFamily{"to", kExact},
      NamedFamily{"type", kExact},
      NamedFamily{"cpu", kExact},
      NamedFamily{"cuda", kExact},
      NamedFamily{"narrow", kExact},
      NamedFamily{"select", kExact},
      NamedFamily{"setitem", kExact},
      NamedFamily{"swapaxes", kExact},
      NamedFamily{"movedim", kExact},
      NamedFamily{"tile", kExact},
      NamedFamily{"repeatinterleave", kExact},
  };
  std::sort(table.begin(), table.end(),
            [](const NamedFamily& a, const NamedFamily& b) { return a.name < b.name; });
  return table;
}();

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

bool IsPlainSum(const dump::EntryName& call) {
  constexpr std::array<std::string_view, 4> kSums = {"sum", "nansum", "cumsum", "trace"};
  return base::IsOneOf(Plain(call.class_name.empty() ? call.subject : call.class_name), kSums);
}

bool IsPlainMean(const dump::EntryName& call) {
  constexpr std::array<std::string_view, 2> kMeans = {"mean", "nanmean"};
  return base::IsOneOf(Plain(call.class_name.empty() ? call.subject : call.class_name), kMeans);
}

bool IsUpdateByQuotient(const dump::EntryName& call) {
  return !call.is_module && Plain(call.subject) == "addcdiv";
}

bool IsMultiplication(const dump::EntryName& call) {
  constexpr std::array<std::string_view, 4> kNames = {"mul", "imul", "rmul", "multiply"};
  return base::IsOneOf(Plain(call.class_name.empty() ? call.subject : call.class_name), kNames);
}

bool IsDivision(const dump::EntryName& call) {
  constexpr std::array<std::string_view, 5> kNames = {"div", "idiv", "divide", "truediv",
                                                      "itruediv"};
  return base::IsOneOf(Plain(call.class_name.empty() ? call.subject : call.class_name), kNames);
}

OperatorFamily FamilyOf(const dump::EntryName& call) {
  const std::string name = Plain(call.class_name.empty() ? call.subject : call.class_name);
  const auto* found = std::lower_bound(
      kFamilies.begin(), kFamilies.end(), name,
      [](const NamedFamily& entry, std::string_view wanted) { return entry.name < wanted; });
  return found != kFamilies.end() && found->name == name ? found->family : kComposite;
}

}  // namespace msprobe::analysis::compare
