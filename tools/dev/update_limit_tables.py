#!/usr/bin/env python3
"""Writes the table of limits in docs/security.md from the constants of the readers.

usage: tools/dev/update_limit_tables.py [--check] [REPOSITORY]

What is between these marks is replaced, by one row per constant of LIMITS:

    <!-- limits -->
    ...
    <!-- end of limits -->

--check writes nothing: exit status 1 when the table is stale, or when a variable of the environment that the sources read is not named
on the page. A constant that is renamed or moved is an error in both cases: then change LIMITS.
"""
import ast
import re
import sys
from pathlib import Path

PAGE = "docs/security.md"
MARKS = re.compile(r"(<!-- limits -->\n).*?(<!-- end of limits -->)", re.S)

# (what is read, [(what is limited, file, constant, unit)]); units: "B" bytes, "" a count, "x" times.
LIMITS = [
    ("any tensor file", [
        ("bytes read for its tensors, as a multiple of its size", "src/io/contents.cpp", "kTimesFileSize", "x"),
        ("the same in addition", "src/io/contents.cpp", "kFreeBytes", "B"),
        ("the same of a tensor alone in its file, and of quantized ones that are unpacked", "src/io/contents.cpp", "kFreeBytesInMemory", "B"),
        ("axes of a tensor", "src/io/contents.h", "kMaxRank", "")]),
    (".pt, .npz and other zip files", [
        ("size of a compressed member, as a multiple of its size in the file", "src/io/zip.cpp", "kMaxInflateRatio", "x")]),
    ("pickles", [
        ("size", "src/io/pickle_reader.h", "pickle_bytes", "B"),
        ("distinct values", "src/io/pickle_reader.h", "values", ""),
        ("stack and memo", "src/io/pickle_reader.h", "stack_and_memo", ""),
        ("items of all containers", "src/io/pickle_reader.h", "items", ""),
        ("size of an integer", "src/io/pickle_reader.h", "long_bytes", "B"),
        ("scales of quantized tensors, beside 8 times their storages", "src/io/torch_rebuild.cpp", "kFreeScaleBytes", "B"),
        ("levels that are listed", "src/io/pickle_tensors.cpp", "kMaxDepth", ""),
        ("numbers and texts that are listed", "src/io/pickle_tensors.cpp", "kMaxScalars", "")]),
    (".npy", [("header", "src/io/npy.cpp", "kLongestNpyHeader", "B")]),
    (".safetensors", [
        ("header", "src/io/safetensors.cpp", "kLongestSafetensorsHeader", "B"),
        ("nesting of the header", "src/io/safetensors.cpp", "kMaxSafetensorsDepth", "")]),
    ("ATB .bin", [("header", "src/io/atb.cpp", "kLongestAtbHeader", "B")]),
    ("kernel dumps", [
        ("header", "src/io/kernel_dump/dump_file.h", "kLongestKernelDumpHeader", "B"),
        ("tensors and buffers", "src/io/kernel_dump/dump_file.h", "kMostKernelTensors", ""),
        ("tensor in plain rows, of a comparison", "src/analysis/kernel_dump/numbers.h", "kMostPlainBytes", "B"),
        ("elements that are unpacked, of one tensor", "src/analysis/kernel_dump/kernel_dump.cpp", "kUnpackLimit", "B"),
        ("levels of folders", "src/analysis/kernel_dump/dump_files.cpp", "kDeepestFolder", ""),
        ("threads of FFTS+ that are put together", "src/analysis/kernel_dump/vector_side.h", "kMostThreads", ""),
        ("their inputs, and their outputs", "src/analysis/kernel_dump/vector_side.h", "kMostSlicedTensors", ""),
        ("table of statistics of a device", "src/analysis/kernel_dump/kernel_dump.cpp", "kLargestStatistics", "B"),
        ("tensors of one shape that are put beside a tensor of a call", "src/analysis/compare/folders/kernels.h", "kMostAlike", ""),
        ("elements written as text, as a multiple of the size of the file", "src/analysis/kernel_dump/numbers.h",
         "kTimesFileOfText", "x"),
        ("the same in addition", "src/analysis/kernel_dump/numbers.h", "kFreeTextElements", "")]),
    ("graph texts of MindSpore", [
        ("line that is looked at", "src/analysis/kernel_dump/code_mapping.cpp", "kLongestIrLine", "B"),
        ("nodes", "src/analysis/kernel_dump/code_mapping.cpp", "kMostIrNodes", ""),
        ("scopes that are found in a name", "src/analysis/kernel_dump/code_mapping.h", "kMostScopes", ""),
        ("their code", "src/analysis/kernel_dump/code_mapping.h", "kMostCodeBytes", "B"),
        ("code of all names, as a multiple of the size of graph and tables", "src/analysis/kernel_dump/code_mapping.h",
         "kTimesMappedInput", "x"),
        ("the same in addition", "src/analysis/kernel_dump/code_mapping.h", "kFreeMappedBytes", "B")]),
    ("graphs of compiled models (rules of fusion)", [
        ("operators", "src/analysis/kernel_dump/fusion_rules.h", "kMostFusionOperators", ""),
        ("inputs and outputs of all", "src/analysis/kernel_dump/fusion_rules.h", "kMostFusionTensors", ""),
        ("values of one operator (the file is read as a stream and may have any size)", "src/json/document.cpp", "kMostValues", "")]),
    ("graph texts of torchair", [
        ("nesting", "src/analysis/compare/folders/torchair.h", "kDeepestGeGraph", ""),
        ("operators", "src/analysis/compare/folders/torchair.h", "kMostGeNodes", "")]),
    ("MindSpore .ckpt", [("tensors", "src/io/mindspore.cpp", "kMostTensors", "")]),
    ("distributed and Megatron checkpoints", [
        ("numbers in the metadata", "src/checkpoint/distributed/reader.cpp", "kMostNumbers", ""),
        ("names in the metadata", "src/checkpoint/distributed/reader.cpp", "kMostPathBytes", "B"),
        ("parameter that is dequantized", "src/checkpoint/common/state_dict.cpp", "kLimitBytes", "B"),
        ("ranks", "src/checkpoint/megatron/layout.cpp", "kMostRanks", ""),
        ("parts of a pipeline, virtual stages counted", "src/checkpoint/megatron/reader.cpp", "kMostPipelineParts", ""),
        ("experts of a layer that are told apart", "src/checkpoint/megatron/reader.cpp", "kMostExperts", ""),
        ("experts of all layers that are told apart", "src/checkpoint/megatron/reader.cpp", "kMostSplitExperts", ""),
        ("of these, experts without elements", "src/checkpoint/megatron/reader.cpp", "kMostEmptyExperts", ""),
        ("their names", "src/checkpoint/megatron/reader.cpp", "kMostExpertTextBytes", "B"),
        ("parts of stacked layers and experts, beside one per 64 bytes of the files", "src/checkpoint/distributed/reader.cpp", "kFreeParts", "")]),
    ("parameters in pieces", [
        ("places where pieces of two checkpoints meet, beside 8 for each", "src/analysis/ckpt/block_sums.h", "kMostBoxes", "")]),
    ("rules of ckpt_compare --mapping", [
        ("placeholders of a name", "src/naming/rules.cpp", "kMostPlaceholders", ""),
        ("parameters that they add, beside 16 for each of the checkpoint", "src/analysis/ckpt/mapping.cpp", "kFreeMadeItems", ""),
        ("names that are held against rules with placeholders", "src/analysis/ckpt/mapping.cpp", "kMostTries", ""),
        ("slices of query groups, beside one per 256 bytes of the files", "src/naming/parts.cpp", "kFreeSlices", "")]),
    ("dump.json, stack.json, construct.json", [
        ("nesting", "src/json/stream_reader.h", "max_depth", ""),
        ("values of one call (the file is read as a stream and may have any size)", "src/dump/entry_tree.h", "kMaxNodes", "")]),
    ("dumps that recheck reads", [
        ("product of the dims beside one of size 0", "src/reference/call.cpp", "kMostBesideEmpty", ""),
        ("how often one tensor file is read", "src/reference/call.h", "kMostLoads", ""),
        ("the same in addition, for each rank", "src/reference/call.h", "kLoadsPerReader", "")]),
    ("dumps that are compared", [
        ("names of the rows of a side, as a multiple of its text", "src/analysis/compare/side.h", "kRowNameBytesPerByte", "x"),
        ("the same in addition", "src/analysis/compare/side.h", "kMostRowNameBytes", "B"),
        ("pairs of rows whose names repeat, for each row", "src/analysis/compare/match.h", "kRepeatedPairsPerRow", ""),
        ("the same in addition; rows beyond are paired in order", "src/analysis/compare/match.h", "kMostRepeatedPairs", ""),
        ("outputs of a call times tensors that it was given, which are held against each other", "src/analysis/compare/divergence_thresholds.h",
         "kMostHeldAgainst", ""),
        ("levels of a module path in which a divergence is noted", "src/analysis/compare/divergence_thresholds.h", "kMostLevels", "")]),
    ("matrices that tensors are multiplied with", [
        ("multiplications for a tensor, for each byte of its files", "src/analysis/compare/tensor_changes.h",
         "kMultiplicationsPerByte", ""),
        ("the same in addition", "src/analysis/compare/tensor_changes.h", "kFreeMultiplications", ""),
        ("size of its products, as a multiple of its files", "src/analysis/compare/tensor_changes.h", "kProductBytesPerByte", "x"),
        ("the same in addition", "src/analysis/compare/tensor_changes.h", "kFreeProductBytes", "B"),
        ("all matrices, as a multiple of their files", "src/analysis/compare/tensor_changes.cpp", "kMatrixBytesPerByte", "x"),
        ("the same in addition", "src/analysis/compare/tensor_changes.cpp", "kFreeMatrixBytes", "B")]),
    ("source files that records.log names", [
        ("all files", "src/dump/record_log.cpp", "kMostSourceBytes", "B"),
        ("lines that are taken from them", "src/dump/record_log.cpp", "kMostCodeBytes", "B")]),
    ("configurations in JSON, YAML and TOML", [
        ("size", "src/json/tree_builder.h", "kConfigLimitBytes", "B"),
        ("nesting", "src/json/tree_builder.h", "kConfigDepth", ""),
        ("values", "src/json/tree_builder.h", "kConfigNodes", ""),
        ("values that YAML aliases repeat", "src/json/config_yaml.cpp", "kMostCopied", ""),
        ("bytes that YAML anchors and aliases repeat", "src/json/config_yaml.cpp", "kMostCopiedBytes", "B"),
        ("size of `.msprobe.toml`", "src/json/config_toml.cpp", "kTomlLimitBytes", "B"),
        ("dots in one of its lines, which nest", "src/json/config_toml.cpp", "kMostDots", "")]),
    ("regular expressions in a configuration", [
        ("length", "src/base/bounded_expression.cpp", "kLongestExpression", "B"),
        ("depth of backtracking", "src/base/bounded_expression.cpp", "kMatchDepth", "")]),
    ("mapping files", [
        ("size", "src/analysis/compare/mapping.cpp", "kLargestMappingBytes", "B"),
        ("name of a module that a cell mapping of 26.x makes", "src/analysis/compare/mapping.cpp", "kLongestMappedModule",
         "B")]),
    ("tables of the monitor", [
        ("line", "src/analysis/monitor/common/monitored_run.cpp", "kLongestLine", "B"),
        ("columns", "src/analysis/monitor/common/table_rows.cpp", "kMostColumns", ""),
        ("name with line breaks", "src/base/csv.h", "kMostContinuedBytes", "B"),
        ("name that becomes events of TensorBoard", "src/analysis/monitor/csv2tb/csv2tb.cpp", "kMostEventNameBytes", "B"),
        ("nesting of anomaly.json", "src/analysis/monitor/common/anomaly_reader.cpp", "kMostDepth", "")]),
    ("answers of the worker of run_ut", [
        ("frame", "src/analysis/accuracy/check/arguments.h", "kMostFrameBytes", "B"),
        ("nesting", "src/analysis/accuracy/check/arguments.cpp", "kMostFrameDepth", ""),
        ("axes of a tensor", "src/analysis/accuracy/check/arguments.cpp", "kMostAxes", "")]),
    ("inputs that run_ut makes", [
        ("tensor", "src/analysis/accuracy/check/tensor_record.cpp", "kMostTensorBytes", "B"),
        ("nesting of arguments", "src/analysis/accuracy/check/arguments.cpp", "kMostListDepth", "")]),
    ("calls that repro --minimise makes small", [
        ("tensors that are looked at, of all attempts", "src/analysis/repro/minimise.h", "kMostVisits", ""),
        ("elements that are recomputed, of all attempts", "src/analysis/repro/minimise.cpp", "kMostElements", "")]),
    ("workbooks (.xlsx) and .csv results", [
        ("member of a workbook, or .csv file", "src/report/readers.h", "member_bytes", "B"),
        ("all members of a workbook", "src/report/readers.h", "total_bytes", "B"),
        ("the same, as a multiple of the file's size", "src/report/readers.h", "kTimesFileSize", "x"),
        ("in addition to that", "src/report/readers.h", "free_bytes", "B"),
        ("cells", "src/report/readers.h", "cells", ""),
        ("empty cells that no row spells out, for each that is there", "src/report/readers.h", "kGapsPerCell", ""),
        ("the same in addition", "src/report/readers.h", "gaps", ""),
        ("names of columns, in all rows together, beyond 64 bytes each", "src/report/readers.cpp", "kMostNameBytes", "B"),
        ("sheets", "src/report/readers.cpp", "kMaxSheets", ""),
        ("nesting of XML", "src/report/readers.cpp", "kMaxDepth", "")]),
    ("profiles", [
        ("event of a trace (the file is read as a stream and may have any size)", "src/profile/common/event_runs.cpp",
         "kLongestEventBytes", "B"),
        ("unpacked bytes of a compressed trace, as a multiple of its size", "src/profile/common/event_runs.cpp",
         "kUnpackedTimesFileSize", "x"),
        ("the same in addition", "src/profile/common/event_runs.cpp", "kFreeUnpackedBytes", "B"),
        ("nesting of an event", "src/profile/common/trace_events.cpp", "kDeepest", ""),
        ("JSON files beside a profile", "src/profile/ascend_text/reader.cpp", "kMetadataLimitBytes", "B"),
        ("columns of .csv files", "src/profile/ascend_text/reader.h", "kMostColumns", ""),
        ("value in a database", "src/database/sqlite_file.cpp", "kLongestValueBytes", "B"),
        ("tables in a database", "src/database/sqlite_file.cpp", "kMostTables", ""),
        ("text of a table, as a multiple of the database's size", "src/database/sqlite_file.cpp", "kTextTimesFileSize", "x"),
        ("the same in addition", "src/database/sqlite_file.cpp", "kFreeTextBytes", "B"),
        ("long names that rows of a database name, as a multiple of its size", "src/profile/ascend_database/reader.cpp",
         "kSpelledTimesFileSize", "x"),
        ("the same in addition", "src/profile/ascend_database/reader.cpp", "kFreeSpelledBytes", "B"),
        ("path of a module", "src/analysis/perf/module_compare.h", "kLongestPath", "B"),
        ("paths of all modules", "src/analysis/perf/module_compare.h", "kMostPathBytes", "B"),
        ("groups of communication whose overlaps are reported", "src/analysis/perf/overall_times.cpp", "kMostPairedGroups", ""),
        ("bytes of a database for each row of a table, at least", "src/database/sqlite_file.cpp", "kLeastRowBytes", ""),
        ("steps of a query, as a multiple of the database's size", "src/database/sqlite_file.cpp", "kStepsPerByte", "x"),
        ("the same in addition", "src/database/sqlite_file.cpp", "kFreeSteps", "")]),
    ("graphs that are written", [
        ("levels", "src/analysis/graph/build.cpp", "kMostLevels", ""),
        ("call stacks of all nodes, as a multiple of the size of dump.json", "src/analysis/graph/build.cpp", "kTimesDumpOfStacks",
         "x"),
        ("the same in addition", "src/analysis/graph/build.cpp", "kFreeStackBytes", "B"),
        ("names above a node in .explorer.json", "src/analysis/graph/explorer_file.cpp", "kLongestNamespace", "B")]),
    (".vis.db that is served (values and tables as of profiles)", [
        ("nodes of one side of a rank", "src/analysis/graph/stored_graph.h", "kMostNodes", ""),
        ("ranks of all steps", "src/analysis/graph/stored_graph.h", "kMostRanks", ""),
        ("tensors and arguments of one side of a rank", "src/analysis/graph/stored_graph.h", "kMostRows", "")]),
    ("requests to serve", [
        ("line and headers", "src/serve/http_server.h", "kMostHeaderBytes", "B"),
        ("connections", "src/serve/http_server.h", "kMostConnections", ""),
        ("seconds until it has arrived", "src/serve/http_server.h", "kRequestSeconds", ""),
        ("files that are listed", "src/serve/http_server.h", "kMostFiles", ""),
        ("levels of folders", "src/serve/http_server.h", "kMostLevels", "")]),
    ("calls of a running training", [
        ("payload of a frame with a call", "src/online/frame.h", "kMostPayloadBytes", "B"),
        ("payload of any other frame", "src/online/frame.h", "kMostPlainPayloadBytes", "B"),
        ("name of a call or tensor", "src/online/frame.h", "kMostCallNameBytes", "B"),
        ("record of a call", "src/online/frame.h", "kMostRecordBytes", "B"),
        ("tensors of a call", "src/online/frame.h", "kMostCallTensors", ""),
        ("axes of a tensor", "src/online/frame.h", "kMostTensorAxes", ""),
        ("nesting of outputs", "src/analysis/accuracy/online/online.cpp", "kMostReceivedDepth", ""),
        ("connections", "src/online/receiver.h", "kMostConnections", ""),
        ("of these, before they have said hello", "src/online/receiver.cpp", "kMostStrangers", ""),
        ("payload of a frame until then", "src/online/frame.h", "kMostStrangerBytes", "B"),
        ("trainings", "src/online/inbox.cpp", "kMostSessions", "")]),
    ("responses of a model", [
        ("models", "src/analysis/response_anomaly/judge.h", "kMostModels", ""),
        ("pairs of tokens that are compared, for each token", "src/analysis/response_anomaly/judge.cpp", "kMostPairsPerToken", "")]),
    ("packs of config_check", [
        ("size", "src/analysis/config_check/check.cpp", "kMaxPackBytes", "B"),
        ("member", "src/analysis/config_check/check.cpp", "kMaxMemberBytes", "B"),
        ("all members", "src/analysis/config_check/check.cpp", "kMaxTotalBytes", "B"),
        ("characters compared to find names or code that are alike", "src/analysis/config_check/check.h",
         "kMostSimilaritySteps", "")]),
    ("configs, packs and logs of config_check", [
        ("names of nested values, in addition to the size of the file", "src/analysis/config_check/parameters.h", "kMostNameBytes",
         "B"),
        ("blanks in front of nested values, in addition to the size of the file", "src/analysis/config_check/hyperparameters.cpp",
         "kMostBlanks", "B"),
        ("lines read for a printed configuration, in addition to the size of the log",
         "src/analysis/config_check/printed_config.cpp", "kMostReadBytes", "B")]),
    ("launch scripts", [
        ("size", "src/analysis/config_check/hyperparameters.cpp", "kScriptLimitBytes", "B"),
        ("all expansions of variables", "src/analysis/config_check/shell_text.cpp", "kExpandedLimitBytes", "B"),
        ("nesting of brackets", "src/analysis/config_check/shell_syntax.h", "kDeepestBrackets", ""),
        ("calls inside of each other", "src/analysis/config_check/shell_run.h", "kDeepestCalls", ""),
        ("commands, loops included", "src/analysis/config_check/shell_run.cpp", "kMostCommands", ""),
        ("rounds of a loop", "src/analysis/config_check/shell_builtins.cpp", "kMostRounds", ""),
        ("ways in which branches combine", "src/analysis/config_check/launch_script.cpp", "kMostRuns", "")]),
]

