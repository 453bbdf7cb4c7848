#include "src/checkpoint/common/optimizer_names.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "src/base/strings.h"

namespace msprobe::checkpoint {
namespace {

// Anywhere among the keys.
constexpr std::string_view kOptimizerKeys[] = {
    "optimizer",        "optimizers",       "optimizer_state_dict",
    "optimizer_states", "optimizer_state",  "optim",
    "optims",           "optim_state",      "optim_state_dict",
    "opt_state",        "optimizer_groups", "param_groups",
};
// As the first key.
constexpr std::string_view kBookkeepingKeys[] = {
    "rng_state",
    "rng_states",
    "rng_tracker_states",
    "random_rng_state",
    "np_rng_state",
    "torch_rng_state",
    "cuda_rng_state",
    "npu_rng_state",
    "lr_scheduler",
    "lr_schedulers",
    "opt_param_scheduler",
    "scheduler",
    "grad_scaler",
    "loss_scaler",
    "scaler",
    "amp",
    "args",
    "dataloader",
    "train_state",
    // MindSpore: one entry per parameter, "moments.NAME".
    "moments",
    "moment1",
    "moment2",
    "adam_m",
    "adam_v",
    "accum",
    "accu_grads",
};
// As the whole name.
constexpr std::string_view kBookkeepingNames[] = {
    "step",
    "epoch",
    "iteration",
    "global_step",
    "step_num",
    "epoch_num",
    "beta1_power",
    "beta2_power",
    "learning_rate",
    "lr",
    "momentum",
    "weight_decay",
    "loss_scale",
    "scale_sense",
    "scale_sense.loss_scale",
    "current_iterator_step",
    "last_overflow_iterator_step",
    "has_trained_epoches",
    "has_trained_steps",
    "checkpoint_version",
    "num_floating_point_operations_so_far",
};
// As the last key: what optimizers keep per parameter.
constexpr std::string_view kStateKeys[] = {
    "exp_avg",      "exp_avg_sq", "max_exp_avg_sq", "momentum_buffer",
    "master_param", "fp32_param", "_extra_state",
};

// "rng_state/shard_0_1" -> "rng_state": how sharded objects are named.
std::string_view WithoutShard(std::string_view key) { return key.substr(0, key.find('/')); }

}  // namespace

bool IsOptimizerState(std::string_view name) {
  if (base::IsOneOf(name, kBookkeepingNames)) {
    return true;
  }
  const std::vector<std::string_view> keys = base::Split(name, '.');
  return base::IsOneOf(WithoutShard(keys.front()), kBookkeepingKeys) ||
         base::IsOneOf(WithoutShard(keys.back()), kStateKeys) ||
         std::any_of(keys.begin(), keys.end(),
                     [](std::string_view key) { return base::IsOneOf(key, kOptimizerKeys); });
}

}  // namespace msprobe::checkpoint
