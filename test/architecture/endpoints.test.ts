import path from 'node:path';
import test from 'ava';
import { z } from 'zod';
import { everyone } from '#api/access.ts';
import { checkEndpoints } from '#api/app.ts';
import { type Endpoint, endpoint } from '#api/endpoint.ts';
import { endpoints } from '#api/endpoints.ts';
import { filesOf, root } from './source.ts';

const routeOf = ({ method, path: route }: Endpoint): string => `${method.toUpperCase()} ${route}`;

const sample = (route: string): Endpoint =>
  endpoint({
    method: 'get',
    path: route,
    area: 'test',
    summary: 'A test',
    access: everyone,
    handle: async () => undefined,
  });

test('every endpoint declares who may call it, and each route is there once', (t) => {
  t.notThrows(() => checkEndpoints(endpoints));
});

test('the API refuses to start with an endpoint that declares no access', (t) => {
  const undeclared = { ...sample('/x'), access: undefined } as unknown as Endpoint;
  t.throws(() => checkEndpoints([undeclared]), { message: 'GET /x declares no access' });
});

test('the API refuses to start with two endpoints of one route', (t) => {
  t.throws(() => checkEndpoints([sample('/x'), sample('/x')]), { message: 'GET /x is defined twice' });
});

test('every endpoint of every route file is served', async (t) => {
  const served = new Set(endpoints);
  for (const { name } of filesOf(['api/routes'])) {
    const exported = Object.values((await import(path.join(root, name))) as Record<string, unknown>);
    const lists = exported.filter((value): value is Endpoint[] => Array.isArray(value));
    t.true(lists.length > 0, `${name} exports no endpoints`);
    for (const missing of lists.flat().filter((one) => !served.has(one))) t.fail(`${routeOf(missing)} of ${name}`);
  }
});

for (const one of endpoints) {
  test(`${routeOf(one)} describes its path and itself`, (t) => {
    const inPath = [...one.path.matchAll(/\{(\w+)\}/g)].map((match) => match[1]);
    const described = one.params instanceof z.ZodObject ? Object.keys(one.params.shape) : [];
    t.deepEqual(new Set(described), new Set(inPath));
    t.regex(one.summary, /^[A-Z].*[^.\s]$|^[A-Z].*\.$/);
    t.true(one.summary.length <= 100, 'the summary is a line');
    if (one.access.kind === 'project') t.true(one.path.startsWith('/projects/{project_id}'));
    if (one.access.kind === 'operator') t.true(one.path.startsWith('/ops/'));
  });

  // Fields of OpenAI's clients are for providers to know, newer ones included; those of supabase-js differ by version.
  if (one.body instanceof z.ZodObject && one.errors !== 'openai' && one.errors !== 'auth') {
    const body = one.body;
    test(`${routeOf(one)} refuses unknown fields`, (t) => {
      const issues = body.safeParse({ nobody_knows_this: 1 }).error?.issues ?? [];
      t.true(issues.some((issue) => issue.code === 'unrecognized_keys'));
    });
  }
}