# Calls that read the environment, with the name in quotes.
OWN_VARIABLES = re.compile(r'"(MSPROBE_[A-Z_{}]+)"')
VARIABLES = re.compile(r'(?:\bgetenv|\bTextOf|\bEnvironment|\benviron\.get)\(\s*"([A-Z][A-Z0-9_]+)"')


def value_of(root, file, constant):
    """The number that `constant` is in the source, which may say size_t{1} << 20U."""
    text = (root / file).read_text(encoding="utf-8")
    found = re.findall(r"\b%s(?:\{| = )([^;,)]+?)\}?[;,)]" % constant, text)
    found = [expression for expression in found if re.match(r"[\w{}\s<*'+-]+$", expression) and re.search(r"\d", expression)]
    if len(found) != 1:
        sys.exit("%s: %d definitions of %s, not one" % (file, len(found), constant))
    plain = re.sub(r"\w+\{(\d[\d']*)\}", r"\1", found[0]).replace("'", "")
    plain = re.sub(r"\b(0x[0-9a-fA-F]+|\d+)[uUlL]*\b", r"\1", plain)
    return evaluate(ast.parse(plain, mode="eval").body)


def evaluate(node):
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.BinOp):
        left, right = evaluate(node.left), evaluate(node.right)
        for kind, result in ((ast.LShift, left << right), (ast.Mult, left * right), (ast.Add, left + right), (ast.Sub, left - right)):
            if isinstance(node.op, kind):
                return result
    sys.exit("cannot evaluate %s" % ast.dump(node))


