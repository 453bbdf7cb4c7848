#include "src/base/shared_run.h"

#include <array>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/packed.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::base {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

enum class Colour : uint8_t { kRed, kGreen };

struct Leaf {
  Colour colour = Colour::kRed;
  std::optional<double> value;
};
template <typename Archive>
void PackMembers(Archive& archive, Leaf& leaf) {
  archive.Choice(leaf.colour, 2);
  archive(leaf.value);
}

struct Everything {
  bool flag = false;
  int64_t number = 0;
  std::string text;
  std::filesystem::path path;
  std::vector<Leaf> leaves;
  std::vector<bool> bits;
  std::map<std::string, std::pair<uint8_t, float>> table;
  std::array<std::optional<int64_t>, 2> pair;
  Status status;
};
template <typename Archive>
void PackMembers(Archive& archive, Everything& all) {
  archive(all.flag, all.number, all.text, all.path, all.leaves, all.bits, all.table, all.pair,
          all.status);
}

std::string Packed(const Everything& value) {
  std::string bytes;
  Packer pack(bytes);
  pack(value);
  return bytes;
}

Everything Made() {
  Everything all;
  all.flag = true;
  all.number = -7;
  all.text = std::string("a\0b", 3);
  all.path = "/x/y";
  all.leaves = {{Colour::kGreen, 1.5}, {Colour::kRed, std::nullopt}};
  all.bits = {true, false};
  all.table = {{"k", {3, 0.5F}}};
  all.pair = {std::nullopt, 9};
  all.status = NotFoundError("gone").WithHint("look elsewhere");
  return all;
}

TEST(Packed, ComesBackAsItWas) {
  Everything read;
  const std::string bytes = Packed(Made());
  Unpacker unpack(bytes);
  unpack(read);
  ASSERT_TRUE(unpack.Ended());
  EXPECT_EQ(Packed(read), bytes);
  EXPECT_EQ(read.text, std::string("a\0b", 3));
  EXPECT_EQ(read.leaves[0].colour, Colour::kGreen);
  EXPECT_EQ(read.pair[1], 9);
  EXPECT_EQ(read.status.code(), StatusCode::kNotFound);
  EXPECT_EQ(read.status.hint(), "look elsewhere");
}

TEST(Packed, NothingButAllOfItIsRead) {
  const std::string bytes = Packed(Made());
  for (size_t size = 0; size < bytes.size(); ++size) {
    Everything read;
    Unpacker unpack(std::string_view(bytes).substr(0, size));
    unpack(read);
    EXPECT_FALSE(unpack.Ended()) << size;
  }
  Everything read;
  const std::string longer = bytes + "x";
  Unpacker unpack(longer);
  unpack(read);
  EXPECT_FALSE(unpack.Ended());
}

// Whatever stands in a part: no size is believed, no enumeration gets a value that it has not.
TEST(Packed, AnyBytesAreReadWithoutHarm) {
  const std::string bytes = Packed(Made());
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (const char value : {'\x00', '\x02', '\x7f', '\xff'}) {
      std::string changed = bytes;
      changed[at] = value;
      Everything read;
      Unpacker unpack(changed);
      unpack(read);
      for (const Leaf& leaf : read.leaves) {
        EXPECT_LE(leaf.colour, Colour::kGreen);
      }
    }
  }
}

std::vector<WorkUnit> Units(std::initializer_list<uint64_t> sizes) {
  std::vector<WorkUnit> units;
  for (const uint64_t size : sizes) {
    units.push_back({size, size});
  }
  return units;
}

TEST(DealOut, GivesEveryUnitToOneProcessTheLargestFirst) {
  const std::vector<WorkUnit> units = Units({5, 1, 9, 2, 2, 7});
  EXPECT_THAT(DealOut(units, 0, 1), ElementsAre(2, 5, 0, 3, 4, 1));
  EXPECT_THAT(DealOut(units, 0, 2), ElementsAre(2, 3, 4));  // 13
  EXPECT_THAT(DealOut(units, 1, 2), ElementsAre(5, 0, 1));  // 13
  EXPECT_THAT(DealOut(units, 7, 8), IsEmpty());
  std::vector<int> taken(units.size());
  for (size_t process = 0; process < 4; ++process) {
    for (const size_t unit : DealOut(units, process, 4)) {
      ++taken[unit];
    }
  }
  EXPECT_THAT(taken, ::testing::Each(1));
}

