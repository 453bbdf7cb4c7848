"""One call of a compiled graph, looked at: every kernel's result against the nodes of the graph that it must be.

What inductor calls a buffer is found to be a node by its value. The arguments of the graph are its placeholders. A kernel reads
buffers that are known by then; from their captured values, and from nothing else, the nodes that it may have computed are
computed in float64 (evaluation.py), and each of its outputs is held against those of its dtype and size. An output within the bound of a node is
that node, and right. One that fits none is wrong at the node that somebody else needs and that it is nearest to, or, where no such
node is left, an intermediate of the code generator, which is not checked. Either way what the kernel left is what later ones are
judged from, so that only the first wrong kernel is called wrong.

Generated kernels are reached through their names in the module of generated code, which lead to doors (Door) while such a call runs;
operators of the framework's own libraries through a dispatch mode. Nothing of either is in place at other times.
"""
import linecache
import re
import sys

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from msprobe.pytorch.compile_check import rules
from msprobe.pytorch.compile_check.bounded import WITHIN, Bounded, Casts, NoRule, distance
from msprobe.pytorch.compile_check.eager import EagerCall
from msprobe.pytorch.compile_check.evaluation import Evaluation
from msprobe.pytorch.compile_check.graphs import code_of, module_of
from msprobe.pytorch.compile_check.operators import (LOOSE, PLAIN, bounded_arguments, first_dtype, how_wrong, labels_of, named_written,
                                                      tensors_in, written_arguments)
from msprobe.pytorch.compile_check.repro import Extract, place_of, source_of_kernel, source_of_operator
from msprobe.pytorch.compile_check.rows import NOT_CHECKED, RIGHT, WRONG
from msprobe.pytorch.compile_check.search import Search, is_part, is_view, static_shape

_MOST_NODES = 200  # named in a row
_CALLED = re.compile(r"((?:extern_kernels|torch\.ops|aten|mkldnn\w*|inductor_ops)[\w.]*)\(")
_SCATTERS = frozenset(("scatter_reduce", "scatter_add", "index_add", "index_put", "_unsafe_index_put"))
INTERMEDIATE = "an intermediate of the code generator, no node of the graph"
UNKNOWN = "made of a buffer of which it is not known what node it is"


class Entry:
    """Where in a storage a node's value lies."""

    __slots__ = ("node", "shape", "stride", "offset", "dtype", "size")

    def __init__(self, node, tensor, size=None):
        self.node = node
        self.shape = tuple(tensor.shape)
        self.stride = tuple(tensor.stride())
        self.offset = tensor.storage_offset()
        self.dtype = tensor.dtype
        self.size = tuple(size) if size is not None else self.shape  # of the node

    def extent(self):
        return self.offset, self.offset + sum((size - 1) * step for size, step in zip(self.shape, self.stride)) + 1

    def overlaps(self, other):
        """Whether an element of one lies where one of the other does; columns of one matrix do not, though their ranges cross."""
        (begin, end), (other_begin, other_end) = self.extent(), other.extent()
        if end <= other_begin or other_end <= begin:
            return False
        if self.dtype != other.dtype:  # counted in other units
            return True
        first, last = min(begin, other_begin), max(end, other_end)
        marked = torch.zeros(last - first, dtype=torch.bool)
        torch.as_strided(marked, other.shape, other.stride, other.offset - first).fill_(True)
        return bool(torch.as_strided(marked, self.shape, self.stride, self.offset - first).any())

    def view(self, tensor):
        return torch.as_strided(tensor, self.shape, self.stride, self.offset).reshape(self.size)


