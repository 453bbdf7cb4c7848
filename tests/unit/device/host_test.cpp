#include <cstring>

#include "tests/unit/device/fake_fixture.h"

namespace msprobe::device {
namespace {

TEST(HostRuntime, CopiesLikeADevice) {
  const Registry registry(Loading::kOnlyIfLoaded);
  Runtime& host = registry.Get(Kind::kHost);
  ASSERT_TRUE(host.Ready().ok());
  const std::vector<std::byte> source = msprobe::test_support::AllBytes(1000, 9);
  Result<HostBuffer> target = host.AllocateHost(0, source.size());
  ASSERT_TRUE(target.ok());
  auto copy = host.CopyToHost({0, source.data(), source.size(), target->data()});
  ASSERT_TRUE(copy.ok());
  EXPECT_TRUE(*(*copy)->Done());
  EXPECT_TRUE((*copy)->Wait().ok());
  EXPECT_EQ(std::memcmp(target->data(), source.data(), source.size()), 0);
  EXPECT_TRUE(host.Synchronize(0).ok());
}

TEST(HostRuntime, SaysWhatAHostDoesNotHave) {
  const Registry registry(Loading::kOnlyIfLoaded);
  Runtime& host = registry.Get(Kind::kHost);
  EXPECT_EQ(host.Overflowed(0, nullptr).status().code(), StatusCode::kUnsupported);
  EXPECT_EQ(host.ResetOverflow(0, nullptr).code(), StatusCode::kUnsupported);
  EXPECT_EQ(host.GetKernelDump().status().code(), StatusCode::kUnsupported);
  EXPECT_EQ(*host.GetOverflowMode(0), OverflowMode::kInfNan);
  EXPECT_TRUE(host.SetOverflowMode(0, OverflowMode::kInfNan).ok());
  EXPECT_EQ(host.SetOverflowMode(0, OverflowMode::kSaturation).code(), StatusCode::kUnsupported);
}

TEST(HostRuntime, KnowsItsMemory) {
  const Registry registry(Loading::kMayLoad);
  const Inventory inventory = registry.Get(Kind::kHost).Describe();
  EXPECT_TRUE(inventory.status.ok());
  ASSERT_EQ(inventory.devices.size(), 1);
  EXPECT_GT(inventory.devices[0].total_bytes, 0);
  EXPECT_LE(inventory.devices[0].free_bytes, inventory.devices[0].total_bytes);
}

TEST(HostRuntime, RefusesABufferBeyondAllMemory) {
#ifdef MSPROBE_SANITIZED
  GTEST_SKIP() << "sanitizers end a program that asks for so much";
#endif
  const Registry registry(Loading::kMayLoad);
  const auto buffer = registry.Get(Kind::kHost).AllocateHost(0, size_t{1} << 60U);
  EXPECT_EQ(buffer.status().code(), StatusCode::kDevice);
}

TEST(Registry, HasEveryKindAndNamesIt) {
  const Registry registry(Loading::kOnlyIfLoaded);
  for (const Kind kind : {Kind::kHost, Kind::kAcl, Kind::kCuda}) {
    EXPECT_EQ(registry.Get(kind).kind(), kind);
  }
  EXPECT_EQ(registry.all().size(), 3);
  EXPECT_EQ(KindName(Kind::kAcl), "acl");
  EXPECT_EQ(&Registry::OfThisProcess(), &Registry::OfThisProcess());
}

}  // namespace
}  // namespace msprobe::device
