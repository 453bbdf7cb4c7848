// Words of the page itself; what msprobe says about a run stands in the data, in English: `said` of a translator gives it in its language.
import { translatorOf } from '../common/text.js';

export const translator = translatorOf({
  en: {
    against: 'against', next: 'Next', notes: 'What is not in this page', change: 'change', count: 'count', name: 'name', search: 'Search', all: 'all',
    grew_only: 'only what grew', map_hint: 'colour: size of the difference. Click to see the rows.', largest: 'largest', none: 'no difference',
    digits: 'Numbers have 7 digits.', first: 'reference', second: 'test', loading: 'Reading …', answer: 'Answer', warnings: 'Warnings',
    show_more: 'show {0} more', only_marked: 'only the {0} highlighted', constant: 'The same in every row:', as: 'as {0}',
    curves_hint: 'Names switch lines on and off; the pointer or the arrow keys read values.',
  },
  zh: {
    against: '对比', next: '下一步', notes: '本页未包含的内容', change: '变化', count: '次数', name: '名称', search: '搜索', all: '全部', grew_only: '仅看增长',
    map_hint: '颜色表示差异大小。点击查看对应行。', largest: '最大', none: '无差异', digits: '数字保留 7 位有效数字。', first: '标杆', second: '待比对', loading: '正在读取 …', answer: '结论',
    warnings: '警告', show_more: '再显示 {0} 项', only_marked: '仅看高亮的 {0} 行', constant: '各行相同：', as: '同 {0}', curves_hint: '点击名称可显示或隐藏曲线；移动指针或按方向键读取数值。',
  },
});
