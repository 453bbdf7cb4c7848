#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "src/analysis/response_anomaly/judge.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::analysis::response_anomaly {
namespace {

class ModelTableTest : public testing::Test {
 protected:
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(scratch_.path() / name, std::ios::binary) << text;
  }
  Result<ModelTable> Load() {
    return ModelTable::Load(scratch_.path() / "models.json", scratch_.path());
  }
  test_support::TemporaryFolder scratch_;
};

TEST_F(ModelTableTest, FindsTheFirstModelWhoseNameFits) {
  Write("models.json", R"({"qwen2.5-7b": {"eos": 2}, "qwen2.5": {"bos": 0, "eos": [3, 4]}})");
  Write("qwen2.5-7b_10.json", R"({"0": "english_latin", "9": "cjk", "11": "cjk"})");
  const Result<ModelTable> table = Load();
  ASSERT_TRUE(table.ok()) << table.status().message();
  const Model* model = table->Find("Org/Qwen2.5_7B-Instruct");
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->name, "qwen2.5-7b");
  ASSERT_NE(model->categories, nullptr);
  EXPECT_EQ(model->categories->Of(0), Categories::kLatin);
  EXPECT_NE(model->categories->Of(9), Categories::kUnknown);
  EXPECT_EQ(model->categories->Of(11), Categories::kUnknown) << "beyond the vocabulary";
  EXPECT_EQ(model->categories->Of(-1), Categories::kUnknown);
  EXPECT_EQ(model->categories->Of(INT64_MAX), Categories::kUnknown);
  EXPECT_EQ(table->Find("qwen")->name, "qwen2.5-7b") << "a part of the known name";
  EXPECT_EQ(table->Find("llama"), nullptr);
  EXPECT_EQ(table->Find(""), nullptr);
  EXPECT_EQ(table->Find("-_."), nullptr);
}

TEST_F(ModelTableTest, HasSoManyModels) {
  std::string text;
  for (size_t i = 0; i < ModelTable::kMostModels; ++i) {
    text += (i == 0 ? "{\"m" : ", \"m") + std::to_string(i) + "\": {\"eos\": 1}";
  }
  Write("models.json", text + "}");
  EXPECT_TRUE(Load().ok());
  Write("models.json", text + ", \"one more\": {\"eos\": 1}}");
  EXPECT_NE(std::string(Load().status().message()).find("has 4097 models, more than 4096"),
            std::string::npos);
}

TEST_F(ModelTableTest, RefusesWhatIsNoTable) {
  for (const char* text : {"[]", R"({"a": 1})", R"({"a": {"eos": "x"}})",
                           R"({"a": {"eos": [1.5]}})", "{", R"({"a": {"bos": 1}})"}) {
    Write("models.json", text);
    EXPECT_FALSE(Load().ok()) << text;
  }
  Write("models.json", R"({"a": {"eos": 1}})");
  for (const char* text : {"[]", R"({"x": "cjk"})", R"({"1": 2})", R"({"-1": "cjk"})", "{"}) {
    Write("a_5.json", text);
    EXPECT_FALSE(Load().ok()) << text;
  }
  Write("a_5.json", "{}");
  EXPECT_TRUE(Load().ok());
  Write("a_99999999999999999999.json", "{}");
  EXPECT_TRUE(Load().ok());
}

}  // namespace
}  // namespace msprobe::analysis::response_anomaly
