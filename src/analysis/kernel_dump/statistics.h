// Statistics of one array, computed in blocks of fixed size.
#pragma once

#include "msprobe/tensor_view.h"

#include "src/kernels/stats.h"

namespace msprobe::analysis::kernel_dump {

kernels::TensorStats StatisticsOf(const TensorView& view);

}  // namespace msprobe::analysis::kernel_dump
