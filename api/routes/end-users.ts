import { z } from 'zod';
import { everyone, inProject } from '../access.ts';
import type { BaseCall } from '../call.ts';
import { type Endpoint, RawReply, endpoint } from '../endpoint.ts';
import { id, shownOnce, text } from '../fields.ts';
import { restUrl } from '#api/http/rest-url.ts';

const area = 'users';

/** RFC 7519 and RFC 9068 give these a meaning; `role` decides as whom the database is used. */
const registered = ['iss', 'sub', 'aud', 'exp', 'nbf', 'iat', 'jti', 'role'];

const isStorable = (value: unknown): boolean =>
  typeof value !== 'string' || (value.isWellFormed() && !value.includes('\0'));

/** Whether PostgreSQL can hold it as `jsonb`, which policies read: names and texts, however deep. */
const isStorableJson = (given: unknown): boolean => {
  let storable = true;
  JSON.stringify(given, (name, value: unknown) => {
    storable &&= isStorable(name) && isStorable(value);
    return value;
  });
  return storable;
};

const claims = z
  .record(z.string().max(200), z.unknown())
  .refine((given) => registered.every((name) => !Object.hasOwn(given, name)), {
    error: `must not hold ${registered.join(', ')}`,
  })
  .refine((given) => JSON.stringify(given).length <= 4096, { error: 'must not be longer than 4096 characters' })
  .refine(isStorableJson, { error: 'must be well-formed Unicode without NUL' });

const maxSeconds = 3600;

const jwk = z.looseObject({ kty: z.string(), kid: z.string(), alg: z.string(), use: z.string() });

/** RFC 7517. */
export const keySet = z.object({ keys: z.array(jwk) });

/** A rotated key signs at once: who meets one that they do not know asks again, as libraries do. */
const keysMaxAgeSeconds = 300;

/** The public keys of a project's tokens. @param projectId null: of no project */
export const publishedKeys = async (
  { deps, setHeader }: Pick<BaseCall, 'deps' | 'setHeader'>,
  projectId: string | null,
): Promise<RawReply> => {
  setHeader('Cache-Control', `public, max-age=${keysMaxAgeSeconds}`);
  return new RawReply(projectId === null ? '{"keys":[]}' : (await deps.endUsers.keys.publicOf(projectId)).text);
};

/** A project's own users, as far as their tokens go (contract, sections 5 and 9). */
export const endUserEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'post',
    path: '/projects/{project_id}/users/tokens',
    area,
    summary: 'Sign an access token for a user of the project: to try policies, or where users sign in elsewhere',
    access: inProject('developer'),
    params: z.object({ project_id: id }),
    body: z.strictObject({
      sub: text(255, 1).describe('Who it is: `auth.uid()` in policies, where it is a UUID.'),
      claims: claims.default({}).describe('Further claims: `auth.jwt()` in policies.'),
      expires_in: z.int().min(1).max(maxSeconds).default(maxSeconds).describe('Seconds.'),
    }),
    status: 201,
    transaction: 'none',
    response: z.object({
      access_token: shownOnce(z.string()),
      token_type: z.literal('Bearer'),
      expires_in: z.int(),
    }),
    handle: async ({ body, params }, call) => {
      const token = await call.deps.endUsers.signer.sign(call.project, {
        issuer: `${call.baseUrl}/oauth/${params.project_id}`,
        audience: restUrl(call.project.ref, call),
        subject: body.sub,
        expiresIn: body.expires_in,
        claims: body.claims,
      });
      return { access_token: token, token_type: 'Bearer' as const, expires_in: body.expires_in };
    },
  }),
  endpoint({
    method: 'get',
    path: '/oauth/{project_id}/.well-known/jwks.json',
    anyOrigin: true,
    area,
    summary: 'The public keys that tokens of the project’s users are verified with',
    access: everyone,
    params: z.object({ project_id: id }),
    response: keySet,
    handle: ({ params }, call) => publishedKeys(call, params.project_id),
  }),
];
