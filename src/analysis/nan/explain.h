// Inside of the room: sentences and lines that the screen and the Markdown answer share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/analysis/nan/result.h"

namespace msprobe::analysis::nan::internal {

// The first line: "FOUND: rank 2 made the first NaN, in Torch.div.0.forward".
std::string Headline(const Answer& answer);
// What is known about how it became bad: one sentence per kind of origin.
std::string_view KindSentence(OriginKind kind);
// What to do now.
std::string_view NextStep(const StepAnswer& answer);

// A stack frame in one line: "train.py, line 13, in forward: y = a / b".
std::string FrameLine(std::string_view frame);

// The tensors and plain numbers of an entry.
struct ValueLine {
  std::string name;  // "input_args.0", "output.1.0"
  std::string text;  // "float32 [2, 8]  max inf  min -1"
  BadValues bad = 0;
};
std::vector<ValueLine> ValueLines(const dump::EntryTree& entry, size_t most);

// The chain, arrivals by the same call of the same sender in one line: "rank 2,
// Distributed.all_reduce.1.forward -> ranks 0, 1, 3".
struct ChainLine {
  int64_t from_rank = 0;
  std::string from_name;
  std::vector<int64_t> to_ranks;
  std::string to_name;  // of the first of them
};
std::vector<ChainLine> ChainLines(const StepAnswer& answer);

// "rank 3", "ranks 0, 1, 2 and 13 more".
std::string RankList(const std::vector<int64_t>& ranks);

}  // namespace msprobe::analysis::nan::internal
