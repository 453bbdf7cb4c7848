// Sums of products: linear layers and products of matrices.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "src/reference/operators/operators.h"

namespace msprobe::reference {

namespace {

// As torch.matmul: vectors become rows or columns for the product. `transpose_b`: of a matrix.
Value Product(const Arithmetic& m, Value a, Value b, bool transpose_b = false) {
  if (a == nullptr || b == nullptr) {
    return nullptr;
  }
  if (a->shape.empty() || b->shape.empty()) {
    return m.Fail("a single number is not a matrix");
  }
  const bool row = a->shape.size() == 1;
  const bool column = b->shape.size() == 1;
  if (row) {
    a = m.Reshape(a, {1, a->shape[0]});
  }
  if (column) {
    b = m.Reshape(b, {b->shape[0], 1});
  }
  Value product;
  if (b->shape.size() == 2 && a->shape.size() > 2) {
    // One product instead of many.
    Shape shape = a->shape;
    const int64_t rows = shape.back() == 0 ? ElementCount({shape.begin(), shape.end() - 1})
                                           : ElementCount(shape) / shape.back();
    product = m.MatMul(m.Reshape(a, {rows, shape.back()}), b, false, transpose_b);
    shape.back() = b->shape[transpose_b ? 0 : 1];
    product = product == nullptr ? nullptr : m.Reshape(product, shape);
  } else {
    product = m.MatMul(a, b, false, transpose_b);
  }
  if (product == nullptr) {
    return nullptr;
  }
  if (!row && !column) {
    // A batch is multiplied along one dim, and the result is a view of that: hooks may have seen
    // what the view hands on.
    return product->pass_gradient != nullptr && product->shape.size() > 2
               ? m.Reshape(product, product->shape)
               : product;
  }
  Shape shape = product->shape;
  if (column) {
    shape.pop_back();
  }
  if (row) {
    shape.erase(shape.end() - (column ? 1 : 2));
  }
  return m.Reshape(product, shape);
}

Value LinearOf(const Arithmetic& m, const Value& x, const Value& weight, const Value& bias) {
  if (x == nullptr || weight == nullptr) {
    return nullptr;
  }
  // Hooks may have seen the gradient of the transposed weight. Its shape tells, but for a square:
  // there it is a value of its own.
  const bool is_matrix = weight->shape.size() == 2;
  const bool is_square = is_matrix && weight->shape[0] == weight->shape[1];
  const Value product =
      is_square ? Product(m, x, m.Permute(weight, {1, 0})) : Product(m, x, weight, is_matrix);
  // Not fused, the product is stored before the bias is added.
  return bias == nullptr ? product : m.Add(m.Stored(product), bias);
}

Values Linear(Call& call, const Arithmetic& m) {
  const Value x = call.Tensor(0, "input");
  const Value weight = call.Tensor(1, "weight");
  return {LinearOf(m, x, weight, call.OptionalTensor(2, "bias"))};
}

Values MatrixProduct(Call& call, const Arithmetic& m) {
  const Value a = call.Tensor(0, "input");
  const Value b = call.Tensor(1, call.Has(1, "mat2") ? "mat2" : "other");
  return {Product(m, a, b)};
}
Values MatrixProductFrom(Call& call, const Arithmetic& m) {  // __rmatmul__
  const Value a = call.Tensor(0, "input");
  const Value b = call.Tensor(1, "other");
  return {Product(m, b, a)};
}

Values MatrixVector(Call& call, const Arithmetic& m) {
  const Value a = call.Tensor(0, "input");
  return {Product(m, a, call.Tensor(1, "vec"))};
}

// beta input + alpha (a b), summed over the batch on request.
Values AddProduct(Call& call, const Arithmetic& m, std::string_view a_name, std::string_view b_name,
                  bool sum_batch) {
  const Value base = call.Tensor(0, "input");
  const Value a = call.Tensor(1, a_name);
  const Value b = call.Tensor(2, b_name);
  const double beta = call.Number(3, "beta", 1);
  const double alpha = call.Number(4, "alpha", 1);
  Value product = Product(m, a, b);
  if (sum_batch) {
    product = m.Sum(product, {0}, false);
  }
  product = m.Stored(product);
  if (alpha != 1) {
    product = m.Multiply(product, m.Scalar(alpha));
  }
  if (beta == 0) {
    return {product};
  }
  return {m.Add(beta == 1 ? base : m.Multiply(base, m.Scalar(beta)), product)};
}
Values Addmm(Call& call, const Arithmetic& m) { return AddProduct(call, m, "mat1", "mat2", false); }
Values Addmv(Call& call, const Arithmetic& m) { return AddProduct(call, m, "mat", "vec", false); }
Values Baddbmm(Call& call, const Arithmetic& m) {
  return AddProduct(call, m, "batch1", "batch2", false);
}
Values Addbmm(Call& call, const Arithmetic& m) {
  return AddProduct(call, m, "batch1", "batch2", true);
}

Values Outer(Call& call, const Arithmetic& m) {
  const Value a = call.Tensor(0, "input");
  const Value b = call.Tensor(1, "vec2");
  if (a == nullptr || b == nullptr) {
    return {nullptr};
  }
  return {m.Multiply(m.Reshape(a, {static_cast<int64_t>(a->size()), 1}),
                     m.Reshape(b, {1, static_cast<int64_t>(b->size())}))};
}

// ---- einsum ----

struct Subscripts {
  std::vector<std::string> inputs;  // a letter per dim
  std::string output;
};

// "ij,jk->ik", with "..." for leading dims that broadcast (they become capital letters from 'A'
// that the text does not use). False if it is not such a text.
bool ReadSubscripts(std::string text, const std::vector<size_t>& ranks, Subscripts& out) {
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
  const size_t arrow = text.find("->");
  std::string left = text.substr(0, arrow);
  std::vector<std::string> parts(1);
  for (const char letter : left) {
    if (letter == ',') {
      parts.emplace_back();
    } else {
      parts.back() += letter;
    }
  }
  if (parts.size() != ranks.size()) {
    return false;
  }
  size_t longest = 0;
  const auto letters_in = [](const std::string& part) {
    return static_cast<size_t>(
        std::count_if(part.begin(), part.end(), [](char c) { return c != '.'; }));
  };
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].find("...") != std::string::npos && letters_in(parts[i]) <= ranks[i]) {
      longest = std::max(longest, ranks[i] - letters_in(parts[i]));
    }
  }
  constexpr std::string_view kFree = "\x01\x02\x03\x04\x05\x06\x07\x08";
  if (longest > kFree.size()) {
    return false;
  }
  const std::string dots(kFree.substr(0, longest));
  const auto expand = [&](std::string part, size_t count) {
    if (const size_t at = part.find("..."); at != std::string::npos) {
      part.replace(at, 3, dots.substr(dots.size() - std::min(count, dots.size())));
    }
    return part;
  };
  for (size_t i = 0; i < parts.size(); ++i) {
    const size_t own = letters_in(parts[i]);
    out.inputs.push_back(expand(parts[i], ranks[i] >= own ? ranks[i] - own : 0));
    if (out.inputs.back().size() != ranks[i]) {
      return false;
    }
  }
  if (arrow != std::string::npos) {
    out.output = expand(text.substr(arrow + 2), longest);
    return true;
  }
  std::array<int, 256> counts{};
  for (const std::string& part : out.inputs) {
    for (const char letter : part) {
      ++counts[static_cast<unsigned char>(letter)];
    }
  }
  out.output = dots;
  for (int letter = 'A'; letter <= 'z'; ++letter) {
    if (counts[static_cast<size_t>(letter)] == 1) {
      out.output += static_cast<char>(letter);
    }
  }
  return true;
}

