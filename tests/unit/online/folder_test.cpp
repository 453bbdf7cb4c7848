// Calls through a shared folder.
#include <chrono>
#include <filesystem>
#include <thread>

#include <gtest/gtest.h>

#include "src/online/frame.h"
#include "src/online/inbox.h"
#include "src/online/receiver.h"
#include "src/online/sender.h"
#include "tests/unit/online/call_maker.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::online {
namespace {

using std::chrono::seconds;
using test_support::CallOf;
using test_support::TemporaryFolder;
using test_support::ValuesOf;

SenderOptions OptionsOf(const TemporaryFolder& folder, int64_t rank = 0) {
  SenderOptions options;
  options.endpoint.folder = folder.path();
  options.hello = {rank, "pytorch"};
  return options;
}

std::vector<std::string> NamesIn(const TemporaryFolder& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// A training of `calls` calls that ends.
void Send(const TemporaryFolder& folder, int calls, int64_t rank = 0) {
  auto sender = *Sender::Start(OptionsOf(folder, rank));
  for (int i = 0; i < calls; ++i) {
    EXPECT_TRUE(
        sender->Queue(CallOf("Torch.abs." + std::to_string(i), {static_cast<float>(i)}, rank)));
  }
  sender->Close();
  EXPECT_EQ(sender->counts().taken_calls, static_cast<uint64_t>(calls));
  EXPECT_EQ(sender->counts().dropped_calls, 0U);
}

std::vector<std::string> TakeAll(Inbox& inbox) {
  std::vector<std::string> names;
  const auto end = std::chrono::steady_clock::now() + seconds(60);
  while (!inbox.is_over() && std::chrono::steady_clock::now() < end) {
    if (const auto taken = inbox.Take(std::chrono::milliseconds(20))) {
      names.push_back(std::to_string(taken->call.rank) + " " + taken->call.name + " " +
                      std::to_string(static_cast<int>(ValuesOf(taken->call)[0])));
      inbox.Done(*taken);
    }
  }
  EXPECT_TRUE(inbox.is_over());
  return names;
}

TEST(OnlineFolder, CallsOfAllRanksArriveInOrderAndTheFolderIsEmptyThen) {
  const TemporaryFolder folder;
  Send(folder, 3, 0);
  Send(folder, 2, 1);
  EXPECT_EQ(NamesIn(folder).size(), 9U) << "5 calls, 2 starts, 2 ends";
  InboxOptions options;
  options.ranks = {0, 1};
  Inbox inbox(options);
  const auto receiver = *ReceiveFolder(OptionsOf(folder).endpoint, inbox);
  std::vector<std::string> names = TakeAll(inbox);
  std::stable_sort(names.begin(), names.end(),
                   [](const std::string& a, const std::string& b) { return a[0] < b[0]; });
  EXPECT_EQ(names,
            (std::vector<std::string>{"0 Torch.abs.0 0", "0 Torch.abs.1 1", "0 Torch.abs.2 2",
                                      "1 Torch.abs.0 0", "1 Torch.abs.1 1"}));
  inbox.Close();
  EXPECT_TRUE(NamesIn(folder).empty());
}

TEST(OnlineFolder, FilesOfOtherRanksAndOfOthersStay) {
  const TemporaryFolder folder;
  folder.Write("notes.txt", "mine");
  folder.Write("start_1700000000", "");
  Send(folder, 1, 4);
  Send(folder, 1, 0);
  InboxOptions options;
  options.ranks = {0};
  Inbox inbox(options);
  const auto receiver = *ReceiveFolder(OptionsOf(folder).endpoint, inbox);
  EXPECT_EQ(TakeAll(inbox), (std::vector<std::string>{"0 Torch.abs.0 0"}));
  inbox.Close();
  EXPECT_EQ(NamesIn(folder).size(), 5U) << "two of others, three of rank 4";
}

TEST(OnlineFolder, ADamagedFileIsLeftOutAndTheOthersAreTaken) {
  const TemporaryFolder folder;
  Send(folder, 3);
  for (const std::string& name : NamesIn(folder)) {
    if (name.ends_with("00000002.call")) {
      std::filesystem::resize_file(folder / name, 100);
    }
  }
  folder.Write("rank0.00000000000000ff.start", "no frame at all");
  InboxOptions options;
  options.ranks = {0};
  Inbox inbox(options);
  const auto receiver = *ReceiveFolder(OptionsOf(folder).endpoint, inbox);
  EXPECT_EQ(TakeAll(inbox), (std::vector<std::string>{"0 Torch.abs.0 0", "0 Torch.abs.2 2"}));
  inbox.Close();
  const std::vector<std::string> left = NamesIn(folder);
  ASSERT_EQ(left.size(), 2U);
  EXPECT_TRUE(left[0].ends_with(".refused") && left[1].ends_with(".refused"));
}

TEST(OnlineFolder, ACheckerThatIsStartedAgainGoesOnWithWhatIsLeft) {
  for (const int left : {1, 0}) {
    const TemporaryFolder folder;
    Send(folder, 3);
    for (const std::string& name : NamesIn(folder)) {  // what an earlier one took
      if (name.ends_with("00000001.call") || name.ends_with("00000002.call") ||
          (left == 0 && name.ends_with("00000003.call"))) {
        std::filesystem::remove(folder / name);
      }
    }
    InboxOptions options;
    options.ranks = {0};
    Inbox inbox(options);
    const auto receiver = *ReceiveFolder(OptionsOf(folder).endpoint, inbox);
    EXPECT_EQ(TakeAll(inbox).size(), static_cast<size_t>(left));
    inbox.Close();
    EXPECT_TRUE(NamesIn(folder).empty());
  }
}

TEST(OnlineFolder, ALinkIsNotFollowed) {
  const TemporaryFolder folder;
  const TemporaryFolder elsewhere;
  Send(folder, 1);
  const auto secret = elsewhere.Write("secret", "somebody's");
  std::filesystem::create_symlink(secret, folder / "rank0.00000000000000ff.start");
  InboxOptions options;
  options.ranks = {0};
  Inbox inbox(options);
  const auto receiver = *ReceiveFolder(OptionsOf(folder).endpoint, inbox);
  EXPECT_EQ(TakeAll(inbox).size(), 1U);
  inbox.Close();
  EXPECT_TRUE(std::filesystem::exists(secret));
}

TEST(OnlineFolder, AFolderThatNobodyReadsFillsUpToTheBound) {
  const TemporaryFolder folder;
  SenderOptions options = OptionsOf(folder);
  options.most_folder_bytes = 4096;
  options.closing_patience = std::chrono::milliseconds(300);
  auto sender = *Sender::Start(options);
  for (int i = 0; i < 20; ++i) {
    sender->Queue(CallOf("Torch.abs.0", std::vector<float>(250)));
  }
  sender->Close();
  const SenderCounts counts = sender->counts();
  EXPECT_LE(counts.taken_calls, 4U);
  EXPECT_GE(counts.taken_calls, 1U);
  EXPECT_EQ(counts.taken_calls + counts.dropped_calls, 20U);
  uint64_t bytes = 0;
  for (const std::string& name : NamesIn(folder)) {
    bytes += std::filesystem::file_size(folder / name);
  }
  EXPECT_LE(bytes, 4096U + 200U) << "but for the start and the end";
}

TEST(OnlineFolder, AFolderThatVanishesCostsCallsAndNothingElse) {
  auto folder = std::make_unique<TemporaryFolder>();
  SenderOptions options = OptionsOf(*folder);
  options.closing_patience = std::chrono::milliseconds(300);
  auto sender = *Sender::Start(options);
  folder.reset();
  for (int i = 0; i < 5; ++i) {
    sender->Queue(CallOf("Torch.abs.0", {1}));
  }
  sender->Close();
  EXPECT_EQ(sender->counts().taken_calls + sender->counts().dropped_calls, 5U);
}

}  // namespace
}  // namespace msprobe::online
