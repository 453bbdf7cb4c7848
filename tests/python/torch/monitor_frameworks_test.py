"""Optimizers of Megatron, DeepSpeed and FSDP by stand-ins: objects that have the attributes which those frameworks' objects
have, on real PyTorch tensors. None of the frameworks themselves is used here.
"""
import sys
import types
import unittest
import unittest.mock

try:
    import torch
except ImportError:
    print("PyTorch is not installed: skipped")
    sys.exit(77)

from msprobe.pytorch.monitor import optimizers, parameters, wrappers

from monitor_case import MonitorCase


def watched_by(optimizer, main_gradients=False):
    return types.SimpleNamespace(optimizer=optimizer, main_gradients=main_gradients)


def parameter(*values):
    return torch.nn.Parameter(torch.tensor(values))


def named(tensor):
    return parameters.Parameter(tensor, "0:weight", "weight", False)


def moments(*values):
    return {"exp_avg": torch.tensor(values), "exp_avg_sq": torch.tensor(values) ** 2, "step": 1}


class Adapter(unittest.TestCase):
    def make(self, class_name, main_gradients=False, **attributes):
        optimizer = type(class_name, (), {})()
        vars(optimizer).update(attributes)
        return optimizers.make(watched_by(optimizer, main_gradients))

    def first_moment(self, adapter, tensor):
        adapter.refresh([named(tensor)])
        state = adapter.state(named(tensor))
        return None if state is None else state["exp_avg"].tolist()


class Plain(Adapter):
    def test_a_state_by_parameter(self):
        weight = parameter(1.0)
        for attributes in ({"state": {weight: moments(2.0)}},
                           {"optimizer": types.SimpleNamespace(state={weight: moments(2.0)})},
                           {"param_to_cpu_states_map": {weight: moments(2.0)}, "state": {weight: moments(3.0)}}):
            self.assertEqual(self.first_moment(self.make("FP32Optimizer", **attributes), weight), [2.0])

    def test_looking_makes_no_state(self):
        optimizer = torch.optim.Adam([parameter(1.0)])
        self.assertIsNone(self.first_moment(optimizers.make(watched_by(optimizer)), parameter(1.0)))
        self.assertEqual(len(optimizer.state), 0)

    def test_main_gradients_come_first_where_they_are(self):
        weight = parameter(1.0)
        weight.grad = torch.tensor([1.0])
        self.assertEqual(self.make("Adam", True).gradient(named(weight)).tolist(), [1.0])
        weight.main_grad = torch.tensor([2.0])
        self.assertEqual(self.make("Adam", True).gradient(named(weight)).tolist(), [2.0])
        self.assertEqual(self.make("Adam", False).gradient(named(weight)).tolist(), [1.0])