def spelled(number, unit):
    if unit == "x":
        return "%s times" % format(number, ",")
    if unit == "B":
        for power, name in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
            if number >= 1 << power and number % (1 << power) == 0:
                return "%d %s" % (number >> power, name)
        return format(number, ",") + " bytes"
    return format(number, ",")


def table(root):
    rows = ["| what is read | limit | at most |", "|---|---|---|"]
    for reader, limits in LIMITS:
        for i, (what, file, constant, unit) in enumerate(limits):
            rows.append("| %s | %s | %s |" % (reader if i == 0 else "", what, spelled(value_of(root, file, constant), unit)))
    return "\n".join(rows)


def variables(root):
    """Those that the sources read by a name in quotes."""
    names = set()
    for folder, endings in (("src", (".cpp", ".h")), ("tools/python", (".cpp", ".h", ".py"))):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in endings:
                text = path.read_text(encoding="utf-8")
                names.update(VARIABLES.findall(text))
                for name in OWN_VARIABLES.findall(text):
                    names.update(name.replace("{}", purpose) for purpose in ("DUMP", "MONITOR"))
    return names


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--check"]
    check = len(arguments) < len(sys.argv) - 1
    if len(arguments) > 1:
        sys.exit(__doc__)
    root = Path(arguments[0] if arguments else Path(__file__).parent / "../..").resolve()
    page = root / PAGE
    text = page.read_text(encoding="utf-8")
    fresh, tables = MARKS.subn(lambda match: "%s\n%s\n\n%s" % (match.group(1), table(root), match.group(2)), text)
    findings = [] if tables == 1 else ["%s: no marks for the limits" % PAGE]
    read = variables(root)
    findings += ["%s: does not name %s" % (PAGE, name) for name in sorted(read) if not re.search(r"`%s`" % name, text)]
    if fresh != text:
        if check:
            findings.append("%s: stale, run tools/dev/update_limit_tables.py" % PAGE)
        else:
            page.write_text(fresh, encoding="utf-8")
            print("wrote %s" % PAGE)
    print("\n".join(findings + ["%s: %d limits, %d variables, %d findings" % (PAGE, sum(len(limits) for _, limits in LIMITS), len(read),
                                                                              len(findings))]))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
