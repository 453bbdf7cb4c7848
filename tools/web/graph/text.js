// The words of this page in both languages.
import { translatorOf } from '../common/text.js';
import { VERDICT_WORDS } from '../common/verdicts.js';

const WORDS = {
  en: {
    ...VERDICT_WORDS.en,
    title: 'msprobe graph', against: 'against', trees: 'Trees of both sides', nodes: 'nodes', steps: 'steps', ranks: 'ranks', rank: 'rank', step: 'step',
    matched: 'matched', unmatched: 'without partner', errors_count: 'errors', warnings_count: 'warnings', overflowing: 'with NaN or infinity',
    built: 'BUILT', starts: 'it starts with', graph_of: 'Graph', micro_step: 'Micro step', all: 'all', only_differing: 'Only what differs',
    open_all: 'Open all', close_all: 'Close all', by_standing: 'Standing', by_error: 'Error', by_figure: 'Verdict', by_level: 'NaN', identical: 'identical',
    agrees: 'agrees within noise', drifts: 'drifts', differs: 'differs', alone: 'no partner', not_compared: 'not compared', pass: 'pass', warning: 'warning',
    error: 'error', medium: 'medium', high: 'high', critical: 'critical', standing: 'Standing', figure: 'Verdict', errors: 'Error',
    in_out: '{0} in, {1} out (relative)', origin: 'Origin', partner: 'Partner', none_because: 'none: {0}', level: 'NaN or infinity', tensors: 'Tensors',
    shape: 'shape', npu: 'test', bench: 'reference', relative_error: 'relative error', loading: 'Reading …',
    no_tensors: 'This page has no tensors of this rank: it would be too large. The .vis.db file beside it has them.',
    nothing_recorded: 'Nothing was recorded of this node itself.', consumers: 'Receive an equal tensor',
    consumers_hint: 'same dtype, shape and statistics; which tensor goes where is not recorded', partners: 'Communicates with', stack: 'Call stack',
    pick: 'Pick a node.', in_compare: 'All metrics of it, in the comparison', zoom_in: 'Larger', zoom_out: 'Smaller',
    keys: 'Keys in the tree: arrows move and fold, Enter folds, n and N go to the next and previous node that differs, u to the next without partner, o to where the runs part, f to the next found, / searches, + and - zoom; Ctrl with the wheel zooms as well.',
    recorded: 'Modules and calls stand in order of execution. A dump records what went into and came out of each, not which tensor went where.',
    verdict_none: 'NOT COMPARED',
  },
  zh: {
    ...VERDICT_WORDS.zh,
    title: 'msprobe 模型图', against: '对比', trees: '两侧的模型树', nodes: '个节点', steps: '步', ranks: '个 rank', rank: 'rank', step: 'step', matched: '已匹配',
    unmatched: '无匹配', errors_count: 'error', warnings_count: 'warning', overflowing: '含 NaN 或 Inf', built: '已构建', starts: '起点：', graph_of: '图',
    micro_step: 'micro step', all: '全部', only_differing: '仅看有差异', open_all: '全部展开', close_all: '全部折叠', by_standing: '状态', by_error: '误差', by_figure: '判定',
    by_level: 'NaN', identical: '完全一致', agrees: '噪声内一致', drifts: '漂移', differs: '有差异', alone: '无匹配', not_compared: '未比对', pass: '通过', warning: '警告',
    error: '错误', medium: '中', high: '高', critical: '严重', standing: '状态', figure: '判定', errors: '误差', in_out: '输入 {0}，输出 {1}（相对）', origin: '起因',
    partner: '匹配节点', none_because: '无：{0}', level: 'NaN 或 Inf', tensors: '张量', shape: '形状', npu: '待比对', bench: '标杆', relative_error: '相对误差', loading: '正在读取 …',
    no_tensors: '为控制页面大小，本页不含该 rank 的张量；请看旁边的 .vis.db 文件。', nothing_recorded: '该节点自身没有记录。', consumers: '收到相同张量的节点',
    consumers_hint: '数据类型、形状与统计量均相同；dump 并不记录张量的去向', partners: '通信对端', stack: '调用栈', pick: '请选择一个节点。', in_compare: '在精度比对中查看全部指标', zoom_in: '放大',
    zoom_out: '缩小', keys: '树中的按键：方向键移动与折叠，Enter 折叠，n 与 N 跳到下一个与上一个有差异的节点，u 跳到下一个无匹配的节点，o 跳到分歧起点，f 跳到下一个搜索结果，/ 搜索，+ 与 - 缩放；按住 Ctrl 滚动滚轮也可缩放。',
    recorded: '模块与调用按执行顺序排列。dump 记录各自的输入与输出，不记录张量的去向。', verdict_none: '未比对',
  },
};

export const translator = translatorOf(WORDS);
