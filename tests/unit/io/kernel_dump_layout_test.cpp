// Conversions of layouts against plain loops over the index formulas of Ascend's formats.
#include <cstring>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/io/kernel_dump/format.h"
#include "src/io/kernel_dump/layout.h"

namespace msprobe::io::kernel_dump {
namespace {

using ::testing::HasSubstr;

int64_t Blocks(int64_t size, int64_t block) { return (size + block - 1) / block; }

std::vector<uint16_t> Numbers(int64_t count) {
  std::vector<uint16_t> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), uint16_t{1});
  return numbers;
}

// Where element (indices in the order of the plain tensor) lies on the device, or -1.
using Place = std::function<int64_t(const Shape& index)>;

// Holds both directions, whole and in pieces, against `place`.
void Check(const LayoutRequest& request, const Place& place) {
  const Result<Layout> layout = FindLayout(request);
  ASSERT_TRUE(layout.ok()) << layout.status().message();
  const std::vector<uint16_t> device = Numbers(ElementCount(*request.device));
  const int64_t count = ElementCount(layout->plain_shape);
  std::vector<uint16_t> expected(static_cast<size_t>(count));
  std::vector<uint16_t> back(device.size(), 0);
  Shape index(layout->plain_shape.size(), 0);
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i;
    for (size_t axis = index.size(); axis-- > 0;) {
      index[axis] = rest % layout->plain_shape[axis];
      rest /= layout->plain_shape[axis];
    }
    const int64_t at = place(index);
    ASSERT_GE(at, 0);
    ASSERT_LT(at, static_cast<int64_t>(device.size()));
    expected[static_cast<size_t>(i)] = device[static_cast<size_t>(at)];
    back[static_cast<size_t>(at)] = device[static_cast<size_t>(at)];
  }
  std::vector<uint16_t> plain(expected.size(), 0);
  ToPlainRows(*layout, 2, std::as_bytes(std::span(device)),
              std::as_writable_bytes(std::span(plain)));
  EXPECT_EQ(plain, expected);
  std::vector<uint16_t> again(device.size(), 0xFFFF);
  ToDeviceLayout(*layout, 2, std::as_bytes(std::span(plain)),
                 std::as_writable_bytes(std::span(again)));
  EXPECT_EQ(again, back);
  std::vector<uint16_t> pieces(expected.size(), 0);
  const Status status = ForEachPiece(*layout, 7, [&](const LayoutPiece& piece) {
    const auto size = static_cast<size_t>(ElementCount(piece.layout.plain_shape));
    ToPlainRows(piece.layout, 2,
                std::as_bytes(std::span(device).subspan(static_cast<size_t>(piece.device_first))),
                std::as_writable_bytes(
                    std::span(pieces).subspan(static_cast<size_t>(piece.plain_first), size)));
    return Status();
  });
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(pieces, expected);
}

struct Sizes {
  int64_t n, c, d, h, w, c0;
};
std::vector<Sizes> RandomSizes() {
  std::mt19937 random(7);
  const auto pick = [&](int64_t most) { return static_cast<int64_t>(random() % most) + 1; };
  std::vector<Sizes> all;
  for (const int64_t c0 : {4, 16, 32}) {
    for (int i = 0; i < 12; ++i) {
      all.push_back({pick(20), pick(40), pick(3), pick(4), pick(5), c0});
    }
  }
  return all;
}

TEST(KernelDumpLayout, FiveDimensionalChannelsAgreeWithTheirFormula) {
  for (const Sizes& s : RandomSizes()) {
    const int64_t c1 = Blocks(s.c, s.c0);
    const Shape device = {s.n, c1, s.h, s.w, s.c0};
    const auto place = [&](int64_t n, int64_t c, int64_t h, int64_t w) {
      return (((n * c1 + c / s.c0) * s.h + h) * s.w + w) * s.c0 + c % s.c0;
    };
    const Shape nchw = {s.n, s.c, s.h, s.w};
    Check({format::kNC1HWC0, format::kNCHW, 1, &device, &nchw},
          [&](const Shape& i) { return place(i[0], i[1], i[2], i[3]); });
    const Shape nhwc = {s.n, s.h, s.w, s.c};
    Check({format::kNC1HWC0, format::kNHWC, 1, &device, &nhwc},
          [&](const Shape& i) { return place(i[0], i[3], i[1], i[2]); });
    const Shape hwcn = {s.h, s.w, s.c, s.n};
    Check({format::kNC1HWC0C04, format::kHWCN, 1, &device, &hwcn},
          [&](const Shape& i) { return place(i[3], i[2], i[0], i[1]); });
    Check({format::kNC1HWC0, format::kNCHW, 1, &device, nullptr},
          [&](const Shape& i) { return place(i[0], i[1], i[2], i[3]); });
  }
}

