// What msprobe says in English in the data of a page, in Chinese. {0}, {1}: what differs there; the plural of an English word is "(s)".
// What is not here stays English: names, code, messages of other programs. Held by tests/cli/answer_page_test.py.
import { ADVICE, chineseOf } from '../common/chinese.js';

const WORDS = {
  // verdicts
  IDENTICAL: '完全一致', AGREE: '一致', 'AGREE IN PART': '部分一致', DIFFERENT: '不同', 'NOTHING COMPARED': '未能比对', 'NOT COMPARED': '未比对', FAILED: '失败', SAME: '相同',
  SLOWER: '变慢', FASTER: '变快', COMPARED: '已比对', FOUND: '已找到', GOOD: '正常', ENTERED: '外部传入', INCOMPLETE: '不完整', 'NOTHING SEARCHED': '未能查找',
  'SAME EXPERIMENT': '同一实验', 'NOT THE SAME EXPERIMENT': '不是同一实验', 'DIFFERENT SETTINGS': '设置不同', 'SAME SETTINGS': '设置相同', 'AS REQUIRED': '符合要求',
  'NOT AS REQUIRED': '不符合要求', COLLECTED: '已采集',
  // sections, columns, labels
  Files: '文件', Checks: '检查项', Counts: '计数', Warnings: '警告', Also: '另外', Errors: '错误', Rows: '行数', Check: '检查项', Result: '结果', Setting: '设置', Bench: '标杆',
  bench: '标杆', Required: '要求', required: '要求', Log: '日志', log: '日志', cmp: '待比对', 'What differs': '差异',
  'What differs, most important first (bench / cmp)': '差异，重要者在前（标杆 / 待比对）', 'Not compared': '未比对', 'What was collected': '采集内容', unpacked: '解包后的内容',
  'page for browsers': '浏览器页面', why: '原因', fix: '处理', hyperparameters: '超参数', random: '随机数', env: '环境变量', pip: '软件包', weights: '权重', dataset: '数据集',
  'warning, hyperparameters': '警告，超参数', 'warning, env': '警告，环境变量', 'warning, pip': '警告，软件包', 'note, env': '提示，环境变量', 'note, pip': '提示，软件包',
  'note, hyperparameters': '提示，超参数', pass: '通过', error: '错误', warning: '警告', different: '不同', identical: '相同', equal: '相等', missing: '缺失', none: '无',
  'not set': '未设置', place: '位置', code: '代码', made: '产生', bad: '异常', module: '模块', operator: '算子', communication: '通信', note: '说明', 'forward at': '前向位置',
  'called by': '调用者', 'first bad gradient': '首个异常梯度', searched: '查找范围', 'Levels, each operator by itself': '各级别，逐个算子',
  'Overflows that the device noted': '设备记录的溢出', Where: '位置', Metric: '指标', Base: '基准', base: '基准', Comparison: '对比', comparison: '对比', Change: '变化',
  change: '变化', Note: '说明', Notes: '说明', 'Base calls': '基准调用数', 'Comparison calls': '对比调用数', 'Base ms': '基准 ms', 'Comparison ms': '对比 ms', 'Call stack': '调用栈',
  Rank: 'Rank', Verdict: '结论', Error: '错误', 'All ranks': '全部 rank', 'Computing change': '计算变化', 'Communication change': '通信变化', 'Idle change': '空闲变化',
  'What the time consists of': '时间构成', 'What changed, down to kernels': '变化明细（直至 kernel）', 'Operators and modules that changed': '有变化的算子与模块',
  'Communication and what hides it': '通信及其掩盖', 'Largest differences': '最大差异', 'Collectives by kind': '集合通信（按种类）', 'Kernels by family': 'Kernel（按类别）',
  computing: '计算', 'communication not hidden': '未掩盖的通信', 'copies not hidden': '未掩盖的拷贝', idle: '空闲', 'hidden by computing': '被计算掩盖',
  'transfer not hidden': '未掩盖的传输', 'waiting not hidden': '未掩盖的等待', copies: '拷贝',
  'computing hides communication and copies that run beside it': '与计算并行的通信和拷贝被计算掩盖',
  'kernels of a family may run concurrently: their sum may exceed it': '同一类别的 kernel 可能并行执行，其总和可能超过该类别的时间', 'ms, or MB of memory': 'ms；显存为 MB',
  'all collectives of a side': '一侧的全部集合通信', 'end to end': '端到端', 'launched outside of operators': '在算子之外下发', 'operators (host)': '算子（主机侧）',
  'earlier step': '更早的步', graphs: '图', 'outside of operators': '算子之外', 'memory (GB)': '显存（GB）', 'only in the base': '仅基准有', 'only in the comparison': '仅对比有',
  'Layers by kind': '各层（按参数种类）', Parameters: '参数', Parameter: '参数', parameters: '参数', 'largest relative l2': '最大相对 l2', 'Per layer, relative l2': '逐层相对 l2',
  'Not comparable': '无法比对', 'Only in checkpoint 1': '仅检查点 1 有', 'Only in checkpoint 2': '仅检查点 2 有', 'Left out of checkpoint 1': '检查点 1 中略过',
  'Left out of checkpoint 2': '检查点 2 中略过', 'Equal under another name': '值相等但名称不同', 'Settings of the optimizer that differ': '不同的优化器设置',
  'Settings of the optimizer that differ (1 / 2)': '不同的优化器设置（1 / 2）', 'checkpoint 1': '检查点 1', 'checkpoint 2': '检查点 2', 'Checkpoint 1': '检查点 1',
  'Checkpoint 2': '检查点 2', common: '共有', unmatched: '无对应', Name: '名称', 'Name 1': '名称 1', 'Name 2': '名称 2', Outcome: '结论', 'Dtype 1': '类型 1', 'Dtype 2': '类型 2',
  'Shape 1': '形状 1', 'Shape 2': '形状 2', Elements: '元素数', 'Equal bits': '相等比特', 'Relative l2': '相对 l2', 'Max abs': '最大绝对误差', 'Max abs error': '最大绝对误差',
  'Max relative error': '最大相对误差', 'RMS error': '均方根误差', 'Norm 1': '范数 1', 'Norm 2': '范数 2', 'Norm ratio': '范数比', 'Mean 1': '均值 1', 'Mean 2': '均值 2',
  'Different elements': '不同元素数', 'At index': '所在下标',
  // nan_analyze
  'good inputs, bad outputs': '输入正常，输出异常', 'the value is among its arguments': '该值就在其参数中',
  'its inputs were good on all ranks, its output is not': '其输入在所有 rank 上正常，输出异常', 'its input is an uninitialised tensor': '其输入是未初始化的张量',
  'its inputs were bad, and no recorded operator produced them': '其输入异常，但没有任何已记录的算子产生它们',
  'its inputs were bad, while those of the module around it were good': '其输入异常，而外层模块的输入正常',
  'activation checkpointing recomputed it, and its first run cannot be found': '激活重计算重新执行了它，但找不到其首次执行',
  'received from a rank whose dump is missing or truncated: look for the cause there': '来自数据缺失或被截断的 rank：请在那里查找原因',
  'its inputs hold nothing worse than the -inf of a mask; a row that is masked as a whole gives NaN': '其输入除掩码的 -inf 外无异常；整行被掩盖会得到 NaN',
  // config_check
  'packages that only one side has; expected if the devices differ': '仅一侧有的软件包；设备不同时属正常',
  'bench ran on gpu, cmp on npu: some variables have no counterpart there': '标杆运行于 gpu，待比对侧运行于 npu：部分变量没有对应项',
  'bench ran on npu, cmp on gpu: some variables have no counterpart there': '标杆运行于 npu，待比对侧运行于 gpu：部分变量没有对应项',
};

