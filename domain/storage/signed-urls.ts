import { createHmac, timingSafeEqual } from 'node:crypto';
import { z } from 'zod';
import type { Project } from '#domain/projects/store.ts';
import { ServiceError } from '#lib/errors.ts';
import type { StorageDeps } from './storage.ts';

/** How a picture is wanted; signed with its address. */
export const transformSchema = z.strictObject({
  width: z.coerce.number().int().min(1).max(2500).optional(),
  height: z.coerce.number().int().min(1).max(2500).optional(),
  resize: z.enum(['cover', 'contain', 'fill']).optional(),
  quality: z.coerce.number().int().min(20).max(100).optional(),
  format: z.enum(['origin', 'webp', 'avif']).optional(),
});

const common = { url: z.string(), iat: z.number(), exp: z.number() };
const grants = {
  read: z.object({ ...common, use: z.literal('read'), transform: transformSchema.optional() }),
  upload: z.object({
    ...common,
    use: z.literal('upload'),
    upsert: z.boolean(),
    owner: z.string().nullable(),
    owner_id: z.string().nullable(),
  }),
};

/** A token allows one thing: to read one object, as it is or as one picture of it, or to upload one. */
export type Grant = z.output<(typeof grants)['read']> | z.output<(typeof grants)['upload']>;
type GrantOf<Use extends Grant['use']> = Extract<Grant, { use: Use }>;

const encode = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url');
const header = encode({ alg: 'HS256', typ: 'JWT' });

const macOf = (
  { sealer }: Pick<StorageDeps, 'sealer'>,
  project: Pick<Project, 'id' | 'data_key'>,
  text: string,
): Buffer => createHmac('sha256', sealer(project).keyFor('storage-url')).update(text).digest();

type Unsigned<G extends Grant> = Omit<G, 'iat' | 'exp'>;

/** A token (JWT, HS256) that lasts so many seconds. */
export const signGrant = <G extends Grant>(
  deps: Pick<StorageDeps, 'sealer'>,
  project: Pick<Project, 'id' | 'data_key'>,
  grant: Unsigned<G>,
  expiresInS: number,
): string => {
  const iat = Math.floor(Date.now() / 1000);
  const text = `${header}.${encode({ ...grant, iat, exp: iat + expiresInS })}`;
  return `${text}.${macOf(deps, project, text).toString('base64url')}`;
};

const invalid = (): ServiceError =>
  new ServiceError('invalid_signature', 'The signature of this address is not valid.');

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(Buffer.from(text, 'base64url').toString());
  } catch {
    return null;
  }
};

/** `bucket/name`, as tokens name an object. */
export const urlOf = ({ bucket, name }: { readonly bucket: string; readonly name: string }): string =>
  `${bucket}/${name}`;

/**
 * Checks a token against the object that it is shown for.
 * @throws {ServiceError} `invalid_signature`, `expired`
 */
export const checkGrant = <Use extends Grant['use']>(
  deps: Pick<StorageDeps, 'sealer'>,
  project: Pick<Project, 'id' | 'data_key'>,
  token: string,
  wanted: { readonly use: Use; readonly url: string },
): GrantOf<Use> => {
  const [head = '', body = '', mac = '', ...rest] = token.split('.');
  const given = Buffer.from(mac, 'base64url');
  const right = macOf(deps, project, `${head}.${body}`);
  if (rest.length > 0 || given.length !== right.length || !timingSafeEqual(given, right)) throw invalid();
  const grant = grants[wanted.use].safeParse(parsed(body)).data;
  if (grant === undefined || grant.url !== wanted.url) throw invalid();
  if (grant.exp * 1000 <= Date.now()) throw new ServiceError('expired', 'This address has expired.');
  return grant as GrantOf<Use>;
};