class Buffers:
    """What is known to lie where."""

    def __init__(self):
        self._entries = {}

    @staticmethod
    def place(tensor):
        storage = tensor.untyped_storage()
        return storage.data_ptr(), storage.nbytes()

    def of(self, tensor):
        return [entry for entry in self._entries.get(self.place(tensor), ()) if entry.dtype == tensor.dtype]

    def put(self, tensor, node, size=None):
        if tensor.numel():
            self._entries.setdefault(self.place(tensor), []).append(Entry(node, tensor, size))

    def written(self, tensor):
        """Forgets what a kernel has overwritten."""
        if not tensor.numel():
            return
        region = Entry(None, tensor)
        entries = self._entries.get(self.place(tensor), [])
        self._entries[self.place(tensor)] = [entry for entry in entries if not entry.overlaps(region)]


class Suspect:
    """An output of a kernel that does not have the value of any node; `node` is the one that it may have to be. Has a dtype, as a tensor has."""

    __slots__ = ("kernel", "output", "is_part", "dtype", "count", "node", "far", "nodes", "judged", "extract", "expected", "only_if_used", "is_copy")

    def __init__(self, kernel, output, part, dtype, count, node, far, nodes):
        self.kernel = kernel
        self.output = output
        self.is_part = part  # of a larger buffer
        self.dtype = dtype
        self.count = count
        self.node = node
        self.far = far
        self.nodes = nodes
        self.judged = False
        self.extract = self.expected = None
        self.only_if_used = False
        self.is_copy = False  # of a node that lies elsewhere, too