class MegatronStandIn(Adapter):
    def test_states_of_the_float32_copies(self):
        low, high = parameter(1.0), parameter(1.0)
        member = dict(float16_groups=[[low]], fp32_from_float16_groups=[[high]],
                      optimizer=types.SimpleNamespace(state={high: moments(4.0)}))
        self.assertEqual(self.first_moment(self.make("Float16OptimizerWithFloat16Params", **member), low), [4.0])
        own = parameter(3.0)
        member["optimizer"].state[own] = moments(5.0)  # one that is float32 by itself
        self.assertEqual(self.first_moment(self.make("Float16OptimizerWithFloat16Params", **member), own), [5.0])

    def test_chained_optimizers(self):
        lows, highs = [parameter(1.0), parameter(2.0)], [parameter(1.0), parameter(2.0)]
        members = []
        for index in range(2):
            member = type("Float16OptimizerWithFloat16Params", (), {})()
            member.float16_groups, member.fp32_from_float16_groups = [[lows[index]]], [[highs[index]]]
            member.optimizer = types.SimpleNamespace(state={highs[index]: moments(float(index))})
            members.append(member)
        adapter = self.make("ChainedOptimizer", chained_optimizers=members)
        self.assertEqual(self.first_moment(adapter, lows[1]), [1.0])
        self.assertEqual(self.first_moment(adapter, lows[0]), [0.0])

    def test_a_chain_of_optimizers_of_float32(self):
        weights = [parameter(1.0), parameter(2.0)]
        members = []
        for index, weight in enumerate(weights):
            members.append(type("FP32Optimizer", (), {})())
            members[-1].optimizer = types.SimpleNamespace(state={weight: moments(float(index))})
        # A chain's own state is a mapping without get(), by member and parameter.
        own_state = type("ChainState", (), {"__len__": lambda self: len(weights)})()
        adapter = self.make("ChainedOptimizer", chained_optimizers=members, state=own_state)
        self.assertEqual([self.first_moment(adapter, weight) for weight in weights], [[0.0], [1.0]])
        self.assertIsNone(self.first_moment(adapter, parameter(3.0)))

    def test_shards_of_a_distributed_optimizer(self):
        first, middle, last, absent = parameter(1.0, 2.0, 3.0), parameter(4.0), parameter(5.0, 6.0), parameter(7.0)
        for tensor in (first, middle, last, absent):
            tensor.main_grad = tensor.detach() * 10
        shards = [torch.zeros(2), torch.zeros(1), torch.zeros(1)]
        adapter = self.make("DistributedOptimizer", True, model_float16_groups=[[first, middle, last]],
                            shard_fp32_from_float16_groups=[shards],
                            optimizer=types.SimpleNamespace(state={shards[0]: moments(1.0, 2.0)}))
        everything = [named(tensor) for tensor in (first, middle, last, absent)]
        adapter.refresh(everything)
        gradients = [adapter.gradient(item) for item in everything]
        self.assertEqual([None if gradient is None else gradient.tolist() for gradient in gradients],
                         [[20.0, 30.0], [40.0], [50.0], None])
        self.assertEqual(adapter.state(everything[0])["exp_avg"].tolist(), [1.0, 2.0])
        self.assertIsNone(adapter.state(everything[3]))

    def test_a_distributed_optimizer_without_its_groups_is_told(self):
        with self.assertRaisesRegex(AttributeError, "DistributedOptimizer has no model_float16_groups"):
            self.make("DistributedOptimizer").refresh([])