// The operand as dims in the order of `letters`; missing ones are 1, repeated ones the diagonal.
Value Ordered(const Arithmetic& m, const Value& x, const std::string& own,
              const std::string& letters) {
  const Shape strides = ContiguousStrides(x->shape);
  Shape shape;
  std::vector<int64_t> steps;
  for (const char letter : letters) {
    int64_t size = 1;
    int64_t step = 0;
    for (size_t i = 0; i < own.size(); ++i) {
      if (own[i] == letter) {
        if (size != 1 && x->shape[i] != size) {
          return m.Fail("einsum of sizes that do not fit");
        }
        size = x->shape[i];
        step += strides[i];
      }
    }
    shape.push_back(size);
    steps.push_back(step);
  }
  if (!m.Affords(shape)) {
    return nullptr;
  }
  std::vector<int64_t> indices(static_cast<size_t>(ElementCount(shape)));
  for (size_t i = 0; i < indices.size(); ++i) {
    size_t rest = i;
    for (size_t dim = shape.size(); dim-- > 0;) {
      const auto size = static_cast<size_t>(shape[dim]);
      indices[i] += static_cast<int64_t>(rest % size) * steps[dim];
      rest /= size;
    }
  }
  return m.Take({x}, shape, std::move(indices));
}

// Two operands as a batched product of matrices: letters of both that stay are the batch, letters
// that only one of them has its rows or columns, and the others are summed.
Value Pair(const Arithmetic& m, const Value& a, const std::string& of_a, const Value& b,
           const std::string& of_b, const std::string& kept) {
  if (a == nullptr || b == nullptr || a->shape.size() != of_a.size() ||
      b->shape.size() != of_b.size()) {
    return m.Fail("tensors do not have the dims of their subscripts");
  }
  const auto has = [](const std::string& letters, char letter) {
    return letters.find(letter) != std::string::npos;
  };
  std::string batch, rows, columns, summed;
  const auto sort = [&](const std::string& letters) {
    for (const char letter : letters) {
      if (has(batch + rows + columns + summed, letter)) {
        continue;
      }
      const bool in_a = has(of_a, letter);
      const bool in_b = has(of_b, letter);
      (!has(kept, letter) ? summed : in_a && in_b ? batch : in_a ? rows : columns) += letter;
    }
  };
  sort(of_a);
  sort(of_b);
  Value left = Ordered(m, a, of_a, batch + rows + summed);
  Value right = Ordered(m, b, of_b, batch + summed + columns);
  if (left == nullptr || right == nullptr) {
    return nullptr;
  }
  const auto size = [](const Shape& shape, size_t first, size_t count) {
    return ElementCount(Shape(shape.begin() + static_cast<std::ptrdiff_t>(first),
                              shape.begin() + static_cast<std::ptrdiff_t>(first + count)));
  };
  const auto at = [&](const Value& x, size_t first, size_t count) {
    return Shape(x->shape.begin() + static_cast<std::ptrdiff_t>(first),
                 x->shape.begin() + static_cast<std::ptrdiff_t>(first + count));
  };
  // The summed dimension may be missing on one side (a plain sum), or be broadcast.
  Shape sum_shape = Broadcast(at(left, batch.size() + rows.size(), summed.size()),
                              at(right, batch.size(), summed.size()))
                        .shape;
  Shape left_shape = at(left, 0, batch.size() + rows.size());
  left_shape.insert(left_shape.end(), sum_shape.begin(), sum_shape.end());
  Shape right_shape = at(right, 0, batch.size());
  right_shape.insert(right_shape.end(), sum_shape.begin(), sum_shape.end());
  const Shape column_shape = at(right, batch.size() + summed.size(), columns.size());
  right_shape.insert(right_shape.end(), column_shape.begin(), column_shape.end());
  left = m.Expand(left, left_shape);
  right = m.Expand(right, right_shape);
  if (left == nullptr || right == nullptr) {
    return nullptr;
  }
  Shape flat_left = at(left, 0, batch.size());
  Shape flat_right = at(right, 0, batch.size());
  const Shape row_shape = at(left, batch.size(), rows.size());
  flat_left.push_back(ElementCount(row_shape));
  flat_left.push_back(ElementCount(sum_shape));
  flat_right.push_back(ElementCount(sum_shape));
  flat_right.push_back(size(right->shape, batch.size() + summed.size(), columns.size()));
  Value product = m.MatMul(m.Reshape(left, flat_left), m.Reshape(right, flat_right));
  if (product == nullptr) {
    return nullptr;
  }
  Shape shape(product->shape.begin(), product->shape.end() - 2);
  shape.insert(shape.end(), row_shape.begin(), row_shape.end());
  shape.insert(shape.end(), column_shape.begin(), column_shape.end());
  return Ordered(m, m.Reshape(product, shape), batch + rows + columns, kept);
}

