"""Made-up traces of trainings, with the fields that torch.profiler writes: NVIDIA's names or AMD's.

A small simulation: threads of the host call operators and launch kernels; streams of the device run them one after the other, when
they are launched and what they depend on is done. A `Plan` says what the training is like; faults change a plan or a kernel's time.
"""
import gzip
import json
import random
from dataclasses import dataclass, field

MAIN, AUTOGRAD = 1000, 1001
HOST = 4242
EPOCH_US = 7_000_000_000.0  # times count from baseTimeNanoseconds

NVIDIA = {
    "launch": ("cuda_runtime", "cudaLaunchKernel"), "driver": ("cuda_driver", "cuLaunchKernelEx"),
    "graph": ("cuda_runtime", "cudaGraphLaunch"), "copy": ("cuda_runtime", "cudaMemcpyAsync"),
    "sync": ("cuda_runtime", "cudaStreamSynchronize"), "set": ("cuda_runtime", "cudaMemsetAsync"),
    "streams": (7, 20), "gemm": "sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize128x128x32",
    "other gemm": "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x64_8x5_tn_align1>(cutlass_80_simt_sgemm_128x64_8x5_tn_align1::Params)",
    "collective": "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevComm*, unsigned long, ncclWork*)",
    "flash": "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4> >(pytorch_flash::Flash_fwd_params)",
    "efficient": "fmha_cutlassF_f16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<cutlass::half_t>::Params)",
}
AMD = {
    "launch": ("cuda_runtime", "hipLaunchKernel"), "driver": ("cuda_runtime", "hipExtModuleLaunchKernel"),
    "graph": ("cuda_runtime", "hipGraphLaunch"), "copy": ("cuda_runtime", "hipMemcpyWithStream"),
    "sync": ("cuda_runtime", "hipStreamSynchronize"), "set": ("cuda_runtime", "hipMemsetAsync"),
    "streams": (0, 3), "gemm": "Cijk_Alik_Bljk_HHS_BH_Bias_HA_S_SAV_UserArgs_MT128x128x32_MI16x16x16x1_SN_LDSB1",
    "other gemm": "Cijk_Ailk_Bljk_SB_MT64x64x16_SE_1LDSB0_APM1_ABV0_ACED0_AF0EM1",
    "collective": "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)",
    "flash": "attn_fwd.kd", "efficient": "_ZN2ck16kernel_fmha_fwd_batched_v2",
}
COMMON = {
    "norm": "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::Half, float>(int, float, c10::Half const*)",
    "gelu": "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&)::lambda>",
    "add": "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::Half>, std::array<char*, 3ul> >",
    "cast": "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::lambda>",
    "softmax": "void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, float, float, float>",
    "loss": "void at::native::(anonymous namespace)::nll_loss_forward_reduce_cuda_kernel_2d<float, float, long>",
    "adam": "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdamMathFunctor<float, 4>, float>",
    "foreach": "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<TensorListMetadata<1>, BinaryOpScalarFunctor>",
    "triton": "triton_poi_fused_add_mul_native_layer_norm_3", "index": "void at::native::indexSelectLargeIndex<c10::Half, long>",
    "sort": "void at::native::radixSortKVInPlace<-2, -1, 32, 4, long, c10::Half>", "dropout": "fused_dropout_kernel_vec<float, 4>",
}


@dataclass
class Plan:
    vendor: str = "nvidia"
    steps: int = 2
    layers: int = 4
    rows: int = 512
    types: str = "c10::Half"
    seed: int = 0
    noise: float = 0.01
    host_us: float = 3.0            # of each operator
    loader_us: float = 300.0
    attention: str = "flash"        # or "efficient", "math"
    optimizer: str = "fused"        # or "foreach"
    graphs: bool = False            # the forward pass is launched by graphs
    collectives: int = 2            # per backward pass
    collective_us: float = 400.0
    hidden: bool = True             # collectives run beside the backward pass
    input_bytes_us: float = 60.0    # the copy of a batch to the device
    copies_per_layer: int = 0
    syncs_per_layer: int = 0
    casts_per_layer: int = 0
    calls: dict = field(default_factory=dict)       # operator: how often more
    factors: dict = field(default_factory=dict)     # operator: factor of its kernels' time
    kernels: dict = field(default_factory=dict)     # operator: another kernel
    clock: float = 1.0              # factor of all computing
    memory: dict = field(default_factory=dict)      # operator: factor of what it allocates
    annotations: bool = True        # "## forward ##" and the like
    step_markers: bool = True
    record_memory: bool = True
    earlier_kernels: int = 0        # launched before the profile began
    whole_us: bool = False          # times as old profilers wrote them
    text_streams: bool = False      # args.stream as a text
    shuffled: bool = False
    repeated: bool = False          # some events stand in the file twice
    direct: bool = False            # a kernel launched outside of operators
    devices: int = 1


