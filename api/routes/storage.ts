import { withKey, everyone } from '../access.ts';
import type { BaseCall, DataCall } from '../call.ts';
import { type Endpoint, type Method, RawReply } from '../endpoint.ts';
import { type RawRequest, rawEndpoint } from '../raw-endpoint.ts';
import { openCall, placeOf, signedPath, storageCall, storageRoot, storageRoots } from '../storage/call.ts';
import { receiveFile, uploadAnswer } from '../storage/receive.ts';
import { readable } from '../storage/readable.ts';
import { sendObject } from '../storage/send.ts';
import { noObject } from '#domain/storage/errors.ts';
import { remove, requireObject, requirePublic } from '#domain/storage/objects.ts';
import { checkGrant, signGrant, urlOf } from '#domain/storage/signed-urls.ts';
import { asPlatform, ownerOf } from '#domain/storage/storage.ts';
import type { StoredObject } from '#domain/storage/store.ts';
import { type UploadMode, requireUpload } from '#domain/storage/upload.ts';

/** Objects themselves: their bytes in and out, as storage-js sends and asks for them (contract, section 11). */

type Calls = BaseCall & DataCall;

const common = { area: 'storage', errors: 'storage', deep: 'decoded' } as const;
const byKey = { ...common, access: withKey('secret', 'publishable', 'user'), rate: 'data' } as const;
const open = { ...common, access: everyone, rate: 'files', anyOrigin: true } as const;
const bytesType = 'application/octet-stream';

const json = (value: unknown, status = 200): RawReply => new RawReply(JSON.stringify(value), undefined, status);

const infoOf = (object: StoredObject): RawReply =>
  json({
    id: object.id,
    name: object.name,
    version: object.version,
    bucket_id: object.bucket_id,
    size: object.size,
    content_type: object.mime_type,
    cache_control: object.cache_control,
    etag: `"${object.etag}"`,
    metadata: object.user_metadata,
    last_modified: object.updated_at,
    created_at: object.created_at,
    updated_at: object.updated_at,
    last_accessed_at: object.created_at,
  });

const uploadMode = (request: RawRequest): UploadMode =>
  request.header('x-upsert').toLowerCase() === 'true' ? 'upsert' : 'insert';

const uploading =
  (modeOf: (request: RawRequest) => UploadMode) =>
  async (request: RawRequest, call: Calls): Promise<RawReply> => {
    const order = { place: placeOf(request.params), mode: modeOf(request) };
    return uploadAnswer(
      await receiveFile(request, { call, project: call.project }, (signal) => storageCall(call, signal), order),
    );
  };

const downloads = (root: string): Endpoint[] =>
  (['authenticated/', ''] as const).flatMap((part) => [
    rawEndpoint({
      ...byKey,
      method: 'get',
      path: `${root}/object/info/${part}{bucket}/{path}`,
      summary: 'What is known of an object',
      handle: async (request, call) => infoOf((await readable(call, placeOf(request.params))).object),
    }),
  ]);

/** These come after all others below `object/`: a bucket could be meant by their next word. */
const plain = (root: string): Endpoint[] => [
  ...(['authenticated/', ''] as const).map((part) =>
    rawEndpoint({
      ...byKey,
      method: 'get',
      path: `${root}/object/${part}{bucket}/{path}`,
      summary: 'Download an object that policies let the caller read',
      mediaType: bytesType,
      handle: async (request, call) => sendObject(request, call, call, await readable(call, placeOf(request.params))),
    }),
  ),
  ...(
    [
      ['post', 'Upload an object; with x-upsert: true in place of one of its name', uploadMode],
      ['put', 'Replace an object', () => 'update' as const],
    ] as const satisfies readonly (readonly [Method, string, (request: RawRequest) => UploadMode])[]
  ).map(([method, summary, modeOf]) =>
    rawEndpoint({
      ...byKey,
      method,
      path: `${root}/object/{bucket}/{path}`,
      summary,
      handle: uploading(modeOf),
    }),
  ),
  rawEndpoint({
    ...byKey,
    method: 'delete',
    path: `${root}/object/{bucket}/{path}`,
    summary: 'Delete an object',
    handle: async (request, call) => {
      const { bucket, name } = placeOf(request.params);
      const gone = await remove(call.deps.storage, storageCall(call), bucket, [name]);
      if (gone.length === 0) throw noObject();
      return json({ message: 'Successfully deleted' });
    },
  }),
];

