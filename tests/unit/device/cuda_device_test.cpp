#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "tests/unit/device/fake_fixture.h"

namespace msprobe::device {
namespace {

using test_support::FakeVendor;
using test_support::Variable;
using ::testing::HasSubstr;

class CudaDevices : public FakeVendor {
 protected:
  device::Runtime& cuda() { return Runtime(Kind::kCuda); }

 private:
  Variable library_{"MSPROBE_CUDA_LIB", FAKE_CUDA};
};

TEST_F(CudaDevices, AreDescribed) {
  const Inventory inventory = cuda().Describe();
  ASSERT_TRUE(inventory.status.ok()) << inventory.status.message();
  EXPECT_EQ(inventory.library, FAKE_CUDA);
  EXPECT_EQ(inventory.version, "CUDA 12.4");
  EXPECT_TRUE(inventory.limitations.empty());
  ASSERT_EQ(inventory.devices.size(), 2);
  EXPECT_EQ(inventory.devices[1].index, 1);
  EXPECT_EQ(inventory.devices[1].name, "Fake GPU");
  EXPECT_EQ(inventory.devices[1].total_bytes, uint64_t{24} << 30U);
  EXPECT_EQ(inventory.devices[1].free_bytes, uint64_t{20} << 30U);
  EXPECT_EQ(inventory.devices[1].trouble, "");
}

TEST_F(CudaDevices, ThatCannotBeUsedSayWhy) {
  const Variable failure("FAKE_CUDA_FAIL", "cuDevicePrimaryCtxRetain:2");
  const Inventory inventory = cuda().Describe();
  ASSERT_EQ(inventory.devices.size(), 2);
  EXPECT_EQ(inventory.devices[0].name, "Fake GPU");
  EXPECT_THAT(inventory.devices[0].trouble,
              HasSubstr("cuDevicePrimaryCtxRetain failed with 2 (CUDA_ERROR_UNKNOWN)"));
}

TEST_F(CudaDevices, AreNoneWhenTheDriverFindsNone) {
  const Variable count("FAKE_DEVICES", "0");
  const Status status = cuda().Ready();
  EXPECT_EQ(status.code(), StatusCode::kDevice);
  EXPECT_THAT(status.message(),
              HasSubstr("cuInit failed with 100 (CUDA_ERROR_NO_DEVICE): no CUDA"));
  EXPECT_FALSE(cuda().Describe().status.ok());
  EXPECT_TRUE(cuda().Describe().devices.empty());
}

TEST_F(CudaDevices, GiveTheContextsOfAThreadBackAsTheyWere) {
  ASSERT_TRUE(cuda().Synchronize(0).ok());
  ASSERT_TRUE(cuda().Synchronize(1).ok());
  const std::vector<std::string> calls = fake::Calls();
  EXPECT_EQ(std::count(calls.begin(), calls.end(), "cuCtxPushCurrent_v2"), 2);
  EXPECT_EQ(std::count(calls.begin(), calls.end(), "cuCtxPopCurrent_v2"), 2);
}

TEST_F(CudaDevices, ReleaseEachContextTheyRetained) {
  ASSERT_TRUE(cuda().Synchronize(0).ok());
  ASSERT_TRUE(cuda().Synchronize(0).ok());
  DropRegistry();
  EXPECT_EQ(fake::CallCount("cuDevicePrimaryCtxRetain"), 1);
  EXPECT_EQ(fake::CallCount("cuDevicePrimaryCtxRelease_v2"), 1);
}

TEST_F(CudaDevices, HaveNoOverflowStatusAndNoKernelDump) {
  EXPECT_EQ(cuda().Overflowed(0, nullptr).status().code(), StatusCode::kUnsupported);
  EXPECT_EQ(cuda().ResetOverflow(0, nullptr).code(), StatusCode::kUnsupported);
  EXPECT_EQ(cuda().GetKernelDump().status().code(), StatusCode::kUnsupported);
  EXPECT_EQ(*cuda().GetOverflowMode(0), OverflowMode::kInfNan);
  EXPECT_TRUE(cuda().SetOverflowMode(0, OverflowMode::kInfNan).ok());
  EXPECT_EQ(cuda().SetOverflowMode(0, OverflowMode::kSaturation).code(), StatusCode::kUnsupported);
}

// A tensor of float32 numbers 0, 1, 2, ... in memory, and what its kernel is asked.
class CudaStatisticsTest : public CudaDevices {
 protected:
  CudaStatisticsTest() {
    std::vector<float> numbers(values_.size() / sizeof(float));
    std::iota(numbers.begin(), numbers.end(), 0.0F);
    std::memcpy(fake::Inside(values_.address(), values_.size()), numbers.data(), values_.size());
  }

  Status Queue(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides,
               size_t first = 0, DType dtype = DType::kFloat32) {
    StatisticsRequest request;
    request.source = static_cast<const float*>(values_.address()) + first;
    request.dtype = dtype;
    request.shape = shape;
    request.strides = strides;
    request.row = static_cast<double*>(const_cast<void*>(row_.address()));
    request.scratch = const_cast<void*>(scratch_.address());
    return cuda().QueueStatistics(request);
  }

