// The words of the page in both languages. {0}, {1}: what differs.
import { translatorOf } from '../common/text.js';

export const translator = translatorOf({
  title: ['msprobe graph', 'msprobe 模型图'],
  trees: ['Trees of both sides', '两侧的模型树'],
  nodes: ['nodes', '个节点'],
  matched: ['matched', '已匹配'],
  unmatched: ['without partner', '无匹配'],
  errors_count: ['errors', 'error'],
  warnings_count: ['warnings', 'warning'],
  overflowing: ['with NaN or infinity', '含 NaN 或 Inf'],
  built: ['BUILT', '已构建'],
  starts: ['it starts with', '起点：'],
  graph_of: ['Graph', '图'],
  micro_step: ['Micro step', 'micro step'],
  only_differing: ['Only what differs', '仅看有差异'],
  open_all: ['Open all', '全部展开'],
  close_all: ['Close all', '全部折叠'],
  by_level: ['NaN', 'NaN'],
  pass: ['pass', '通过'],
  warning: ['warning', '警告'],
  error: ['error', '错误'],
  medium: ['medium', '中'],
  high: ['high', '高'],
  critical: ['critical', '严重'],
  standing: ['Standing', '状态'],
  stack: ['Call stack', '调用栈'],
  figure: ['Verdict', '判定'],
  errors: ['Error', '误差'],
  in_out: ['{0} in, {1} out (relative)', '输入 {0}，输出 {1}（相对）'],
  origin: ['Origin', '起因'],
  partner: ['Partner', '匹配节点'],
  none_because: ['none: {0}', '无：{0}'],
  level: ['NaN or infinity', 'NaN 或 Inf'],
  relative_error: ['relative error', '相对误差'],
  no_tensors: [
    'This page has no tensors of this rank: it would be too large. The .vis.db file beside it has them.',
    '为控制页面大小，本页不含该 rank 的张量；请看旁边的 .vis.db 文件。',
  ],
  nothing_recorded: ['Nothing was recorded of this node itself.', '该节点自身没有记录。'],
  consumers: ['Receive an equal tensor', '收到相同张量的节点'],
  consumers_hint: [
    'same dtype, shape and statistics; which tensor goes where is not recorded',
    '数据类型、形状与统计量均相同；dump 并不记录张量的去向',
  ],
  partners: ['Communicates with', '通信对端'],
  pick: ['Pick a node.', '请选择一个节点。'],
  in_compare: ['All metrics of it, in the comparison', '在精度比对中查看全部指标'],
  zoom_in: ['Larger', '放大'],
  zoom_out: ['Smaller', '缩小'],
  keys: [
    'Keys in the tree: arrows move and fold, Enter folds, n and N go to the next and previous node that differs, ' +
      'u to the next without partner, o to where the runs part, f to the next found, / searches, + and - zoom; ' +
      'Ctrl with the wheel zooms as well.',
    '树中的按键：方向键移动与折叠，Enter 折叠，n 与 N 跳到下一个与上一个有差异的节点，u 跳到下一个无匹配的节点，o 跳到分歧起点，f 跳到下一个搜索结果，/ 搜索，+ 与 - 缩放；按住 Ctrl ' +
      '滚动滚轮也可缩放。',
  ],
  recorded: [
    'Modules and calls stand in order of execution. A dump records what went into and came out of each, not ' +
      'which tensor went where.',
    '模块与调用按执行顺序排列。dump 记录各自的输入与输出，不记录张量的去向。',
  ],
});
