// What a step of a training leaves to the next one: the values its parameters had and how far apart
// their gradients were. With it a difference in a weight is classified: noise of the gradients, a
// wrong optimizer, or another weight.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "src/analysis/compare/side.h"

namespace msprobe::analysis::compare {

class DifferingRows;

struct StepRecord {
  struct Parameter {
    std::array<double, kStatCount> npu{};  // Max, Min, Mean, Norm; NaN where unknown
    std::array<double, kStatCount> bench{};
    bool identical = false;
    bool agrees = false;
  };
  struct Gradient {
    bool identical = false;
    bool cancelled = false;  // rounding only: its relative error means nothing
    double error = 0;        // Distance::relative, or what explains it where it is not recorded
    double scale = 0;        // the root mean square of the reference side; 0: not recorded
  };

  std::optional<int64_t> step;
  std::shared_ptr<const DifferingRows>
      differing;  // rows that were not identical: states of an optimizer come back
  std::shared_ptr<const DifferingRows> by_chance;  // those of them that WalkHistory::IsByChance
  bool identical = false;                          // every compared row was
  bool agrees = false;                             // every compared row, up to noise
  bool has_origin = false;
  bool shows_bits = false;      // equal rows are bit-equal: tensors or checksums were compared
  bool repeats_layers = false;  // a layer ran again behind its backward: gradients add up
  std::unordered_map<std::string, Parameter> parameters;  // by UpdateKeys::parameter
  std::unordered_map<std::string, Gradient> gradients;    // by UpdateKeys::gradient
};

// What a parameter and its gradient go by in every step. Of a module, "Module.fc.Linear|weight" for
// both, from the rows in its sections parameters and parameters_grad. Of a functional call,
// "Functional.linear.0|1" for an argument, and "Functional.linear.0|32 elements" for its gradient:
// what the backward call returns stands in an order of its own, and a weight's gradient may be
// transposed. Empty for other rows.
struct UpdateKeys {
  std::string parameter;
  std::string gradient;
};
UpdateKeys UpdateKeysOf(std::string_view entry_name, std::string_view argument, const SideRow& row);

enum class UpdateJudgement : uint8_t {
  kUnknown,    // the step before says nothing of this parameter
  kExplained,  // by the gradients of the step before
  kOptimizer,  // parameter and gradient agreed in the step before, the parameter does not now
  kEcho,       // the step before had already diverged
};

// Whether the gradient of a parameter may be zero in exact arithmetic. Only biases' are: of a layer
// in front of a normalisation, of the keys of an attention, which may be a third of a fused
// projection.
enum class Cancellation : uint8_t { kNever, kWhole, kInPart };

// True when updates are as large as gradients say (SGD): then noise of a gradient is noise of its
// update. Optimizers that divide by the gradient's own size (Adam) move every parameter by about
// the same, by chance where a gradient cancels. Decided by which of movement and movement over
// gradient is spread less over the parameters.
class UpdateRule {
 public:
  void Add(const StepRecord& previous, const UpdateKeys& keys, Cancellation cancellation,
           const SideRow& npu, const SideRow& bench);
  bool FollowsGradients() const;
  // The furthest that a parameter moved on both sides. What one side alone moved by more is not a
  // measure of what an update by chance may do.
  double SharedMovement() const { return shared_movement_; }
  // True when the largest or smallest elements of many parameters moved apart although their
  // gradients agree. Chance moves single elements, seldom the extreme ones and never those of many
  // parameters: a setting of the optimizer differs, such as Adam's epsilon.
  bool Differs() const;

 private:
  struct Spread {
    double sum = 0;
    double square_sum = 0;
  };
  double shared_movement_ = 0;
  Spread movement_;
  Spread quotient_;
  double count_ = 0;
  size_t close_ = 0;         // parameters whose gradients agree
  size_t apart_ = 0;         // those of them of which an extreme moved apart
  size_t wholly_apart_ = 0;  // of which both did
};

// For a parameter that is not identical now. An optimizer step moves a parameter by about the
// movement seen between the steps; noise of the gradient changes that movement by its own share,
// and an update that depends on signs (Adam: g / sqrt(g^2)) by no more than twice the movement
// where the gradient is nothing but noise.
struct UpdateVerdict {
  UpdateJudgement judgement = UpdateJudgement::kUnknown;
  // kExplained: how far single elements may be apart although Max, Min, Mean and Norm hardly are. 0
  // where the statistics tell all.
  double hidden = 0;
};
UpdateVerdict JudgeUpdate(const StepRecord& previous, const UpdateRule& rule,
                          const UpdateKeys& keys, Cancellation cancellation, const SideRow& npu,
                          const SideRow& bench);

}  // namespace msprobe::analysis::compare
