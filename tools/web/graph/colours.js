// Colours of nodes: by how they stand, or by the size of their error, in steps of ten from white over yellow to dark
// red and violet, which people who do not tell red from green tell apart by lightness.
import { style } from '../common/colours.js';
import { isDark } from '../common/theme.js';
import { ALONE } from './data.js';

// Lightness falls from step to step (from the palette "magma", reversed, in six steps).
const ERRORS = {
  light: ['#f6efe4', '#fbd49c', '#fa9a6b', '#de5a66', '#96357c', '#4b1d6b'],
  dark: ['#2b3038', '#5c2a75', '#a33a7f', '#e05f62', '#fca06a', '#fde29c'],
};
const STEPS = [1e-7, 1e-5, 1e-3, 1e-2, 1e-1];
export const ERROR_STEPS = ['0', '1e-7', '1e-5', '1e-3', '1e-2', '0.1'];

export function palette() {
  return {
    errors: ERRORS[isDark() ? 'dark' : 'light'],
    text: style('--text'),
    muted: style('--muted'),
    line: style('--line'),
    card: style('--card'),
    ground: style('--ground'),
    accent: style('--accent'),
    soft: style('--accent-soft'),
    alert: style('--alert'),
    standings: [style('--calm'), style('--good'), style('--good'), style('--odd'), style('--warn'), style('--alert')],
    figures: [style('--calm'), style('--good'), style('--warn'), style('--alert')],
    levels: [style('--calm'), style('--warn'), style('--alert'), style('--nan')],
  };
}

export function errorColour(colours, error) {
  if (Number.isNaN(error)) return colours.standings[0];
  let step = 0;
  while (step < STEPS.length && error >= STEPS[step]) step++;
  return colours.errors[step];
}

// A node that is closed shows the worst of what is inside of it.
export function nodeColour(rank, colours, by, node, isOpen) {
  if (node < 0) return colours.standings[ALONE];
  if (by === 'error')
    return errorColour(
      colours,
      isOpen ? (rank.errorOf(rank.outCodes, node) === null ? NaN : rank.errorOut[node]) : rank.worstError[node],
    );
  if (by === 'figure') return colours.figures[isOpen ? rank.figureOf(node) : rank.worstFigure[node]];
  if (by === 'level') return colours.levels[isOpen ? rank.levelOf(node) : rank.worstLevel[node]];
  return colours.standings[isOpen ? rank.standingOf(node) : rank.worst[node]];
}
