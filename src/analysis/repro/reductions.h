// Steps by which a captured call becomes smaller. Each makes a candidate; whether it shows the same
// fault is for minimise.h to find out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/analysis/repro/captured_call.h"

namespace msprobe::analysis::repro {

// Elements [begin, end) of a dim.
struct Cut {
  std::string data_name;
  size_t dim = 0;
  int64_t begin = 0;
  int64_t end = 0;
};

// The tensors cut to ranges of their dims, their records with them. With `numbers`, integers among
// the arguments that equal `old_size` become `new_size`, too.
CapturedCall WithCuts(const CapturedCall& call, const std::vector<Cut>& cuts, bool numbers,
                      int64_t old_size, int64_t new_size);

// The values of a tensor are not there any more; its record is.
CapturedCall WithoutValues(const CapturedCall& call, const TensorLeaf& leaf);

// An argument of the forward call that is not given: None, or a keyword that is left out.
CapturedCall WithoutArgument(const CapturedCall& call, const Json::json_pointer& place);

// Elements [begin, end) of a tensor are 0.
CapturedCall WithZeros(const CapturedCall& call, const std::string& data_name, int64_t begin,
                       int64_t end);

// Every tensor of `rank` dims loses its first one, which has size 1.
CapturedCall WithoutFirstDim(const CapturedCall& call, size_t rank);

}  // namespace msprobe::analysis::repro
