import type { AddressInfo } from 'node:net';
import { Router } from '@koa/router';
import Koa from 'koa';

/** The floor of documents that hardly change: Koa and its router, which answer with an object of that size. */
const router = new Router();
const document = Object.fromEntries(
  Array.from({ length: 30 }, (_, at) => [`member_${at}`, 'https://x.example/a/path']),
);
router.get('/oauth/:id/document', (ctx) => {
  ctx.body = document;
});
const server = new Koa().use(router.routes()).listen(0, '127.0.0.1', () => {
  process.send?.({ type: 'ready', port: (server.address() as AddressInfo).port });
});
process.once('SIGTERM', () => process.exit(0));
process.once('disconnect', () => process.exit(0));
