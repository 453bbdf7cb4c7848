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

// The loops over the tile are unrolled before the compiler gives out registers: otherwise all sums
// go through memory at both ends.
void AddProduct(size_t depth, const double* a, const double* b, double* c, size_t c_stride,
                bool from_zero) {
  // So many steps ahead, panels are fetched from the L2 cache, where the vectors are wide enough
  // to wait for it.
  constexpr size_t kAheadOfA = 16;
  constexpr size_t kAheadOfB = 8;
  constexpr bool kFetches = kProductLanes == 8;
  constexpr ProductTag d;
  ProductVector sums[kTileRows][kTileVectors];
  HWY_UNROLL(kTileRows)
  for (size_t i = 0; i < kTileRows; ++i) {
    HWY_UNROLL(kTileVectors)
    for (size_t j = 0; j < kTileVectors; ++j) {
      sums[i][j] = from_zero ? hn::Zero(d) : hn::LoadU(d, c + i * c_stride + j * kProductLanes);
    }
  }
  for (size_t p = 0; p < depth; ++p) {
    if (kFetches) {
      hwy::Prefetch(a + (p + kAheadOfA) * kTileRows);
    }
    ProductVector right[kTileVectors];
    HWY_UNROLL(kTileVectors)
    for (size_t j = 0; j < kTileVectors; ++j) {
      if (kFetches) {
        hwy::Prefetch(b + (p + kAheadOfB) * kTileColumns + j * kProductLanes);
      }
      right[j] = hn::Load(d, b + p * kTileColumns + j * kProductLanes);
    }
    HWY_UNROLL(kTileRows)
    for (size_t i = 0; i < kTileRows; ++i) {
      const ProductVector left = hn::Set(d, a[p * kTileRows + i]);
      HWY_UNROLL(kTileVectors)
      for (size_t j = 0; j < kTileVectors; ++j) {
        sums[i][j] = hn::MulAdd(left, right[j], sums[i][j]);
      }
    }
  }
  HWY_UNROLL(kTileRows)
  for (size_t i = 0; i < kTileRows; ++i) {
    HWY_UNROLL(kTileVectors)
    for (size_t j = 0; j < kTileVectors; ++j) {
      hn::StoreU(sums[i][j], d, c + i * c_stride + j * kProductLanes);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace msprobe::kernels::internal
HWY_AFTER_NAMESPACE();
