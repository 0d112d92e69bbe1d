import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import type { WaitingMarks } from '#domain/events/marks.ts';
import { presentVersion } from '#domain/functions/store.ts';
import { requireRoomAt } from '#domain/jobs/accept.ts';
import { type NewJobRow, insertJobs } from '#domain/jobs/store.ts';
import type { MonthlyCaps } from '#domain/jobs/usage.ts';
import type { Projects } from '#domain/projects/projects.ts';
import type { ControlDb, Tx } from '#lib/control-db.ts';
import { ServiceError, notFound } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import type { JsonParser } from '#lib/json-parser.ts';
import type { Log } from '#lib/log.ts';
import type { JobData } from '#queues/define.ts';
import { functionInvoke } from '#queues/function-invoke.ts';
import type { Gate } from '#queues/gate/types.ts';
import type { Paypal } from './paypal.ts';
import { type PaymentProvider, type ProviderName, isPayment, isProvider } from './providers.ts';
import { type Receiver, findReceiver, noteProviderEvent, openConfig } from './store.ts';

const hmac = (secret: string, parts: readonly (string | Buffer)[]): Buffer => {
  const sum = createHmac('sha256', secret);
  for (const part of parts) sum.update(part);
  return sum.digest();
};

/** Compares in the same time wherever they differ. */
const isHexOf = (expected: Buffer, given: string): boolean => {
  if (!/^[0-9a-f]{64}$/i.test(given)) return false;
  return timingSafeEqual(expected, Buffer.from(given, 'hex'));
};

const maxHeaderLength = 4096;
// Stripe sends one for each secret that is valid; two while one is rolled.
const maxSignatures = 10;

const valuesOf = (header: string, name: string): string[] =>
  header
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part.startsWith(`${name}=`))
    .map((part) => part.slice(name.length + 1));

/** How far from now a signed time may be, in seconds (contract, section 6; Stripe's own default). */
const stripeWindowSeconds = 300;

/**
 * Stripe's scheme: `Stripe-Signature: t=<seconds>,v1=<hex>[,v1=…]`, each an HMAC-SHA256 of `<t>.<body>` with the secret
 * as it is written (docs.stripe.com/webhooks, "Verify manually").
 */
export const isSignedByStripe = (
  { header, body, secret }: { readonly header: string; readonly body: Buffer; readonly secret: string },
  now: number = Date.now(),
): boolean => {
  if (header.length > maxHeaderLength) return false;
  const [time, second] = valuesOf(header, 't');
  if (time === undefined || second !== undefined || !/^\d{1,12}$/.test(time)) return false;
  if (Math.abs(now / 1000 - Number(time)) > stripeWindowSeconds) return false;
  const expected = hmac(secret, [`${time}.`, body]);
  return valuesOf(header, 'v1')
    .slice(0, maxSignatures)
    .some((given) => isHexOf(expected, given));
};

/** Razorpay's scheme: `X-Razorpay-Signature`, the HMAC-SHA256 of the body in hex. It says nothing of the time. */
export const isSignedByRazorpay = ({
  header,
  body,
  secret,
}: {
  readonly header: string;
  readonly body: Buffer;
  readonly secret: string;
}): boolean => isHexOf(hmac(secret, [body]), header);

export interface InboundDeps {
  readonly db: ControlDb;
  readonly gate: Pick<Gate, 'projects' | 'admit'>;
  readonly projects: Pick<Projects, 'sealer'>;
  readonly paypal: Paypal;
  readonly events: WaitingMarks;
  readonly caps: MonthlyCaps;
  /** Large bodies are parsed off the event loop: PayPal's are parsed before it is known that they come from there. */
  readonly json: Pick<JsonParser, 'parse'>;
  readonly log: Log;
}

/** A call that claims to come from a payment provider. */
interface InboundCall {
  readonly projectId: string;
  readonly provider: string;
  readonly header: (name: string) => string;
  readonly body: () => Promise<Buffer>;
  readonly requestId: string;
  /** Whence it comes. */
  readonly network: string;
}

/** The event of a provider, once its origin is verified. */
interface ProviderEvent {
  readonly type: string;
  /** Any of them says that it came before; the first is signed for. */
  readonly keys: readonly string[];
  /** As it came. */
  readonly text: string;
}