class Trace:
    def __init__(self, plan):
        self.plan = plan
        self.names = dict(COMMON, **(NVIDIA if plan.vendor == "nvidia" else AMD))
        self.dice = random.Random(plan.seed)
        self.events = []
        self.clock = {MAIN: EPOCH_US + 1000, AUTOGRAD: EPOCH_US + 1000}
        self.free = {stream: EPOCH_US + 1000 for stream in self.names["streams"]}
        self.correlation = 500
        self.tid = MAIN
        self.reserved, self.address = 1 << 30, 1 << 40
        self.graph = None
        self.operator = None
        for count in range(plan.earlier_kernels):
            self.device_event("kernel", self.names["gemm"], 120, self.names["streams"][0], 100 + count, EPOCH_US + 900)

    # ---- events ----
    def event(self, category, name, start, end, pid=HOST, tid=None, **args):
        self.events.append({"ph": "X", "cat": category, "name": name, "pid": pid, "tid": self.tid if tid is None else tid,
                            "ts": start, "dur": end - start, "args": args})
        return self.events[-1]

    def jitter(self, us):
        return max(0.2, us * (1 + self.dice.gauss(0, self.plan.noise)))

    @property
    def now(self):
        return self.clock[self.tid]

    def spend(self, us):
        self.clock[self.tid] += self.jitter(us)

    def device_event(self, category, name, us, stream, correlation, earliest):
        start = max(self.free[stream], earliest)
        self.free[stream] = start + self.jitter(us)
        device = 0
        spelled = str(stream) if self.plan.text_streams else stream
        self.event(category, name, start, self.free[stream], pid=device, tid=stream, stream=spelled, device=device, context=1,
                   correlation=correlation, **{"External id": correlation})
        return start

    def call(self, kind, us=2.0):
        category, name = self.names[kind]
        self.correlation += 1 + self.dice.randint(0, 3)
        start = self.now
        self.spend(us)
        self.event(category, name, start, self.now, correlation=self.correlation, cbid=211, **{"External id": self.correlation})
        return self.correlation, start

    def flow(self, correlation, start, end, stream):
        if kind_has_flow(self):
            common = {"id": correlation, "cat": "ac2g", "name": "ac2g"}
            self.events.append(dict(common, ph="s", pid=HOST, tid=self.tid, ts=start))
            self.events.append(dict(common, ph="f", pid=0, tid=stream, ts=end, bp="e"))

    def launch(self, kernel, us, stream=None, kind="launch"):
        stream = self.names["streams"][0] if stream is None else stream
        name = self.names.get(kernel, kernel)
        if self.graph is not None:
            self.graph.append((name, us, stream))
            return
        correlation, start = self.call(kind)
        begun = self.device_event("kernel", name, us, stream, correlation, start + 4)
        self.flow(correlation, start, begun, stream)

    def copy(self, name, us, kind="copy", category="gpu_memcpy"):
        stream = self.names["streams"][0]
        correlation, start = self.call(kind)
        begun = self.device_event(category, name, us, stream, correlation, start + 4)
        self.flow(correlation, start, begun, stream)

    def wait(self):
        """The host waits until the computing stream is done."""
        category, name = self.names["sync"]
        start = self.now
        self.clock[self.tid] = max(self.now + 1, self.free[self.names["streams"][0]])
        self.correlation += 1
        self.event(category, name, start, self.now, correlation=self.correlation)

    def inside(self, name, body, category="cpu_op", shapes=None, allocates=0):
        """An operator around what `body` does."""
        number = len(self.events)
        self.events.append(None)  # callers stand before what they call
        start = self.now
        if category == "cpu_op":
            self.spend(self.plan.host_us)
        if allocates and self.plan.record_memory:
            self.allocate(allocates * self.plan.memory.get(name, 1))
        body()
        self.spend(0.5)
        args = {"External id": number}
        if category == "cpu_op":
            dims = shapes or [[self.plan.rows, 1024]]
            args.update({"Sequence number": number, "Fwd thread id": 0, "Input Dims": dims,
                         "Input type": [self.plan.types] * len(dims), "Ev Idx": number})
        event = self.event(category, name, start, self.now, **args)
        self.events.pop()
        self.events[number] = event

    def allocate(self, size):
        self.address += 1 << 20
        self.reserved += int(size)
        self.events.append({"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": HOST, "tid": self.tid, "ts": self.now,
                            "args": {"Total Reserved": self.reserved, "Total Allocated": self.reserved // 2, "Bytes": int(size),
                                     "Addr": self.address, "Device Id": 0, "Device Type": 1}})

    # ---- a training ----
    def op(self, names, kernel, us, shapes=None, kind="launch", allocates=1 << 20):
        """Operators inside of each other; the innermost launches a kernel."""
        name = names[-1]
        plan = self.plan
        us *= plan.clock * plan.factors.get(name, 1)
        kernel = plan.kernels.get(name, kernel)

        def nest(depth):
            if depth == len(names):
                self.launch(kernel, us, kind=kind)
            else:
                self.inside(names[depth], lambda: nest(depth + 1), shapes=shapes,
                            allocates=allocates if depth == len(names) - 1 else 0)
        for _ in range(plan.calls.get(name, 1)):
            nest(0)

    def linear(self, us):
        rows = self.plan.rows
        self.op(("aten::linear", "aten::addmm"), "gemm", us * rows / 512, shapes=[[1024], [rows, 1024], [1024, 1024]], kind="driver")

    def attention(self):
        kind = self.plan.attention
        if kind == "math":
            def unfused():
                self.op(("aten::matmul", "aten::bmm"), "gemm", 90)
                self.op(("aten::softmax", "aten::_softmax"), "softmax", 120)
                self.op(("aten::matmul", "aten::bmm"), "gemm", 90)
            self.inside("aten::scaled_dot_product_attention", lambda: self.inside("aten::_scaled_dot_product_attention_math", unfused))
            return
        self.op(("aten::scaled_dot_product_attention", "aten::_scaled_dot_product_%s_attention" % kind,
                 "aten::_%s_attention_forward" % kind), kind, 110 if kind == "flash" else 210)

    def layer(self):
        self.op(("aten::layer_norm", "aten::native_layer_norm"), "norm", 25)
        self.linear(90)
        self.attention()
        self.linear(60)
        self.op(("aten::gelu",), "gelu", 30)
        self.linear(90)
        self.op(("aten::add",), "add", 20)
        for _ in range(self.plan.copies_per_layer):
            self.inside("aten::to", lambda: self.inside("aten::_to_copy", lambda: self.inside("aten::copy_", lambda: self.copy(
                "Memcpy HtoD (Pageable -> Device)", 120))))
        for _ in range(self.plan.casts_per_layer):
            self.op(("aten::to", "aten::_to_copy", "aten::copy_"), "cast", 45)
        for _ in range(self.plan.syncs_per_layer):
            self.item()

    def item(self):
        def read():
            self.copy("Memcpy DtoH (Device -> Pageable)", 2)
            self.wait()
        self.inside("aten::item", lambda: self.inside("aten::_local_scalar_dense", read))
        self.spend(25)  # python looks at the number

    def forward(self):
        if self.plan.graphs:
            self.graph = []
        for _ in range(self.plan.layers):
            self.layer()
        if self.plan.graphs:
            kernels, self.graph = self.graph, None
            self.forget_host_work()
            correlation, start = self.call("graph", 8)
            for name, us, stream in kernels:
                self.device_event("kernel", name, us, stream, correlation, start + 10)
        self.op(("aten::cross_entropy_loss", "aten::nll_loss_forward"), "loss", 15)

    def forget_host_work(self):
        """What was called while a graph was recorded is not part of the profiled step."""
        begin, start = self.graph_start
        del self.events[begin:]
        self.clock[self.tid] = start

    def backward(self):
        engine = "autograd::engine::evaluate_function: "
        compute, side = self.names["streams"]
        every = max(1, self.plan.layers // max(1, self.plan.collectives))
        for layer in range(self.plan.layers):
            for us in (180, 120, 180):
                self.op((engine + "AddmmBackward0", "AddmmBackward0", "aten::mm"), "gemm", us * self.plan.rows / 512, kind="driver",
                        shapes=[[1024, self.plan.rows], [self.plan.rows, 1024]])
            if self.plan.attention != "math":
                kind = "ScaledDotProduct%sAttentionBackward0" % self.plan.attention.capitalize()
                self.op((engine + kind, kind, "aten::_%s_attention_backward" % self.plan.attention),
                        self.names[self.plan.attention].replace("fwd", "bwd").replace("cutlassF", "cutlassB"),
                        200 if self.plan.attention == "flash" else 330)
            self.op((engine + "GeluBackward0", "GeluBackward0", "aten::gelu_backward"), "gelu", 35)
            self.op((engine + "NativeLayerNormBackward0", "NativeLayerNormBackward0", "aten::native_layer_norm_backward"), "norm", 40)
            if self.plan.collectives and (layer + 1) % every == 0:
                ready = self.free[compute]
                def reduce():
                    correlation, start = self.call("driver")
                    self.device_event("kernel", self.names["collective"], self.plan.collective_us, side, correlation,
                                      max(start + 4, ready))
                self.inside("c10d::allreduce_", lambda: self.inside("nccl:all_reduce", reduce, category="user_annotation"))
                if not self.plan.hidden:
                    self.free[compute] = max(self.free[compute], self.free[side])
        self.free[compute] = max(self.free[compute], self.free[side])

    def optimizer(self):
        if self.plan.optimizer == "fused":
            self.op(("aten::_fused_adamw_",), "adam", 150)
            return
        for name in ("aten::_foreach_mul_", "aten::_foreach_lerp_", "aten::_foreach_addcmul_", "aten::_foreach_sqrt",
                     "aten::_foreach_div_", "aten::_foreach_addcdiv_"):
            self.op((name,), "foreach", 70)

    def annotated(self, name, body):
        if self.plan.annotations:
            self.inside(name, body, category="user_annotation")
        else:
            body()

    def step(self):
        loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
        self.inside(loader, lambda: self.spend(self.plan.loader_us), category="user_annotation")
        self.inside("aten::to", lambda: self.inside("aten::_to_copy", lambda: self.inside("aten::copy_", lambda: self.copy(
            "Memcpy HtoD (Pinned -> Device)", self.plan.input_bytes_us))))
        self.inside("aten::zero_", lambda: self.copy("Memset (Device)", 2, kind="set", category="gpu_memset"))
        self.graph_start = None

        def forward():
            self.graph_start = (len(self.events), self.now)
            self.forward()
        self.annotated("## forward ##", forward)
        if self.plan.direct:
            self.launch("triton", 40, kind="driver")

        def backward():
            self.clock[AUTOGRAD] = max(self.clock[AUTOGRAD], self.now)
            self.tid = AUTOGRAD
            self.backward()
            self.tid = MAIN
            self.clock[MAIN] = max(self.clock[MAIN], self.clock[AUTOGRAD])
        self.annotated("## backward ##", backward)
        self.inside("Optimizer.step#AdamW.step", self.optimizer, category="user_annotation")
        self.item()

    def run(self):
        for step in range(self.plan.steps):
            if self.plan.step_markers:
                start = self.now
                self.inside("ProfilerStep#%d" % (step + 5), self.step, category="user_annotation")
                # Spans the device's streams; no work itself.
                self.event("gpu_user_annotation", "ProfilerStep#%d" % (step + 5), start + 5, self.now + 3, pid=0,
                           tid=self.names["streams"][0], stream=self.names["streams"][0])
            else:
                self.step()
        return self

    # ---- the file ----
    def document(self):
        plan = self.plan
        events = [event for event in self.events if event is not None]
        rounded = []
        for event in events:
            event = dict(event)
            digits = 0 if plan.whole_us else 3
            start = round(event["ts"], digits)
            if "dur" in event:
                # Both ends are rounded, so that what touched still touches.
                event["dur"] = round(round(event["ts"] + event["dur"], digits) - start, digits)
            event["ts"] = start
            if plan.whole_us:
                event["ts"] = int(event["ts"])
                if "dur" in event:
                    event["dur"] = int(event["dur"])
            rounded.append(event)
        if plan.repeated:
            work = [event for event in rounded if event.get("cat") == "kernel"]
            rounded += [dict(event) for event in work[::7]]
        if plan.shuffled:
            self.dice.shuffle(rounded)
        for pid, name in ((HOST, "python"), (0, "python")):
            rounded.insert(0, {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "ts": 0, "args": {"name": name}})
        rounded.append({"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "PyTorch Profiler",
                        "ts": int(EPOCH_US), "dur": 10, "args": {"Op count": 0}})
        rounded.append({"ph": "i", "s": "g", "name": "Iteration Start: PyTorch Profiler", "pid": "Traces", "tid": "Trace PyTorch Profiler",
                        "ts": int(EPOCH_US)})
        device = {"id": 0, "name": "NVIDIA A100-SXM4-80GB" if plan.vendor == "nvidia" else "AMD Instinct MI300X"}
        return {"schemaVersion": 1, "deviceProperties": [device], "trace_id": "42", "displayTimeUnit": "ms",
                "baseTimeNanoseconds": 1700000000000000000, "traceEvents": rounded, "traceName": "made_up.pt.trace.json"}


def kind_has_flow(trace):
    """Old profilers of AMD's devices wrote no flows for some launches; numbers link all the same."""
    return trace.dice.random() < 0.9


def write(plan, path):
    document = Trace(plan).run().document()
    text = json.dumps(document)
    if str(path).endswith(".gz"):
        with gzip.open(path, "wt", encoding="ascii") as stream:
            stream.write(text)
    else:
        with open(path, "w", encoding="ascii") as stream:
            stream.write(text)
    return document