const uploadExpiresS = 2 * 3600;

const uploadSigning = (root: string): Endpoint =>
  rawEndpoint({
    ...byKey,
    method: 'post',
    path: `${root}/object/upload/sign/{bucket}/{path}`,
    summary: 'A signed address to upload an object, for two hours',
    handle: async (request, call) => {
      const place = placeOf(request.params);
      const mode = uploadMode(request);
      const unknown = { mimeType: bytesType, cacheControl: 'no-cache', userMetadata: {}, declaredSize: 0 };
      await requireUpload(call.deps.storage, storageCall(call), { ...place, ...unknown, mode });
      const url = urlOf(place);
      const grant = { use: 'upload', url, upsert: mode === 'upsert', ...ownerOf(call) } as const;
      const token = signGrant(call.deps.storage, call.project, grant, uploadExpiresS);
      return json({ url: signedPath('object/upload/sign', url, token), token });
    },
  });

const publicEndpoints: readonly Endpoint[] = [
  rawEndpoint({
    ...open,
    method: 'get',
    path: `${storageRoot}/object/info/public/{bucket}/{path}`,
    summary: 'What is known of an object of a public bucket',
    handle: async (request, call) => {
      const as = await openCall(call, request.params['ref']);
      return infoOf(await requirePublic(call.deps.storage, as, placeOf(request.params)));
    },
  }),
  rawEndpoint({
    ...open,
    method: 'get',
    path: `${storageRoot}/object/public/{bucket}/{path}`,
    summary: 'Download an object of a public bucket',
    mediaType: bytesType,
    handle: async (request, call) => {
      const as = await openCall(call, request.params['ref']);
      const object = await requirePublic(call.deps.storage, as, placeOf(request.params));
      return sendObject(request, call, as, { object, isPublic: true });
    },
  }),
  rawEndpoint({
    ...open,
    method: 'get',
    path: `${storageRoot}/object/sign/{bucket}/{path}`,
    summary: 'Download an object by a signed address',
    mediaType: bytesType,
    handle: async (request, call) => {
      const as = await openCall(call, request.params['ref']);
      const place = placeOf(request.params);
      const token = new URLSearchParams(request.queryText).get('token') ?? '';
      const grant = checkGrant(call.deps.storage, as.project, token, { use: 'read', url: urlOf(place) });
      // One that was signed for a picture of an object allows that picture alone.
      if (grant.transform !== undefined) throw noObject();
      const object = await requireObject(call.deps.storage, as, place);
      return sendObject(request, call, as, { object, isPublic: false });
    },
  }),
  rawEndpoint({
    ...open,
    method: 'put',
    path: `${storageRoot}/object/upload/sign/{bucket}/{path}`,
    summary: 'Upload an object by a signed address',
    handle: async (request, call) => {
      const place = placeOf(request.params);
      const { project } = await openCall(call, request.params['ref']);
      const token = new URLSearchParams(request.queryText).get('token') ?? '';
      const grant = checkGrant(call.deps.storage, project, token, { use: 'upload', url: urlOf(place) });
      const order = {
        place,
        mode: grant.upsert ? ('upsert' as const) : ('insert' as const),
        owner: { owner: grant.owner, owner_id: grant.owner_id },
      };
      return uploadAnswer(
        await receiveFile(request, { call, project }, (signal) => asPlatform({ project, signal }), order),
      );
    },
  }),
];

/** Their order matters: what is more special comes first. */
export const storageInfoEndpoints: readonly Endpoint[] = [
  ...publicEndpoints,
  ...storageRoots.flatMap((root) => [...downloads(root), uploadSigning(root)]),
];
export const storageObjectEndpoints: readonly Endpoint[] = storageRoots.flatMap(plain);
