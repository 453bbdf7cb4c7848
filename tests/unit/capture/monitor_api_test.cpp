// The monitor as hooks use it, through the C interface.
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "msprobe/monitor.h"

#include "tests/unit/capture/test_capture.h"
#include "tests/unit/support/child_process.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::capture {
namespace {

namespace fs = std::filesystem;
using test_support::Slurp;
using test_support::TemporaryFolder;
using ::testing::HasSubstr;
using ::testing::StrEq;

class TestMonitor {
 public:
  explicit TestMonitor(std::string_view overrides) {
    ::setenv("MONITOR_OUTPUT_DIR", (folder_ / "out").c_str(), 1);
    ::setenv("DYNAMIC_MONITOR", "", 1);
    EXPECT_EQ(msprobe_monitor_open(Text(""), Text(overrides), Text("pytorch"), &monitor_),
              MSPROBE_OK)
        << msprobe_last_error();
    int32_t state = -1;
    EXPECT_EQ(msprobe_monitor_begin(monitor_, 0, &state), MSPROBE_OK) << msprobe_last_error();
    EXPECT_EQ(state, MSPROBE_MONITOR_ON);
  }
  TestMonitor(const TestMonitor&) = delete;
  TestMonitor& operator=(const TestMonitor&) = delete;
  ~TestMonitor() { msprobe_monitor_close(monitor_); }

  msprobe_monitor* get() const { return monitor_; }
  uint32_t Slot(int32_t table, std::string_view name, std::string_view task) const {
    return msprobe_monitor_slot(monitor_, table, Text(name), Text(task));
  }
  int Measure(uint32_t slot, const msprobe_tensor* tensor, int32_t micro_step = 0) const {
    return msprobe_monitor_measure(monitor_, slot, MSPROBE_MONITOR_NO_INDEX, micro_step, tensor);
  }
  std::string Rows(int32_t table) const {
    const char* json = nullptr;
    EXPECT_EQ(msprobe_monitor_rows(monitor_, table, &json), MSPROBE_OK);
    return json;
  }
  std::string TableAfterStep(std::string_view name) const {
    EXPECT_EQ(msprobe_monitor_end_step(monitor_, nullptr), MSPROBE_OK) << msprobe_last_error();
    EXPECT_EQ(msprobe_monitor_flush(monitor_), MSPROBE_OK) << msprobe_last_error();
    return Slurp(fs::path(msprobe_monitor_output_folder(monitor_)) / name);
  }

