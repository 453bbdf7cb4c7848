#include "src/kernels/element_pairs.h"

#include <cstring>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "src/tensor/tensor_buffer.h"

namespace msprobe::kernels {
namespace {

// 0, 1, 2, ... as float32, with room for a byte before the first.
struct Numbers {
  explicit Numbers(size_t count, size_t offset = 0) : bytes(offset + count * sizeof(float)) {
    std::vector<float> values(count);
    std::iota(values.begin(), values.end(), 0.0F);
    std::memcpy(bytes.data() + offset, values.data(), count * sizeof(float));
    view.shape = {static_cast<int64_t>(count)};
    view.strides = {1};
    view.data = bytes.data() + offset;
    view.extent_bytes = count * sizeof(float);
  }
  std::vector<std::byte> bytes;
  TensorView view;
};

TEST(NumberReader, GivesStoredNumbersWhereTheyLie) {
  const Numbers numbers(100);
  NumberReader<float> reader(numbers.view);
  EXPECT_EQ(static_cast<const void*>(reader.Read(7, 5).data()), numbers.bytes.data() + 28);
}

TEST(NumberReader, ReadsUnalignedAndTransposedTensorsAndOtherDtypes) {
  Numbers numbers(6, 1);
  NumberReader<float> unaligned(numbers.view);
  EXPECT_EQ(unaligned.Read(4, 1)[0], 4.0F);
  numbers.view.shape = {3, 2};
  numbers.view.strides = {1, 3};
  NumberReader<double> transposed(numbers.view);
  const std::span<const double> all = transposed.Read(0, 6);
  EXPECT_EQ(std::vector<double>(all.begin(), all.end()), (std::vector<double>{0, 3, 1, 4, 2, 5}));
}

TEST(NumberReader, ContinuesATensorByZeros) {
  const Numbers numbers(3);
  NumberReader<float> reader(numbers.view);
  EXPECT_EQ(reader.Read(0, 3)[2], 2.0F);
  const std::span<const float> last = reader.Read(2, 3);
  EXPECT_EQ(std::vector<float>(last.begin(), last.end()), (std::vector<float>{2, 0, 0}));
  EXPECT_EQ(reader.Read(9, 2)[1], 0.0F);
}

TEST(ForEachPair, VisitsAllElementsOfTensorsOfSeveralBlocks) {
  const size_t count = 2 * tensor::kCopyBlockElements + 13;
  const Numbers left(count);
  const Numbers right(count, 1);
  size_t next = 0;
  ForEachPair<double>(left.view, right.view, [&](double l, double r) {
    EXPECT_EQ(l, static_cast<double>(next));
    EXPECT_EQ(r, l);
    ++next;
  });
  EXPECT_EQ(next, count);
}

TEST(ForEachRun, EndsWhenTheUseSaysSo) {
  const Numbers numbers(2 * tensor::kCopyBlockElements);
  using Run = std::span<const float>;
  size_t runs = 0;
  ForEachRun<float>(numbers.view, numbers.view, [&](Run, Run, size_t) { return ++runs > 1; });
  EXPECT_EQ(runs, 1U);
}

TEST(ForEachByteRun, GivesRunsOfTheAskedLengthFromTheAskedElement) {
  const Numbers numbers(10);
  std::vector<std::byte> scratch[2];
  std::vector<size_t> firsts;
  size_t bytes = 0;
  using Bytes = std::span<const std::byte>;
  ForEachByteRun({numbers.view, scratch[0]}, {numbers.view, scratch[1]}, 1, 10, 4,
                 [&](Bytes l, Bytes r, size_t first) {
                   EXPECT_EQ(l.data(), r.data());
                   firsts.push_back(first);
                   bytes += l.size();
                 });
  EXPECT_EQ(firsts, (std::vector<size_t>{1, 5, 9}));
  EXPECT_EQ(bytes, 36U);
}

TEST(AsReals, GivesBothPartsInOrderAndConjugates) {
  Numbers numbers(8);
  numbers.view.dtype = DType::kComplex64;
  numbers.view.shape = {2, 2};
  numbers.view.strides = {1, 2};
  for (const bool conjugated : {false, true}) {
    numbers.view.conjugated = conjugated;
    std::vector<std::byte> scratch;
    NumberReader<double> reader(tensor::AsReals(numbers.view, scratch));
    const std::span<const double> all = reader.Read(0, 8);
    const double sign = conjugated ? -1 : 1;
    EXPECT_EQ(std::vector<double>(all.begin(), all.end()),
              (std::vector<double>{0, sign * 1, 4, sign * 5, 2, sign * 3, 6, sign * 7}));
  }
}

}  // namespace
}  // namespace msprobe::kernels
