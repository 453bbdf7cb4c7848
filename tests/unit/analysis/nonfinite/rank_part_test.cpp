#include "src/analysis/nonfinite/rank_part.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "src/base/packed.h"

namespace msprobe::analysis::nonfinite {
namespace {

RankPart MadePart() {
  RankPart part;
  part.dump = RankDump(3);
  part.dump.folder = "step0/rank3";
  Operator& op = part.dump.operators.emplace_back();
  op.name = part.dump.names->Keep("Distributed.send.0.forward");
  op.output = kNan;
  dump::Communication call;
  call.api = "send";
  call.is_point_to_point = true;
  dump::Transfer& transfer = call.transfers.emplace_back();
  transfer.sends = true;
  transfer.peer = 4;
  op.call = part.dump.communications.Add(call);
  part.dump.endpoints.push_back({0, kNan, kNan});
  part.levels.push_back(
      {3, "Torch.mul.0.forward", Level::kHigh, Scene::kInputOutput, {1}, {"k"}, {0}});
  return part;
}

std::string Packed(const RankPart& part) {
  std::string bytes;
  base::Packer pack(bytes);
  pack(part);
  return bytes;
}

TEST(RankPart, ComesBackAsItWas) {
  const std::string bytes = Packed(MadePart());
  RankPart read;
  base::Unpacker unpack(bytes);
  unpack(read);
  ASSERT_TRUE(unpack.Ended());
  EXPECT_EQ(read.dump.operators[0].name, "Distributed.send.0.forward");
  EXPECT_EQ(read.dump.communications.rank(), 3);
  EXPECT_EQ(read.dump.communications.channels()[0].receiver, 4);
  EXPECT_EQ(Packed(read), bytes);
}

// A part is a file: places that lead nowhere are refused.
TEST(RankPart, PlacesThatLeadNowhereAreRefused) {
  const auto is_refused = [](const RankPart& part) {
    const std::string bytes = Packed(part);
    RankPart read;
    base::Unpacker unpack(bytes);
    unpack(read);
    return !unpack.Ended();
  };
  RankPart part = MadePart();
  part.dump.operators[0].call = 7;
  EXPECT_TRUE(is_refused(part));
  part = MadePart();
  part.dump.operators[0].output = 0xF0;
  EXPECT_TRUE(is_refused(part));
  part = MadePart();
  part.dump.endpoints[0].operator_place = 1;
  EXPECT_TRUE(is_refused(part));
  part = MadePart();
  part.dump.endpoints.clear();
  EXPECT_TRUE(is_refused(part));
  part = MadePart();
  part.levels[0].scene = static_cast<Scene>(9);
  EXPECT_TRUE(is_refused(part));
}

TEST(RankPart, AnyBytesAreReadWithoutHarm) {
  const std::string bytes = Packed(MadePart());
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (const char value : {'\x00', '\x02', '\x7f', '\xff'}) {
      std::string changed = bytes;
      changed[at] = value;
      RankPart read;
      base::Unpacker unpack(changed);
      unpack(read);
      if (!unpack.Ended()) {
        continue;
      }
      for (const Operator& op : read.dump.operators) {
        EXPECT_TRUE(op.call == Operator::kNoCall ||
                    op.call < read.dump.communications.call_count());
      }
    }
  }
}

}  // namespace
}  // namespace msprobe::analysis::nonfinite