TEST(ParseShare, CountsFromOne) {
  const Result<ProcessShare> share = ParseShare("2/8");
  ASSERT_TRUE(share.ok());
  EXPECT_EQ(share->index, 1U);
  EXPECT_EQ(share->count, 8U);
  EXPECT_TRUE(share->by_hand);
  for (const char* text : {"", "2", "0/2", "3/2", "-1/2", "1/2/3", "one/two"}) {
    EXPECT_FALSE(ParseShare(text).ok()) << text;
  }
}

class SharedRunTest : public ::testing::Test {
 protected:
  void TearDown() override { SetSharing({}); }

  void Be(size_t index, bool by_hand = false, std::string work = "work") {
    Sharing sharing;
    sharing.share = {index, 2, "_job", by_hand};
    sharing.patience = std::chrono::seconds(0);
    sharing.work = std::move(work);
    SetSharing(std::move(sharing));
  }
  Result<SharedRun> Join() { return SharedRun::Join(folder_.path(), "some_command", "20250101"); }

  // What this process gives, and in the first one what all gave.
  Status Run(SharedRun& run, Status outcome = {}) {
    return run.ShareOut(
        Units({3, 2, 1}),
        [&](std::span<const size_t> mine, const auto& give) {
          for (const size_t place : mine) {
            give(place, "unit " + std::to_string(place));
          }
          return outcome;
        },
        found_);
  }

  msprobe::test_support::TemporaryFolder folder_;
  std::vector<std::optional<std::string>> found_;
};

TEST_F(SharedRunTest, OfOneProcessLeavesNoTrace) {
  SetSharing({});
  Result<SharedRun> run = Join();
  ASSERT_TRUE(run.ok());
  ASSERT_TRUE(Run(*run).ok());
  EXPECT_THAT(found_, ElementsAre("unit 0", "unit 1", "unit 2"));
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(SharedRunTest, OfTwoIsPutTogetherByTheFirst) {
  Be(1);
  {
    Result<SharedRun> second = Join();
    ASSERT_TRUE(second.ok()) << second.status().message();
    const Result<RunStamp> stamp = second->TakeStamp();
    ASSERT_TRUE(stamp.ok());
    EXPECT_EQ(stamp->text(), "20250101");
    ASSERT_TRUE(Run(*second).ok());
  }
  Be(0);
  {
    Result<SharedRun> first = SharedRun::Join(folder_.path(), "some_command", "20250202");
    ASSERT_TRUE(first.ok());
    EXPECT_EQ(first->TakeStamp()->text(), "20250101");  // of whoever came first
    ASSERT_TRUE(Run(*first).ok());
    EXPECT_THAT(first->Missing("units", [](size_t) { return ""; }), IsEmpty());
  }
  EXPECT_THAT(found_, ElementsAre("unit 0", "unit 1", "unit 2"));
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(SharedRunTest, SaysWhatALateProcessShouldHaveGiven) {
  Be(0);
  Result<SharedRun> first = Join();
  ASSERT_TRUE(Run(*first).ok());
  EXPECT_THAT(found_, ElementsAre("unit 0", std::nullopt, std::nullopt));
  EXPECT_EQ(first->WhyMissing(1), "process 2 of 2 delivered nothing in time");
  EXPECT_THAT(first->Missing("units", [](size_t unit) { return std::to_string(unit); }),
              ElementsAre("process 2 of 2 delivered nothing in time; missing are 2 units: 1, 2"));
}

TEST_F(SharedRunTest, TakesNoPartOfOtherWork) {
  Be(1, /*by_hand=*/true, "other work");
  {
    Result<SharedRun> second = Join();
    ASSERT_TRUE(Run(*second).ok());
  }
  Be(0, /*by_hand=*/true);
  Result<SharedRun> first = Join();
  ASSERT_TRUE(Run(*first).ok());
  EXPECT_EQ(first->WhyMissing(2), "process 2 of 2 left only the part of another run");
}

TEST_F(SharedRunTest, ASecondProcessOfANumberIsRefused) {
  Be(1);
  const Result<SharedRun> second = Join();
  ASSERT_TRUE(second.ok());
  EXPECT_THAT(Join().status().message(), HasSubstr("process 2 of 2 was started twice"));
}

TEST_F(SharedRunTest, AnErrorOfAProcessIsThatOfTheRun) {
  Be(1);
  {
    Result<SharedRun> second = Join();
    EXPECT_EQ(Run(*second, UsageError("no such flag").WithHint("another")).code(),
              StatusCode::kUsage);
  }
  Be(0);
  Result<SharedRun> first = Join();
  const Status status = Run(*first);
  EXPECT_EQ(status.code(), StatusCode::kUsage);
  EXPECT_EQ(status.message(), "process 2 of 2: no such flag");
  EXPECT_EQ(status.hint(), "another");
}

}  // namespace
}  // namespace msprobe::base