Values Einsum(Call& call, const Arithmetic& m) {
  const std::string equation = call.Text(0, "equation", "");
  Values operands;
  if (call.ArgumentCount() == 2 && !call.IsTensor(1, "")) {
    operands = call.Tensors(1, "operands");
  } else {
    for (size_t i = 1; i < call.ArgumentCount(); ++i) {
      operands.push_back(call.Tensor(i, "operand"));
    }
  }
  if (call.failed() || operands.empty() || equation.empty()) {
    return {call.Fail("einsum without an equation")};
  }
  std::vector<size_t> ranks;
  for (const Value& operand : operands) {
    ranks.push_back(operand->shape.size());
  }
  Subscripts subscripts;
  if (!ReadSubscripts(equation, ranks, subscripts)) {
    return {call.Fail("an equation of einsum that cannot be read: " + equation)};
  }
  Value result = operands[0];
  std::string letters = subscripts.inputs[0];
  for (size_t i = 1; i < operands.size(); ++i) {
    std::string later = subscripts.output;
    for (size_t j = i + 1; j < operands.size(); ++j) {
      later += subscripts.inputs[j];
    }
    std::string kept;
    for (const char letter : letters + subscripts.inputs[i]) {
      if (later.find(letter) != std::string::npos && kept.find(letter) == std::string::npos) {
        kept += letter;
      }
    }
    if (i + 1 == operands.size()) {
      kept = subscripts.output;
    }
    if (i > 1) {
      result = m.Stored(result);
    }
    result = Pair(m, result, letters, operands[i], subscripts.inputs[i], kept);
    letters = kept;
    if (result == nullptr) {
      return {nullptr};
    }
  }
  if (operands.size() == 1) {
    std::string all = subscripts.output;
    std::vector<int64_t> summed;
    for (const char letter : letters) {
      if (all.find(letter) == std::string::npos) {
        summed.push_back(static_cast<int64_t>(all.size()));
        all += letter;
      }
    }
    result = Ordered(m, result, letters, all);
    result = summed.empty() ? result : m.Sum(result, summed, false);
  }
  return {result};
}

