import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { addWebhook, runSql } from '../account.ts';
import { type Abuse, type Ground, countOf, effectOf, note, rest, strike, striking, until } from '../ground.ts';

/** A receiver of webhooks in this process; answers its address. */
const openReceiver = async (ground: Ground, answers: boolean): Promise<string> => {
  const server = createServer((request, response) => {
    request.resume();
    note(ground, 'webhooks received');
    if (answers) response.end('ok');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  ground.signal.addEventListener('abort', () => server.closeAllConnections());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
};

const queryOf = ({ account: { headers, projectId } }: Ground, sql: string) => ({
  path: `/projects/${projectId}/db/query`,
  headers,
  body: JSON.stringify({ sql }),
});

const inserting = `with one as (insert into one select n, repeat('x', 200) from generate_series(1, 10000) n)
  insert into two select n, repeat('x', 200) from generate_series(1, 10000) n`;

/** 20,000 rows in one statement, 10,000 in each of two tables as the plan allows, and a webhook that hears of each. */
export const bulkInserts: Abuse = async (ground) => {
  const { account, signal } = ground;
  await runSql(account, 'create table one (n bigint, content text)', 'create table two (n bigint, content text)');
  await addWebhook(account, await openReceiver(ground, true), ['table.one.INSERT', 'table.two.INSERT']);
  const cycle = async (): Promise<void> => {
    const answer = await strike(ground, queryOf(ground, inserting));
    if (answer !== null && answer.status < 300) note(ground, 'bulk inserts');
    await strike(ground, queryOf(ground, 'truncate one, two'));
  };
  return {
    begin: async () => {
      const all = async (): Promise<void> => {
        while (!signal.aborted) await cycle();
      };
      void all();
      await until(() => countOf(ground, 'calls') > 2, signal);
    },
    effect: async () => effectOf(ground, { 'bulk inserts': 2, 'answered 503': 5 }),
  };
};

const hangingCount = 10;

const newEventMs = 500;

/** An event for each of the webhooks, twice a second. */
const insertNow = async (ground: Ground): Promise<void> => {
  while (!ground.signal.aborted) {
    await strike(ground, queryOf(ground, 'with old as (delete from noisy) insert into noisy values (1)'));
    await rest(newEventMs, ground.signal);
  }
};

/** Ten webhooks whose receiver takes each delivery and never answers, a thousand events for each, and new ones. */
export const hangingWebhooks: Abuse = async (ground) => {
  const { account, signal } = ground;
  await runSql(account, 'create table noisy (n bigint)');
  const url = await openReceiver(ground, false);
  for (let n = 0; n < hangingCount; n += 1) await addWebhook(account, `${url}/${n}`, ['table.noisy.INSERT']);
  return {
    begin: async () => {
      await strike(ground, queryOf(ground, 'insert into noisy select n from generate_series(1, 1000) n'));
      void insertNow(ground);
      await until(() => countOf(ground, 'webhooks received') > 2, signal);
    },
    effect: async () => effectOf(ground, { 'webhooks received': 2 }),
  };
};

const sorting = `select count(*) from (select md5(n::text) as hash from generate_series(1, 2000000) n order by 1 offset 1000) sorted`;

/** Four callers sort two million hashes at the SQL console. */
export const consoleSql: Abuse = (ground) => Promise.resolve(striking(ground, 4, () => queryOf(ground, sorting)));

/** Four callers of the data API have a function sort two million hashes. */
export const dataSql: Abuse = async (ground) => {
  const { account, keys } = ground;
  await runSql(account, `create function burn() returns bigint language sql as $$ ${sorting} $$`);
  return striking(ground, 4, (caller) => ({
    path: '/v1/rest/rpc/burn',
    headers: { apikey: keys[caller % keys.length] ?? '' },
    body: '{}',
  }));
};
