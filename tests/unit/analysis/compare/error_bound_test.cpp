// The bound of each operator, by hand for the rules and by chance against what operators really do.
#include "src/analysis/compare/error_bound.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace msprobe::analysis::compare {
namespace {

constexpr double kEpsilon32 = 0x1p-23;

Operand Tensor(double rms, double elements, double error, std::string_view shape = "[1]") {
  Operand operand;
  operand.rms = rms;
  operand.largest = 3 * rms;
  operand.elements = elements;
  operand.error = error;
  operand.epsilon = kEpsilon32;
  operand.shape = shape;
  return operand;
}

Operand Weight(double rms, double elements, double error, std::string_view shape) {
  Operand operand = Tensor(rms, elements, error, shape);
  operand.is_state = true;
  return operand;
}

double Explained(const std::string& call, const CallOperands& operands, const Operand& output,
                 const BoundOptions& options = {}) {
  const dump::EntryName name = dump::ParseEntryName(call);
  return ExplainedError(name, FamilyOf(name), operands, output, options);
}

TEST(ExplainedError, CancellationMakesTheBoundOfAContractionLarge) {
  CallOperands operands;
  operands.inputs = {Tensor(1, 8 * 64, 1e-6, "[8, 64]"), Weight(1, 16 * 64, 0, "[16, 64]")};
  // Sums of 64 products of size 1 in random directions are of size 8.
  const double usual = Explained("Functional.linear.0.forward", operands, Tensor(8, 128, 0));
  const double cancelled = Explained("Functional.linear.0.forward", operands, Tensor(0.08, 128, 0));
  EXPECT_GT(usual, 1e-6);
  EXPECT_LT(usual, 1e-5);
  EXPECT_NEAR(cancelled / usual, 100, 1e-6);
  EXPECT_TRUE(std::isinf(Explained("Functional.linear.0.forward", operands, Tensor(0, 128, 0))));
}

TEST(ExplainedError, AnErrorOfABiasCountsByItsShareOfTheOutput) {
  CallOperands operands;
  operands.inputs = {Tensor(1, 8 * 64, 0, "[8, 64]"), Weight(1, 16 * 64, 0, "[16, 64]"),
                     Weight(0.8, 16, 1e-3, "[16]")};
  const double explained = Explained("Functional.linear.0.forward", operands, Tensor(8, 128, 0));
  EXPECT_GT(explained, 1e-4);
  EXPECT_LT(explained, 1e-3);
}

TEST(ExplainedError, EqualInputsExplainRoundingOnly) {
  CallOperands operands;
  operands.inputs = {Tensor(1, 8 * 64, 0, "[8, 64]"), Weight(1, 16 * 64, 0, "[16, 64]")};
  for (const char* call : {"Functional.linear.0.forward", "Functional.layer_norm.0.forward",
                           "Functional.gelu.0.forward", "Functional.softmax.0.forward",
                           "Tensor.mul.0.forward", "Torch.sum.0.forward"}) {
    EXPECT_LT(Explained(call, operands, Tensor(8, 128, 0)), 1e-4) << call;
  }
}

Operand NumberOperand(double value, double error = 0) {
  Operand operand;
  operand.rms = operand.largest = operand.smallest = value;
  operand.error = error;
  operand.shape = "[]";
  return operand;
}

TEST(ExplainedError, ATensorTimesANumberIsAsFarApartAsTheTensor) {
  constexpr double kEpsilonBFloat16 = 0x1p-7;
  BoundOptions options;
  options.hidden_error = kEpsilonBFloat16 / 4;  // what statistics hide scales like the rest
  options.slack = 3.5;
  const auto narrow = [](double error) {
    Operand operand = Tensor(1, 100, error, "[2, 2, 5, 5]");
    operand.epsilon = kEpsilonBFloat16;
    return operand;
  };
  for (const char* call :
       {"Tensor.__truediv__.2.forward", "Tensor.mul_.0.forward", "Torch.div.1.forward"}) {
    CallOperands operands;
    operands.inputs = {narrow(0.001), NumberOperand(1.4)};
    const double explained = Explained(call, operands, narrow(0), options);
    EXPECT_GE(explained, 0.001 + kEpsilonBFloat16) << "half a unit on either side";
    EXPECT_LT(explained, 0.02) << call;
  }
  CallOperands backward;
  backward.inputs = {narrow(0.002)};
  backward.forward_inputs = {narrow(0.5), NumberOperand(1.4)};
  EXPECT_LT(Explained("Tensor.__truediv__.2.backward", backward, narrow(0), options), 0.02);
  backward.forward_inputs = {narrow(0.5), narrow(0)};
  EXPECT_GT(Explained("Tensor.__truediv__.2.backward", backward, narrow(0), options), 0.5)
      << "the other operand is a factor of the gradient";
  CallOperands quotient;
  quotient.inputs = {NumberOperand(1.4), narrow(0.001)};
  EXPECT_GT(Explained("Torch.div.0.forward", quotient, narrow(0), options), 0.02)
      << "small elements of a divisor count for more";
}

TEST(ExplainedError, ErrorsOfAProductAddUp) {
  CallOperands operands;
  operands.inputs = {Tensor(0.5, 8, 2e-3, "[8]"), Tensor(0.87, 512, 4e-3, "[4, 4, 4, 8]")};
  const double explained =
      Explained("Tensor.__mul__.2.forward", operands, Tensor(0.43, 512, 0, "[4, 4, 4, 8]"));
  EXPECT_GT(explained, 6e-3);
  EXPECT_LT(explained, 6e-3 * 6);
}

TEST(ExplainedError, AMeanAveragesErrorsInRandomDirections) {
  CallOperands operands;
  operands.inputs = {Tensor(0.62, 256, 4e-3, "[2, 8, 4, 4]"), NumberOperand(2), NumberOperand(1)};
  // Means of 16 elements: a quarter as large where they cancel, 0.5 where they hardly do.
  const double cancelling =
      Explained("Tensor.mean.0.forward", operands, Tensor(0.155, 16, 0, "[2, 8]"));
  const double usual = Explained("Tensor.mean.0.forward", operands, Tensor(0.5, 16, 0, "[2, 8]"));
  EXPECT_GT(cancelling, 4e-3 * 4) << "an error that all elements have in common stays";
  EXPECT_LT(cancelling, 4e-3 * 10);
  EXPECT_GT(usual, 4e-3);
  EXPECT_LT(usual, cancelling);
}

TEST(ExplainedError, AStepOfAdamAnswersToItsSmallestDivisor) {
  const auto step = [](double smallest) {
    CallOperands operands;
    Operand divisor = Tensor(0.027, 24, 1e-7, "[24]");
    divisor.smallest = smallest;
    operands.inputs = {Tensor(0.126, 24, 0, "[24]"), Tensor(0.0027, 24, 1e-7, "[24]"), divisor,
                       NumberOperand(0.03)};
    return Explained("Tensor.addcdiv_.5.forward", operands, Tensor(0.128, 24, 0, "[24]"));
  };
  EXPECT_LT(step(3e-3), 1e-3);
  EXPECT_GT(step(3e-3), 1e-7);
  EXPECT_GT(step(1e-6), 1e-2);
  EXPECT_TRUE(std::isinf(step(1e-8))) << "a gradient next to zero decides by chance";
  EXPECT_TRUE(std::isinf(step(0)));
}

TEST(ExplainedError, ASumThatCancelsAnswersToTheLastPlacesOfWhatItSums) {
  // 4096 numbers of size 1 that sum up to 0.1, as rounded by another machine: half a unit each
  // moves the sum by about sqrt(4096) * 0.3 * 2^-23, by 4096 * 0.7 * 2^-23 if all round one way;
  // the result is off by 2.3e-5 or 3.4e-3 of itself. A sum that forgets one number is off by 10.
  CallOperands operands;
  operands.inputs = {Tensor(1, 4096, kEpsilon32 / 2, "[8, 512]")};
  for (const char* call :
       {"Tensor.sum.0.forward", "Torch.sum.0.forward", "Torch.nansum.0.forward"}) {
    const double explained = Explained(call, operands, Tensor(0.1, 1, 0, "[]"));
    EXPECT_GT(explained, 3.4e-3) << call;
    EXPECT_LT(explained, 0.1) << call;
  }
  // Rows of centred data, 512 numbers each.
  const double rows = Explained("Tensor.sum.0.forward", operands, Tensor(1e-4, 8, 0, "[8]"));
  EXPECT_GT(rows, 0.4);
  // One without cancellation leaves errors as they are.
  EXPECT_LT(Explained("Tensor.sum.0.forward", operands, Tensor(4096, 1, 0, "[]")), 2e-5);
  // A mean is known by its name, however small it is.
  EXPECT_LT(Explained("Tensor.mean.0.forward", operands, Tensor(0.1, 1, 0, "[]")), 1e-4);
}

TEST(ExplainedError, ARunningSumHasAsManyResultsAsTerms) {
  CallOperands operands;
  operands.inputs = {Tensor(1, 8 * 512, kEpsilon32 / 2, "[8, 512]")};
  // Of random signs: partial sums of size sqrt(512 / 2).
  const double explained =
      Explained("Torch.cumsum.0.forward", operands, Tensor(16, 8 * 512, 0, "[8, 512]"));
  EXPECT_GT(explained, kEpsilon32 * 0.5 * 32 / 16);
  EXPECT_LT(explained, 1e-4);
}

TEST(ExplainedError, SumsInsideOfAGradientThatCancelAreExplainedAsWell) {
  // The gradient of what was broadcast over 512 rows: a sum of the gradient, times the other
  // operand of a product. Rows that cancel to a thousandth of their usual size sqrt(512) = 23.
  CallOperands operands;
  operands.inputs = {Tensor(1, 512 * 8, kEpsilon32, "[512, 8]")};
  operands.forward_inputs = {Tensor(10, 512 * 8, 0, "[512, 8]"), Tensor(1, 8, 0, "[8]")};
  const Operand cancelled = Tensor(0.023, 8, 0, "[8]");
  EXPECT_GT(Explained("Tensor.add.0.backward", operands, cancelled), 1e-4);
  EXPECT_GT(Explained("Tensor.mul.0.backward", operands, cancelled), 1e-3);
  EXPECT_LT(Explained("Tensor.add.0.backward", operands, Tensor(23, 8, 0, "[8]")), 1e-5);
}

TEST(ExplainedError, TheGradientOfAReluMayJumpByTheShareOfSignsThatFlip) {
  CallOperands operands;
  operands.inputs = {Tensor(1, 1e4, 1e-6)};
  operands.forward_inputs = {Tensor(1, 1e4, 1e-4)};
  const Operand output = Tensor(0.7, 1e4, 0);
  const double relu = Explained("Functional.relu.0.backward", operands, output);
  const double gelu = Explained("Functional.gelu.0.backward", operands, output);
  EXPECT_GE(relu, std::sqrt(FlippedShare(1e-4, 1e4)));
  EXPECT_LT(relu, 0.2);
  EXPECT_LT(gelu, 2e-3) << "a smooth function has no such jump";
  operands.forward_inputs[0].error = 0;
  EXPECT_LT(Explained("Functional.relu.0.backward", operands, output), 2e-5)
      << "equal inputs have equal signs";
}

TEST(ExplainedError, TheErrorOfASquareGrowsWithTheSquareOfALargeError) {
  CallOperands operands;
  operands.inputs = {Tensor(1, 64, 1e-6)};
  const double small = Explained("Tensor.addcmul_.0.forward", operands, Tensor(1, 64, 0));
  EXPECT_GT(small, 2e-6);
  EXPECT_LT(small, 2e-4);
  operands.inputs[0].error = 1e4;
  EXPECT_GT(Explained("Tensor.addcmul_.0.forward", operands, Tensor(1, 64, 0)), 1e8);
}

TEST(FlippedShare, IsNothingWhereNotEvenOneFlipIsToBeExpected) {
  EXPECT_EQ(FlippedShare(0, 1e6), 0);
  EXPECT_EQ(FlippedShare(1e-7, 1e4), 0);
  EXPECT_GT(FlippedShare(1e-4, 1e4), 1e-4);
  EXPECT_LE(FlippedShare(10, 4), 1);
}

TEST(ExplainedError, AChoiceMayFallOtherwiseAsSoonAsItsInputsDiffer) {
  CallOperands operands;
  operands.inputs = {Tensor(1, 64, 1e-7)};
  EXPECT_TRUE(std::isinf(Explained("Torch.topk.0.forward", operands, Tensor(1, 8, 0))));
  operands.inputs[0].error = 0;
  EXPECT_EQ(Explained("Torch.topk.0.forward", operands, Tensor(1, 8, 0)), 0)
      << "equal inputs are chosen from in one way";
  BoundOptions noisy;
  noisy.hidden_error = 1e-7;
  EXPECT_TRUE(std::isinf(Explained("Torch.topk.0.forward", operands, Tensor(1, 8, 0), noisy)))
      << "statistics do not show every difference";
}

TEST(ExplainedError, NormalisingTakesTheMeanAwayAndMagnifiesWhatIsLeft) {
  CallOperands operands;
  operands.inputs = {Tensor(10, 8 * 64, 1e-6, "[8, 64]")};
  const double centred = Explained("Functional.layer_norm.0.forward", operands, Tensor(1, 512, 0));
  operands.inputs[0].mean = std::sqrt(100 - 0.01);  // deviations of 0.1 around 10
  const double shifted = Explained("Functional.layer_norm.0.forward", operands, Tensor(1, 512, 0));
  EXPECT_NEAR(shifted / centred, 100, 1);
}

TEST(ExplainedError, OfACallKnownByNameOnlyInnerErrorsCount) {
  CallOperands operands;
  operands.inputs = {Tensor(1, 64, 0)};
  operands.inner_error = 1e-3;
  const double explained = Explained("Module.a.Block.forward.0", operands, Tensor(1, 64, 0));
  EXPECT_GT(explained, 1e-3);
  EXPECT_LT(explained, 1e-2);
}

TEST(ExplainedError, ABackwardCallWithoutRecordedGradientsExplainsAnything) {
  CallOperands operands;
  operands.forward_inputs = {Tensor(1, 64, 1e-6)};
  BoundOptions noisy;
  noisy.hidden_error = 1e-7;
  EXPECT_TRUE(
      std::isinf(Explained("Functional.gelu.0.backward", operands, Tensor(1, 64, 0), noisy)));
}

// Operators in double, fed with values that differ a little in random directions.
using Values = std::vector<double>;

double Rms(const Values& values) {
  double sum = 0;
  for (const double value : values) {
    sum += value * value;
  }
  return std::sqrt(sum / static_cast<double>(values.size()));
}

double Mean(const Values& values) {
  double sum = 0;
  for (const double value : values) {
    sum += value;
  }
  return sum / static_cast<double>(values.size());
}

// The norm of the difference over the norm of the reference, as of real data.
double RelativeError(const Values& npu, const Values& bench) {
  Values difference(npu.size());
  for (size_t i = 0; i < npu.size(); ++i) {
    difference[i] = npu[i] - bench[i];
  }
  return Rms(difference) / Rms(bench);
}

Operand OperandOf(const Values& npu, const Values& bench, std::string_view shape,
                  bool is_state = false) {
  Operand operand;
  operand.rms = Rms(bench);
  operand.mean = Mean(bench);
  for (const double value : bench) {
    operand.largest = std::max(operand.largest, std::abs(value));
  }
  operand.elements = static_cast<double>(bench.size());
  operand.error = RelativeError(npu, bench);
  operand.epsilon = kEpsilon32;
  operand.shape = shape;
  operand.is_state = is_state;
  return operand;
}

class RandomOperators : public ::testing::Test {
 protected:
  struct Argument {
    Values npu;
    Values bench;
    std::string shape;
    bool is_state = false;
  };

