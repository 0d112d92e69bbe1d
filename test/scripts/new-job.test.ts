import { execFile } from 'node:child_process';
import { cpSync, existsSync, globSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import test from 'ava';
import { longTestMs } from '../support/time-outs.ts';
import { plainEnvironment, root, temporaryFolder } from './support.ts';

const run = promisify(execFile);

const copied = [
  'ava.config.js',
  'package.json',
  'tsconfig.json',
  'api',
  'domain',
  'lib',
  'migrations',
  'queues',
  'scripts',
  'test/architecture/jobs.test.ts',
  'test/architecture/source.ts',
  'test/support/cheap-passwords.ts',
  'cli',
  'web',
  'workers',
];

const definition = `import { z } from 'zod';
import { defineJob } from './define.ts';

/** Adds up the sales of a month. */
export const reportMake = defineJob({
  type: 'report.make',
  pool: 'system',
  data: z.object({ month: z.string() }),
  result: z.object({ month: z.string() }),
  running: { free: 1, pro: 2, enterprise: 4 },
  plural: 'Reports',
  maxAttempts: 3,
  repeatable: true,
  timeoutMs: 60_000,
  capped: true,
});
`;

const processor = `import type { Queryable } from '#lib/control-db.ts';
import type { JobData } from '#queues/define.ts';
import type { reportMake } from '#queues/report-make.ts';
import type { Processor } from '../processor.ts';

export const reportMakeProcessor = ({ db }: { readonly db: Queryable }): Processor => ({
  run: async (data) => {
    const { month } = data as JobData<typeof reportMake>;
    await db.query('select $1', [month]);
    return { status: 'succeeded', result: JSON.stringify({ month }), error: null };
  },
});
`;

const testOfJob = `import test from 'ava';
import { allSettings, globalSettingOf } from '#queues/settings.ts';
import { openProcessors } from '#workers/processors/registry.ts';

test('a report can be bounded on the whole installation', (t) => {
  const config = { globalLimits: { PLINTH_GLOBAL_REPORT_MAKE: 70 }, PLINTH_QUEUE_SHARDS: 1 };
  t.is(globalSettingOf('report.make', config), 70);
  t.true('PLINTH_GLOBAL_REPORT_MAKE' in allSettings.shape);
});

test('a report has a processor', (t) => {
  t.is(typeof openProcessors['report.make'], 'function');
});
`;

/** With the line of the new job, and the import that it needs. */
const registered = (registry: string): string =>
  registry
    .replace('import { vectorsUpsert }', "import { reportMake } from './report-make.ts';\nimport { vectorsUpsert }")
    .replace('  webhookDeliver,\n', '  webhookDeliver,\n  reportMake,\n');

const checkedFiles = {
  extends: './tsconfig.json',
  include: [],
  files: ['workers/processors/registry.ts', 'test/reports/make.test.ts'],
};

/** Everything that the checkout has for a job, in a folder of its own. */
const copyInto = (folder: string) => {
  for (const name of copied) cpSync(path.join(root, name), path.join(folder, name), { recursive: true });
  symlinkSync(path.join(root, 'node_modules'), path.join(folder, 'node_modules'));
  mkdirSync(path.join(folder, 'docs'));
  const read = (name: string): string => readFileSync(path.join(folder, name), 'utf8');
  const write = (name: string, text: string): void => {
    mkdirSync(path.dirname(path.join(folder, name)), { recursive: true });
    writeFileSync(path.join(folder, name), text);
  };
  const node = (...args: string[]) =>
    run(process.execPath, args, { cwd: folder, env: plainEnvironment({ NO_COLOR: '1' }) });
  return {
    read,
    write,
    node,
    generate: (what: string) => node(`scripts/generate-${what}.ts`),
    compile: () =>
      node(
        'node_modules/.bin/tsc',
        '-p',
        'checked.json',
        '--incremental',
        '--tsBuildInfoFile',
        'types.tsbuildinfo',
      ).then(
        () => '',
        ({ stdout }: { stdout: string }) => stdout,
      ),
  };
};

const textOf = (base: string, name: string): string | null =>
  existsSync(path.join(base, name)) ? readFileSync(path.join(base, name), 'utf8') : null;

/** The sources of the folder that the checkout does not have, or has otherwise. */
const changedIn = (folder: string): string[] =>
  globSync('{api,domain,lib,migrations,queues,scripts,test,web,workers}/**/*.ts', { cwd: folder })
    .filter((name) => textOf(folder, name) !== textOf(root, name))
    .toSorted();

const mentionsOf = (type: string, document: string): number => document.split(`"${type}"`).length - 1;

test('a new job is four files by hand; settings, documents and the list of processors follow, and the compiler misses its processor', async (t) => {
  t.timeout(longTestMs);
  const folder = temporaryFolder(t);
  const { read, write, node, generate, compile } = copyInto(folder);
  write('checked.json', JSON.stringify(checkedFiles));

  write('queues/report-make.ts', definition);
  write('queues/registry.ts', registered(read('queues/registry.ts')));
  write('test/reports/make.test.ts', testOfJob);
  write('workers/processors/report-make.ts', processor);
  t.deepEqual(changedIn(folder), [
    'queues/registry.ts',
    'queues/report-make.ts',
    'test/reports/make.test.ts',
    'workers/processors/report-make.ts',
  ]);

  await generate('processors');
  t.is(await compile(), '');
  await Promise.all([generate('settings'), generate('openapi')]);
  t.regex(
    read('plinth.env.example'),
    /^# Reports at a time on the whole installation.*\n#PLINTH_GLOBAL_REPORT_MAKE=$/m,
  );
  const openapi = read('docs/openapi.json');
  t.true(mentionsOf('report.make', openapi) > 0);
  t.is(mentionsOf('report.make', openapi), mentionsOf('project.provision', openapi));
  const { stdout } = await node('node_modules/.bin/ava', 'test/reports/make.test.ts', 'test/architecture/jobs.test.ts');
  t.regex(stdout, /\d+ tests passed/);

  rmSync(path.join(folder, 'workers/processors/report-make.ts'));
  t.regex(await compile(), /^workers\/processors\/registry\.ts.* Cannot find module '\.\/report-make\.ts'/m);
});
