// Who may speak to whom: what a configuration must say, and what a shared secret keeps out.
#include "src/online/secret.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

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
using testing::HasSubstr;

std::chrono::steady_clock::time_point InTime() {
  return std::chrono::steady_clock::now() + seconds(20);
}

std::shared_ptr<const Secret> SecretOf(const std::string& text) {
  return std::make_shared<const Secret>(text);
}

Endpoint EndpointOf(const std::string& host, bool plaintext,
                    std::shared_ptr<const Secret> secret = nullptr, int64_t port = 31000) {
  Endpoint endpoint;
  endpoint.host = host;
  endpoint.port = port;
  endpoint.plaintext = plaintext;
  endpoint.secret = std::move(secret);
  return endpoint;
}

class SharedSecret : public testing::Test {
 protected:
  void SetUp() override { ::unsetenv(Secret::kVariable); }
  void TearDown() override { ::unsetenv(Secret::kVariable); }

  const TemporaryFolder folder_;
};

TEST_F(SharedSecret, PlaintextNeedsAWordAndALoopbackAddressOrASecret) {
  for (const Side side : {Side::kTraining, Side::kChecker}) {
    for (const char* host : {"127.0.0.1", "127.8.9.10", "10.0.0.2", "0.0.0.0"}) {
      Endpoint silent = EndpointOf(host, false);
      const Status refused = CheckEndpoint(silent, side);
      EXPECT_THAT(refused.message(), HasSubstr("unencrypted")) << host;
      EXPECT_THAT(refused.hint(), HasSubstr("\"plaintext\": true")) << host;
      Endpoint spoken = EndpointOf(host, true);
      const bool is_loopback = std::string_view(host).starts_with("127.");
      EXPECT_EQ(CheckEndpoint(spoken, side).ok(), is_loopback) << host;
      ::setenv(Secret::kVariable, "0123456789abcdef", 1);
      EXPECT_TRUE(CheckEndpoint(spoken, side).ok()) << host;
      EXPECT_NE(spoken.secret, nullptr);
      EXPECT_FALSE(CheckEndpoint(silent, side).ok()) << "a secret hides nothing: " << host;
      ::unsetenv(Secret::kVariable);
    }
  }
}

TEST_F(SharedSecret, AFolderThatEverybodyMayWriteToNeedsOne) {
  Endpoint endpoint;
  endpoint.folder = folder_.path();
  for (const auto& [mode, allowed] :
       {std::pair{0700, true}, {0770, true}, {0777, false}, {01777, false}}) {
    ASSERT_EQ(::chmod(folder_.path().c_str(), static_cast<mode_t>(mode)), 0);
    EXPECT_EQ(CheckEndpoint(endpoint, Side::kChecker).ok(), allowed) << mode;
    ::setenv(Secret::kVariable, "0123456789abcdef", 1);
    EXPECT_TRUE(CheckEndpoint(endpoint, Side::kTraining).ok()) << mode;
    ::unsetenv(Secret::kVariable);
  }
}

TEST_F(SharedSecret, AFileIsReadOnlyWhereNobodyElseMayReadIt) {
  const auto file = folder_.Write("secret", "0123456789abcdef\n");
  for (const auto& [mode, allowed] : {std::pair{0600, true},
                                      {0400, true},
                                      {0640, false},
                                      {0604, false},
                                      {0620, false},
                                      {0601, false}}) {
    ASSERT_EQ(::chmod(file.c_str(), static_cast<mode_t>(mode)), 0);
    const auto secret = Secret::Read(file);
    EXPECT_EQ(secret.ok(), allowed) << mode;
    if (!allowed) {
      EXPECT_THAT(secret.status().hint(), HasSubstr("chmod 600"));
    }
  }
  ASSERT_EQ(::chmod(file.c_str(), 0600), 0);
  // The end of the line is no part of it, and the file wins over the variable.
  ::setenv(Secret::kVariable, "another secret of another one", 1);
  EXPECT_EQ((*Secret::Read(file))->Mac().Finish(), SecretOf("0123456789abcdef")->Mac().Finish());
  EXPECT_EQ((*Secret::Read({}))->Mac().Finish(),
            SecretOf("another secret of another one")->Mac().Finish());
  ASSERT_EQ(::mkfifo((folder_ / "fifo").c_str(), 0600), 0);
  for (const auto& name : {"fifo", "missing", "."}) {
    EXPECT_THAT(Secret::Read(folder_ / name).status().message(), HasSubstr("secret_path")) << name;
  }
  for (const std::string text : {"", "short", "\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n"}) {
    test_support::Spill(file, text);
    EXPECT_THAT(Secret::Read(file).status().message(), HasSubstr("16 to 4096")) << text;
  }
}

