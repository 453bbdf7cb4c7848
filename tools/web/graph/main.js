import { start } from '../common/page.js';
import { App } from './app.js';
import { readRun } from './data.js';
import { translator } from './text.js';

start(readRun, App, translator);
