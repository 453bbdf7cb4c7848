#include "src/dump/dump_file.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/dump/entry_scan.h"
#include "src/dump/layout.h"
#include "src/dump/record_log.h"
#include "src/dump/stack_file.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::dump {
namespace {

using test_support::TemporaryFolder;

using ::testing::HasSubstr;

constexpr std::string_view kSmallDump = R"({
 "task": "statistics",
 "level": "L1",
 "framework": "pytorch",
 "dump_data_dir": null,
 "data": {
  "Torch.a.0.forward": {"input_args": [{"type": "int", "value": 1}], "output": [null]},
  "Torch.b.0.forward": {"output": [{"Max": Infinity, "Min": -Infinity, "Mean": NaN}]}
 }
})";

struct Seen {
  Result<DumpHeader> header = DumpHeader{};
  std::vector<std::string> names;
  std::vector<EntryTree> trees;
};

Seen ReadText(const std::filesystem::path& path, bool allow_truncated = false) {
  Seen seen;
  seen.header = ReadDumpFile(path, {.allow_truncated = allow_truncated},
                             [&](std::string_view name, const EntryTree& tree) {
                               seen.names.emplace_back(name);
                               seen.trees.push_back(tree);
                               return OkStatus();
                             });
  return seen;
}

TEST(ReadDumpFile, DeliversHeaderAndEntriesInFileOrder) {
  const TemporaryFolder folder;
  const Seen seen = ReadText(folder.Write("dump.json", kSmallDump));
  ASSERT_TRUE(seen.header.ok()) << seen.header.status().message();
  EXPECT_EQ(seen.header->task, "statistics");
  EXPECT_EQ(seen.header->level, "L1");
  EXPECT_EQ(seen.header->framework, "pytorch");
  EXPECT_EQ(seen.header->dump_data_dir, std::nullopt);
  EXPECT_TRUE(seen.header->has_data);
  EXPECT_FALSE(seen.header->truncated);
  EXPECT_EQ(seen.header->entry_count, 2U);
  EXPECT_EQ(seen.header->size_bytes, kSmallDump.size());
  EXPECT_EQ(seen.names, (std::vector<std::string>{"Torch.a.0.forward", "Torch.b.0.forward"}));
}

std::vector<std::pair<uint64_t, uint64_t>> PlacesOfReading(const std::filesystem::path& path) {
  std::vector<TextPlace> places;
  const auto header =
      ReadDumpFile(path, {.places = &places},
                   [](std::string_view /*name*/, const EntryTree& /*tree*/) { return OkStatus(); });
  EXPECT_TRUE(header.ok()) << header.status().message();
  std::vector<std::pair<uint64_t, uint64_t>> pairs;
  for (const TextPlace& place : places) {
    pairs.emplace_back(place.offset, place.bytes);
  }
  return pairs;
}

std::vector<std::pair<uint64_t, uint64_t>> PlacesOfScanning(const std::filesystem::path& path) {
  std::vector<std::pair<uint64_t, uint64_t>> pairs;
  const auto scanned = ScanEntries(path, [&](const ScannedEntry& entry, const auto& /*so_far*/) {
    pairs.emplace_back(entry.offset, entry.text.size());
    return true;
  });
  EXPECT_TRUE(scanned.ok()) << scanned.status().message();
  return pairs;
}

TEST(ReadDumpFile, TellsThePlacesOfEntriesOfPlainJson) {
  const TemporaryFolder folder;
  const auto path = folder.Write("dump.json", std::string("\n \n") + std::string(kSmallDump));
  const auto places = PlacesOfReading(path);
  ASSERT_EQ(places.size(), 2U);
  EXPECT_EQ(places, PlacesOfScanning(path));
  const auto access = EntryAccess::Open(path);
  ASSERT_TRUE(access.ok());
  const auto tree = access->Read(places[1].first, places[1].second);
  ASSERT_TRUE(tree.ok()) << tree.status().message();
  EXPECT_NE(tree->Find(0, "output"), EntryTree::kNone);
}

TEST(ReadDumpFile, TellsFewerPlacesWhereSomethingIsNotPlain) {
  const TemporaryFolder folder;
  const auto path = folder.Write(
      "dump.json",
      R"({"data": {"a": {"output": [1]}, "b\u0041": {"output": [2]}, "c": {"output": [3]}}})");
  const auto places = PlacesOfReading(path);
  const auto all = PlacesOfScanning(path);
  ASSERT_EQ(all.size(), 3U);
  ASSERT_EQ(places.size(), 1U);
  EXPECT_EQ(places[0], all[0]);
  // A value that is no object has none either.
  EXPECT_EQ(PlacesOfReading(folder.Write("list.json", R"({"data": {"a": [1], "b": {}}})")).size(),
            1U);
}

