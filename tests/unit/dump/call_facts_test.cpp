#include "src/dump/call_facts.h"

#include <gtest/gtest.h>

namespace msprobe::dump {
namespace {

TEST(EffectOf, KnowsTheCollectivesOfTheTableAndLaterOnes) {
  EXPECT_EQ(EffectOf("all_reduce"), CollectiveEffect::kSum);
  EXPECT_EQ(EffectOf("all_reduce_coalesced"), CollectiveEffect::kSum);
  for (const std::string_view api :
       {"reduce_scatter", "reduce_scatter_tensor", "_reduce_scatter_base"}) {
    EXPECT_EQ(EffectOf(api), CollectiveEffect::kScatteredSum) << api;
  }
  for (const std::string_view api : {"all_gather", "_all_gather_base", "all_gather_into_tensor",
                                     "all_gather_object", "_allgather_base"}) {
    EXPECT_EQ(EffectOf(api), CollectiveEffect::kGather) << api;
  }
  EXPECT_EQ(EffectOf("all_to_all_single"), CollectiveEffect::kExchange);
}

// A gather or a reduction to one rank is not what tensor parallelism adds up or experts gather.
TEST(EffectOf, IsOtherForCollectivesWithARootAndForTransfers) {
  for (const std::string_view api :
       {"reduce", "gather", "scatter", "broadcast", "gather_into_tensor", "send",
        "batch_isend_irecv", "barrier", ""}) {
    EXPECT_EQ(EffectOf(api), CollectiveEffect::kOther) << api;
  }
}

}  // namespace
}  // namespace msprobe::dump
