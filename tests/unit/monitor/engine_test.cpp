// Steps from begin to end, and what they leave in files.
#include "src/monitor/engine.h"

#include <cstdlib>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/monitor/output_folder.h"
#include "tests/unit/support/child_process.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::monitor {
namespace {

namespace fs = std::filesystem;
using test_support::Slurp;
using test_support::Spill;
using test_support::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// A monitor whose output is a folder of the test.
class Watched {
 public:
  explicit Watched(std::string_view config) : Watched(config, false) {}
  Watched(std::string_view config, bool dynamic) {
    ::setenv("MONITOR_OUTPUT_DIR", (folder_ / "out").c_str(), 1);
    ::setenv("DYNAMIC_MONITOR", dynamic ? "True" : "", 1);
    Spill(config_path(), config);
    Result<std::unique_ptr<Engine>> engine = Engine::Open(config_path(), {}, "pytorch");
    EXPECT_TRUE(engine.ok()) << engine.status().message();
    engine_ = *std::move(engine);
  }

  Engine* operator->() const { return engine_.get(); }
  fs::path config_path() const { return folder_ / "monitor.json"; }
  fs::path root() const { return folder_ / "out"; }
  fs::path output() const { return engine_->output_folder(); }
  std::string Table(std::string_view name) const {
    EXPECT_TRUE(engine_->Flush().ok());
    return Slurp(output() / name);
  }

  State Begin(int64_t step = 0) const {
    const Result<Engine::Next> next = engine_->Begin(step);
    EXPECT_TRUE(next.ok()) << next.status().message();
    return next.ok() ? next->state : State::kOff;
  }
  State EndStep() const { return engine_->EndStep()->state; }
  void Put(uint32_t slot, float value, int32_t index = kNone, int32_t micro_step = kNone) const {
    TensorView view;
    view.shape = {1};
    view.strides = {1};
    view.data = reinterpret_cast<const std::byte*>(&value);
    view.extent_bytes = sizeof value;
    const std::array<int64_t, 1> shape = {1};
    EXPECT_TRUE(engine_
                    ->Put({slot, index, micro_step}, Measure(view, engine_->rules()), shape,
                          "torch.float32")
                    .ok());
  }
  // The steps of `count` that are watched.
  std::vector<int64_t> WatchedSteps(int64_t first, int64_t count) const {
    std::vector<int64_t> steps;
    State state = Begin(first);
    for (int64_t i = 0; i < count; ++i) {
      if (state == State::kOn) {
        steps.push_back(engine_->current_step());
      }
      state = EndStep();
    }
    return steps;
  }

