import { z } from 'zod';
import { withKey } from '../access.ts';
import type { BaseCall, DataCall } from '../call.ts';
import { type Endpoint, endpoint } from '../endpoint.ts';
import { placeOf, signedPath, storageCall, storageRoots } from '../storage/call.ts';
import { list, listPage } from '#domain/storage/list.ts';
import { requireBucketName, requireName } from '#domain/storage/names.ts';
import { copy, move, remove, requireObject } from '#domain/storage/objects.ts';
import { signGrant, transformSchema, urlOf } from '#domain/storage/signed-urls.ts';
import { type DeletedObject, visibleNames } from '#domain/storage/store.ts';
import { namedObject } from '#api/fields.ts';

/** Calls about objects whose bodies are JSON, as storage-js makes them. */

const common = {
  area: 'storage',
  access: withKey('secret', 'publishable', 'user'),
  rate: 'data',
  errors: 'storage',
  transaction: 'none',
  status: 200,
} as const;

type Calls = BaseCall & DataCall;
const as = (call: Calls) => [call.deps.storage, storageCall(call)] as const;

const prefix = z
  .string()
  .max(1024)
  .refine((text) => text.isWellFormed() && !text.includes('\0'), { error: 'must be text without NUL' });
const maxListed = 1000;
const maxNames = 1000;
/** A year. */
const maxExpiresS = 366 * 24 * 3600;
const expiresIn = z.int().min(1).max(maxExpiresS).describe('Seconds.');

const order = z.enum(['asc', 'desc']);
const entry = namedObject('StorageObject', {
  name: z.string(),
  id: z.string().nullable(),
  updated_at: z.string().nullable(),
  created_at: z.string().nullable(),
  last_accessed_at: z.string().nullable(),
  metadata: z.record(z.string(), z.unknown()).nullable(),
});

const entryOf = (object: DeletedObject) => ({
  name: object.name,
  bucket_id: object.bucket_id,
  owner: object.owner,
  owner_id: object.owner_id,
  version: object.version,
  id: object.id,
  updated_at: object.updated_at,
  created_at: object.created_at,
  last_accessed_at: object.created_at,
  metadata: object.metadata,
});

const transfer = z.strictObject({
  bucketId: z.string(),
  sourceKey: z.string(),
  destinationKey: z.string(),
  destinationBucket: z.string().nullish(),
});

const placesOf = (body: z.output<typeof transfer>) => {
  const from = { bucket: requireBucketName(body.bucketId, 'bucketId'), name: requireName(body.sourceKey, 'sourceKey') };
  const bucket = requireBucketName(body.destinationBucket ?? body.bucketId, 'destinationBucket');
  return [from, { bucket, name: requireName(body.destinationKey, 'destinationKey') }] as const;
};

const folderList = (root: string, ofBucket: z.ZodObject<{ bucket: z.ZodString }>): Endpoint =>
  endpoint({
    ...common,
    method: 'post',
    path: `${root}/object/list/{bucket}`,
    params: ofBucket,
    summary: 'The folders and objects of one folder',
    body: z.strictObject({
      prefix: prefix.default(''),
      limit: z.int().min(1).max(maxListed).default(100),
      offset: z.int().min(0).max(10_000_000).default(0),
      search: prefix.nullish(),
      sortBy: z
        .strictObject({
          column: z.enum(['name', 'updated_at', 'created_at', 'last_accessed_at']).default('name'),
          order: order.default('asc'),
        })
        .optional(),
    }),
    response: z.array(entry),
    handle: async ({ params, body }, call) => {
      const { prefix: folder, limit, offset, search, sortBy } = body;
      const wanted = { bucket: params.bucket, prefix: folder, limit, offset, search: search ?? '' };
      const sort = { column: sortBy?.column ?? 'name', order: sortBy?.order ?? 'asc' } as const;
      return [...(await list(...as(call), { ...wanted, ...sort }))] as never;
    },
  });

const pageList = (root: string, ofBucket: z.ZodObject<{ bucket: z.ZodString }>): Endpoint =>
  endpoint({
    ...common,
    method: 'post',
    path: `${root}/object/list-v2/{bucket}`,
    params: ofBucket,
    summary: 'A page of the objects whose names begin with a prefix',
    body: z.strictObject({
      prefix: prefix.default(''),
      limit: z.int().min(1).max(maxListed).default(maxListed),
      cursor: z.string().max(8192).nullish(),
      with_delimiter: z.boolean().default(false).describe('Cut names at the next `/`: what is below is a folder.'),
      sortBy: z
        .strictObject({
          column: z.enum(['name', 'created_at', 'updated_at']).default('name'),
          order: order.default('asc'),
        })
        .optional(),
    }),
    response: z.object({
      hasNext: z.boolean(),
      nextCursor: z.string().optional(),
      folders: z.array(z.object({ name: z.string(), key: z.string() })),
      objects: z.array(entry.extend({ key: z.string() })),
    }),
    handle: async ({ params, body }, call) =>
      (await listPage(...as(call), {
        bucket: params.bucket,
        prefix: body.prefix,
        limit: body.limit,
        cursor: body.cursor ?? null,
        withDelimiter: body.with_delimiter,
        column: body.sortBy?.column ?? 'name',
        order: body.sortBy?.order ?? 'asc',
      })) as never,
  });

