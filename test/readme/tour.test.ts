import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import test from 'ava';
import { createEmptyDatabase, dropProjectDatabases } from '#test/support/databases.ts';
import { removeRedisKeys, testConfig } from '#test/support/platform.ts';
import { environmentOf, startProcess } from '#test/support/processes.ts';
import { patienceMs } from '#test/support/time-outs.ts';
import { differences } from './expected.ts';
import { type Block, blocksOf, readDocument, sectionOf } from './markdown.ts';

interface Step {
  readonly commands: string;
  /** The answers that the README shows below the commands. */
  readonly shown: Block | null;
}

const stepsOf = (blocks: readonly Block[]): Step[] =>
  blocks.flatMap((block, i) => {
    const next = blocks[i + 1];
    return block.language === 'sh'
      ? [{ commands: block.text, shown: next && next.language !== 'sh' ? next : null }]
      : [];
  });

const steps = stepsOf(blocksOf(sectionOf(readDocument('README.md'), 'A five-minute tour')));

const usualAddress = /^BASE=http:\/\/127\.0\.0\.1:3000$/m;

/** A job that has not ended: "Ask again", says the README. */
const requestAgain = (commands: string): string => `
until answer=$(${commands}
); case $answer in *'"status":"queued"'* | *'"status":"running"'*) false ;; esac; do :; done
echo "$answer"`;

const end = (index: number): string => `\n--- end of step ${index} ---\n`;

/** All steps as one script; each tells where its output ends. */
const scriptOf = (base: string): string =>
  steps
    .map(({ commands }, i) => {
      const here = commands.replace(usualAddress, `BASE=${base}`);
      return `${here.includes('/api/jobs/') ? requestAgain(here) : here}\nprintf '${end(i).replaceAll('\n', String.raw`\n`)}'`;
    })
    .join('\n');

const outputsOf = (output: string): string[] => {
  let rest = output;
  return steps.map((_step, i) => {
    const [own = '', after = ''] = rest.split(end(i));
    rest = after;
    return own.trim();
  });
};

const parse = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
};

const valueOf = (language: string, text: string): unknown => (language === 'json' ? parse(text) : text);

/** The differences from the shown answers, below the commands that they belong to. */
const differencesOf = ({ commands, shown }: Step, output: string): string[] => {
  const { language, text } = shown ?? { language: 'text', text: '' };
  const found = differences(valueOf(language, text), valueOf(language, output));
  return found.length > 0 ? [commands, ...found] : [];
};

const started: { base: string; stop: () => Promise<void> } = { base: '', stop: async () => undefined };

test.before('the processes that npm start starts run, on a database that has nothing yet', async () => {
  const database = await createEmptyDatabase();
  const config = testConfig(database.url, { PLINTH_RATE_LIMITS: 'on' });
  const processes = ['api/server.ts', 'workers/server.ts'].map((file) => startProcess(file, environmentOf(config)));
  started.stop = async () => {
    for (const { child } of processes) child.kill('SIGTERM');
    await Promise.all(processes.map(({ end }) => end));
    await removeRedisKeys(config);
    await dropProjectDatabases(database.url);
    await database.drop();
  };
  const [api] = await Promise.all(processes.map(({ ready }) => ready));
  started.base = `http://127.0.0.1:${api?.port}`;
});

test.after.always('the processes stop', () => started.stop());

test('the tour of the README, pasted into a shell, shows what the README says', async (t) => {
  t.is(steps.filter(({ commands }) => usualAddress.test(commands)).length, 1, 'the address is set once');
  const script = scriptOf(started.base);
  const { stdout, stderr } = await promisify(execFile)('bash', ['--norc', '-u', '-c', script], { timeout: patienceMs });
  const outputs = outputsOf(stdout);
  const wrong = steps.flatMap((step, i) => differencesOf(step, outputs[i] ?? ''));
  t.deepEqual({ wrong, stderr }, { wrong: [], stderr: '' });
});

test('the page that the tour ends at is there', async (t) => {
  const answer = await fetch(`${started.base}/docs`);
  t.is(answer.status, 200);
  t.regex(await answer.text(), /<title>plinth API<\/title>/);
});