 private:
  TemporaryFolder folder_;
  std::unique_ptr<Engine> engine_;
};

TEST(Monitor, WritesOneTablePerKindAndStep) {
  const Watched monitor(R"({"ops": ["norm"]})");
  EXPECT_EQ(monitor.Begin(), State::kOn);
  const uint32_t gradient = monitor->Slot(Table::kGradReduced, "0:weight", "post_grad");
  const uint32_t input = monitor->Slot(Table::kActv, "1:a.input", "actv");
  monitor.Put(gradient, 2.0F);
  monitor.Put(input, 3.0F, 1, 0);
  EXPECT_EQ(monitor.EndStep(), State::kOn);
  EXPECT_EQ(monitor.Table("grad_reduced_0-0.csv"),
            "vpp_stage,name,step,norm,shape,dtype\n0,weight,0,2.0,[1],torch.float32\n");
  EXPECT_EQ(monitor.Table("actv_0-0.csv"),
            "vpp_stage,name,step,micro_step,norm,shape,dtype\n"
            "1,a.input_1,0,0,3.0,[1],torch.float32\n");
}

TEST(Monitor, HasNoRowForWhatWasNotSeenInTheStep) {
  const Watched monitor(R"({"ops": ["norm"]})");
  monitor.Begin();
  const uint32_t slot = monitor->Slot(Table::kGradReduced, "0:weight", "post_grad");
  monitor.Put(slot, 2.0F);
  monitor.EndStep();
  monitor.EndStep();
  monitor.Put(slot, 4.0F);
  monitor.EndStep();
  EXPECT_TRUE(monitor->Flush().ok());
  EXPECT_FALSE(fs::exists(monitor.output() / "grad_reduced_1-1.csv"));
  EXPECT_THAT(monitor.Table("grad_reduced_2-2.csv"), HasSubstr("0,weight,2,4.0"));
}

TEST(Monitor, KeepsTheNewestValueAtThePlaceOfTheFirst) {
  const Watched monitor(R"({"ops": ["norm"]})");
  monitor.Begin();
  const uint32_t a = monitor->Slot(Table::kGradReduced, "0:a", "post_grad");
  const uint32_t b = monitor->Slot(Table::kGradReduced, "0:b", "post_grad");
  EXPECT_EQ(monitor->Slot(Table::kGradReduced, "0:a", "post_grad"), a);
  monitor.Put(a, 1.0F);
  monitor.Put(b, 2.0F);
  monitor.Put(a, 3.0F);
  monitor.EndStep();
  EXPECT_EQ(monitor.Table("grad_reduced_0-0.csv"),
            "vpp_stage,name,step,norm,shape,dtype\n0,a,0,3.0,[1],torch.float32\n"
            "0,b,0,2.0,[1],torch.float32\n");
}

TEST(Monitor, TypesTheColumnsOfEachModuleByThemselves) {
  const Watched monitor(R"({"ops": ["nans"]})");
  monitor.Begin();
  const uint32_t a = monitor->Slot(Table::kActv, "0:a.input", "actv");
  const uint32_t b_in = monitor->Slot(Table::kActv, "0:b.input", "actv");
  const uint32_t b_out = monitor->Slot(Table::kActv, "0:b.output", "actv");
  monitor.Put(b_in, 1.0F, kNone, 0);
  monitor.Put(a, 1.0F, kNone, 0);
  EXPECT_TRUE(monitor->Put({b_out, kNone, 0}, {}, {}, {}).ok());
  monitor.EndStep();
  // b ran first, and its missing output makes floats of its counts only.
  EXPECT_EQ(monitor.Table("actv_0-0.csv"),
            "vpp_stage,name,step,micro_step,nans,shape,dtype\n"
            "0,b.input,0,0,0.0,[1],torch.float32\n0,b.output,0,0,nan,nan,nan\n"
            "0,a.input,0,0,0,[1],torch.float32\n");
}

TEST(Monitor, WatchesFromTheStartStepInIntervals) {
  EXPECT_THAT(Watched(R"({"start_step": 4, "step_interval": 2})").WatchedSteps(3, 7),
              ElementsAre(4, 6, 8));
  EXPECT_THAT(Watched(R"({"steps": ["2-3", 6]})").WatchedSteps(0, 9), ElementsAre(2, 3, 6));
}

TEST(Monitor, EndsForGoodAfterItsTimes) {
  const Watched monitor(R"({"collect_times": 2})");
  EXPECT_THAT(monitor.WatchedSteps(0, 5), ElementsAre(0, 1));
  EXPECT_EQ(monitor.EndStep(), State::kFinished);
  EXPECT_THAT(Watched(R"({"collect_times": 0})").WatchedSteps(0, 3), ElementsAre(0));
}

TEST(Monitor, WatchesSelectedRanksOnly) {
  const Watched chosen(R"({"module_ranks": [1]})");
  EXPECT_TRUE(chosen->SetTopology({.is_distributed = true, .rank = 1, .world_size = 2}).ok());
  EXPECT_EQ(chosen.Begin(), State::kOn);
  const Watched other(R"({"module_ranks": [1]})");
  EXPECT_TRUE(other->SetTopology({.is_distributed = true, .rank = 0, .world_size = 2}).ok());
  EXPECT_EQ(other.Begin(), State::kOff);
  EXPECT_FALSE(fs::exists(other.root()));
  const Watched alone(R"({"module_ranks": [0]})");
  EXPECT_EQ(alone.Begin(), State::kOff);
}

TEST(Monitor, TellsItsPlaceBesideTheTables) {
  const Watched monitor("{}");
  RankTopology place{.is_distributed = true, .rank = 3, .world_size = 8, .pipeline_stage = 1};
  place.pipeline_ranks = {1, 3};
  place.tensor_ranks = {2, 3};
  EXPECT_TRUE(monitor->SetTopology(place).ok());
  const std::string json = Slurp(monitor.output() / "monitor.json");
  EXPECT_THAT(json, HasSubstr("\"rank\": 3"));
  EXPECT_THAT(json, HasSubstr("\"world_size\": 8"));
  EXPECT_THAT(json, HasSubstr("\"data_ranks\": null"));
  EXPECT_EQ(ParseOutputFolderName(monitor.output().filename().string())->rank, 3);
}

TEST(Monitor, MovesToTheFolderOfARankThatIsLearntLater) {
  const Watched monitor(R"({"ops": ["norm"]})");
  EXPECT_TRUE(monitor->SetTopology({}).ok());
  EXPECT_TRUE(monitor->SetTopology({.is_distributed = true, .rank = 5, .world_size = 8}).ok());
  EXPECT_EQ(std::distance(fs::directory_iterator(monitor.root()), {}), 1);
  EXPECT_EQ(ParseOutputFolderName(monitor.output().filename().string())->rank, 5);
}

TEST(Monitor, GivesTwoOfThemFoldersOfTheirOwn) {
  const Watched first("{}");
  EXPECT_TRUE(first->SetTopology({}).ok());
  const Result<std::unique_ptr<Engine>> second = Engine::Open({}, {}, "pytorch");
  ASSERT_TRUE(second.ok() && (*second)->SetTopology({}).ok());
  EXPECT_NE(first->output_folder(), (*second)->output_folder());
}

TEST(Monitor, GoesOnInAnEarlierFolder) {
  const Watched monitor(
      R"({"ops": ["norm"], "append_output": ["Dec03_21-34-40", "Dec03_21-34-41"]})");
  const RankTopology place{.is_distributed = true, .rank = 0, .world_size = 2};
  EXPECT_THAT(monitor->SetTopology(place).message(), HasSubstr("append_output"));
  fs::create_directories(monitor.root() / "Dec03_21-34-41-rank0-ab");
  EXPECT_TRUE(monitor->SetTopology(place).ok());
  EXPECT_EQ(monitor.output().filename(), "Dec03_21-34-41-rank0-ab");
}

TEST(Monitor, WritesNothingForApi) {
  const Watched monitor(R"({"ops": ["norm"], "format": "api"})");
  EXPECT_EQ(monitor.Begin(), State::kOn);
  monitor.Put(monitor->Slot(Table::kActv, "0:a.input", "actv"), 2.0F, kNone, 1);
  EXPECT_EQ(monitor->RowsJson(Table::kActv),
            R"([{"tag": "0:a.input:1/rank0/actv", "norm": 2.0, "shape": "[1]", )"
            R"("dtype": "torch.float32"}])");
  EXPECT_EQ(monitor->RowsJson(Table::kOther), "[]");
  EXPECT_EQ(monitor.EndStep(), State::kOn);
  EXPECT_EQ(monitor->RowsJson(Table::kActv), "[]");
  EXPECT_FALSE(fs::exists(monitor.root()));
}

TEST(Monitor, AddsUpCallsOfOneStep) {
  const Watched monitor(R"({"ops": ["norm"], "cc_distribution": {"enable": true}})");
  monitor.Begin();
  const uint32_t slot = monitor->Slot(Table::kOther, "0:all_reduce", "post_0");
  const float three = 3;
  const float four = 4;
  const std::array<int64_t, 1> shape = {1};
  for (const float* value : {&three, &four}) {
    TensorView view;
    view.shape = {1};
    view.strides = {1};
    view.data = reinterpret_cast<const std::byte*>(value);
    EXPECT_TRUE(monitor->Accumulate({slot}, Measure(view, {}), shape, "torch.float32").ok());
  }
  EXPECT_THAT(monitor->RowsJson(Table::kOther), HasSubstr(R"("all_reduce/rank0/post_0")"));
  monitor.EndStep();
  EXPECT_EQ(monitor.Table("other_0-0.csv"),
            "vpp_stage,name,step,norm,shape,dtype,calls\n"
            "0,all_reduce.post_0,0,5.0,[1],torch.float32,2\n");
}

TEST(Monitor, KeepsTheAgreementOfSignsAsAFloat32) {
  const Watched monitor(R"({"ops": ["id", "norm"]})");
  monitor.Begin();
  const uint32_t slot = monitor->Slot(Table::kOther, "0:weight", "mg_direction");
  EXPECT_TRUE(monitor->PutNumber({slot}, 0.6171875).ok());
  EXPECT_TRUE(
      monitor->PutNumber({monitor->Slot(Table::kUpdateRatio, "0:weight", "ur")}, 0.25).ok());
  monitor.EndStep();
  EXPECT_EQ(monitor.Table("other_0-0.csv"),
            "vpp_stage,name,step,id,norm,shape,dtype\n"
            "0,weight,0,0.617188,0.617188,[],torch.float32\n");
  EXPECT_EQ(monitor.Table("update_ratio_0-0.csv"), "vpp_stage,name,step,value\n0,weight,0,0.25\n");
}

TEST(Monitor, WritesFeaturesOfLayersIntoTablesOfTheirOwnColumns) {
  const Watched monitor(R"({"ops": ["norm", "min", "max"]})");
  monitor.Begin();
  const uint32_t attention = monitor->Slot(Table::kAttentionHook, "1:core", "attention_hook");
  const uint32_t linear = monitor->Slot(Table::kLinearHook, "0:mlp", "linear_hook");
  EXPECT_TRUE(
      monitor->PutFeatures({.slot = attention, .micro_step = 0}, std::array{1.5, 0.25}).ok());
  EXPECT_TRUE(
      monitor->PutFeatures({.slot = attention, .micro_step = 1}, std::array{2.5, 0.125}).ok());
  EXPECT_TRUE(monitor->PutFeatures({.slot = linear}, std::array{3.0, 4.0}).ok());
  EXPECT_FALSE(monitor->PutFeatures({.slot = linear}, std::array{3.0}).ok());
  const uint32_t other = monitor->Slot(Table::kActv, "0:mlp.input", "actv");
  EXPECT_FALSE(monitor->PutFeatures({.slot = other}, std::array{3.0, 4.0}).ok());
  monitor.EndStep();
  EXPECT_EQ(monitor.Table("attention_hook_0-0.csv"),
            "vpp_stage,name,step,micro_step,entropy,softmax_max\n"
            "1,core,0,0,1.5,0.25\n1,core,0,1,2.5,0.125\n");
  EXPECT_EQ(monitor.Table("linear_hook_0-0.csv"),
            "vpp_stage,name,step,sr,kernel_norm\n0,mlp,0,3.0,4.0\n");
}

TEST(Monitor, TakesNumbersThatComeLater) {
  const Watched monitor(R"({"ops": ["norm", "nans"]})");
  monitor.Begin();
  const std::array<int64_t, 2> shape = {2, 3};
  const auto ticket = monitor->PutDeferred({monitor->Slot(Table::kGradReduced, "0:a", "post_grad")},
                                           DType::kFloat32, shape, "torch.float32");
  const auto unfilled = monitor->PutDeferred(
      {monitor->Slot(Table::kGradReduced, "0:b", "post_grad")}, DType::kFloat32, shape, "x");
  ASSERT_TRUE(ticket.ok() && unfilled.ok());
  EXPECT_TRUE(monitor->Fill(*ticket, std::array{1.5, 2.0}).ok());
  EXPECT_FALSE(monitor->Fill(*ticket, std::array{1.5}).ok());
  monitor.EndStep();
  EXPECT_TRUE(monitor->Fill(*ticket, std::array{9.0, 9.0}).ok());
  EXPECT_EQ(monitor.Table("grad_reduced_0-0.csv"),
            "vpp_stage,name,step,norm,nans,shape,dtype\n"
            "0,a,0,1.5,2.0,\"[2, 3]\",torch.float32\n0,b,0,nan,nan,\"[2, 3]\",x\n");
}

TEST(Monitor, ChangesItsStatisticsWhileItRuns) {
  const Watched monitor(R"({"ops": ["norm"]})");
  monitor.Begin();
  EXPECT_TRUE(monitor->SetOps(R"(["max"])").ok());
  EXPECT_FALSE(monitor->SetOps(R"("max")").ok());
  EXPECT_THAT(monitor->settings_json(), HasSubstr(R"("ops": ["max", "shape", "dtype"])"));
  monitor.EndStep();
  monitor.Put(monitor->Slot(Table::kExpAvg, "0:w", "exp_avg"), 2.0F);
  monitor.EndStep();
  EXPECT_THAT(monitor.Table("exp_avg_1-1.csv"), HasSubstr("step,max,shape"));
}

// Waits until the time of the file is another one.
void Rewrite(const fs::path& path, std::string_view text) {
  const auto before = fs::last_write_time(path);
  Spill(path, text);
  fs::last_write_time(path, before + std::chrono::seconds(1));
}

TEST(DynamicMonitor, IsOffUntilTheFileSaysOtherwise) {
  const Watched monitor(R"({"dynamic_on": false})", true);
  EXPECT_EQ(monitor.Begin(), State::kOff);
  EXPECT_EQ(monitor.EndStep(), State::kOff);
  EXPECT_EQ(monitor.EndStep(), State::kOff);
  Rewrite(monitor.config_path(),
          R"({"dynamic_on": true, "collect_times": 2, "ops": ["max"], "eps": 1e-8})");
  Result<Engine::Next> next = monitor->EndStep();
  EXPECT_EQ(next->state, State::kOn);
  EXPECT_TRUE(next->is_changed);
  EXPECT_EQ(monitor->current_step(), 3);
  EXPECT_EQ(monitor.EndStep(), State::kOn);
  EXPECT_EQ(monitor.EndStep(), State::kOff);
  EXPECT_EQ(
      Slurp(monitor.config_path()),
      "{\n  \"dynamic_on\": false,\n  \"collect_times\": 2,\n  \"ops\": [\n    \"max\"\n  ],\n"
      "  \"eps\": 1e-8\n}");
  EXPECT_EQ(monitor.EndStep(), State::kOff);
  Rewrite(monitor.config_path(), R"({"dynamic_on": true, "collect_times": 1})");
  EXPECT_EQ(monitor.EndStep(), State::kOn);
  EXPECT_EQ(monitor.EndStep(), State::kOff);
}

TEST(DynamicMonitor, IgnoresABrokenFileAndOneThatIsNotSwitchedOn) {
  const Watched monitor(R"({"dynamic_on": true})", true);
  EXPECT_EQ(monitor.Begin(), State::kOff);
  EXPECT_EQ(monitor.EndStep(), State::kOn);
  Rewrite(monitor.config_path(), "{\"dynamic_on\": tr");
  EXPECT_FALSE(monitor->EndStep()->is_changed);
  Rewrite(monitor.config_path(), R"({"dynamic_on": false, "ops": ["max"]})");
  const Result<Engine::Next> next = monitor->EndStep();
  EXPECT_FALSE(next->is_changed);
  EXPECT_EQ(next->state, State::kOn);
}

TEST(Monitor, TellsAnUnwritableFolderAndMeasuresNothing) {
  const TemporaryFolder folder;
  Spill(folder / "file", "");
  ::setenv("MONITOR_OUTPUT_DIR", (folder / "file/out").c_str(), 1);
  const auto engine = Engine::Open({}, {}, "pytorch");
  ASSERT_TRUE(engine.ok());
  EXPECT_FALSE((*engine)->SetTopology({}).ok());
  const Result<Engine::Next> next = (*engine)->Begin(0);
  ASSERT_TRUE(next.ok());
  EXPECT_EQ(next->state, State::kOff);
  EXPECT_EQ((*engine)->EndStep()->state, State::kOff);
}

TEST(Monitor, GoesOnWhenItsFolderIsTakenAway) {
  const Watched monitor(R"({"ops": ["norm"]})");
  monitor.Begin();
  fs::remove_all(monitor.root());
  const uint32_t slot = monitor->Slot(Table::kActv, "0:a.input", "actv");
  monitor.Put(slot, 2.0F);
  EXPECT_EQ(monitor.EndStep(), State::kOn);
  EXPECT_FALSE(monitor->Flush().ok());
  fs::create_directories(monitor.output());
  monitor.Put(slot, 3.0F);
  EXPECT_EQ(monitor.EndStep(), State::kOn);
  EXPECT_THAT(monitor.Table("actv_1-1.csv"), HasSubstr("3.0"));
  EXPECT_THAT(monitor.Table("actv_0-0.csv"), HasSubstr("2.0"));
}

TEST(Monitor, WritesFilesInsideItsFoldersOnly) {
  const Watched monitor("{}");
  EXPECT_TRUE(monitor->SetTopology({}).ok());
  EXPECT_TRUE(monitor->WriteFile("stack_info.csv", "a").ok());
  EXPECT_TRUE(monitor->WriteFile("../module_struct/rank0/module_struct.json", "{}").ok());
  EXPECT_EQ(Slurp(monitor.root() / "module_struct/rank0/module_struct.json"), "{}");
  for (const char* name : {"", "../../a", "/tmp/a", "a/../../b", "../"}) {
    EXPECT_FALSE(monitor->WriteFile(name, "").ok()) << name;
  }
}

TEST(Monitor, TakesValuesFromManyThreads) {
  const Watched monitor(R"({"ops": ["norm"]})");
  monitor.Begin();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&monitor, t] {
      for (int i = 0; i < 200; ++i) {
        const std::string name = "0:a" + std::to_string(t) + "_" + std::to_string(i) + ".input";
        monitor.Put(monitor->Slot(Table::kActv, name, "actv"), 1.0F, kNone, 0);
        if (t == 0 && i % 50 == 0) {
          monitor.EndStep();
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  monitor.EndStep();
  EXPECT_TRUE(monitor->Flush().ok());
  size_t lines = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(monitor.output())) {
    if (entry.path().extension() == ".csv") {
      const std::string text = Slurp(entry.path());
      lines += static_cast<size_t>(std::count(text.begin(), text.end(), '\n')) - 1;
    }
  }
  EXPECT_EQ(lines, 800U);
}

TEST(Monitor, LeavesWholeRowsWhenItIsKilled) {
  const TemporaryFolder folder;
  ::setenv("MONITOR_OUTPUT_DIR", folder.path().c_str(), 1);
  const test_support::ChildEnd end = test_support::RunInChild([] {
    const auto engine = Engine::Open({}, R"({"step_count_per_record": 1000})", "pytorch");
    if (!engine.ok() || !(*engine)->Begin(0).ok()) {
      return 1;
    }
    const uint32_t slot = (*engine)->Slot(Table::kOther, "0:loss", "scalar");
    for (int i = 0; i < 100; ++i) {
      if (!(*engine)->PutNumber({slot}, i).ok() || !(*engine)->EndStep().ok()) {
        return 2;
      }
    }
    ::usleep(1'000'000);
    ::kill(::getpid(), SIGKILL);
    return 3;
  });
  EXPECT_EQ(end.signal, SIGKILL);
  const fs::path run = fs::directory_iterator(folder.path())->path();
  const std::string text = Slurp(run / "other_0-999.csv");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 101);
  EXPECT_THAT(text, HasSubstr("\n0,loss,99,99.0,"));
}

TEST(Monitor, RefusesAFrameworkItDoesNotKnow) {
  const auto engine = Engine::Open({}, {}, "abacus");
  ASSERT_FALSE(engine.ok());
  EXPECT_THAT(engine.status().message(), HasSubstr("abacus"));
}

}  // namespace
}  // namespace msprobe::monitor
