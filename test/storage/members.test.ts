import test from 'ava';
import { Upload } from 'tus-js-client';
import { endpoints } from '#api/endpoints.ts';
import { addMember } from '#test/support/members.ts';
import type { CallOptions, TestProject, TestUser } from '#test/support/client.ts';
import { dataOf, useStorage } from './storage-scene.ts';

const { admin, developer, newProject, platform, project, sql, user } = useStorage(test);

type Options = CallOptions & { readonly of?: TestProject };

const ask = (as: TestUser, method: string, path: string, { of = project(), ...options }: Options = {}) =>
  platform().client.call(method, `/projects/${of.id}/storage/v1${path}`, { token: as.token, ...options });

const put = (as: TestUser, path: string, raw: string, type = 'text/plain') =>
  ask(as, 'POST', `/object/${path}`, { raw, headers: { 'content-type': type, 'x-upsert': 'true' } });

test('members use files by their role: viewers read, developers write, admins manage buckets', async (t) => {
  const of = await newProject();
  const [viewer, dev, boss] = await Promise.all(
    (['viewer', 'developer', 'admin'] as const).map((role) => addMember(platform(), of.orgId, role)),
  );
  const at = `/${of.slug}`;
  if (!viewer || !dev || !boss) throw new Error('three members were added');
  const calls: readonly (readonly [string, string, CallOptions, readonly number[]])[] = [
    ['GET', '/bucket', {}, [200, 200, 200]],
    ['POST', '/bucket', { body: { name: 'made' } }, [403, 403, 200]],
    ['PUT', '/bucket/made', { body: { public: false } }, [403, 403, 200]],
    ['POST', `/object${at}/a.txt`, { raw: 'a' }, [403, 200, 409]],
    ['GET', `/object/authenticated${at}/a.txt`, {}, [200, 200, 200]],
    ['GET', `/object/info${at}/a.txt`, {}, [200, 200, 200]],
    ['POST', `/object/list${at}`, { body: {} }, [200, 200, 200]],
    ['GET', `/folder${at}`, {}, [200, 200, 200]],
    ['POST', `/object/sign${at}/a.txt`, { body: { expiresIn: 60 } }, [403, 200, 200]],
    ['POST', '/object/move', { body: { bucketId: of.slug, sourceKey: 'a.txt', destinationKey: 'b.txt' } }, [403, 200]],
    ['DELETE', `/object${at}`, { body: { prefixes: ['b.txt'] } }, [403, 200]],
    ['POST', `/bucket${at}/empty`, { body: {} }, [403, 403, 200]],
    ['DELETE', '/bucket/made', {}, [403, 403, 200]],
  ];
  for (const [method, path, options, statuses] of calls) {
    for (const [i, status] of statuses.entries()) {
      const answer = await ask([viewer, dev, boss][i] ?? viewer, method, path, { ...options, of });
      t.is(answer.status, status, `${method} ${path} by ${['viewer', 'developer', 'admin'][i]}: ${answer.text}`);
    }
  }
});

test('files of another tenant are not there, and an API key opens nothing here', async (t) => {
  const stranger = await platform().client.signUp();
  const key = await platform().client.call('GET', `/projects/${project().id}/storage/v1/bucket`, {
    key: project().key,
  });
  t.is(key.status, 401);
  for (const path of ['/bucket', `/folder/${project().slug}`, `/preview/${project().slug}/a`])
    t.is((await ask(stranger, 'GET', path)).status, 404);
});

test('a member without a name for the header is the project itself; with it, policies decide', async (t) => {
  const of = await newProject();
  const { id } = await user(of);
  dataOf(await admin(of).from(of.slug).upload('shared/a.txt', 'a'));
  dataOf(await admin(of).from(of.slug).upload('hidden/a.txt', 'a'));
  await sql(of, `create policy see on storage.objects for select to authenticated using (name like 'shared/%')`);
  const list = async (as: string) => {
    const options = { body: {}, headers: { 'x-plinth-as': as }, of };
    const { body } = await ask(developer(), 'POST', `/object/list/${of.slug}`, options);
    return (body as { name: string }[]).map(({ name }) => name);
  };
  t.deepEqual(await list('service'), ['hidden', 'shared']);
  t.deepEqual(await list(`authenticated:${id}`), ['shared']);
  t.deepEqual(await list('anon'), []);
});

test('a stored page is saved and never opened, and the browser keeps nothing of it', async (t) => {
  const path = `${project().slug}/page.html`;
  const text = '<!doctype html><script>parent.hacked = 1</script>';
  t.is((await put(developer(), path, text, 'text/html')).status, 200);
  for (const at of [`/object/authenticated/${path}`, `/object/${path}`, `/object/${path}?download=x.txt`]) {
    const { headers, text: got } = await ask(developer(), 'GET', at);
    t.is(got, text);
    t.regex(headers.get('content-disposition') ?? '', /^attachment; /);
    t.is(headers.get('x-content-type-options'), 'nosniff');
    t.is(headers.get('cache-control'), 'no-store');
    t.is(headers.get('cross-origin-resource-policy'), 'same-origin');
    t.regex(headers.get('content-security-policy') ?? '', /default-src 'none'.*sandbox/);
    t.is(headers.get('access-control-allow-origin'), null);
  }
  for (const type of ['image/png', 'text/plain', 'application/pdf', 'image/svg+xml']) {
    t.is((await put(developer(), path, text, type)).status, 200);
    const { headers } = await ask(developer(), 'GET', `/object/authenticated/${path}`);
    t.regex(headers.get('content-disposition') ?? '', /^attachment; /, type);
  }
});

