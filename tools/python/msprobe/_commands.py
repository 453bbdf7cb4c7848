"""The commands of msprobe as functions: `msprobe.compare("a", "b").verdict`.

Written by tools/dev/update_flag_tables.py from the program's own table of flags. Each flag is a keyword argument: `min_diff_us=5` is
`--min-diff-us 5`, True is a switch, a list becomes what the command takes. Change the table in tools/dev/python_api.py instead.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Mapping, Sequence

from msprobe import _results
from msprobe._arrays import Contents
from msprobe._results import Command, PathLike, Result

if TYPE_CHECKING:
    import numpy

_COMPARE = Command(("compare",), first="item", page="html", rows="json", stem="compare_result")
_CKPT_COMPARE = Command(("ckpt_compare",), default_table="parameters", first="Parameter", output="ckpt_similarity.json", own_format=True,
                        page="html", rows="json")
_PERF_COMPARE = Command(("perf_compare",), default_table="OverallMetrics", first="item", page="html", rows="json",
                        stem="performance_comparison_result")
_CONFIG_CHECK = Command(("config_check",), default_table="checks", first="item", own_format=True, page="html", rows="json")
_NAN_ANALYZE = Command(("nan_analyze",), first="section", own_format=True, page="html", rows="json")
_MONITOR_DIFF = Command(("monitor", "diff"), first="line", output=None)
_GRAPH = Command(("graph",), first="item", page="html")
_RECHECK = Command(("recheck",), first="Call", rows="csv", stem="recheck_result")
_SHOW = Command(("show",), output=None)
_GRAD_COMPARE = Command(("grad_compare",), first="Parameter", page="html", rows="csv", stem="similarities")
_RL_COMPARE = Command(("rl_compare",), page="html", rows="json")
_RESPONSE_ANOMALY = Command(("response_anomaly",), page="html", rows="csv")


def compare(test: PathLike | None = None, reference: PathLike | None = None, *, output: PathLike | None = None,
            input_path: PathLike | None = None, allow_truncated: bool = False, filter: str | None = None, call: str | None = None,
            fuzzy_match: bool = False, data_mapping: PathLike | None = None, cell_mapping: PathLike | bool | None = None,
            api_mapping: PathLike | bool | None = None, layer_mapping: PathLike | bool | None = None, layer_frames: bool = False,
            layout: str | None = None, rtol: float | None = None, atol: float | None = None, format: str | Sequence[str] | None = None,
            output_name: str | None = None, only_diff: bool = False, only_leading: bool = False, stack_mode: bool = False,
            compare_only: bool = False, repro: PathLike | None = None, force: bool = False, fail_on: str | Sequence[str] | None = None,
            junit: PathLike | None = None, target_path: PathLike | None = None, golden_path: PathLike | None = None,
            mode: str | None = None, xlsx: bool = False, diff_analyze: bool = False, is_print_compare_log: bool = False,
            rank: str | Sequence[int] | int | None = None, step: str | Sequence[int] | int | None = None, consistent_check: bool = False,
            backend: str | None = None, module_mapping: PathLike | None = None, strict: bool = False, postprocess: PathLike | None = None,
            metric: str | None = None, algorithms: PathLike | None = None, python: PathLike | None = None,
            metric_seconds: int | None = None, valid_rows: str | None = None, input_data: str | None = None, input_shape: str | None = None,
            onnx_fusion_switch: str | None = None, dym_shape_range: str | None = None, fusion_rule_file: PathLike | None = None,
            quant_fusion_rule_file: PathLike | None = None, close_fusion_rule_file: PathLike | None = None, threads: int | None = None,
            share: str | None = None, wait: float | None = None, lang: str | None = None) -> Result:
    """Compare two dumps and name the first call that diverges.

    rows(): a row per tensor, with the columns of the result table: statistics or, of tensor dumps, measures such as Cosine and MaxAbsErr.
    first: the call, parameter or input at which the two sides part.

    test: a dump.json, or the folder of a rank, a step or a whole dump
    reference: the same of the side that is right
    output: folder for the result files; without it nothing stays
    input_path: compare.json with npu_path and bench_path, instead of two paths.
    allow_truncated: Compare the complete entries of a truncated file.
    filter: Only test rows whose name matches, e.g. 'Module.*.output.*'.
    call: When kernel dumps are compared with a framework dump: the call to use if several match.
    fuzzy_match: Match rows regardless of their call numbers.
    data_mapping: YAML file with lines `test row name: reference row name`.
    cell_mapping: Map MindSpore cells to PyTorch modules; the YAML file is optional.
    api_mapping: Map MindSpore APIs to PyTorch APIs; the YAML file is optional.
    layer_mapping: Map MindSpore layers to PyTorch layers; the YAML file is optional.
    layer_frames: With --layer-mapping: also distinguish calls by the call stacks of a grouped stack.json.
    layout: auto: join ranks that share a model where the runs are not cut in the same way; none: pair ranks by number; a file: what
        layout.json does not say of both sides (default: auto).
    rtol: Relative difference up to which values agree (default: the rounding noise of each dtype).
    atol: Absolute difference up to which values agree (default: 0).
    format: Comma-separated list of result files to write: xlsx, csv, json or html (default: xlsx; csv with -tp and -gp).
    output_name: Start of the result file names, instead of compare_result.
    only_diff: Omit rows that agree from the result files.
    only_leading: Write tables only of the ranks to look at: the first one of each group that parts at the same call.
    stack_mode: Show call stacks when compare.json names a stack_path.
    compare_only: Do not write the advisor's text file.
    repro: Also write the first diverging call alone to this folder, as msprobe repro does.
    force: Replace existing result files; without it the command fails.
    fail_on: Exit with code 1 if one of these is found; may be repeated: error, warning, different or drift.
    junit: Also write a JUnit report for CI systems.
    target_path: The test dump.
    golden_path: Reference dump.
    mode: Kind of dumps; offline_model runs an .onnx file of REFERENCE first: auto, atb, torchair, offline_data or offline_model (default:
        auto).
    xlsx: Write a workbook instead of csv.
    diff_analyze: Find the first differing call over all ranks; written as JSON.
    is_print_compare_log: Write two log lines per row.
    rank: MindSpore static-graph kernel dumps: these ranks; with -m torchair: this one.
    step: MindSpore static-graph kernel dumps: these steps.
    consistent_check: Compare training with inference: match fused projections and renamed modules.
    backend: The trainer of --consistent-check: fsdp or megatron.
    module_mapping: With --consistent-check: YAML file with further lines `training module: inference module`.
    strict: Match and judge more strictly than the Python tool: see docs/commands/compare.md.
    postprocess: YAML file with calibration matrices that tensors are multiplied with before comparing.
    metric: Column of your own, an expression over the sums of the comparison, such as rmse=sqrt(difference_square_sum/count).
    algorithms: Columns of your own: files alg_<name>.py of this folder with column_name() and compare(a, b), which are run.
    python: Python that runs the files of --algorithms (with PyTorch) or the model of -m offline_model (with onnx and onnxruntime) (default:
        python3).
    metric_seconds: Time for the files of --algorithms per 256 MiB of tensors (default: 600).
    valid_rows: Only the first rows of the outputs of calls with this name are valid; KEYWORD is the argument whose sum is their number.
    input_data: With -m offline_model: inputs of the model, .npy or .bin (default: the same random numbers every time).
    input_shape: With -m offline_model: shapes of inputs, "name:1,3;name:1".
    onnx_fusion_switch: With -m offline_model: whether ONNX Runtime may fuse operators: True or False (default: True).
    dym_shape_range: With -m offline_model: the first of these shapes.
    fusion_rule_file: With -m offline_data: graph of the compiled model as JSON, which names what its operators were fused from.
    quant_fusion_rule_file: Like --fusion-rule-file, for the quantised model.
    close_fusion_rule_file: The same of the golden model, if it is compiled.
    threads: Number of threads; results do not depend on it (default: all cores).
    share: Do share K of N of the work, K from 1 to N; process 1 collects all and answers (default: what srun, mpirun or PMI says).
    wait: With several processes: how long the first one waits for the others (default: 1800).
    lang: Language of what is shown; files, JSON and CSV stay as they are: en or zh (default: detected).

    Raises UsageError, InputError. More: docs/commands/compare.md.
    """
    return _results.call(_COMPARE, locals(), ("test", "reference",), ("fail_on*",))


def ckpt_compare(test: PathLike, reference: PathLike, *, output: PathLike | None = None, optimizer: bool = False,
                 allow_missing_ranks: bool = False, mapping: PathLike | None = None, suggest_mapping: PathLike | None = None,
                 vocab_size: int | None = None, num_attention_heads: int | None = None, num_query_groups: int | None = None,
                 rtol: float | None = None, atol: float | None = None, also: PathLike | None = None, sensitivity: bool = False,
                 activations: str | None = None, compat: bool = False, format: str | Sequence[str] | None = None,
                 unmatched: PathLike | None = None, strict_json: bool = False, force: bool = False,
                 fail_on: str | Sequence[str] | None = None, junit: PathLike | None = None, threads: int | None = None,
                 share: str | None = None, wait: float | None = None, lang: str | None = None) -> Result:
    """Compare two checkpoints and name the parameters that differ.

    rows(): a row per parameter: shape_1, shape_2 (lists of int), l2 (relative), cos, max_abs and so on; 1 is test, 2 is reference. first:
    the parameter with the largest relative difference.

    test: a checkpoint of any kind: a folder, or a .pt, .bin, .safetensors, .npz or .ckpt file
    reference: the checkpoint to compare it with, of any kind
    output: the result file; without it nothing stays
    optimizer: Also compare optimizer states: tensors, learning rates, betas, steps.
    allow_missing_ranks: If ranks are missing, compare the others instead of failing.
    mapping: YAML file with rules that translate names of one checkpoint to those of the other.
    suggest_mapping: Write a draft of such rules, made from parameters of other names whose elements are equal.
    vocab_size: Size of the vocabulary; rows of embeddings beyond it are padding and ignored.
    num_attention_heads: Attention heads of the model, if neither checkpoint records them.
    num_query_groups: Key/value heads of the model, if fewer than attention heads.
    rtol: Elements agree when |a - b| <= ATOL + RTOL * |b|; b is of REFERENCE (default: 0).
    atol: See --rtol (default: 0).
    also: Another checkpoint that a side may hold by mistake, such as the step before: looked at for causes, beside the steps in the same
        folder.
    sensitivity: Rank quantised parameters and layers by the error of their weights, or with --activations by what it does to their outputs.
    activations: A dump with inputs of modules for --sensitivity: tensors give the effect, statistics a bound of it.
    compat: Merge Megatron shards exactly as the Python tool does, including its bugs.
    format: Also write all metrics, as NAME_details.FORMAT beside the result; comma-separated list: json, xlsx, csv or html.
    unmatched: Also write the unmatched names, with reasons, to this JSON file.
    strict_json: Write null instead of NaN and Infinity, which strict JSON does not allow.
    force: Replace existing result files; without it the command fails.
    fail_on: Exit with code 1 if one of these is found; may be repeated: error, missing, different or nan.
    junit: Also write a JUnit report for CI systems.
    threads: Number of threads; results do not depend on it (default: all cores).
    share: Do share K of N of the work, K from 1 to N; process 1 collects all and answers (default: what srun, mpirun or PMI says).
    wait: With several processes: how long the first one waits for the others (default: 1800).
    lang: Language of what is shown; files, JSON and CSV stay as they are: en or zh (default: detected).

    Raises UsageError, InputError. More: docs/commands/ckpt_compare.md.
    """
    return _results.call(_CKPT_COMPARE, locals(), ("test", "reference",), ("fail_on*",))


def perf_compare(test: PathLike | None = None, reference: PathLike | None = None, *, output: PathLike | None = None,
                 profiling_path: PathLike | None = None, benchmark_profiling_path: PathLike | None = None, strict: bool = False,
                 enable_profiling_compare: bool = False, enable_operator_compare: bool = False, enable_memory_compare: bool = False,
                 enable_communication_compare: bool = False, enable_api_compare: bool = False, enable_kernel_compare: bool = False,
                 disable_details: bool = False, disable_module: bool = False, step: str | int | None = None,
                 base_step: str | int | None = None, comparison_step: str | int | None = None, rank: int | None = None,
                 base_rank: int | None = None, comparison_rank: int | None = None, max_kernel_num: int | None = None,
                 op_name_map: str | None = None, use_input_shape: bool = False, gpu_flow_cat: str | None = None,
                 use_kernel_type: bool = False, match_algo: str | None = None, match_collectives: str | None = None,
                 exact_time: bool = False, format: str | Sequence[str] | None = None, top: int | None = None,
                 min_diff_us: float | None = None, force: bool = False, fail_on: str | Sequence[str] | None = None,
                 junit: PathLike | None = None, threads: int | None = None, share: str | None = None, wait: float | None = None,
                 lang: str | None = None) -> Result:
    """Compare two profiles and name what got slower or uses more memory.

    rows(): the overall metrics, in ms; rows("Kernels") and so on: the other sheets, see `tables`. first: the largest difference.

    test: a profile: a folder of the profiler, or a trace
    reference: the profile to compare it with
    output: folder for the result files; without it nothing stays
    profiling_path: The test profile, instead of PROFILE.
    benchmark_profiling_path: The reference profile, instead of REFERENCE.
    strict: Treat a damaged file as an error instead of a warning.
    enable_profiling_compare: Compare the shares of the time: computing, communication, free.
    enable_operator_compare: Compare device time per operator, or per module if both sides recorded modules.
    enable_memory_compare: Compare the memory that operators allocate.
    enable_communication_compare: Compare collectives.
    enable_api_compare: Compare host time per call.
    enable_kernel_compare: Compare kernels by name and family; for two NPUs also by type and shapes.
    disable_details: Write statistics only, no sheets of single calls.
    disable_module: Compare operators even if modules were recorded.
    step: Only this step of both sides.
    base_step: Only this step of REFERENCE; with --comparison-step.
    comparison_step: Only this step of PROFILE; with --base-step.
    rank: Only this rank of both sides.
    base_rank: Rank of REFERENCE, if it differs.
    comparison_rank: Rank of PROFILE, if it differs.
    max_kernel_num: Replace operators with more kernels than this by the operators they call; above 3.
    op_name_map: Operators to match under different names: "{'name1':'name2'}".
    use_input_shape: Match operators only if their input shapes are equal.
    gpu_flow_cat: Category of the events that link operators to kernels in a GPU trace.
    use_kernel_type: Compare kernels by type and core, from op_statistic.csv.
    match_algo: How to align operators; legacy: as the Python tool does, longest: by longest common subsequence (default: legacy).
    match_collectives: How the answer and summary.json match collectives; kind: NCCL with HCCL, name: as in the sheet (default: kind).
    exact_time: GPU times in nanoseconds instead of whole microseconds.
    format: Comma-separated list of result files to write: xlsx, csv, json or html (default: xlsx).
    top: Number of differences to show (default: 10).
    min_diff_us: Hide smaller differences, in microseconds (default: 0).
    force: Replace existing result files; without it the command fails.
    fail_on: Exit with code 1 on slower or METRIC>GROWTH, e.g. 'e2e>5%'; may be repeated.
    junit: Also write a JUnit report for CI systems.
    threads: Number of threads; results do not depend on it (default: all cores).
    share: Do share K of N of the work, K from 1 to N; process 1 collects all and answers (default: what srun, mpirun or PMI says).
    wait: With several processes: how long the first one waits for the others (default: 1800).
    lang: Language of what is shown; files, JSON and CSV stay as they are: en or zh (default: detected).

    Raises UsageError, InputError. More: docs/commands/perf_compare.md.
    """
    return _results.call(_PERF_COMPARE, locals(), ("test", "reference",), ("fail_on*",))


def config_check(test: PathLike | None = None, reference: PathLike | None = None, *, output: PathLike | None = None,
                 dump: PathLike | Sequence[PathLike] | None = None, compare: PathLike | Sequence[PathLike] | None = None,
                 verl_compare: PathLike | Sequence[PathLike] | None = None, slime_compare: PathLike | Sequence[PathLike] | None = None,
                 verl_verify: PathLike | Sequence[PathLike] | None = None, python: PathLike | None = None, dynamic: PathLike | None = None,
                 normalize_env: bool = False, normalize_pip: bool = False, ignore_collector_env: bool = False, compat: bool = False,
                 format: str | Sequence[str] | None = None, force: bool = False, fail_on: str | Sequence[str] | None = None,
                 junit: PathLike | None = None, lang: str | None = None) -> Result:
    """Check whether two runs are the same experiment: environment, settings, data, weights.

    rows(): a row per check; rows("findings"): what differs and why, rows("env") and so on: the rows of one check, see `tables`. first: the
    difference that matters most.

    test: a pack, a log or a launch script of a training
    reference: the same of the other training
    output: folder for the result files; without it nothing stays
    dump: Collect a pack; scripts (.sh, .py) and configs (.yaml, .yml, .json) are optional.
    compare: Compare two packs or checkpoints in the order of the Python tool: the reference first.
    verl_compare: Compare the settings printed in two training logs, .log or .txt.
    slime_compare: Compare the arguments that two trainings with slime printed into their logs, .log or .txt.
    verl_verify: Check the settings printed in a training log against requirements (default: built-in ones for verl).
    python: Python interpreter whose packages are collected (default: python3 on the PATH).
    dynamic: JSON object with parameters of the running program, as written by ConfigChecker.
    normalize_env: Treat variables with the same meaning as equal: 0, false, off and not set.
    normalize_pip: Accept package names in any spelling, and versions that contain '='.
    ignore_collector_env: Ignore the two variables that the Python tool sets while it collects.
    compat: Reproduce the Python tool's output exactly, including its bugs.
    format: Comma-separated list of result files to write: xlsx, json or html (default: xlsx).
    force: Replace existing result files; without it the command fails.
    fail_on: Exit with code 1 if one of these is found; may be repeated: error or warning.
    junit: Also write a JUnit report for CI systems.
    lang: Language of what is shown; files, JSON and CSV stay as they are: en or zh (default: detected).

    Raises UsageError, InputError. More: docs/commands/config_check.md.
    """
    return _results.call(_CONFIG_CHECK, locals(), ("test", "reference",),
                         ("dump+", "compare+", "verl_compare+", "slime_compare+", "verl_verify+", "fail_on*",))


def nan_analyze(dump: PathLike | None = None, *, output: PathLike | None = None, input_path: PathLike | None = None,
                all_steps: PathLike | None = None, mask_aware: bool | None = None, threshold: float | None = None, levels: bool = False,
                format: str | None = None, top: int | None = None, graph: bool = False, force: bool = False,
                fail_on: str | Sequence[str] | None = None, junit: PathLike | None = None, threads: int | None = None,
                share: str | None = None, wait: float | None = None, lang: str | None = None) -> Result:
    """Find the operator that made the first NaN or infinity.

    rows(): a row per origin: rank, op_name, input_args and output (lists of dict, as dump.json has them), stack_info. first: the operator
    that made the first NaN or infinity.

    dump: the folder of a step, or of a whole dump, whose steps are searched
    output: folder for the result files; without it nothing stays
    input_path: Folder of one step of the dump, instead of DUMP.
    all_steps: Folder of a dump, instead of DUMP: its steps are searched up to the first bad one.
    mask_aware: Do not report -inf masks and requested constants as origins.
    threshold: Also treat values beyond this magnitude as bad (default: none).
    levels: Also classify every operator on its own: critical, high, medium.
    format: Output format; html: text, and a page for browsers: text, json, md or html (default: text).
    top: Number of origins to describe (default: 1).
    graph: Also write the propagation as a graph, in JSON and for Mermaid.
    force: Replace existing result files; without it the command fails.
    fail_on: Exit with code 1 if one of these is found; may be repeated: origin or any.
    junit: Also write a JUnit report for CI systems.
    threads: Number of threads; results do not depend on it (default: all cores).
    share: Do share K of N of the work, K from 1 to N; process 1 collects all and answers (default: what srun, mpirun or PMI says).
    wait: With several processes: how long the first one waits for the others (default: 1800).
    lang: Language of what is shown; files, JSON and CSV stay as they are: en or zh (default: detected).

    Raises UsageError, InputError. More: docs/commands/nan_analyze.md.
    """
    return _results.call(_NAN_ANALYZE, locals(), ("dump",), ("mask_aware!", "fail_on*",))


def graph(test: PathLike | None = None, reference: PathLike | None = None, *, output: PathLike | None = None,
          input_path: PathLike | None = None, target_path: PathLike | None = None, golden_path: PathLike | None = None,
          layer_mapping: PathLike | bool | None = None, overflow_check: bool = False, fuzzy_match: bool = False,
          rank_size: int | None = None, tp: int | None = None, pp: int | None = None, vpp: int | None = None, cp: int | None = None,
          order: str | None = None, file_type: str | None = None, complete_stack: bool = False, format: str | Sequence[str] | None = None,
          force: bool = False, fail_on: str | Sequence[str] | None = None, junit: PathLike | None = None, threads: int | None = None,
          share: str | None = None, wait: float | None = None, lang: str | None = None) -> Result:
    """Show a dump as a tree of modules and calls, or two side by side.

    to_html(): the page with the tree. first: the call at which the two sides part.

    test: a dump.json, or the folder of a rank, a step or a whole dump, of level L0 or mix
    reference: the same of the side that is right
    output: folder for the result files; without it nothing stays
    input_path: JSON file with npu_path and, to compare, bench_path; instead of DUMP.
    target_path: The same as DUMP.
    golden_path: The same as REFERENCE.
    layer_mapping: Pair nodes by their place in the model; the YAML file with other names of layers is optional.
    overflow_check: Mark nodes with NaN or infinity: critical, high, medium.
    fuzzy_match: Pair the calls of a module by their order, whatever their numbers.
    rank_size: Merge the ranks of DUMP (and of REFERENCE, the second number), which share a model.
    tp: Ranks that share each layer, with --rank-size.
    pp: Stages of the pipeline, with --rank-size.
    vpp: Parts of the model on each rank of a pipeline, with --rank-size (default: 1).
    cp: Ranks that share a sequence, with --rank-size (default: what the calls of attention modules tell).
    order: Which ranks are neighbours, innermost first, with --rank-size (default: tp-cp-ep-dp-pp).
    file_type: json: write the merged dump instead of its graph, with --rank-size: db or json.
    complete_stack: Keep all lines of the call stacks in .vis files; .vis.db has them always.
    format: Comma-separated list of result files to write: vis, db, html, explorer or trace (default: vis,db).
    force: Replace existing result files; without it the command fails.
    fail_on: Exit with code 1 if one of these is found; may be repeated: error, unmatched or different.
    junit: Also write a JUnit report for CI systems.
    threads: Number of threads; results do not depend on it (default: all cores).
    share: Do share K of N of the work, K from 1 to N; process 1 collects all and answers (default: what srun, mpirun or PMI says).
    wait: With several processes: how long the first one waits for the others (default: 1800).
    lang: Language of what is shown; files, JSON and CSV stay as they are: en or zh (default: detected).

    Raises UsageError, InputError. More: docs/commands/graph.md.
    """
    return _results.call(_GRAPH, locals(), ("test", "reference",), ("fail_on*",))


def recheck(test: PathLike, reference: PathLike | None = None, *, output: PathLike | None = None, calls: str | Sequence[str] | None = None,
            direction: str | None = None, accumulation: str | None = None, factors: str | None = None,
            format: str | Sequence[str] | None = None, force: bool = False, fail_on: str | Sequence[str] | None = None,
            junit: PathLike | None = None, threads: int | None = None, share: str | None = None, wait: float | None = None,
            lang: str | None = None) -> Result:
    """Recompute the calls of a tensor dump in float64 and name those that are wrong.

    rows(): a row per call: Verdict, Ratio (error over its bound), Captured, Exact and so on. first: the first call beyond its bound.

    test: a dump of task tensor
    reference: a second dump of the same model
    output: folder for the result files; without it nothing stays
    calls: Only calls whose names contain one of these.
    direction: Which halves of the calls to recompute: forward, backward or both (default: both).
    accumulation: What calls on 16-bit tensors may round their steps to: any is float32 or the type itself (default: any).
    factors: What products of float32 tensors may round their factors to: any is float32, TF32 or HF32 (default: any).
    format: Comma-separated list of result files to write: csv or xlsx (default: csv).
    force: Replace existing result files; without it the command fails.
    fail_on: Exit with code 1 if one of these is found; may be repeated: beyond or unchecked.
    junit: Also write a JUnit report for CI systems.
    threads: Number of threads; results do not depend on it (default: all cores).
    share: Do share K of N of the work, K from 1 to N; process 1 collects all and answers (default: what srun, mpirun or PMI says).
    wait: With several processes: how long the first one waits for the others (default: 1800).
    lang: Language of what is shown; files, JSON and CSV stay as they are: en or zh (default: detected).

    Raises UsageError, InputError. More: docs/commands/recheck.md.
    """
    return _results.call(_RECHECK, locals(), ("test", "reference",), ("fail_on*",))


def show(path: PathLike, name: PathLike | None = None, *, filter: str | None = None, limit: int | None = None, stats: bool = False,
         threads: int | None = None, lang: str | None = None) -> Contents:
    """Show what is in a dump, a checkpoint or a tensor file.

    rows(): a row per tensor, argument or rank. The result is a `Contents`, which gives tensors as NumPy arrays: `arrays`.

    path: a dump, a tensor file, a folder of tensor files or a checkpoint
    name: a part of the names of rows; of a dump, of calls of its first rank
    filter: Only rows whose first column matches, e.g. '*.weight' or 'step0/*'.
    limit: Show at most N rows; 0: all (default: 200 on the screen, all in csv and json).
    stats: Compute max, min, mean, norm and count NaN, infinities and zeros of every tensor.
    threads: Number of threads; results do not depend on it (default: all cores).
    lang: Language of what is shown; files, JSON and CSV stay as they are: en or zh (default: detected).

    Raises UsageError, InputError. More: docs/commands/show.md.
    """
    return Contents.of(_SHOW, locals(), ("path", "name",))


def grad_compare(test: PathLike, reference: PathLike, *, output: PathLike | None = None, min_similarity: float | None = None,
                 max_drop: float | None = None, format: str | Sequence[str] | None = None, force: bool = False,
                 fail_on: str | Sequence[str] | None = None, junit: PathLike | None = None, threads: int | None = None,
                 lang: str | None = None) -> Result:
    """Compare the signs of two runs' gradients, as the task grad_probe stored them.

    rows(): a row per parameter, a column per step: shares of signs that agree, 0 to 1. first: the parameter with the lowest share.

    test: a folder of the task grad_probe
    reference: the same of the other training
    output: folder for the result files; without it nothing stays
    min_similarity: Share of equal signs below which the first step stands out (default: 0.97).
    max_drop: Drop of that share from one step to the next above which a step stands out (default: 0.03).
    format: Comma-separated list of result files to write: csv or html (default: csv).
    force: Replace existing result files; without it the command fails.
    fail_on: Exit with code 1 if one of these is found; may be repeated: diverged or parameter.
    junit: Also write a JUnit report for CI systems.
    threads: Number of threads; results do not depend on it (default: all cores).
    lang: Language of what is shown; files, JSON and CSV stay as they are: en or zh (default: detected).

    Raises UsageError, InputError. More: docs/commands/grad_compare.md.
    """
    return _results.call(_GRAD_COMPARE, locals(), ("test", "reference",), ("fail_on*",))


def rl_compare(test: PathLike | None = None, reference: PathLike | None = None, *, output: PathLike | None = None,
               first: PathLike | None = None, second: PathLike | None = None, tokens: str | None = None, mask: str | None = None,
               ids: str | None = None, explain: bool = False, routes: str | None = None, position_ids: str | None = None,
               prompt_lengths: str | None = None, response_lengths: str | None = None, sequence_ids: str | None = None,
               weight_version: str | None = None, worst: int | None = None, compat: bool = False, format: str | Sequence[str] | None = None,
               lang: str | None = None, force: bool = False, fail_on: str | Sequence[str] | None = None, junit: PathLike | None = None,
               threads: int | None = None) -> Result:
    """Compare two reinforcement learning runs, as stored by SingleSave.

    rows(key): a row per value of one key, see `tables`.

    test: a folder of SingleSave
    reference: the same of the other run
    output: folder for the result files; without it nothing stays
    first: Folder of the first run, instead of RUN.
    second: Folder of the second run, instead of REFERENCE.
    tokens: Compare the log-probabilities of KEY token by token with those of KEY (or KEY_OF_B) in the second run; may be repeated.
    mask: Key of the first run with the mask of the tokens: 0 excludes a token.
    ids: Key of the first run with the ids of the tokens.
    explain: Say where the differences of the tokens come from: causes with their shares.
    routes: Key with the experts of each token, for --explain (default: routed_experts).
    position_ids: Key with the position of each token, for --explain (default: position_ids).
    prompt_lengths: Key with the length of each prompt, for --explain (default: prompt_lengths).
    response_lengths: Key with the length of each response, for --explain (default: response_lengths).
    sequence_ids: Key with a number of each sequence, or of each token's sequence, for --explain (default: sequence_ids).
    weight_version: Key with the version of the weights, for --explain (default: weight_version).
    worst: Number of tokens to list per key (default: 20).
    compat: Reproduce the Python tool: NaN never equals NaN, dict members share id 0, arrays without a partner are ignored.
    format: Comma-separated list of result files to write; html is a page for browsers: xlsx, csv, json or html (default: xlsx).
    lang: Language of the column names: zh or en (default: zh).
    force: Replace existing result files; without it the command fails.
    fail_on: Exit with code 1 if one of these is found; may be repeated: different.
    junit: Also write a JUnit report for CI systems.
    threads: Number of threads; results do not depend on it (default: all cores).

    Raises UsageError, InputError. More: docs/commands/rl_compare.md.
    """
    return _results.call(_RL_COMPARE, locals(), ("test", "reference",), ("fail_on*",))


def response_anomaly(test: PathLike | None = None, *, output: PathLike | None = None, input: PathLike | None = None,
                     models: PathLike | None = None, categories: PathLike | None = None, config: PathLike | None = None,
                     lines: bool = False, format: str | Sequence[str] | None = None, force: bool = False,
                     fail_on: str | Sequence[str] | None = None, junit: PathLike | None = None, lang: str | None = None) -> Result:
    """Find garbled, repetitive and NaN responses by the log-probabilities of their tokens.

    rows(): a row per request.

    test: requests.jsonl: answers of a model with their log-probabilities
    output: folder for the result files; without it nothing stays
    input: File with a request per line, instead of REQUESTS.
    models: Known models, JSON: {"name": {"eos": id or [id, ...]}}.
    categories: Categories of the tokens of a model, a file <name>_<vocabulary size>.json each.
    config: Windows and thresholds, YAML.
    lines: Print a JSON object per request as soon as it is judged; the answer goes to stderr.
    format: Comma-separated list of result files to write: csv, jsonl or html (default: csv).
    force: Replace existing result files; without it the command fails.
    fail_on: Exit with code 1 if one of these is found; may be repeated: not_finite, garbled, repetition, rare_characters or ill.
    junit: Also write a JUnit report for CI systems.
    lang: Language of what is shown; files, JSON and CSV stay as they are: en or zh (default: detected).

    Raises UsageError, InputError. More: docs/commands/response_anomaly.md.
    """
    return _results.call(_RESPONSE_ANOMALY, locals(), ("test",), ("fail_on*",))


class monitor:
    """Commands of `msprobe monitor`: functions of this class."""

    @staticmethod
    def diff(test: PathLike, reference: PathLike, *, tables: str | Sequence[str] | None = None,
             statistics: str | Sequence[str] | None = None, rtol: float | None = None, atol: float | None = None, reduce: bool = False,
             fail_on: str | Sequence[str] | None = None, junit: PathLike | None = None, threads: int | None = None,
             lang: str | None = None) -> Result:
        """Find the first step and module where two runs diverge.

        rows(): a row per table and statistic. first: where the two runs part.

        test: a monitored run: a folder with folders <stamp>-rank<R>-<id>, or one of them
        reference: the run to compare it with
        tables: Only these tables, such as actv,grad_reduced (default: all).
        statistics: Only these statistics, such as norm,max (default: all).
        rtol: Allowed relative difference (default: 0.001).
        atol: Allowed absolute difference (default: 1e-05).
        reduce: Combine the values of all ranks even if both runs have the same ranks.
        fail_on: Exit with code 1 if one of these is found; may be repeated: different.
        junit: Also write a JUnit report for CI systems.
        threads: Number of threads; results do not depend on it (default: all cores).
        lang: Language of what is shown; files, JSON and CSV stay as they are: en or zh (default: detected).

        Raises UsageError, InputError. More: docs/commands/monitor_diff.md.
        """
        return _results.call(_MONITOR_DIFF, locals(), ("test", "reference",), ("fail_on*",))


def load(path: PathLike) -> Mapping[str, numpy.ndarray]:
    """Tensors of a file, a folder of files, a checkpoint or a dump.json by name: `show(path).arrays`.

    An array is read-only and borrows from the mapped file where its elements are there as NumPy wants them; it is copied where they
    have to be converted (bfloat16 without the package ml_dtypes: float32) or unpacked (compressed .npz). Shape and dtype are those of
    the tensor. Nothing in a file is executed, PyTorch is not needed. Raises InputError.
    """
    return show(path).arrays
