import { start } from '../common/page.js';
import { App } from './app.js';
import { readRuns } from './data.js';
import { translator } from './text.js';

start(readRuns, App, translator);