TEST(KernelDumpLayout, FractalWeightsAgreeWithTheirFormula) {
  for (const Sizes& s : RandomSizes()) {
    const int64_t n1 = Blocks(s.n, 16);
    const int64_t c1 = Blocks(s.c, s.c0);
    const Shape device = {c1 * s.h * s.w, n1, 16, s.c0};
    const auto place = [&](int64_t n, int64_t c, int64_t h, int64_t w) {
      return ((((c / s.c0) * s.h + h) * s.w + w) * n1 * 16 + n) * s.c0 + c % s.c0;
    };
    const Shape nchw = {s.n, s.c, s.h, s.w};
    Check({format::kFractalZ, format::kNCHW, 1, &device, &nchw},
          [&](const Shape& i) { return place(i[0], i[1], i[2], i[3]); });
    const Shape hwcn = {s.h, s.w, s.c, s.n};
    Check({format::kFractalZ, format::kHWCN, 1, &device, &hwcn},
          [&](const Shape& i) { return place(i[3], i[2], i[0], i[1]); });
    const Shape device3 = {s.d * c1 * s.h * s.w, n1, 16, s.c0};
    const Shape ncdhw = {s.n, s.c, s.d, s.h, s.w};
    Check({format::kFractalZ3D, format::kNCDHW, 1, &device3, &ncdhw}, [&](const Shape& i) {
      return ((((i[2] * c1 + i[1] / s.c0) * s.h + i[3]) * s.w + i[4]) * n1 * 16 + i[0]) * s.c0 +
             i[1] % s.c0;
    });
  }
}

TEST(KernelDumpLayout, MatricesAgreeWithTheirFormula) {
  for (const Sizes& s : RandomSizes()) {
    const int64_t rows = s.n * 3;
    const int64_t columns = s.c;
    const int64_t h1 = Blocks(rows, 16);
    const int64_t w1 = Blocks(columns, s.c0);
    const Shape device = {s.d, s.h, w1, h1, 16, s.c0};
    const Shape plain = {s.d, s.h, rows, columns};
    const auto place = [&](int64_t t, int64_t i, int64_t j) {
      return t * w1 * h1 * 16 * s.c0 + (j / s.c0) * h1 * 16 * s.c0 + i * s.c0 + j % s.c0;
    };
    Check({format::kFractalNZ, format::kND, 1, &device, &plain},
          [&](const Shape& i) { return place(i[0] * s.h + i[1], i[2], i[3]); });
    const Shape flat_device = {w1, 1, 16, s.c0};
    const Shape row = {columns};
    Check({format::kFractalNZ, format::kND, 1, &flat_device, &row},
          [&](const Shape& i) { return (i[0] / s.c0) * 16 * s.c0 + i[0] % s.c0; });
  }
}

TEST(KernelDumpLayout, SixDimensionalAndDiagonalAgreeWithTheirFormula) {
  for (const Sizes& s : RandomSizes()) {
    const int64_t c1 = Blocks(s.c, s.c0);
    const Shape device = {s.n, s.d, c1, s.h, s.w, s.c0};
    const Shape ncdhw = {s.n, s.c, s.d, s.h, s.w};
    const auto place = [&](const Shape& i) {
      return ((((i[0] * s.d + i[2]) * c1 + i[1] / s.c0) * s.h + i[3]) * s.w + i[4]) * s.c0 +
             i[1] % s.c0;
    };
    Check({format::kNDC1HWC0, format::kNCDHW, 1, &device, &ncdhw}, place);
    const Shape diagonal = {c1, s.h, s.w, s.n, s.c0, s.c0};
    const Shape nchw = {s.n, s.c, s.h, s.w};
    Check({format::kC1HWNCoC0, format::kNCHW, 1, &diagonal, &nchw}, [&](const Shape& i) {
      const int64_t inner = i[1] % s.c0;
      return ((((i[1] / s.c0) * s.h + i[2]) * s.w + i[3]) * s.n + i[0]) * s.c0 * s.c0 +
             inner * s.c0 + inner;
    });
  }
}