type Fields = Readonly<Record<string, unknown>>;

const invalid = (path: string, message: string): ServiceError =>
  new ServiceError('validation_failed', 'The body is not an event of this provider.', { details: [{ path, message }] });

const maxIdLength = 255;

/** @throws {ServiceError} `validation_failed` */
const idOf = ({ id }: Fields): string => {
  if (typeof id === 'string' && /^[\x21-\x7e]+$/.test(id) && id.length <= maxIdLength) return id;
  throw invalid('id', 'must be the id of an event');
};

/** @throws {ServiceError} `validation_failed` */
const typeOf = (fields: Fields, name: string): string => {
  const type = fields[name];
  if (typeof type === 'string' && /^[\w:-]+(\.[\w:-]+)*$/.test(type) && type.length <= 150) return type;
  throw invalid(name, 'must be the type of an event');
};

const unverified = (): ServiceError =>
  new ServiceError('invalid_signature', 'The signature of this call is missing or does not fit.');

interface Received<P extends PaymentProvider> {
  readonly call: InboundCall;
  readonly receiver: Receiver<P>;
  readonly body: Buffer;
}

/** @throws {ServiceError} `invalid_json`, `validation_failed`, `payload_too_large` (too many values), `overloaded` */
const parse = async (
  { body, receiver }: Received<PaymentProvider>,
  { json }: InboundDeps,
): Promise<{ text: string; fields: Fields }> => {
  const { text, value } = await json.parse(body, { owner: receiver.project.id });
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw invalid('', 'must be an object');
  return { text, fields: value as Fields };
};

const stripeEvent = async (received: Received<'stripe'>, deps: InboundDeps): Promise<ProviderEvent> => {
  const { call, body, receiver } = received;
  const { projects } = deps;
  const { webhook_secret: secret } = openConfig(projects.sealer(receiver.project), receiver.integration);
  if (!isSignedByStripe({ header: call.header('stripe-signature'), body, secret })) throw unverified();
  const { text, fields } = await parse(received, deps);
  return { type: typeOf(fields, 'type'), keys: [idOf(fields)], text };
};

const maxRazorpayDays = 29;

/** Its signature holds for ever; the time is in the body. Beyond a month a repeat would no longer be known as one. */
const isOld = (createdAt: unknown): boolean =>
  typeof createdAt === 'number' && Date.now() / 1000 - createdAt > maxRazorpayDays * 86_400;

/** The id of the event comes in a header that is not signed: the text itself identifies a repeat, too. */
const razorpayEvent = async (received: Received<'razorpay'>, deps: InboundDeps): Promise<ProviderEvent> => {
  const { call, body, receiver } = received;
  const { projects } = deps;
  const { webhook_secret: secret } = openConfig(projects.sealer(receiver.project), receiver.integration);
  if (!isSignedByRazorpay({ header: call.header('x-razorpay-signature'), body, secret })) throw unverified();
  const { text, fields } = await parse(received, deps);
  if (isOld(fields['created_at'])) throw unverified();
  const id = call.header('x-razorpay-event-id');
  const hash = `sha256:${createHash('sha256').update(body).digest('hex')}`;
  const isUsable = /^[\x21-\x7e]{1,255}$/.test(id) && !id.startsWith('sha256:');
  return { type: typeOf(fields, 'event'), keys: isUsable ? [hash, id] : [hash], text };
};

const paypalEvent = async (received: Received<'paypal'>, deps: InboundDeps): Promise<ProviderEvent> => {
  const {
    call,
    receiver: { project, integration },
  } = received;
  const { projects, paypal } = deps;
  const { text, fields } = await parse(received, deps);
  const event = { type: typeOf(fields, 'event_type'), keys: [idOf(fields)], text };
  const config = openConfig(projects.sealer(project), integration);
  if (!(await paypal.isGenuine({ ...integration, config }, { header: call.header, text, network: call.network })))
    throw unverified();
  return event;
};

type ReadEvent<P extends PaymentProvider> = (received: Received<P>, deps: InboundDeps) => Promise<ProviderEvent>;

