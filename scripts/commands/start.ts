import path from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { loopbackNotice } from '#lib/egress.ts';
import { findVector, provideVector } from '../infra/pgvector.ts';
import type { Site } from '../infra/site.ts';
import { narrateTo } from '../narrator.ts';
import {
  type PlatformSecrets,
  type Servers,
  choosePort,
  platformSecrets,
  processEnvironment,
  provideServers,
  startProcesses,
} from '../platform.ts';
import { requireUsableSettings } from '../check-settings.ts';
import { buildWeb, removeOtherBuilds, webBuildFolder } from '../web-build.ts';
import { type Settings, readSettings } from '../settings.ts';
import { type Surroundings, withStack } from '../with-stack.ts';
import type { Command } from './command.ts';

export const lockFileIn = (dataDir: string): string => path.join(dataDir, 'platform.pid');

/** The token itself is shown once; afterwards, where it is kept. */
const opsTokenLine = ({ madeOpsToken }: PlatformSecrets): string => {
  if (madeOpsToken === null) return 'as set in PLINTH_OPS_TOKEN';
  const { isNew, value, file } = madeOpsToken;
  return isNew ? `${value} (shown this once; kept in ${file})` : `in ${file}`;
};

/** In a terminal the banner and what goes wrong are read; files and pipes get everything. */
export const quietIn = (env: NodeJS.ProcessEnv, isTerminal: boolean): NodeJS.ProcessEnv =>
  isTerminal && !env['PLINTH_LOG_LEVEL'] ? { PLINTH_LOG_LEVEL: 'warn' } : {};

const quiet = (): NodeJS.ProcessEnv => quietIn(process.env, process.stdout.isTTY);

const welcome = (url: string, secrets: PlatformSecrets, site: Site): string => {
  const seconds = (performance.now() / 1000).toFixed(1);
  return [
    `ready in ${seconds} s`,
    '',
    `  Dashboard   ${url}/dashboard`,
    `  API         ${url}`,
    `  API pages   ${url}/docs`,
    `  Operators   ${url}/ops`,
    `  Ops token   ${opsTokenLine(secrets)}`,
    `  Data        ${site.dataDir}`,
    ...('PLINTH_LOG_LEVEL' in quiet()
      ? ['  Log         warnings and errors appear here; PLINTH_LOG_LEVEL=info shows more']
      : []),
    '  Next step   sign up in the dashboard, or "A five-minute tour" in README.md',
    '',
    '  Ctrl-C stops everything.',
    '',
  ].join('\n');
};

/** Never waited for: everything but vectors works without it. */
const provideVectorInBackground = async (site: Site, { postgres }: Servers): Promise<void> => {
  if (postgres === null || findVector(postgres.programs) !== null) return;
  const { line } = await provideVector(site, postgres.programs);
  if (!site.signal.aborted) site.narrator.print(line);
};

/** Never waited for: until the pages are there, their addresses say that they are being built. */
const buildInBackground = async ({ root, narrator }: Site, folder: string): Promise<void> => {
  try {
    await buildWeb(root, folder, { quality: 9 });
    removeOtherBuilds(folder);
  } catch (error) {
    narrator.print(
      `the dashboard and the operators' page could not be built: ${error instanceof Error ? error.message : String(error)}`,
    );
  }
};

const run = async (settings: Settings, { site, stack, lock }: Surroundings): Promise<number> => {
  const { narrator } = site;
  // A port that was asked for and is taken is the cheapest thing to learn: before anything is made or fetched.
  if (settings.port !== null) await choosePort(settings.port, narrator.print);
  const pages = webBuildFolder(site.root, site.dataDir);
  const built = buildInBackground(site, pages);
  const servers = await provideServers({ settings, site, stack });
  const secrets = platformSecrets(settings, site.dataDir);
  const env = { PLINTH_DASHBOARD_DIR: pages, ...processEnvironment(servers, secrets, site), ...quiet() };
  const { workers, drainMs } = settings;
  const chooseOne = (): Promise<number> => choosePort(settings.port, narrator.print);
  const port = await startProcesses({ site, stack }, { choosePort: chooseOne, workers, drainMs, env });
  const url = `http://127.0.0.1:${port}`;
  lock.update({ url });
  if (process.env['PLINTH_EGRESS_ALLOW'] === undefined) narrator.print(`note: ${loopbackNotice}`);
  const vector = provideVectorInBackground(site, servers);
  // Its first lines come before the banner, which a person should see last.
  await Promise.race([vector, nextTurn()]);
  narrator.print(welcome(url, secrets, site));
  await Promise.all([vector, built]);
  return stack.failure;
};

/** `npm start`: the platform with everything it needs, until it is stopped. A stop that was asked for is no failure. */
export const start: Command = async (_args, root) => {
  await requireUsableSettings(process.env);
  const settings = readSettings(process.env, root);
  const { dataDir, runtimeDir, drainMs } = settings;
  const narrator = narrateTo(process.stdout);
  const plan = { root, dataDir, runtimeDir, drainMs, narrator, lockFile: lockFileIn(dataDir) };
  const code = await withStack({ ...plan, throwaway: false, durable: true }, (surroundings) =>
    run(settings, surroundings),
  );
  narrator.print('stopped');
  return code > 128 ? 0 : code;
};
