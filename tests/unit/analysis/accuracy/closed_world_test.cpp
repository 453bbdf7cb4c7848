// What a file may name: operators, constants, and the kinds of arguments.
#include <algorithm>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/analysis/accuracy/check/api_lists.h"
#include "src/analysis/accuracy/check/arguments.h"
#include "src/dump/entry_tree.h"

namespace msprobe::analysis::accuracy {
namespace {

using ::testing::HasSubstr;

bool IsKnown(std::string_view type, std::string_view api) {
  return IsKnownApi(type, api, StandardVersion::k811);
}

TEST(ClosedWorld, HoldsOperatorsOfAllTypes) {
  EXPECT_TRUE(IsKnown("Torch", "matmul"));
  EXPECT_TRUE(IsKnown("Torch", "linalg.norm"));
  EXPECT_TRUE(IsKnown("Functional", "triplet_margin_with_distance_loss"));
  EXPECT_TRUE(IsKnown("Tensor", "__setitem__"));
  EXPECT_TRUE(IsKnown("NPU", "npu_fusion_attention"));
  EXPECT_TRUE(IsKnown("Aten", "addmm"));
  EXPECT_TRUE(IsKnown("Aten", "_foreach_add_"));
  EXPECT_TRUE(IsKnownMindSporeApi("Mint", "add"));
  EXPECT_TRUE(IsKnownMindSporeApi("MintFunctional", "relu"));
  EXPECT_TRUE(IsKnownMindSporeApi("Tensor", "contiguous"));
}

TEST(ClosedWorld, HoldsNothingElse) {
  for (const char* name : {"os.system",
                           "load",
                           "save",
                           "hub.load",
                           "compile",
                           "from_file",
                           "ops.load_library",
                           "classes",
                           "utils",
                           "linalg",
                           "linalg.os",
                           "linalg.torch.load",
                           "jit.load",
                           "_C",
                           "package",
                           "Tensor.map_",
                           "__class__",
                           "matmul.__call__",
                           "",
                           ".",
                           "linalg."}) {
    EXPECT_FALSE(IsKnown("Torch", name)) << name;
    EXPECT_FALSE(IsKnown("Functional", name)) << name;
    EXPECT_FALSE(IsKnown("Tensor", name)) << name;
    EXPECT_FALSE(IsKnown("Aten", name)) << name;
    EXPECT_FALSE(IsKnown("NPU", name)) << name;
    EXPECT_FALSE(IsKnownMindSporeApi("Mint", name)) << name;
    EXPECT_FALSE(IsKnownMindSporeApi("MintFunctional", name)) << name;
    EXPECT_FALSE(IsKnownMindSporeApi("Tensor", name)) << name;
  }
}

TEST(ClosedWorld, LeavesOutWhatIsCapturedAndIsNoOperatorOrTakesFunctions) {
  EXPECT_FALSE(IsKnown("Tensor", "map_"));
  EXPECT_FALSE(IsKnown("Tensor", "map2_"));
  EXPECT_FALSE(IsKnown("Tensor", "apply_"));
  EXPECT_FALSE(IsKnown("Tensor", "register_hook"));
  EXPECT_FALSE(IsKnownMindSporeApi("Mint", "functional"));
  EXPECT_FALSE(IsKnownMindSporeApi("Mint", "absolute_import"));
  EXPECT_FALSE(IsKnownMindSporeApi("Functional", "cond"));
  EXPECT_TRUE(IsKnown("Torch", "linalg.cond"));
  EXPECT_THAT(WhyNotNamed("Tensor", "map_", StandardVersion::k811), HasSubstr("takes a function"));
}

// Those that PyTorch keeps under the prefix of its operators and that do more than compute.
TEST(ClosedWorld, AtenIsWhatComputes) {
  for (const char* name :
       {"save", "from_file", "warn", "_print", "format", "list", "set_", "set_data", "resize_",
        "record_stream", "_index_put_impl_", "_reshape_alias", "_validate_sparse_coo_tensor_args",
        "_test_string_default"}) {
    EXPECT_FALSE(IsKnown("Aten", name)) << name;
  }
  EXPECT_THAT(WhyNotNamed("Aten", "from_file", StandardVersion::k811),
              HasSubstr("not on the list of operators"));
}

TEST(ClosedWorld, HasTheWordsOfThePythonToolForPlainNames) {
  EXPECT_EQ(WhyNotNamed("Torch", "not_an_api", StandardVersion::k811),
            "'NoneType' object is not callable");
  EXPECT_EQ(WhyNotNamed("Torch", "ones_like", StandardVersion::k26),
            "'NoneType' object is not subscriptable");
  EXPECT_EQ(WhyNotNamed("NPU", "npu_x", StandardVersion::k811),
            "There is not bench function npu_x");
  EXPECT_THAT(WhyNotNamed("Torch", "os.system", StandardVersion::k811),
              HasSubstr("Torch.os.system is not on the list of operators"));
}

TEST(ClosedWorld, GivesAWorkerItsLists) {
  const auto has = [](const std::vector<NamedGroup>& groups, std::string_view kind,
                      std::string_view name) {
    return std::any_of(groups.begin(), groups.end(), [&](const NamedGroup& group) {
      return group.kind == kind &&
             std::find(group.names.begin(), group.names.end(), name) != group.names.end();
    });
  };
  const std::vector<NamedGroup> pytorch = WorkerVocabulary(Vocabulary::kPyTorch);
  EXPECT_TRUE(has(pytorch, "Functional", "linear"));
  EXPECT_TRUE(has(pytorch, "Aten", "addmm"));
  EXPECT_TRUE(has(pytorch, "torch.dtype", "bfloat16"));
  EXPECT_FALSE(has(pytorch, "Mint", "add"));
  EXPECT_FALSE(has(pytorch, "Tensor", "map_"));
  const std::vector<NamedGroup> mindspore = WorkerVocabulary(Vocabulary::kMindSpore);
  EXPECT_TRUE(has(mindspore, "Mint", "add"));
  EXPECT_FALSE(has(mindspore, "Torch", "add"));
  EXPECT_TRUE(has(WorkerVocabulary(Vocabulary::kMindTorch), "Torch", "add"));
}

TEST(ClosedWorld, ConstantsAreOfTheirType) {
  EXPECT_EQ(ConstantName("torch.dtype", "torch.float32"), "float32");
  EXPECT_EQ(ConstantName("torch.dtype", "bfloat16"), "bfloat16");
  EXPECT_EQ(ConstantName("mindspore.dtype", "Float32"), "float32");
  EXPECT_EQ(ConstantName("torch.memory_format", "torch.channels_last"), "channels_last");
  EXPECT_EQ(ConstantName("torch.layout", "torch.strided"), "strided");
  for (const char* value :
       {"torch.save", "torch.load", "save", "torch.torch.float32", "torch.nn.functional.gelu",
        "os.system", "torch.channels_last", "__class__", "", "torch."}) {
    EXPECT_FALSE(ConstantName("torch.dtype", value)) << value;
    EXPECT_FALSE(ConstantName("torch.layout", value)) << value;
    EXPECT_FALSE(ConstantName("mindspore.dtype", value)) << value;
    EXPECT_FALSE(ConstantName("torch.device", value)) << value;
  }
  EXPECT_FALSE(ConstantName("torch.memory_format", "torch.float32"));
  EXPECT_TRUE(IsNumpyScalar("float32"));
  EXPECT_FALSE(IsNumpyScalar("loadtxt"));
  EXPECT_FALSE(IsNumpyScalar("str_"));
  EXPECT_FALSE(IsNumpyScalar("frombuffer"));
}

// The error of one argument, alone, in a list, in a dict, as a keyword, and as a keyword's dict.
std::vector<std::string> ErrorsOf(const std::string& argument) {
  std::vector<std::string> errors;
  for (const std::string& form :
       {"[" + argument + "]", "[[1, [" + argument + "]]]", "[{\"key\": " + argument + "}]",
        "{\"name\": " + argument + "}", "{\"name\": {\"key\": [" + argument + "]}}"}) {
    const Result<dump::EntryTree> tree = dump::ParseEntry("{\"a\": " + form + "}");
    EXPECT_TRUE(tree.ok()) << form;
    Result<SharedMemory> memory = SharedMemory::Create(1 << 20);
    TorchGenerator generator;
    const MakeOptions options;
    ArgumentMaker maker("add", options, generator, *memory);
    FrameWriter out;
    const uint32_t place = tree->Find(0, "a");
    const Status status = form.front() == '[' ? maker.Positional(*tree, place, out)
                                              : maker.Keywords(*tree, place, out);
    errors.push_back(status.ok() ? "" : status.message());
  }
  return errors;
}

TEST(ClosedWorld, ArgumentsAreOfClosedKindsWhereverTheyStand) {
  for (const char* good :
       {R"({"type": "torch.dtype", "value": "torch.float16"})",
        R"({"type": "torch.dtype", "value": "None"})",
        R"({"type": "torch.memory_format", "format": "channels_last"})",
        R"({"type": "torch.memory_format", "value": "torch.preserve_format"})",
        R"({"type": "torch.layout", "value": "torch.strided"})",
        R"({"type": "torch.device", "value": "npu:0"})",
        R"({"type": "numpy.float32", "value": 1.5})", R"({"type": "float32", "value": 1.5})",
        R"({"type": "torch.Size", "value": [2, 3]})", R"({"type": "slice", "value": [1, null, 2]})",
        R"({"type": "ellipsis", "value": "..."})", R"({"type": "str", "value": "mean"})",
        R"({"type": "list", "value": [1, [2]]})", "null", "true", "3"}) {
    EXPECT_THAT(ErrorsOf(good), ::testing::Each("")) << good;
  }
  for (const char* bad :
       {R"({"type": "torch.dtype", "value": "torch.save"})",
        R"({"type": "torch.dtype", "value": "torch.nn"})", R"({"type": "torch.dtype", "value": 3})",
        R"({"type": "torch.memory_format", "value": "torch.save"})",
        R"({"type": "torch.memory_format", "format": "load"})",
        R"({"type": "torch.layout", "value": "torch.load"})",
        R"({"type": "torch.Generator", "value": "x"})",
        R"({"type": "numpy.loadtxt", "value": "http://127.0.0.1/"})",
        R"({"type": "numpy.fromfile", "value": 1})", R"({"type": "numpy.float32", "value": "1"})",
        R"({"type": "numpy.float32", "value": [1]})", R"({"type": "numpy.", "value": 1})",
        R"({"type": "function", "value": "torch.save"})",
        R"({"type": "builtin_function_or_method", "value": "exec"})",
        R"({"type": "object", "value": 1})", R"({"type": "torch.save", "value": "x"})",
        R"({"type": "module", "value": "os"})"}) {
    for (const std::string& error : ErrorsOf(bad)) {
      EXPECT_THAT(error, ::testing::AnyOf(HasSubstr("an argument"), HasSubstr("no valid value")))
          << bad;
    }
  }
}

}  // namespace
}  // namespace msprobe::analysis::accuracy
