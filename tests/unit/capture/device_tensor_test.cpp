// Device tensors and kernel dumps through the C interface, over the fake library of a vendor.
//
// The devices of a process are opened once and kept. So each test runs in a child process, which
// also lets the program as a whole start every test with a fresh machine.
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "msprobe/capture.h"
#include "msprobe/monitor.h"

#include "tests/unit/capture/test_capture.h"
#include "tests/unit/device/fake_fixture.h"
#include "tests/unit/support/child_process.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::capture {
namespace {

namespace fs = std::filesystem;
using test_support::TemporaryFolder;
using test_support::Variable;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

void InAProcessWithDevices(const std::function<void()>& body) {
  fake::Reset();
  const Variable library("MSPROBE_ACL_LIB", FAKE_ACL);
  const test_support::ChildEnd child = test_support::RunInChild([&] {
    body();
    return ::testing::Test::HasFailure() ? 1 : 0;
  });
  EXPECT_EQ(child.exit_code, 0) << "signal " << child.signal;
}

// A float tensor in the memory of device 0, and what produces it.
class TensorOnDevice {
 public:
  TensorOnDevice(const std::vector<float>& values, std::vector<int64_t> shape)
      : count_(values.size()),
        shape_(std::move(shape)),
        memory_(fake::DeviceAllocate(values.size() * sizeof(float))) {
    Set(values);
  }
  TensorOnDevice(const TensorOnDevice&) = delete;
  TensorOnDevice& operator=(const TensorOnDevice&) = delete;
  ~TensorOnDevice() { fake::DeviceFree(memory_); }

  void Set(const std::vector<float>& values) {
    const size_t bytes = count_ * sizeof(float);
    std::memcpy(fake::Inside(memory_, bytes), values.data(), bytes);
  }
  msprobe_tensor description(fake::Stream* stream = nullptr) const {
    msprobe_tensor tensor = FloatTensor(static_cast<const float*>(memory_), shape_);
    tensor.device = MSPROBE_DEVICE_ACL;
    tensor.stream = stream;
    return tensor;
  }

 private:
  const size_t count_;
  const std::vector<int64_t> shape_;
  void* const memory_;
};

std::vector<float> SomeValues(size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = std::sin(static_cast<float>(i)) * 100;
  }
  return values;
}

void RecordOnHost(const fs::path& dump, std::string_view settings, std::vector<float> values,
                  const std::vector<int64_t>& shape) {
  TestCapture capture(dump, settings);
  capture.Start(0);
  EXPECT_EQ(capture.Record("Torch.add.0.forward", FloatTensor(values.data(), shape)), MSPROBE_OK);
  capture.Step();
}

void RecordOnDevice(const fs::path& dump, std::string_view settings,
                    const std::vector<float>& values, const std::vector<int64_t>& shape) {
  const TensorOnDevice tensor(values, shape);
  TestCapture capture(dump, settings);
  capture.Start(0);
  EXPECT_EQ(capture.Record("Torch.add.0.forward", tensor.description()), MSPROBE_OK)
      << msprobe_last_error();
  EXPECT_EQ(msprobe_device_wait(capture.get()), MSPROBE_OK);
  capture.Step();
}

void ExpectEqualDumps(const fs::path& host, const fs::path& device) {
  EXPECT_EQ(DataOf(device / "step0/rank0/dump.json"), DataOf(host / "step0/rank0/dump.json"));
  for (const fs::path& place : {host, device}) {
    const fs::path folder = place / "step0/rank0/dump_tensor_data";
    if (!fs::exists(folder)) {
      continue;
    }
    for (const fs::directory_entry& file : fs::directory_iterator(folder)) {
      const fs::path name = fs::path("step0/rank0/dump_tensor_data") / file.path().filename();
      EXPECT_EQ(test_support::Slurp(host / name), test_support::Slurp(device / name)) << name;
    }
  }
}

class DeviceTensors : public ::testing::TestWithParam<const char*> {};

TEST_P(DeviceTensors, AreRecordedAsIfTheyWereOnTheHost) {
  InAProcessWithDevices([] {
    const TemporaryFolder folder;
    RecordOnHost(folder / "host", GetParam(), SomeValues(6000), {20, 300});
    RecordOnDevice(folder / "device", GetParam(), SomeValues(6000), {20, 300});
    ExpectEqualDumps(folder / "host", folder / "device");
  });
}

