// PyTorch files made by hand: what the golden files do not show.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/io/contents.h"
#include "src/io/torch_rebuild.h"
#include "src/tensor/tensor_buffer.h"
#include "tests/unit/io/test_bytes.h"

namespace msprobe::io {
namespace {

using test_support::Bytes;
using test_support::MakeZip;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace std::string_literals;  // NOLINT: texts with zero bytes

std::string Text(std::string_view text) {
  std::string out = "X";
  test_support::PutLittle(out, static_cast<uint32_t>(text.size()));
  return out += text;
}

std::string Storage(std::string_view storage_class, int count, std::string_view location = "cpu") {
  std::string out = "(" + Text("storage");
  out += "c";
  out += storage_class;
  out += "\n" + Text("0") + Text(location) + "K";
  out += static_cast<char>(count);
  return out + "tQ";
}

// A float32 vector of two elements through `function`; `tail` are the opcodes of the arguments
// after the strides.
std::string Vector(std::string_view function, std::string_view storage, std::string_view tail) {
  std::string out = "c";
  out += function;
  out += "\n(";
  out += storage;
  out += "K\x00K\x02\x85K\x01\x85"s;
  out += tail;
  return out + "tR";
}
const std::string kFloats = Storage("torch\nFloatStorage", 2);
const std::string kTwoFloats = "\x00\x00\x80\x3f\x00\x00\x00\x40"s;  // 1, 2
const std::string kPlainVector = Vector("torch._utils\n_rebuild_tensor_v2", kFloats, "\x89)");

struct Opened {
  std::string bytes;
  TensorFileContents contents;
  Status status;
};

std::unique_ptr<Opened> OpenZip(const std::string& pickle, const std::string& storage = kTwoFloats,
                                std::vector<test_support::TestMember> more = {}) {
  auto opened = std::make_unique<Opened>();
  more.push_back({.name = "p/data.pkl", .content = "\x80\x02" + pickle + "."});
  more.push_back({.name = "p/data/0", .content = storage});
  opened->bytes = MakeZip(more);
  opened->status = ReadTensorBytes(Bytes(opened->bytes), {}, opened->contents);
  return opened;
}

std::vector<float> FloatsOf(const NamedTensor& tensor) {
  EXPECT_TRUE(tensor.status.ok()) << tensor.status.message();
  std::vector<float> values(static_cast<size_t>(tensor.view.element_count()));
  tensor::CopyElements(tensor.view, 0, tensor.view.element_count(),
                       reinterpret_cast<std::byte*>(values.data()));
  return values;
}

void ExpectOneAndTwo(const Opened& opened) {
  ASSERT_TRUE(opened.status.ok()) << opened.status.message();
  ASSERT_EQ(opened.contents.tensors.size(), 1U);
  EXPECT_THAT(FloatsOf(opened.contents.tensors[0]), ElementsAre(1.0F, 2.0F));
}

TEST(PtZip, TensorsOfEveryRebuildFunctionAreRead) {
  ExpectOneAndTwo(*OpenZip(Vector("torch._utils\n_rebuild_tensor", kFloats, "")));
  ExpectOneAndTwo(*OpenZip(kPlainVector));
  ExpectOneAndTwo(*OpenZip("ctorch._utils\n_rebuild_parameter\n(" + kPlainVector + "\x88)tR"));
  ExpectOneAndTwo(
      *OpenZip("ctorch._utils\n_rebuild_parameter_with_state\n(" + kPlainVector + "\x88)}tR"));
  ExpectOneAndTwo(*OpenZip("ctorch._utils\n_rebuild_device_tensor_from_cpu_tensor\n(" +
                           kPlainVector + "ctorch\nfloat32\n" + Text("npu:0") + "\x89tR"));
  ExpectOneAndTwo(
      *OpenZip(Vector("torch._utils\n_rebuild_tensor_v3",
                      Storage("torch.storage\nUntypedStorage", 8), "\x89)ctorch\nfloat32\n")));
}

TEST(PtZip, TheWrappedCallOfATensorSubclassIsMadeAndItsStateIgnored) {
  const std::string arguments = "(" + kFloats + "K\x00K\x02\x85K\x01\x85\x89)t"s;
  ExpectOneAndTwo(*OpenZip(
      "ctorch._tensor\n_rebuild_from_type_v2\n(ctorch._utils\n_rebuild_tensor_v2\ncm\nMyTensor\n" +
      arguments + "}tR"));
}

TEST(PtZip, AParameterOfAParameterOfATensorIsThatTensor) {
  std::string pickle = kPlainVector;
  for (int i = 0; i < 5; ++i) {
    pickle = "ctorch._utils\n_rebuild_parameter\n(" + pickle + "\x88)tR";
  }
  ExpectOneAndTwo(*OpenZip(pickle));
}

TEST(PtZip, LazyNegationIsAppliedOnRead) {
  const auto opened = OpenZip(
      Vector("torch._utils\n_rebuild_tensor_v2", kFloats, "\x89)}" + Text("neg") + "\x88s"));
  ASSERT_TRUE(opened->status.ok()) << opened->status.message();
  EXPECT_THAT(FloatsOf(opened->contents.tensors[0]), ElementsAre(-1.0F, -2.0F));
}

TEST(PtZip, ABareStorageIsAVector) { ExpectOneAndTwo(*OpenZip(kFloats)); }

TEST(PtZip, ATensorOnTheMetaDeviceHasNoData) {
  const auto opened = OpenZip(Vector("torch._utils\n_rebuild_tensor_v2",
                                     Storage("torch\nFloatStorage", 2, "meta"), "\x89)"));
  EXPECT_EQ(opened->status.code(), StatusCode::kUnsupported);
}

TEST(PtZip, SparseTensorsShowTheirParts) {
  const auto opened = OpenZip("ctorch._utils\n_rebuild_sparse_tensor\n(N(" + kPlainVector +
                              kPlainVector + "K\x05\x85ttR");
  ASSERT_TRUE(opened->status.ok()) << opened->status.message();
  ASSERT_EQ(opened->contents.tensors.size(), 2U);
  EXPECT_EQ(opened->contents.tensors[0].name(), "indices");
  EXPECT_EQ(opened->contents.tensors[1].name(), "values");
}

TEST(PtZip, OneBrokenTensorLeavesTheOthersReadable) {
  const std::string broken =
      Vector("torch._utils\n_rebuild_tensor_v2", Storage("torch\nFloatStorage", 200), "\x89)");
  const auto opened = OpenZip("}(" + Text("good") + kPlainVector + Text("bad") + broken + "u");
  ASSERT_TRUE(opened->status.ok()) << opened->status.message();
  ASSERT_EQ(opened->contents.tensors.size(), 2U);
  EXPECT_TRUE(opened->contents.tensors[0].status.ok());
  EXPECT_THAT(opened->contents.tensors[1].status.message(),
              HasSubstr("declares 800 bytes, its member has 8"));
  EXPECT_EQ(opened->contents.tensors[1].view.data, nullptr);
}

TEST(PtZip, AStorageHasOneElementType) {
  const std::string other =
      Vector("torch._utils\n_rebuild_tensor_v2", Storage("torch\nIntStorage", 2), "\x89)");
  const auto opened = OpenZip("}(" + Text("good") + kPlainVector + Text("bad") + other + "u");
  ASSERT_EQ(opened->contents.tensors.size(), 2U);
  EXPECT_TRUE(opened->contents.tensors[0].status.ok());
  EXPECT_THAT(opened->contents.tensors[1].status.message(),
              HasSubstr("storage \"0\" is one of float32 and of int32"));
}

TEST(PtZip, AFileThatIsOneBrokenTensorDoesNotOpen) {
  const auto opened = OpenZip(
      Vector("torch._utils\n_rebuild_tensor_v2", Storage("torch\nFloatStorage", 200), "\x89)"));
  EXPECT_EQ(opened->status.code(), StatusCode::kBadFormat);
}

TEST(PtZip, SharedContainersAreListedUnderEachName) {
  const auto opened = OpenZip("}(" + Text("a") + "}q\x00"s + Text("w") + kPlainVector + "s" +
                              Text("b") + "h\x00u"s);
  ASSERT_TRUE(opened->status.ok()) << opened->status.message();
  ASSERT_EQ(opened->contents.tensors.size(), 2U);
  EXPECT_EQ(opened->contents.tensors[0].name(), "a.w");
  EXPECT_EQ(opened->contents.tensors[1].name(), "b.w");
  EXPECT_EQ(opened->contents.tensors[0].view.data, opened->contents.tensors[1].view.data);
}

TEST(PtZip, FewValuesDoNotBecomeMillionsOfNames) {
  // Forty lists that each hold the one before twice: 2^40 names of one tensor.
  std::string pickle = "]q\x01" + kPlainVector + "a";
  for (int i = 0; i < 40; ++i) {
    pickle +=
        "0](h\x01h\x01"
        "eq\x01";
  }
  const auto opened = OpenZip(pickle);
  ASSERT_TRUE(opened->status.ok()) << opened->status.message();
  EXPECT_THAT(opened->contents.warnings,
              ElementsAre("values that occur very often are not listed under all their names"));
  EXPECT_LT(opened->contents.tensors.size(), 1000U);
}

TEST(PtZip, SettingsThatAllLayersShareAreListedUnderEachName) {
  // 600 items that are one dict of a tensor and a number.
  std::string pickle = "](}q\x01(" + Text("w") + kPlainVector + Text("n") + "K\x03u";
  for (int i = 1; i < 600; ++i) {
    pickle += "h\x01";
  }
  const auto opened = OpenZip(pickle + "e");
  ASSERT_TRUE(opened->status.ok()) << opened->status.message();
  EXPECT_THAT(opened->contents.warnings, ::testing::IsEmpty());
  EXPECT_EQ(opened->contents.tensors.size(), 600U);
  EXPECT_EQ(opened->contents.scalars.size(), 600U);
}

TEST(PtZip, ListsTensorsWithWhetherOnlyDictsLeadToThem) {
  const auto opened = OpenZip("}(" + Text("a") + "}" + Text("b") + kPlainVector + "s" + Text("c") +
                              "](" + kPlainVector + "e" + Text("d") + kFloats + "u");
  ASSERT_TRUE(opened->status.ok()) << opened->status.message();
  const std::vector<NamedTensor>& tensors = opened->contents.tensors;
  ASSERT_EQ(tensors.size(), 3U);
  EXPECT_EQ(tensors[0].name(), "a.b");
  EXPECT_TRUE(tensors[0].in_dicts);
  EXPECT_FALSE(tensors[0].is_array);
  EXPECT_EQ(tensors[1].name(), "c.0");
  EXPECT_FALSE(tensors[1].in_dicts);
  EXPECT_EQ(tensors[2].name(), "d");
  EXPECT_TRUE(tensors[2].is_array);
}

// How torch.jit.save writes a module: an object of a class in its code, with a dict of attributes.
std::string ScriptObject(std::string_view attributes) {
  return "c__torch__\nNet\n)\x81}(" + std::string(attributes) + "ub";
}

std::vector<std::string> Names(const Opened& opened) {
  std::vector<std::string> names;
  for (const NamedTensor& tensor : opened.contents.tensors) {
    names.push_back(tensor.name());
  }
  return names;
}

TEST(PtZip, TorchScriptArchivesShowTheirParametersByAttribute) {
  const std::string list = "ctorch.jit._pickle\nbuild_tensorlist\n(](" + kPlainVector + "etR";
  const std::string tags =
      "ctorch.jit._pickle\nrestore_type_tag\n](" + Text("a") + "e" + Text("List[str]") + "\x86R";
  const auto opened =
      OpenZip(ScriptObject(Text("training") + "\x88" + Text("names") + tags + Text("weight") +
                           kPlainVector + Text("child") +
                           ScriptObject(Text("bias") + kPlainVector) + Text("several") + list),
              kTwoFloats,
              {{.name = "p/constants.pkl", .content = "\x80\x02(" + kPlainVector + "t."},
               {.name = "p/constants/0", .content = "\x00\x00\x40\x40\x00\x00\x80\x40"s},
               {.name = "p/code/__torch__.py", .content = "import os"}});
  ASSERT_TRUE(opened->status.ok()) << opened->status.message();
  EXPECT_EQ(opened->contents.format, TensorFileFormat::kTorchScript);
  EXPECT_THAT(Names(*opened), ElementsAre("weight", "child.bias", "several.0", "CONSTANTS.c0"));
  EXPECT_THAT(FloatsOf(opened->contents.tensors[1]), ElementsAre(1.0F, 2.0F));
  EXPECT_THAT(FloatsOf(opened->contents.tensors[3]), ElementsAre(3.0F, 4.0F));
}

TEST(PtZip, AttributesOfTorchScriptModulesAreToldFromParametersByTheirCode) {
  const auto opened =
      OpenZip(ScriptObject(Text("weight") + kPlainVector + Text("running") + kPlainVector +
                           Text("state") + kPlainVector),
              kTwoFloats,
              {{.name = "p/constants.pkl", .content = "\x80\x02(" + kPlainVector + "t."},
               {.name = "p/constants/0", .content = "\x00\x00\x40\x40\x00\x00\x80\x40"s},
               {.name = "p/code/__torch__.py",
                .content = "class Other(Module):\n  __parameters__ = [\"state\", ]\n"
                           "class Net(Module):\n  __parameters__ = [\"weight\", ]\n"
                           "  __buffers__ = [\"a\", \"running\", ]\n  weight : Tensor\n"}});
  ASSERT_TRUE(opened->status.ok()) << opened->status.message();
  std::vector<bool> attributes;
  for (const NamedTensor& tensor : opened->contents.tensors) {
    attributes.push_back(tensor.is_attribute);
  }
  EXPECT_THAT(Names(*opened), ElementsAre("weight", "running", "state", "CONSTANTS.c0"));
  EXPECT_THAT(attributes, ElementsAre(false, false, true, true));
}

TEST(PtZip, ABrokenPickleOfConstantsIsAnError) {
  const auto opened = OpenZip("N", "", {{.name = "p/constants.pkl", .content = "x"}});
  EXPECT_THAT(opened->status.message(), HasSubstr("constants.pkl"));
}

// Four integers of 8 bits, two rows of two, with the quantizer that `quantizer` spells.
std::string Quantised(std::string_view storage_class, std::string_view quantizer) {
  return "ctorch._utils\n_rebuild_qtensor\n(" + Storage(storage_class, 4) +
         "K\x00K\x02K\x02\x86K\x02K\x01\x86"s + std::string(quantizer) + "\x89)tR";
}
const std::string kFourBytes = "\xff\x02\x03\x04"s;

TEST(PtZip, QuantisedTensorsAreIntegersWithTheirScales) {
  // Scale 0.5 and zero point 1.
  const auto opened = OpenZip(
      Quantised("torch\nQInt8Storage", "(ctorch\nper_tensor_affine\nG\x3f\xe0\0\0\0\0\0\0K\x01t"s),
      kFourBytes);
  ASSERT_TRUE(opened->status.ok()) << opened->status.message();
  const NamedTensor& tensor = opened->contents.tensors.at(0);
  ASSERT_NE(tensor.quantization, nullptr);
  EXPECT_EQ(tensor.quantization->dtype, "qint8");
  EXPECT_EQ(tensor.view.dtype, DType::kInt8);
  EXPECT_EQ(QuantizationText(*tensor.quantization), "scale 0.5, zero point 1");
  Result<tensor::TensorBuffer> values = Dequantize(tensor, 1000);
  ASSERT_TRUE(values.ok()) << values.status().message();
  NamedTensor floats;
  floats.view = (*values).view();
  EXPECT_THAT(FloatsOf(floats), ElementsAre(-1.0F, 0.5F, 1.0F, 1.5F));
  EXPECT_FALSE(Dequantize(tensor, 15).ok());
}

TEST(PtZip, QuantisedTensorsMayHaveAScalePerChannel) {
  // Scales 1 and 2 in a float32 tensor, which the zero points share, along axis 0 and 1.
  for (const char axis : {'\0', '\1'}) {
    const auto opened =
        OpenZip(Quantised("torch\nQUInt8Storage",
                          "(ctorch\nper_channel_affine\n" +
                              Vector("torch._utils\n_rebuild_tensor_v2",
                                     "(" + Text("storage") + "ctorch\nFloatStorage\n" + Text("1") +
                                         Text("cpu") + "K\x02tQ",
                                     "\x89)") +
                              "2K"s + std::string(1, axis) + "t"),
                kFourBytes, {{.name = "p/data/1", .content = kTwoFloats}});
    ASSERT_TRUE(opened->status.ok()) << opened->status.message();
    const NamedTensor& tensor = opened->contents.tensors.at(0);
    ASSERT_TRUE(tensor.status.ok()) << tensor.status.message();
    NamedTensor floats;
    const Result<tensor::TensorBuffer> values = Dequantize(tensor, 1000);
    floats.view = (*values).view();
    if (axis == 0) {
      EXPECT_THAT(FloatsOf(floats), ElementsAre(254.0F, 1.0F, 2.0F, 4.0F));
    } else {
      EXPECT_THAT(FloatsOf(floats), ElementsAre(254.0F, 0.0F, 2.0F, 4.0F));
    }
  }
}

TEST(PtZip, QuantisedTensorsWithWrongScalesAreRefused) {
  const auto wrong = [](std::string_view quantizer) {
    return OpenZip(Quantised("torch\nQInt8Storage", quantizer), kFourBytes)->status.message();
  };
  EXPECT_THAT(wrong(")"), HasSubstr("wrong arguments"));
  EXPECT_THAT(wrong("(NNNt"), HasSubstr("are not tensors"));
  EXPECT_THAT(wrong("(NK\x01Nt"), HasSubstr("no zero point"));
  EXPECT_THAT(wrong("(N" + kFloats + "2K\x05t"), HasSubstr("is one of int8 and of float32"));
  EXPECT_THAT(
      OpenZip(Quantised("torch\nQUInt4x2Storage", "(NK\x01K\x01t"), kFourBytes)->status.message(),
      HasSubstr("QUInt4x2Storage"));
}

TEST(PtZip, CompressedSparseTensorsShowTheirParts) {
  const auto parts = [](std::string_view layout) {
    const auto opened = OpenZip(
        "ctorch._utils\n_rebuild_sparse_tensor\n(ctorch.serialization\n_get_layout\n" +
        Text(layout) + "\x85R(" + kPlainVector + kPlainVector + kPlainVector + "K\x05\x85ttR");
    return Names(*opened);
  };
  EXPECT_THAT(parts("torch.sparse_csr"), ElementsAre("crow_indices", "col_indices", "values"));
  EXPECT_THAT(parts("torch.sparse_bsc"), ElementsAre("ccol_indices", "row_indices", "values"));
}

TEST(PtZip, TensorSubclassesWithTensorsOfTheirOwnShowThem) {
  const auto wrapped = [](std::string_view state) {
    return OpenZip("}(" + Text("w") +
                   "ctorch._tensor\n_rebuild_from_type_v2\n(ctorch._utils\n_rebuild_wrapper_"
                   "subclass\ncm\nMy\n)" +
                   std::string(state) + "tRu");
  };
  EXPECT_THAT(Names(*wrapped("}(" + Text("inner") + kPlainVector + "u")), ElementsAre("w.inner"));
  // DTensor: the part of this rank, under the name of the whole.
  EXPECT_THAT(Names(*wrapped("}(" + Text("_local_tensor") + kPlainVector + "u")), ElementsAre("w"));
  EXPECT_THAT(Names(*wrapped("(N}(" + Text("_local_tensor") + kPlainVector + "ut")),
              ElementsAre("w"));
}

TEST(PtZip, VersionAndByteOrderMustBeKnown) {
  EXPECT_TRUE(OpenZip("N", "", {{.name = "p/version", .content = "10\n"}})->status.ok());
  EXPECT_FALSE(OpenZip("N", "", {{.name = "p/version", .content = "11\n"}})->status.ok());
  EXPECT_FALSE(OpenZip("N", "", {{.name = "p/byteorder", .content = "middle"}})->status.ok());
}

TEST(PtZip, AMemberThatOccursTwiceIsRefusedAsOneOfThemWouldHaveToBeChosen) {
  const auto opened =
      OpenZip(kPlainVector, kTwoFloats, {{.name = "p/data/0", .content = "other   "}});
  EXPECT_THAT(opened->status.message(), HasSubstr("member \"p/data/0\" occurs twice"));
}

std::string Counted(uint32_t number) {
  std::string out = "J";
  test_support::PutLittle(out, number);
  return out;
}

// A vector of bytes that is the whole of its storage.
std::string ByteVector(const std::string& key, uint32_t count) {
  return "ctorch._utils\n_rebuild_tensor_v2\n((" + Text("storage") + "ctorch\nByteStorage\n" +
         Text(key) + Text("cpu") + Counted(count) + "tQ" + "K\0"s + Counted(count) +
         "\x85K\1\x85\x89)tR";
}

TEST(PtZip, MembersThatLieInsideEachOtherAreReadOnce) {
  // The storage 0 holds the header and the bytes of the storage 1.
  const std::string inner(10'000, 'x');
  const std::string archive = MakeZip({{.name = "p/data/1", .content = inner}});
  const std::string outer = archive.substr(0, archive.find(inner) + inner.size());
  const uint64_t header_bytes = 30 + std::string("p/data/0").size() + 7;
  const std::string pickle = "\x80\x02](" + ByteVector("0", static_cast<uint32_t>(outer.size())) +
                             ByteVector("1", static_cast<uint32_t>(inner.size())) + "e.";
  Opened opened;
  opened.bytes = MakeZip({{.name = "p/data/0", .content = outer},
                          {.name = "p/data/1", .content = inner, .lies_at = header_bytes},
                          {.name = "p/data.pkl", .content = pickle}});
  opened.status = ReadTensorBytes(Bytes(opened.bytes), {}, opened.contents);
  ASSERT_TRUE(opened.status.ok()) << opened.status.message();
  ASSERT_EQ(opened.contents.tensors.size(), 2U);
  EXPECT_TRUE(opened.contents.tensors[0].status.ok());
  EXPECT_THAT(opened.contents.tensors[1].status.message(), HasSubstr("overlaps others"));
}

TEST(PtZip, TheInflatedBytesAreCountedOnce) {
  std::vector<test_support::TestMember> members = {
      {.name = "p/data.pkl",
       .content = "\x80\x02](" + ByteVector("0", 1000) + ByteVector("1", 3000) + "e."}};
  members.push_back({.name = "p/data/0", .content = std::string(1000, 'x'), .deflate = true});
  members.push_back({.name = "p/data/1", .content = std::string(3000, 'x'), .deflate = true});
  Opened opened;
  opened.bytes = MakeZip(members);
  opened.status = ReadTensorBytes(Bytes(opened.bytes), {}, opened.contents);
  ASSERT_TRUE(opened.status.ok()) << opened.status.message();
  EXPECT_EQ(opened.contents.inflated_bytes, 4000U);
}

// A tensor of `count` elements that all are element 0 of a storage of one.
std::string Repeated(std::string_view storage_class, std::string_view key, uint32_t count) {
  return "ctorch._utils\n_rebuild_tensor_v2\n((" + Text("storage") + "c" +
         std::string(storage_class) + "\n" + Text(key) + Text("cpu") + "K\1tQK\0"s +
         Counted(count) + "\x85K\0\x85\x89)tR"s;
}

// Bytes that are quantised per channel, every byte, scale and zero point being the same.
std::string RepeatedChannels(uint32_t count) {
  return "ctorch._utils\n_rebuild_qtensor\n((" + Text("storage") + "ctorch\nQUInt8Storage\n" +
         Text("0") + Text("cpu") + "K\1tQK\0"s + Counted(count) + "\x85K\0\x85"s +
         "(ctorch\nper_channel_affine\n" + Repeated("torch\nFloatStorage", "1", count) +
         Repeated("torch\nLongStorage", "2", count) + "K\0t\x89)tR"s;
}

std::unique_ptr<Opened> OpenChannels(const std::string& pickle) {
  return OpenZip(pickle, "\x07",
                 {{.name = "p/data/1", .content = std::string(4, '\0')},
                  {.name = "p/data/2", .content = std::string(8, '\0')}});
}

TEST(PtZip, ScalesThatRepeatOneNumberAreRefusedBeforeTheyFillTheMemory) {
  const auto few = OpenChannels(RepeatedChannels(1000));
  ASSERT_TRUE(few->status.ok()) << few->status.message();
  EXPECT_EQ(few->contents.tensors.at(0).quantization->scales.size(), 1000U);
  EXPECT_THAT(OpenChannels(RepeatedChannels(1U << 24U))->status.message(),
              HasSubstr("too many repeated bytes"));
}

TEST(PtZip, TensorsWithTheSameScalesShareThem) {
  // 100,000 names of one tensor: 1.6 GB if each had scales of its own.
  std::string pickle = "](" + RepeatedChannels(1000) + "q\1";
  for (int i = 0; i < 100'000; ++i) {
    pickle += "h\1";
  }
  const auto opened = OpenChannels(pickle + "e");
  ASSERT_TRUE(opened->status.ok()) << opened->status.message();
  const std::vector<NamedTensor>& tensors = opened->contents.tensors;
  ASSERT_EQ(tensors.size(), 100'001U);
  ASSERT_TRUE(tensors.back().status.ok()) << tensors.back().status.message();
  EXPECT_EQ(tensors.back().quantization, tensors.front().quantization);
}

TEST(PtZip, ScalesThatAreQuantisedThemselvesAreRefusedHoweverDeep) {
  std::string scales = kPlainVector;
  std::string tail;
  std::string head;
  for (int i = 0; i < 100'000; ++i) {
    head += "ctorch._utils\n_rebuild_qtensor\n((" + Text("storage") + "ctorch\nQInt8Storage\n" +
            Text("1") + Text("cpu") + "K\4tQK\0K\2\x85K\1\x85(N"s;
    tail += "NK\0t\x89)tR"s;
  }
  const auto opened = OpenZip(head + scales + tail, kTwoFloats,
                              {{.name = "p/data/1", .content = std::string(4, 'x')}});
  EXPECT_THAT(opened->status.message(), HasSubstr("quantised themselves"));
}

// `pickle` in a list, and 200,000 further references to it.
std::string OftenInAList(const std::string& pickle) {
  std::string list = "](" + pickle + "q\2";
  for (int i = 0; i < 200'000; ++i) {
    list += "h\2";
  }
  return list + "e";
}

TEST(PtZip, AnObjectThatOccursOftenCostsWhatItsArgumentsDo) {
  // 200,000 times 200,000 arguments.
  std::string object = "cx\nY\n(K\1q\1"s;
  for (int i = 0; i < 200'000; ++i) {
    object += "h\1";
  }
  const auto opened = OpenZip(OftenInAList(object + "tR"));
  ASSERT_TRUE(opened->status.ok()) << opened->status.message();
  EXPECT_THAT(opened->contents.warnings,
              ::testing::Contains(HasSubstr("values that occur very often")));
}

TEST(PtZip, LargeAttributesAreSearchedOnce) {
  // Attributes of a wrapper, and the flags of a tensor, 200,000 each.
  std::string dict = "}(K\1q\1K\1"s;
  for (int i = 0; i < 200'000; ++i) {
    dict += "h\1h\1";
  }
  dict += "u";
  const auto wrapped = OpenZip(
      OftenInAList("ctorch._tensor\n_rebuild_from_type_v2\n(ctorch._utils\n_rebuild_wrapper_"
                   "subclass\ncm\nMy\n)" +
                   dict + "tR"));
  ASSERT_TRUE(wrapped->status.ok()) << wrapped->status.message();
  const auto flagged =
      OpenZip(OftenInAList(Vector("torch._utils\n_rebuild_tensor_v2", kFloats, "\x89)" + dict)));
  ASSERT_TRUE(flagged->status.ok()) << flagged->status.message();
  EXPECT_EQ(flagged->contents.tensors.size(), 200'001U);
}

TEST(PtZip, AStorageKeyIsAShortText) {
  const auto opened = OpenZip(ByteVector(std::string(100'000, '1'), 1));
  EXPECT_THAT(opened->status.message(), HasSubstr("a storage key of 100000 letters"));
}

TEST(PtZip, BigEndianStoragesAreSwappedOnRead) {
  ExpectOneAndTwo(*OpenZip(kPlainVector, "\x3f\x80\x00\x00\x40\x00\x00\x00"s,
                           {{.name = "p/byteorder", .content = "big"}}));
}

// --- the legacy format ---

std::string Legacy(const std::string& object, const std::string& keys, const std::string& storages,
                   bool little_endian = true) {
  return "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02M\xe9\x03.\x80\x02}"s +
         Text("little_endian") + (little_endian ? "\x88" : "\x89") + "s.\x80\x02" + object +
         ".\x80\x02" + keys + "." + storages;
}

std::unique_ptr<Opened> OpenBytes(std::string bytes) {
  auto opened = std::make_unique<Opened>();
  opened->bytes = std::move(bytes);
  opened->status = ReadTensorBytes(Bytes(opened->bytes), {}, opened->contents);
  return opened;
}

const std::string kKeys = "]" + Text("0") + "a";
const std::string kTwo = "\x02\x00\x00\x00\x00\x00\x00\x00"s;

TEST(PtLegacy, StoragesFollowThePickles) {
  ExpectOneAndTwo(*OpenBytes(Legacy(kPlainVector, kKeys, kTwo + kTwoFloats)));
}

TEST(PtLegacy, BigEndianFilesSwapCountsAndElements) {
  ExpectOneAndTwo(*OpenBytes(
      Legacy(kPlainVector, kKeys,
             "\x00\x00\x00\x00\x00\x00\x00\x02\x3f\x80\x00\x00\x40\x00\x00\x00"s, false)));
}

TEST(PtLegacy, AViewIsAPartOfItsStorage) {
  // Four elements; the view starts at the third.
  const std::string storage = "(" + Text("storage") + "ctorch\nFloatStorage\n" + Text("0") +
                              Text("cpu") + "K\x04(" + Text("1") + "K\x02K\x02ttQ";
  const auto opened =
      OpenBytes(Legacy(Vector("torch._utils\n_rebuild_tensor_v2", storage, "\x89)"), kKeys,
                       "\x04\x00\x00\x00\x00\x00\x00\x00"s + std::string(8, '\0') + kTwoFloats));
  ExpectOneAndTwo(*opened);
}

TEST(PtLegacy, DamageIsAnError) {
  EXPECT_THAT(OpenBytes(Legacy(kPlainVector, kKeys, kTwo + "abc"))->status.message(),
              HasSubstr("claims 2 elements"));
  EXPECT_THAT(OpenBytes(Legacy(kPlainVector, kKeys, ""))->status.message(),
              HasSubstr("ends before storage"));
  EXPECT_THAT(OpenBytes(Legacy(kPlainVector, "]" + Text("7") + "a", kTwo))->status.message(),
              HasSubstr("no tensor declares"));
  EXPECT_THAT(OpenBytes(Legacy(kPlainVector, "]", ""))->status.message(),
              HasSubstr("not in the file"));
  EXPECT_THAT(OpenBytes(Legacy(kPlainVector, "N", ""))->status.message(),
              HasSubstr("list of storage keys"));
}

TEST(PtLegacy, BytesAfterTheLastStorageAreWarnedAbout) {
  const auto opened = OpenBytes(Legacy(kPlainVector, kKeys, kTwo + kTwoFloats + "tail"));
  ExpectOneAndTwo(*opened);
  EXPECT_THAT(opened->contents.warnings, ElementsAre("4 bytes after the last storage"));
}

}  // namespace
}  // namespace msprobe::io
