import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import type { AddressInfo, Server } from 'node:net';

/** The peer of evaluated flags, from the folder where it was installed, with its own defaults but for what is measured. */
interface Unleash {
  readonly start: (options: object) => Promise<{ readonly server: Server }>;
}

const folder = process.env['BENCH_PEER'] ?? '';
const entry = createRequire(`${folder}/`).resolve('unleash-server');
const { start } = (await import(pathToFileURL(entry).href)) as Unleash;
const { server } = await start({
  db: { ssl: false, connectionString: process.env['BENCH_DATABASE'] },
  server: { port: 0, host: '127.0.0.1', gracefulShutdownEnable: false },
  versionCheck: { enable: false },
  telemetry: false,
});
process.send?.({ type: 'ready', port: (server.address() as AddressInfo).port });
process.once('SIGTERM', () => process.exit(0));
process.once('disconnect', () => process.exit(0));