TEST_P(DeviceTensors, WithInfinitiesAreToo) {
  InAProcessWithDevices([] {
    const TemporaryFolder folder;
    std::vector<float> values = SomeValues(100);
    values[50] = std::numeric_limits<float>::infinity();
    RecordOnHost(folder / "host", GetParam(), values, {100});
    RecordOnDevice(folder / "device", GetParam(), values, {100});
    ExpectEqualDumps(folder / "host", folder / "device");
  });
}

TEST_P(DeviceTensors, ThatAreViewsAreToo) {
  InAProcessWithDevices([] {
    const TemporaryFolder folder;
    const std::vector<float> values = SomeValues(600);
    const std::vector<int64_t> shape = {10, 7};
    const std::vector<int64_t> strides = {2, 25};  // a transposed view with gaps
    const TensorOnDevice on_device(values, shape);
    for (const char* place : {"host", "device"}) {
      msprobe_tensor tensor = place == std::string("host") ? FloatTensor(values.data(), shape)
                                                           : on_device.description();
      tensor.strides = strides.data();
      TestCapture capture(folder / place, GetParam());
      capture.Start(0);
      EXPECT_EQ(capture.Record("Torch.add.0.forward", tensor), MSPROBE_OK);
      capture.Step();
    }
    ExpectEqualDumps(folder / "host", folder / "device");
  });
}

INSTANTIATE_TEST_SUITE_P(Of, DeviceTensors,
                         ::testing::Values(R"("task": "statistics")",
                                           R"("task": "statistics", "summary_mode": "md5")",
                                           R"("task": "statistics", "summary_mode": "xor")",
                                           R"("task": "statistics", "extended_statistics": true)",
                                           R"("task": "tensor")", R"("task": "structure")",
                                           R"("task": "overflow_check", "overflow_nums": -1)",
                                           R"("task": "nan_check")"));

TEST(DeviceTensorsOfAStep, HoldWhatWasComputedAndNotWhatComesAfter) {
  InAProcessWithDevices([] {
    const TemporaryFolder folder;
    RecordOnHost(folder / "host", R"("task": "tensor")", std::vector<float>(50000, 2), {50000});
    TensorOnDevice tensor(std::vector<float>(50000, 1), {50000});
    fake::Gate kernel;
    fake::Stream* const stream = fake::NewStream();
    fake::Run(stream, [&] {
      kernel.Wait();
      tensor.Set(std::vector<float>(50000, 2));
    });
    TestCapture capture(folder / "device", R"("task": "tensor")");
    capture.Start(0);
    capture.Record("Torch.add.0.forward", tensor.description(stream));  // does not wait
    fake::Run(stream, [&] { tensor.Set(std::vector<float>(50000, 3)); });
    kernel.Open();
    capture.Step();
    ExpectEqualDumps(folder / "host", folder / "device");
    fake::Synchronize(stream);
  });
}

TEST(DeviceTensorsOfAStep, AreComparedWithAnEarlierDump) {
  InAProcessWithDevices([] {
    const TemporaryFolder folder;
    std::vector<float> values = SomeValues(100);
    RecordOnHost(folder / "base", R"("task": "statistics", "summary_mode": "md5")", values, {100});
    const std::string search =
        fmt::format(R"("task": "tensor", "summary_mode": "md5", "bench_path": "{}")",
                    (folder / "base").string());
    const char* const file = "step0/rank0/dump_tensor_data/Torch.add.0.forward.output.0.pt";
    RecordOnDevice(folder / "same", search, values, {100});
    EXPECT_FALSE(std::filesystem::exists(folder / "same" / file));
    values[7] += 1;
    RecordOnDevice(folder / "other", search, values, {100});
    EXPECT_TRUE(std::filesystem::exists(folder / "other" / file));
    EXPECT_THAT(DataOf(folder / "other/step0/rank0/dump.json"), HasSubstr("\"md5\""));
  });
}

TEST(DeviceTensorsOfAStep, MayBeMoreThanTheMemoryForCopies) {
  InAProcessWithDevices([] {
    const TemporaryFolder folder;
    const std::vector<float> values = SomeValues(1'000'000);
    const TensorOnDevice tensor(values, {1000, 1000});
    TestCapture capture(folder / "dump");
    capture.Start(0);
    for (int i = 0; i < 100; ++i) {
      capture.Record(fmt::format("Torch.add.{}.forward", i), tensor.description());
    }
    capture.Step();
    const std::string data = DataOf(folder / "dump/step0/rank0/dump.json");
    EXPECT_THAT(data, HasSubstr("Torch.add.99.forward"));
    EXPECT_EQ(data.find("null"), std::string::npos);
    EXPECT_EQ(capture.Totals().errors, 0U);
  });
}

