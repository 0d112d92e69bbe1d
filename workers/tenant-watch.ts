import { serverIds } from '#domain/database-servers/upgrade.ts';
import { type WatchdogDeps, createUncancellableSessions, watchServer } from '#domain/database-servers/watchdog.ts';
import { registry } from '#lib/metrics.ts';
import { type Poller, startPoller } from '#lib/poller.ts';
import { Gauge } from 'prom-client';

const everyMs = 1000;
const listEveryRounds = 30;

const uncancellableSessions = new Gauge({
  name: 'plinth_unending_sessions',
  help: 'Sessions in projects’ databases that were ended and go on: the server cannot interrupt what they do.',
  registers: [registry],
});

export interface TenantWatchDeps extends WatchdogDeps {
  /** For tests: how often. */
  readonly everyMs?: number;
}

/**
 * Checks each server once a second. A server that takes longer is not asked again meanwhile, and delays no other. Every
 * system worker does this: stopping a session twice does no harm.
 */
export const startTenantWatch = (deps: TenantWatchDeps): Pick<Poller, 'stop'> => {
  const checks = new Map<string, Promise<void>>();
  const uncancellable = createUncancellableSessions();
  let servers: readonly string[] = [];
  let rounds = 0;

  const observed = (serverId: string): void => {
    checks.delete(serverId);
    uncancellableSessions.set(uncancellable.count());
  };

  const checkServer = (serverId: string): void => {
    if (checks.has(serverId)) return;
    const observe = watchServer({ ...deps, uncancellable }, serverId)
      .catch((error: unknown) =>
        deps.log.warn({ err: error, server_id: serverId }, 'sessions of project databases could not be checked'),
      )
      .then(() => observed(serverId));
    checks.set(serverId, observe);
  };

  const round = async (): Promise<void> => {
    if (rounds % listEveryRounds === 0 || servers.length === 0) servers = await serverIds(deps.db);
    rounds += 1;
    for (const serverId of servers) checkServer(serverId);
  };

  const intervalMs = deps.everyMs ?? everyMs;
  const poller = startPoller(round, {
    everyMs: intervalMs,
    firstInMs: intervalMs,
    onFailure: (error) => deps.log.debug({ err: error }, 'the servers could not be listed'),
  });

  return {
    stop: async () => {
      await poller.stop();
      await Promise.all(checks.values());
    },
  };
};
