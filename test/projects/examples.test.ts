import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import test from 'ava';
import { examples } from '#domain/examples/examples.ts';
import type { TestProject, TestUser } from '#test/support/client.ts';
import { addMember } from '#test/support/members.ts';
import { usePlatform } from '#test/support/platform.ts';
import { longTestMs } from '#test/support/time-outs.ts';

const maxFunctions = 2;
const platform = usePlatform(test, { settings: { PLINTH_FUNCTIONS_FREE: String(maxFunctions) } });
const run = promisify(execFile);
const folder = mkdtempSync(path.join(os.tmpdir(), 'plinth-examples-'));
test.after.always(() => rmSync(folder, { recursive: true, force: true }));

const make = (user: TestUser, project: Pick<TestProject, 'id'>, name: string) =>
  platform().client.call('POST', `/projects/${project.id}/examples/${name}`, { token: user.token, body: {} });

const scene = async () => {
  const user = await platform().client.signUp();
  return { user, project: await platform().client.createProject(user) };
};

const programs = {
  javascript: ['client.mjs', process.execPath, []],
  python: ['client.py', 'python3', []],
  curl: ['client.sh', 'bash', ['-e', '-o', 'pipefail']],
} as const;

const isThere = async (program: string): Promise<boolean> =>
  run(program, ['--version']).then(
    () => true,
    () => false,
  );

/** The output of a program of an example. */
const outputOf = async (language: keyof typeof programs, code: string): Promise<string> => {
  const [name, program, options] = programs[language];
  const file = path.join(folder, `${crypto.randomUUID()}-${name}`);
  writeFileSync(file, code);
  const { stdout } = await run(program, [...options, file]);
  return stdout;
};

const printed: Readonly<Record<string, readonly RegExp[]>> = {
  todo: [/Write a test/, /open["']?: ?1/],
  webhook: [/order\.paid/, /example\.made/],
  report: [/orders["']?: ?\d+/, /total["']?: ?["']?\d+/, /day/],
};

for (const { name, code } of examples) {
  test.serial(`the example ${name} is made by one call, and its programs run as they are`, async (t) => {
    t.timeout(longTestMs);
    const { user, project } = await scene();
    const made = await make(user, project, name);
    t.is(made.status, 201, made.text);
    const values: Record<string, string> = {
      rest_url: `${platform().base}/p/${project.ref}`,
      publishable_key: project.publishableKey,
      secret_key: project.key,
      ...made.body.values,
    };
    for (const language of ['javascript', 'python', 'curl'] as const) {
      if (!(await isThere(programs[language][1]))) continue;
      const filled = code[language].replaceAll(/\{\{(\w+)\}\}/g, (_, value: string) => values[value] ?? '');
      const output = await outputOf(language, filled);
      for (const pattern of printed[name] ?? []) t.regex(output, pattern, `${name} in ${language}`);
    }
  });
}

test.serial('an example that is made again stays as it is, and shows no secret again', async (t) => {
  const { user, project } = await scene();
  const [first, second] = [await make(user, project, 'webhook'), await make(user, project, 'webhook')];
  t.is(typeof first.body.values.webhook_secret, 'string');
  t.is(second.status, 201, second.text);
  t.deepEqual(second.body, { functions: first.body.functions, values: {} });
});

test.serial('an example whose table is there already makes nothing', async (t) => {
  const { user, project } = await scene();
  const sql = (text: string) =>
    platform().client.call('POST', `/projects/${project.id}/db/query`, { token: user.token, body: { sql: text } });
  await sql('create table reports (mine int)');
  const refused = await make(user, project, 'report');
  t.is(refused.status, 400, refused.text);
  t.is(refused.body.details.migration, 'example_report');
  t.is((await sql('select * from orders')).status, 400);
});

test.serial('an example that stops half-way says where, and the same call goes on from there', async (t) => {
  const { user, project } = await scene();
  const mine = [];
  for (let n = 0; n < maxFunctions; n += 1)
    mine.push(await platform().client.deploy(user, project, 'export const handler = () => 1;'));
  const refused = await make(user, project, 'report');
  t.is(refused.status, 403, refused.text);
  t.regex(refused.body.hint, /^The tables of the example are there, its functions are not/);
  const total = async (of: string) =>
    (await platform().client.call('GET', `/projects/${project.id}/${of}`, { token: user.token })).body.total;
  t.deepEqual([await total('functions'), await total('cron')], [maxFunctions, 0]);
  await platform().client.call('DELETE', `/projects/${project.id}/functions/${mine[0]?.id}`, { token: user.token });
  t.is((await make(user, project, 'report')).status, 201);
  t.deepEqual([await total('functions'), await total('cron')], [maxFunctions, 1]);
});

test.serial('viewers make no example, strangers find no project, and there is no other example', async (t) => {
  const { user, project } = await scene();
  const viewer = await addMember(platform(), project.orgId, 'viewer');
  const stranger = await platform().client.signUp();
  t.is((await make(viewer, project, 'todo')).status, 403);
  t.is((await make(stranger, project, 'todo')).status, 404);
  t.is((await make(user, project, 'none')).status, 404);
  const { body } = await platform().client.call('GET', '/projects/examples', { token: user.token });
  t.deepEqual(
    (body.examples as { name: string }[]).map(({ name }) => name),
    ['todo', 'webhook', 'report'],
  );
});