class CheckedCall:
    """`rows`: rows.Rows. `budget`: of time and memory. `folders`: repro.Folders, or None. `against_eager`: whether outputs of the graph
    are also held against those of its operators, run one by one. `record`: called with (graph, what, tensor) for every argument of the graph
    and every output of a kernel, where `what` is its node, or the kernel and the buffer."""

    def __init__(self, graph, rows, budget, folders=None, against_eager=False, record=None):
        self._record = record
        self._lying = {}  # id of an output: its node
        self._graph = graph
        self._rows = rows
        self._budget = budget
        self._buffers = Buffers()
        self._numbers = {}
        self._matched = set()  # nodes that lie in a buffer
        self._suspects = []
        self._supposed = Buffers()  # where nodes of suspects lie, if they are those
        self._strange = set()  # places that a kernel wrote, and of which it is not known what lies there
        self._folders = folders
        self._extract = None  # of the kernel that is being judged
        self._pending = []  # extracts of suspects
        self._seeds = {}
        self._casts = Casts()  # of what the kernel that is being judged was given
        self._against_eager = against_eager

    # ---- the call ----

    def run(self, function, args):
        names = self._graph.module
        if self._safely(("graph", ""), self._take, args) is None:
            return function(args)
        eager = self._safely(("graph", ""), EagerCall, self._graph, args) if self._against_eager else None
        doors = {name: Door(names[name], kernel, self) for name, kernel in self._graph.kernels.items() if name in names}
        originals = {name: names[name] for name in doors}
        names.update(doors)
        try:
            with _Externs(self, names):
                result = function(args)
        finally:
            names.update(originals)
        self._safely(("graph", ""), self._check_outputs, result)
        self._safely(("graph", ""), self._judge_suspects)
        for extract in self._pending:
            self._safely((extract.kernel, ""), self._write, extract)
        if eager is not None:
            self._safely(("graph", ""), eager.compare, result, self._seeds, self._numbers, self._eager_row)
        return result

    def _eager_row(self, index, node, item, verdict, far, reason):
        self._row("graph", "output %d against eager" % index, verdict, item, far, [node], reason=reason)

    # ---- kernels alone ----

    def _begin_extract(self, kernel, source, args, kwargs):
        return Extract(self._graph.name, kernel, source, args, kwargs)

    def _extracted(self, kernel, source, args, kwargs):
        if self._folders is None or source is None:
            return None
        return self._safely((kernel, ""), self._begin_extract, kernel, source, args, kwargs)

    def _end_extract(self):
        extract, self._extract = self._extract, None
        if extract is None:
            return
        if any(suspect.extract is extract for suspect in self._suspects):
            self._pending.append(extract)
        else:
            self._write(extract)

    def _write(self, extract):
        if self._folders.wants(extract):
            self._folders.write(extract)

    def _take(self, args):
        """The arguments of the graph are its placeholders."""
        for node, value in zip(self._graph.placeholders, args):
            if isinstance(value, torch.Tensor):
                self._buffers.put(value, node)
                if self._record is not None:
                    self._record(self._graph.name, node.name, value)
            elif isinstance(value, (int, float)):
                self._numbers[node] = value
        return True

    def _safely(self, graph_row, function, *arguments):
        """The training goes on, whatever happens here."""
        try:
            with torch.no_grad(), torch._C._DisableTorchDispatch():
                return function(*arguments)
        except Exception as error:
            self._rows.add(self._graph.name, *graph_row, NOT_CHECKED,
                           reason="%s: %s" % (type(error).__name__, str(error).split("\n")[0][:120]))
            return None

    def _inputs(self, tensors):
        """{node: captured value} of everything that lies in the storages of tensors."""
        return self._before(tensors, ())[0]

    # ---- generated kernels ----

    def kernel(self, original, kernel, args, kwargs):
        frame = sys._getframe(2)
        before = self._safely((kernel.name, ""), self._before_kernel, kernel, args, frame.f_locals)
        extract = self._extracted(kernel.name, source_of_kernel(kernel), args, kwargs)
        result = original(*args, **kwargs)
        if before is not None:
            writes, names, given = before
            row = (kernel.name, names[0] if names else "")
            if extract is not None:
                extract.places = {name: place_of(item, args, kwargs) for name, item in zip(names, writes)}
            self._extract = extract
            self._safely(row, self._judge_kernel, kernel, given, writes, names)
            self._safely(row, self._end_extract)
            self._recorded(kernel.name, names, writes)
        return result

    def _before_kernel(self, kernel, args, variables):
        tensors = [(index, item) for index, item in enumerate(args) if isinstance(item, torch.Tensor)]
        reads_only = kernel.reads_only or ()
        writes = [item for index, item in tensors if index >= len(reads_only) or not reads_only[index]]
        names = _names_of(variables, writes)
        for name in names:
            self._rows.seen(self._graph.name, kernel.name, name)
        return writes, names, self._before([item for _, item in tensors], writes)

    def _before(self, tensors, writes):
        """({node: captured value}, the same of suspects, whether something is read that is not known): what lies in the storages of
        tensors. Of those that will be overwritten, copies."""
        places = {Buffers.place(item) for item in writes}
        self._casts = Casts()
        found = []
        for buffers in (self._buffers, self._supposed):
            known = {}
            for tensor in tensors:
                for entry in buffers.of(tensor):
                    if entry.node not in known:
                        view = entry.view(tensor)
                        known[entry.node] = view.clone() if Buffers.place(tensor) in places else view
            found.append(known)
        found.append(any(not self._buffers.of(tensor) and tensor.numel() for tensor in tensors
                         if Buffers.place(tensor) not in places or Buffers.place(tensor) in self._strange))
        return found

    def _written(self, item):
        self._buffers.written(item)
        self._supposed.written(item)

    def _judge_kernel(self, kernel, given, writes, names):
        for item in writes:
            self._written(item)
        reason = self._budget.refuses(sum(item.numel() for item in writes) * 8 * 6)
        if reason:
            for name, item in zip(names, writes):
                self._row(kernel.name, name, NOT_CHECKED, item, reason=reason)
            return
        graph = self._graph
        known, supposed, unknown = given
        evaluation = self._evaluation(known)
        search = Search(graph, evaluation, self._matched)
        left = list(zip(names, writes))

        def match(left, allowed, search=search, evaluation=evaluation):
            return search.match(left, allowed, lambda *output: found(*output, search, evaluation))

        def found(name, item, same, far, search, evaluation):
            other = search.covers_more(item, same[0], kernel.name) if len(writes) == 1 else None
            if other is not None:
                self._suspect(kernel.name, name, item, *other, evaluation)
                return
            later = search.beyond(item, same[0], graph.fused(kernel.name))
            self._right(kernel.name, name, item, same, far, evaluation)
            if later is not None:  # wrong only where later kernels show that it is
                self._suspect(kernel.name, name, item, *later, evaluation)
                self._suspects[-1].only_if_used = True

        left = [(name, item) for name, item in left if not self._copied(kernel.name, name, item, known, evaluation)]
        left = left and match(left, graph.fused(kernel.name))
        left = left and match(left, lambda node: not graph.is_random(node))
        if left:
            fewer = search.take_random(left, lambda name, item, node: self._taken(kernel.name, name, item, node))
            left = match(fewer, lambda node: True) if len(fewer) < len(left) else fewer
        if left and supposed:
            other = self._evaluation({**supposed, **known})
            fewer = match(left, lambda node: True, Search(graph, other, self._matched), other)
            if len(fewer) < len(left):
                self._confirm(supposed)
            left = fewer
        for name, item in left:
            best = None if unknown else search.nearest(item, graph.fused(kernel.name))
            spoilt = None if unknown or best is not None else search.spoilt_copy(item, known, graph.fused(kernel.name))
            if spoilt is not None:
                self._suspect(kernel.name, name, item, *spoilt, evaluation)
                self._suspects[-1].is_copy = True
                continue
            if best is None:
                self._strange.add(Buffers.place(item))
                self._row(kernel.name, name, NOT_CHECKED, item, reason=search.reason(item) or (UNKNOWN if unknown else INTERMEDIATE))
                continue
            self._suspect(kernel.name, name, item, *best, evaluation)

    def _suspect(self, kernel_name, name, item, node, far, evaluation):
        # This kernel has to leave the node: an earlier one left what it is made of, rightly.
        self._suspects = [suspect for suspect in self._suspects if suspect.judged or not suspect.only_if_used or suspect.node is not node]
        self._supposed.put(item, node, _shape_of(evaluation, node))
        self._lying[id(item)] = node
        suspect = Suspect(kernel_name, name, is_part(item), item.dtype, item.numel(), node, far, evaluation.made_of(node))
        if self._extract is not None:
            suspect.extract, suspect.expected = self._extract, evaluation.value(node)
        self._suspects.append(suspect)

    def _copied(self, kernel_name, name, item, known, evaluation):
        """Whether an output is something that the kernel was given, in another layout."""
        if self._buffers.of(item):
            return False
        same = [node for node, value in known.items() if value.dtype == item.dtype and value.shape == item.shape and torch.equal(value, item)]
        if same and bool(item.any()):
            self._known(item, same, evaluation)
            self._expects(name, evaluation.value(same[0]), same[:1])
            self._row(kernel_name, name, RIGHT, item, WITHIN, same[:1])
        return bool(same) and bool(item.any())

    def _evaluation(self, known, shortcuts=()):
        return Evaluation(self._graph, known, self._numbers, shortcuts, self._casts.exact)

    # ---- outputs without a node ----

    def _confirm(self, nodes):
        """Later kernels make the right thing of it: it is that node, and wrong."""
        for suspect in self._suspects:
            if suspect.node in nodes and not suspect.judged:
                self._accuse(suspect)

    def _expects(self, name, expected, nodes):
        if self._extract is not None:
            self._extract.expects(name, expected, nodes)

    def _accuse(self, suspect):
        suspect.judged = True
        self._matched.add(suspect.node)
        if suspect.extract is not None:
            suspect.extract.expects(suspect.output, suspect.expected, suspect.nodes)
        self._row(suspect.kernel, suspect.output, WRONG, suspect, suspect.far, suspect.nodes,
                  reason=how_wrong(suspect.far, suspect.count), extract=suspect.extract)

    def _judge_suspects(self):
        """At the end: a node that lies in no buffer is in the one that is nearest to it."""
        left = sorted((suspect for suspect in self._suspects if not suspect.judged and not suspect.only_if_used), key=lambda suspect: (-suspect.far.share, suspect.far.ratio))
        for suspect in left:
            if suspect.node in self._matched and not suspect.is_copy and not (suspect.is_part and suspect.node in self._graph.free_nodes):
                self._row(suspect.kernel, suspect.output, NOT_CHECKED, suspect, reason=INTERMEDIATE, extract=suspect.extract)
            else:
                self._accuse(suspect)

    def _known(self, item, nodes, evaluation):
        """From here on these nodes lie in the buffer."""
        self._strange.discard(Buffers.place(item))
        self._lying[id(item)] = nodes[0]
        self._matched.add(nodes[0])
        for node in nodes:
            self._buffers.put(item, node, None if evaluation is None else _shape_of(evaluation, node))

    def _right(self, kernel_name, name, item, same, far, evaluation):
        self._known(item, same, evaluation)
        node = same[0]
        nodes = evaluation.made_of(node)
        self._expects(name, evaluation.value(node), nodes)
        if far.loose:
            self._row(kernel_name, name, NOT_CHECKED, item, far, nodes, reason=LOOSE)
        else:
            measured = [part for part in nodes if not rules.has_rule(part.target) and part.op == "call_function"]
            self._row(kernel_name, name, RIGHT, item, far, nodes,
                      reason="bound measured: no rule for %s" % rules.name_of(measured[0].target) if measured else "")

    def _taken(self, kernel_name, name, item, node):
        self._known(item, [node], None)
        self._row(kernel_name, name, NOT_CHECKED, item, None, [node], reason="random numbers, taken as they are")

    def _row(self, kernel_name, output, verdict, item, far=None, nodes=(), reason="", extract=None):
        computing = [node for node in nodes if not is_view(node)] or nodes  # a view may stand in the module before
        columns = dict(nodes=" ".join(node.name for node in nodes[:_MOST_NODES]),
                       module="; ".join(_each_once(module_of(node) for node in computing)),
                       code="; ".join(_each_once(code_of(node) for node in computing)),
                       dtype=str(item.dtype).replace("torch.", ""), error="%.6g" % far.error if far else "",
                       bound="%.6g" % far.bound if far else "", reason=reason)
        self._rows.add(self._graph.name, kernel_name, output, verdict, far.ratio if far else 0.0, **columns)
        extract = extract or self._extract
        if extract is not None and extract.kernel == kernel_name:
            extract.rows[output] = dict(columns, graph=self._graph.name, kernel=kernel_name, output=output, verdict=verdict)

    # ---- operators of libraries ----

    def extern(self, function, args, kwargs, frame):
        """Runs an operator that the wrapper calls, and judges it by what it was given."""
        before = self._safely(("aten.%s" % rules.name_of(function), ""), self._before_extern, function, args, kwargs, frame)
        extract = self._extracted(before[0], source_of_operator(function), args, kwargs) if before is not None else None
        result = function(*args, **kwargs)
        if before is not None:
            name, output, written, given, known, supposed = before
            outputs = [item for item in (written or tensors_in(result)) if item.numel()]
            names = labels_of(output, outputs)
            if extract is not None:
                results = result if isinstance(result, (list, tuple)) else (result,)
                extract.places = {label: place_of(item, args, kwargs, results) for label, item in zip(names, outputs)}
            self._extract = extract
            taken = self._safely((name, output), self._take_changed, function, args, kwargs, name, result, names)
            if not taken:
                self._safely((name, output), self._judge_extern, function, name, output, given, known, supposed, outputs, names)
            self._safely((name, output), self._end_extract)
            self._recorded(name, names, outputs)
        return result

    def _recorded(self, kernel_name, names, outputs):
        if self._record is None:
            return
        for name, item in zip(names, outputs):
            node = self._lying.pop(id(item), None)
            if item.numel():
                self._safely((kernel_name, name), self._record, self._graph.name, node.name if node is not None else "%s.%s" % (kernel_name, name), item)

    def _before_extern(self, function, args, kwargs, frame):
        name, output = self._place(frame, function, args, kwargs)
        written = written_arguments(function, args, kwargs)
        tensors = [item for item in tensors_in((args, kwargs)) if not any(item is other for other in written)]
        in_place = [item for item in written if any(item is other for other in tensors_in(args))]
        known, supposed, _ = self._before(tensors + in_place, in_place)
        given = bounded_arguments(self._casts.exact, args, {key: item for key, item in kwargs.items()
                                          if not any(item is other for other in written)}, in_place)
        return name, output, written, given, known, supposed

    def _place(self, frame, function, args, kwargs):
        """(name, output) as they stand in the generated code."""
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
        called = _CALLED.search(line)
        name = called.group(1) if called else "aten.%s" % rules.name_of(function)
        left = re.match(r"\s*(\w+) = ", line)
        written = written_arguments(function, args, kwargs)
        if left and not written:
            return name, left.group(1)
        return name, (_names_of(frame.f_locals, written) or [""])[0]

    def _judge_extern(self, function, name, output, given, known, supposed, outputs, names):
        for item in outputs:
            self._written(item)
        target = rules.functional(function)
        if rules.name_of(function) in rules.RANDOM:
            self._take_seeds(name, output, outputs)
            return
        reason = self._budget.refuses(sum(item.numel() for item in outputs) * 8 * 4)
        expected = shared = None
        if not reason:
            try:
                shared = rules.apply(target, given[0], given[1], first_dtype(outputs))
                expected = [part for part in (shared if isinstance(shared, (tuple, list)) else [shared]) if part is not None]
            except NoRule as error:
                reason = str(error)
        shortcuts = [(rules.name_of(target), given[0], shared)] if expected else ()
        evaluation = self._evaluation(known, shortcuts)
        with_suspects = self._evaluation({**supposed, **known}, shortcuts) if supposed else None
        for index, (item, label) in enumerate(zip(outputs, names)):
            far = None
            if expected and index < len(expected) and isinstance(expected[index], Bounded) and \
                    expected[index].value.numel() == item.numel():
                far = distance(item.reshape(expected[index].value.shape), expected[index])
                self._expects(label, expected[index], [])
            held = expected[index] if far is not None else None
            self._link_extern(function, name, label, item, held, far, evaluation, with_suspects, supposed, reason)

    def _take_changed(self, function, args, kwargs, name, result, names):
        """Whether the operator is the program's own or a library's that changes its arguments, of which nothing is known: what it leaves is taken
        as it is, for what comes after it. Its calls have the order of the graph."""
        if not function._schema.is_mutable or rules.has_rule(function) or rules.name_of(function) in rules.RANDOM:
            return False
        node, returned, changed = next((call for call in self._graph.changed_by(function) if call[0] not in self._matched), (None, (), {}))
        if node is None:
            return False
        self._matched.add(node)
        written = written_arguments(function, args, kwargs)
        for item in written:
            self._written(item)
            self._strange.add(Buffers.place(item))
        for part, item in zip(returned, result if isinstance(result, (tuple, list)) else (result,)):
            if part is not None and isinstance(item, torch.Tensor):
                self._known(item, [part], None)
        for name_of_argument, item in named_written(function, args, kwargs):
            part = changed.get(name_of_argument)
            if part is not None and _is_whole(item, part.meta.get("val")):
                self._known(_whole(item, part.meta["val"]), [part], None)
                self._lying[id(item)] = part
        reason = "%s changes its arguments; what it leaves is taken as it is" % rules.name_of(function)
        for label, item in zip(names, [item for item in written if item.numel()]):
            self._row(name, label, NOT_CHECKED, item, None, [node], reason=reason)
        return True

    def _take_seeds(self, name, output, outputs):
        """What the wrapper draws: the next node that draws numbers and fits."""
        for item in outputs:
            node = next((node for node in self._graph.nodes if self._graph.is_random(node) and node not in self._matched
                         and isinstance(node.meta.get("val"), torch.Tensor) and node.meta["val"].dtype == item.dtype
                         and (static_shape(node) or [item.numel()]) == list(item.shape)), None)
            if node is not None:
                self._matched.add(node)
                self._lying[id(item)] = node
                self._buffers.put(item, node)
                self._seeds[node] = item.clone()
            self._row(name, output, NOT_CHECKED, item, None, [node] if node else [], reason="random numbers, taken as they are")

    def _link_extern(self, function, name, label, item, held, far, evaluation, with_suspects, supposed, reason):
        search = Search(self._graph, evaluation, self._matched)
        search.judged(item, held, far)
        base = rules.name_of(rules.functional(function))
        graph = self._graph

        def allowed(node):
            target = rules.name_of(node.target)
            return target == base or graph.is_move(node) or base.endswith("addmm") and target in ("mm", "bmm", "addmm", "baddbmm", "add", "mul") \
                or base in _SCATTERS and target in _SCATTERS or base in ("mm", "bmm", "mv", "dot") and target in ("mm", "bmm", "mv", "dot", "mul", "sum")

        found = []
        if far is not None and far.ratio <= 1:
            search.match([(label, item)], allowed, lambda _, __, same, ___: found.extend(same))
            if not found and with_suspects is not None:
                search = Search(graph, with_suspects, self._matched)
                search.match([(label, item)], allowed, lambda _, __, same, ___: found.extend(same))
                if found:
                    self._confirm(supposed)
                    evaluation = with_suspects
        node = found[0] if found else search.by_structure(item, allowed, base)
        nodes = evaluation.made_of(node) if node is not None else []
        if node is not None:
            self._known(item, found or [node], evaluation)
        else:
            self._strange.add(Buffers.place(item))
        if self._extract is not None and label in self._extract.outputs:
            self._extract.nodes[label] = nodes
        measured = not rules.has_rule(rules.functional(function))
        if far is None:
            self._row(name, label, NOT_CHECKED, item, None, nodes, reason=reason or "nothing is known of what it was given")
        elif far.ratio > 1:
            self._row(name, label, WRONG, item, far, nodes, reason=how_wrong(far, item.numel()))
        elif far.loose:
            self._row(name, label, NOT_CHECKED, item, far, nodes, reason=LOOSE)
        else:
            self._row(name, label, RIGHT, item, far, nodes,
                      reason="bound measured: no rule for %s" % base if measured else "")
            if node is not None and not found:
                far_of_node = search.distance_to(node, item)
                if far_of_node is not None and far_of_node.ratio > 1:
                    self._row("graph", label, WRONG, item, far_of_node, nodes,
                              reason="%s is given other arguments than %s has in the graph" % (name, node.name))

    # ---- the graph's outputs ----

    def _check_outputs(self, result):
        items = result if isinstance(result, (list, tuple)) else (result,)
        for index, (node, item) in enumerate(zip(self._graph.outputs, items)):
            if isinstance(node, torch.fx.Node) and isinstance(item, torch.Tensor) and item.numel():
                self._safely(("graph", "output %d" % index), self._check_output, index, node, item)

    def _check_output(self, index, node, item):
        label = "output %d" % index
        known = self._inputs([item])
        lying = {entry.node for entry in self._supposed.of(item)}
        for suspect in self._suspects:
            if suspect.node in lying and not suspect.judged and suspect.node is node:
                self._accuse(suspect)
            if suspect.node in lying and suspect.judged:
                self._row("graph", label, NOT_CHECKED, item, None, [node], reason="a wrong kernel made it: %s" % suspect.kernel)
                return
        if not known:
            self._row("graph", label, NOT_CHECKED, item, None, [node], reason="not known which node lies in this buffer")
            return
        evaluation = self._evaluation(known)
        if node not in known and node not in evaluation.reachable(self._graph.is_move):
            other = next(iter(known))
            if self._same_by_views(node, known):
                self._row("graph", label, RIGHT, item, None, [node])
            elif node in self._matched:
                self._row("graph", label, WRONG, item, None, [node], reason="%s is returned in place of %s" % (other.name, node.name))
            else:
                self._row("graph", label, NOT_CHECKED, item, None, [node],
                          reason="%s lies there; %s was not found" % (other.name, node.name))
            return
        if node in known and known[node].data_ptr() == item.data_ptr() and known[node].shape == item.shape and known[node].stride() == item.stride():
            self._row("graph", label, RIGHT, item, WITHIN, [node])  # the very buffer
            return
        expected = evaluation.value(node)
        if tuple(expected.value.shape) != tuple(item.shape):
            self._row("graph", label, WRONG, item, None, [node], reason="shape %s in place of %s" % (
                list(item.shape), list(expected.value.shape)))
            return
        far = distance(item, expected)
        self._row("graph", label, RIGHT if far.ratio <= 1 else WRONG, item, far, [node],
                  reason="" if far.ratio <= 1 else "the wrapper returns other elements than %s" % node.name)

    def _same_by_views(self, node, known):
        """Whether a known node is a view of this one."""
        seen = set()
        waiting = list(known)
        while waiting:
            item = waiting.pop()
            if item is node:
                return True
            if item in seen or not self._graph.is_move(item):
                continue
            seen.add(item)
            waiting.extend(item.all_input_nodes)
        return False


