// Calls over real connections of this machine, with TLS and without, between trainings and checkers
// that may both be anything.
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "src/online/inbox.h"
#include "src/online/receiver.h"
#include "src/online/sender.h"
#include "src/online/socket.h"
#include "tests/unit/online/call_maker.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::online {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test_support::CallOf;
using test_support::TemporaryFolder;

std::chrono::steady_clock::time_point Soon() {
  return std::chrono::steady_clock::now() + seconds(20);
}

template <typename Condition>
bool Eventually(Condition condition) {
  const auto end = Soon();
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) {
      return false;
    }
    std::this_thread::sleep_for(milliseconds(5));
  }
  return true;
}

bool RunOpenSsl(const std::filesystem::path& folder, const std::string& words) {
  return std::system(
             ("cd '" + folder.string() + "' && openssl " + words + " 2>/dev/null").c_str()) == 0;
}

// An authority, and keys and certificates of both sides; false where there is no openssl.
bool MakeCertificates(const TemporaryFolder& folder) {
  const std::string key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
  bool made =
      RunOpenSsl(folder.path(),
                 "req -x509 " + key + " -days 2 -subj /CN=authority -keyout ca.key -out ca.crt");
  for (const std::string role : {"client", "server"}) {
    made = made &&
           RunOpenSsl(folder.path(), "req " + key + " -subj /CN=" + role + " -keyout " + role +
                                         ".key -out " + role + ".csr") &&
           RunOpenSsl(folder.path(), "x509 -req -in " + role +
                                         ".csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 "
                                         "-out " +
                                         role + ".crt");
  }
  return made;
}

Endpoint LocalEndpoint(int64_t port, const std::filesystem::path& tls_folder = {}) {
  Endpoint endpoint;
  endpoint.host = "127.0.0.1";
  endpoint.port = port;
  endpoint.tls_folder = tls_folder;
  return endpoint;
}

std::unique_ptr<Sender> StartSender(const Endpoint& endpoint,
                                    milliseconds closing_patience = seconds(20)) {
  SenderOptions options;
  options.endpoint = endpoint;
  options.hello = {0, "pytorch"};
  options.closing_patience = closing_patience;
  auto sender = Sender::Start(options);
  EXPECT_TRUE(sender.ok()) << sender.status().message();
  return *std::move(sender);
}

