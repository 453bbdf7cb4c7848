// CopyElements against a naive walk, element by element, over random views of every dtype.
#include <algorithm>
#include <complex>
#include <cstring>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "src/tensor/tensor_buffer.h"

namespace msprobe::tensor {
namespace {

std::vector<std::byte> Naive(const TensorView& view, int64_t first, int64_t count) {
  const size_t element = DTypeSize(view.dtype);
  const DTypeKind kind = GetDTypeInfo(view.dtype).kind;
  const size_t scalar = kind == DTypeKind::kComplex ? element / 2 : element;
  std::vector<std::byte> out;
  for (int64_t number = first; number < first + count; ++number) {
    int64_t rest = number;
    int64_t offset = 0;
    for (size_t axis = view.shape.size(); axis-- > 0;) {
      offset += rest % view.shape[axis] * view.strides[axis];
      rest /= view.shape[axis];
    }
    std::vector<std::byte> bytes(view.data + offset * static_cast<int64_t>(element),
                                 view.data + (offset + 1) * static_cast<int64_t>(element));
    for (size_t at = 0; at < element; at += scalar) {
      if (view.byte_swapped) {
        std::reverse(bytes.begin() + static_cast<ptrdiff_t>(at),
                     bytes.begin() + static_cast<ptrdiff_t>(at + scalar));
      }
      const bool flip = view.negated != (view.conjugated && kind == DTypeKind::kComplex && at > 0);
      if (flip && (kind == DTypeKind::kFloat || kind == DTypeKind::kComplex)) {
        bytes[at + scalar - 1] ^= std::byte{0x80};
      } else if (flip) {
        // Two's complement, byte by byte.
        unsigned carry = 1;
        for (size_t i = 0; i < scalar; ++i) {
          carry += static_cast<unsigned>(~bytes[at + i] & std::byte{0xFF});
          bytes[at + i] = static_cast<std::byte>(carry & 0xFFU);
          carry >>= 8U;
        }
      }
    }
    out.insert(out.end(), bytes.begin(), bytes.end());
  }
  return out;
}

std::vector<std::byte> Copied(const TensorView& view, int64_t first, int64_t count) {
  std::vector<std::byte> out(static_cast<size_t>(count) * DTypeSize(view.dtype));
  CopyElements(view, first, count, out.data());
  return out;
}

struct Storage {
  std::vector<std::byte> bytes;
  explicit Storage(size_t size, uint32_t seed) : bytes(size) {
    std::mt19937 random(seed);
    for (std::byte& b : bytes) {
      b = static_cast<std::byte>(random());
    }
  }
};

// A view of random rank, sizes, axis order and steps into a storage; also with a zero stride
// (expand).
TensorView RandomView(DType dtype, const Storage& storage, std::mt19937& random) {
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  TensorView view;
  view.dtype = dtype;
  const auto rank = static_cast<size_t>(pick(0, 4));
  int64_t reach = 1;
  for (size_t axis = 0; axis < rank; ++axis) {
    view.shape.push_back(pick(1, 5));
    view.strides.push_back(pick(0, 4) == 0 ? 0 : reach * pick(1, 2));
    reach = std::max(reach, view.shape[axis] * view.strides[axis]);
  }
  // Any axis order: reversed gives the usual row-major look.
  for (size_t axis = 0; axis < rank; ++axis) {
    const auto other = static_cast<size_t>(pick(0, static_cast<int64_t>(rank) - 1));
    std::swap(view.shape[axis], view.shape[other]);
    std::swap(view.strides[axis], view.strides[other]);
  }
  int64_t last = 0;
  for (size_t axis = 0; axis < rank; ++axis) {
    last += (view.shape[axis] - 1) * view.strides[axis];
  }
  const auto extent = static_cast<size_t>(last + 1) * DTypeSize(dtype);
  EXPECT_LE(extent + 7, storage.bytes.size());
  view.data = storage.bytes.data() + pick(0, 7);  // unaligned on purpose
  view.extent_bytes = extent;
  return view;
}

class EveryDType : public ::testing::TestWithParam<int> {};

TEST_P(EveryDType, RandomViewsEqualTheNaiveWalk) {
  const auto dtype = static_cast<DType>(GetParam());
  const Storage storage(size_t{1} << 20U, 7);
  std::mt19937 random(static_cast<uint32_t>(GetParam()) + 1);
  for (int round = 0; round < 300; ++round) {
    TensorView view = RandomView(dtype, storage, random);
    view.byte_swapped = random() % 3 == 0;
    view.conjugated = random() % 3 == 0;
    view.negated = random() % 3 == 0;
    const int64_t total = view.element_count();
    ASSERT_EQ(Copied(view, 0, total), Naive(view, 0, total))
        << ShapeText(view.shape) << " " << ShapeText(view.strides);
    const int64_t first = static_cast<int64_t>(random()) % total;
    const int64_t count = static_cast<int64_t>(random()) % (total - first + 1);
    ASSERT_EQ(Copied(view, first, count), Naive(view, first, count)) << first << " " << count;
  }
}

TEST_P(EveryDType, BlocksPutTogetherAreTheWhole) {
  const auto dtype = static_cast<DType>(GetParam());
  const Storage storage(4096, 11);
  TensorView view;
  view.dtype = dtype;
  view.shape = {4, 3, 5};
  view.strides = {1, 20, 4};
  view.data = storage.bytes.data();
  const std::vector<std::byte> whole = Copied(view, 0, 60);
  for (const int64_t block : {1, 7, 16, 59}) {
    std::vector<std::byte> joined;
    for (int64_t first = 0; first < 60; first += block) {
      const std::vector<std::byte> part = Copied(view, first, std::min(block, 60 - first));
      joined.insert(joined.end(), part.begin(), part.end());
    }
    EXPECT_EQ(joined, whole) << block;
  }
}

INSTANTIATE_TEST_SUITE_P(CopyElements, EveryDType, ::testing::Range(0, kDTypeCount));

TEST(CopyElements, ConjugatesAndNegatesAsTheNumbersSay) {
  const std::complex<float> values[] = {{1.0F, 2.0F}, {-3.0F, 0.5F}};
  TensorView view;
  view.dtype = DType::kComplex64;
  view.shape = {2};
  view.strides = {1};
  view.data = reinterpret_cast<const std::byte*>(values);
  view.conjugated = true;
  std::complex<float> out[2];
  CopyElements(view, 0, 2, reinterpret_cast<std::byte*>(out));
  EXPECT_EQ(out[0], std::conj(values[0]));
  view.negated = true;
  CopyElements(view, 0, 2, reinterpret_cast<std::byte*>(out));
  EXPECT_EQ(out[1], -std::conj(values[1]));
}

TEST(CopyElements, NegatesIntegersByValue) {
  const int16_t values[] = {5, -7, 0, -32768};
  TensorView view;
  view.dtype = DType::kInt16;
  view.shape = {4};
  view.strides = {1};
  view.data = reinterpret_cast<const std::byte*>(values);
  view.negated = true;
  int16_t out[4];
  CopyElements(view, 0, 4, reinterpret_cast<std::byte*>(out));
  EXPECT_EQ(out[0], -5);
  EXPECT_EQ(out[1], 7);
  EXPECT_EQ(out[2], 0);
  EXPECT_EQ(out[3], -32768) << "wraps around, as the frameworks do";
}

TEST(MakeContiguous, TransposesAndRefusesExpandedGiants) {
  const float values[] = {0, 1, 2, 3, 4, 5};
  TensorView view;
  view.shape = {3, 2};
  view.strides = {1, 3};
  view.data = reinterpret_cast<const std::byte*>(values);
  const Result<TensorBuffer> buffer = MakeContiguous(view, 1000);
  ASSERT_TRUE(buffer.ok());
  ASSERT_TRUE(buffer->view().is_plain());
  float out[6];
  std::memcpy(out, buffer->view().data, sizeof(out));
  EXPECT_EQ(std::vector<float>(out, out + 6), (std::vector<float>{0, 3, 1, 4, 2, 5}));

  view.shape = {1'000'000'000, 2};
  view.strides = {0, 1};
  EXPECT_FALSE(MakeContiguous(view, 1000).ok());
}

TEST(CopyElements, EmptyTensorsTouchNothing) {
  TensorView view;
  view.shape = {3, 0};
  view.strides = {1, 1};
  CopyElements(view, 0, 0, nullptr);
  EXPECT_EQ(view.element_count(), 0);
}

}  // namespace
}  // namespace msprobe::tensor