TEST(ReadDumpFile, AcceptsTheNumbersStrictJsonForbids) {
  const TemporaryFolder folder;
  const Seen seen = ReadText(folder.Write("dump.json", kSmallDump));
  const EntryTree& tree = seen.trees.at(1);
  const uint32_t leaf = tree.Find(0, "output") + 1;
  const Node& max = tree[tree.Find(leaf, "Max")];
  EXPECT_EQ(max.kind, NodeKind::kFloat);
  EXPECT_EQ(max.text, "Infinity");
  EXPECT_EQ(max.number, std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(tree[tree.Find(leaf, "Mean")].number));
}

TEST(ReadDumpFile, FindsHeaderKeysBehindTheDataToo) {
  const TemporaryFolder folder;
  const auto path =
      folder.Write("dump.json", R"({"data": {"a.0.debug": null}, "task": "tensor", "level": 3})");
  const Seen seen = ReadText(path);
  ASSERT_TRUE(seen.header.ok());
  EXPECT_EQ(seen.header->task, "tensor");
  EXPECT_EQ(seen.header->level, std::nullopt);
  ASSERT_EQ(seen.trees.size(), 1U);
  EXPECT_EQ(seen.trees[0][0].kind, NodeKind::kNull);
}

TEST(ReadDumpFile, DeliversEntriesOfEveryKindAndNamesThatOccurTwice) {
  const TemporaryFolder folder;
  const Seen seen =
      ReadText(folder.Write("dump.json", R"({"data": {"a": 1, "a": [2], "": "x", "b": {}}})"));
  ASSERT_TRUE(seen.header.ok());
  EXPECT_EQ(seen.names, (std::vector<std::string>{"a", "a", "", "b"}));
  EXPECT_EQ(seen.trees[0][0].kind, NodeKind::kInt);
  EXPECT_EQ(seen.trees[1][0].kind, NodeKind::kList);
  EXPECT_EQ(seen.trees[2][0].kind, NodeKind::kText);
  EXPECT_EQ(seen.trees[3][0].kind, NodeKind::kObject);
}

// The quick walk stands aside there; what it has delivered does not come again.
TEST(ReadDumpFile, DeliversEveryEntryOnceWhereverSomethingUnusualStands) {
  constexpr std::string_view kUnusual[] = {R"("\u00e9")", "123456789012345678901234567890123"};
  const TemporaryFolder folder;
  for (const std::string_view unusual : kUnusual) {
    for (size_t place = 0; place < 4; ++place) {
      std::string text = R"({"task": "t", "x": 1, "data": {)";
      for (size_t entry = 0; entry < 4; ++entry) {
        text += entry == 0 ? "" : ", ";
        text += R"("e)" + std::to_string(entry) + R"(": [2, )";
        text += entry == place ? unusual : std::string_view("3");
        text += "]";
      }
      text += R"(}, "level": "L1"})";
      const Seen seen = ReadText(folder.Write("dump.json", text));
      ASSERT_TRUE(seen.header.ok()) << seen.header.status().message();
      EXPECT_EQ(seen.names, (std::vector<std::string>{"e0", "e1", "e2", "e3"})) << text;
      EXPECT_EQ(seen.header->entry_count, 4U);
      EXPECT_EQ(seen.header->extras.size(), 1U);
      EXPECT_EQ(seen.header->level, "L1");
      EXPECT_EQ(seen.header->task, "t");
      EXPECT_TRUE(seen.header->has_data);
      EXPECT_EQ(seen.trees[place][1].integer, 2);
    }
  }
}

// Opened where no node is left: nothing may be closed that was never there.
TEST(ReadDumpFile, RefusesAnEntryOfTooManyValues) {
  const TemporaryFolder folder;
  std::string text = R"({"data": {"a": [1], "b": [)";
  for (uint32_t i = 0; i + 2 < EntryTreeBuilder::kMaxNodes; ++i) {
    text += "1,";
  }
  text += "1, [[[[[[[[]]]]]]]]]}}";
  const Seen seen = ReadText(folder.Write("dump.json", text));
  ASSERT_FALSE(seen.header.ok());
  EXPECT_THAT(seen.header.status().message(), HasSubstr("\"b\" holds more than"));
  EXPECT_EQ(seen.names, (std::vector<std::string>{"a"}));
}

TEST(ReadDumpFile, KeepsUnknownKeysOfTheTopObject) {
  const TemporaryFolder folder;
  const Seen seen =
      ReadText(folder.Write("dump.json", R"({"task": "tensor", "is_merged": true, "data": {}})"));
  ASSERT_TRUE(seen.header.ok());
  ASSERT_EQ(seen.header->extras.size(), 1U);
  EXPECT_EQ(seen.header->extras[0].key, "is_merged");
  EXPECT_TRUE(seen.header->extras[0].value[0].boolean);
}