// Sends `calls` calls and returns those that arrived.
std::vector<std::string> Exchange(const Endpoint& server, int calls,
                                  const std::filesystem::path& client_folder) {
  Inbox inbox(InboxOptions{});
  auto receiver = ReceiveConnections(server, inbox);
  EXPECT_TRUE(receiver.ok()) << receiver.status().message();
  auto sender = StartSender(LocalEndpoint((*receiver)->port(), client_folder));
  for (int i = 0; i < calls; ++i) {
    EXPECT_TRUE(sender->Queue(CallOf(std::to_string(i), std::vector<float>(20'000, 1.0F))));
  }
  sender->Close();
  EXPECT_EQ(sender->counts().taken_calls, static_cast<uint64_t>(calls));
  std::vector<std::string> names;
  while (const auto taken = inbox.Take(milliseconds(0))) {
    names.push_back(taken->call.name);
    EXPECT_EQ(test_support::ValuesOf(taken->call), std::vector<float>(20'000, 1.0F));
    inbox.Done(*taken);
  }
  EXPECT_TRUE(Eventually([&] { return inbox.news().at(0).has_ended; }));
  inbox.Close();
  return names;
}

TEST(OnlineConnection, CallsArriveInOrder) {
  std::vector<std::string> expected;
  for (int i = 0; i < 50; ++i) {
    expected.push_back(std::to_string(i));
  }
  EXPECT_EQ(Exchange(LocalEndpoint(0), 50, {}), expected);
}

TEST(OnlineConnection, CallsArriveOverTls) {
  const TemporaryFolder certificates;
  if (!MakeCertificates(certificates)) {
    GTEST_SKIP() << "the command openssl is not installed";
  }
  EXPECT_EQ(Exchange(LocalEndpoint(0, certificates.path()), 5, certificates.path()).size(), 5U);
}

TEST(OnlineConnection, OnlyCertificatesOfTheSameAuthorityAreTrusted) {
  const TemporaryFolder own;
  const TemporaryFolder foreign;
  if (!MakeCertificates(own) || !MakeCertificates(foreign)) {
    GTEST_SKIP() << "the command openssl is not installed";
  }
  Inbox inbox(InboxOptions{});
  const auto receiver = *ReceiveConnections(LocalEndpoint(0, own.path()), inbox);
  // A stranger who trusts the checker; one who has nothing to show at all.
  std::filesystem::copy_file(own / "ca.crt", foreign / "ca.crt",
                             std::filesystem::copy_options::overwrite_existing);
  auto stranger = StartSender(LocalEndpoint(receiver->port(), foreign.path()), seconds(1));
  EXPECT_TRUE(stranger->Queue(CallOf("a", {1})));
  auto plain = StartSender(LocalEndpoint(receiver->port()), seconds(1));
  EXPECT_TRUE(plain->Queue(CallOf("a", {1})));
  std::this_thread::sleep_for(milliseconds(300));
  stranger->Close();
  plain->Close();
  EXPECT_EQ(stranger->counts().taken_calls, 0U);
  EXPECT_EQ(stranger->counts().dropped_calls, 1U);
  EXPECT_EQ(plain->counts().taken_calls, 0U);
  EXPECT_FALSE(inbox.Take(milliseconds(0)).has_value());
  inbox.Close();
}

TEST(OnlineConnection, AFolderWithoutUsableCertificatesIsAnErrorBeforeAnythingIsSent) {
  const TemporaryFolder folder;
  Endpoint endpoint = LocalEndpoint(1, folder.path());
  EXPECT_FALSE(CheckEndpoint(endpoint, Side::kTraining).ok());
  for (const char* name : {"client.key", "client.crt", "ca.crt"}) {
    folder.Write(name, "no certificate");
  }
  EXPECT_TRUE(CheckEndpoint(endpoint, Side::kTraining).ok());
  EXPECT_FALSE(CheckEndpoint(endpoint, Side::kChecker).ok());
  SenderOptions options;
  options.endpoint = endpoint;
  const auto sender = Sender::Start(options);
  ASSERT_FALSE(sender.ok());
  EXPECT_NE(sender.status().message().find("client.crt"), std::string::npos);
}

TEST(OnlineConnection, ACheckerThatIsStartedAgainGetsWhatTheFirstOneDidNotTake) {
  auto first = std::make_unique<Inbox>(InboxOptions{});
  auto receiver = *ReceiveConnections(LocalEndpoint(0), *first);
  const int64_t port = receiver->port();
  auto sender = StartSender(LocalEndpoint(port));
  EXPECT_TRUE(sender->Queue(CallOf("a", {1})));
  EXPECT_TRUE(Eventually([&] { return sender->counts().taken_calls == 1; }));
  first->Close();
  receiver.reset();
  EXPECT_TRUE(sender->Queue(CallOf("b", {2})));
  EXPECT_TRUE(sender->Queue(CallOf("c", {3})));
  std::this_thread::sleep_for(milliseconds(100));
  Inbox second(InboxOptions{});
  receiver = *ReceiveConnections(LocalEndpoint(port), second);
  EXPECT_TRUE(Eventually([&] { return sender->counts().taken_calls == 3; }));
  EXPECT_EQ(second.Take(milliseconds(0))->call.name, "b");
  EXPECT_EQ(second.Take(milliseconds(0))->call.name, "c");
  EXPECT_GE(sender->counts().connections, 2U);
  sender->Close();
  EXPECT_EQ(sender->counts().dropped_calls, 0U);
  second.Close();
  receiver.reset();  // its threads look into the box
}

TEST(OnlineConnection, ARefusalIsFinalAndEverythingIsDropped) {
  InboxOptions options;
  options.ranks = {3};
  Inbox inbox(options);
  const auto receiver = *ReceiveConnections(LocalEndpoint(0), inbox);
  auto sender = StartSender(LocalEndpoint(receiver->port()));
  sender->Queue(CallOf("a", {1}));
  EXPECT_TRUE(Eventually([&] { return !sender->Queue(CallOf("b", {1})); }));
  sender->Close();
  EXPECT_EQ(sender->counts().taken_calls, 0U);
  EXPECT_FALSE(sender->is_moving());
  inbox.Close();
}

TEST(OnlineConnection, NobodyThereCostsNoTime) {
  const Listener taken = *Listen("127.0.0.1", 0);  // a port that answers to nobody
  const auto begin = std::chrono::steady_clock::now();
  auto sender = StartSender(LocalEndpoint(taken.port), milliseconds(100));
  EXPECT_FALSE(sender->is_moving());
  EXPECT_TRUE(sender->Queue(CallOf("a", {1})));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(5));
}

// What a checker says when somebody connects; then it reads until the training gives up.
void AnswerWith(const Listener& listener, std::string_view words) {
  const Socket guest = *AcceptOne(listener, Soon());
  ASSERT_GE(guest.descriptor(), 0);
  ASSERT_EQ(::send(guest.descriptor(), words.data(), words.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(words.size()));
  std::array<char, 4096> ignored;
  const auto end = Soon();
  while (std::chrono::steady_clock::now() < end) {
    const ssize_t count = ::recv(guest.descriptor(), ignored.data(), ignored.size(), 0);
    if (count == 0) {
      return;
    }
    std::this_thread::sleep_for(milliseconds(2));
  }
  ADD_FAILURE() << "the training did not give up";
}

TEST(OnlineConnection, ACheckerThatSpeaksNonsenseIsLeft) {
  const Listener listener = *Listen("127.0.0.1", 0);
  auto sender = StartSender(LocalEndpoint(listener.port), milliseconds(100));
  sender->Queue(CallOf("a", {1}));
  AnswerWith(listener,
             "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
  std::string other = TakenFrame(1234, 99).head;  // a frame, but of another session
  AnswerWith(listener, other);
  AnswerWith(listener, HelloFrame(1, 0, {0, "pytorch"}).head);  // what only a training says
  sender->Close();
  EXPECT_EQ(sender->counts().taken_calls, 0U);
  EXPECT_EQ(sender->counts().dropped_calls, 1U);
}

TEST(OnlineConnection, ATrainingThatSpeaksNonsenseIsDisconnectedAndTheOthersAreNot) {
  Inbox inbox(InboxOptions{});
  const auto receiver = *ReceiveConnections(LocalEndpoint(0), inbox);
  const Frame call = *CallFrame(5, 1, CallOf("a", {1}));
  std::string lying = HelloFrame(5, 0, {0, "pytorch"}).head + call.head;
  for (const std::string& words :
       {std::string("GET / HTTP/1.1\r\nHost: somewhere\r\nUser-Agent: somebody\r\n\r\n"),
        std::string(1000, '\0'), call.head, TakenFrame(1, 1).head,
        lying.substr(0, lying.size() - 1) + std::string(200, 'x')}) {
    Wire wire = *Wire::Connect("127.0.0.1", receiver->port(), nullptr, Soon());
    ASSERT_TRUE(wire.WriteAll(std::as_bytes(std::span(words)), Soon()).ok());
    std::array<std::byte, 4096> answer;
    Result<size_t> read = size_t{1};
    while (read.ok() && *read > 0) {
      read = wire.Read(answer, Soon());
    }
    EXPECT_FALSE(read.ok()) << "it is disconnected";
  }
  auto sender = StartSender(LocalEndpoint(receiver->port()));
  sender->Queue(CallOf("good", {1}));
  sender->Close();
  EXPECT_EQ(inbox.Take(seconds(10))->call.name, "good");
  inbox.Close();
}

TEST(OnlineConnection, AFullInboxHoldsTheSenderBackAndLosesNothing) {
  InboxOptions options;
  options.most_bytes = 200'000;  // two calls
  Inbox inbox(options);
  const auto receiver = *ReceiveConnections(LocalEndpoint(0), inbox);
  auto sender = StartSender(LocalEndpoint(receiver->port()));
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(sender->Queue(CallOf(std::to_string(i), std::vector<float>(20'000))));
  }
  EXPECT_TRUE(Eventually([&] { return sender->counts().taken_calls == 2; }));
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_EQ(sender->counts().taken_calls, 2U);
  std::thread judge([&] {
    for (int i = 0; i < 20; ++i) {
      const auto taken = inbox.Take(seconds(20));
      ASSERT_TRUE(taken.has_value());
      EXPECT_EQ(taken->call.name, std::to_string(i));
      inbox.Done(*taken);
    }
  });
  sender->Close();
  judge.join();
  EXPECT_EQ(sender->counts().taken_calls, 20U);
  inbox.Close();
}

TEST(OnlineConnection, ACallThatIsTooLargeForTheCheckerIsPassedOver) {
  InboxOptions options;
  options.most_bytes = 1000;
  Inbox inbox(options);
  const auto receiver = *ReceiveConnections(LocalEndpoint(0), inbox);
  auto sender = StartSender(LocalEndpoint(receiver->port()));
  sender->Queue(CallOf("large", std::vector<float>(1'000'000)));
  sender->Queue(CallOf("small", {1}));
  sender->Close();
  EXPECT_EQ(inbox.Take(seconds(10))->call.name, "small");
  EXPECT_EQ(inbox.news().at(0).left_out, 1U);
  inbox.Close();
}

}  // namespace
}  // namespace msprobe::online
