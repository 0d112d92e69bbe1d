import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import test from 'ava';
import { stringify } from 'yaml';
import { root } from '#test/architecture/source.ts';
import { optionalTestEnv } from '#test/support/env.ts';
import { readOperations } from './operations-files.ts';

const run = promisify(execFile);

const promtool = (optionalTestEnv('PATH') ?? '')
  .split(path.delimiter)
  .map((folder) => path.join(folder, 'promtool'))
  .find((program) => existsSync(program));

/** Needs the Debian package prometheus; skipped by name where it is not installed. */
const withPromtool = promtool === undefined ? test.skip : test;

const check = (...args: string[]) => run(promtool ?? '', args, { cwd: root });

withPromtool('promtool takes the alert rules', async (t) => {
  const { stdout } = await check('check', 'rules', 'docs/operations/alerts.yml');
  t.regex(stdout, /SUCCESS: \d+ rules found/);
});

withPromtool('the alerts fire when they should, and not else (promtool)', async (t) => {
  const { stdout } = await check('test', 'rules', 'test/operations/alerts.test.yml');
  t.regex(stdout, /SUCCESS/);
});

withPromtool('promtool takes the scrape configuration', async (t) => {
  const { stdout } = await check('check', 'config', '--syntax-only', 'docs/operations/prometheus.yml');
  t.regex(stdout, /SUCCESS/);
});

interface Dashboard {
  readonly panels: readonly { readonly id: number; readonly title: string; readonly targets?: { expr: string }[] }[];
}

const dashboard = (): Dashboard => JSON.parse(readOperations('docs/operations/grafana/*.json')[0]?.text ?? '');

/** The values that Grafana would put in. */
const filledIn = (expr: string): string => expr.replaceAll('$__rate_interval', '1m').replaceAll('$type', '.*');

test('every panel of the dashboard has its own number and asks something', (t) => {
  const { panels } = dashboard();
  t.is(new Set(panels.map(({ id }) => id)).size, panels.length);
  const questions = panels.flatMap(({ targets = [] }) => targets);
  t.true(questions.length > 25);
  for (const { expr } of questions) t.notRegex(filledIn(expr), /\$/);
});

withPromtool('Prometheus understands every question of the dashboard and of the autoscaler', async (t) => {
  const folder = mkdtempSync(path.join(tmpdir(), 'plinth-rules-'));
  try {
    const scaler = readOperations('docs/operations/kubernetes/keda.yaml')[0]?.text ?? '';
    const queries = [...scaler.matchAll(/query: (?:>-\n)?([^]+?)(?=\n {4}#|\n {4}-|$)/g)].map(
      ([, query = '']) => query,
    );
    t.is(queries.length, 2);
    const exprs = [
      ...dashboard().panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => filledIn(expr))),
      ...queries,
    ];
    const rules = exprs.map((expr, i) => ({ record: `asked:${i}`, expr }));
    const file = path.join(folder, 'rules.yml');
    writeFileSync(file, stringify({ groups: [{ name: 'asked', rules }] }));
    const { stdout } = await check('check', 'rules', file);
    t.regex(stdout, new RegExp(`SUCCESS: ${exprs.length} rules found`));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
