import { everyone, withKey } from '../access.ts';
import type { BaseCall, DataCall } from '../call.ts';
import { type Endpoint, type Method, RawReply } from '../endpoint.ts';
import { inviteBody } from '../http/body-rules.ts';
import { restUrl } from '../http/rest-url.ts';
import { type RawRequest, rawEndpoint } from '../raw-endpoint.ts';
import { watchUpload } from '../storage/arrival.ts';
import { openCall, storageCall, storageRoot } from '../storage/call.ts';
import { beginTransfer } from '../storage/transfers.ts';
import { ownerOf } from '#domain/storage/storage.ts';
import type { Creator } from '#domain/storage/unfinished.ts';

/** Resumable uploads: tus 1.0, which tus-js-client and Uppy speak. */

const collection = `${storageRoot}/upload/resumable`;

/** Where uploads lie for this caller: `Location` is an address below it. */
const collectionOf = (call: BaseCall & DataCall): string =>
  call.byMember === true
    ? `${call.baseUrl}/projects/${call.project.id}/storage/v1/upload/resumable`
    : `${restUrl(call.project.ref, call)}/storage/v1/upload/resumable`;

const creatorOf = ({ byMember, actor, key, ...call }: BaseCall & DataCall): Creator => {
  if (byMember === true) return { kind: 'user', id: actor.id ?? '' };
  const { owner } = ownerOf(call);
  return owner === null ? { kind: 'key', id: key?.id ?? '' } : { kind: 'end_user', id: owner };
};

/** The library reads the request and writes the answer. What has come of a slow body is kept. */
const answerTus = async (request: RawRequest, call: BaseCall & DataCall): Promise<RawReply> => {
  const { context } = request;
  const { req, res } = context;
  beginTransfer(context, call, call.project);
  const arrival = watchUpload(req, call.deps.config);
  arrival.signal.addEventListener('abort', () => req.destroy(), { once: true });
  // The library may never come to an end with a request whose client is gone.
  res.once('close', arrival.stop);
  // The default for answers to a caller; the library sets its own for what it serves.
  res.setHeader('Cache-Control', 'no-store');
  context.respond = false;
  const mode = request.header('x-upsert').toLowerCase() === 'true' ? 'upsert' : 'insert';
  try {
    const caller = { ...storageCall(call, call.signal), creator: creatorOf(call), mode } as const;
    await call.deps.resumable.handle(req, res, { caller, url: collectionOf(call), invite: () => inviteBody(context) });
  } finally {
    arrival.stop();
  }
  return new RawReply(null, '', res.statusCode);
};

/** Begins nothing. */
const nobody: Creator = { kind: 'key', id: '' };

/** Says what the server can do. Clients ask before they have an upload, and need no key. */
const answerOptions = async ({ context, params }: RawRequest, call: BaseCall): Promise<RawReply> => {
  const caller = { ...(await openCall(call, params['ref'])), creator: nobody, mode: 'insert' } as const;
  context.respond = false;
  await call.deps.resumable.handle(context.req, context.res, { caller, url: '' });
  return new RawReply(null, '', context.res.statusCode);
};

const common = {
  area: 'storage',
  access: withKey('secret', 'publishable', 'user'),
  rate: 'data',
  errors: 'storage',
} as const;

const ofOne: readonly (readonly [Method, string])[] = [
  ['get', 'How much of a resumable upload has arrived (HEAD)'],
  ['patch', 'Go on with a resumable upload'],
  ['post', 'The same for clients that cannot send PATCH (X-HTTP-Method-Override)'],
  ['delete', 'End a resumable upload'],
];

export const storageResumableEndpoints: readonly Endpoint[] = [
  rawEndpoint({
    ...common,
    method: 'post',
    path: collection,
    summary: 'Begin a resumable upload (tus)',
    handle: answerTus,
  }),
  ...[collection, `${collection}/{upload_id}`].map((path) =>
    rawEndpoint({
      ...common,
      access: everyone,
      rate: 'files',
      anyOrigin: true,
      method: 'options',
      path,
      summary: 'What this server can do of tus: version, extensions, checksums and the largest file',
      handle: answerOptions,
    }),
  ),
  ...ofOne.map(([method, summary]) =>
    rawEndpoint({ ...common, method, path: `${collection}/{upload_id}`, summary, handle: answerTus }),
  ),
];
