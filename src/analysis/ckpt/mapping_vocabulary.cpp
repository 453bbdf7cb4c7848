#include "src/analysis/ckpt/mapping_vocabulary.h"

#include <algorithm>

#include <fmt/format.h>

namespace msprobe::analysis::ckpt {
namespace {

using checkpoint::Parameter;

bool DifferInRowsOnly(const Parameter& a, const Parameter& b) {
  return !a.shape.empty() && a.shape.size() == b.shape.size() &&
         std::equal(a.shape.begin() + 1, a.shape.end(), b.shape.begin() + 1);
}

}  // namespace

Status CutToVocabulary(std::optional<int64_t> wanted, std::optional<int64_t> recorded,
                       MatchedPair& pair) {
  if (!pair.a.status.ok() || !pair.b.status.ok() || !DifferInRowsOnly(pair.a, pair.b)) {
    return {};
  }
  const int64_t fewer = std::min(pair.a.shape[0], pair.b.shape[0]);
  const int64_t more = std::max(pair.a.shape[0], pair.b.shape[0]);
  int64_t rows = fewer;
  std::string why = "the rest is padding";
  if (wanted) {
    if (*wanted > fewer) {
      pair.notes.push_back(
          fmt::format("a vocabulary of {} was requested, but there are {} rows", *wanted, fewer));
      return {};
    }
    rows = *wanted;
    why = "as requested";
  } else if (fewer == more) {
    return {};
  } else if (recorded && *recorded <= fewer) {
    rows = *recorded;
    why = "the recorded vocabulary; the rest is padding";
  } else if (fewer <= more / 2) {
    return {};  // too much for padding: something else is wrong
  }
  if (rows == more) {
    return {};
  }
  pair.notes.push_back(fmt::format("{} and {} rows: the first {} are compared ({})",
                                   pair.a.shape[0], pair.b.shape[0], rows, why));
  MSP_ASSIGN_OR_RETURN(pair.a, checkpoint::Slice(pair.a, 0, 0, rows));
  MSP_ASSIGN_OR_RETURN(pair.b, checkpoint::Slice(pair.b, 0, 0, rows));
  return {};
}

}  // namespace msprobe::analysis::ckpt