class Door:
    """Stands for a generated kernel while a checked call runs."""

    def __init__(self, original, kernel, call):
        self._original = original
        self._kernel = kernel
        self._call = call

    def __call__(self, *args, **kwargs):
        return self._call.kernel(self._original, self._kernel, args, kwargs)

    def run(self, *args, **kwargs):  # Triton's
        return self._call.kernel(self._original.run, self._kernel, args, kwargs)

    def __getattr__(self, name):
        return getattr(self._original, name)


class _Externs(TorchDispatchMode):
    """Sees the operators that a wrapper calls itself."""

    def __init__(self, call, names):
        super().__init__()
        self._call = call
        self._names = names

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        frame = None
        if isinstance(function, torch._ops.OpOverload) and rules.name_of(function) not in PLAIN and function.namespace != "prim":
            frame = sys._getframe(1)
            while frame is not None and frame.f_globals is not self._names:
                frame = frame.f_back
        return function(*args, **kwargs) if frame is None else self._call.extern(function, args, kwargs, frame)


def _names_of(names, tensors):
    """The names that variables of a wrapper have."""
    by_id = {id(value): name for name, value in names.items()}
    return [by_id.get(id(tensor), "argument %d" % index) for index, tensor in enumerate(tensors)]


def _shape_of(evaluation, node):
    value = evaluation.value(node) if node is not None else None
    return tuple(value.value.shape) if isinstance(value, Bounded) else None


