import { parentPort } from 'node:worker_threads';
import { helperThreadNice, setThreadNice } from '#lib/cpu-priority.ts';
import { readPackagedModels } from './package.ts';

// No caller waits for it yet, and the event loop beside it starts the process.
setThreadNice(helperThreadNice);
parentPort?.postMessage(readPackagedModels(), []);
