import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { createRequire } from 'node:module';
import { setTimeout as delay } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';

/** The peer of the AI gateway, from where `peer.ts` has put it: started as its own program starts it. */
const freePort = (): Promise<number> =>
  new Promise((resolve, reject) => {
    const probe = createServer().once('error', reject);
    probe.listen(0, '127.0.0.1', () => {
      const { port } = probe.address() as AddressInfo;
      probe.close(() => resolve(port));
    });
  });

const patienceMs = 10_000;

const untilItServes = async (url: string): Promise<void> => {
  for (const until = performance.now() + patienceMs; performance.now() < until; await delay(50)) {
    if (
      await fetch(url).then(
        () => true,
        () => false,
      )
    )
      return;
  }
  throw new Error(`${url} does not answer`);
};

const port = await freePort();
const folder = process.env['BENCH_PEER'] ?? '';
process.argv.splice(2, process.argv.length, `--port=${port}`, '--headless');
await import(pathToFileURL(createRequire(`${folder}/`).resolve('@portkey-ai/gateway/build/start-server.js')).href);
await untilItServes(`http://127.0.0.1:${port}/`);
process.send?.({ type: 'ready', port });
process.once('SIGTERM', () => process.exit(0));
process.once('disconnect', () => process.exit(0));
