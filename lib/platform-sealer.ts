import type { ControlDb } from './control-db.ts';
import { maybeOne } from './control-db.ts';
import { ConfigError } from './config.ts';
import { type KeyRing, type Sealer, SecretError } from './secrets.ts';

/** The owner of the data key, as the key ring names it. */
export const platformOwner = 'platform';

const storedKey = async (db: ControlDb): Promise<Buffer | undefined> =>
  (await maybeOne(db.query<{ value: Buffer }>(`select value from platform_settings where name = 'data-key'`)))?.value;

/**
 * The sealer for the platform's own secrets. Its wrapped data key lies in the database, so that opening it proves that
 * the key ring is the one that this database was written with.
 * @throws {ConfigError} when it is not
 */
export const openPlatformSealer = async (db: ControlDb, keyRing: KeyRing): Promise<Sealer> => {
  await db.query(`insert into platform_settings (name, value) values ('data-key', $1) on conflict do nothing`, [
    keyRing.newDataKey(platformOwner),
  ]);
  const wrapped = await storedKey(db);
  if (wrapped === undefined) throw new Error('the platform data key is not there');
  try {
    return keyRing.sealerFor(platformOwner, wrapped);
  } catch (error) {
    if (!(error instanceof SecretError)) throw error;
    throw new ConfigError(
      'PLINTH_SECRET_KEYS does not fit this database: its secrets were written with another key ring.',
    );
  }
};
