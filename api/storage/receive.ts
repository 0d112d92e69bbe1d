import type { BaseCall } from '#api/call.ts';
import { RawReply } from '#api/endpoint.ts';
import { inviteBody } from '#api/http/body-rules.ts';
import type { RawRequest } from '#api/raw-endpoint.ts';
import { CallerGone } from '#domain/data-api/errors.ts';
import type { Project } from '#domain/projects/store.ts';
import { storageLimits } from '#domain/storage/limits.ts';
import type { Place } from '#domain/storage/objects.ts';
import type { StorageCall } from '#domain/storage/storage.ts';
import type { Owner } from '#domain/storage/tickets.ts';
import { type UploadMode, type Uploaded, upload } from '#domain/storage/upload.ts';
import { watchUpload } from './arrival.ts';
import { incomingFile, requireFits } from './incoming.ts';
import { beginTransfer } from './transfers.ts';

export interface UploadOrder {
  readonly place: Place;
  readonly mode: UploadMode;
  /** Left out: the caller. */
  readonly owner?: Owner;
}

interface Receiving {
  readonly call: BaseCall;
  readonly project: Project;
}

/**
 * Takes the file of a request. The rest of a body that was refused is read and dropped, for a moment (api/listen.ts): a
 * client whose connection is closed while it sends may see a reset in place of the answer.
 */
export const receiveFile = async (
  request: RawRequest,
  { call, project }: Receiving,
  callFor: (signal: AbortSignal) => StorageCall,
  { place, ...order }: UploadOrder,
): Promise<Uploaded> => {
  const { deps } = call;
  const { context } = request;
  const arrival = watchUpload(context.req, deps.config);
  try {
    beginTransfer(context, call, project);
    requireFits(context.req, { bytes: storageLimits(deps.config, project.plan).file, setBy: 'the plan' });
    const as = callFor(AbortSignal.any([call.signal, arrival.signal]));
    const isForm = request.header('content-type').startsWith('multipart/');
    if (isForm) inviteBody(context);
    const { body, ...file } = await incomingFile(context.req);
    return await upload(deps.storage, as, { ...place, ...order, ...file }, () => {
      if (!isForm) inviteBody(context);
      return body;
    });
  } catch (error) {
    context.req.unpipe();
    context.req.resume();
    if (call.disconnection.aborted) throw new CallerGone('the caller has gone');
    throw error;
  } finally {
    arrival.stop();
  }
};

export const uploadAnswer = ({ id, bucket, name }: Uploaded): RawReply =>
  new RawReply(JSON.stringify({ Id: id, Key: `${bucket}/${name}` }));
