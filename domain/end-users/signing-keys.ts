import { type JWK, exportJWK, exportPKCS8, generateKeyPair } from 'jose';
import type { Project } from '#domain/projects/store.ts';
import { type Queryable, maybeOne } from '#lib/control-db.ts';
import { newId } from '#lib/ids.ts';
import type { Sealer } from '#lib/secrets.ts';

export const signingAlgorithm = 'RS256';
const privateKeyAbout = 'signing-key';

export interface SigningKey {
  readonly id: string;
  /** PKCS #8 in PEM. */
  readonly privateKey: string;
}

interface KeyRow {
  readonly id: string;
  readonly private_sealed: Buffer;
}

const newest = (db: Queryable, projectId: string): Promise<KeyRow | undefined> =>
  maybeOne(
    db.query<KeyRow>(
      `select id, private_sealed from project_signing_keys where project_id = $1 order by created_at desc, id desc limit 1`,
      [projectId],
    ),
  );

/** When two keys are made at once both exist, and both verify. */
const makeKey = async (db: Queryable, projectId: string, sealer: Sealer): Promise<SigningKey> => {
  const { publicKey, privateKey } = await generateKeyPair(signingAlgorithm, { extractable: true });
  const id = newId();
  const pem = await exportPKCS8(privateKey);
  const jwk: JWK = { ...(await exportJWK(publicKey)), kid: id, alg: signingAlgorithm, use: 'sig' };
  await db.query(
    'insert into project_signing_keys (id, project_id, public_jwk, private_sealed) values ($1, $2, $3, $4)',
    [id, projectId, JSON.stringify(jwk), sealer.seal(privateKeyAbout, pem)],
  );
  return { id, privateKey: pem };
};

/** The key that a project signs with; made when it is asked for the first time. */
export const signingKeyOf = async (
  db: Queryable,
  project: Pick<Project, 'id'>,
  sealer: Sealer,
): Promise<SigningKey> => {
  const row = await newest(db, project.id);
  if (row === undefined) return makeKey(db, project.id, sealer);
  return { id: row.id, privateKey: sealer.open(privateKeyAbout, row.private_sealed) };
};

/** The public keys of a project's tokens; empty for a project that has signed nothing, or does not exist. */
export const publicKeysOf = async (db: Queryable, projectId: string): Promise<JWK[]> => {
  const rows = await db.query<{ public_jwk: JWK }>(
    `select k.public_jwk from project_signing_keys k join projects p on p.id = k.project_id
     where k.project_id = $1 and p.deleted_at is null order by k.created_at desc, k.id desc`,
    [projectId],
    'public-keys',
  );
  return rows.map(({ public_jwk }) => public_jwk);
};