TEST(DeviceTensorsOfAStep, ThatCannotBeCopiedAreDescribedWithoutValues) {
  InAProcessWithDevices([] {
    const TemporaryFolder folder;
    const TensorOnDevice tensor({1, 2, 3}, {3});
    TestCapture capture(folder / "dump", R"("task": "tensor")");
    capture.Start(0);
    {
      const Variable failure("FAKE_ACL_FAIL", "aclrtMemcpyAsync:507018");
      EXPECT_EQ(capture.Record("Torch.add.0.forward", tensor.description()), MSPROBE_ERROR_DEVICE);
      EXPECT_THAT(msprobe_last_error(), HasSubstr("aclrtMemcpyAsync failed with 507018"));
    }
    EXPECT_EQ(capture.Record("Torch.add.1.forward", tensor.description()), MSPROBE_OK);
    capture.Step();
    const std::string data = DataOf(folder / "dump/step0/rank0/dump.json");
    EXPECT_THAT(data, HasSubstr("\"Max\": null"));
    EXPECT_THAT(data, HasSubstr("\"Max\": 3.0"));
    EXPECT_THAT(test_support::Slurp(folder / "dump/step0/rank0/dump_error_info.log"),
                HasSubstr("aclrtMemcpyAsync failed with 507018"));
    const std::string manifest = test_support::Slurp(folder / "dump/step0/rank0/manifest.json");
    EXPECT_THAT(manifest, HasSubstr("\"complete\": false"));
    EXPECT_THAT(manifest, HasSubstr("\"lost_records\": 1,"));
  });
}

TEST(DeviceTensorsOfAStep, OfADeviceThatIsLostDoNotEndTheTraining) {
  InAProcessWithDevices([] {
    const TemporaryFolder folder;
    const TensorOnDevice tensor({1, 2, 3}, {3});
    TestCapture capture(folder / "dump", R"("task": "tensor")");
    capture.Start(0);
    fake::Gate reading;
    fake::SetCopyGate(&reading);
    EXPECT_EQ(capture.Record("Torch.add.0.forward", tensor.description()), MSPROBE_OK);
    fake::LoseDevices();
    reading.Open();
    EXPECT_EQ(capture.Record("Torch.add.1.forward", tensor.description()), MSPROBE_ERROR_DEVICE);
    (void)msprobe_device_wait(capture.get());
    (void)msprobe_capture_step(capture.get());
    EXPECT_THAT(DataOf(folder / "dump/step0/rank0/dump.json"), HasSubstr("Torch.add.1.forward"));
    EXPECT_GE(capture.Totals().errors, 1U);
    EXPECT_THAT(test_support::Slurp(folder / "dump/step0/rank0/manifest.json"),
                HasSubstr("\"complete\": false"));
    fake::SynchronizeAll();
  });
}

TEST(DeviceTensorsOfAStep, WithoutALibraryAreDescribedWithoutValues) {
  InAProcessWithDevices([] {
    const TemporaryFolder folder;
    const TensorOnDevice tensor({1, 2, 3}, {3});
    ::unsetenv("MSPROBE_ACL_LIB");
    TestCapture capture(folder / "dump");
    capture.Start(0);
    EXPECT_EQ(capture.Record("Torch.add.0.forward", tensor.description()), MSPROBE_ERROR_DEVICE);
    EXPECT_THAT(msprobe_last_error(), HasSubstr("libascendcl.so is not loaded in this process"));
    capture.Step();
    EXPECT_THAT(DataOf(folder / "dump/step0/rank0/dump.json"), HasSubstr("\"Max\": null"));
  });
}

TEST(DeviceTensorsOfAStep, AreLeftToTheParentOfAFork) {
  InAProcessWithDevices([] {
    const TemporaryFolder folder;
    const TensorOnDevice tensor({1, 2, 3}, {3});
    TestCapture capture(folder / "dump");
    capture.Start(0);
    capture.Record("Torch.add.0.forward", tensor.description());
    (void)msprobe_device_wait(capture.get());
    const test_support::ChildEnd child = test_support::RunInChild([&] {
      const size_t calls = fake::TotalCalls();
      msprobe_capture_after_fork(capture.get());
      (void)msprobe_device_wait(capture.get());
      capture.Record("Torch.add.1.forward", tensor.description());
      capture.Close();
      return fake::TotalCalls() == calls ? 0 : 1;
    });
    EXPECT_EQ(child.exit_code, 0) << "signal " << child.signal;
    capture.Step();
    EXPECT_THAT(DataOf(folder / "dump/step0/rank0/dump.json"), HasSubstr("\"Max\": 3.0"));
  });
}

