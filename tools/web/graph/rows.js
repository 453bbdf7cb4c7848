// The two trees as one list of rows: what is open, in order of execution; a node of the test side beside its partner,
// nodes of the other side that have none below the partner of their parent.
import { ALONE, DRIFTS } from './data.js';

// [{node, bench, depth, open, childCount}]; node or bench is -1 where a side has nothing.
export function visibleRows(rank, open, { onlyDiffering, microStep, found }) {
  const rows = [];
  const { npu, bench } = rank;
  const stack = [{ node: 0, bench: bench ? 0 : -1, depth: 0 }];
  const isWanted = (node) =>
    (!onlyDiffering ||
      rank.worst[node] >= DRIFTS ||
      rank.worst[node] === ALONE ||
      rank.worstFigure[node] > 1 ||
      rank.worstLevel[node] > 0) &&
    (microStep < 0 || npu.micro[node] === 0 || npu.micro[node] - 1 === microStep) &&
    (!found || found.has(node));
  while (stack.length > 0) {
    const row = stack.pop();
    const own = row.node >= 0 ? npu.children[row.node] : [];
    const other = bench && row.bench >= 0 ? bench.children[row.bench].filter((child) => rank.partner[child] < 0) : [];
    const isOpen = open.has(row.node >= 0 ? row.node : -2 - row.bench);
    rows.push({ ...row, open: isOpen, childCount: own.length + other.length });
    if (!isOpen) continue;
    const below = [];
    for (const child of own) {
      if (isWanted(child))
        below.push({
          node: child,
          bench: rank.match && rank.match[child] > 0 ? rank.match[child] - 1 : -1,
          depth: row.depth + 1,
        });
    }
    if (!found) for (const child of other) below.push({ node: -1, bench: child, depth: row.depth + 1 });
    for (let k = below.length - 1; k >= 0; k--) stack.push(below[k]);
  }
  return rows;
}

// Nodes that a search found, with all above them.
export function withAncestors(side, nodes) {
  const all = new Set([0]);
  for (const node of nodes) for (let at = node; at >= 0 && !all.has(at); at = side.parentOf(at)) all.add(at);
  return all;
}

// The next node behind `from` in order of execution that `test` holds of; -1: none.
export function nextNode(rank, from, forward, test) {
  if (!rank.order) {
    rank.order = [];
    const open = [0];
    while (open.length > 0) {
      const node = open.pop();
      rank.order.push(node);
      for (let k = rank.npu.children[node].length - 1; k >= 0; k--) open.push(rank.npu.children[node][k]);
    }
    rank.placeOf = new Uint32Array(rank.npu.count);
    rank.order.forEach((node, place) => {
      rank.placeOf[node] = place;
    });
  }
  const step = forward ? 1 : -1;
  for (
    let place = (from >= 0 ? rank.placeOf[from] : forward ? -1 : rank.order.length) + step;
    place >= 0 && place < rank.order.length;
    place += step
  ) {
    if (test(rank.order[place])) return rank.order[place];
  }
  return -1;
}

// A name as it reads below its parent: without the parent's path, the direction and number behind it.
export function shortName(side, node) {
  const name = side.names[node];
  const parent = side.parentOf(node);
  const found = /^(?:Module|Cell)\.(.+)\.([^.]+)\.(forward|backward)\.(\d+)$/.exec(name);
  if (!found) return name.endsWith('.parameters_grad') ? ['parameters_grad', ''] : [name, ''];
  const above =
    parent >= 0 ? /^(?:Module|Cell)\.(.+)\.[^.]+\.(?:forward|backward)\.\d+$/.exec(side.names[parent]) : null;
  const path = above && found[1].startsWith(`${above[1]}.`) ? found[1].slice(above[1].length + 1) : found[1];
  return [path, `${found[2]} · ${found[3]} ${found[4]}`];
}
