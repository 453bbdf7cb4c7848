#include <algorithm>
#include <thread>

#include "tests/unit/device/fake_fixture.h"

namespace msprobe::device {
namespace {

using test_support::FakeVendor;
using test_support::Variable;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class AclDevices : public FakeVendor {
 protected:
  device::Runtime& acl() { return Runtime(Kind::kAcl); }

 private:
  Variable library_{"MSPROBE_ACL_LIB", FAKE_ACL};
};

TEST_F(AclDevices, AreDescribed) {
  const Inventory inventory = acl().Describe();
  ASSERT_TRUE(inventory.status.ok()) << inventory.status.message();
  EXPECT_EQ(inventory.library, FAKE_ACL);
  EXPECT_EQ(inventory.version, "AscendCL 1.17.0");
  EXPECT_TRUE(inventory.limitations.empty());
  ASSERT_EQ(inventory.devices.size(), 2);
  EXPECT_EQ(inventory.devices[1].index, 1);
  EXPECT_EQ(inventory.devices[1].name, "Ascend910B3");
  EXPECT_EQ(inventory.devices[1].total_bytes, uint64_t{64} << 30U);
  EXPECT_EQ(inventory.devices[1].free_bytes, uint64_t{60} << 30U);
  EXPECT_EQ(inventory.devices[1].trouble, "");
}

TEST_F(AclDevices, ThatAreLostSaySo) {
  ASSERT_TRUE(acl().Ready().ok());
  fake::LoseDevices();
  const Inventory inventory = acl().Describe();
  ASSERT_EQ(inventory.devices.size(), 2);
  EXPECT_THAT(inventory.devices[0].trouble, HasSubstr("abnormal"));
}

TEST_F(AclDevices, ThatCannotBeUsedSayWhy) {
  const Variable failure("FAKE_ACL_FAIL", "aclrtSetDevice:507033");
  const Inventory inventory = acl().Describe();
  ASSERT_EQ(inventory.devices.size(), 2);
  EXPECT_THAT(inventory.devices[0].trouble,
              HasSubstr("aclrtSetDevice failed with 507033 (a failure inside the runtime"));
}

TEST_F(AclDevices, TellFunctionNumberNameAndWhatTheRuntimeSaid) {
  ASSERT_TRUE(acl().Ready().ok());
  const Variable failure("FAKE_ACL_FAIL", "aclrtMallocHost:200000");
  EXPECT_THAT(acl().AllocateHost(0, 64).status().message(),
              HasSubstr("aclrtMallocHost failed with 200000 (out of memory): E200000: "
                        "aclrtMallocHost  injected"));
}

TEST_F(AclDevices, AreNoneWhenTheRuntimeFindsNone) {
  const Variable count("FAKE_DEVICES", "0");
  const Status status = acl().Ready();
  EXPECT_EQ(status.code(), StatusCode::kDevice);
  EXPECT_THAT(status.message(), HasSubstr("no Ascend device"));
  EXPECT_THAT(status.hint(), HasSubstr("ASCEND_RT_VISIBLE_DEVICES"));
}

TEST_F(AclDevices, AreNotReadyWhenTheRuntimeDoesNotInitialise) {
  {
    const Variable failure("FAKE_ACL_FAIL", "aclInit:500000");
    EXPECT_THAT(acl().Ready().message(), HasSubstr("aclInit failed with 500000 (internal error)"));
  }
  EXPECT_TRUE(acl().Ready().ok());  // tried again
}

TEST_F(AclDevices, AreInitialisedOnceAndFinalisedByWhoDidIt) {
  ASSERT_TRUE(acl().Ready().ok());
  ASSERT_TRUE(acl().Ready().ok());
  EXPECT_EQ(fake::CallCount("aclInit"), 1);
  {
    const Registry second(Loading::kMayLoad);  // finds the runtime initialised
    ASSERT_TRUE(second.Get(Kind::kAcl).Ready().ok());
  }
  EXPECT_EQ(fake::CallCount("aclInit"), 2);
  EXPECT_EQ(fake::CallCount("aclFinalize"), 0);
  DropRegistry();
  EXPECT_EQ(fake::CallCount("aclFinalize"), 1);
}

TEST_F(AclDevices, OfAFrameworkAreNeverFinalised) {
  {
    const Registry registry(Loading::kOnlyIfLoaded);
    ASSERT_TRUE(registry.Get(Kind::kAcl).Synchronize(0).ok());
  }
  EXPECT_THAT(fake::Calls(), Contains("aclInit"));
  EXPECT_THAT(fake::Calls(), Not(Contains("aclFinalize")));
}

TEST_F(AclDevices, KeepTheContextOfAThreadThatHasOne) {
  std::thread([&] {
    ASSERT_TRUE(acl().Synchronize(1).ok());
    fake::current_device = 1;
    ASSERT_TRUE(acl().Synchronize(1).ok());
    EXPECT_EQ(fake::CallCount("aclrtSetDevice"), 1);
    ASSERT_TRUE(acl().Synchronize(0).ok());
    EXPECT_EQ(fake::current_device, 1);
    EXPECT_EQ(fake::CallCount("aclrtSetDevice"), 2);
  }).join();
}

TEST_F(AclDevices, TellWhetherAResultOverflowed) {
  EXPECT_FALSE(*acl().Overflowed(0, nullptr));
  fake::SetOverflow(true);
  EXPECT_TRUE(*acl().Overflowed(0, nullptr));
  EXPECT_TRUE(acl().ResetOverflow(0, nullptr).ok());
  EXPECT_FALSE(*acl().Overflowed(0, nullptr));
}

TEST_F(AclDevices, GiveBackTheMemoryOfAnOverflowStatusThatCannotBeRead) {
  for (const char* step : {"aclrtMallocHost", "aclrtMalloc", "aclrtGetOverflowStatus",
                           "aclrtMemcpyAsync", "aclrtSynchronizeStream"}) {
    const Variable failure("FAKE_ACL_FAIL", std::string(step) + ":507011");
    EXPECT_THAT(acl().Overflowed(0, nullptr).status().message(), HasSubstr(step));
  }
  EXPECT_FALSE(*acl().Overflowed(0, nullptr));
  DropRegistry();
  EXPECT_EQ(fake::CallCount("aclrtFree"), 1);
}

TEST_F(AclDevices, HaveASaturationMode) {
  ASSERT_TRUE(acl().SetOverflowMode(0, OverflowMode::kSaturation).ok());
  EXPECT_EQ(*acl().GetOverflowMode(0), OverflowMode::kSaturation);
  ASSERT_TRUE(acl().SetOverflowMode(0, OverflowMode::kInfNan).ok());
  EXPECT_EQ(*acl().GetOverflowMode(0), OverflowMode::kInfNan);
  EXPECT_THAT(acl().SetOverflowMode(0, OverflowMode::kUndefined).message(),
              HasSubstr("aclrtSetDeviceSatMode failed with 100000 (invalid parameter)"));
}

class OlderCann : public FakeVendor {
 protected:
  device::Runtime& acl() { return Runtime(Kind::kAcl); }