// The largest number stands for infinity there.
TEST(DeviceTensorsOfAStep, AreKeptWhenTheHardwareSawAnOverflow) {
  InAProcessWithDevices([] {
    const TemporaryFolder folder;
    const TensorOnDevice tensor({1, 65504, 3}, {3});
    device::Runtime& runtime = device::Registry::OfThisProcess().Get(device::Kind::kAcl);
    ASSERT_TRUE(runtime.SetOverflowMode(0, device::OverflowMode::kSaturation).ok());
    TestCapture capture(folder / "dump", R"("task": "overflow_check", "overflow_nums": -1)");
    capture.Start(0);
    capture.Record("Torch.add.0.forward", tensor.description());
    fake::SetOverflow(true);
    capture.Record("Torch.add.1.forward", tensor.description());
    capture.Record("Torch.add.2.forward", tensor.description());
    ASSERT_TRUE(runtime.SetOverflowMode(0, device::OverflowMode::kInfNan).ok());
    fake::SetOverflow(true);  // means nothing in this mode
    capture.Record("Torch.add.3.forward", tensor.description());
    capture.Step();
    const std::string data = DataOf(folder / "dump/step0/rank0/dump.json");
    EXPECT_EQ(data.find("Torch.add.0"), std::string::npos);
    EXPECT_THAT(data, HasSubstr("Torch.add.1"));
    EXPECT_EQ(data.find("Torch.add.2"), std::string::npos);
    EXPECT_EQ(data.find("Torch.add.3"), std::string::npos);
    EXPECT_EQ(capture.Totals().errors, 0U);
  });
}

TEST(DeviceTensorsOfAStep, LeaveTheRuntimeOfTheFrameworkAlone) {
  InAProcessWithDevices([] {
    const TemporaryFolder folder;
    RecordOnDevice(folder / "dump", "", {1, 2, 3}, {3});
    EXPECT_EQ(fake::CallCount("aclFinalize"), 0U);
    EXPECT_EQ(fake::CallCount("aclrtSynchronizeDevice"), 0U);
    EXPECT_EQ(fake::CallCount("aclrtMemcpyAsync"), 1U);
  });
}

TEST(KernelDump, IsSwitchedOnWithAConfigurationInTheFolderOfTheStep) {
  InAProcessWithDevices([] {
    const TemporaryFolder folder;
    TestCapture capture(folder / "dump", R"("level": "L2", "task": "tensor", "list": ["linear"])");
    capture.Start(3);
    ASSERT_EQ(msprobe_kernel_dump_begin(capture.get()), MSPROBE_OK) << msprobe_last_error();
    ASSERT_EQ(msprobe_kernel_dump_end(capture.get()), MSPROBE_OK) << msprobe_last_error();
    capture.Step();
    EXPECT_THAT(test_support::Slurp(folder / "dump/step0/kernel_config_3.json"),
                HasSubstr("\"dump_path\": \"" + (folder / "dump/step0").string() + "\""));
    std::vector<std::string> calls = fake::Calls();
    std::erase_if(calls, [](const std::string& call) { return call.starts_with("aclrtGet"); });
    EXPECT_THAT(calls, ElementsAre("aclInit", "aclrtSetDevice", "aclmdlInitDump", "aclmdlSetDump",
                                   "aclrtSynchronizeDevice", "aclmdlFinalizeDump"));
  });
}

TEST(KernelDump, ThatTheRuntimeRefusesIsAnErrorWithItsWords) {
  InAProcessWithDevices([] {
    const TemporaryFolder folder;
    TestCapture capture(folder / "dump", R"("level": "L2", "task": "tensor", "list": ["linear"])");
    capture.Start(3);
    {
      const Variable failure("FAKE_ACL_FAIL", "aclmdlInitDump:100044");
      EXPECT_EQ(msprobe_kernel_dump_begin(capture.get()), MSPROBE_ERROR_DEVICE);
      EXPECT_THAT(msprobe_last_error(), HasSubstr("aclmdlInitDump failed with 100044"));
    }
    EXPECT_NE(msprobe_kernel_dump_end(capture.get()), MSPROBE_OK);
    EXPECT_EQ(msprobe_kernel_dump_begin(capture.get()), MSPROBE_OK);
    capture.Step();  // ends it
    EXPECT_EQ(fake::CallCount("aclmdlFinalizeDump"), 1U);
  });
}

