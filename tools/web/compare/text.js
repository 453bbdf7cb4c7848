// Every word of the page, in both languages. {0}, {1}: what stands there differs.
import { ADVICE, chineseOf } from '../common/chinese.js';
import { translatorOf } from '../common/text.js';
import { VERDICT_WORDS } from '../common/verdicts.js';

const words = translatorOf({
  en: {
    ...VERDICT_WORDS.en,
    title: 'Comparison', against: 'against', calls: 'calls', rows: 'tensors', pairs: 'pairs', one_pair: 'pair',
    text_identical: 'all {0} compared tensors are equal', text_agree: 'all {0} compared tensors are equal up to rounding noise',
    'text_not bit-equal': 'checksums differ, but by no more than rounding noise according to the statistics',
    text_unmatched: 'what could be matched agrees, but not everything has a partner',
    text_unreadable: 'what could be read agrees, but tensor files could not be read', 'text_nothing compared': 'no tensor has values on both sides',
    text_failed: '{0} pairs could not be compared',
    text_drift: '{0} tensors are beyond rounding noise, explained by accumulated rounding; no single call is the origin', text_differ: 'it starts with {0}',
    text_differ_rows: '{0} tensors are beyond rounding noise', where: 'Where it starts', where_of: 'Where it starts in {0}', first_divergence: 'first origin',
    first_drift: 'first drift', first_unequal_bits: 'first unequal bits', kind_parameter: 'parameter', kind_input: 'input', kind_computation: 'computation',
    kind_optimizer: 'optimizer', kind_dtype: 'dtype', 'kind_unmatched call': 'unmatched call', why: 'why', error: 'error (relative)',
    in_out: '{0} in → {1} out', code: 'code', note: 'note', stack: 'call stack', confidence: 'confidence: {0}', wrong: 'wrong', wrong_npu: 'the NPU side',
    wrong_bench: 'the bench', wrong_both: 'both sides', wrong_neither: 'neither side', wrong_unknown: 'not known', low: 'low', medium: 'medium', high: 'high',
    certain: 'certain', layer: 'module', show: 'show the call', next: 'Next', amplifiers: 'Strongest amplifiers', factor: 'factor',
    pair_map: 'Steps and ranks', pair_map_hint: 'colour: the verdict; darker where more tensors differ. Click to see a pair.', step: 'step', rank: 'rank',
    whole: 'all', not_in_page: 'Its tensors are not in this page; see {0}.', other_pairs: 'Pairs', curve: 'Error over execution order', error_in: 'error in',
    error_out: 'error out', curve_hint: 'calls without error have no point; drag to zoom, double click for all, click to see a call',
    all_zero: 'No call has an error other than zero.', call_number: 'call {0} of {1}', calls_tree: 'Calls', tensors: 'Tensors',
    only_differing: 'only what differs', search: 'Search calls and tensors', in: 'in', out: 'out', name: 'name', differing: 'differ',
    not_recorded: 'not recorded itself', standing: 'standing', not_compared: 'not compared', identical: 'identical', agrees: 'agrees', alone: 'no partner',
    drifts: 'drifts', differs: 'differs', agree: 'agree', drift: 'drift', differ: 'differ', relative: 'relative', absolute: 'absolute',
    times_noise: '{0} × own noise', table_verdict: 'verdict', dtype: 'dtype', shape: 'shape', loading: 'Reading figures …',
    pick_call: 'Pick a call to see its tensors.', details: 'Call', in_graph: 'Its place in the tree of the model', under_test: 'under test',
    reference: 'reference', difference: 'difference', max: 'max', min: 'min', mean: 'mean', norm: 'norm',
    more_rows: '{0} more tensors: see the list of tensors.', no_partner: 'no partner on the reference side', checksum: 'checksum',
    bench_only: 'Only on the reference side: {0} tensors', first_of: '(the first {0})', alone_npu: 'Only under test: {0}',
    alone_bench: 'Only in the reference: {0}', digits: 'Statistics are float32 (7 digits), errors have 3 digits; the table of the same run holds all digits.',
    notes: 'What is not in this page', tables: 'Tables beside this page:',
  },
  zh: {
    ...VERDICT_WORDS.zh,
    title: '精度比对', against: '对比', calls: '次调用', rows: '个张量', pairs: '对', one_pair: '对', text_identical: '所比对的 {0} 个张量全部相等', text_agree: '所比对的 {0} 个张量在舍入误差内相等',
    'text_not bit-equal': '校验和不同；从统计量看不超过舍入误差', text_unmatched: '能匹配的部分一致，但并非全部都有对应项', text_unreadable: '能读取的部分一致，但有张量文件无法读取',
    'text_nothing compared': '没有任何张量在两侧都有数值', text_failed: '{0} 对无法比对', text_drift: '{0} 个张量的差异超过噪声，但可由累积的舍入误差解释；没有单一的起点', text_differ: '起点：{0}',
    text_differ_rows: '{0} 个张量的差异超过噪声', where: '差异从何开始', where_of: '{0} 的差异从何开始', first_divergence: '首个起点', first_drift: '首次漂移', first_unequal_bits: '首处比特不等',
    kind_parameter: '参数', kind_input: '输入', kind_computation: '计算', kind_optimizer: '优化器', kind_dtype: '数据类型', 'kind_unmatched call': '单侧调用', why: '依据',
    error: '误差（相对）', in_out: '输入 {0} → 输出 {1}', code: '代码', note: '备注', stack: '调用栈', confidence: '置信度：{0}', wrong: '出错方', wrong_npu: 'NPU 侧',
    wrong_bench: '标杆侧', wrong_both: '两侧均错', wrong_neither: '两侧均对', wrong_unknown: '无法判定', low: '低', medium: '中', high: '高', certain: '确定', layer: '模块',
    show: '查看该调用', next: '下一步', amplifiers: '误差放大最多的调用', factor: '倍数', pair_map: '步与 rank', pair_map_hint: '颜色表示结论，差异越多越深。点击查看。', step: '步', rank: 'rank',
    whole: '全部', not_in_page: '其张量不在本页中，见 {0}。', other_pairs: '各对', curve: '误差随执行顺序的变化', error_in: '输入误差', error_out: '输出误差',
    curve_hint: '误差为零的调用没有点；拖动以缩放，双击恢复，点击查看调用', all_zero: '所有调用的误差均为零。', call_number: '第 {0} / {1} 次调用', calls_tree: '调用', tensors: '张量',
    only_differing: '仅看差异', search: '搜索调用与张量', in: '输入', out: '输出', name: '名称', differing: '差异数', not_recorded: '自身未记录', standing: '状态', not_compared: '未比对',
    identical: '相等', agrees: '一致', alone: '无对应项', drifts: '漂移', differs: '不同', agree: '一致', drift: '漂移', differ: '不同', relative: '相对误差', absolute: '绝对误差',
    times_noise: '自身噪声的 {0} 倍', table_verdict: '结论', dtype: '类型', shape: '形状', loading: '正在读取数据 …', pick_call: '选择一次调用以查看其张量。', details: '调用',
    in_graph: '在模型树中的位置', under_test: '待测', reference: '标杆', difference: '差', max: '最大', min: '最小', mean: '均值', norm: '范数', more_rows: '另有 {0} 个张量，见张量列表。',
    no_partner: '标杆侧没有对应项', checksum: '校验和', bench_only: '仅标杆侧有：{0} 个张量', first_of: '（前 {0} 个）', alone_npu: '仅待测侧有：{0}', alone_bench: '仅标杆侧有：{0}',
    digits: '统计量为 float32（7 位有效数字），误差保留 3 位；同次运行的表格包含全部数字。', notes: '本页未包含的内容', tables: '与本页同目录的表格：',
  },
});

const adviceInChinese = chineseOf({}, ADVICE);

// What msprobe advises stands in the data.
export const translator = (language) => Object.assign(words(language), { advice: language === 'zh' ? adviceInChinese : (text) => text });
