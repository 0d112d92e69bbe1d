import { createHash } from 'node:crypto';
import { createRequire } from 'node:module';
import path from 'node:path';

const require = createRequire(import.meta.url);

/** The SHA-256 of BullMQ's own script that adds a job, as it is in the version that package.json pins. */
const known = '2eee45c9ffc54d24681b737f926016a7f7464f0d32a5f87f623bffa2fc55413c';

const scriptText = (): string => {
  const file = path.join(path.dirname(require.resolve('bullmq')), 'scripts/addStandardJob-9.js');
  const { addStandardJob } = require(file) as { addStandardJob: { content: string } };
  return addStandardJob.content;
};

/** BullMQ's script when it is the one that was tried, else null. */
export const knownScript = (): string | null => {
  try {
    const text = scriptText();
    return createHash('sha256').update(text).digest('hex') === known ? text : null;
  } catch {
    return null;
  }
};

/**
 * Lua that defines `bull_add(KEYS, ARGV)`: BullMQ's own script as a function, so that a lease and its BullMQ job are
 * made in one step and a job costs no message of its own. The script is private to BullMQ: with any other version than
 * the one that was tried (null) `bull_add` is nil, and jobs are added through BullMQ's public interface, slower and
 * just as right.
 */
export const bullmqAdd = (script: string | null = knownScript()): string =>
  script === null ? 'local bull_add = nil\n' : `local function bull_add(KEYS, ARGV)\n${script}\nend\n`;