const SENTENCES = [
  ['rank {0} made the first {1}, in {2}', 'rank {0} 产生了首个 {1}，位于 {2}'],
  ['the first {0} came out of a communication, {1} (rank {2})', '首个 {0} 来自通信 {1}（rank {2}）'],
  ['the first {0} reached rank {1} from a rank that is not in the dump, {2}', '首个 {0} 由不在数据中的 rank 传到 rank {1}，{2}'],
  ['the first {0} was made on rank {1} by a call that is not recorded, first seen by {2}', '首个 {0} 由 rank {1} 上未被记录的调用产生，最先见于 {2}'],
  ['rank {0} was asked for {1}, as a constant of {2}', 'rank {0} 被要求给出 {1}，它是 {2} 的常数'],
  ['{0} entered rank {1} from outside the recorded calls, first seen by {2}', '{0} 从已记录的调用之外进入 rank {1}，最先见于 {2}'],
  ['{0} on rank {1} produced {2} only when recomputed', 'rank {1} 上的 {0} 仅在重计算时产生 {2}'],
  ['{0} on rank {1} read {2} from uninitialised memory', 'rank {1} 上的 {0} 从未初始化的内存读到 {2}'],
  ['no NaN and no infinity in {0} operator(s) of {1} rank(s)', '{1} 个 rank 的 {0} 个算子中没有 NaN 和无穷大'],
  ['no NaN and no infinity in the {0} that could be read', '可读取的 {0} 中没有 NaN 和无穷大'], ['How it spread: {0} rank(s) of {1}', '传播情况：{1} 个 rank 中的 {0} 个'],
  ['First consequences, of {0} operator(s)', '最初的影响（共 {0} 个算子）'], ['operator {0} of {1} on its rank', '所在 rank 的第 {0} 个算子，共 {1} 个'],
  ['{0}: good inputs, bad outputs', '{0}：输入正常，输出异常'], ['{0}: its inputs were good on all ranks, its output is not', '{0}：其输入在所有 rank 上正常，输出异常'],
  ['{0}: its inputs were bad, and no recorded operator produced them', '{0}：其输入异常，但没有任何已记录的算子产生它们'],
  ['{0} operator(s) of {1} rank(s); {2} communication(s) matched, {3} without a partner', '{1} 个 rank 的 {0} 个算子；{2} 次通信已匹配，{3} 次没有对端'],
  ['rank {0}: {1}: the value is among its arguments', 'rank {0}：{1}：该值就在其参数中'], ['{0} {1}  max {2}  min {3}', '{0} {1}  最大 {2}  最小 {3}'],
  ['group {0}', '通信组 {0}'], ['line {0}, in {1}', '第 {0} 行，{1}'], ['{0} of {1} checks fail ({2})', '{1} 项检查中 {0} 项不通过（{2}）'],
  ['nothing differs in {0} check(s)', '{0} 项检查均无差异'], ['{0} of {1} required setting(s)', '{1} 项要求的设置中 {0} 项'], ['{0} of {1} setting(s)', '{1} 项设置中 {0} 项'],
  ['all {0} setting(s) agree', '{0} 项设置全部一致'], ['all checks pass, with warnings', '检查全部通过，有警告'], ['the two packs have nothing in common', '两个包没有共同内容'],
  ['{0} hyperparameter(s) differ(s)', '{0} 个超参数不同'], ['{0} hyperparameter(s) has no partner', '{0} 个超参数没有对应项'],
  ['{0} hyperparameters have no partner', '{0} 个超参数没有对应项'], ['{0} of the packages that matter differ(s)', '{0} 个关键软件包不同'],
  ['{0} of {1} places that draw or seed random numbers differ', '{1} 处取随机数或设种子的位置中 {0} 处不同'],
  ['{0} of {1} recorded weights differ, {2}', '所记录的 {1} 个权重中 {0} 个不同，{2}'], ['from step {0} on (equal before, since step {1})', '自第 {0} 步起（此前自第 {1} 步起相等）'],
  ['{0} (step {1} rank {2}): relative difference up to {3}', '{0}（第 {1} 步，rank {2}）：相对差异最大 {3}'], ['{0} / {1} calls, {2}', '{0} / {1} 次调用，{2}'],
  ['{0} differs', '{0} 不同'], ['bench {0}, cmp {1}', '标杆 {0}，待比对 {1}'], ['{0} line {1}', '{0} 第 {1} 行'], ['not compared: {0}', '未比对：{0}'],
  ['{0} (cmp)', '{0}（待比对）'], ['{0} (bench)', '{0}（标杆）'], ['{0} (dropout draws random numbers: set it to 0 while comparing)', '{0}（dropout 会取随机数：比对时设为 0）'],
  ['by {0}, mostly {1} (E2E {2} -> {3} ms)', '{0}，主要在{1}（端到端 {2} → {3} ms）'], ['by {0} (E2E {1} -> {2} ms)', '{0}（端到端 {1} → {2} ms）'],
  ['{0} (E2E {1} -> {2} ms)', '{0}（端到端 {1} → {2} ms）'], ['computing: {0}', '计算：{0}'], ['computing +{0}', '计算 +{0}'], ['computing -{0}', '计算 -{0}'],
  ['communication: {0}', '通信：{0}'], ['communication +{0}', '通信 +{0}'], ['idle: {0}', '空闲：{0}'], ['idle +{0}', '空闲 +{0}'],
  ['time in operators: {0}', '算子内的时间：{0}'], ['time outside of operators: {0}', '算子之外的时间：{0}'],
  ['{0} ms ({1} %) belong to no operator', '{0} ms（{1} %）不属于任何算子'], ['{0} -> {1} kernel(s)', '{0} → {1} 个 kernel'], ['{0} -> {1} call(s)', '{0} → {1} 次调用'],
  ['{0} and {1} more', '{0} 等 {1} 项'], ['{0} of {1} common parameter(s), most of all {2}', '{1} 个共有参数中 {0} 个，差异最大的是 {2}'],
  ['{0} of {1} parameter(s) different, most of all {2}', '{1} 个参数中 {0} 个不同，差异最大的是 {2}'], ['all {0} parameter(s) are equal bit by bit', '{0} 个参数逐比特相等'],
  ['all {0} parameter(s) have the same values', '{0} 个参数的值全部相同'], ['all {0} parameter(s) agree within the tolerance', '{0} 个参数在容差内全部一致'],
  ['the checkpoints have no parameter in common', '两个检查点没有共有参数'], ['no common parameter has any element', '共有参数均无元素'],
  ['{0} could not be compared', '{0} 未能比对'], ['largest relative l2; {0} layers share a row', '最大相对 l2；每行 {0} 层'], ['only in checkpoint {0}', '仅检查点 {0} 有'],
  ['shapes {0} and {1}', '形状 {0} 与 {1}'],
];

// A text of the data; English where there is no Chinese for it.
export const inChinese = chineseOf(WORDS, [...ADVICE, ...SENTENCES]);

// A cell of a table: whole words only.
export const wordInChinese = (text) => (typeof text === 'string' && Object.hasOwn(WORDS, text) ? WORDS[text] : text);