TEST(KernelDumpLayout, GroupedWeightsAgreeWithTheirFormula) {
  std::mt19937 random(11);
  for (int trial = 0; trial < 40; ++trial) {
    const int64_t groups = static_cast<int64_t>(random() % 6) + 2;
    const int64_t filters = static_cast<int64_t>(random() % 20) + 1;
    const int64_t channels = static_cast<int64_t>(random() % 20) + 1;
    const int64_t h = static_cast<int64_t>(random() % 3) + 1;
    const int64_t w = static_cast<int64_t>(random() % 3) + 1;
    const int64_t k = 16;
    const int64_t merge = std::min(
        std::lcm(std::lcm(channels, k) / channels, std::lcm(filters, int64_t{16}) / filters),
        groups);
    const int64_t channel_blocks = Blocks(merge * channels, k);
    const int64_t filter_blocks = Blocks(merge * filters, 16);
    const Shape device = {Blocks(groups, merge) * channel_blocks * h * w, filter_blocks, 16, k};
    const Shape plain = {groups * filters, channels, h, w};
    Check({format::kFractalZ, format::kNCHW, static_cast<unsigned>(groups), &device, &plain},
          [&](const Shape& i) {
            const int64_t group = i[0] / filters;
            const int64_t member = group % merge;
            const int64_t ci = member * channels + i[1];
            const int64_t co = member * filters + i[0] % filters;
            return ((((group / merge) * channel_blocks + ci / k) * h + i[2]) * w + i[3]) *
                       filter_blocks * 16 * k +
                   co * k + ci % k;
          });
  }
}

// The copy of large tensors, of small ones with rows, blocks and windows of many sizes, at every
// place of a cache line; behind the tensor nothing is written.
void CheckRowGroups(const LayoutRequest& request, size_t element_bytes, size_t shift,
                    const Place& place) {
  const Result<Layout> layout = FindLayout(request);
  ASSERT_TRUE(layout.ok()) << layout.status().message();
  const std::optional<RowGroups> groups = FindRowGroups(*layout, element_bytes);
  ASSERT_TRUE(groups.has_value()) << ShapeText(*request.device);
  std::mt19937 random(static_cast<unsigned>(shift));
  std::vector<std::byte> device(static_cast<size_t>(ElementCount(*request.device)) * element_bytes);
  for (std::byte& byte : device) {
    byte = static_cast<std::byte>(random());
  }
  const int64_t count = ElementCount(layout->plain_shape);
  std::vector<std::byte> plain(static_cast<size_t>(count) * element_bytes + 256, std::byte{0x5A});
  std::vector<std::byte> expected = plain;
  Shape index(layout->plain_shape.size(), 0);
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i;
    for (size_t axis = index.size(); axis-- > 0;) {
      index[axis] = rest % layout->plain_shape[axis];
      rest /= layout->plain_shape[axis];
    }
    std::memcpy(expected.data() + shift + static_cast<size_t>(i) * element_bytes,
                device.data() + static_cast<size_t>(place(index)) * element_bytes, element_bytes);
  }
  CopyRowGroups(*groups, element_bytes, device.data(), plain.data() + shift);
  EXPECT_EQ(plain, expected) << ShapeText(*request.device) << ", " << element_bytes << " bytes";
}

TEST(KernelDumpLayout, RowsInGroupsAgreeWithTheFormula) {
  std::mt19937 random(13);
  const auto pick = [&](int64_t most) { return static_cast<int64_t>(random() % most) + 1; };
  for (const size_t element_bytes : {1U, 2U, 4U, 8U, 16U}) {
    for (int trial = 0; trial < 24; ++trial) {
      const int64_t c0 = std::vector<int64_t>{4, 8, 16, 32}[static_cast<size_t>(trial % 4)];
      const int64_t n = 15 + pick(150);
      const int64_t c = c0 + pick(90);
      const int64_t h = 1 + pick(4);
      const int64_t w = pick(5);
      const int64_t n1 = Blocks(n, 16);
      const Shape device = {Blocks(c, c0) * h * w, n1, 16, c0};
      const Shape nchw = {n, c, h, w};
      CheckRowGroups({format::kFractalZ, format::kNCHW, 1, &device, &nchw}, element_bytes,
                     random() % 128, [&](const Shape& i) {
                       return (((i[1] / c0 * h + i[2]) * w + i[3]) * n1 * 16 + i[0]) * c0 +
                              i[1] % c0;
                     });
    }
    const auto columns = static_cast<int64_t>(4096 / element_bytes) + pick(300);
    const int64_t rows = 15 + pick(40);
    const int64_t h1 = Blocks(rows, 16);
    const Shape matrices = {2, Blocks(columns, 16), h1, 16, 16};
    const Shape plain = {2, rows, columns};
    CheckRowGroups({format::kFractalNZ, format::kND, 1, &matrices, &plain}, element_bytes,
                   random() % 128, [&](const Shape& i) {
                     return ((i[0] * matrices[1] + i[2] / 16) * h1 * 16 + i[1]) * 16 + i[2] % 16;
                   });
  }
}

