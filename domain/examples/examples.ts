import type { Example } from './example.ts';
import { nightlyReport } from './report.ts';
import { todo } from './todo.ts';
import { webhook } from './webhook.ts';

/** In the order in which they are offered. */
export const examples: readonly Example[] = [todo, webhook, nightlyReport];