 private:
  TemporaryFolder folder_;
  msprobe_monitor* monitor_ = nullptr;
};

TEST(MonitorInterface, MeasuresStridedTensorsAndNone) {
  const TestMonitor monitor(R"({"ops": ["max"]})");
  const std::vector<float> values = {1, 100, 2, 100};
  const std::vector<int64_t> strides = {2};
  msprobe_tensor tensor = FloatTensor(values.data(), {});
  const int64_t size = 2;
  tensor.shape = &size;
  tensor.strides = strides.data();
  tensor.dimensions = 1;
  const uint32_t input = monitor.Slot(MSPROBE_MONITOR_ACTV, "0:a.input", "actv");
  const uint32_t output = monitor.Slot(MSPROBE_MONITOR_ACTV, "0:a.output", "actv");
  EXPECT_EQ(monitor.Measure(input, &tensor), MSPROBE_OK) << msprobe_last_error();
  EXPECT_EQ(monitor.Measure(output, nullptr), MSPROBE_OK);
  EXPECT_EQ(monitor.TableAfterStep("actv_0-0.csv"),
            "vpp_stage,name,step,micro_step,max,shape,dtype\n"
            "0,a.input,0,0,2.0,[2],torch.float32\n0,a.output,0,0,nan,nan,nan\n");
}

TEST(MonitorInterface, KeepsShapeAndDTypeOfWhatHasNoValues) {
  const TestMonitor monitor(R"({"ops": ["max"]})");
  const std::vector<int64_t> shape = {2, 3};
  const uint32_t meta = monitor.Slot(MSPROBE_MONITOR_ACTV, "0:a.input", "actv");
  const uint32_t foreign = monitor.Slot(MSPROBE_MONITOR_ACTV, "0:a.output", "actv");
  msprobe_tensor tensor = FloatTensor(nullptr, shape);
  EXPECT_EQ(monitor.Measure(meta, &tensor), MSPROBE_OK);
  tensor.dtype = Text("torch.qint8");
  tensor.dtype_code = MSPROBE_DTYPE_UNKNOWN;
  EXPECT_EQ(monitor.Measure(foreign, &tensor), MSPROBE_OK);
  EXPECT_EQ(monitor.TableAfterStep("actv_0-0.csv"),
            "vpp_stage,name,step,micro_step,max,shape,dtype\n"
            "0,a.input,0,0,nan,\"[2, 3]\",torch.float32\n"
            "0,a.output,0,0,nan,\"[2, 3]\",torch.qint8\n");
}

TEST(MonitorInterface, TellsWhatIsWrongAndKeepsTheRow) {
  const TestMonitor monitor(R"({"ops": ["max"]})");
  const float value = 1;
  const std::vector<int64_t> shape = {2};
  msprobe_tensor tensor = FloatTensor(&value, shape);
  const int64_t stride = -1;
  tensor.strides = &stride;
  const uint32_t slot = monitor.Slot(MSPROBE_MONITOR_ACTV, "0:a.input", "actv");
  EXPECT_EQ(monitor.Measure(slot, &tensor), MSPROBE_ERROR_USAGE);
  EXPECT_THAT(msprobe_last_error(), HasSubstr("strides"));
  EXPECT_EQ(monitor.Measure(slot + 1, &tensor), MSPROBE_ERROR_USAGE);
  EXPECT_THAT(msprobe_last_error(), HasSubstr("no slot"));
  EXPECT_THAT(monitor.TableAfterStep("actv_0-0.csv"), HasSubstr("0,a.input,0,0,nan,[2]"));
  EXPECT_EQ(monitor.Slot(99, "a", "b"), 0U);
}

TEST(MonitorInterface, NamesWhatIsWatched) {
  const TestMonitor monitor(R"({"targets": {"layers.1": {}}, "xy_distribution": true})");
  const char* name = nullptr;
  EXPECT_EQ(msprobe_monitor_name_parameter(monitor.get(), 0, Text("layers.1.weight"), &name), 1);
  EXPECT_THAT(name, StrEq("0:1.weight"));
  EXPECT_EQ(msprobe_monitor_name_parameter(monitor.get(), 0, Text("layers.10.weight"), &name), 0);
  EXPECT_THAT(name, StrEq(""));
  EXPECT_EQ(msprobe_monitor_name_module(monitor.get(), 2, Text("layers.1"), &name), 1);
  EXPECT_THAT(name, StrEq("2:layers.1"));
}

TEST(MonitorInterface, CountsTheAgreementOfSigns) {
  const TestMonitor monitor(R"({"ops": ["id"]})");
  const std::vector<float> gradient = {1, -1, 1, 1};
  const std::vector<float> moment = {1, 1, 1, 0};
  const std::vector<int64_t> shape = {4};
  const msprobe_tensor a = FloatTensor(gradient.data(), shape);
  const msprobe_tensor b = FloatTensor(moment.data(), shape);
  EXPECT_EQ(msprobe_monitor_put_sign_agreement(
                monitor.get(), monitor.Slot(MSPROBE_MONITOR_OTHER, "0:w", "mg_direction"), &a, &b),
            MSPROBE_OK);
  EXPECT_EQ(monitor.Rows(MSPROBE_MONITOR_OTHER),
            R"([{"tag": "0:w/rank0/mg_direction", "id": 0.625, "shape": "[]", )"
            R"("dtype": "torch.float32"}])");
}

TEST(MonitorInterface, TakesFeaturesOfTheModulesThatAreNamed) {
  const TestMonitor monitor(R"({"recording_l2_features": true,
                                "l2_targets": {"moe_router_logit_hook": ["moe.router"]}})");
  const auto name = [&](int32_t table, std::string_view full_name) {
    const char* reported = nullptr;
    const int wanted =
        msprobe_monitor_name_feature_module(monitor.get(), table, 2, Text(full_name), &reported);
    EXPECT_THAT(reported, StrEq(wanted == 1 ? "2:moe.router" : ""));
    return wanted;
  };
  EXPECT_EQ(name(MSPROBE_MONITOR_MOE_ROUTER_LOGIT_HOOK, "moe.router"), 1);
  EXPECT_EQ(name(MSPROBE_MONITOR_MOE_ROUTER_LOGIT_HOOK, "moe"), 0);
  EXPECT_EQ(name(MSPROBE_MONITOR_LINEAR_HOOK, "moe.router"), 0);
  EXPECT_EQ(name(MSPROBE_MONITOR_ACTV, "moe.router"), 0);
  EXPECT_EQ(name(-1, "moe.router"), 0);
  const uint32_t slot =
      monitor.Slot(MSPROBE_MONITOR_MOE_ROUTER_LOGIT_HOOK, "2:moe.router", "moe_router_logit_hook");
  const double number = 0.75;
  EXPECT_EQ(msprobe_monitor_put_features(monitor.get(), slot, 0, &number, 1), MSPROBE_OK);
  EXPECT_NE(msprobe_monitor_put_features(monitor.get(), slot, 0, nullptr, 1), MSPROBE_OK);
  EXPECT_NE(msprobe_monitor_put_features(monitor.get(), 77, 0, &number, 1), MSPROBE_OK);
  EXPECT_EQ(monitor.TableAfterStep("moe_router_logit_hook_0-0.csv"),
            "vpp_stage,name,step,micro_step,per_token_expert_entropy\n2,moe.router,0,0,0.75\n");
}

