import { buffer } from 'node:stream/consumers';
import { z } from 'zod';
import { inProject } from '../access.ts';
import { memberCall } from '../auth/by-member.ts';
import type { BaseCall, ProjectCall } from '../call.ts';
import { type DirectWork, type Endpoint, RawReply, endpoint, jobEndpoint } from '../endpoint.ts';
import { id, instant, namedObject, page } from '../fields.ts';
import { jobFailure } from '../job-error.ts';
import { rawEndpoint } from '../raw-endpoint.ts';
import { placeOf, storageCall, storageRoot } from '../storage/call.ts';
import { readable } from '../storage/readable.ts';
import { beginTransfer } from '../storage/transfers.ts';
import { storageBucketEndpoints } from './storage-buckets.ts';
import { storageInfoEndpoints, storageObjectEndpoints } from './storage.ts';
import { storageJsonEndpoints } from './storage-objects.ts';
import { storagePictureEndpoints } from './storage-pictures.ts';
import { storageResumableEndpoints } from './storage-resumable.ts';
import { requireBucket } from '#domain/storage/buckets.ts';
import { noObject } from '#domain/storage/errors.ts';
import { planTransfer, transferJob } from '#domain/storage/folder-transfer.ts';
import { folderTotals } from '#domain/storage/folder-totals.ts';
import { keyOf, requireBucketName } from '#domain/storage/names.ts';
import { unfinishedUploads } from '#domain/storage/unfinished.ts';
import type { Role } from '#domain/teams/store.ts';
import { storageTransfer } from '#queues/storage-transfer.ts';

/*
 * Files for members of a project, by their role: the endpoints that take keys once more, under an address of the
 * management API (decision 093). The handlers are the same.
 */

const memberRoot = '/projects/{project_id}/storage/v1';

/** The least role for each call that members may make; what is not named here is for keys and signatures only. */
const roles: Readonly<Record<string, Role>> = {
  'get /bucket': 'viewer',
  'post /bucket': 'admin',
  'get /bucket/{bucket}': 'viewer',
  'put /bucket/{bucket}': 'admin',
  'post /bucket/{bucket}/empty': 'admin',
  'delete /bucket/{bucket}': 'admin',
  'get /object/info/authenticated/{bucket}/{path}': 'viewer',
  'get /object/info/{bucket}/{path}': 'viewer',
  'post /object/list/{bucket}': 'viewer',
  'post /object/list-v2/{bucket}': 'viewer',
  'post /object/move': 'developer',
  'post /object/copy': 'developer',
  'delete /object/{bucket}': 'developer',
  // A signed address opens a file to whoever has it.
  'post /object/sign/{bucket}': 'developer',
  'post /object/sign/{bucket}/{path}': 'developer',
  'post /upload/resumable': 'developer',
  'get /upload/resumable/{upload_id}': 'developer',
  'patch /upload/resumable/{upload_id}': 'developer',
  'post /upload/resumable/{upload_id}': 'developer',
  'delete /upload/resumable/{upload_id}': 'developer',
  'get /render/image/authenticated/{bucket}/{path}': 'viewer',
  'get /object/authenticated/{bucket}/{path}': 'viewer',
  'get /object/{bucket}/{path}': 'viewer',
  'post /object/{bucket}/{path}': 'developer',
  'put /object/{bucket}/{path}': 'developer',
  'delete /object/{bucket}/{path}': 'developer',
};

type Calls = BaseCall & ProjectCall;

const directForMembers = (work: DirectWork): DirectWork => ({
  ...work,
  handle: async (input, call) => work.handle(input, await memberCall(call as Calls)),
});

const workForMembers = (work: Endpoint['work']): Endpoint['work'] => {
  if (work.kind === 'direct') return directForMembers(work);
  if (work.kind === 'job') throw new Error('no call to files is a job');
  return { kind: 'raw', handle: async (request, call) => work.handle(request, await memberCall(call as Calls)) };
};

const paramsForMembers = (params: z.ZodType | undefined): z.ZodType => {
  const { ref: _ref, ...others } = (params as z.ZodObject).shape;
  return z.object({ project_id: z.string(), ...others });
};

