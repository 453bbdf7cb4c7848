// PyTorch files made by hand: what the golden files do not show.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/io/contents.h"
#include "src/tensor/tensor_buffer.h"
#include "tests/unit/io/test_bytes.h"

namespace msprobe::io {
namespace {

using testing::Bytes;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::MakeZip;
using namespace std::string_literals;  // NOLINT: texts with zero bytes

std::string Text(std::string_view text) {
  std::string out = "X";
  testing::PutLittle(out, static_cast<uint32_t>(text.size()));
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
                                std::vector<testing::TestMember> more = {}) {
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

TEST(PtZip, TorchScriptArchivesAreNamedAsSuch) {
  const auto opened = OpenZip("N", "", {{.name = "p/constants.pkl", .content = "x"}});
  EXPECT_THAT(opened->status.message(), HasSubstr("TorchScript"));
}

TEST(PtZip, VersionAndByteOrderMustBeKnown) {
  EXPECT_TRUE(OpenZip("N", "", {{.name = "p/version", .content = "10\n"}})->status.ok());
  EXPECT_FALSE(OpenZip("N", "", {{.name = "p/version", .content = "11\n"}})->status.ok());
  EXPECT_FALSE(OpenZip("N", "", {{.name = "p/byteorder", .content = "middle"}})->status.ok());
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
