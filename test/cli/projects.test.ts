import { mkdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import test from 'ava';
import { openLinked, openWorkbench, useWorkbenches } from '#test/support/cli.ts';
import { makeToken } from '#test/support/personal-token.ts';
import { usePlatform } from '#test/support/platform.ts';

const platform = usePlatform(test, { shared: true });
const kept = useWorkbenches(test);

const open = async () => {
  const user = await platform().client.signUp();
  const project = await platform().client.createProject(user);
  const call = (method: string, where: string, body?: unknown) =>
    platform().client.call(method, `/projects/${project.id}${where}`, {
      token: user.token,
      ...(body !== undefined && { body }),
    });
  return { user, project, call, bench: await kept(openLinked(platform(), user, project)) };
};

test('a folder is linked, and the folders below it are, too', async (t) => {
  const { bench, project } = await open();
  const config = JSON.parse(await readFile(path.join(bench.folder, 'plinth/config.json'), 'utf8'));
  t.like(config, { project_id: project.id, ref: project.ref, url: platform().base });
  const deep = path.join(bench.folder, 'a/b');
  await mkdir(deep, { recursive: true });
  t.is((await bench.json(['status'], { cwd: deep })).value.project.id, project.id);
  t.is((await bench.run(['link', 'no-such-project'])).code, 4);
  t.regex((await bench.run(['link', `${project.slug}x`])).stderr, new RegExp(`Did you mean ${project.slug}`));
});

test('projects are made with their keys shown once, listed and deleted', async (t) => {
  const { bench, user } = await open();
  const made = await bench.run(['projects', 'create', 'Büro', '--slug', 'buero']);
  t.is(made.code, 0, made.stderr);
  t.regex(made.stdout, /PLINTH_API_KEY=\S+\nPLINTH_PUBLISHABLE_KEY=\S+\n$/);
  t.is((await bench.run(['projects', 'create', 'Büro', '--slug', 'buero'])).code, 5);
  t.is((await bench.run(['projects', 'create', ' '])).code, 2);
  const { value } = await bench.json(['projects']);
  t.true(value.some(({ slug }: { slug: string }) => slug === 'buero'));
  t.is((await bench.run(['projects', 'delete', 'buero'])).code, 2);
  t.is((await bench.run(['projects', 'delete', 'buero', '--yes'])).code, 0);
  const { token } = await makeToken(platform().client, await platform().client.signUp());
  const stranger = await bench.json(['projects'], { env: { PLINTH_ACCESS_TOKEN: token } });
  t.deepEqual(stranger.value, []);
  t.truthy(user);
});

test('variables are set, imported, listed by name and removed', async (t) => {
  const { bench, user, project } = await open();
  t.is((await bench.run(['env', 'set', 'A=1', 'B=two=2'])).code, 0);
  await bench.write('.env', '# secrets\r\nC="three"\r\n');
  t.is((await bench.run(['env', 'import', '.env'])).code, 0);
  t.is((await bench.run(['env', 'list'])).stdout, 'A\nB\nC\n');
  t.is((await bench.run(['env', 'unset', 'A'])).code, 0);
  const code =
    'export const handler = () => [process.env.A ?? null, process.env.B, process.env.C, process.env.D ?? null];';
  const { slug } = await platform().client.deploy(user, project, code);
  t.is((await bench.run(['env', 'set', 'D=own', '--function', slug])).code, 0);
  t.deepEqual(JSON.parse((await bench.run(['functions', 'invoke', slug])).stdout), [null, 'two=2', 'three', 'own']);
  t.is((await bench.run(['env', 'import', 'nowhere.env'])).code, 1);
});

test('jobs are listed, shown and run again', async (t) => {
  const { bench, user, project } = await open();
  const { slug, id } = await platform().client.deploy(
    user,
    project,
    'export const handler = () => { throw new Error("no"); };',
  );
  await platform().client.call('POST', `/projects/${project.id}/functions/${id}/invoke`, {
    token: user.token,
    body: { payload: 1 },
  });
  const { value } = await bench.json(['jobs', 'list', '--function', slug]);
  t.is(value.length, 1);
  t.is(JSON.parse((await bench.run(['jobs', 'show', value[0].id])).stdout).id, value[0].id);
  t.is((await bench.run(['jobs', 'show', crypto.randomUUID()])).code, 4);
  t.is((await bench.run(['jobs', 'retry'])).code, 2, 'not all of them by mistake');
  t.is((await bench.run(['jobs', 'list', '--limit', '1000'])).code, 2);
  const counted = await bench.json(['jobs', 'retry', '--function', slug, '--status', 'failed', '--dry-run']);
  t.is(counted.value.changed, 0);
});

test('undelivered mails are listed, counted and sent again; the log has lines of other sources', async (t) => {
  const { bench, call } = await open();
  // There is no mail server: it is kept.
  const sent = await call('POST', '/email/templates/signup/send-test', { email: 'ada@example.com' });
  t.is(sent.status, 200, sent.text);
  const { value } = await bench.json(['mail', 'list', '--status', 'undelivered']);
  t.is(value.length, 1);
  t.like(value[0], { recipient: 'ada@example.com', status: 'kept' });
  t.is((await bench.run(['mail', 'resend'])).code, 2, 'not all of them by mistake');
  t.is((await bench.run(['mail', 'list', '--limit', '1000'])).code, 2);
  const counted = await bench.json(['mail', 'resend', '--status', 'kept', '--dry-run']);
  t.deepEqual(counted.value, { matched: 1, changed: 0 });
  t.is((await bench.run(['mail', 'resend', value[0].id])).code, 2, 'it asks first');
  const done = await bench.json(['mail', 'resend', value[0].id, '--yes']);
  t.deepEqual(done.value, { matched: 1, changed: 1 });
  const request = String(sent.headers.get('x-request-id'));
  const lines = await bench.json(['logs', '--source', 'mail,auth', '--request', request]);
  t.true(lines.value.length <= 1);
  const all = await bench.run(['logs', '--source', 'mail']);
  t.regex(all.stdout, /mail signup to ada@example\.com/);
});

test('schedules are listed, stopped, run and deleted by their names', async (t) => {
  const { bench, call } = await open();
  await call('POST', '/cron', {
    name: 'Nightly',
    schedule: '0 3 * * *',
    timezone: 'UTC',
    target: { type: 'sql', sql: 'select 1' },
  });
  t.is((await bench.json(['cron', 'list'])).value[0].name, 'Nightly');
  t.is((await bench.json(['cron', 'disable', 'Nightly'])).value.enabled, false);
  t.is((await bench.json(['cron', 'enable', 'Nightly'])).value.enabled, true);
  t.is((await bench.run(['cron', 'run', 'Nightly'])).code, 0);
  t.is((await bench.json(['cron', 'runs', 'Nightly'])).value.length, 1);
  t.regex((await bench.run(['cron', 'run', 'Nihgtly'])).stderr, /Did you mean Nightly/);
  t.is((await bench.run(['cron', 'delete', 'Nightly', '--yes'])).code, 0);
});

test('flags are listed, turned and set', async (t) => {
  const { bench, call } = await open();
  await call('POST', '/flags', { key: 'colour', name: 'Colour', flag_type: 'string', value: 'red' });
  t.is((await bench.json(['flags', 'list'])).value.length, 1);
  t.is((await bench.json(['flags', 'disable', 'colour'])).value.is_enabled, false);
  t.is((await bench.json(['flags', 'set', 'colour', '"blue"'])).value.value, 'blue');
  t.is((await bench.run(['flags', 'set', 'colour', 'blue'])).code, 2);
  t.is(JSON.parse((await bench.run(['flags', 'show', 'colour'])).stdout).value, 'blue');
  t.is((await bench.run(['flags', 'show', 'nothing'])).code, 4);
});

test('users are found by their address', async (t) => {
  const { bench, call } = await open();
  await call('POST', '/users', { email: 'mary@example.com' });
  t.is((await bench.json(['users', 'list', '--search', 'mary'])).value.length, 1);
  t.is((await bench.json(['users', 'show', 'Mary@example.com'])).value.email, 'mary@example.com');
  t.is((await bench.run(['users', 'delete', 'mary@example.com', '--yes'])).code, 0);
  t.is((await bench.run(['users', 'show', 'mary@example.com'])).code, 4);
});

test('the doctor names what is wrong and the command that mends it', async (t) => {
  const { bench } = await open();
  const well = await bench.json(['doctor']);
  t.is(well.code, 0, well.stderr);
  const ill = await kept(openWorkbench({ PLINTH_URL: platform().base }));
  const answer = await ill.run(['doctor']);
  t.is(answer.code, 1);
  t.regex(answer.stdout, /wrong {2}signed in/);
  t.regex(answer.stdout, /plinth login/);
});
