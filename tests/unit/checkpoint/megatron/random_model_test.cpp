// Random models, cut into ranks by rules that the test states itself, must come back whole: any
// tensor, pipeline, virtual pipeline and expert sizes, uneven stages, gated layers, three naming
// styles, three ways to keep experts.
#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "src/base/strings.h"
#include "src/checkpoint/megatron/reader.h"
#include "tests/unit/checkpoint/elements.h"
#include "tests/unit/checkpoint/megatron/rank_tree.h"

namespace msprobe::checkpoint {
namespace {

using test_support::ElementsOf;
using test_support::FindParameter;
using test_support::RankFileMaker;
using test_support::TestTensor;

enum class Cut { kRows, kGate, kColumns, kCopy };
enum class Style { kCore, kTransformerEngine, kLegacy };
enum class Experts { kNone, kLocal, kGroupedEngine, kGroupedMatrix };

struct Plan {
  int tensor = 1;
  int pipeline = 1;
  int virtual_stages = 1;
  int expert = 1;
  std::vector<int> layers;  // per part, in the order of the layers
  bool gated = false;
  Style style = Style::kCore;
  Experts experts = Experts::kNone;
  bool arguments = true;

  int hidden() const { return 8; }
  int inner() const { return 12; }
  int expert_count() const { return experts == Experts::kNone ? 0 : 4; }
};

struct Whole {
  std::string name;
  TestTensor tensor;
  Cut cut = Cut::kCopy;
  int layer = -1;   // -1: before all layers, -2: behind them
  int expert = -1;  // -1: of no expert
};

class Model {
 public:
  Model(const Plan& plan, std::mt19937& random) : random_(random) {
    const int hidden = plan.hidden();
    const int inner = plan.inner();
    const int first = plan.gated ? 2 * inner : inner;
    const Cut first_cut = plan.gated ? Cut::kGate : Cut::kRows;
    Add("embedding.word_embeddings.weight", {16, hidden}, Cut::kRows, -1);
    Add("embedding.position_embeddings.weight", {6, hidden}, Cut::kCopy, -1);
    int layer_count = 0;
    for (const int count : plan.layers) {
      layer_count += count;
    }
    for (int layer = 0; layer < layer_count; ++layer) {
      const std::string prefix = fmt::format("decoder.layers.{}.", layer);
      Add(prefix + "input_layernorm.weight", {hidden}, Cut::kCopy, layer);
      Add(prefix + "self_attention.linear_qkv.weight", {3 * hidden, hidden}, Cut::kRows, layer);
      Add(prefix + "self_attention.linear_qkv.bias", {3 * hidden}, Cut::kRows, layer);
      Add(prefix + "self_attention.linear_proj.weight", {hidden, hidden}, Cut::kColumns, layer);
      Add(prefix + "self_attention.linear_proj.bias", {hidden}, Cut::kCopy, layer);
      Add(prefix + "pre_mlp_layernorm.weight", {hidden}, Cut::kCopy, layer);
      if (plan.experts == Experts::kNone) {
        Add(prefix + "mlp.linear_fc1.weight", {first, hidden}, first_cut, layer);
        Add(prefix + "mlp.linear_fc1.bias", {first}, first_cut, layer);
        Add(prefix + "mlp.linear_fc2.weight", {hidden, inner}, Cut::kColumns, layer);
        continue;
      }
      Add(prefix + "mlp.router.weight", {plan.expert_count(), hidden}, Cut::kCopy, layer);
      for (int expert = 0; expert < plan.expert_count(); ++expert) {
        const std::string local = fmt::format("{}mlp.experts.local_experts.{}.", prefix, expert);
        Add(local + "linear_fc1.weight", {first, hidden}, first_cut, layer, expert);
        Add(local + "linear_fc2.weight", {hidden, inner}, Cut::kColumns, layer, expert);
      }
    }
    Add("decoder.final_layernorm.weight", {hidden}, Cut::kCopy, -2);
    Add("output_layer.weight", {16, hidden}, Cut::kRows, -2);
  }

  std::vector<Whole> parameters;

