import { createHmac } from 'node:crypto';
import test from 'ava';
import { removeLostListeners } from '#domain/webhooks/listeners.ts';
import { systemActor } from '#domain/audit/actor.ts';
import { openLinked, useWorkbenches } from '#test/support/cli.ts';
import { addMember } from '#test/support/members.ts';
import { makeToken } from '#test/support/personal-token.ts';
import { usePlatform } from '#test/support/platform.ts';
import { receiverFor, withStatus } from '#test/support/receiver.ts';
import { until } from '#test/support/until.ts';

const platform = usePlatform(test);
const kept = useWorkbenches(test);

const open = async () => {
  const user = await platform().client.signUp();
  const project = await platform().client.createProject(user);
  const bench = await kept(openLinked(platform(), user, project));
  const query = async (sql: string): Promise<void> => {
    const where = `/projects/${project.id}/db/query`;
    const { status, text } = await platform().client.call('POST', where, { token: user.token, body: { sql } });
    if (status !== 200) throw new Error(text);
  };
  await query('create table guests (id int primary key, name text)');
  return { user, project, bench, query };
};

type Opened = Awaited<ReturnType<typeof open>>;

/** Runs `plinth listen` until it is ended, once it is ready. */
const listening = async ({ bench }: Pick<Opened, 'bench'>, args: readonly string[]) => {
  const ready = Promise.withResolvers<void>();
  let kill: ((signal: NodeJS.Signals) => void) | undefined;
  let output = '';
  const ended = bench.run(['listen', ...args], {
    onOutput: (text, end) => {
      kill = end;
      output += text;
      if (output.includes('Ctrl-C ends it')) ready.resolve();
    },
  });
  await Promise.race([
    ready.promise,
    ended.then(({ stderr }) => Promise.reject(new Error(`it ended at once: ${stderr}`))),
  ]);
  return {
    output: () => output,
    end: async (signal: NodeJS.Signals = 'SIGINT') => {
      kill?.(signal);
      return ended;
    },
  };
};

const listeners = ({ project }: Opened) =>
  platform().db.query(
    `select w.id from webhooks w where w.project_id = $1 and w.kind = 'listener' and w.deleted_at is null`,
    [project.id],
  );

test('deliveries come with their signature to the own machine, and end with the connection', async (t) => {
  const opened = await open();
  const receiver = await receiverFor(t);
  const secret = 'whsec_c2VjcmV0IG9mIHR3ZW50eSBmb3VyIGJ5dGVz';
  const { end, output } = await listening(opened, ['--forward', `${receiver.url}/hook`, '--secret', secret]);
  await opened.query(`insert into guests values (1, 'Zoë')`);
  const [first] = await receiver.when(1);
  t.is(first?.path, '/hook');
  const body = first?.body ?? Buffer.alloc(0);
  t.like(JSON.parse(body.toString()), {
    event: 'db.insert',
    project_id: opened.project.id,
    data: { id: 1, name: 'Zoë' },
  });
  t.is(first?.headers['x-webhook-signature'], createHmac('sha256', secret).update(body).digest('hex'));
  t.is(first?.headers['x-webhook-event'], 'db.insert');
  await until(() => Promise.resolve(/200 \d+ ms {2}db\.insert/.test(output())));
  const { webhooks } = (
    await platform().client.call('GET', `/projects/${opened.project.id}/integrations/webhooks`, {
      token: opened.user.token,
    })
  ).body;
  t.deepEqual(webhooks, [], 'it is none of the project’s webhooks');
  t.is((await listeners(opened)).length, 1);
  t.is((await end()).code, 130);
  await until(async () => (await listeners(opened)).length === 0);
  await opened.query(`insert into guests values (2, 'Bo')`);
  t.is(receiver.received.length, 1);
});

test('names of events and a filter choose, and a receiver that fails is shown', async (t) => {
  const opened = await open();
  const receiver = await receiverFor(t);
  receiver.answer(withStatus(500));
  const { end, output } = await listening(opened, [
    '-f',
    receiver.url,
    '--events',
    'table.guests.INSERT, table.guests.DELETE',
    '--filter',
    "data.name <> 'no'",
  ]);
  await opened.query(`insert into guests values (1, 'no'), (2, 'yes')`);
  await opened.query('update guests set id = 3 where id = 2');
  await opened.query('delete from guests where id = 3');
  const received = await receiver.when(2);
  const names = received.map(({ headers }) => headers['x-webhook-event']);
  t.true(names.includes('table.guests.DELETE') && names.includes('table.guests.INSERT'), names.join(' '));
  await until(() => Promise.resolve(/500 \d+ ms {2}table\.guests\.DELETE/.test(output())));
  await end();
});

test('the last events come again on request, the oldest first', async (t) => {
  const opened = await open();
  const receiver = await receiverFor(t);
  const first = await listening(opened, ['-f', receiver.url]);
  for (const id of [1, 2, 3]) await opened.query(`insert into guests values (${id}, 'x')`);
  await receiver.when(3);
  await first.end();
  const second = await listening(opened, ['-f', receiver.url, '--replay', '2', '--events', 'table.guests.*']);
  const received = await receiver.when(5);
  const ids = received.slice(3).map(({ body }) => JSON.parse(body.toString()).data.id as number);
  t.true(ids.includes(2) && ids.includes(3), ids.join(' '));
  t.is(received[3]?.headers['x-webhook-event'], 'table.guests.INSERT');
  t.regex(second.output(), /./);
  await until(() => Promise.resolve(second.output().includes('(replayed)')));
  await second.end();
});

test('a listener whose process died is removed by the sweep', async (t) => {
  const opened = await open();
  const receiver = await receiverFor(t);
  const { end } = await listening(opened, ['-f', receiver.url]);
  const { db } = platform();
  const sweep = () => db.transaction((tx) => removeLostListeners(tx, 10), systemActor);
  t.deepEqual(await sweep(), []);
  await db.query(
    `update webhook_listeners set seen_at = now() - interval '2 minutes'
     where webhook_id in (select id from webhooks where project_id = $1)`,
    [opened.project.id],
  );
  t.deepEqual(await sweep(), [opened.project.id]);
  t.is((await listeners(opened)).length, 0);
  await end();
});

test('a project has five listeners, for developers, and what is asked for must be right', async (t) => {
  const opened = await open();
  const receiver = await receiverFor(t);
  const all = await Promise.all(Array.from({ length: 5 }, () => listening(opened, ['-f', receiver.url])));
  const sixth = await opened.bench.run(['listen', '-f', receiver.url]);
  t.is(sixth.code, 1);
  t.regex(sixth.stderr, /at most 5 listeners/);
  await Promise.all(all.map(({ end }) => end()));
  const viewer = await makeToken(platform().client, await addMember(platform(), opened.project.orgId, 'viewer'));
  t.is(
    (await opened.bench.run(['listen', '-f', receiver.url], { env: { PLINTH_ACCESS_TOKEN: viewer.token } })).code,
    1,
  );
  for (const bad of [[], ['-f', ''], ['-f', 'ftp://x'], ['-f', receiver.url, '-n', '101']]) {
    t.is((await opened.bench.run(['listen', ...bad])).code, 2, bad.join(' '));
  }
  for (const bad of [
    ['--events', 'nothing such'],
    ['--filter', 'data.('],
    ['--secret', 'x'],
  ]) {
    t.is((await opened.bench.run(['listen', '-f', receiver.url, ...bad])).code, 1, bad.join(' '));
  }
});
