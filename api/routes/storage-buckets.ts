import { z } from 'zod';
import { withKey } from '../access.ts';
import type { BaseCall, DataCall } from '../call.ts';
import { type Endpoint, endpoint } from '../endpoint.ts';
import { storageCall, storageRoots } from '../storage/call.ts';
import {
  type BucketSettings,
  changeBucket,
  createBucket,
  emptyBucket,
  removeBucket,
  requireBucket,
} from '#domain/storage/buckets.ts';
import { requireBucketName } from '#domain/storage/names.ts';
import { listBuckets } from '#domain/storage/store.ts';
import { namedObject } from '#api/fields.ts';

/** Buckets, as storage-js makes, reads and changes them. */

const units: Readonly<Record<string, number>> = {
  '': 1,
  b: 1,
  kb: 1000,
  mb: 1e6,
  gb: 1e9,
  tb: 1e12,
  kib: 1024,
  mib: 1024 ** 2,
  gib: 1024 ** 3,
  tib: 1024 ** 4,
};

const sizeText = /^(\d{1,15}) *([kmgt]?i?b)?$/i;

const bytesOf = (text: string): number => {
  const [, digits = '', unit = ''] = sizeText.exec(text) ?? [];
  return Number(digits) * (units[unit.toLowerCase()] ?? Number.NaN);
};

const size = z
  .union([
    z.int().min(0),
    z
      .string()
      .refine((text) => sizeText.test(text) && Number.isSafeInteger(bytesOf(text)), { error: 'is no size such as 5MB' })
      .transform(bytesOf),
  ])
  .describe('Bytes, or a size such as `5MB` or `5MiB`.');

const mimeType = z
  .string()
  .max(255)
  .regex(/^[\w.+*-]+\/[\w.+*-]+$/, { error: 'is no media type' })
  .transform((type) => type.toLowerCase());

const settings = {
  public: z.boolean().nullish().describe('Everybody may read its objects.'),
  file_size_limit: size.nullish(),
  allowed_mime_types: z.array(mimeType).max(100).nullish().describe('Such as `image/png` or `image/*`.'),
};

const done = z.object({ message: z.string() });

const bucket = namedObject('Bucket', {
  id: z.string(),
  name: z.string(),
  owner: z.string().nullable(),
  public: z.boolean(),
  file_size_limit: z.int().nullable(),
  allowed_mime_types: z.array(z.string()).nullable(),
  created_at: z.string(),
  updated_at: z.string(),
});

const common = {
  area: 'storage',
  access: withKey('secret', 'publishable', 'user'),
  rate: 'data',
  errors: 'storage',
} as const;

type Given = { readonly [Name in keyof BucketSettings]?: BucketSettings[Name] | null | undefined };

const changeOf = ({ public: isPublic, file_size_limit, allowed_mime_types }: Given): Partial<BucketSettings> => ({
  ...(typeof isPublic === 'boolean' && { public: isPublic }),
  ...(file_size_limit !== undefined && { file_size_limit }),
  ...(allowed_mime_types !== undefined && { allowed_mime_types }),
});

const as = (call: BaseCall & DataCall) => [call.deps.storage, storageCall(call)] as const;

const inRef = z.object({ ref: z.string() });

interface Paths {
  readonly root: string;
  readonly ofProject: { readonly params?: z.ZodType };
  readonly ofBucket: z.ZodObject<{ bucket: z.ZodString }>;
}

const ofProjectEndpoints = ({ root, ofProject }: Paths): Endpoint[] => [
  endpoint({
    ...common,
    ...ofProject,
    method: 'post',
    path: `${root}/bucket`,
    summary: 'Create a bucket',
    transaction: 'none',
    body: z.strictObject({
      id: z.string().optional(),
      name: z.string(),
      type: z.literal('STANDARD').optional(),
      ...settings,
    }),
    response: z.object({ name: z.string() }),
    handle: async ({ body }, call) => {
      const name = requireBucketName(body.id ?? body.name, body.id === undefined ? 'name' : 'id');
      const wanted = { public: false, file_size_limit: null, allowed_mime_types: null, ...changeOf(body) };
      await createBucket(...as(call), name, wanted);
      return { name };
    },
  }),
  endpoint({
    ...common,
    ...ofProject,
    method: 'get',
    path: `${root}/bucket`,
    summary: 'The buckets that the caller may see',
    query: z.object({
      limit: z.coerce.number().int().min(1).max(1000).default(1000),
      offset: z.coerce.number().int().min(0).max(1_000_000).default(0),
      search: z.string().max(100).default(''),
      sortColumn: z.enum(['id', 'name', 'created_at', 'updated_at']).default('name'),
      sortOrder: z.enum(['asc', 'desc']).default('asc'),
    }),
    response: z.array(bucket),
    handle: async ({ query }, call) => {
      const { limit, offset, search, sortColumn: column, sortOrder: order } = query;
      return [...(await listBuckets(...as(call), { limit, offset, search, column, order }))] as never;
    },
  }),
];

const ofBucketEndpoints = ({ root, ofBucket }: Paths): Endpoint[] => [
  endpoint({
    ...common,
    method: 'get',
    path: `${root}/bucket/{bucket}`,
    params: ofBucket,
    summary: 'One bucket',
    response: bucket,
    handle: async ({ params: { bucket: id } }, call) => (await requireBucket(...as(call), id)) as never,
  }),
  endpoint({
    ...common,
    method: 'put',
    path: `${root}/bucket/{bucket}`,
    params: ofBucket,
    summary: 'Change who may read a bucket, and its limits',
    transaction: 'none',
    body: z.strictObject({ id: z.string().optional(), name: z.string().optional(), ...settings }),
    response: done,
    handle: async ({ params: { bucket: id }, body }, call) => {
      await changeBucket(...as(call), id, changeOf(body));
      return { message: 'Successfully updated' };
    },
  }),
  endpoint({
    ...common,
    method: 'post',
    path: `${root}/bucket/{bucket}/empty`,
    params: ofBucket,
    summary: 'Delete all objects of a bucket that the caller may delete',
    transaction: 'none',
    response: done,
    handle: async ({ params: { bucket: id } }, call) => {
      await emptyBucket(...as(call), id);
      return { message: 'Successfully emptied' };
    },
  }),
  endpoint({
    ...common,
    method: 'delete',
    path: `${root}/bucket/{bucket}`,
    params: ofBucket,
    status: 200,
    summary: 'Delete an empty bucket',
    transaction: 'none',
    response: done,
    handle: async ({ params: { bucket: id } }, call) => {
      await removeBucket(...as(call), id);
      return { message: 'Successfully deleted' };
    },
  }),
];

const endpointsAt = (root: string): Endpoint[] => {
  const ofBucket = z.object({ bucket: z.string() });
  const paths = root.includes('{ref}')
    ? { root, ofProject: { params: inRef }, ofBucket: inRef.extend(ofBucket.shape) }
    : { root, ofProject: {}, ofBucket };
  return [...ofProjectEndpoints(paths), ...ofBucketEndpoints(paths)];
};

export const storageBucketEndpoints: readonly Endpoint[] = storageRoots.flatMap(endpointsAt);