  template <typename Body>
  void ForEachSeed(const Body& body) {
    for (unsigned seed = 0; seed < 300; ++seed) {
      SCOPED_TRACE(seed);
      random_.seed(seed);
      body();
    }
  }

  int Size(int least, int most) { return std::uniform_int_distribution<int>(least, most)(random_); }
  double Between(double least, double most) {
    return std::uniform_real_distribution<double>(least, most)(random_);
  }

  // Values around an offset (in units of their spread), rows of `width` with spreads of their own.
  Argument Make(size_t elements, std::string shape, bool is_state = false, double offset = 0) {
    std::normal_distribution<double> normal;
    Argument argument;
    argument.shape = std::move(shape);
    argument.is_state = is_state;
    const double spread = std::exp(Between(-2, 2));
    argument.bench.resize(elements);
    for (double& value : argument.bench) {
      value = spread * (normal(random_) + offset);
    }
    argument.npu = argument.bench;
    const double error =
        std::bernoulli_distribution(0.2)(random_) ? 0.0 : std::exp(Between(-15, -9.3));
    const double scale = Rms(argument.bench) * error;
    for (double& value : argument.npu) {
      value += scale * normal(random_);
    }
    return argument;
  }

  // Checks both sides: real errors are explained, a scale of 10 % too much is not.
  void Check(const std::string& call, const std::vector<Argument>& arguments,
             const std::string& shape,
             const std::function<Values(const std::vector<const Values*>&)>& compute) {
    CallOperands operands;
    std::vector<const Values*> npu;
    std::vector<const Values*> bench;
    for (const Argument& argument : arguments) {
      operands.inputs.push_back(
          OperandOf(argument.npu, argument.bench, argument.shape, argument.is_state));
      npu.push_back(&argument.npu);
      bench.push_back(&argument.bench);
    }
    Values tested = compute(npu);
    const Values reference = compute(bench);
    const Operand output = OperandOf(tested, reference, shape);
    const double explained = Explained(call, operands, output);
    EXPECT_LE(output.error, explained) << call << " of " << arguments[0].shape;
    for (double& value : tested) {
      value *= 1.1;
    }
    EXPECT_GT(RelativeError(tested, reference), explained) << call << " of " << arguments[0].shape;
  }

