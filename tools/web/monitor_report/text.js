// Every word of the page, in both languages. {0}, {1}: what stands there differs.
import { translatorOf } from '../common/text.js';

const WORDS = {
  en: {
    title: 'Training monitor', steps: 'steps', step: 'step', ranks: 'ranks', rank: 'rank', rows: 'rows', alerts: 'alerts', one_ranks: 'rank',
    one_series: 'series', one_rows: 'row', one_alerts: 'alert', not_finite: 'NaN / Inf', series: 'series', compared_with: 'compared with',
    findings: 'What stands out', nothing: 'No alerts, no NaN, no infinity, no large deviation from history.',
    first_not_finite: 'First value that is not finite', first_alert: 'First alert', far_off: 'Largest deviation from history',
    never_numbers: 'NaN in every row: {0} series', unmeasured: 'No tensor in any step: {0} series', several: '{0} of {1} series',
    and_others: 'and {0} more series', many_far_off: 'Deviating from their history together', runs_part: 'The runs diverge first',
    runs_agree: 'The runs agree up to 0.1 % in all {0} compared values.', times_usual: '{0} × usual spread',
    only_counts: 'In one run only: {0} series of the test, {1} of the reference', table: 'Table', statistic: 'Statistic', over_ranks: 'Over ranks', scale: 'Scale',
    linear: 'linear', log: 'log', median: 'median', largest: 'largest |value|', spread: 'spread', each_rank: 'each rank', one_rank: 'rank {0}',
    search: 'Search modules', order: 'Order of modules', by_order: 'model order', by_score: 'worst first', by_name: 'name', by_only: 'in one run only first',
    only: 'only {0}', range: 'Steps {0} to {1}', whole_range: 'whole run',
    brush_hint: 'drag to zoom, drag the window to move it, double click for the whole run', odd_modules: 'modules far from usual', curves: 'Curves',
    curves_hint: 'drag to zoom, double click for the whole run', pick: 'Pick modules on the left, or click into the heat map.', heat: 'Heat map',
    modules_by_step: 'module × step', ranks_by_step: 'rank × step', deviation: 'deviation', values: 'values', ratio: 'test / reference',
    deviation_hint: 'distance from the row’s median in units of its usual spread',
    ratio_hint: 'test {0} over reference {1}, as a power of two: above 0 where the test is larger', missing: 'no row', show_first: '{0} of {1} shown', message: 'message',
    module: 'module', in_range: 'in the chosen steps', alerts_none: 'No alerts in the chosen steps.',
    precision: 'Numbers are exact as far as the monitor’s files hold them with a fixed number of digits; where that would need more room they are float32 (7 digits).',
    overlay: 'test {0} solid, reference {1} dashed', test: 'test', reference: 'reference', remove: 'remove',
  },
  zh: {
    title: '训练监控', steps: '步', step: '步', ranks: '个 rank', rank: 'rank', rows: '行', alerts: '告警', one_ranks: '个 rank', one_series: '条序列', one_rows: '行',
    one_alerts: '告警', not_finite: 'NaN / Inf', series: '条序列', compared_with: '对比', findings: '值得注意', nothing: '没有告警，没有 NaN 和无穷大，也没有明显偏离自身历史的数值。',
    first_not_finite: '首个非有限数值', first_alert: '首条告警', far_off: '偏离自身历史最远', never_numbers: '{0} 条序列每一行都是 NaN', unmeasured: '{0} 条序列在任何一步都没有张量',
    several: '{1} 条序列中的 {0} 条', and_others: '另有 {0} 条序列', many_far_off: '同时偏离自身历史', runs_part: '两次运行最先分离处', runs_agree: '所比对的 {0} 个数值在 0.1 % 内一致。',
    times_usual: '通常波动的 {0} 倍', only_counts: '仅一次运行中有：待比对 {0} 条序列，标杆 {1} 条', table: '数据表', statistic: '统计量', over_ranks: '跨 rank', scale: '刻度', linear: '线性',
    log: '对数', median: '中位数', largest: '最大绝对值', spread: '极差', each_rank: '逐个 rank', one_rank: 'rank {0}', search: '搜索模块', order: '模块顺序', by_order: '模型顺序',
    by_score: '异常优先', by_name: '名称', by_only: '仅一方有的优先', only: '仅 {0}', range: '第 {0} 至 {1} 步', whole_range: '全程', brush_hint: '拖动以缩放，拖动窗口以平移，双击恢复全程',
    odd_modules: '偏离常态的模块数', curves: '曲线', curves_hint: '拖动以缩放，双击恢复全程', pick: '请在左侧选择模块，或点击热力图。', heat: '热力图', modules_by_step: '模块 × 步',
    ranks_by_step: 'rank × 步', deviation: '偏离度', values: '数值', ratio: '待比对 / 标杆', deviation_hint: '与该行中位数的距离，以通常波动为单位',
    ratio_hint: '待比对 {0} 与标杆 {1} 之比，以 2 的幂表示：大于 0 处待比对侧较大', missing: '无数据行', show_first: '显示 {0} / {1}', message: '消息', module: '模块', in_range: '在所选步内',
    alerts_none: '所选步内没有告警。', precision: '监控文件以固定小数位保存的数值在此为精确值；若那样占用空间过大，则以 float32（7 位有效数字）保存。', overlay: '待比对 {0} 实线，标杆 {1} 虚线', test: '待比对', reference: '标杆',
    remove: '移除',
  },
};

export const translator = translatorOf(WORDS);
