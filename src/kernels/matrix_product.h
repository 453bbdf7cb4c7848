// Products of matrices of doubles, blocked for the caches and computed on all threads of a pool.
#pragma once

#include <cstddef>

#include "src/base/threads.h"

namespace msprobe::kernels {

// A matrix that somebody else owns; element (i, j) at data[i * row_stride + j * column_stride].
struct MatrixView {
  const double* data = nullptr;
  size_t row_stride = 0;
  size_t column_stride = 1;
};

// c = a b for a of rows x depth, b of depth x columns, c row-major without gaps. Every element is
// summed in rising order of depth, whatever the blocks, the threads and the instruction set are:
// the same bits for any number of threads, and on every machine where the products are exact, as
// they are of numbers that come from float32 or smaller types.
void MultiplyMatrices(size_t rows, size_t columns, size_t depth, const MatrixView& a,
                      const MatrixView& b, double* c, base::ThreadPool& pool);

}  // namespace msprobe::kernels