test('a preview is the beginning of a file as plain text, in a sandbox', async (t) => {
  const path = `${project().slug}/long.html`;
  await put(developer(), path, `<script>1</script>${'é'.repeat(200_000)}`, 'text/html');
  const { status, headers, text } = await ask(developer(), 'GET', `/preview/${path}`);
  t.is(status, 200);
  t.is(headers.get('content-type'), 'text/plain; charset=utf-8');
  t.regex(headers.get('content-security-policy') ?? '', /sandbox/);
  t.is(headers.get('x-content-type-options'), 'nosniff');
  t.true(text.startsWith('<script>1</script>é'));
  t.is(Buffer.byteLength(text), 256 * 1024);
  await put(developer(), `${project().slug}/empty`, '');
  t.is((await ask(developer(), 'GET', `/preview/${project().slug}/empty`)).text, '');
  t.is((await ask(developer(), 'GET', `/preview/${project().slug}/none`)).status, 404);
});

test('a folder says how much it holds, with a search and without', async (t) => {
  const of = await newProject();
  for (const name of ['a.txt', 'Ab.txt', 'b.txt', 'f/1', 'f/2', 'f/g/3', 'a%25b/1', `quote"'/1`])
    dataOf(await admin(of).from(of.slug).upload(name, 'xx'));
  const totals = async (query: string) => (await ask(developer(), 'GET', `/folder/${of.slug}${query}`, { of })).body;
  t.deepEqual(await totals(''), { folders: 3, files: 3, all_files: 8, all_bytes: 16, is_exact: true });
  t.like(await totals('?search=a'), { folders: 1, files: 2 });
  t.like(await totals('?search=a%25'), { folders: 1, files: 0 });
  t.like(await totals('?prefix=f'), { folders: 1, files: 2, all_files: 3, all_bytes: 6 });
  t.like(await totals('?prefix=f/g/'), { folders: 0, files: 1, all_files: 1 });
  t.like(await totals('?prefix=none'), { folders: 0, files: 0, all_files: 0, all_bytes: 0 });
  t.is((await ask(developer(), 'GET', '/folder/none', { of })).status, 404);
});

test('a member’s resumable upload breaks off and goes on, and its address is one for members', async (t) => {
  const content = Buffer.alloc(900_000, 'plinth');
  const begin = (name: string, more: { uploadUrl?: string; stop?: boolean; as?: TestUser } = {}) =>
    new Promise<string>((resolve, reject) => {
      const upload = new Upload(content, {
        endpoint: `${platform().base}/projects/${project().id}/storage/v1/upload/resumable`,
        headers: { authorization: `Bearer ${(more.as ?? developer()).token}` },
        chunkSize: 300_000,
        retryDelays: null,
        ...(more.uploadUrl !== undefined && { uploadUrl: more.uploadUrl }),
        metadata: { bucketName: project().slug, objectName: name, contentType: 'text/html' },
        onError: reject,
        onSuccess: () => resolve(upload.url ?? ''),
        onChunkComplete: () => {
          if (more.stop === true) void upload.abort().then(() => resolve(upload.url ?? ''));
        },
      });
      upload.start();
    });
  const url = await begin('ünï "quoted".html', { stop: true });
  t.true(url.startsWith(`${platform().base}/projects/${project().id}/storage/v1/upload/resumable/`));
  t.is(await begin('ünï "quoted".html', { uploadUrl: url }), url);
  const { body } = await ask(developer(), 'POST', `/object/list/${project().slug}`, { body: { search: 'ünï' } });
  t.like(body[0], { name: 'ünï "quoted".html', metadata: { size: content.length } });
  const viewer = await addMember(platform(), project().orgId, 'viewer');
  const refused = await t.throwsAsync(begin('other.txt', { as: viewer }));
  t.regex(refused.message, /403/);
});

const callsBelow = (root: string): readonly string[] =>
  endpoints
    .filter(({ path, access }) => path.startsWith(root) && access.kind !== 'everyone')
    .map(({ method, path }) => `${method} ${path.slice(root.length)}`);

test('every call with a key has one for members, but for what a signature is made to upload with', (t) => {
  const [keyRoot, memberRoot] = ['/p/{ref}/storage/v1', '/projects/{project_id}/storage/v1'];
  const forMembers = new Set(callsBelow(memberRoot));
  t.deepEqual(
    callsBelow(keyRoot).filter((one) => !forMembers.has(one)),
    ['post /object/upload/sign/{bucket}/{path}'],
  );
});
