import { FunctionsHttpError, createClient } from '@supabase/supabase-js';
import test from 'ava';
import { type ProjectScene, useJobsApi } from '#test/jobs/scene.ts';

const { scene, platform } = useJobsApi(test);

const echo = `exports.handler = (x) => {
  if (x && x.fail) throw new TypeError('told to')
  return x
}`;

const restUrl = ({ project }: ProjectScene): string => `${platform().base}/p/${project.ref}`;

const clientOf = (one: ProjectScene, key: string) =>
  createClient(restUrl(one), key, { auth: { persistSession: false, autoRefreshToken: false } });

for (const kind of ['key', 'publishableKey'] as const) {
  test(`supabase-js invokes functions with a project’s ${kind}`, async (t) => {
    const one = await scene(echo);
    const { functions } = clientOf(one, one.project[kind]);
    for (const body of [{ a: [1, 'ü', null] }, [1], 'plain text', '"quoted"']) {
      const { data, error } = await functions.invoke(one.fn.slug, { body });
      t.is(error, null);
      t.deepEqual(data, body);
    }
    t.is((await functions.invoke(one.fn.slug)).data, null);
  });

  test(`supabase-js is told of failures in its own terms (${kind})`, async (t) => {
    const one = await scene(echo);
    const { functions } = clientOf(one, one.project[kind]);
    const failed = await functions.invoke(one.fn.slug, { body: { fail: true } });
    t.is(failed.data, null);
    t.true(failed.error instanceof FunctionsHttpError);
    const { context } = failed.error as { context: Response };
    t.is(context.status, 500);
    t.regex(context.headers.get('x-invocation-id') ?? '', /^[0-9a-f-]{36}$/);
    const told = (await context.json()) as Record<string, unknown>;
    t.is(told['code'], 'function_error');
    t.is(told['details'] === null, kind === 'publishableKey');
    const unknown = await functions.invoke('no-such-function');
    t.is((unknown.error as { context: Response }).context.status, 404);
  });
}

test('bodies that are no JSON and no text, and other methods, are refused clearly', async (t) => {
  const one = await scene(echo);
  const { functions } = clientOf(one, one.project.key);
  const form = new FormData();
  form.set('a', '1');
  for (const body of [form, new Blob(['x']), new ArrayBuffer(8)]) {
    const { error } = await functions.invoke(one.fn.slug, { body });
    const { context } = error as { context: Response };
    t.is(context.status, 415);
    t.is(((await context.json()) as { code: string }).code, 'unsupported_media_type');
  }
  for (const method of ['GET', 'PUT', 'PATCH', 'DELETE'] as const) {
    const { error } = await functions.invoke(one.fn.slug, { method });
    const { context } = error as { context: Response };
    t.is(context.status, 405);
    t.is(context.headers.get('allow'), 'POST, OPTIONS');
  }
});

test('a browser’s preflight for what supabase-js sends is answered', async (t) => {
  const one = await scene(echo);
  const headers = 'apikey,authorization,content-type,x-client-info,x-region,x-retry-count';
  const answer = await fetch(`${restUrl(one)}/functions/v1/${one.fn.slug}`, {
    method: 'OPTIONS',
    headers: {
      origin: 'https://app.example',
      'access-control-request-method': 'POST',
      'access-control-request-headers': headers,
    },
  });
  t.is(answer.status, 204);
  t.is(answer.headers.get('access-control-allow-origin'), '*');
  const allowed = (answer.headers.get('access-control-allow-headers') ?? '').toLowerCase().split(', ');
  t.deepEqual(
    headers.split(',').filter((header) => !allowed.includes(header)),
    [],
  );
  t.true(answer.headers.get('access-control-allow-methods')?.includes('POST'));
  const called = await fetch(`${restUrl(one)}/functions/v1/${one.fn.slug}`, {
    method: 'POST',
    headers: { origin: 'https://app.example', apikey: one.project.publishableKey },
  });
  t.is(called.headers.get('access-control-allow-origin'), '*');
  t.true(called.headers.get('access-control-expose-headers')?.includes('X-Invocation-Id'));
});

test('the alias knows its project by its path and by its key', async (t) => {
  const one = await scene(echo);
  const other = await scene(echo);
  const { error } = await clientOf(one, other.project.key).functions.invoke(one.fn.slug, { body: {} });
  t.is((error as { context: Response }).context.status, 401);
});