TEST(ReadDumpFile, SaysWhenThereIsNoDataObject) {
  const TemporaryFolder folder;
  const Seen none = ReadText(folder.Write("a.json", R"({"task": "tensor"})"));
  ASSERT_TRUE(none.header.ok());
  EXPECT_FALSE(none.header->has_data);
  const Seen list = ReadText(folder.Write("b.json", R"({"data": [1]})"));
  ASSERT_TRUE(list.header.ok());
  EXPECT_FALSE(list.header->has_data);
  EXPECT_TRUE(list.names.empty());
}

TEST(ReadDumpFile, RefusesATruncatedFileAndNamesTheWayOut) {
  const TemporaryFolder folder;
  const auto path = folder.Write("dump.json", kSmallDump.substr(0, kSmallDump.size() - 30));
  const Seen refused = ReadText(path);
  ASSERT_FALSE(refused.header.ok());
  EXPECT_EQ(refused.header.status().code(), StatusCode::kBadFormat);
  EXPECT_THAT(refused.header.status().message(), HasSubstr(path.string()));
  EXPECT_THAT(refused.header.status().message(), HasSubstr("line 8"));
  EXPECT_THAT(refused.header.status().hint(), HasSubstr("--allow-truncated"));
}

TEST(ReadDumpFile, GivesTheCompleteEntriesOfATruncatedFileWhereverItEnds) {
  const TemporaryFolder folder;
  const size_t second = kSmallDump.find("\"Torch.b");
  for (size_t length = 0; length < kSmallDump.size(); ++length) {
    const Seen seen = ReadText(folder.Write("dump.json", kSmallDump.substr(0, length)), true);
    ASSERT_TRUE(seen.header.ok()) << length << ": " << seen.header.status().message();
    EXPECT_TRUE(seen.header->truncated) << length;
    EXPECT_EQ(seen.names.size(), seen.header->entry_count) << length;
    if (length < second - 5) {
      EXPECT_EQ(seen.names.size(), 0U) << length;
    } else if (length > second) {
      EXPECT_GE(seen.names.size(), 1U) << length;
    }
  }
}

TEST(ReadDumpFile, RefusesBrokenTextEvenWhenTruncationIsAllowed) {
  const TemporaryFolder folder;
  const Seen seen = ReadText(folder.Write("dump.json", "{\"data\": {\n\"a\": [1, }}}"), true);
  ASSERT_FALSE(seen.header.ok());
  EXPECT_THAT(seen.header.status().message(), HasSubstr("line 2"));
  EXPECT_EQ(seen.names.size(), 0U);
}

TEST(ReadDumpFile, NamesThePlaceOfDamageBehindEntriesThatWereDelivered) {
  const TemporaryFolder folder;
  const Seen seen = ReadText(folder.Write("dump.json", "{\"data\": {\"a\": [1],\n\"b\": [1, }}}"));
  ASSERT_FALSE(seen.header.ok());
  EXPECT_THAT(seen.header.status().message(), HasSubstr("line 2"));
  EXPECT_EQ(seen.names, std::vector<std::string>{"a"});
}

TEST(ReadDumpFile, RefusesOtherTopValues) {
  const TemporaryFolder folder;
  for (std::string_view text : {"[1]", "\"text\"", "12", "null", "NaN"}) {
    const Seen seen = ReadText(folder.Write("dump.json", text));
    ASSERT_FALSE(seen.header.ok()) << text;
    EXPECT_THAT(seen.header.status().message(), HasSubstr("an object")) << text;
  }
}

TEST(ReadDumpFile, RefusesNestingWithoutEnd) {
  const TemporaryFolder folder;
  const Seen seen =
      ReadText(folder.Write("dump.json", "{\"data\": {\"a\": " + std::string(1'000'000, '[')));
  ASSERT_FALSE(seen.header.ok());
  EXPECT_EQ(seen.header.status().code(), StatusCode::kBadFormat);
}

TEST(ReadDumpFile, DeliversDeepEntriesWithoutTrouble) {
  const TemporaryFolder folder;
  const std::string deep = std::string(400, '[') + std::string(400, ']');
  const Seen seen = ReadText(folder.Write("dump.json", "{\"data\": {\"a\": " + deep + "}}"));
  ASSERT_TRUE(seen.header.ok()) << seen.header.status().message();
  EXPECT_EQ(seen.trees[0].size(), 400U);
}

TEST(ReadDumpFile, StopsAtTheCallersError) {
  const TemporaryFolder folder;
  int calls = 0;
  const auto header = ReadDumpFile(folder.Write("dump.json", kSmallDump), {},
                                   [&](std::string_view, const EntryTree&) {
                                     ++calls;
                                     return MismatchError("enough");
                                   });
  ASSERT_FALSE(header.ok());
  EXPECT_EQ(header.status().message(), "enough");
  EXPECT_EQ(header.status().code(), StatusCode::kMismatch);
  EXPECT_EQ(calls, 1);
}

