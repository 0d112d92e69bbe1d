import { createReadStream, createWriteStream } from 'node:fs';
import { open, stat } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import Koa, { type Context } from 'koa';

/**
 * The floors of files: a Koa that streams a file from the disk as koa-send does (stat, headers, a read stream), and one
 * that pipes a body into a file and syncs it. No names, no policies, no hashes.
 */
const folder = String(process.env['BENCH_FILES']);

const send = async (ctx: Context): Promise<void> => {
  const file = path.join(folder, path.basename(ctx.path));
  const { size, mtime } = await stat(file);
  ctx.set('Last-Modified', mtime.toUTCString());
  ctx.set('Cache-Control', 'max-age=0');
  ctx.length = size;
  ctx.type = 'application/octet-stream';
  ctx.body = createReadStream(file);
};

const receive = async (ctx: Context): Promise<void> => {
  const file = path.join(folder, path.basename(ctx.path));
  await pipeline(ctx.req, createWriteStream(file));
  const handle = await open(file, 'r+');
  await handle.sync();
  await handle.close();
  ctx.body = '{}';
};

const app = new Koa();
app.use((ctx) => (ctx.method === 'GET' ? send(ctx) : receive(ctx)));
const server = app.listen(0, '127.0.0.1', () => {
  process.send?.({ type: 'ready', port: (server.address() as AddressInfo).port });
});
process.once('SIGTERM', () => process.exit(0));
process.once('disconnect', () => process.exit(0));
