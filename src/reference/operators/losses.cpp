// Loss functions, with their reductions.
#include <cmath>

#include "src/reference/operators/operators.h"

namespace msprobe::reference {
namespace {

Value Reduced(const Arithmetic& m, const Value& loss, std::string_view reduction) {
  if (loss == nullptr || reduction == "none") {
    return loss;
  }
  std::vector<int64_t> all(loss->shape.size());
  for (size_t i = 0; i < all.size(); ++i) {
    all[i] = static_cast<int64_t>(i);
  }
  // Where the loss of each element was stored first.
  const Value sum = m.Sum(m.Stored(loss), all, false);
  return reduction == "mean" ? m.Scale(sum, 1 / static_cast<double>(loss->size())) : sum;
}

// size_average and reduce are the old words for it.
std::string ReductionOf(Call& call, size_t position, size_t old_average, size_t old_reduce) {
  if (call.Has(old_average, "size_average") || call.Has(old_reduce, "reduce")) {
    if (!call.Bool(old_reduce, "reduce", true)) {
      return "none";
    }
    return call.Bool(old_average, "size_average", true) ? "mean" : "sum";
  }
  return call.Text(position, "reduction", "mean");
}

using Two = Arithmetic::Function2;
Values ElementLoss(Call& call, const Arithmetic& m, size_t first_option, const Two& f,
                   const Two& by_x, const Two& by_y) {
  const Value x = call.Tensor(0, "input");
  const Value y = call.Tensor(1, "target");
  const std::string reduction = ReductionOf(call, first_option + 2, first_option, first_option + 1);
  return {Reduced(m, m.Zip(x, y, f, by_x, by_y), reduction)};
}

Values MeanSquares(Call& call, const Arithmetic& m) {
  return ElementLoss(
      call, m, 2, [](double x, double y) { return Term((x - y) * (x - y)); },
      [](double x, double y) { return Term(2 * (x - y)); },
      [](double x, double y) { return Term(-2 * (x - y)); });
}

double SignOf(double x) { return (x > 0) - (x < 0); }
Values MeanMagnitudes(Call& call, const Arithmetic& m) {
  return ElementLoss(
      call, m, 2, [](double x, double y) { return Term(std::fabs(x - y)); },
      [](double x, double y) { return Term(SignOf(x - y)); },
      [](double x, double y) { return Term(-SignOf(x - y)); });
}

// Straight beyond `beta`, a parabola within; scaled so that the straight part has slope `slope`.
Values RoundedMagnitudes(Call& call, const Arithmetic& m, double beta, double slope,
                         std::string_view reduction) {
  const Two f = [=](double x, double y) {
    const double off = std::fabs(x - y);
    return off < beta ? Term(slope * 0.5 * off * off / beta)
                      : Term(slope * (off - 0.5 * beta), slope * (off + 0.5 * beta));
  };
  const Two by = [=](double x, double y) {
    const double off = x - y;
    return Term(slope * (std::fabs(off) < beta ? off / beta : SignOf(off)));
  };
  const Two back = [=](double x, double y) { return Term(-by(x, y).value); };
  return {
      Reduced(m, m.Zip(call.Tensor(0, "input"), call.Tensor(1, "target"), f, by, back), reduction)};
}
Values SmoothMagnitudes(Call& call, const Arithmetic& m) {
  const double beta = call.Number(5, "beta", 1);
  if (beta == 0) {
    return MeanMagnitudes(call, m);
  }
  return RoundedMagnitudes(call, m, beta, 1, ReductionOf(call, 4, 2, 3));
}
Values Huber(Call& call, const Arithmetic& m) {
  const double delta = call.Number(3, "delta", 1);
  return RoundedMagnitudes(call, m, delta, delta, call.Text(2, "reduction", "mean"));
}

Value Weighted(const Arithmetic& m, const Value& loss, const Value& weight) {
  return weight == nullptr ? loss : m.Multiply(loss, weight);
}

Values BinaryCrossEntropy(Call& call, const Arithmetic& m) {
  const Value x = call.Tensor(0, "input");
  const Value y = call.Tensor(1, "target");
  const Value weight = call.OptionalTensor(2, "weight");
  // Logarithms are cut at -100.
  const auto log = [](double at) { return std::max(std::log(at), -100.0); };
  const Value loss = m.Zip(
      x, y,
      [log](double p, double t) {
        // 1 - p is rounded before its logarithm is taken.
        return Term((t - 1) * log(1 - p) - t * log(p),
                    std::fabs((t - 1) * log(1 - p)) + std::fabs(t * log(p)) +
                        std::fabs(t - 1) / std::max(1 - p, 1e-12));
      },
      [](double p, double t) {
        return Term(
            (p - t) / std::max((1 - p) * p, 1e-12),
            (p + std::fabs(t)) / std::max((1 - p) * p, 1e-12) * (1 + 1 / std::max(1 - p, 1e-12)));
      },
      [log](double p, double) {
        return Term(log(1 - p) - log(p),
                    std::fabs(log(1 - p)) + std::fabs(log(p)) + 1 / std::max(1 - p, 1e-12));
      });
  return {Reduced(m, Weighted(m, loss, weight), ReductionOf(call, 5, 3, 4))};
}

double SoftPlusOf(double x) {
  return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
}
double SigmoidOf(double x) { return 1 / (1 + std::exp(-x)); }

Values BinaryCrossEntropyWithLogits(Call& call, const Arithmetic& m) {
  const Value x = call.Tensor(0, "input");
  const Value y = call.Tensor(1, "target");
  const Value weight = call.OptionalTensor(2, "weight");
  const Value positive = call.OptionalTensor(6, "pos_weight");
  const std::string reduction = ReductionOf(call, 5, 3, 4);
  if (call.failed()) {
    return {nullptr};
  }
  Value loss;
  if (positive == nullptr) {
    loss = m.Zip(
        x, y,
        [](double at, double t) {
          return Term(SoftPlusOf(at) - at * t, 2 * std::fabs(at) + std::fabs(at * t) + 1);
        },
        [](double at, double t) { return Term(SigmoidOf(at) - t, 1 + std::fabs(t)); },
        [](double at, double) { return Term(-at, 2 * std::fabs(at) + 1); });
  } else {
    // (1 - t) x + (1 + (p - 1) t) softplus(-x)
    const Value soft = m.Map(
        x, [](double at) { return Term(SoftPlusOf(-at), 2 * std::fabs(at) + 1); },
        [](double at) { return Term(SigmoidOf(at) - 1, 1); });
    const Value one = m.Filled({}, 1);
    const Value factor = m.Add(m.Multiply(m.Subtract(positive, one), y), one);
    loss = m.Add(m.Multiply(m.Subtract(one, y), x), m.Multiply(factor, soft));
  }
  return {Reduced(m, Weighted(m, loss, weight), reduction)};
}

Values KullbackLeibler(Call& call, const Arithmetic& m) {
  const std::string reduction = ReductionOf(call, 4, 2, 3);
  const bool logs = call.Bool(5, "log_target", false);
  const Value x = call.Tensor(0, "input");
  const Value y = call.Tensor(1, "target");
  Value loss;
  if (logs) {
    const auto exponential = [](double t) { return Term(std::exp(t)); };
    loss = m.Multiply(m.Stored(m.Map(y, exponential, exponential)), m.Stored(m.Subtract(y, x)));
  } else {
    // In steps, as frameworks do: hooks may have seen what goes to each of the two.
    const Value own = m.Map(
        y, [](double t) { return Term(t > 0 || std::isnan(t) ? t * std::log(t) : 0); },
        [](double t) {
          return t > 0 ? Term(std::log(t) + 1, std::fabs(std::log(t)) + 1) : Term(0);
        });
    loss = m.Subtract(m.Stored(own), m.Stored(m.Multiply(y, x)));
  }
  if (reduction == "batchmean") {
    const double rows = x == nullptr || x->shape.empty() ? 1 : static_cast<double>(x->shape[0]);
    return {m.Scale(Reduced(m, loss, "sum"), 1 / rows)};
  }
  return {Reduced(m, loss, reduction)};
}

// Rows of classes: (batch, classes, ...) becomes (batch ..., classes).
Value ClassesLast(const Arithmetic& m, const Value& x) {
  return x == nullptr || x->shape.size() < 2 ? x : DimLast(m, x, 1);
}

// -sum of weight[target] * x[target] over targets that are not ignored, and the mean over weights.
Value NegativeLogLikelihood(Call& call, const Arithmetic& m, const Value& logs, const Value& target,
                            const Value& weight, int64_t ignored, std::string_view reduction,
                            double smoothing) {
  if (call.failed() || logs == nullptr || logs->shape.empty()) {
    return nullptr;
  }
  const int64_t classes = logs->shape.back();
  const Shape rows(logs->shape.begin(), logs->shape.end() - 1);
  if (target->shape != rows ||
      (weight != nullptr && static_cast<int64_t>(weight->size()) != classes)) {
    return call.Fail("targets or weights do not fit the classes");
  }
  std::vector<int64_t> picks(target->size(), -1);
  std::vector<double> counted(target->size(), 0);
  for (size_t i = 0; i < picks.size(); ++i) {
    const double index = target->value[i];
    if (index == static_cast<double>(ignored)) {
      continue;
    }
    if (!(index >= 0 && index < static_cast<double>(classes))) {
      return call.Fail("a target is not a class");
    }
    picks[i] = static_cast<int64_t>(index);
    counted[i] = 1;
  }
  std::vector<int64_t> places(picks.size(), -1);
  for (size_t i = 0; i < picks.size(); ++i) {
    if (picks[i] >= 0) {
      places[i] = static_cast<int64_t>(i) * classes + picks[i];
    }
  }
  Value loss = m.Negate(m.Take({logs}, rows, places));
  Value factor = MakeValue(rows, counted);
  if (weight != nullptr) {
    factor = m.Take({weight}, rows, picks);
    loss = m.Multiply(loss, factor);
  }
  Value smooth;
  if (smoothing > 0) {
    smooth = weight == nullptr ? logs : m.Multiply(logs, weight);
    smooth = m.Negate(m.Sum(smooth, {static_cast<int64_t>(rows.size())}, false));
    smooth = m.Where(MakeValue(rows, counted), smooth, m.Filled({}, 0));
  }
  const auto reduce = [&](const Value& x) -> Value {
    if (reduction == "none" || x == nullptr) {
      return x;
    }
    const Value sum = Reduced(m, x, "sum");
    return reduction == "sum" ? sum : m.Divide(sum, Reduced(m, factor, "sum"));
  };
  loss = reduce(loss);
  if (smoothing > 0) {
    loss = m.Add(m.Multiply(loss, m.Scalar(1 - smoothing)),
                 m.Multiply(reduce(smooth), m.Scalar(smoothing / static_cast<double>(classes))));
  }
  return loss;
}

Values NllLoss(Call& call, const Arithmetic& m) {
  const Value x = ClassesLast(m, call.Tensor(0, "input"));
  const Value target = call.Tensor(1, "target");
  const Value weight = call.OptionalTensor(2, "weight");
  const int64_t ignored = call.Int(4, "ignore_index", -100);
  return {
      NegativeLogLikelihood(call, m, x, target, weight, ignored, ReductionOf(call, 6, 3, 5), 0)};
}

Values CrossEntropy(Call& call, const Arithmetic& m) {
  const Value input = call.Tensor(0, "input");
  const Value target = call.Tensor(1, "target");
  const Value weight = call.OptionalTensor(2, "weight");
  const int64_t ignored = call.Int(4, "ignore_index", -100);
  const std::string reduction = ReductionOf(call, 6, 3, 5);
  const double smoothing = call.Number(7, "label_smoothing", 0);
  if (call.failed()) {
    return {nullptr};
  }
  Value logs = m.Stored(m.LogSoftmax(ClassesLast(m, input)));
  if (m.taping() && input->shape.size() > 2) {
    // Autograd's hooks see the gradient of the logarithms in the layout of the input.
    logs = ClassesLast(m, DimBack(m, logs, 1));
  }
  if (target->shape != input->shape) {
    return {NegativeLogLikelihood(call, m, logs, target, weight, ignored, reduction, smoothing)};
  }
  // Targets are probabilities.
  Value odds = ClassesLast(m, target);
  if (logs == nullptr || logs->shape.empty()) {
    return {nullptr};
  }
  const auto classes = static_cast<double>(logs->shape.back());
  if (smoothing > 0) {
    odds = m.Add(m.Multiply(odds, m.Scalar(1 - smoothing)), m.Scalar(smoothing / classes));
  }
  Value product = m.Multiply(logs, odds);
  product = weight == nullptr ? product : m.Multiply(product, weight);
  const Value rows =
      m.Negate(m.Sum(m.Stored(product), {static_cast<int64_t>(logs->shape.size()) - 1}, false));
  if (reduction == "mean" && rows != nullptr) {
    return {m.Scale(Reduced(m, rows, "sum"), 1 / static_cast<double>(rows->size()))};
  }
  return {Reduced(m, rows, reduction)};
}

}  // namespace

OperatorList LossOperators() {
  return {
      {"cross_entropy", CrossEntropy},
      {"nll_loss", NllLoss},
      {"mse_loss", MeanSquares},
      {"l1_loss", MeanMagnitudes},
      {"smooth_l1_loss", SmoothMagnitudes},
      {"huber_loss", Huber},
      {"binary_cross_entropy", BinaryCrossEntropy},
      {"binary_cross_entropy_with_logits", BinaryCrossEntropyWithLogits},
      {"kl_div", KullbackLeibler},
  };
}

}  // namespace msprobe::reference
