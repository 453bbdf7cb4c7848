// Words of the page itself; what msprobe says about a run stands in the data, in English: `said` of a translator gives
// it in its language.
import { translatorOf } from '../common/text.js';

export const translator = translatorOf({
  change: ['change', '变化'],
  count: ['count', '次数'],
  map_hint: ['colour: size of the difference. Click to see the rows.', '颜色表示差异大小。点击查看对应行。'],
  largest: ['largest', '最大'],
  none: ['no difference', '无差异'],
  digits: ['Numbers have 7 digits.', '数字保留 7 位有效数字。'],
  answer: ['Answer', '结论'],
  warnings: ['Warnings', '警告'],
  show_more: ['show {0} more', '再显示 {0} 项'],
  only_marked: ['only the {0} highlighted', '仅看高亮的 {0} 行'],
  constant: ['The same in every row:', '各行相同：'],
  as: ['as {0}', '同 {0}'],
  curves_hint: [
    'Names switch lines on and off; the pointer or the arrow keys read values.',
    '点击名称可显示或隐藏曲线；移动指针或按方向键读取数值。',
  ],
});