const transfers = (root: string, ofProject: { readonly params?: z.ZodType }): Endpoint[] => [
  endpoint({
    ...common,
    ...ofProject,
    method: 'post',
    path: `${root}/object/move`,
    summary: 'Give an object another name, or another bucket',
    body: transfer,
    response: z.object({ message: z.string() }),
    handle: async ({ body }, call) => {
      const [from, to] = placesOf(body);
      await move(...as(call), from, to);
      return { message: 'Successfully moved' };
    },
  }),
  endpoint({
    ...common,
    ...ofProject,
    method: 'post',
    path: `${root}/object/copy`,
    summary: 'Copy an object',
    body: transfer.extend({ copyMetadata: z.literal(true).optional(), upsert: z.boolean().optional() }),
    response: z.object({ Id: z.string(), Key: z.string() }),
    handle: async ({ body }, call) => {
      const [from, to] = placesOf(body);
      const made = await copy(...as(call), from, { ...to, mode: body.upsert === true ? 'upsert' : 'insert' });
      return { Id: made.id, Key: `${made.bucket}/${made.name}` };
    },
  }),
];

const removal = (root: string, ofBucket: z.ZodObject<{ bucket: z.ZodString }>): Endpoint =>
  endpoint({
    ...common,
    method: 'delete',
    path: `${root}/object/{bucket}`,
    params: ofBucket,
    summary: 'Delete several objects; the answer has those that are gone',
    body: z.strictObject({ prefixes: z.array(z.string()).max(maxNames) }),
    response: z.array(
      entry.extend({
        bucket_id: z.string(),
        owner: z.string().nullable(),
        owner_id: z.string().nullable(),
        version: z.string(),
      }),
    ),
    handle: async ({ params, body }, call) => {
      const names = body.prefixes.map((name, i) => requireName(name, `prefixes.${i}`));
      return (await remove(...as(call), requireBucketName(params.bucket, 'bucket'), names)).map(entryOf) as never;
    },
  });

const signatures = (root: string, ofBucket: z.ZodObject<{ bucket: z.ZodString }>): Endpoint[] => [
  endpoint({
    ...common,
    method: 'post',
    path: `${root}/object/sign/{bucket}`,
    params: ofBucket,
    summary: 'Signed addresses of several objects',
    body: z.strictObject({ expiresIn, paths: z.array(z.string()).max(maxNames) }),
    response: z.array(
      z.object({ error: z.string().nullable(), path: z.string().nullable(), signedURL: z.string().nullable() }),
    ),
    handle: async ({ params, body }, call) => {
      const bucket = requireBucketName(params.bucket, 'bucket');
      const names = body.paths.map((name, i) => requireName(name, `paths.${i}`));
      const visible = await visibleNames(...as(call), bucket, names);
      return names.map((name) => {
        if (!visible.has(name))
          return { error: 'There is no such object that you may read.', path: name, signedURL: null };
        const url = urlOf({ bucket, name });
        const token = signGrant(call.deps.storage, call.project, { use: 'read', url }, body.expiresIn);
        return { error: null, path: name, signedURL: signedPath('object/sign', url, token) };
      });
    },
  }),
  endpoint({
    ...common,
    method: 'post',
    path: `${root}/object/sign/{bucket}/{path}`,
    params: ofBucket.extend({ path: z.string() }),
    deep: 'decoded',
    summary: 'A signed address of an object, or of a picture of it',
    body: z.strictObject({ expiresIn, transform: transformSchema.optional() }),
    response: z.object({ signedURL: z.string() }),
    handle: async ({ params, body }, call) => {
      const place = placeOf(params);
      await requireObject(...as(call), place);
      const url = urlOf(place);
      const { transform } = body;
      const grant = { use: 'read', url, ...(transform && { transform }) } as const;
      const token = signGrant(call.deps.storage, call.project, grant, body.expiresIn);
      return { signedURL: signedPath(transform ? 'render/image/sign' : 'object/sign', url, token) };
    },
  }),
];

const endpointsAt = (root: string): Endpoint[] => {
  const hasRef = root.includes('{ref}');
  const ref = z.object({ ref: z.string() });
  const ofBucket = (hasRef ? ref.extend({ bucket: z.string() }) : z.object({ bucket: z.string() })) as z.ZodObject<{
    bucket: z.ZodString;
  }>;
  return [
    folderList(root, ofBucket),
    pageList(root, ofBucket),
    ...transfers(root, hasRef ? { params: ref } : {}),
    removal(root, ofBucket),
    ...signatures(root, ofBucket),
  ];
};

export const storageJsonEndpoints: readonly Endpoint[] = storageRoots.flatMap(endpointsAt);
