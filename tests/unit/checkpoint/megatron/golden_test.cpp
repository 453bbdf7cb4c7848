// Pairs of Megatron trees with what the Python tool made of them: names, shapes, counts and
// distances of every parameter must come out alike. Skipped where the pairs are not at hand.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/base/files.h"
#include "src/checkpoint/megatron/reader.h"
#include "src/json/stream_reader.h"
#include "tests/unit/checkpoint/elements.h"

namespace msprobe::checkpoint {
namespace {

namespace fs = std::filesystem;
using test_support::ElementsOf;
using test_support::FindParameter;

fs::path GoldenFolder() {
  const char* named = std::getenv("MSPROBE_GOLDEN");
  const fs::path root = named != nullptr ? fs::path(named)
                                         : fs::path(MSPROBE_TEST_DATA).parent_path().parent_path() /
                                               ".." / "shared" / "golden";
  return root / "ckpt";
}

// Every plain value of a document under "/key/key"; list items are "/key/0", "/key/1".
class Flattener final : public json::Handler {
 public:
  bool OnNull() override { return Add("null"); }
  bool OnBool(bool value) override { return Add(value ? "true" : "false"); }
  bool OnInt(int64_t value) override { return Add(std::to_string(value)); }
  bool OnFloat(double /*value*/, std::string_view digits) override {
    return Add(std::string(digits));
  }
  bool OnText(std::string_view value) override { return Add(std::string(value)); }
  bool OnBeginObject() override { return Enter(false); }
  bool OnKey(std::string_view key) override {
    levels_.back().key = key;
    return true;
  }
  bool OnEndObject() override { return Leave(); }
  bool OnBeginArray() override { return Enter(true); }
  bool OnEndArray() override { return Leave(); }

  std::map<std::string, std::string> values;

 private:
  struct Level {
    bool list = false;
    size_t count = 0;
    std::string key = {};
  };
  std::string Path() {
    std::string path;
    for (const Level& level : levels_) {
      path += "/" + (level.list ? std::to_string(level.count) : level.key);
    }
    return path;
  }
  void Next() {
    if (!levels_.empty()) {
      ++levels_.back().count;
    }
  }
  bool Add(std::string value) {
    values[Path()] = std::move(value);
    Next();
    return true;
  }
  bool Enter(bool list) {
    levels_.push_back({list});
    return true;
  }
  bool Leave() {
    levels_.pop_back();
    Next();
    return true;
  }
  std::vector<Level> levels_;
};

std::map<std::string, std::string> Load(const fs::path& path) {
  const Result<std::string> text = base::ReadTextFile(path, 16U << 20U);
  EXPECT_TRUE(text.ok()) << path;
  Flattener flattener;
  EXPECT_TRUE(text.ok() && json::ParseStream(*text, flattener).ok()) << path;
  return flattener.values;
}

std::vector<std::string> GoldenCases() {
  std::vector<std::string> cases;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(GoldenFolder(), error)) {
    if (fs::exists(entry.path() / "expected.json")) {
      cases.push_back(entry.path().filename().string());
    }
  }
  std::sort(cases.begin(), cases.end());
  return cases;
}

double Distance(const std::vector<float>& a, const std::vector<float>& b) {
  double squares = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    squares += difference * difference;
  }
  return std::sqrt(squares);
}

void ExpectDistance(const std::string& expected, double distance, const std::string& name) {
  if (expected == "NaN") {
    EXPECT_TRUE(std::isnan(distance) || std::isinf(distance)) << name;
  } else if (expected == "Infinity") {
    EXPECT_GT(distance, 1e18) << name;  // squares beyond float32 count as infinite there
  } else {
    const double wanted = std::strtod(expected.c_str(), nullptr);
    EXPECT_NEAR(distance, wanted, std::max(1e-6, 1e-5 * std::fabs(wanted))) << name;
  }
}

void ExpectShape(const std::map<std::string, std::string>& expected, const std::string& path,
                 const Shape& shape) {
  Shape wanted;
  for (size_t i = 0; expected.count(path + "/" + std::to_string(i)) != 0; ++i) {
    wanted.push_back(std::stoll(expected.at(path + "/" + std::to_string(i))));
  }
  EXPECT_EQ(wanted, shape) << path;
}

TEST(OpenMegatron, AgreesWithThePythonToolOnEveryGoldenPair) {
  const std::vector<std::string> cases = GoldenCases();
  if (cases.empty()) {
    GTEST_SKIP() << "no checkpoints in " << GoldenFolder() << " (set MSPROBE_GOLDEN)";
  }
  for (const std::string& name : cases) {
    for (const bool compatible : {false, true}) {
      SCOPED_TRACE(name + (compatible ? ", merged as the Python tool does" : ""));
      const auto facts = Load(GoldenFolder() / name / "case.json");
      const auto expected = Load(GoldenFolder() / name / "expected.json");
      Options options;
      options.allow_missing_ranks = true;
      options.compatible_merge = compatible;
      ASSERT_TRUE(LooksLikeMegatron(GoldenFolder() / name / facts.at("/ckpt1")));
      Result<Checkpoint> a = OpenMegatron(GoldenFolder() / name / facts.at("/ckpt1"), options);
      Result<Checkpoint> b = OpenMegatron(GoldenFolder() / name / facts.at("/ckpt2"), options);
      ASSERT_TRUE(a.ok()) << a.status().message();
      ASSERT_TRUE(b.ok()) << b.status().message();
      size_t common = 0;
      for (const Parameter& parameter : a->parameters) {
        const Parameter* other = FindParameter(b->parameters, parameter.name);
        if (other == nullptr) {
          continue;
        }
        ++common;
        const std::string path = "/" + parameter.name;
        ASSERT_TRUE(expected.count(path + "/l2") != 0) << path;
        if (parameter.shape != other->shape) {
          ExpectShape(expected, path + "/shape/0", parameter.shape);
          ExpectShape(expected, path + "/shape/1", other->shape);
          EXPECT_EQ(expected.at(path + "/l2"), "null") << path;
          continue;
        }
        ExpectShape(expected, path + "/shape", parameter.shape);
        EXPECT_EQ(expected.at(path + "/numel"), std::to_string(parameter.element_count()));
        ExpectDistance(expected.at(path + "/l2"),
                       Distance(ElementsOf(parameter), ElementsOf(*other)), path);
      }
      size_t names = 0;
      for (const auto& [path, value] : expected) {
        names += path.ends_with("/l2") ? 1 : 0;
      }
      EXPECT_EQ(common, names);
    }
  }
}

}  // namespace
}  // namespace msprobe::checkpoint
