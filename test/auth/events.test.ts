import test from 'ava';
import { tableSubscriptionsOf } from '#domain/events/events.ts';
import { setTableSubscriptions } from '#domain/events/subscriptions.ts';
import type { TestProject } from '#test/support/client.ts';
import { asAdmin } from '#test/support/databases.ts';
import { receiverFor } from '#test/support/receiver.ts';
import { withServers } from '../database/limits-scene.ts';
import { useDatabase } from '../database/guard-scene.ts';
import { newEmail, password, useAuth } from './auth-scene.ts';

const { ask, developer, newProject, platform, signIn, signedUp } = useAuth(test, {});

/** The project's events stay where they are emitted. */
const subscribed = async (patterns: readonly string[]) => {
  const of = await newProject();
  const { db } = platform();
  await withServers(platform(), (servers) =>
    setTableSubscriptions({ db, servers }, of.id, tableSubscriptionsOf(patterns)),
  );
  await db.query('delete from event_sources where project_id = $1', [of.id]);
  return of;
};

const left = ({ dbName }: TestProject): Promise<string[]> =>
  asAdmin(dbName, async (admin) => {
    const { rows } = await admin.query('select table_name, op from plinth.outbox order by id');
    return rows.map(({ table_name, op }) => `${table_name} ${op}`);
  });

test('each step leaves its event, once, and only what is subscribed to', async (t) => {
  const [all, some, none] = [await subscribed(['*']), await subscribed(['user.updated']), await subscribed(['db.*'])];
  for (const each of [all, some, none]) {
    const email = newEmail();
    const { access_token: token } = await signedUp(each, email);
    await signIn(email, 'wrong password', each);
    await signIn(email, password, each);
    await ask('PUT', '/user', { token, body: { data: { a: 1 } } }, each);
  }
  t.deepEqual(await left(all), [
    'user.created EVENT',
    'auth.signup EVENT',
    'auth.login EVENT',
    'auth.login EVENT',
    'user.updated EVENT',
  ]);
  t.deepEqual(await left(some), ['user.updated EVENT']);
  t.deepEqual(await left(none), []);
});

test('a user that a trigger of the project keeps from being made leaves no event', async (t) => {
  const of = await subscribed(['*']);
  await useDatabase(platform(), of).query(
    'owner',
    `create function refuse() returns trigger language plpgsql as $$ begin raise exception 'no'; end $$`,
    'create constraint trigger refuse after insert on auth.users deferrable initially deferred for each row execute function refuse()',
  );
  t.is((await ask('POST', '/signup', { body: { email: newEmail(), password } }, of)).status, 500);
  t.deepEqual(await left(of), []);
});

test('a webhook receives the events with what happened, and no secret', async (t) => {
  const receiver = await receiverFor(t);
  const of = await newProject();
  const made = await platform().client.call('POST', `/projects/${of.id}/integrations/webhooks`, {
    token: developer().token,
    body: { url: receiver.url, events: ['auth.*', 'users.*'] },
  });
  t.is(made.status, 201);
  const email = newEmail();
  const session = await signedUp(of, email);
  const bodies = (await receiver.when(3)).map((received) => JSON.parse(String(received.body)));
  const byName = new Map(bodies.map((body) => [body.event, body.data]));
  const names = [...byName.keys()].toSorted((a, b) => String(a).localeCompare(String(b)));
  t.deepEqual(names, ['auth.login', 'auth.signup', 'user.created']);
  t.like(byName.get('user.created'), { id: session.user.id, email, is_anonymous: false, user_metadata: {} });
  t.like(byName.get('auth.login'), { user_id: session.user.id, email, method: 'password' });
  t.false(JSON.stringify(bodies).includes(password));
});
