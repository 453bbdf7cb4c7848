#include <algorithm>

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

}  // namespace
}  // namespace msprobe::device
