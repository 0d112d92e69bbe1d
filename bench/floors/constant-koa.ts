import type { AddressInfo } from 'node:net';
import { Router } from '@koa/router';
import Koa, { type Context } from 'koa';

/** The floor of evaluated flags: one route that answers a constant of as many bytes. */
const text = JSON.stringify({ text: 'x'.repeat(Math.max(0, Number(process.env['ANSWER_BYTES']) - 11)) });

const router = new Router();
router.post('/constant', (ctx: Context) => {
  ctx.type = 'application/json; charset=utf-8';
  ctx.body = text;
});
const server = new Koa().use(router.routes()).listen(0, '127.0.0.1', () => {
  process.send?.({ type: 'ready', port: (server.address() as AddressInfo).port });
});
process.once('SIGTERM', () => process.exit(0));
process.once('disconnect', () => process.exit(0));
