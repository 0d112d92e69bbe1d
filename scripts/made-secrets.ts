import { randomBytes } from 'node:crypto';
import { chmodSync, existsSync, linkSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';

/** A secret that is made once and kept in a file only its owner may read. */
export interface MadeSecret {
  readonly value: string;
  readonly file: string;
  readonly isNew: boolean;
}

/** Reads the secret, or makes it. The file appears whole or not at all: half a key would be no key for good. */
const madeOnce = (file: string, make: () => string): MadeSecret => {
  if (existsSync(file)) {
    chmodSync(file, 0o600);
    return { value: readFileSync(file, 'utf8').trim(), file, isNew: false };
  }
  const temporary = `${file}.${process.pid}`;
  writeFileSync(temporary, `${make()}\n`, { mode: 0o600, flush: true });
  try {
    linkSync(temporary, file);
  } finally {
    rmSync(temporary, { force: true });
  }
  return { value: readFileSync(file, 'utf8').trim(), file, isNew: true };
};

/** A key ring with one key: `1:<base64 of 32 random bytes>`. */
export const newKeyRing = (): string => `1:${randomBytes(32).toString('base64')}`;

/** The key ring that goes with the database we provide. Losing it means losing every secret kept in that database. */
export const keyRingIn = (dataDir: string): MadeSecret => madeOnce(path.join(dataDir, 'secret-keys'), newKeyRing);

/** The token that operators present at /ops and /metrics. */
export const opsTokenIn = (dataDir: string): MadeSecret =>
  madeOnce(path.join(dataDir, 'ops-token'), () => `ops_${randomBytes(24).toString('base64url')}`);

/** The password of a server we provide. */
export const passwordIn = (dataDir: string, name: string): MadeSecret =>
  madeOnce(path.join(dataDir, name), () => randomBytes(24).toString('hex'));
