#include <algorithm>
#include <unordered_map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/io/pickle_reader.h"
#include "src/io/pickle_tensors.h"
#include "src/io/pickle_value.h"
#include "tests/unit/io/test_bytes.h"

namespace msprobe::io {
namespace {

using test_support::Bytes;
using ::testing::HasSubstr;
using namespace std::string_literals;  // NOLINT: texts with zero bytes

// Keeps the bytes that the pickle borrows from.
struct ParsedPickle {
  std::string bytes;
  Result<Pickle> pickle;

  const Pickle& operator*() const { return *pickle; }
  const Pickle* operator->() const { return &*pickle; }
  PickleDescription root() const { return DescribePickleValue(*pickle, pickle->root()); }
};

ParsedPickle ParsePickle(std::string bytes, const PickleLimits& limits = {}) {
  ParsedPickle parsed{std::move(bytes), Status()};
  parsed.pickle = PickleReader::Read(Bytes(parsed.bytes), limits);
  return parsed;
}

std::string TextOf(const std::string& bytes) {
  const ParsedPickle parsed = ParsePickle(bytes);
  if (!parsed.pickle.ok()) {
    return parsed.pickle.status().message();
  }
  const PickleDescription description = parsed.root();
  return description.type + " " + description.text;
}

std::string PickleErrorOf(const std::string& bytes, const PickleLimits& limits = {}) {
  const ParsedPickle parsed = ParsePickle(bytes, limits);
  return parsed.pickle.ok() ? "no error" : parsed.pickle.status().message();
}

TEST(PickleNumbers, EveryIntegerOpcodeGivesItsValue) {
  EXPECT_EQ(TextOf("K\xff."), "int 255");
  EXPECT_EQ(TextOf("M\xff\xff."), "int 65535");
  EXPECT_EQ(TextOf("J\xff\xff\xff\xff."), "int -1");
  EXPECT_EQ(TextOf("I-42\n."), "int -42");
  EXPECT_EQ(TextOf("I01\n."), "bool True");
  EXPECT_EQ(TextOf("I00\n."), "bool False");
  EXPECT_EQ(TextOf("L7L\n."), "int 7");
  EXPECT_EQ(TextOf("\x8a\x00."s), "int 0");
  EXPECT_EQ(TextOf("\x8a\x01\x80."), "int -128");
  EXPECT_EQ(TextOf("\x8b\x02\x00\x00\x00\x00\x01."s), "int 256");
}

TEST(PickleNumbers, IntegersBeyond64BitsKeepTheirDigits) {
  EXPECT_EQ(TextOf("L1180591620717411303424L\n."), "int 1180591620717411303424");
  EXPECT_EQ(TextOf("\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x40."s), "int 1180591620717411303424");
  EXPECT_EQ(TextOf("\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\xff."s), "int -9223372036854775808");
  EXPECT_EQ(TextOf("\x8a\x09\xff\xff\xff\xff\xff\xff\xff\x7f\xff."s), "int -9223372036854775809");
}

TEST(PickleNumbers, FloatsAreReadFromTextAndBigEndianBytes) {
  EXPECT_EQ(TextOf("F1e-05\n."), "float 1e-05");
  EXPECT_EQ(TextOf("Fnan\n."), "float nan");
  EXPECT_EQ(TextOf("G\x3f\xf8\x00\x00\x00\x00\x00\x00."s), "float 1.5");
  EXPECT_THAT(PickleErrorOf("Fone\n."), HasSubstr("not a number"));
}

TEST(PickleTexts, EveryTextOpcodeGivesItsText) {
  EXPECT_EQ(TextOf("X\x03\x00\x00\x00"s
                   "abc."),
            "str abc");
  EXPECT_EQ(TextOf("\x8c\x03"s
                   "abc."),
            "str abc");
  EXPECT_EQ(TextOf("\x8d\x03\x00\x00\x00\x00\x00\x00\x00"s
                   "abc."),
            "str abc");
  EXPECT_EQ(TextOf("U\x03"s
                   "abc."),
            "str abc");
  EXPECT_EQ(TextOf("T\x03\x00\x00\x00"s
                   "abc."),
            "str abc");
  EXPECT_EQ(TextOf("S'a\\n\\x41\\101\\''\n."), "str a\nAA'");
  EXPECT_EQ(TextOf("Vd\\u00e9j\\u00e0 \xe9\n."), "str déjà é");
  EXPECT_EQ(TextOf("C\x03"s
                   "abc."),
            "bytes 3 bytes");
  EXPECT_EQ(TextOf("B\x03\x00\x00\x00"s
                   "abc."),
            "bytes 3 bytes");
  EXPECT_EQ(TextOf("\x8e\x03\x00\x00\x00\x00\x00\x00\x00"s
                   "abc."),
            "bytes 3 bytes");
  EXPECT_EQ(TextOf("\x96\x03\x00\x00\x00\x00\x00\x00\x00"s
                   "abc."),
            "bytes 3 bytes");
}

TEST(PickleTexts, TextsOfPython2ThatAreNotUtf8AreShownEscaped) {
  EXPECT_EQ(TextOf("U\x02\xff"s
                   "a."),
            "str \\xffa");
}

TEST(PickleTexts, UnicodeMustBeUtf8AsForPython) {
  for (const std::string& head :
       {"\x8c\x03"s, "X\x03\x00\x00\x00"s, "\x8d\x03\x00\x00\x00\x00\x00\x00\x00"s}) {
    EXPECT_THAT(PickleErrorOf(head + "\xff"
                                     "ab."),
                HasSubstr("not UTF-8"));
    // Half a pair, which Python writes and reads.
    EXPECT_THAT(PickleErrorOf(head + "\xed\xa0\x80."), "no error");
  }
}

TEST(PickleContainers, AreBuiltFromMarksAndPieces) {
  EXPECT_EQ(TextOf("]K\x01"
                   "a."),
            "list [1]");
  EXPECT_EQ(TextOf("(K\x01K\x02l."), "list [1, 2]");
  EXPECT_EQ(TextOf("](K\x01K\x02"
                   "e."),
            "list [1, 2]");
  EXPECT_EQ(TextOf(")."), "tuple ()");
  EXPECT_EQ(TextOf("K\x01\x85."), "tuple (1,)");
  EXPECT_EQ(TextOf("K\x01K\x02\x86."), "tuple (1, 2)");
  EXPECT_EQ(TextOf("K\x01K\x02K\x03\x87."), "tuple (1, 2, 3)");
  EXPECT_EQ(TextOf("(K\x01K\x02K\x03K\x04t."), "tuple (1, 2, 3, 4)");
  EXPECT_EQ(TextOf("\x8f(K\x01K\x02\x90."), "set {1, 2}");
  EXPECT_EQ(TextOf("(K\x01K\x02\x91."), "set {1, 2}");
  EXPECT_EQ(TextOf("}K\x01K\x02s."), "dict 1 items");
  EXPECT_EQ(TextOf("(K\x01K\x02"
                   "d."),
            "dict 1 items");
  EXPECT_EQ(TextOf("}(K\x01K\x02K\x03K\x04u."), "dict 2 items");
}

TEST(PickleContainers, ManyAppendedItemsKeepTheirOrder) {
  std::string bytes = "]q\x00]q\x01"s;  // two lists that grow in turns
  for (int i = 0; i < 200; ++i) {
    bytes += "h\x00K"s + static_cast<char>(i) + "a0h\x01K"s + static_cast<char>(i) + "a0";
  }
  const ParsedPickle parsed = ParsePickle(bytes + "\x86.");
  ASSERT_TRUE(parsed.pickle.ok()) << parsed.pickle.status().message();
  for (PickleId list : parsed->items(parsed->root())) {
    ASSERT_EQ(parsed->items(list).size(), 200U);
    for (size_t i = 0; i < 200; ++i) {
      EXPECT_EQ(parsed->integer(parsed->items(list)[i]), static_cast<int64_t>(i));
    }
  }
}

TEST(PickleDicts, DuplicateKeysKeepTheirPlaceAndTheLastValue) {
  for (int others : {1, 40}) {  // few keys are compared, many hashed
    std::string bytes =
        "}(U\x01"s
        "aK\x01";
    for (int i = 0; i < others; ++i) {
      bytes += "K"s + static_cast<char>(i) + "N";
    }
    const ParsedPickle parsed = ParsePickle(bytes +
                                            "U\x01"s
                                            "aK\x02u.");
    ASSERT_TRUE(parsed.pickle.ok()) << parsed.pickle.status().message();
    const auto items = parsed->UniqueItems(parsed->root());
    ASSERT_EQ(items.size(), static_cast<size_t>(others) + 1);
    EXPECT_EQ(parsed->text(items[0].first), "a");
    EXPECT_EQ(parsed->integer(items[0].second), 2);
    EXPECT_EQ(parsed->integer(parsed->Find(parsed->root(), "a")), 2);
  }
}

// An integer key that falls, as it is, into the first bucket of a table for `count` keys.
uint32_t CollidingKey(size_t count, size_t i) {
  const std::unordered_map<uint64_t, int> table(count);
  return static_cast<uint32_t>(table.bucket_count() * i);
}

TEST(PickleDicts, IntegerKeysThatWouldAllFallIntoOneBucketCostNoSquare) {
  constexpr size_t kKeys = 20'000;
  std::string bytes = "}(";
  for (size_t i = 0; i < kKeys; ++i) {
    bytes += "\x8a\x05";
    test_support::PutLittle(bytes, CollidingKey(kKeys, i));
    bytes += "\0N"s;
  }
  const ParsedPickle parsed = ParsePickle(bytes + "u.");
  ASSERT_TRUE(parsed.pickle.ok());
  EXPECT_EQ(parsed->UniqueItems(parsed->root()).size(), kKeys);
  // The hash that both the keys of dicts and the indices of the memo go by.
  std::unordered_map<uint64_t, int, SpreadHash> table(kKeys);
  for (size_t i = 0; i < kKeys; ++i) {
    table.emplace(CollidingKey(kKeys, i), 0);
  }
  size_t fullest = 0;
  for (size_t bucket = 0; bucket < table.bucket_count(); ++bucket) {
    fullest = std::max(fullest, table.bucket_size(bucket));
  }
  EXPECT_LT(fullest, 100U);
}

TEST(PickleDicts, KeysMustBeHashableThroughAndThrough) {
  EXPECT_THAT(PickleErrorOf("}]Ns."), HasSubstr("dict key"));
  EXPECT_THAT(PickleErrorOf("}]\x85Ns."), HasSubstr("dict key"));
  EXPECT_THAT(PickleErrorOf("}(]\x85\x85N"
                            "u."),
              HasSubstr("dict key"));
  EXPECT_EQ(TextOf("}K\x01\x85Ns."), "dict 1 items");
  EXPECT_EQ(TextOf("}(K\x01\x91Ns."), "dict 1 items") << "a frozenset";
  EXPECT_EQ(TextOf("}cm\nC\n)\x81Ns."), "dict 1 items") << "an object";
}

TEST(PickleMemo, EveryWayToWriteAndReadItWorks) {
  EXPECT_EQ(TextOf("K\x07p5\n0g5\n."), "int 7");
  EXPECT_EQ(TextOf("K\x07q\x05"
                   "0h\x05."),
            "int 7");
  EXPECT_EQ(TextOf("K\x07r\x05\x00\x00\x00"s
                   "0j\x05\x00\x00\x00."s),
            "int 7");
  EXPECT_EQ(TextOf("K\x07\x94"
                   "0K\x08\x94"
                   "0h\x00."s),
            "int 7");
  EXPECT_EQ(TextOf("K\x07r\xff\xff\xff\x7f"
                   "0j\xff\xff\xff\x7f."),
            "int 7");
}

TEST(PickleMemo, ALaterEntryReplacesAnEarlierOneInEitherStore) {
  EXPECT_EQ(TextOf("K\x01q\x00K\x02q\x00h\x00."s), "int 2");
  EXPECT_EQ(TextOf("K\x01q\x01K\x02q\x00K\x03q\x01h\x01."s), "int 3");
}

TEST(PickleStack, PopDupAndMarksBehaveAsInPython) {
  EXPECT_EQ(TextOf("K\x01K\x02"
                   "0."),
            "int 1");
  EXPECT_EQ(TextOf("K\x01(0."), "int 1") << "POP takes a mark off";
  EXPECT_EQ(TextOf("K\x01(K\x02"
                   "1."),
            "int 1");
  EXPECT_EQ(TextOf("K\x01"
                   "2\x86."),
            "tuple (1, 1)");
}

TEST(PickleStack, MisuseIsAnErrorThatNamesTheByte) {
  EXPECT_THAT(PickleErrorOf("t."), HasSubstr("pickle byte 0 (opcode 0x74): no MARK"));
  EXPECT_THAT(PickleErrorOf("K\x01\x86."),
              HasSubstr("pickle byte 2 (opcode 0x86): too few values"));
  EXPECT_THAT(PickleErrorOf("K\x01(\x85."), HasSubstr("too few values")) << "a mark is a floor";
  EXPECT_THAT(PickleErrorOf("h\x01."), HasSubstr("memo entry 1 was never set"));
  EXPECT_THAT(PickleErrorOf("K\x01K\x02"
                            "a."),
              HasSubstr("not a list"));
  EXPECT_THAT(PickleErrorOf("](N"
                            "d."),
              HasSubstr("without a value"));
  EXPECT_THAT(PickleErrorOf("N"), HasSubstr("without STOP"));
  EXPECT_THAT(PickleErrorOf(""), HasSubstr("without STOP"));
  EXPECT_THAT(PickleErrorOf("\x82\x01."), HasSubstr("not an opcode"));
  EXPECT_THAT(PickleErrorOf("K"), HasSubstr("operand of 1 bytes"));
  EXPECT_THAT(PickleErrorOf("cos\nsystem"), HasSubstr("does not end"));
  EXPECT_THAT(PickleErrorOf("N\x85N\x85N"
                            "b."),
              HasSubstr("plain value"));
}

TEST(PickleStack, EveryTruncationIsAnError) {
  const std::string bytes =
      "\x80\x02}q\x00(X\x01\x00\x00\x00"s
      "acos\nsystem\n(K\x01G\x3f\xf8\x00\x00\x00\x00\x00\x00tRu."s;
  ASSERT_TRUE(ParsePickle(bytes).pickle.ok());
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(ParsePickle(bytes.substr(0, size)).pickle.ok()) << size;
  }
}

TEST(PickleCalls, KnownContainersBecomePlainValues) {
  EXPECT_EQ(TextOf("ccollections\nOrderedDict\n)R."), "dict 0 items");
  EXPECT_EQ(TextOf("ccollections\nOrderedDict\n(](](K\x01K\x02"
                   "eetR."),
            "dict 1 items");
  EXPECT_EQ(TextOf("ccollections\ndefaultdict\n(c__builtin__\nlist\ntR."), "dict 0 items");
  EXPECT_EQ(TextOf("c__builtin__\nset\n(](K\x01K\x02"
                   "etR."),
            "set {1, 2}");
  EXPECT_EQ(TextOf("c_codecs\nencode\n(X\x04\x00\x00\x00"s
                   "\xc3\xbf\xc2\x80U\x06latin1tR."),
            "bytes 2 bytes");
  EXPECT_EQ(TextOf("c__builtin__\nbytes\n)R."), "bytes 0 bytes");
}

TEST(PickleCalls, StateOfADictIsKeptBesideItsItems) {
  const ParsedPickle parsed = ParsePickle("ccollections\nOrderedDict\n)R}U\x09_metadataK\x01sb.");
  ASSERT_TRUE(parsed.pickle.ok()) << parsed.pickle.status().message();
  EXPECT_TRUE(parsed->items(parsed->root()).empty());
  EXPECT_NE(parsed->Find(parsed->dict_attributes(parsed->root()), "_metadata"), kNoPickleValue);
}

TEST(PickleCalls, AnythingElseBecomesAnInertObject) {
  for (const std::string& call :
       {"cos\nsystem\n(U\x02idtR."s, "(cos\nsystem\nU\x02ido."s, "(U\x02idios\nsystem\n."s,
        "\x8c\x02os\x8c\x06system\x93U\x02id\x85\x81."s, "cos\nsystem\nU\x02id\x85}\x92."s}) {
    const ParsedPickle parsed = ParsePickle(call);
    ASSERT_TRUE(parsed.pickle.ok()) << parsed.pickle.status().message();
    ASSERT_EQ(parsed->kind(parsed->root()), PickleKind::kObject);
    const PickleObject object = parsed->object(parsed->root());
    EXPECT_EQ(parsed->DottedName(object.callee), "os.system");
    EXPECT_EQ(parsed->global(object.callee), PickleGlobal::kSuspicious);
    EXPECT_EQ(parsed->text(parsed->sequence(object.arguments)[0]), "id");
  }
}

TEST(PickleCalls, ObjectsCollectStateAndItems) {
  const ParsedPickle parsed = ParsePickle(
      "cm\nC\n)\x81}U\x01xK\x05sbK\x01"
      "aU\x01kK\x02s.");
  ASSERT_TRUE(parsed.pickle.ok()) << parsed.pickle.status().message();
  const PickleObject object = parsed->object(parsed->root());
  EXPECT_EQ(parsed->integer(parsed->Find(parsed->attributes(parsed->root()), "x")), 5);
  EXPECT_EQ(parsed->items(object.list_items).size(), 1U);
  EXPECT_EQ(parsed->integer(parsed->Find(object.dict_items, "k")), 2);
}

TEST(PickleCalls, ArgumentsMustBeATuple) {
  EXPECT_THAT(PickleErrorOf("cm\nC\nNR."), HasSubstr("must be a tuple"));
}

TEST(PickleCalls, KeywordArgumentsMustBeADictWhichStaysAsItIs) {
  EXPECT_THAT(PickleErrorOf("cm\nC\n)X\x07\x00\x00\x00keyword\x92."s), HasSubstr("must be a dict"));
  // A list of a dict and of an object that took it and got an item of its own.
  const ParsedPickle parsed = ParsePickle("](}q\x00K\x01K\x02scm\nC\n)h\x00\x92K\x03K\x04se."s);
  ASSERT_TRUE(parsed.pickle.ok()) << parsed.pickle.status().message();
  const std::span<const PickleId> both = parsed->items(parsed->root());
  ASSERT_EQ(both.size(), 2U);
  EXPECT_EQ(parsed->items(both[0]).size(), 2U);
  EXPECT_EQ(parsed->items(parsed->object(both[1]).dict_items).size(), 4U);
}

TEST(PickleGlobals, ReachingForProcessesFilesOrCodeIsSuspicious) {
  for (const char* name :
       {"os\nsystem", "posix\nsystem", "subprocess\nPopen", "builtins\neval", "__builtin__\nopen",
        "os.path\njoin", "importlib\nimport_module", "builtins\nexec.__call__"}) {
    EXPECT_EQ(ClassifyPickleGlobal(name), PickleGlobal::kSuspicious) << name;
  }
  for (const char* name :
       {"argparse\nNamespace", "megatron.core\nX", "builtins\nint", "ossify\nX"}) {
    EXPECT_EQ(ClassifyPickleGlobal(name), PickleGlobal::kOther) << name;
  }
}

TEST(PickleLimits, ValuesStackAndItemsAreBounded) {
  PickleLimits limits;
  limits.values = 10;
  EXPECT_THAT(PickleErrorOf("](" + std::string(20, ']') + "e.", limits),
              HasSubstr("more than 10 values"));
  limits = {};
  limits.stack_and_memo = 10;
  EXPECT_THAT(PickleErrorOf("](" + std::string(20, 'N') + "e.", limits),
              HasSubstr("stack and in the memo"));
  EXPECT_THAT(PickleErrorOf(std::string(20, '('), limits), HasSubstr("marks"));
  limits = {};
  limits.long_bytes = 5;
  EXPECT_THAT(PickleErrorOf("\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x40."s, limits),
              HasSubstr("an integer of 9 bytes"));
}

TEST(PickleLimits, ACompressedPickleMayNotGrowToAThousandTimesItsSize) {
  // 30 kB of a file that inflate to 30 million empty lists.
  const PickleLimits limits = PickleLimits::ForStored(30'000);
  EXPECT_LT(limits.values * 24 + limits.items * 4 + limits.stack_and_memo * 4, size_t{140} << 20U);
  EXPECT_THAT(PickleErrorOf("(" + std::string(limits.values + 1, ']') + "t.", limits),
              HasSubstr("too many for its size"));
}

TEST(PickleLimits, APickleThatLiesInItsFileAsItIsMeetsNone) {
  for (const uint64_t bytes : {uint64_t{1} << 10U, uint64_t{1} << 20U, uint64_t{1} << 25U}) {
    const PickleLimits limits = PickleLimits::ForStored(bytes);
    EXPECT_GE(limits.pickle_bytes, bytes);
    EXPECT_GE(limits.values, bytes);
    EXPECT_GE(limits.stack_and_memo, bytes);
  }
}

TEST(PickleLimits, CopyingALongListAgainAndAgainIsStopped) {
  std::string bytes = "](" + std::string(10000, 'N') + "e\x85q\x00"s + "0";
  for (int i = 0; i < 5000; ++i) {
    bytes += "c__builtin__\nset\nh\x00R0"s;
  }
  bytes += "N.";
  // 5000 sets of 10000 items from a file of 125 kB.
  EXPECT_THAT(PickleErrorOf(bytes), HasSubstr("container items"));
}

TEST(PickleLimits, DecodingALongTextAgainAndAgainIsStopped) {
  std::string text(100000, 'x');
  std::string bytes = "c_codecs\nencode\nq\x00X"s;
  test_support::PutLittle(bytes, static_cast<uint32_t>(text.size()));
  bytes += text + "U\x06latin1\x86q\x01"s;
  for (int i = 0; i < 1000; ++i) {
    bytes += "h\x00h\x01R0"s;
  }
  EXPECT_THAT(PickleErrorOf(bytes + "N."), HasSubstr("proportion"));
}

TEST(PickleLimits, DeepNestingNeitherOverflowsNorLeaks) {
  const std::string deep = std::string(300000, ']') + std::string(299999, 'a') + ".";
  const ParsedPickle parsed = ParsePickle(deep);
  EXPECT_TRUE(parsed.pickle.ok());
}

TEST(PickleCalls, ADeviceOfManyPartsIsCutOff) {
  std::string bytes = "ctorch\ndevice\n(";
  for (int i = 0; i < 10'000; ++i) {
    bytes += "K\1"s;
  }
  const PickleDescription device = ParsePickle(bytes + "tR.").root();
  EXPECT_LT(device.text.size(), 500U);
  EXPECT_TRUE(device.text.ends_with("..."));
}

TEST(PickleEnd, DataAfterStopIsLeftAlone) {
  const ParsedPickle parsed = ParsePickle("K\x01.K\x02.");
  ASSERT_TRUE(parsed.pickle.ok());
  EXPECT_EQ(parsed->end_offset(), 3U);
}

}  // namespace
}  // namespace msprobe::io
