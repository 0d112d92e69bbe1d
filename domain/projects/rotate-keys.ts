import { systemActor } from '#domain/audit/actor.ts';
import type { ControlDb } from '#lib/control-db.ts';
import { platformOwner } from '#lib/platform-sealer.ts';
import { type KeyRing, SecretError } from '#lib/secrets.ts';

/** The results for the wrapped data keys of all projects and of the platform. */
export interface Rotation {
  readonly rewrapped: number;
  /** Were with the newest key already. */
  readonly current: number;
  /** Could not be opened, each with the reason. */
  readonly failed: readonly { readonly owner: string; readonly reason: string }[];
}

interface Wrapped {
  readonly owner: string;
  readonly wrapped: Buffer;
}

const maxAtOnce = 200;

interface Batch {
  readonly changed: readonly (Wrapped & { readonly anew: Buffer })[];
  readonly failed: Rotation['failed'];
}

const rewrapAll = (keyRing: KeyRing, keys: readonly Wrapped[]): Batch => {
  const changed: (Wrapped & { readonly anew: Buffer })[] = [];
  const failed: { owner: string; reason: string }[] = [];
  for (const { owner, wrapped } of keys) {
    try {
      const anew = keyRing.rewrap(owner, wrapped);
      if (anew !== null) changed.push({ owner, wrapped, anew });
    } catch (error) {
      if (!(error instanceof SecretError)) throw error;
      failed.push({ owner, reason: error.message });
    }
  }
  return { changed, failed };
};

const rotatePlatform = async (db: ControlDb, keyRing: KeyRing): Promise<Rotation> => {
  const [row] = await db.query<{ wrapped: Buffer }>(
    `select value as wrapped from platform_settings where name = 'data-key'`,
  );
  if (row === undefined) return { rewrapped: 0, current: 0, failed: [] };
  const { changed, failed } = rewrapAll(keyRing, [{ owner: platformOwner, wrapped: row.wrapped }]);
  for (const { wrapped, anew } of changed) {
    await db.query(`update platform_settings set value = $2 where name = 'data-key' and value = $1`, [wrapped, anew]);
  }
  return { rewrapped: changed.length, current: 1 - changed.length - failed.length, failed };
};

/** Only unchanged keys: another rotation at the same time has done the same. */
const store = (db: ControlDb, changed: Batch['changed']): Promise<unknown> =>
  db.transaction(
    (tx) =>
      tx.query(
        `update projects p set data_key = given.anew
         from unnest($1::uuid[], $2::bytea[], $3::bytea[]) as given (id, wrapped, anew)
         where p.id = given.id and p.data_key = given.wrapped`,
        [changed.map(({ owner }) => owner), changed.map(({ wrapped }) => wrapped), changed.map(({ anew }) => anew)],
      ),
    systemActor,
  );

const plus = (a: Rotation, b: Rotation): Rotation => ({
  rewrapped: a.rewrapped + b.rewrapped,
  current: a.current + b.current,
  failed: [...a.failed, ...b.failed],
});

/**
 * Wraps every data key with the newest key of the ring, deleted projects' too. The sealed data stay as they are. Safe
 * beside running processes, which hold both keys, and after being interrupted at any moment.
 * @param report hears after each batch how far it is
 */
export const rotateKeys = async (
  db: ControlDb,
  keyRing: KeyRing,
  report: (soFar: Rotation) => void = () => undefined,
): Promise<Rotation> => {
  let sum = await rotatePlatform(db, keyRing);
  let after = '00000000-0000-0000-0000-000000000000';
  for (;;) {
    const keys = await db.query<Wrapped>(
      'select id as owner, data_key as wrapped from projects where id > $1 order by id limit $2',
      [after, maxAtOnce],
    );
    const last = keys.at(-1);
    if (last === undefined) return sum;
    const { changed, failed } = rewrapAll(keyRing, keys);
    if (changed.length > 0) await store(db, changed);
    const current = keys.length - changed.length - failed.length;
    sum = plus(sum, { rewrapped: changed.length, current, failed });
    report(sum);
    after = last.owner;
  }
};