const readers: { readonly [P in PaymentProvider]: ReadEvent<P> } = {
  stripe: stripeEvent,
  razorpay: razorpayEvent,
  paypal: paypalEvent,
};

type AnyReceiver = Receiver<PaymentProvider>;

const functionOf = ({ project, integration }: AnyReceiver, { projects }: InboundDeps): string | undefined =>
  openConfig(projects.sealer(project), integration).function_id;

const jobFor = async (
  tx: Tx,
  { receiver, functionId, text }: { receiver: AnyReceiver; functionId: string; text: string },
  { caps, call }: { caps: MonthlyCaps; call: InboundCall },
): Promise<NewJobRow | null> => {
  const { project, integration } = receiver;
  const present = await presentVersion(tx, project.id, { id: functionId });
  if (present === undefined) return null;
  const data: JobData<typeof functionInvoke> = {
    function_id: present.id,
    version: present.version,
    trigger: 'webhook',
    payload: text,
  };
  return {
    id: newId(),
    projectId: project.id,
    type: functionInvoke.type,
    data: JSON.stringify(data),
    maxAttempts: functionInvoke.maxAttempts,
    startedBy: { kind: 'event', id: integration.id },
    requestId: call.requestId,
    monthlyLimit: caps[project.plan],
  };
};

/** The note, the event and the job, or none of them. Answers the job that is to go to the gate. */
const keep = async (
  tx: Tx,
  { receiver, event, functionId }: { receiver: AnyReceiver; event: ProviderEvent; functionId: string | undefined },
  { deps, call }: { deps: InboundDeps; call: InboundCall },
): Promise<NewJobRow | null> => {
  const { project, integration } = receiver;
  const { provider } = integration;
  if (!(await noteProviderEvent(tx, { projectId: project.id, provider, keys: event.keys }))) return null;
  await tx.query(
    'insert into outbox_events (project_id, event, data) values ($1, $2, $3)',
    [project.id, `payments.${provider}.${event.type}`, event.text],
    'keep-payment-event',
  );
  if (functionId === undefined) return null;
  const job = await jobFor(tx, { receiver, functionId, text: event.text }, { caps: deps.caps, call });
  const isTaken = job !== null && (await insertJobs(tx, [job])).has(job.id);
  if (isTaken) return job;
  // The provider can do nothing about it, and its event reaches the webhooks all the same.
  const why = job === null ? 'the function of a payment provider is gone' : 'the month’s runs of functions are used up';
  deps.log.warn({ project_id: project.id, provider, function_id: functionId }, why);
  return null;
};

/** Null for anything that takes no calls: a provider that is not known, or not of payments, or no project. */
const receiverOf = (db: ControlDb, projectId: string, provider: string): Promise<AnyReceiver | undefined> => {
  const name: ProviderName | null = isProvider(provider) ? provider : null;
  return name !== null && isPayment(name) ? findReceiver(db, projectId, name) : Promise.resolve(undefined);
};

/**
 * Takes a call of a payment provider: verifies it, emits an event to the project's webhooks, runs its function; a
 * repeat does nothing.
 * @throws {ServiceError} `not_found` unless the provider is configured and active; `invalid_signature` and
 * `provider_unavailable`, `rate_limited` as PayPal is asked; `invalid_json`, `validation_failed`, `payload_too_large`,
 * `overloaded`, `queue_full`
 */
export const receive = async (deps: InboundDeps, call: InboundCall): Promise<void> => {
  const receiver = await receiverOf(deps.db, call.projectId, call.provider);
  if (receiver === undefined) throw notFound('hook');
  const read = readers[receiver.integration.provider] as ReadEvent<PaymentProvider>;
  const event = await read({ call, receiver, body: await call.body() }, deps);
  const functionId = functionOf(receiver, deps);
  const { id: projectId } = receiver.project;
  if (functionId !== undefined) await requireRoomAt(deps.gate, { type: functionInvoke.type, projectId });
  const job = await deps.db.transaction((tx) => keep(tx, { receiver, event, functionId }, { deps, call }));
  deps.events.markWaiting();
  if (job === null) return;
  await deps.gate
    .admit({ id: job.id, type: job.type, projectId }, false)
    .catch((error: unknown) => deps.log.warn({ err: error }, 'a job of a payment event is admitted later'));
};
