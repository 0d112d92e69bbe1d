import type { AddressInfo } from 'node:net';
import Koa from 'koa';
import { Pool } from 'pg';
import { answerByGraphqlJs } from './graphql-js.ts';

/** graphql-js behind Koa; and nothing else: no keys, no roles, no limits, no log. */
const pool = new Pool({ connectionString: process.env['BENCH_PROJECT_URL'], max: 4 });

interface Body {
  readonly query: string;
  readonly variables: Readonly<Record<string, unknown>>;
}

const app = new Koa().use(async (ctx) => {
  const chunks: Buffer[] = [];
  for await (const chunk of ctx.req) chunks.push(chunk as Buffer);
  const { query, variables } = JSON.parse(Buffer.concat(chunks).toString()) as Body;
  ctx.type = 'application/json';
  ctx.body = JSON.stringify(await answerByGraphqlJs(pool, query, variables));
});
const server = app.listen(0, '127.0.0.1', () => {
  process.send?.({ type: 'ready', port: (server.address() as AddressInfo).port });
});
process.once('SIGTERM', () => process.exit(0));
process.once('disconnect', () => process.exit(0));
