import path from 'node:path';
import { pino } from 'pino';
import { type Rotation, rotateKeys } from '#domain/projects/rotate-keys.ts';
import { openControlDb } from '#lib/control-db.ts';
import { openKeyRing } from '#lib/secrets.ts';
import { providedUrl, ringText } from './running-platform.ts';
import { readSettings } from './settings.ts';

/** Wraps the data keys of all projects with the newest key of the ring. Ends with 1 when some could not be opened. */

const maxNamed = 20;

const line = ({ rewrapped, current, failed }: Rotation): string =>
  `${rewrapped} rewrapped, ${current} were already, ${failed.length} could not be opened`;

const run = async (): Promise<number> => {
  const { dataDir, databaseUrl } = readSettings(process.env, path.resolve(import.meta.dirname, '..'));
  const keyRing = openKeyRing(ringText(dataDir, databaseUrl === null));
  const log = pino({ level: 'silent' });
  const db = openControlDb({ url: databaseUrl ?? providedUrl(dataDir), connections: 1, log });
  try {
    console.log(`wrapping data keys with key ${keyRing.newest}`);
    const end = await rotateKeys(db, keyRing, (soFar) => console.log(line(soFar)));
    for (const { owner, reason } of end.failed.slice(0, maxNamed)) console.error(`${owner}: ${reason}`);
    if (end.failed.length > maxNamed) console.error(`and ${end.failed.length - maxNamed} more`);
    console.log(`done: ${line(end)}`);
    return end.failed.length > 0 ? 1 : 0;
  } finally {
    await db.close();
  }
};

process.exitCode = await run();
