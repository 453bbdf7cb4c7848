// The tile of a matrix product over Highway tags: a part of simd-inl.h, compiled like it by each
// kernels_<instruction set>.cpp.

#ifndef MSPROBE_KERNEL_TABLE
#error "included by kernels_<instruction set>.cpp only"
#endif

#include <cstddef>

#include <hwy/highway.h>

#include "src/kernels/kernel_table.h"

HWY_BEFORE_NAMESPACE();
namespace msprobe::kernels::internal {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using ProductTag = hn::ScalableTag<double>;
using ProductVector = hn::Vec<ProductTag>;
constexpr size_t kProductLanes = HWY_LANES(double);

// Rows and vectors of a tile fill the registers: 24 sums of 32 registers, 12 of 16.
constexpr size_t kTileRows = kProductLanes == 8 ? 8 : 4;
constexpr size_t kTileVectors = 3;
constexpr size_t kTileColumns = kTileVectors * kProductLanes;
static_assert(kTileRows * kTileColumns <= kMaxTileElements);

void AddProduct(size_t depth, const double* a, const double* b, double* c) {
  constexpr ProductTag d;
  ProductVector sums[kTileRows][kTileVectors];
  for (size_t i = 0; i < kTileRows; ++i) {
    for (size_t j = 0; j < kTileVectors; ++j) {
      sums[i][j] = hn::LoadU(d, c + i * kTileColumns + j * kProductLanes);
    }
  }
  for (size_t p = 0; p < depth; ++p) {
    ProductVector right[kTileVectors];
    for (size_t j = 0; j < kTileVectors; ++j) {
      right[j] = hn::Load(d, b + p * kTileColumns + j * kProductLanes);
    }
    for (size_t i = 0; i < kTileRows; ++i) {
      const ProductVector left = hn::Set(d, a[p * kTileRows + i]);
      for (size_t j = 0; j < kTileVectors; ++j) {
        sums[i][j] = hn::MulAdd(left, right[j], sums[i][j]);
      }
    }
  }
  for (size_t i = 0; i < kTileRows; ++i) {
    for (size_t j = 0; j < kTileVectors; ++j) {
      hn::StoreU(sums[i][j], d, c + i * kTileColumns + j * kProductLanes);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace msprobe::kernels::internal
HWY_AFTER_NAMESPACE();