TEST(KernelDumpLayout, LargeTensorsAreCopiedAsSmallOnes) {
  const Shape device = {9 * 64, 70, 16, 16};
  const Shape nchw = {1107, 1009, 3, 3};
  Check({format::kFractalZ, format::kNCHW, 1, &device, &nchw}, [](const Shape& i) {
    return (((i[1] / 16 * 3 + i[2]) * 3 + i[3]) * 70 * 16 + i[0]) * 16 + i[1] % 16;
  });
}

TEST(KernelDumpLayout, PlainOrdersAreTransposed) {
  const Shape device = {2, 3, 4, 5};
  const Shape nhwc = {2, 4, 5, 3};
  Check({format::kNCHW, format::kNHWC, 1, &device, &nhwc},
        [](const Shape& i) { return ((i[0] * 3 + i[3]) * 4 + i[1]) * 5 + i[2]; });
  const Shape chwn = {3, 4, 5, 2};
  Check({format::kNCHW, format::kCHWN, 1, &device, &chwn},
        [](const Shape& i) { return ((i[3] * 3 + i[0]) * 4 + i[1]) * 5 + i[2]; });
}

TEST(KernelDumpLayout, WhatHasNoRuleOrDoesNotFitIsRefused) {
  const auto message = [](uint32_t from, uint32_t to, const Shape& device, const Shape* target) {
    const Result<Layout> layout = FindLayout({from, to, 1, &device, target});
    return layout.ok() ? std::string("converted") : std::string(layout.status().message());
  };
  const Shape five = {1, 2, 3, 4, 16};
  const Shape target = {1, 33, 3, 4};
  const Shape four = {1, 2, 3, 4};
  EXPECT_EQ(message(format::kNC1HWC0, format::kND, five, nullptr),
            "Not supported from NC1HWC0 to ND");
  EXPECT_EQ(message(format::kNCHW, format::kFractalZ, four, nullptr),
            "Not supported from NCHW to FRACTAL_Z");
  EXPECT_THAT(message(format::kNC1HWC0, format::kNCHW, five, &target),
              HasSubstr("axis C has 32 of 33"));
  EXPECT_THAT(message(format::kNC1HWC0, format::kNCHW, four, nullptr), HasSubstr("5 axes"));
  EXPECT_THAT(message(format::kFractalZ, format::kNCHW, four, nullptr), HasSubstr("is needed"));
  const Shape odd = {7, 1, 16, 16};
  const Shape window = {1, 1, 2, 2};
  EXPECT_THAT(message(format::kFractalZ, format::kNCHW, odd, &window),
              HasSubstr("not a multiple of 4"));
  const Shape empty_window = {1, 1, 0, 2};
  EXPECT_THAT(message(format::kFractalZ, format::kNCHW, odd, &empty_window),
              HasSubstr("not a multiple"));
  const Shape many = {3, 1, 1, 16, 16};
  const Shape few = {2, 16, 16};
  EXPECT_THAT(message(format::kFractalNZ, format::kND, many, &few), HasSubstr("3 matrices, not 2"));
  // A weight with groups has at least as many elements on the device as in plain rows.
  const Shape small = {1, 1, 16, 16};
  const Shape grouped = {2, int64_t{1} << 29, 1, 1};
  const Result<Layout> too_many =
      FindLayout({format::kFractalZ, format::kNCHW, 2, &small, &grouped});
  ASSERT_FALSE(too_many.ok());
  EXPECT_THAT(too_many.status().message(), HasSubstr("256 elements cannot hold 1073741824"));
  const Shape huge = {INT64_MAX, INT64_MAX, 1, 1, 16};
  EXPECT_NE(message(format::kNC1HWC0, format::kNCHW, huge, nullptr), "converted");
}

TEST(KernelDumpLayout, FormatsAreFoundByNameAndVariant) {
  EXPECT_EQ(FindFormat("nchw"), format::kNCHW);
  EXPECT_EQ(FindFormat("FRACTAL_NZ_C0_16"), format::kFractalNZ);
  EXPECT_EQ(FindFormat("NC1HWC0_C04"), format::kNC1HWC0C04);
  EXPECT_EQ(FindFormat("nothing"), std::nullopt);
  EXPECT_EQ(FormatName(77), "format 77");
}

}  // namespace
}  // namespace msprobe::io::kernel_dump
