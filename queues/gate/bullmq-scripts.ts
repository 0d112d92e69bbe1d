import { createHash } from 'node:crypto';
import { createRequire } from 'node:module';
import path from 'node:path';

const require = createRequire(import.meta.url);

/**
 * BullMQ's own scripts that we run as functions, with the SHA-256 of their text in the version that package.json pins.
 */
const scripts = {
  addStandardJob: {
    file: 'addStandardJob-9.js',
    sha256: '2eee45c9ffc54d24681b737f926016a7f7464f0d32a5f87f623bffa2fc55413c',
  },
  moveToActive: {
    file: 'moveToActive-11.js',
    sha256: '7d35069db0b831af1bd1b2d5eb8d524e86fc7d3280b8c684a96b6614bad7d79a',
  },
  moveToFinished: {
    file: 'moveToFinished-14.js',
    sha256: '8e744ec5d65dbe9e7ffb6e39a96c0268bba65e4f0b1d04e2d2a42ccb71b45a6d',
  },
} as const;
type BullmqScript = keyof typeof scripts;

/** The texts of BullMQ's scripts. */
export type BullmqScripts = Readonly<Record<BullmqScript, string>>;

const textOf = (name: BullmqScript): string => {
  const { file, sha256 } = scripts[name];
  const exported = require(path.join(path.dirname(require.resolve('bullmq')), 'scripts', file)) as Readonly<
    Record<string, { readonly content: string }>
  >;
  const text = exported[name]?.content ?? '';
  if (createHash('sha256').update(text).digest('hex') !== sha256) throw new Error(`BullMQ's ${file} is another one`);
  return text;
};

/** BullMQ's scripts when all of them are those that were tried, else null. */
export const knownScripts = (): BullmqScripts | null => {
  try {
    return {
      addStandardJob: textOf('addStandardJob'),
      moveToActive: textOf('moveToActive'),
      moveToFinished: textOf('moveToFinished'),
    };
  } catch {
    return null;
  }
};

// Nobody reads BullMQ's stream of events: five entries a job, and the trimming of them.
const withoutEvents = `
local function call_without_events(command, key, ...)
  if (command == 'XADD' or command == 'XTRIM') and string.sub(key, -7) == ':events' then return false end
  return redis.call(command, key, ...)
end
`;

/**
 * Lua that defines BullMQ's own script as the function `name(KEYS, ARGV)`, so that it is one step with ours. These
 * scripts are private to BullMQ: with any other version than the one that was tried (null) the function is nil, and
 * jobs go BullMQ's own way, slower and just as right.
 */
export const bullmqFunction = (name: string, script: string | undefined): string =>
  script === undefined
    ? `local ${name} = nil\n`
    : `local ${name}\ndo\n${withoutEvents}\nlocal redis = { call = call_without_events, pcall = redis.pcall }\n` +
      `${name} = function(KEYS, ARGV)\n${script}\nend\nend\n`;