TEST(DeviceTensor, IsCopiedForTheMonitorBehindTheWorkThatProducesIt) {
  InAProcessWithDevices([] {
    const TemporaryFolder folder;
    const Variable output("MONITOR_OUTPUT_DIR", (folder / "out").string());
    msprobe_monitor* monitor = nullptr;
    ASSERT_EQ(
        msprobe_monitor_open(Text(""), Text(R"({"ops": ["max"]})"), Text("pytorch"), &monitor),
        MSPROBE_OK);
    ASSERT_EQ(msprobe_monitor_begin(monitor, 0, nullptr), MSPROBE_OK);
    const TensorOnDevice tensor({1, 7, 3}, {3});
    const msprobe_tensor description = tensor.description();
    const uint32_t slot =
        msprobe_monitor_slot(monitor, MSPROBE_MONITOR_GRAD_REDUCED, Text("0:w"), Text("post_grad"));
    EXPECT_EQ(msprobe_monitor_measure(monitor, slot, -1, -1, &description), MSPROBE_OK)
        << msprobe_last_error();
    const char* rows = nullptr;
    ASSERT_EQ(msprobe_monitor_rows(monitor, MSPROBE_MONITOR_GRAD_REDUCED, &rows), MSPROBE_OK);
    EXPECT_THAT(rows, HasSubstr("\"max\": 7.0"));
    msprobe_monitor_close(monitor);
  });
}

TEST(DeviceTensor, IsReducedWhereItLiesByAKernel) {
  InAProcessWithDevices([] {
    const Variable library("MSPROBE_CUDA_LIB", FAKE_CUDA);
    const TensorOnDevice tensor({1, 7, -3, 5}, {2, 2});
    const test_support::DeviceBytes row(4 * sizeof(double), 0);
    const test_support::DeviceBytes scratch(MSPROBE_STATISTICS_SCRATCH_BYTES, 0);
    const auto reduce = [&](int device, uint32_t flags) {
      msprobe_tensor description = tensor.description();
      description.device = device;
      description.flags = flags;
      return msprobe_reduce_on_device(&description, const_cast<void*>(row.address()),
                                      const_cast<void*>(scratch.address()));
    };
    EXPECT_EQ(reduce(MSPROBE_DEVICE_CUDA, 0), MSPROBE_OK) << msprobe_last_error();
    fake::SynchronizeAll();
    std::vector<double> numbers(4);
    std::memcpy(numbers.data(), fake::Inside(row.address(), row.size()), row.size());
    EXPECT_THAT(numbers, ElementsAre(7, -3, 2.5, ::testing::DoubleEq(std::sqrt(84.0))));
    // Nobody has a kernel for these, and the caller is told so.
    EXPECT_EQ(reduce(MSPROBE_DEVICE_ACL, 0), MSPROBE_ERROR_DEVICE);
    EXPECT_THAT(msprobe_last_error(), HasSubstr("no kernel for statistics"));
    EXPECT_EQ(reduce(MSPROBE_DEVICE_CUDA, MSPROBE_TENSOR_NEGATED), MSPROBE_ERROR_DEVICE);
    EXPECT_EQ(msprobe_reduce_on_device(nullptr, nullptr, nullptr), MSPROBE_ERROR_USAGE);
  });
}

TEST(DeviceTensor, OfACallThatIsSentToACheckerArrivesWhole) {
  InAProcessWithDevices([] {
    const TemporaryFolder folder;
    const TemporaryFolder shared;
    const std::vector<float> values = {1, -2, 3.5F, 4};
    const TensorOnDevice tensor(values, {4});
    {
      TestCapture capture(
          folder / "dump",
          fmt::format(R"("task": "tensor", "online_run_ut": true, "nfs_path": "{}")",
                      shared.path().string()));
      ASSERT_EQ(capture.Start(0), MSPROBE_START_ON);
      EXPECT_EQ(capture.Record("Torch.abs.0.forward", tensor.description()), MSPROBE_OK)
          << msprobe_last_error();
      capture.Step();
    }
    int calls = 0;
    for (const auto& entry : fs::directory_iterator(shared.path())) {
      if (entry.path().extension() == ".call") {
        ++calls;
        const std::string bytes = test_support::Slurp(entry.path());
        const std::string_view wanted(reinterpret_cast<const char*>(values.data()), 16);
        EXPECT_TRUE(bytes.ends_with(wanted));
      }
    }
    EXPECT_EQ(calls, 1);
  });
}

}  // namespace
}  // namespace msprobe::capture
