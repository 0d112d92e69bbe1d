import { readFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test from 'ava';
import type Koa from 'koa';
import { openBuild } from '#api/web/build.ts';
import { dashboardPage, opsPage } from '#api/web/pages.ts';
import { useDashboard } from './scene.ts';

const { platform, folder } = useDashboard(test);

const get = (at: string, headers: Readonly<Record<string, string>> = {}): Promise<Response> =>
  fetch(platform().base + at, { headers: { 'accept-encoding': 'identity', ...headers } });

test('every address below /dashboard is the one page, with a policy that lets nothing in from elsewhere', async (t) => {
  for (const at of ['/dashboard', '/dashboard/', '/dashboard/projects/1/tables/a%20b']) {
    const answer = await get(at);
    t.is(answer.status, 200);
    t.is(answer.headers.get('cache-control'), 'no-store');
    const policy = answer.headers.get('content-security-policy') ?? '';
    t.regex(policy, /^default-src 'none'; script-src 'self'; /);
    t.regex(policy, /require-trusted-types-for 'script'; trusted-types 'none'$/);
    t.notRegex(policy, /unsafe-eval|script-src[^;]*unsafe/);
    const text = await answer.text();
    const [, nonce = ''] = /content="([^"]+)">\n<link/.exec(text) ?? [];
    t.true(nonce.length >= 20 && policy.includes(`'nonce-${nonce}'`));
  }
  const [one, other] = [await get('/dashboard'), await get('/dashboard')];
  t.not(one.headers.get('content-security-policy'), other.headers.get('content-security-policy'));
  t.is((await fetch(`${platform().base}/dashboard`, { method: 'POST' })).status, 405);
});

type PageName = 'dashboard' | 'ops';

const entryOf = (name: PageName): { readonly script: string; readonly style: string } => {
  const entries = JSON.parse(readFileSync(path.join(folder, 'manifest.json'), 'utf8')) as Record<
    PageName,
    { script: string; style: string }
  >;
  return entries[name];
};

test('files are named by their content, kept for ever, and sent compressed to those who take that', async (t) => {
  const { script } = entryOf('dashboard');
  const at = `/dashboard/assets/${script}`;
  const plain = await get(at);
  t.regex(plain.headers.get('cache-control') ?? '', /immutable/);
  t.is(plain.headers.get('vary'), 'Accept-Encoding');
  t.is(plain.headers.get('content-encoding'), null);
  const text = await plain.text();
  for (const encoding of ['br', 'gzip']) {
    const answer = await get(at, { 'accept-encoding': encoding });
    t.is(answer.headers.get('content-encoding'), encoding);
    t.is(await answer.text(), text);
  }
  for (const name of ['none.js', 'manifest.json', '..%2f..%2fpackage.json', `${script}.br`])
    t.is((await get(`/dashboard/assets/${name}`)).status, 404, name);
});

/** The chunks that a chunk names: at once those of `import … from`, later those of `import()`. */
const importsOf = (name: string): { readonly now: readonly string[]; readonly later: readonly string[] } => {
  const text = readFileSync(path.join(folder, name), 'utf8');
  const all = (pattern: RegExp) => [...text.matchAll(pattern)].map(([, file = '']) => file);
  return { now: all(/(?:from|import)\s*"\.\/([\w.-]+\.js)"/g), later: all(/import\("\.\/([\w.-]+\.js)"\)/g) };
};

/** Everything that is loaded with these at once, and later where `follows` says so. */
const closureOf = (names: readonly string[], follows: (later: string) => boolean): ReadonlySet<string> => {
  const found = new Set(names);
  for (const name of found) {
    const { now, later } = importsOf(name);
    for (const next of [...now, ...later.filter(follows)]) found.add(next);
  }
  return found;
};

const sizeOf = (name: string): number => readFileSync(path.join(folder, `${name}.br`)).length;

const sum = (names: Iterable<string>): number => [...names].reduce((total, name) => total + sizeOf(name), 0);

for (const name of ['dashboard', 'ops'] as const) {
  test(`the shell of ${name} has at most 100 KB, and no page more than 320 KB`, (t) => {
    const { script, style } = entryOf(name);
    const shell = closureOf([script], () => false);
    t.true(sum([...shell, style]) <= 100 * 1024, `shell: ${sum([...shell, style])}`);
    const pages = new Set([...shell].flatMap((file) => importsOf(file).later));
    t.true(pages.size >= 8);
    for (const page of pages) {
      // A link to another page loads that one only when somebody follows it.
      const own = closureOf([page], (later) => !pages.has(later));
      const whole = sum(new Set([...shell, style, ...own]));
      t.true(whole <= 320 * 1024, `${page}: ${whole}`);
    }
    t.log(`shell ${sum([...shell, style])}`);
  });
}

for (const [name, page] of Object.entries({ dashboard: dashboardPage, ops: opsPage })) {
  test(`until ${name} is built, a page says so and loads again by itself`, async (t) => {
    const sent = new Map<string, string>();
    const ctx = { path: `/${name}`, method: 'GET', status: 200, body: '', type: '' } as unknown as Koa.Context;
    ctx.set = ((header: string, value: string) => sent.set(header, value)) as unknown as Koa.Context['set'];
    const nothing = openBuild(path.join(os.tmpdir(), 'nothing-is-built-here'));
    await page(nothing)(ctx, () => Promise.resolve());
    t.is(ctx.status, 503);
    t.is(sent.get('Retry-After'), '1');
    t.regex(String(ctx.body), /is being built/);
  });
}