class DeepSpeedStandIn(Adapter):
    def test_stage_0(self):
        weights = [parameter(1.0, 1.0), parameter(2.0)]
        flat = torch.zeros(3)
        adapter = self.make("BF16_Optimizer", bf16_groups=[weights], fp32_groups_flat_partition=[flat],
                            fp32_groups_gradient_dict=[[torch.tensor([5.0, 5.0]), torch.tensor([6.0])]],
                            state={flat: moments(7.0, 8.0, 9.0)})
        self.assertEqual(self.first_moment(adapter, weights[1]), [9.0])
        self.assertEqual(adapter.gradient(named(weights[1])).tolist(), [6.0])
        self.assertIsNone(adapter.gradient(named(parameter(1.0))))

    def test_stage_0_on_two_ranks(self):
        weights = [parameter(1.0), parameter(2.0, 2.0), parameter(3.0)]
        moments_of = {}
        for rank, states in enumerate([(7.0, 8.0), (9.0, 10.0)]):
            flat = torch.zeros(2)
            adapter = self.make("BF16_Optimizer", bf16_groups=[weights], fp32_groups_flat_partition=[flat],
                                partition_count=[2], real_dp_process_group=[None], state={flat: moments(*states)})
            with unittest.mock.patch("torch.distributed.get_rank", return_value=rank):
                moments_of[rank] = [self.first_moment(adapter, weight) for weight in weights]
        self.assertEqual(moments_of, {0: [[7.0], [8.0], None], 1: [None, [9.0], [10.0]]})

    def stage_2(self, **more):
        fragment = types.SimpleNamespace
        weights = [parameter(1.0), parameter(2.0, 2.0), parameter(3.0)]
        flat = torch.nn.Parameter(torch.zeros(3))
        names = {weights[0]: "a", weights[1]: "b", weights[2]: "c"}
        slices = [{"b": fragment(start=0, numel=2), "c": fragment(start=2, numel=1)}]
        attributes = dict(bit16_groups=[weights], single_partition_of_fp32_groups=[flat], param_names=names,
                          averaged_gradients={0: [torch.tensor([1.0, 2.0]), torch.tensor([3.0])]},
                          state={flat: moments(4.0, 5.0, 6.0)}, cpu_offload=False)
        attributes.update(more)
        adapter = self.make("DeepSpeedZeroOptimizer", **attributes)
        adapter.optimizer.state_dict = lambda: {"param_slice_mappings": slices}
        adapter.refresh([named(weight) for weight in weights])
        return adapter, weights, flat

    def test_stages_1_and_2(self):
        adapter, weights, _ = self.stage_2()
        self.assertIsNone(adapter.gradient(named(weights[0])))  # of another rank
        self.assertIsNone(adapter.state(named(weights[0])))
        self.assertEqual(adapter.gradient(named(weights[1])).tolist(), [1.0, 2.0])
        self.assertEqual(adapter.gradient(named(weights[2])).tolist(), [3.0])
        self.assertEqual(adapter.state(named(weights[2]))["exp_avg"].tolist(), [6.0])

    def test_gradients_offloaded_to_the_host(self):
        adapter, weights, flat = self.stage_2(cpu_offload=True)
        flat.grad = torch.tensor([7.0, 8.0, 9.0])
        self.assertEqual(adapter.gradient(named(weights[1])).tolist(), [7.0, 8.0])

    def test_stage_3(self):
        weights = [parameter(1.0), parameter(2.0)]
        flat = torch.zeros(4)
        adapter = self.make("DeepSpeedZeroOptimizer_Stage3", fp16_groups=[weights],
                            fp32_partitioned_groups_flat=[flat], grad_position={0: [0, 0, 2], 1: [0, 2, 2]},
                            averaged_gradients={0: [torch.tensor([1.0]), torch.tensor([2.0])]},
                            state={flat: moments(1.0, 2.0, 3.0, 4.0)})
        adapter.optimizer.get_param_id = lambda tensor: 0 if tensor is weights[0] else 1
        self.assertEqual(self.first_moment(adapter, weights[1]), [3.0, 4.0])
        self.assertEqual(adapter.gradient(named(weights[1])).tolist(), [2.0])

    def test_the_value_of_a_parameter_at_stage_3_is_the_part_beside_it(self):
        adapter = self.make("DeepSpeedZeroOptimizer_Stage3")
        empty, gathered = parameter(), parameter(1.0, 2.0)
        for tensor in (empty, gathered):
            tensor.ds_tensor = torch.tensor([5.0])
        self.assertEqual(adapter.value(named(empty)).tolist(), [5.0])
        self.assertEqual(adapter.value(named(gathered)).tolist(), [1.0, 2.0])


class WrappersAround(unittest.TestCase):
    """What a framework has put around an optimizer of PyTorch is found among all objects."""

    def wrapper(self, class_name, optimizer, **attributes):
        made = type(class_name, (), {})()
        vars(made).update(attributes, optimizer=optimizer)
        return made

    def found(self, optimizer, *tensors):
        return [(id(wrapper), inner) for wrapper, inner in wrappers.around([optimizer], {id(tensor) for tensor in tensors})]

    def test_flat_pieces_lead_to_the_wrapper_that_has_the_parameters(self):
        weight = parameter(1.0, 2.0)
        inner = torch.optim.Adam([parameter(0.0)])
        wrapper = self.wrapper("DeepSpeedZeroOptimizer", inner, bit16_groups=[[weight]])
        self.assertEqual(self.found(inner, weight), [(id(wrapper), [inner])])
        self.assertEqual(self.found(inner, parameter(1.0)), [])  # another model's

    def test_the_outermost_of_several_is_taken(self):
        weights = [parameter(1.0), parameter(2.0)]
        inner = [torch.optim.Adam([parameter(0.0)]) for _ in weights]
        members = [self.wrapper("Float16OptimizerWithFloat16Params", optimizer, float16_groups=[[weight]])
                   for optimizer, weight in zip(inner, weights)]
        chain = type("ChainedOptimizer", (), {})()
        chain.chained_optimizers = members
        for optimizer in inner:
            self.assertEqual(self.found(optimizer, *weights), [(id(chain), [optimizer])])

    def test_other_classes_are_left_alone(self):
        weight = parameter(1.0)
        inner = torch.optim.Adam([parameter(0.0)])
        kept = self.wrapper("MyOwnOptimizer", inner, groups=[[weight]])
        self.assertEqual(self.found(kept.optimizer, weight), [])


