import path from 'node:path';
import { pino } from 'pino';
import { openPlatform } from '#domain/platform.ts';
import { checkAllFiles } from '#domain/storage/check.ts';
import { openBytes } from '#domain/storage/bytes.ts';
import { loadConfig } from '#lib/config.ts';
import { providedUrl, ringText } from './running-platform.ts';
import { readSettings } from './settings.ts';

/**
 * Compares the rows of all projects' files with their bytes, with the settings of the platform or of
 * `npm start`, and names what does not agree. Ends with 1 when bytes are missing or differ.
 */

const run = async (): Promise<number> => {
  const { dataDir, databaseUrl } = readSettings(process.env, path.resolve(import.meta.dirname, '..'));
  const config = loadConfig({
    ...process.env,
    DATA_DIR: dataDir,
    DATABASE_URL: databaseUrl ?? providedUrl(dataDir),
    PLINTH_SECRET_KEYS: ringText(dataDir, databaseUrl === null),
    // Nothing is queued; the setting has to be there.
    REDIS_URL: process.env['REDIS_URL'] ?? 'redis://127.0.0.1',
  });
  const platform = await openPlatform(config, pino({ level: 'silent' }));
  try {
    const { projects, found, lost } = await checkAllFiles(
      { db: platform.db, servers: platform.servers, bytes: await openBytes(config) },
      (project, { kind, what }) => console.log(`${project.ref} ${kind}: ${what}`),
    );
    console.log(`${projects} projects compared, ${found} disagreements, ${lost} of them lose data`);
    return lost > 0 ? 1 : 0;
  } finally {
    await platform.close();
  }
};

process.exitCode = await run();
