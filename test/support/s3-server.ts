/**
 * A small S3 server for tests, in memory: objects with ranges and metadata, copies, multipart uploads, list v2, deletes.
 * Signatures (SigV4) and the SHA-256 of bodies are checked as Amazon does. It fails as it is told by `fault`.
 */
import { createHash, createHmac, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { type IncomingMessage, type ServerResponse, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import type { ExecutionContext } from 'ava';

const bucket = 'files';
const accessKeyId = 'test-key';
const secretAccessKey = 'test-secret';
const region = 'eu-test-1';
const minPartBytes = 5 * 2 ** 20;

interface Stored {
  readonly bytes: Buffer;
  readonly modified: Date;
  readonly metadata: Readonly<Record<string, string>>;
}

interface Upload {
  readonly key: string;
  readonly initiated: Date;
  readonly metadata: Readonly<Record<string, string>>;
  readonly parts: Map<number, Stored>;
}

/** `lost answer` does what was requested, and closes the connection; `lost part` drops the first part without a word. */
type Fault = 500 | 503 | 507 | 'hang' | 'lost answer' | 'lost part' | 'cut body';

export interface S3Server {
  readonly settings: {
    endpoint: string;
    bucket: string;
    region: string;
    accessKeyId: string;
    secretAccessKey: string;
    forcePathStyle: true;
  };
  /** The next requests whose `METHOD url` fits fail, as many as `times`; in place of what was said for that pattern. */
  readonly fault: (pattern: RegExp, fault: Fault, times?: number) => void;
  /** `METHOD url` of all requests so far. */
  readonly requests: readonly string[];
  readonly objects: Map<string, Stored>;
  readonly uploads: Map<string, Upload>;
}

class S3Error extends Error {
  readonly status: number;
  readonly code: string;
  constructor(status: number, code: string) {
    super(code);
    this.status = status;
    this.code = code;
  }
}

const md5 = (bytes: Uint8Array): string => `"${createHash('md5').update(bytes).digest('hex')}"`;
const sha256 = (bytes: Uint8Array | string): string => createHash('sha256').update(bytes).digest('hex');
const hmac = (key: Buffer | string, text: string): Buffer => createHmac('sha256', key).update(text).digest();
const escapeXml = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');
const tag = (name: string, value: string | number | boolean): string =>
  `<${name}>${escapeXml(String(value))}</${name}>`;
const document = (name: string, inner: string): string =>
  `<?xml version="1.0" encoding="UTF-8"?><${name}>${inner}</${name}>`;

interface Call {
  readonly method: string;
  readonly url: URL;
  readonly key: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: Buffer;
}

const signatureOf = (request: IncomingMessage, signed: string, scope: string, payloadHash: string): string => {
  const url = new URL(request.url ?? '', 'http://s3');
  const query = url.search.slice(1).split('&').filter(Boolean);
  const pairs = query.map((pair) => (pair.includes('=') ? pair : `${pair}=`)).toSorted();
  const headers = signed.split(';').map((name) => `${name}:${String(request.headers[name] ?? '').trim()}\n`);
  const canonical = [request.method, url.pathname, pairs.join('&'), headers.join(''), signed, payloadHash].join('\n');
  const [day = '', area = '', service = '', end = ''] = scope.split('/');
  const text = ['AWS4-HMAC-SHA256', request.headers['x-amz-date'], scope, sha256(canonical)].join('\n');
  return hmac(hmac(hmac(hmac(hmac(`AWS4${secretAccessKey}`, day), area), service), end), text).toString('hex');
};

const authorizationForm = /^AWS4-HMAC-SHA256 Credential=([^/]+)\/([^,]+), ?SignedHeaders=([^,]+), ?Signature=(\w+)$/;

const requireSignature = (request: IncomingMessage, body: Buffer): void => {
  const [, id, scope = '', signed = '', given] = authorizationForm.exec(request.headers.authorization ?? '') ?? [];
  if (id !== accessKeyId || !scope.endsWith(`/${region}/s3/aws4_request`)) throw new S3Error(403, 'InvalidAccessKeyId');
  const payloadHash = String(request.headers['x-amz-content-sha256']);
  if (signatureOf(request, signed, scope, payloadHash) !== given) throw new S3Error(403, 'SignatureDoesNotMatch');
  if (payloadHash !== sha256(body)) throw new S3Error(400, 'XAmzContentSHA256Mismatch');
};

interface Answer {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Buffer | string;
}

const metadataOf = (headers: IncomingMessage['headers']): Record<string, string> =>
  Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) =>
      name.startsWith('x-amz-meta-') ? [[name.slice('x-amz-meta-'.length), String(value)]] : [],
    ),
  );