TEST(ReadDumpFile, NamesAMissingFile) {
  const Seen seen = ReadText("/nowhere/dump.json");
  EXPECT_EQ(seen.header.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(seen.header.status().message(), HasSubstr("/nowhere/dump.json"));
}

TEST(ReadDumpFile, ReadsACapturedModel) {
  const Seen seen = ReadText(MSPROBE_TEST_DATA "/dump/cnn_tensor_mix/dump/step0/rank/dump.json");
  ASSERT_TRUE(seen.header.ok()) << seen.header.status().message();
  EXPECT_EQ(seen.header->task, "tensor");
  EXPECT_EQ(seen.header->level, "mix");
  EXPECT_EQ(seen.header->dump_data_dir, "./dump/step0/rank/dump_tensor_data");
  EXPECT_EQ(seen.names.size(), seen.header->entry_count);
  EXPECT_GT(seen.names.size(), 20U);
}

TEST(ReadDumpFile, TakesTheLogOfACaptureThatDidNotComeToItsEnd) {
  const TemporaryFolder folder;
  folder.Write("step0/rank0/dump.json", "{\"task\": \"statistics\", \"data\": {}}");
  std::string log;
  AppendLogStart({"statistics", "L1", "pytorch", "", 1}, log);
  AppendMember("Torch.abs.0.forward", "output", "[]", log);
  AppendConstruct("Torch.abs.0.forward", "Module.m.M.forward.0", log);
  folder.Write("step0/rank0/records.log", log + "torn");
  folder.Write("step1/rank0/records.log", log);

  std::vector<std::string> names;
  const Result<DumpHeader> header =
      ReadDumpFile(folder / "step0/rank0/dump.json", {}, [&](std::string_view name, const auto&) {
        names.emplace_back(name);
        return Status();
      });
  ASSERT_TRUE(header.ok()) << header.status().message();
  EXPECT_EQ(names, std::vector<std::string>{"Torch.abs.0.forward"});
  ASSERT_TRUE(header->recovery.has_value());
  EXPECT_EQ(header->recovery->lost_bytes, 4U);
  const Result<ConstructFile> construct =
      ConstructFile::Read(folder / "step0/rank0/construct.json");
  ASSERT_TRUE(construct.ok());
  EXPECT_EQ(construct->ParentOf("Torch.abs.0.forward"), "Module.m.M.forward.0");

  const Result<DumpLayout> layout = FindDump(folder.path());
  ASSERT_TRUE(layout.ok()) << layout.status().message();
  EXPECT_EQ(layout->ranks.size(), 2U) << "a rank with nothing but a log counts";
}

// What was read is given back to the system on the way, and read again where the quick way ends.
TEST(ReadDumpFile, DeliversALongFileOnceWhereverTheQuickWayEnds) {
  constexpr size_t kEntries = 4000;
  const TemporaryFolder folder;
  const std::string filler(5000, 'f');
  for (const size_t unusual : {size_t{0}, size_t{3500}, kEntries}) {
    std::string text = R"({"task": "statistics", "data": {)";
    for (size_t entry = 0; entry < kEntries; ++entry) {
      text += (entry == 0 ? "\"e" : ", \"e") + std::to_string(entry) + R"(": {"number": )" +
              std::to_string(entry) + R"(, "text": ")" + (entry == unusual ? "\\n" : "") + filler +
              "\"}";
    }
    text += "}}";
    const auto path = folder.Write("dump.json", text);
    uint64_t read_bytes = 0;
    uint64_t size_bytes = 0;
    uint64_t before = 0;
    size_t next = 0;
    ReadOptions options;
    options.read_bytes = &read_bytes;
    options.size_bytes = &size_bytes;
    const auto header =
        ReadDumpFile(path, options, [&](std::string_view name, const EntryTree& entry) {
          EXPECT_EQ(name, "e" + std::to_string(next));
          EXPECT_EQ(entry[1].integer, static_cast<int64_t>(next));
          EXPECT_EQ(entry[2].text.size(), filler.size() + (next == unusual ? 1 : 0));
          EXPECT_GT(read_bytes, before);
          EXPECT_LE(read_bytes, size_bytes);
          before = read_bytes;
          ++next;
          return OkStatus();
        });
    ASSERT_TRUE(header.ok()) << header.status().message();
    EXPECT_EQ(next, kEntries);
    EXPECT_EQ(size_bytes, text.size());
    EXPECT_EQ(header->size_bytes, text.size());
  }
}

}  // namespace
}  // namespace msprobe::dump