TEST(MonitorInterface, DropsWhatIsMeasuredInAStepThatIsOff) {
  const TestMonitor monitor(R"({"step_interval": 2})");
  int32_t state = -1;
  EXPECT_EQ(msprobe_monitor_end_step(monitor.get(), &state), MSPROBE_OK);
  EXPECT_EQ(state, MSPROBE_MONITOR_OFF);
  EXPECT_EQ(monitor.Measure(monitor.Slot(MSPROBE_MONITOR_ACTV, "0:a.input", "actv"), nullptr),
            MSPROBE_OK);
  EXPECT_EQ(monitor.Rows(MSPROBE_MONITOR_ACTV), "[]");
}

TEST(MonitorInterface, DoesNothingInAForkedChild) {
  const TestMonitor monitor(R"({"ops": ["max"]})");
  const uint32_t slot = monitor.Slot(MSPROBE_MONITOR_ACTV, "0:a.input", "actv");
  const test_support::ChildEnd child = test_support::RunInChild([&] {
    msprobe_monitor_after_fork(monitor.get());
    int32_t state = -1;
    const bool quiet = monitor.Measure(slot, nullptr) == MSPROBE_OK &&
                       msprobe_monitor_end_step(monitor.get(), &state) == MSPROBE_OK &&
                       state == MSPROBE_MONITOR_OFF;
    msprobe_monitor_close(monitor.get());
    return quiet ? 0 : 1;
  });
  EXPECT_EQ(child.exit_code, 0);
  EXPECT_EQ(monitor.Measure(slot, nullptr), MSPROBE_OK);
  EXPECT_THAT(monitor.TableAfterStep("actv_0-0.csv"), HasSubstr("a.input"));
}

TEST(MonitorInterface, SelectsCallsByTheirStacks) {
  const TestMonitor monitor(
      R"({"cc_distribution": {"enable": true, "cc_codeline": ["(a+)+$", "chosen"]}})");
  EXPECT_EQ(msprobe_monitor_selects_stack(monitor.get(), Text("line 1;chosen")), 1);
  EXPECT_EQ(msprobe_monitor_selects_stack(monitor.get(), Text("line 1;other")), 0);
  // The first expression is given up, the second one goes on.
  const std::string long_one = std::string(3000, 'a') + "!";
  EXPECT_EQ(msprobe_monitor_selects_stack(monitor.get(), Text(long_one)), 0);
  EXPECT_EQ(msprobe_monitor_selects_stack(monitor.get(), Text("aa")), 0);
  EXPECT_EQ(msprobe_monitor_selects_stack(monitor.get(), Text("chosen")), 1);

  const TestMonitor without("{}");
  EXPECT_EQ(msprobe_monitor_selects_stack(without.get(), Text("any")), 1);
  EXPECT_EQ(msprobe_monitor_selects_stack(nullptr, Text("any")), 0);
}

TEST(MonitorInterface, ClosesQuietlyInAChildThatWasNotToldOfTheFork) {
  const TestMonitor monitor("{}");
  const test_support::ChildEnd child = test_support::RunInChild([&] {
    msprobe_monitor_close(monitor.get());
    return 0;
  });
  EXPECT_EQ(child.exit_code, 0);
}

TEST(MonitorInterface, NeedsAMonitor) {
  EXPECT_EQ(msprobe_monitor_begin(nullptr, 0, nullptr), MSPROBE_ERROR_USAGE);
  EXPECT_EQ(msprobe_monitor_measure(nullptr, 1, 0, 0, nullptr), MSPROBE_ERROR_USAGE);
  EXPECT_THAT(msprobe_monitor_settings(nullptr), StrEq("{}"));
  EXPECT_THAT(msprobe_monitor_output_folder(nullptr), StrEq(""));
  msprobe_monitor_close(nullptr);
  msprobe_monitor* monitor = nullptr;
  EXPECT_EQ(msprobe_monitor_open(Text(""), Text(R"({"ndigits": -1})"), Text("pytorch"), &monitor),
            MSPROBE_ERROR_USAGE);
  EXPECT_EQ(monitor, nullptr);
  EXPECT_THAT(msprobe_last_error(), HasSubstr("ndigits"));
}

}  // namespace
}  // namespace msprobe::capture