class PlaceholdersStandIn(MonitorCase):
    def test_parameters_whose_elements_are_elsewhere_while_they_are_watched(self):
        written = self.run_code("""
            model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            whole = model[0].weight.data
            model[0].weight.data = torch.empty(0)
            monitor = TrainerMon("config.json")
            monitor.set_monitor(model, optimizer)
            for step in range(2):
                model[0].weight.data = whole
                model(torch.ones(1, 2)).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
        """, dict(wg_distribution=True))
        self.assertNotIn("0.weight", [row["name"] for row in written.rows("grad_unreduced_1-1.csv")])
        self.assertIn("1.weight", [row["name"] for row in written.rows("grad_unreduced_1-1.csv")])


class BucketsStandIn(MonitorCase):
    def test_gradients_before_a_bucket_is_exchanged(self):
        written = self.run_code("""
            import types
            class _ParamAndGradBucketGroup:
                def __init__(self, buckets): self.buckets = buckets
                def start_grad_sync(self):
                    for bucket in self.buckets:
                        for parameter in bucket.params: parameter.main_grad.mul_(100)
            module = types.ModuleType("megatron.core.distributed.param_and_grad_buffer")
            module._ParamAndGradBucketGroup = _ParamAndGradBucketGroup
            sys.modules[module.__name__] = module
            original = _ParamAndGradBucketGroup.start_grad_sync
            model = nn.Linear(1, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            group = _ParamAndGradBucketGroup([types.SimpleNamespace(params=set(model.parameters()))])
            monitor = TrainerMon("config.json")
            monitor.set_monitor(model, optimizer)
            for step in range(2):
                for parameter in model.parameters(): parameter.main_grad = torch.full_like(parameter, 3.0)
                group.start_grad_sync()
                optimizer.step()
            monitor.close()
            assert _ParamAndGradBucketGroup.start_grad_sync is original
        """, dict(wg_distribution=True))
        self.assertEqual([(row["name"], row["norm"]) for row in written.rows("grad_unreduced_1-1.csv")],
                         [("weight", "3.0"), ("bias", "3.0")])
        self.assertEqual([row["norm"] for row in written.rows("grad_reduced_1-1.csv")], ["300.0", "300.0"])

    def test_flat_parameters_of_fsdp(self):
        written = self.run_code("""
            import types, importlib
            try:
                runtime = importlib.import_module("torch.distributed.fsdp._runtime_utils")
            except Exception:  # before PyTorch 2, or it cannot be imported here
                runtime = types.ModuleType("torch.distributed.fsdp._runtime_utils")
                sys.modules[runtime.__name__] = runtime
            def _post_backward_hook(state, handle, *unused): handle.flat_param.grad.mul_(0)
            runtime._post_backward_hook = _post_backward_hook
            class Wrapped(nn.Module):
                def __init__(self):
                    super().__init__()
                    self._fsdp_wrapped_module = nn.Linear(2, 1)
                def forward(self, x): return self._fsdp_wrapped_module(x)
            model = Wrapped()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            monitor = TrainerMon("config.json")
            monitor.set_monitor(model, optimizer)
            flat = types.SimpleNamespace(grad=torch.tensor([3.0, 4.0, 7.0]), _fqns=["weight", "bias"],
                                         _shapes=[torch.Size([1, 2]), torch.Size([1])])
            runtime._post_backward_hook(None, types.SimpleNamespace(flat_param=flat), None)
            optimizer.step()
        """, dict(wg_distribution=True))
        self.assertEqual([(row["name"].rpartition(".")[2], row["norm"], row["shape"])
                          for row in written.rows("grad_unreduced_0-0.csv")],
                         [("weight", "5.0", "[1, 2]"), ("bias", "7.0", "[1]")])


if __name__ == "__main__":
    unittest.main(verbosity=1)