/** The endpoint under the address for members; none where they have no call of it. */
const forMembers = (of: Endpoint): readonly Endpoint[] => {
  const [, at] = of.path.split(storageRoot);
  const role = roles[`${of.method} ${at}`];
  if (of.access.kind !== 'key' || at === undefined || role === undefined) return [];
  return [
    {
      ...of,
      path: `${memberRoot}${at}`,
      access: inProject(role),
      // By user, but with room for many files: the rate of management calls is one for people who click.
      rate: 'data',
      anyOrigin: false,
      params: paramsForMembers(of.params),
      work: workForMembers(of.work),
    },
  ];
};

const previewBytes = 256 * 1024;

/** A stored page is shown as its text, in a frame that is an origin of its own: nothing of it runs. */
const previewHeaders = {
  'X-Content-Type-Options': 'nosniff',
  'Content-Security-Policy': "default-src 'none'; sandbox; frame-ancestors 'self'",
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Referrer-Policy': 'no-referrer',
};

const common = { area: 'storage', errors: 'storage', access: inProject('viewer'), rate: 'data' } as const;

const uploadsRoot = `${memberRoot}/uploads`;

const unfinishedUpload = namedObject('UnfinishedUpload', {
  id,
  bucket: z.string(),
  name: z.string(),
  size: z.number().describe('Bytes, as announced.'),
  created_by: z
    .object({ kind: z.enum(['user', 'end_user', 'key']), id: z.string() })
    .nullable()
    .describe(
      'A member, a user of the application, or an API key without one. Null: it began before this was recorded.',
    ),
  created_at: instant,
  expires_at: instant,
});

/** Only who began a resumable upload may go on with it; owners see all that lie there, and end them. */
const ofOwners: readonly Endpoint[] = [
  endpoint({
    ...common,
    access: inProject('owner'),
    method: 'get',
    path: uploadsRoot,
    params: z.object({ project_id: id }),
    summary: 'The resumable uploads that have not ended, newest first',
    query: page,
    response: z.object({ uploads: z.array(unfinishedUpload), total: z.int() }),
    handle: async ({ query }, { db, project }) => {
      const { uploads, total } = await unfinishedUploads(db, project.id, query);
      return { uploads: uploads.map(({ creator, ...upload }) => ({ ...upload, created_by: creator })), total };
    },
  }),
  endpoint({
    ...common,
    access: inProject('owner'),
    method: 'delete',
    path: `${uploadsRoot}/{upload_id}`,
    params: z.object({ project_id: id, upload_id: id }),
    summary: 'End a resumable upload, whoever began it',
    transaction: 'none',
    handle: ({ params }, { deps, project }) => deps.resumable.cancel(project.id, params.upload_id),
  }),
];

/** Endpoints that only pages need. */
const ofPages: readonly Endpoint[] = [
  endpoint({
    ...common,
    method: 'get',
    path: `${memberRoot}/folder/{bucket}`,
    params: z.object({ project_id: z.string(), bucket: z.string() }),
    summary: 'How many folders, files and bytes a folder has',
    query: z.object({ prefix: z.string().max(1024).default(''), search: z.string().max(1024).default('') }),
    response: z.object({
      folders: z.int(),
      files: z.int(),
      all_files: z.int().describe('In the folders below, too.'),
      all_bytes: z.number(),
      is_exact: z.boolean().describe('False: there are more than were counted.'),
    }),
    handle: async ({ params: { bucket }, query }, call) => {
      const member = await memberCall(call);
      const as = [call.deps.storage, storageCall(member)] as const;
      await requireBucket(...as, bucket);
      return folderTotals(...as, { bucket, ...query });
    },
  }),
  rawEndpoint({
    ...common,
    method: 'get',
    deep: 'decoded',
    path: `${memberRoot}/preview/{bucket}/{path}`,
    summary: 'The beginning of a file as plain text, for a frame in which nothing runs',
    mediaType: 'text/plain',
    handle: async ({ params, context }, call) => {
      const member = await memberCall(call);
      const { object } = await readable(member, placeOf(params));
      beginTransfer(context, call, call.project);
      const range = { start: 0, end: Math.min(object.size, previewBytes) - 1 };
      const bytes =
        object.size === 0
          ? null
          : await call.deps.storage.bytes.read(keyOf(call.project.id, object.version), { range, signal: call.signal });
      if (bytes === null && object.size > 0) throw noObject();
      for (const [name, value] of Object.entries(previewHeaders)) call.setHeader(name, value);
      return new RawReply(bytes === null ? '' : await buffer(bytes), 'text/plain; charset=utf-8');
    },
  }),
];