 private:
  Variable library_{"MSPROBE_ACL_LIB", FAKE_ACL_OLD};
};

TEST_F(OlderCann, StillCopies) {
  const test_support::DeviceBytes source(256, 5);
  Result<HostBuffer> target = acl().AllocateHost(0, 256);
  ASSERT_TRUE(target.ok()) << target.status().message();
  auto copy = acl().CopyToHost({0, source.address(), 256, target->data()});
  ASSERT_TRUE(copy.ok()) << copy.status().message();
  EXPECT_TRUE((*copy)->Wait().ok());
  EXPECT_EQ(target->data()[255], std::byte{5});
}

TEST_F(OlderCann, NamesWhatItIsTooOldFor) {
  EXPECT_THAT(acl().Overflowed(0, nullptr).status().message(),
              AllOf(HasSubstr("lacks aclrtGetOverflowStatus, aclrtResetOverflowStatus"),
                    HasSubstr("no overflow status")));
  EXPECT_EQ(acl().ResetOverflow(0, nullptr).code(), StatusCode::kUnsupported);
  EXPECT_EQ(acl().GetOverflowMode(0).status().code(), StatusCode::kUnsupported);
  EXPECT_EQ(acl().SetOverflowMode(0, OverflowMode::kInfNan).code(), StatusCode::kUnsupported);
}

TEST_F(OlderCann, IsDescribedWithItsLimitations) {
  const Inventory inventory = acl().Describe();
  ASSERT_TRUE(inventory.status.ok()) << inventory.status.message();
  EXPECT_EQ(inventory.version, "");
  ASSERT_EQ(inventory.devices.size(), 2);
  EXPECT_EQ(inventory.devices[0].name, "Ascend910B3");
  EXPECT_EQ(inventory.devices[0].total_bytes, 0);
  EXPECT_EQ(inventory.devices[0].trouble, "");
  EXPECT_THAT(inventory.limitations, Contains("no saturation mode: the library lacks "
                                              "aclrtGetDeviceSatMode, aclrtSetDeviceSatMode"));
}

TEST(AclWithoutItsCore, IsNoDevice) {
  const Variable library("MSPROBE_ACL_LIB", FAKE_CUDA);  // any library that is none of CANN
  const Registry registry(Loading::kMayLoad);
  const Inventory inventory = registry.Get(Kind::kAcl).Describe();
  EXPECT_EQ(inventory.status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(inventory.status.message(), HasSubstr("lacks aclInit"));
  EXPECT_EQ(inventory.library, FAKE_CUDA);
}

TEST(AclWithoutALibrary, SaysWhereItWasLookedFor) {
  const Variable library("MSPROBE_ACL_LIB", "/nowhere/libascendcl.so");
  const Registry registry(Loading::kMayLoad);
  const Status status = registry.Get(Kind::kAcl).Ready();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("MSPROBE_ACL_LIB"));
  EXPECT_EQ(registry.Get(Kind::kAcl).AllocateHost(0, 1).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace msprobe::device
