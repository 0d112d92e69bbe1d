import { closeSync, mkdirSync, openSync, rmSync, writeSync } from 'node:fs';
import path from 'node:path';
import type { ProcessSpec } from '#scripts/processes.ts';
import { providePostgres } from '#scripts/infra/postgres.ts';
import type { Surroundings } from '#scripts/with-stack.ts';
import type { Stage } from '../scene.ts';
import { type FaultServers, createTemplate, databaseMaker, placeBeside, runOn, serverOf } from '../servers.ts';
import { amidst, answered, underLoad } from './load.ts';
import type { Scenario } from './scenario.ts';

const diskMib = 64;
const tablespace = 'small';

/** Files of the tables lie on a disk of memory that is the server's own; its log of changes (WAL) has room. */
const onSmallDisk = (spec: ProcessSpec, folder: string): ProcessSpec => ({
  ...spec,
  name: 'postgres-small',
  command: 'unshare',
  args: [
    '--user',
    '--map-root-user',
    '--mount',
    '--',
    'sh',
    '-c',
    `mount -t tmpfs -o size=${diskMib}m tmpfs "$0" && exec "$@"`,
    folder,
    // Postgres does not run as root, not even as one that is root in its own namespace only.
    ...(spec.command === 'unshare' ? [] : ['unshare', '--user', '--map-user=1000', '--']),
    spec.command,
    ...spec.args,
  ],
});

const missing = async ({ surroundings }: Stage): Promise<string | null> => {
  const trial = ['--user', '--map-root-user', '--mount', '--', 'mount', '-t', 'tmpfs', 'tmpfs', '/tmp'];
  return surroundings.site.run('unshare', trial).then(
    () => null,
    () => 'a disk of its own needs Linux user namespaces with mounts',
  );
};

interface SmallDisk extends FaultServers {
  /** Takes every byte that is left. */
  readonly fill: () => void;
  readonly free: () => void;
}

const fillUp = (file: string): void => {
  const megabyte = Buffer.alloc(1024 * 1024);
  const pieces = [megabyte, Buffer.alloc(4096)];
  const open = openSync(file, 'w');
  for (const piece of pieces) {
    try {
      while (writeSync(open, piece) === piece.length);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
    }
  }
  closeSync(open);
};

const startSmall = async (surroundings: Surroundings, others: FaultServers): Promise<SmallDisk> => {
  const site = placeBeside(surroundings.site, 'small', true);
  const { spec, url } = await providePostgres(site);
  const folder = path.join(site.dataDir, 'disk');
  mkdirSync(folder);
  const postgres = serverOf(surroundings, onSmallDisk(spec, folder));
  await postgres.start();
  await runOn(url, `create tablespace ${tablespace} location '${folder}'`);
  await createTemplate(url);
  // As the server sees its disk.
  const filler = path.join(`/proc/${postgres.pid()}/root`, folder, 'filler');
  return {
    ...others,
    postgres,
    createDatabase: databaseMaker(url, `tablespace ${tablespace}`),
    fill: () => fillUp(filler),
    free: () => rmSync(filler),
  };
};

const diskFull = (): Scenario => {
  let small: SmallDisk | undefined;
  return {
    name: 'disk of Postgres full',
    did: `the disk of the tables (${diskMib} MiB) is filled up under load for 3 s, then there is room again`,
    missing,
    servers: async ({ surroundings, servers }) => (small = await startSmall(surroundings, servers)),
    run: async (scene) => {
      await scene.startWorkers(2);
      const load = await underLoad(scene, { count: 300 });
      await amidst(800);
      scene.faultBegins();
      small?.fill();
      await amidst(3000);
      small?.free();
      scene.faultIsOver();
      await answered(load);
      const refused = scene.journal().flatMap((line) => (line.what === 'refused' ? [line.code] : []));
      const codes = new Set(refused);
      for (const code of ['dependency_unavailable', 'overloaded']) codes.delete(code);
      return [
        ...(refused.length > 0 ? [] : ['the disk was never full']),
        ...(codes.size === 0 ? [] : [`refused with ${[...codes].join(', ')}`]),
      ];
    },
  };
};

export const diskScenarios: readonly Scenario[] = [diskFull()];
