// The rules of msprobe response_anomaly (docs/commands/response_anomaly.md tells them).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/response_anomaly/model_table.h"
#include "src/analysis/response_anomaly/options.h"
#include "src/analysis/response_anomaly/request.h"

namespace msprobe::analysis::response_anomaly {

// The numbers are the Python tool's.
enum class Illness : uint8_t {
  kNone = 0,
  kRareCharacters = 1,
  kGarbled = 2,
  kRepetition = 3,
  kNotFinite = 4,
};
inline constexpr size_t kIllnessCount = 5;
// "rare_characters", ...; "none".
std::string_view IllnessName(Illness illness);

struct Judgement {
  Illness illness = Illness::kNone;
  size_t tokens = 0;
  size_t candidates = 0;  // per token, of those that are looked at
  bool by_categories = false;
  // Values that are no numbers, among the candidates that are looked at. A server that fills up
  // with -inf has these alone.
  size_t nans = 0;
  size_t positive_infinities = 0;
  size_t negative_infinities = 0;
  size_t windows = 0;
  size_t rare_tokens = 0;
  size_t garbled_windows = 0;
  // Windows in which the detectors of repetition fire; those of `both` are not counted in the
  // others. They count below the thresholds too: a short response can repeat itself and be normal.
  size_t repeats_both = 0;
  size_t repeats_trajectory = 0;
  size_t repeats_period = 0;
  std::optional<size_t> first_token;  // of what made it ill; begins with 0
};

class Judge {
 public:
  Judge(const Limits& limits, const ModelTable& models) : limits_(limits), models_(models) {}

  // Fails where windows overlap so much that judging a response of so many tokens has no end.
  Status CheckWork(size_t tokens) const;
  // Sorts the candidates of `request`. A request by itself: no other one changes its answer.
  Judgement Examine(Request& request);

 private:
  struct Token {
    double top = 0;          // largest log-probability
    double probability = 0;  // of all candidates together
    bool is_rare = false;
  };

  void ReadTokens(Request& request, Judgement& judgement);
  bool IsMixture(std::span<const Candidate> candidates, const Categories& categories);
  bool IsGarbled(size_t begin, size_t end) const;
  bool HasFewTrajectories(const std::vector<int64_t>& tokens, size_t begin, size_t end);
  bool IsPeriodic(size_t begin, size_t end);

  const Limits limits_;
  const ModelTable& models_;
  const Categories* categories_ = nullptr;  // of the request under examination
  // Memory that is used again.
  std::vector<Token> tokens_;
  std::vector<Categories::Category> mixture_;
  std::vector<size_t> places_;
  std::vector<double> centred_;
  std::vector<double> correlation_;
};

}  // namespace msprobe::analysis::response_anomaly