const written = (call: Call, name: string, bytes: Buffer): Answer =>
  'x-amz-copy-source' in call.headers
    ? { body: document(name, tag('ETag', md5(bytes)) + tag('LastModified', new Date().toISOString())) }
    : { headers: { ETag: md5(bytes) } };

const createState = () => {
  const objects = new Map<string, Stored>();
  const uploads = new Map<string, Upload>();
  const losing = { part: false };

  const objectOf = (key: string): Stored => {
    const stored = objects.get(key);
    if (stored === undefined) throw new S3Error(404, 'NoSuchKey');
    return stored;
  };
  const uploadOf = ({ url }: Call): Upload => {
    const upload = uploads.get(url.searchParams.get('uploadId') ?? '');
    if (upload === undefined) throw new S3Error(404, 'NoSuchUpload');
    return upload;
  };
  const sourceOf = ({ headers }: Call): Buffer => {
    const [name, ...key] = decodeURIComponent(String(headers['x-amz-copy-source'])).replace(/^\//, '').split('/');
    if (name !== bucket) throw new S3Error(404, 'NoSuchBucket');
    const { bytes } = objectOf(key.join('/'));
    const range = /^bytes=(\d+)-(\d+)$/.exec(String(headers['x-amz-copy-source-range']));
    return range === null ? bytes : bytes.subarray(Number(range[1]), Number(range[2]) + 1);
  };
  const bytesOf = (call: Call): Buffer => ('x-amz-copy-source' in call.headers ? sourceOf(call) : call.body);

  const putObject = (call: Call): Answer => {
    const bytes = bytesOf(call);
    objects.set(call.key, { bytes, modified: new Date(), metadata: metadataOf(call.headers) });
    return written(call, 'CopyObjectResult', bytes);
  };
  const putPart = (call: Call): Answer => {
    const bytes = bytesOf(call);
    uploadOf(call).parts.set(Number(call.url.searchParams.get('partNumber')), {
      bytes,
      modified: new Date(),
      metadata: {},
    });
    return written(call, 'CopyPartResult', bytes);
  };
  const getObject = ({ key, headers }: Call): Answer => {
    const { bytes, modified, metadata } = objectOf(key);
    const all = {
      ETag: md5(bytes),
      'Last-Modified': modified.toUTCString(),
      ...Object.fromEntries(Object.entries(metadata).map(([name, value]) => [`x-amz-meta-${name}`, value])),
    };
    const range = /^bytes=(\d+)-(\d+)$/.exec(headers.range ?? '');
    if (range === null) return { headers: all, body: bytes };
    const [start, end] = [Number(range[1]), Math.min(Number(range[2]), bytes.length - 1)];
    if (start >= bytes.length) throw new S3Error(416, 'InvalidRange');
    return {
      status: 206,
      headers: { ...all, 'Content-Range': `bytes ${start}-${end}/${bytes.length}` },
      body: bytes.subarray(start, end + 1),
    };
  };
  const createUpload = ({ key, headers }: Call): Answer => {
    const id = randomUUID();
    uploads.set(id, { key, initiated: new Date(), metadata: metadataOf(headers), parts: new Map() });
    return {
      body: document('InitiateMultipartUploadResult', tag('Bucket', bucket) + tag('Key', key) + tag('UploadId', id)),
    };
  };
  const completeUpload = (call: Call): Answer => {
    const upload = uploadOf(call);
    const named = [...call.body.toString().matchAll(/<Part>.*?<\/Part>/gs)].map(([part]) => ({
      number: Number(/<PartNumber>(\d+)</.exec(part)?.[1]),
      etag: /<ETag>(.*?)</.exec(part)?.[1]?.replaceAll('&quot;', '"'),
    }));
    const found = named.map(({ number, etag }, index) => {
      const part = upload.parts.get(number);
      if (part === undefined || md5(part.bytes) !== etag) throw new S3Error(400, 'InvalidPart');
      if (number <= (named[index - 1]?.number ?? 0)) throw new S3Error(400, 'InvalidPartOrder');
      if (index < named.length - 1 && part.bytes.length < minPartBytes) throw new S3Error(400, 'EntityTooSmall');
      return part.bytes;
    });
    if (found.length === 0) throw new S3Error(400, 'MalformedXML');
    const kept = losing.part ? found.slice(1) : found;
    losing.part = false;
    objects.set(call.key, { bytes: Buffer.concat(kept), modified: new Date(), metadata: upload.metadata });
    uploads.delete(call.url.searchParams.get('uploadId') ?? '');
    return { body: document('CompleteMultipartUploadResult', tag('Key', call.key) + tag('ETag', '"of-parts-1"')) };
  };
  const abortUpload = (call: Call): Answer => {
    uploadOf(call);
    uploads.delete(call.url.searchParams.get('uploadId') ?? '');
    return { status: 204 };
  };
  const listParts = (call: Call): Answer => {
    const after = Number(call.url.searchParams.get('part-number-marker') ?? 0);
    const parts = [...uploadOf(call).parts].filter(([number]) => number > after).toSorted(([a], [b]) => a - b);
    const page = parts.slice(0, 1000);
    const items = page.map(([number, { bytes }]) =>
      tag('Part', '').replace(
        '></',
        `>${tag('PartNumber', number)}${tag('ETag', md5(bytes))}${tag('Size', bytes.length)}</`,
      ),
    );
    const cut = tag('IsTruncated', page.length < parts.length) + tag('NextPartNumberMarker', page.at(-1)?.[0] ?? 0);
    return { body: document('ListPartsResult', items.join('') + cut) };
  };
  const listUploads = (): Answer => {
    const items = [...uploads].map(
      ([id, { key, initiated }]) =>
        `<Upload>${tag('Key', key)}${tag('UploadId', id)}${tag('Initiated', initiated.toISOString())}</Upload>`,
    );
    return { body: document('ListMultipartUploadsResult', items.join('') + tag('IsTruncated', false)) };
  };
  const listObjects = ({ url }: Call): Answer => {
    const [prefix, after] = [url.searchParams.get('prefix') ?? '', url.searchParams.get('continuation-token') ?? ''];
    const keys = [...objects.keys()].filter((key) => key.startsWith(prefix) && key > after).toSorted();
    // A small page, so that tests see several.
    const page = keys.slice(0, 4);
    const items = page.map((key) => {
      const { bytes, modified } = objectOf(key);
      return `<Contents>${tag('Key', key)}${tag('Size', bytes.length)}${tag('LastModified', modified.toISOString())}</Contents>`;
    });
    const rest = keys.length > page.length;
    const next = rest ? tag('NextContinuationToken', page.at(-1) ?? '') : '';
    return { body: document('ListBucketResult', items.join('') + tag('IsTruncated', rest) + next) };
  };
  const deleteMany = ({ body }: Call): Answer => {
    for (const [, key = ''] of body.toString().matchAll(/<Key>(.*?)<\/Key>/g)) objects.delete(key);
    return { body: document('DeleteResult', '') };
  };
  const deleteObject = ({ key }: Call): Answer => {
    objects.delete(key);
    return { status: 204 };
  };

  const onBucket = (call: Call): Answer => {
    const { method, url } = call;
    if (method === 'HEAD') return {};
    if (method === 'POST' && url.searchParams.has('delete')) return deleteMany(call);
    if (method === 'GET' && url.searchParams.has('uploads')) return listUploads();
    if (method === 'GET' && url.searchParams.get('list-type') === '2') return listObjects(call);
    throw new S3Error(501, 'NotImplemented');
  };
  const onUpload: Readonly<Record<string, (call: Call) => Answer>> = {
    PUT: putPart,
    POST: completeUpload,
    DELETE: abortUpload,
    GET: listParts,
  };
  const onObject: Readonly<Record<string, (call: Call) => Answer>> = {
    PUT: putObject,
    GET: getObject,
    HEAD: getObject,
    DELETE: deleteObject,
    POST: createUpload,
  };
  const answer = (call: Call): Answer => {
    if (call.key === '') return onBucket(call);
    const table = call.url.searchParams.has('uploadId') ? onUpload : onObject;
    return table[call.method]?.(call) ?? { status: 405 };
  };
  return { objects, uploads, losing, answer };
};

const send = (
  response: ServerResponse,
  method: string | undefined,
  { status = 200, headers = {}, body = '' }: Answer,
): void => {
  response.writeHead(status, {
    ...headers,
    'x-amz-request-id': randomUUID(),
    'Content-Length': Buffer.byteLength(body),
  });
  response.end(method === 'HEAD' ? undefined : body);
};

const errorAnswer = (error: unknown): Answer => {
  if (!(error instanceof S3Error)) throw error;
  return { status: error.status, body: document('Error', tag('Code', error.code) + tag('Message', error.code)) };
};

const bodyOf = ({ body = '' }: Answer): Buffer => Buffer.from(body);

/** Starts a server with one empty bucket. */
export const openS3Server = async (): Promise<S3Server & { readonly close: () => void }> => {
  const state = createState();
  const faults: { pattern: RegExp; fault: Fault; times: number }[] = [];
  const requests: string[] = [];

  const faultOf = (line: string): Fault | undefined => {
    const found = faults.find(({ pattern, times }) => times > 0 && pattern.test(line));
    if (found) found.times -= 1;
    return found?.fault;
  };
  const answerTo = async (request: IncomingMessage): Promise<Answer> => {
    const url = new URL(request.url ?? '', 'http://s3');
    const body = await buffer(request);
    try {
      requireSignature(request, body);
      const [, name, ...key] = decodeURIComponent(url.pathname).split('/');
      if (name !== bucket) throw new S3Error(404, 'NoSuchBucket');
      return state.answer({ method: request.method ?? '', url, key: key.join('/'), headers: request.headers, body });
    } catch (error) {
      return errorAnswer(error);
    }
  };
  const respond = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const line = `${request.method} ${request.url}`;
    requests.push(line);
    const fault = faultOf(line);
    if (fault === 'hang') return;
    if (typeof fault === 'number') {
      await buffer(request);
      return send(response, request.method, errorAnswer(new S3Error(fault, 'Fault')));
    }
    state.losing.part ||= fault === 'lost part';
    const answer = await answerTo(request);
    if (fault === 'lost answer') return void request.socket.destroy();
    if (fault !== 'cut body') return send(response, request.method, answer);
    const body = bodyOf(answer);
    response.writeHead(answer.status ?? 200, { ...answer.headers, 'Content-Length': body.length });
    response.write(body.subarray(0, body.length / 2), () => request.socket.destroy());
  };

  const server = createServer((request, response) => {
    // A client that leaves in the middle of its request is part of the tests.
    respond(request, response).catch(() => request.socket.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    settings: { endpoint, bucket, region, accessKeyId, secretAccessKey, forcePathStyle: true },
    fault: (pattern, fault, times = 1) => {
      for (const earlier of faults) if (earlier.pattern.source === pattern.source) earlier.times = 0;
      faults.push({ pattern, fault, times });
    },
    requests,
    objects: state.objects,
    uploads: state.uploads,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
};

/** The same, gone with the test. */
export const startS3Server = async (t: ExecutionContext): Promise<S3Server> => {
  const { close, ...server } = await openS3Server();
  t.teardown(close);
  return server;
};