 private:
  void Add(std::string name, Shape shape, Cut cut, int layer, int expert = -1) {
    TestTensor tensor{.shape = std::move(shape), .values = {}};
    tensor.values.resize(static_cast<size_t>(ElementCount(tensor.shape)));
    std::uniform_real_distribution<float> values(-1, 1);
    for (float& value : tensor.values) {
      value = values(random_);
    }
    tensor.is_parameter = random_() % 2 == 0;
    parameters.push_back({std::move(name), std::move(tensor), cut, layer, expert});
  }
  std::mt19937& random_;
};

// The elements for which `wanted(row, column)` holds, in order, as a tensor of `shape`.
TestTensor Pick(const TestTensor& whole, Shape shape,
                const std::function<bool(int64_t, int64_t)>& wanted) {
  TestTensor part{.shape = std::move(shape), .values = {}, .is_parameter = whole.is_parameter};
  const int64_t columns = whole.shape.size() > 1 ? whole.shape[1] : 1;
  for (size_t i = 0; i < whole.values.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    if (wanted(at / columns, at % columns)) {
      part.values.push_back(whole.values[i]);
    }
  }
  return part;
}

TestTensor CutForRank(const Whole& whole, int rank, int ranks) {
  Shape shape = whole.tensor.shape;
  const size_t axis = whole.cut == Cut::kColumns ? 1 : 0;
  if (whole.cut == Cut::kCopy) {
    return whole.tensor;
  }
  const int64_t size = shape[axis];
  shape[axis] = size / ranks;
  if (whole.cut == Cut::kGate) {
    const int64_t half = size / 2;
    return Pick(whole.tensor, shape,
                [=](int64_t row, int64_t) { return row % half / (half / ranks) == rank; });
  }
  return Pick(whole.tensor, shape, [=](int64_t row, int64_t column) {
    return (axis == 0 ? row : column) / (size / ranks) == rank;
  });
}

std::string Styled(std::string name, Style style, Experts experts) {
  const auto replace = [&name](std::string_view from, std::string_view to) {
    name = base::ReplaceAll(name, from, to);
  };
  if (style == Style::kTransformerEngine) {
    replace("input_layernorm.", "self_attention.linear_qkv.layer_norm_");
    if (experts == Experts::kNone) {
      replace("pre_mlp_layernorm.", "mlp.linear_fc1.layer_norm_");
    }
  }
  if (style == Style::kLegacy) {
    replace("decoder.", "encoder.");
    replace("input_layernorm", "input_norm");
    replace("pre_mlp_layernorm", "post_attention_layernorm");
    replace("linear_qkv", "query_key_value");
    replace("linear_proj", "dense");
    replace("linear_fc1", "dense_h_to_4h");
    replace("linear_fc2", "dense_4h_to_h");
    replace("experts.local_experts", "local_experts");
    replace("final_layernorm", "final_norm");
    name = "language_model." + name;
  }
  return name;
}

// All experts of the rank in one matrix, expert by expert, each turned.
TestTensor Grouped(const std::vector<TestTensor>& experts, bool first) {
  const int64_t rows = experts[0].shape[0];
  const int64_t columns = experts[0].shape[1];
  const auto count = static_cast<int64_t>(experts.size());
  TestTensor grouped{.shape = first ? Shape{columns, count * rows} : Shape{count * columns, rows},
                     .values = {}};
  for (const TestTensor& expert : experts) {
    for (int64_t column = 0; column < columns; ++column) {
      for (int64_t row = 0; row < rows; ++row) {
        grouped.values.push_back(expert.values[static_cast<size_t>(row * columns + column)]);
      }
    }
  }
  return grouped;
}

void AddExperts(RankFileMaker& file, const std::string& key, const Plan& plan,
                const std::vector<const Whole*>& experts, int rank, int local_layer) {
  // Per expert fc1, fc2; local numbers begin at 0.
  const std::string prefix = fmt::format("decoder.layers.{}.mlp.experts.", local_layer);
  std::vector<TestTensor> first;
  std::vector<TestTensor> second;
  for (const Whole* expert : experts) {
    (expert->name.ends_with("linear_fc1.weight") ? first : second)
        .push_back(CutForRank(*expert, rank, plan.tensor));
  }
  if (plan.experts == Experts::kGroupedMatrix) {
    file.Tensor(key, prefix + "weight1", Grouped(first, true));
    file.Tensor(key, prefix + "weight2", Grouped(second, false));
    return;
  }
  for (size_t i = 0; i < first.size(); ++i) {
    const bool engine = plan.experts == Experts::kGroupedEngine;
    const std::string item = engine
                                 ? fmt::format("{}linear_fc1.weight{}", prefix, i)
                                 : fmt::format("{}local_experts.{}.linear_fc1.weight", prefix, i);
    const std::string two = engine ? fmt::format("{}linear_fc2.weight{}", prefix, i)
                                   : fmt::format("{}local_experts.{}.linear_fc2.weight", prefix, i);
    file.Tensor(key, Styled(item, plan.style, plan.experts), first[i]);
    file.Tensor(key, Styled(two, plan.style, plan.experts), second[i]);
  }
}

void AddArguments(RankFileMaker& file, const Plan& plan, int layers) {
  file.Argument("tensor_model_parallel_size", plan.tensor)
      .Argument("pipeline_model_parallel_size", plan.pipeline)
      .Argument("expert_model_parallel_size", plan.expert)
      .Argument("num_layers", layers)
      .Argument("swiglu", plan.gated);
  if (plan.experts == Experts::kNone) {
    file.Argument("num_experts", std::monostate());
  } else {
    file.Argument("num_experts", plan.expert_count());
  }
}

RankFileMaker MakeRank(const Plan& plan, const Model& model, int t, int p, int e) {
  RankFileMaker file;
  const int parts = plan.pipeline * plan.virtual_stages;
  int layers = 0;
  for (const int count : plan.layers) {
    layers += count;
  }
  if (plan.arguments) {
    AddArguments(file, plan, layers);
  }
  const int local_experts = plan.expert_count() / plan.expert;
  for (int v = 0; v < plan.virtual_stages; ++v) {
    const std::string key = plan.virtual_stages > 1 ? fmt::format("model{}", v) : "model";
    const int part = v * plan.pipeline + p;
    int first_layer = 0;
    for (int i = 0; i < part; ++i) {
      first_layer += plan.layers[static_cast<size_t>(i)];
    }
    std::map<int, std::vector<const Whole*>> experts;
    for (const Whole& whole : model.parameters) {
      const bool here =
          whole.layer == -1 ? part == 0
          : whole.layer == -2
              ? part == parts - 1
              : whole.layer >= first_layer &&
                    whole.layer < first_layer + plan.layers[static_cast<size_t>(part)];
      if (!here) {
        continue;
      }
      if (whole.expert >= 0) {
        if (whole.expert / local_experts == e) {
          experts[whole.layer].push_back(&whole);
        }
        continue;
      }
      const std::string name =
          base::ReplaceFirst(whole.name, fmt::format("layers.{}.", whole.layer),
                             fmt::format("layers.{}.", whole.layer - first_layer));
      file.Tensor(key, Styled(name, plan.style, plan.experts), CutForRank(whole, t, plan.tensor));
    }
    for (const auto& [layer, all] : experts) {
      AddExperts(file, key, plan, all, t, layer - first_layer);
    }
  }
  return file;
}

Plan RandomPlan(std::mt19937& random) {
  const auto one_of = [&random](std::initializer_list<int> choices) {
    return *(choices.begin() + random() % choices.size());
  };
  Plan plan;
  plan.tensor = one_of({1, 2, 4});
  plan.pipeline = one_of({1, 2, 3});
  plan.virtual_stages = plan.pipeline > 1 ? one_of({1, 2}) : 1;
  plan.gated = one_of({0, 1}) == 1;
  plan.style = static_cast<Style>(one_of({0, 1, 2}));
  plan.experts = static_cast<Experts>(one_of({0, 1, 2, 3}));
  if (plan.style == Style::kLegacy && plan.experts != Experts::kNone) {
    plan.experts = Experts::kLocal;
  }
  plan.expert = plan.experts == Experts::kNone ? 1 : one_of({1, 2, 4});
  for (int part = 0; part < plan.pipeline * plan.virtual_stages; ++part) {
    plan.layers.push_back(one_of({1, 2, 3}));
  }
  // Without arguments neither a gate nor the experts in a matrix can be told.
  plan.arguments = plan.gated || plan.experts != Experts::kNone || one_of({0, 1}) == 1;
  return plan;
}

std::string FolderOf(const Plan& plan, int t, int p, int e) {
  return fmt::format("mp_rank_{:02}", t) + (plan.pipeline > 1 ? fmt::format("_{:03}", p) : "") +
         (plan.expert > 1 ? fmt::format("_{:03}", e) : "");
}

std::string Describe(const Plan& plan) {
  return fmt::format("TP {} PP {} VPP {} EP {} gated {} style {} experts {} args {}", plan.tensor,
                     plan.pipeline, plan.virtual_stages, plan.expert, plan.gated,
                     static_cast<int>(plan.style), static_cast<int>(plan.experts), plan.arguments);
}

TEST(OpenMegatron, PutsRandomModelsTogetherAgain) {
  std::mt19937 random(20240);  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same models every time
  for (int round = 0; round < 40; ++round) {
    const Plan plan = RandomPlan(random);
    SCOPED_TRACE(Describe(plan));
    const Model model(plan, random);
    const msprobe::test_support::TemporaryFolder folder;
    for (int e = 0; e < plan.expert; ++e) {
      for (int p = 0; p < plan.pipeline; ++p) {
        for (int t = 0; t < plan.tensor; ++t) {
          test_support::WriteRank(folder, FolderOf(plan, t, p, e), MakeRank(plan, model, t, p, e));
        }
      }
    }
    const Result<Checkpoint> opened = OpenMegatron(folder.path(), {});
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    EXPECT_TRUE(opened->warnings.empty()) << opened->warnings.front();
    EXPECT_EQ(opened->parameters.size(), model.parameters.size());
    for (const Whole& whole : model.parameters) {
      const Parameter* found = FindParameter(opened->parameters, whole.name);
      ASSERT_NE(found, nullptr) << whole.name;
      ASSERT_EQ(found->shape, whole.tensor.shape) << whole.name;
      EXPECT_EQ(ElementsOf(*found), whole.tensor.values) << whole.name;
      EXPECT_TRUE(found->notes.empty()) << whole.name << ": " << found->notes.front();
    }
  }
}

}  // namespace
}  // namespace msprobe::checkpoint
