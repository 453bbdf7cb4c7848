// What the terminal shows of a comparison of two checkpoints.
#pragma once

#include <cstddef>
#include <string>

#include "src/analysis/ckpt/result.h"

namespace msprobe::analysis::ckpt {

std::string ScreenReport(const Comparison& comparison, size_t width, bool color);

}  // namespace msprobe::analysis::ckpt
