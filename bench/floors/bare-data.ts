import type { AddressInfo } from 'node:net';
import { Router } from '@koa/router';
import Koa, { type Context } from 'koa';
import { Pool } from 'pg';

/**
 * The floor of the data API: the same libraries, one named prepared statement a route, JSON that the server builds; and
 * nothing else: no keys, no grammar, no schema, no roles, no limits, no log.
 */
const pool = new Pool({ connectionString: process.env['BENCH_PROJECT_URL'], max: 4 });

const list = {
  name: 'list',
  text: `select coalesce(json_agg(t), '[]')::text as body from (
    select * from public.items where category = $1 order by created_at desc limit 25) t`,
};
const one = {
  name: 'one',
  text: 'select row_to_json(t)::text as body from (select * from public.items where id = $1) t',
};
const insert = {
  name: 'insert',
  text: `with made as (insert into public.items (category, name, price, tags, attributes)
      select category, name, price, tags, attributes from json_populate_record(null::public.items, $1) returning *)
    select row_to_json(made)::text as body from made`,
};

const answer = async (ctx: Context, query: typeof list, values: readonly unknown[], status = 200): Promise<void> => {
  const { rows } = await pool.query<{ body: string }>({ ...query, values: [...values] });
  ctx.status = status;
  ctx.type = 'application/json';
  ctx.body = rows[0]?.body ?? '[]';
};

const bodyOf = async (ctx: Context): Promise<string> => {
  const chunks: Buffer[] = [];
  for await (const chunk of ctx.req) chunks.push(chunk as Buffer);
  const text = Buffer.concat(chunks).toString();
  // A server that takes JSON checks whether it is valid.
  JSON.parse(text);
  return text;
};

const router = new Router();
router.get('/items', (ctx) => answer(ctx, list, [ctx.query['category']]));
router.get('/items/:id', (ctx) => answer(ctx, one, [(ctx['params'] as { id: string }).id]));
router.post('/items', async (ctx) => answer(ctx, insert, [await bodyOf(ctx)], 201));
const server = new Koa().use(router.routes()).listen(0, '127.0.0.1', () => {
  process.send?.({ type: 'ready', port: (server.address() as AddressInfo).port });
});
process.once('SIGTERM', () => process.exit(0));
process.once('disconnect', () => process.exit(0));
