import test from 'ava';
import { type Format, type Platform, build } from 'esbuild';
import { compileFunction } from '#domain/functions/compile.ts';
import { fakeFetch } from './fake-fetch.ts';
import { openRuntime, run } from './harness.ts';

const runtime = await openRuntime();
test.after.always(() => runtime.close());

/** As an author bundles it, then deployed and run. */
async function bundledAndRun(source: string, platform: Platform, format: Format): Promise<unknown> {
  const { outputFiles } = await build({
    stdin: { contents: source, resolveDir: import.meta.dirname },
    bundle: true,
    write: false,
    platform,
    format,
    mainFields: ['module', 'main'],
    conditions: ['import', 'module'],
    logLevel: 'silent',
  });
  const { code } = await compileFunction(outputFiles[0]?.text ?? '');
  const { status, result, error } = await run(runtime, code, {}, { services: fakeFetch() });
  return status === 'success' ? JSON.parse(result ?? 'null') : [status, error];
}

const sources: Record<string, { readonly source: string; readonly result: unknown }> = {
  zod: {
    source: `import { z } from 'zod';
      const shape = z.object({ url: z.url(), id: z.uuid(), when: z.iso.datetime(), file: z.instanceof(File) });
      export const handler = () => [shape.safeParse({ url: 'http://a', id: crypto.randomUUID(), when: new Date(0).toISOString(), file: new File([], 'x') }).success, shape.safeParse({ url: 'x' }).error.issues.length];`,
    result: [true, 4],
  },
  '@supabase/supabase-js': {
    source: `import { createClient } from '@supabase/supabase-js';
      const answer = async (url, { method, headers }) => Response.json([String(url), method, new Headers(headers).get('apikey')]);
      const client = createClient('http://a', 'key', { global: { fetch: answer }, auth: { persistSession: false, autoRefreshToken: false }, realtime: { transport: class {} } });
      export const handler = async () => (await client.from('t').select('x').eq('n', 1)).data;`,
    result: ['http://a/rest/v1/t?select=x&n=eq.1', 'GET', 'key'],
  },
  lodash: {
    source: `import _ from 'lodash'; export const handler = () => [_.cloneDeep({ a: new Date(5), b: new Uint8Array([1]) }).a.getTime(), _.chunk([1, 2, 3], 2), _.isBuffer(Buffer.from('x'))];`,
    result: [5, [[1, 2], [3]], true],
  },
  luxon: {
    source: `import { DateTime } from 'luxon'; export const handler = () => DateTime.fromISO('2026-01-31T10:00:00Z', { zone: 'Europe/Berlin' }).plus({ months: 1 }).toISO();`,
    result: '2026-02-28T11:00:00.000+01:00',
  },
  'js-yaml': {
    source: `import yaml from 'js-yaml'; export const handler = () => yaml.load('a: [1, 2]\\nb: 2026-01-01');`,
    result: { a: [1, 2], b: '2026-01-01T00:00:00.000Z' },
  },
};

for (const [name, { source, result }] of Object.entries(sources)) {
  for (const platform of ['neutral', 'browser'] as const) {
    test(`${name} runs when it is bundled for platform=${platform}`, async (t) => {
      t.deepEqual(await bundledAndRun(source, platform, 'esm'), result);
    });
  }
}