Values Bilinear(Call& call, const Arithmetic& m) {
  const Value a = call.Tensor(0, "input1");
  const Value b = call.Tensor(1, "input2");
  const Value weight = call.Tensor(2, "weight");
  const Value bias = call.OptionalTensor(3, "bias");
  if (call.failed() || weight->shape.size() != 3 || a->shape.empty() || b->shape.empty()) {
    return {call.Fail("bilinear of unusual shapes")};
  }
  const int64_t rows = ElementCount(a->shape) / std::max<int64_t>(1, a->shape.back());
  const Value left = m.Reshape(a, {rows, a->shape.back()});
  const Value right = m.Reshape(b, {rows, b->shape.back()});
  const Value half = Pair(m, left, "bi", weight, "oij", "boj");
  Value sum = Pair(m, half, "boj", right, "bj", "bo");
  if (sum == nullptr) {
    return {nullptr};
  }
  Shape shape = a->shape;
  shape.back() = weight->shape[0];
  sum = m.Reshape(sum, shape);
  return {bias == nullptr ? sum : m.Add(m.Stored(sum), bias)};
}

}  // namespace

OperatorList ContractionOperators() {
  return {
      {"linear dense", Linear},
      {"matmul mm bmm dot batchmatmul vdot inner_product", MatrixProduct},
      {"rmatmul", MatrixProductFrom},
      {"mv", MatrixVector},
      {"addmm", Addmm},
      {"addmv", Addmv},
      {"baddbmm", Baddbmm},
      {"addbmm", Addbmm},
      {"outer ger", Outer},
      {"einsum", Einsum, Rounds::kOnce},
      {"bilinear", Bilinear},
  };
}

// Attention as one call: softmax(scale q k' + mask) v. Fused kernels keep the weights in the type
// of the tensors or in float32, and normalise before or after the second product. On GPUs they take
// numbers below the smallest normal one for 0: weights (Softmax allows for that) and gradients of
// all steps, which are that small for tokens of which the loss is certain.

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
  // The last step may be a view, through which the gradient passes unchanged.
  return {out == nullptr ? nullptr : m.Reshape(out, out->shape)};
}

}  // namespace

OperatorList AttentionOperators() {
  return {{"scaled_dot_product_attention", ScaledDotProductAttention}};
}

}  // namespace msprobe::reference