const folderName = z.string().max(1024);

const twoFolders = z.strictObject({
  bucket: z.string(),
  folder: folderName.describe('Without a slash at its end; empty: all that the bucket has.'),
  to_bucket: z.string().optional().describe('Left out: the same.'),
  to_folder: folderName.describe('What the folder is called then: its files lie directly in it.'),
});

const placesOf = ({ bucket, folder, to_bucket: toBucket, to_folder: toFolder }: z.output<typeof twoFolders>) => ({
  from: { bucket: requireBucketName(bucket, 'bucket'), name: folder.replace(/\/$/, '') },
  to: { bucket: requireBucketName(toBucket ?? bucket, 'to_bucket'), name: toFolder.replace(/\/$/, '') },
});

const onFolders = {
  ...common,
  access: inProject('developer'),
  method: 'post',
  params: z.object({ project_id: z.string() }),
} as const;

const transferOf = (op: 'move' | 'copy'): Endpoint =>
  jobEndpoint({
    ...onFolders,
    path: `${memberRoot}/folder/${op}`,
    summary: `${op === 'move' ? 'Move or rename' : 'Copy'} a folder with all its files, as a job`,
    body: twoFolders.extend({
      on_collision: z
        .enum(['fail', 'skip', 'replace'])
        .default('fail')
        .describe('What happens to files whose new name is taken. fail: nothing begins.'),
    }),
    response: storageTransfer.result,
    request: async ({ body }, call) => {
      const member = await memberCall(call);
      const wanted = { op, ...placesOf(body), on_collision: body.on_collision };
      return {
        job: storageTransfer,
        projectId: call.project.id,
        requestId: call.requestId,
        data: await transferJob(call.deps.storage, storageCall(member), wanted),
      };
    },
    answer: ({ outcome: { result, error } }) => {
      if (result !== null) return Promise.resolve(storageTransfer.result.parse(JSON.parse(result)));
      return Promise.reject(jobFailure(error));
    },
  });

/** Folders as a whole. */
const folderEndpoints: readonly Endpoint[] = [
  endpoint({
    ...onFolders,
    path: `${memberRoot}/folder/check`,
    summary: 'What a move or a copy of a folder would do, and which names are taken; nothing is changed',
    transaction: 'none',
    body: twoFolders,
    response: z.object({
      files: z.int(),
      bytes: z.number(),
      collisions: z.int().describe('Files whose new name is taken.'),
      names: z.array(z.string()).max(10).describe('The first of them.'),
    }),
    handle: async ({ body }, call) => {
      const member = await memberCall(call);
      const plan = await planTransfer(call.deps.storage, storageCall(member), { op: 'copy', ...placesOf(body) });
      return { ...plan, names: [...plan.names] };
    },
  }),
  transferOf('move'),
  transferOf('copy'),
];

/** Their order matters: what is more special comes first. */
export const storageMemberEndpoints: readonly Endpoint[] = [
  ...storageBucketEndpoints.flatMap(forMembers),
  ...ofPages,
  ...ofOwners,
  ...folderEndpoints,
  ...storageInfoEndpoints.flatMap(forMembers),
  ...storageJsonEndpoints.flatMap(forMembers),
  ...storageResumableEndpoints.flatMap(forMembers),
  ...storagePictureEndpoints.flatMap(forMembers),
  ...storageObjectEndpoints.flatMap(forMembers),
];
