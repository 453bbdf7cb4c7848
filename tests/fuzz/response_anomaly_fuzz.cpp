// Any bytes as a request, judged with and without categories, and as limits.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "src/analysis/response_anomaly/judge.h"
#include "src/analysis/response_anomaly/response_anomaly.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace msprobe::analysis::response_anomaly;  // NOLINT
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Request request;
  if (ParseRequest(text, request).ok()) {
    Limits small;
    small.window_size = 8;
    small.stride = 3;
    static const ModelTable no_models;
    for (const Limits& limits : {Limits(), small}) {
      Judge judge(limits, no_models);
      const Judgement first = judge.Examine(request);
      const Judgement second = judge.Examine(request);  // sorted by now
      if (first.illness != second.illness || first.tokens != request.tokens.size() ||
          (first.illness == Illness::kNotFinite) !=
              (first.nans + first.positive_infinities + first.negative_infinities > 0)) {
        std::abort();
      }
    }
  }
  const auto limits = ParseLimits(text, "limits.yaml");
  if (limits.ok() && (limits->stride < 1 || limits->window_size < limits->stride)) {
    std::abort();
  }
  [[maybe_unused]] const auto categories = Categories::Parse(text, 300);
  return 0;
}
