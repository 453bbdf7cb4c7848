// Which parameters of two checkpoints belong together.
#pragma once

#include <string>
#include <vector>

#include "src/checkpoint/checkpoint.h"

namespace msprobe::analysis::ckpt {

struct MatchedPair {
  std::string name;         // what the results call it
  checkpoint::Parameter a;  // made from the first checkpoint's; borrows from its files
  checkpoint::Parameter b;
  std::vector<std::string> notes;  // how the two were made comparable, when something was done
};

struct Unmatched {
  std::string name;
  std::string reason;  // why nothing of the other side fits; empty when there is no such name
};

struct MatchedParameters {
  std::vector<MatchedPair> pairs;  // in order of first appearance in the first checkpoint
  std::vector<Unmatched> only_in_a;
  std::vector<Unmatched> only_in_b;
  // Without partner, too, but no difference between the models: buffers that are computed anew.
  std::vector<Unmatched> left_out_a;
  std::vector<Unmatched> left_out_b;
  std::vector<std::string> warnings;
};

// Equal names belong together.
MatchedParameters MatchByName(const checkpoint::Checkpoint& a, const checkpoint::Checkpoint& b);

}  // namespace msprobe::analysis::ckpt
