// One request as a line of JSON:
//   {"name": text, "model": text or {"model_name": text} or null, "tokens": [id, ...],
//    "topk_logprobs": [token, ...]}
// with a token as [[id, logprob], ...] or {"id": logprob}. A log-probability is a number, NaN,
// Infinity, or a text that says so: "nan", "inf", "-inf". Other keys are passed over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

namespace msprobe::analysis::response_anomaly {

struct Candidate {
  int64_t id = 0;
  double logprob = 0;
};

class Request {
 public:
  std::string name;
  std::string model;  // empty: not told
  std::vector<int64_t> tokens;

  // One list of candidates per token, in the order given.
  size_t candidate_lists() const { return ends_.size(); }
  std::span<Candidate> candidates(size_t token) {
    const size_t begin = token == 0 ? 0 : ends_[token - 1];
    return std::span(candidates_).subspan(begin, ends_[token] - begin);
  }

  void Clear();
  void AddCandidate(Candidate candidate) { candidates_.push_back(candidate); }
  void EndToken() { ends_.push_back(candidates_.size()); }

 private:
  std::vector<Candidate> candidates_;
  std::vector<size_t> ends_;
};

// Fills `request`, whose memory is used again. kBadFormat says what is wrong, and where.
Status ParseRequest(std::string_view line, Request& request);

}  // namespace msprobe::analysis::response_anomaly