// What a training with `training` gets of a checker with `checker`: calls that were taken.
uint64_t TakenWith(const std::shared_ptr<const Secret>& training,
                   const std::shared_ptr<const Secret>& checker) {
  Inbox inbox(InboxOptions{});
  const auto receiver = *ReceiveConnections(EndpointOf("127.0.0.1", true, checker, 0), inbox);
  SenderOptions options;
  options.endpoint = EndpointOf("127.0.0.1", true, training, receiver->port());
  options.hello = {0, "pytorch"};
  options.closing_patience = seconds(20);
  auto sender = *Sender::Start(options);
  for (int i = 0; i < 3; ++i) {
    sender->Queue(CallOf(std::to_string(i), std::vector<float>(70'000, 1.0F)));
  }
  sender->Close();
  uint64_t arrived = 0;
  while (const auto taken = inbox.Take(milliseconds(0))) {
    EXPECT_EQ(test_support::ValuesOf(taken->call), std::vector<float>(70'000, 1.0F));
    inbox.Done(*taken);
    ++arrived;
  }
  EXPECT_EQ(arrived, sender->counts().taken_calls);
  inbox.Close();
  return arrived;
}

TEST_F(SharedSecret, OnlyTwoThatHaveTheSameOneSpeakToEachOther) {
  const auto one = SecretOf("one secret of both sides");
  const auto same = SecretOf("one secret of both sides");
  const auto other = SecretOf("one secret of both sideS");
  EXPECT_EQ(TakenWith(one, same), 3U);
  EXPECT_EQ(TakenWith(nullptr, nullptr), 3U);
  EXPECT_EQ(TakenWith(one, other), 0U);
  EXPECT_EQ(TakenWith(one, nullptr), 0U);
  EXPECT_EQ(TakenWith(nullptr, one), 0U);
}

Result<std::pair<FrameHeader, std::vector<std::byte>>> ReadFrame(Wire& wire) {
  std::array<std::byte, kFrameHeaderBytes> head;
  MSP_RETURN_IF_ERROR(wire.ReadAll(head, InTime()));
  MSP_ASSIGN_OR_RETURN(const FrameHeader header, ReadFrameHeader(head));
  std::vector<std::byte> payload(header.payload_bytes);
  MSP_RETURN_IF_ERROR(wire.ReadAll(payload, InTime()));
  return std::pair(header, std::move(payload));
}

Status Say(Wire& wire, std::string_view bytes) {
  return wire.WriteAll(std::as_bytes(std::span(bytes.data(), bytes.size())), InTime());
}

bool IsDisconnected(Wire& wire) {
  std::array<std::byte, 4096> rest;
  Result<size_t> read = size_t{1};
  while (read.ok() && *read > 0) {
    read = wire.Read(rest, InTime());
  }
  return !read.ok();
}

TEST_F(SharedSecret, AProofThatSomebodyHasSeenIsWorthNothing) {
  const auto secret = SecretOf("one secret of both sides");
  Inbox inbox(InboxOptions{});
  const auto receiver = *ReceiveConnections(EndpointOf("127.0.0.1", true, secret, 0), inbox);
  const kernels::Sha256Digest own{};
  kernels::Sha256Digest seen{};
  std::string first_frames;
  for (const bool again : {false, true}) {
    Wire wire = *Wire::Connect("127.0.0.1", receiver->port(), nullptr, InTime());
    ASSERT_TRUE(Say(wire, DigestFrame(FrameKind::kGreeting, 7, own).head).ok());
    const auto challenge = ReadFrame(wire);
    ASSERT_TRUE(challenge.ok());
    ASSERT_EQ(challenge->first.kind, FrameKind::kChallenge);
    const Handshake handshake(*secret, 7, own, *ReadDigest(challenge->second));
    if (!again) {
      seen = handshake.ProofOf(Side::kTraining);
    }
    ASSERT_TRUE(Say(wire, DigestFrame(FrameKind::kProof, 7, seen).head).ok());
    const auto answer = ReadFrame(wire);
    ASSERT_TRUE(answer.ok());
    if (again) {
      EXPECT_EQ(answer->first.kind, FrameKind::kRefused);
      EXPECT_TRUE(IsDisconnected(wire));
      continue;
    }
    ASSERT_EQ(answer->first.kind, FrameKind::kProof);
    EXPECT_EQ(*ReadDigest(answer->second), handshake.ProofOf(Side::kChecker));
    // Behind the proof: a frame without one of its own, then a proven one twice.
    Seal seal = handshake.SealOf(Side::kTraining);
    const auto proven = [&seal](const Frame& frame) {
      const kernels::Sha256Digest proof = seal.Of(frame);
      std::string bytes = frame.head;
      for (const auto& part : frame.data) {
        bytes.append(reinterpret_cast<const char*>(part.data()), part.size());
      }
      return bytes + std::string(reinterpret_cast<const char*>(proof.data()), proof.size());
    };
    ASSERT_TRUE(Say(wire, proven(HelloFrame(7, 0, {0, "pytorch"}))).ok());
    ASSERT_TRUE(ReadFrame(wire).ok());
    const Call call = CallOf("good", {1});
    const std::string bytes = proven(*CallFrame(7, 1, call));
    ASSERT_TRUE(Say(wire, bytes).ok());
    EXPECT_EQ(inbox.Take(seconds(10))->call.name, "good");
    ASSERT_TRUE(Say(wire, bytes).ok());
    EXPECT_TRUE(IsDisconnected(wire));
  }
  EXPECT_FALSE(inbox.Take(milliseconds(0)).has_value());
  inbox.Close();
}

TEST_F(SharedSecret, ACheckerThatDoesNotKnowItGetsNoCalls) {
  const Listener listener = *Listen("127.0.0.1", 0);
  SenderOptions options;
  options.endpoint =
      EndpointOf("127.0.0.1", true, SecretOf("one secret of both sides"), listener.port);
  options.hello = {0, "pytorch"};
  options.closing_patience = milliseconds(100);
  auto sender = *Sender::Start(options);
  sender->Queue(CallOf("secret", {1}));
  Socket socket;
  while (socket.descriptor() < 0) {
    socket = *AcceptOne(listener, InTime());
  }
  Wire wire = *Wire::Accept(std::move(socket), nullptr, InTime());
  const auto greeting = ReadFrame(wire);
  ASSERT_TRUE(greeting.ok());
  EXPECT_EQ(greeting->first.kind, FrameKind::kGreeting);
  ASSERT_TRUE(Say(wire, DigestFrame(FrameKind::kChallenge, greeting->first.session, {}).head).ok());
  ASSERT_TRUE(ReadFrame(wire).ok());
  ASSERT_TRUE(Say(wire, DigestFrame(FrameKind::kProof, greeting->first.session, {}).head).ok());
  EXPECT_TRUE(IsDisconnected(wire));
  sender->Close();
  EXPECT_EQ(sender->counts().taken_calls, 0U);
}

TEST_F(SharedSecret, StrangersAreGoneInTimeAndHoldNobodyUp) {
  Inbox inbox(InboxOptions{});
  const auto receiver = *ReceiveConnections(EndpointOf("127.0.0.1", true, nullptr, 0), inbox);
  std::vector<Wire> silent;
  for (int i = 0; i < 20; ++i) {
    silent.push_back(*Wire::Connect("127.0.0.1", receiver->port(), nullptr, InTime()));
  }
  // One that drips: a byte now and then is not enough.
  const std::string hello = HelloFrame(9, 0, {0, "pytorch"}).head;
  const auto begun = std::chrono::steady_clock::now();
  Status dripped;
  for (size_t at = 0;
       dripped.ok() && at < hello.size() && std::chrono::steady_clock::now() - begun < seconds(30);
       ++at) {
    dripped = Say(silent[0], hello.substr(at, 1));
    std::this_thread::sleep_for(milliseconds(300));
  }
  EXPECT_FALSE(dripped.ok()) << "it is disconnected";
  for (Wire& wire : silent) {
    EXPECT_TRUE(IsDisconnected(wire));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begun, seconds(25));
  EXPECT_EQ(TakenWith(nullptr, nullptr), 3U);
  // Large frames are for those who are known.
  Wire wire = *Wire::Connect("127.0.0.1", receiver->port(), nullptr, InTime());
  const Call call = CallOf("a", std::vector<float>(10'000));
  ASSERT_TRUE(Say(wire, CallFrame(5, 1, call)->head).ok());
  EXPECT_TRUE(IsDisconnected(wire));
  inbox.Close();
}

TEST_F(SharedSecret, FilesOfAFolderWithoutItsProofAreLeftOut) {
  const auto send = [&](const std::string& name, const std::shared_ptr<const Secret>& secret) {
    SenderOptions options;
    options.endpoint.folder = folder_.path();
    options.endpoint.secret = secret;
    options.hello = {0, "pytorch"};
    auto sender = *Sender::Start(options);
    sender->Queue(CallOf(name, {1, 2}));
    sender->Close();
  };
  const auto secret = SecretOf("one secret of both sides");
  send("without", nullptr);
  send("another", SecretOf("one secret of others side"));
  send("right", secret);
  InboxOptions options;
  options.ranks = {0};
  Inbox inbox(options);
  Endpoint endpoint;
  endpoint.folder = folder_.path();
  endpoint.secret = secret;
  const auto receiver = *ReceiveFolder(endpoint, inbox);
  std::vector<std::string> names;
  const auto end = InTime();
  while (!inbox.is_over() && std::chrono::steady_clock::now() < end) {
    if (const auto taken = inbox.Take(milliseconds(20))) {
      names.push_back(taken->call.name);
      inbox.Done(*taken);
    }
  }
  EXPECT_EQ(names, std::vector<std::string>{"right"});
  inbox.Close();
}

}  // namespace
}  // namespace msprobe::online
