// The verdicts of a comparison, by the names that src/analysis/compare/summary.cpp gives them: their words and how they look.
const TONES = { identical: 'good', agree: 'good', 'not bit-equal': 'caution', unmatched: 'caution', unreadable: 'caution', 'nothing compared': 'bad', drift: 'caution', differ: 'bad', failed: 'bad' };
export const toneOf = (verdict) => TONES[verdict] ?? '';

export const VERDICT_WORDS = {
  en: {
    verdict_identical: 'IDENTICAL', verdict_agree: 'AGREE', 'verdict_not bit-equal': 'NOT BIT-EQUAL', verdict_unmatched: 'AGREE IN PART',
    verdict_unreadable: 'AGREE IN PART', 'verdict_nothing compared': 'NOTHING COMPARED', verdict_drift: 'DRIFT', verdict_differ: 'DIFFERENT',
    verdict_failed: 'FAILED',
  },
  zh: {
    verdict_identical: '完全一致', verdict_agree: '一致', 'verdict_not bit-equal': '比特不等', verdict_unmatched: '部分一致', verdict_unreadable: '部分一致',
    'verdict_nothing compared': '未能比对', verdict_drift: '漂移', verdict_differ: '不同', verdict_failed: '失败',
  },
};