def _is_whole(tensor, value):
    """Whether a buffer of the graph, whose fake `value` is known, can be what a tensor is, or is a view of."""
    if not isinstance(value, torch.Tensor) or tensor.dtype != value.dtype:
        return False
    if tensor.dim() == value.dim() and all(type(other) is not int or size == other for size, other in zip(tensor.shape, value.shape)):
        return True
    return all(type(size) is int for size in tuple(value.shape) + tuple(value.stride())) and \
        tensor.untyped_storage().nbytes() == value.numel() * value.element_size()


def _whole(tensor, value):
    return tensor if tensor.dim() == value.dim() else torch.as_strided(tensor, value.shape, value.stride(), 0)


def _each_once(texts):
    return [text for text in dict.fromkeys(texts) if text]


class Budget:
    """Seconds of a process and bytes of a kernel that checking may take."""

    def __init__(self, seconds=None, megabytes=None):
        self._seconds = seconds
        self._bytes = None if megabytes is None else megabytes * 1000000
        self.spent = 0.0

    def refuses(self, size):
        if self._seconds is not None and self.spent > self._seconds:
            return "the budget of %g s is spent" % self._seconds
        if self._bytes is not None and size > self._bytes:
            return "takes about %d MB, the budget is %d MB" % (size // 1000000, self._bytes // 1000000)
        return ""
