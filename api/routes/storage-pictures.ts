import { withKey, everyone } from '../access.ts';
import type { BaseCall } from '../call.ts';
import type { Endpoint, RawReply } from '../endpoint.ts';
import { type RawRequest, rawEndpoint } from '../raw-endpoint.ts';
import { openCall, placeOf, storageRoot, storageRoots } from '../storage/call.ts';
import { readable } from '../storage/readable.ts';
import { sendObject } from '../storage/send.ts';
import { requireObject, requirePublic } from '#domain/storage/objects.ts';
import { pictureOf } from '#domain/storage/renditions.ts';
import { checkGrant, urlOf } from '#domain/storage/signed-urls.ts';
import type { StorageCall } from '#domain/storage/storage.ts';
import type { StoredObject } from '#domain/storage/store.ts';

/** Pictures of objects, transformed as storage-js asks for them. */

const common = { area: 'storage', errors: 'storage', deep: 'decoded', mediaType: 'image/webp', method: 'get' } as const;
const open = { ...common, access: everyone, rate: 'files', anyOrigin: true } as const;

const queryOf = ({ queryText }: RawRequest): URLSearchParams => new URLSearchParams(queryText);

const sendPicture = async (
  request: RawRequest,
  call: BaseCall,
  { project }: Pick<StorageCall, 'project'>,
  { object, isPublic, options }: { object: StoredObject; isPublic: boolean; options: Record<string, unknown> },
): Promise<RawReply> => {
  const { deps, requestId } = call;
  const of = { projectId: project.id, requestId };
  const picture = await pictureOf({ bytes: deps.storage.bytes, jobs: deps.jobs }, of, object, options);
  return sendObject(request, call, { project }, { ...picture, isPublic });
};

export const storagePictureEndpoints: readonly Endpoint[] = [
  rawEndpoint({
    ...open,
    path: `${storageRoot}/render/image/public/{bucket}/{path}`,
    summary: 'A picture of an object of a public bucket: width, height, resize, quality, format',
    handle: async (request, call) => {
      const as = await openCall(call, request.params['ref']);
      const object = await requirePublic(call.deps.storage, as, placeOf(request.params));
      return sendPicture(request, call, as, { object, isPublic: true, options: Object.fromEntries(queryOf(request)) });
    },
  }),
  rawEndpoint({
    ...open,
    path: `${storageRoot}/render/image/sign/{bucket}/{path}`,
    summary: 'A picture of an object by a signed address, which holds the options',
    handle: async (request, call) => {
      const as = await openCall(call, request.params['ref']);
      const place = placeOf(request.params);
      const token = queryOf(request).get('token') ?? '';
      const grant = checkGrant(call.deps.storage, as.project, token, { use: 'read', url: urlOf(place) });
      const object = await requireObject(call.deps.storage, as, place);
      return sendPicture(request, call, as, { object, isPublic: false, options: { ...grant.transform } });
    },
  }),
  ...storageRoots.map((root) =>
    rawEndpoint({
      ...common,
      access: withKey('secret', 'publishable', 'user'),
      rate: 'data',
      path: `${root}/render/image/authenticated/{bucket}/{path}`,
      summary: 'A picture of an object that policies let the caller read',
      handle: async (request, call) =>
        sendPicture(request, call, call, {
          ...(await readable(call, placeOf(request.params))),
          options: Object.fromEntries(queryOf(request)),
        }),
    }),
  ),
];
