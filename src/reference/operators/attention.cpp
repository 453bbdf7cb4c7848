// Attention as one call: softmax(scale q k' + mask) v. Fused kernels keep the weights in the type
// of the tensors or in float32, and normalise before or after the second product. On GPUs they take
// numbers below the smallest normal one for 0: weights (Softmax allows for that) and gradients of
// all steps, which are that small for tokens of which the loss is certain.
#include <cmath>
#include <limits>

#include "src/reference/operators/arguments.h"
#include "src/reference/operators/operators.h"

namespace msprobe::reference {
namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();

// Heads of k and v that several heads of q share, once for each.
Value SharedHeads(const Arithmetic& m, const Value& x, int64_t times) {
  if (times == 1 || x == nullptr || x->shape.size() < 3) {
    return x;
  }
  Shape shape = x->shape;
  const size_t heads = shape.size() - 3;
  const int64_t plane = shape[heads + 1] * shape[heads + 2];
  shape[heads] *= times;
  if (!m.Affords(shape)) {
    return nullptr;
  }
  std::vector<int64_t> indices(static_cast<size_t>(ElementCount(shape)));
  for (size_t i = 0; i < indices.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    indices[i] = at / plane / times * plane + at % plane;
  }
  return m.Take({x}, shape, std::move(indices));
}

Values ScaledDotProductAttention(Call& call, const Arithmetic& m) {
  const Value q = call.Tensor(0, "query");
  Value k = call.Tensor(1, "key");
  Value v = call.Tensor(2, "value");
  const Value mask = call.OptionalTensor(3, "attn_mask");
  const bool is_causal = call.Bool(5, "is_causal", false);
  if (call.Number(4, "dropout_p", 0) != 0) {
    return {call.Fail("which weights were dropped is not in the dump")};
  }
  if (call.failed() || q->shape.size() < 2 || k->shape.size() != q->shape.size() ||
      v->shape.size() != q->shape.size() || q->shape.back() < 1) {
    return {call.Fail("attention of unusual shapes")};
  }
  const double scale = call.Number(6, "scale", 1 / std::sqrt(static_cast<double>(q->shape.back())));
  const size_t rank = q->shape.size();
  if (call.Bool(7, "enable_gqa", false) && rank > 2) {
    const int64_t heads = q->shape[rank - 3];
    if (k->shape[rank - 3] < 1 || v->shape[rank - 3] < 1 || heads % k->shape[rank - 3] != 0 ||
        heads % v->shape[rank - 3] != 0) {
      return {call.Fail("attention of unusual shapes")};
    }
    k = SharedHeads(m, k, heads / k->shape[rank - 3]);
    v = SharedHeads(m, v, heads / v->shape[rank - 3]);
  }
  // Scaled before the product, by the root of the scale on both sides, or after it.
  Value scores =
      m.Multiply(m.GradientMayFlush(m.Stored(m.MatMul(q, k, false, true))), m.Scalar(scale));
  if (scores == nullptr) {
    return {nullptr};
  }
  if (is_causal) {
    const int64_t rows = scores->shape[rank - 2];
    const int64_t columns = scores->shape[rank - 1];
    std::vector<double> seen(static_cast<size_t>(rows * columns));
    for (size_t i = 0; i < seen.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      seen[i] = at % columns <= at / columns ? 1 : 0;
    }
    scores = m.Where(MakeValue({rows, columns}, std::move(seen)), scores, m.Filled({}, kHidden));
  }
  if (mask != nullptr) {
    scores = call.DTypeOf(mask) == DType::kBool ? m.Where(mask, scores, m.Filled({}, kHidden))
                                                : m.Add(m.Stored(scores), mask);
  }
  const Value weights = m.Stored(m.Softmax(m.GradientMayFlush(m.Stored(scores))));
  const Value out = m.GradientMayFlush(m.MatMul(m.GradientMayFlush(weights), v));
  // Of steps, the last one may be a view, through which the gradient comes as it is.
  return {out == nullptr ? nullptr : m.Reshape(out, out->shape)};
}

}  // namespace

OperatorList AttentionOperators() {
  return {{"scaled_dot_product_attention", ScaledDotProductAttention}};
}

}  // namespace msprobe::reference