  std::mt19937_64 random_;
};

std::string ShapeOf(const std::vector<int>& axes) {
  std::string text = "[";
  for (const int axis : axes) {
    text += (text.size() > 1 ? ", " : "") + std::to_string(axis);
  }
  return text + "]";
}

TEST_F(RandomOperators, ErrorsOfALinearLayerAreExplainedAndAScaleFaultIsNot) {
  ForEachSeed([&] {
    const int rows = Size(2, 12);
    const int inner = Size(4, 64);
    const int columns = Size(2, 24);
    Check("Functional.linear.0.forward",
          {Make(rows * inner, ShapeOf({rows, inner}), false, Between(-2, 2)),
           Make(columns * inner, ShapeOf({columns, inner}), true),
           Make(columns, ShapeOf({columns}), true)},
          ShapeOf({rows, columns}), [&](const std::vector<const Values*>& in) {
            Values out;
            for (int r = 0; r < rows; ++r) {
              for (int c = 0; c < columns; ++c) {
                double sum = (*in[2])[c];
                for (int i = 0; i < inner; ++i) {
                  sum += (*in[0])[r * inner + i] * (*in[1])[c * inner + i];
                }
                out.push_back(sum);
              }
            }
            return out;
          });
  });
}

TEST_F(RandomOperators, ErrorsOfAConvolutionAreExplainedAndAScaleFaultIsNot) {
  ForEachSeed([&] {
    const int channels = Size(1, 6);
    const int length = Size(8, 40);
    const int filters = Size(2, 8);
    const int width = Size(1, 5);
    Check("Functional.conv1d.0.forward",
          {Make(channels * length, ShapeOf({1, channels, length}), false, Between(-2, 2)),
           Make(filters * channels * width, ShapeOf({filters, channels, width}), true)},
          ShapeOf({1, filters, length - width + 1}), [&](const std::vector<const Values*>& in) {
            Values out;
            for (int f = 0; f < filters; ++f) {
              for (int at = 0; at + width <= length; ++at) {
                double sum = 0;
                for (int c = 0; c < channels; ++c) {
                  for (int k = 0; k < width; ++k) {
                    sum += (*in[0])[c * length + at + k] * (*in[1])[(f * channels + c) * width + k];
                  }
                }
                out.push_back(sum);
              }
            }
            return out;
          });
  });
}

TEST_F(RandomOperators, ErrorsOfALayerNormAreExplainedAndAScaleFaultIsNot) {
  ForEachSeed([&] {
    const int rows = Size(2, 12);
    const int width = Size(16, 96);
    Check("Functional.layer_norm.0.forward",
          {Make(rows * width, ShapeOf({rows, width}), false, Between(-20, 20)),
           Make(width, ShapeOf({width}), true), Make(width, ShapeOf({width}), true)},
          ShapeOf({rows, width}), [&](const std::vector<const Values*>& in) {
            Values out;
            for (int r = 0; r < rows; ++r) {
              const Values row(in[0]->begin() + r * width, in[0]->begin() + (r + 1) * width);
              const double mean = Mean(row);
              const double deviation = std::sqrt(std::max(0.0, Rms(row) * Rms(row) - mean * mean));
              for (int i = 0; i < width; ++i) {
                out.push_back((row[i] - mean) / deviation * (*in[1])[i] + (*in[2])[i]);
              }
            }
            return out;
          });
  });
}

TEST_F(RandomOperators, ErrorsOfASoftmaxAreExplainedAndAScaleFaultIsNot) {
  ForEachSeed([&] {
    const int rows = Size(2, 12);
    const int width = Size(2, 64);
    Check("Functional.softmax.0.forward",
          {Make(rows * width, ShapeOf({rows, width}), false, Between(-2, 2))},
          ShapeOf({rows, width}), [&](const std::vector<const Values*>& in) {
            Values out;
            for (int r = 0; r < rows; ++r) {
              double sum = 0;
              for (int i = 0; i < width; ++i) {
                sum += std::exp((*in[0])[r * width + i]);
              }
              for (int i = 0; i < width; ++i) {
                out.push_back(std::exp((*in[0])[r * width + i]) / sum);
              }
            }
            return out;
          });
  });
}

}  // namespace
}  // namespace msprobe::analysis::compare
