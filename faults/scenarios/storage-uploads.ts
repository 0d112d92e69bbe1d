import { randomBytes } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { type Site, sha256 } from './storage-site.ts';

export const uploaders = 6;
const refusedMs = 100;

export interface Uploads {
  /** By name: the contents that may be there, the last acknowledged one and those that nobody heard of since. */
  readonly possible: Map<string, Set<string>>;
  /** There may be nothing under all other names. */
  readonly acknowledged: Set<string>;
  well: number;
}

interface Target {
  readonly bucket: string;
  readonly name: string;
}

/** Sends a content until it is acknowledged or has failed; answers which of them. */
export type Send = (site: Site, target: Target, bytes: Buffer) => Promise<boolean>;

const answered = async (url: string, init: RequestInit): Promise<Response | null> => {
  const answer = await fetch(url, init).catch(() => null);
  await answer?.text().catch(() => undefined);
  return answer;
};

const upsert = { 'x-upsert': 'true' };

/** One request, which a kill of its process ends. */
export const sendPlain: Send = async ({ url, project: { key } }, { bucket, name }, bytes) => {
  const answer = await answered(`${url()}/storage/v1/object/${bucket}/${name}`, {
    method: 'POST',
    headers: { apikey: key, ...upsert, 'content-type': 'application/octet-stream' },
    body: new Uint8Array(bytes),
  });
  return answer?.status === 200;
};

const chunkBytes = 300_000;

const pathOf = (address: string | null | undefined): string => new URL(address ?? '/', 'http://none').pathname;

const offsetIn = (answer: Response | null): number | null =>
  answer?.ok === true ? Number(answer.headers.get('upload-offset')) : null;

/** Goes on at whichever process answers, however often one of them is killed; the offset is that of the server. */
const goOn = async ({ url, project: { key } }: Site, at: string, bytes: Buffer): Promise<void> => {
  const tus = { apikey: key, 'tus-resumable': '1.0.0' };
  let offset: number | null = 0;
  while (offset !== bytes.length) {
    if (offset === null) {
      offset = offsetIn(await answered(url() + at, { method: 'HEAD', headers: tus }));
      if (offset === null) await pause(refusedMs);
      continue;
    }
    const headers = { ...tus, 'content-type': 'application/offset+octet-stream', 'upload-offset': String(offset) };
    const body = new Uint8Array(bytes.subarray(offset, offset + chunkBytes));
    offset = offsetIn(await answered(url() + at, { method: 'PATCH', headers, body }));
  }
};

/** A resumable upload in pieces, each to one of the processes. */
export const sendTus: Send = async (site, { bucket, name }, bytes) => {
  const { url, project } = site;
  const metadata = Object.entries({ bucketName: bucket, objectName: name });
  const started = await answered(`${url()}/p/${project.ref}/storage/v1/upload/resumable`, {
    method: 'POST',
    headers: {
      apikey: project.key,
      ...upsert,
      'tus-resumable': '1.0.0',
      'upload-length': String(bytes.length),
      'upload-metadata': metadata.map(([field, value]) => `${field} ${btoa(value)}`).join(','),
    },
  });
  if (started?.status !== 201) return false;
  await goOn(site, pathOf(started.headers.get('location')), bytes);
  return true;
};

interface Plan {
  readonly send: Send;
  readonly bucket: string;
  readonly maxBytes: number;
}

/** Puts one content after the other under a name of its own, and notes which may be there. */
const uploadOn = async (
  site: Site,
  { send, maxBytes, ...at }: Plan & Target,
  isOver: () => boolean,
  uploads: Uploads,
) => {
  const possible = new Set<string>();
  uploads.possible.set(at.name, possible);
  while (!isOver()) {
    const bytes = randomBytes(100_000 + Math.floor(Math.random() * maxBytes));
    const before = [...possible];
    possible.add(sha256(bytes));
    if (await send(site, at, bytes)) {
      uploads.well += 1;
      uploads.acknowledged.add(at.name);
      for (const old of before) possible.delete(old);
    } else await pause(refusedMs);
  }
};

export const startUploads = (site: Site, plan: Plan) => {
  const uploads: Uploads = { possible: new Map(), acknowledged: new Set(), well: 0 };
  let over = false;
  const running = Promise.all(
    Array.from({ length: uploaders }, (_, n) => uploadOn(site, { ...plan, name: `file-${n}` }, () => over, uploads)),
  );
  return {
    stop: async (): Promise<Uploads> => {
      over = true;
      await running;
      return uploads;
    },
  };
};