  std::vector<double> Row() {
    EXPECT_TRUE(cuda().Synchronize(0).ok());
    std::vector<double> row(4);
    std::memcpy(row.data(), fake::Inside(row_.address(), row_.size()), row_.size());
    return row;
  }

 private:
  test_support::DeviceBytes values_{size_t{6000} * sizeof(float), 0};
  test_support::DeviceBytes row_{4 * sizeof(double), 0};
  test_support::DeviceBytes scratch_{kStatisticsScratchBytes, 0};
};

TEST_F(CudaStatisticsTest, AreOfAllElements) {
  ASSERT_TRUE(Queue({2, 3}, {}).ok());
  EXPECT_THAT(Row(), ::testing::ElementsAre(5, 0, 2.5, ::testing::DoubleEq(std::sqrt(55.0))));
}

TEST_F(CudaStatisticsTest, FollowTheStridesOfViews) {
  ASSERT_TRUE(Queue({3, 2}, {1, 3}).ok());  // transposed: the same six
  EXPECT_THAT(Row(), ::testing::ElementsAre(5, 0, 2.5, ::testing::DoubleEq(std::sqrt(55.0))));
  ASSERT_TRUE(Queue({2, 2}, {10, 2}, 1).ok());  // 1, 3, 11, 13
  EXPECT_THAT(Row(), ::testing::ElementsAre(13, 1, 7, ::testing::DoubleEq(std::sqrt(300.0))));
  ASSERT_TRUE(Queue({4, 1, 2}, {0, 77, 5}).ok());  // 0 and 5, four times each
  EXPECT_THAT(Row(), ::testing::ElementsAre(5, 0, 2.5, 10));
  ASSERT_TRUE(Queue({1, 1}, {9, 9}, 7).ok());
  EXPECT_THAT(Row(), ::testing::ElementsAre(7, 7, 7, 7));
  ASSERT_TRUE(Queue({}, {}, 8).ok());
  EXPECT_THAT(Row(), ::testing::ElementsAre(8, 8, 8, 8));
  ASSERT_TRUE(Queue({2, 4}, {8, 1}, 4).ok());  // 4 to 7 and 12 to 15: in vectors
  EXPECT_THAT(Row(), ::testing::ElementsAre(15, 4, 9.5, ::testing::_));
  ASSERT_TRUE(Queue({2, 4}, {8, 1}, 5).ok());  // not aligned
  EXPECT_THAT(Row(), ::testing::ElementsAre(16, 5, 10.5, ::testing::_));
  // Attention's heads of a part of a packed projection: what is left is rows of 6 in rows of 18.
  ASSERT_TRUE(Queue({2, 3, 2, 2}, {36, 2, 18, 1}).ok());
  EXPECT_THAT(Row(), ::testing::ElementsAre(59, 0, 29.5, ::testing::_));
}

TEST_F(CudaStatisticsTest, LoadTheirKernelOnce) {
  ASSERT_TRUE(Queue({6000}, {}).ok());
  ASSERT_TRUE(Queue({6000}, {}).ok());
  EXPECT_EQ(Row()[0], 5999);
  EXPECT_EQ(fake::CallCount("cuModuleLoadData"), 1);
  EXPECT_EQ(fake::CallCount("cuLaunchKernel"), 2);
}

TEST_F(CudaStatisticsTest, AreLeftToOthersWhereThereIsNoKernel) {
  EXPECT_EQ(Queue({2}, {}, 0, DType::kComplex64).code(), StatusCode::kUnsupported);
  const std::vector<int64_t> in_pieces = {1 << 13, 1 << 11, 1 << 9, 1 << 7, 1 << 5, 1 << 3, 2};
  EXPECT_EQ(Queue({2, 2, 2, 2, 2, 2, 2}, in_pieces).code(), StatusCode::kUnsupported);
  const std::vector<std::pair<std::vector<int64_t>, std::vector<int64_t>>> of_no_tensor = {
      {{0, 3}, {}},           {{-1}, {}},   {{2}, {-1}}, {{int64_t{1} << 62, 8}, {}},
      {{2}, {INT64_MAX - 1}}, {{2, 2}, {1}}};
  for (const auto& [shape, strides] : of_no_tensor) {
    EXPECT_EQ(Queue(shape, strides).code(), StatusCode::kUsage) << testing::PrintToString(shape);
  }
  EXPECT_EQ(fake::CallCount("cuLaunchKernel"), 0);
}

TEST_F(CudaStatisticsTest, OfADriverThatCannotReadThem) {
  const Variable failure("FAKE_CUDA_FAIL", "cuModuleLoadData:222");
  const Status queued = Queue({2}, {});
  EXPECT_EQ(queued.code(), StatusCode::kUnsupported);
  EXPECT_THAT(queued.message(), HasSubstr("cuModuleLoadData failed with 222"));
  EXPECT_EQ(Queue({2}, {}).code(), StatusCode::kUnsupported);
  EXPECT_EQ(fake::CallCount("cuModuleLoadData"), 1);
}

}  // namespace
}  // namespace msprobe::device
