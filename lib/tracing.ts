import { AsyncLocalStorage } from 'node:async_hooks';
import { hostname } from 'node:os';
import type { AttributeValue, Span, SpanContext, SpanKind, SpanStatusCode } from '@opentelemetry/api';
import type { SpanExporter } from '@opentelemetry/sdk-trace';
import type { Log } from './log.ts';

/** A traced operation, and its role in the trace. */
const kinds = {
  'http request': 'SERVER',
  'job accept': 'PRODUCER',
  'job run': 'CONSUMER',
} as const satisfies Record<string, keyof typeof SpanKind>;

export type SpanName = keyof typeof kinds;

export type SpanAttributes = Readonly<Record<string, AttributeValue>>;

/** The methods by which work annotates its own span. */
export interface WorkSpan {
  /** For what is known only later: the route of a request. */
  readonly rename: (name: string) => void;
  readonly set: (attributes: SpanAttributes) => void;
  /** Marks it as failed, without a throw. */
  readonly fail: (why: string) => void;
}

interface Tracing {
  readonly start: (name: SpanName, attributes: SpanAttributes, parent: SpanContext | undefined) => Span;
  readonly error: SpanStatusCode;
}

export interface TracingOptions {
  /** The base URL of an OTLP/HTTP receiver; spans go to `/v1/traces` below it. Undefined: tracing stays off. */
  readonly endpoint: string | undefined;
  /** `plinth-api` or `plinth-worker`. */
  readonly service: string;
  /**
   * The recorded share of the traces that begin here, 0 to 1. The caller decided for traces that come from elsewhere.
   */
  readonly ratio: number;
  readonly log: Log;
}

const exportTimeoutMs = 5000;
const lastExportMs = 2000;

const current = new AsyncLocalStorage<SpanContext>();
let tracing: Tracing | null = null;

const nothing = (): void => undefined;
const noSpan: WorkSpan = { rename: nothing, set: nothing, fail: nothing };

/** The fields of a `traceparent` header (W3C Trace Context, level 1); undefined when it is not one. */
const parse = (traceparent: string): SpanContext | undefined => {
  const [, version, traceId = '', spanId = '', flags = '', more] =
    /^([\da-f]{2})-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})(-.*)?$/.exec(traceparent) ?? [];
  if (version === undefined || version === 'ff' || (version === '00' && more !== undefined)) return undefined;
  if (/^0+$/.test(traceId) || /^0+$/.test(spanId)) return undefined;
  return { traceId, spanId, traceFlags: Number.parseInt(flags, 16) & 1, isRemote: true };
};

const format = ({ traceId, spanId, traceFlags }: SpanContext): string =>
  `00-${traceId}-${spanId}-0${traceFlags & 1 ? 1 : 0}`;

/** A receiver that is away is worth one line, not one each five seconds. */
const loggingFailures = (exporter: SpanExporter, log: Log): SpanExporter => {
  let down = false;
  return {
    export: (spans, done) =>
      exporter.export(spans, (result) => {
        if (result.error && !down) log.warn({ err: result.error }, 'traces cannot be delivered; they are dropped');
        if (!result.error && down) log.info('traces are delivered again');
        down = result.error !== undefined;
        done(result);
      }),
    shutdown: () => exporter.shutdown(),
  };
};

/** The SDK takes 55 ms and 29 MB to load: only a process that traces pays for it. */
const load = async ({ service, ratio, log }: TracingOptions, url: string) => {
  const [api, sdk, { OTLPTraceExporter }, resources] = await Promise.all([
    import('@opentelemetry/api'),
    import('@opentelemetry/sdk-trace'),
    import('@opentelemetry/exporter-trace-otlp-http'),
    import('@opentelemetry/resources'),
  ]);
  const own = { 'service.name': service, 'host.name': hostname(), 'process.pid': process.pid };
  const exporter = loggingFailures(new OTLPTraceExporter({ url, timeoutMillis: exportTimeoutMs }), log);
  const provider = new sdk.TracerProvider({
    // OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME have the last word, as everywhere.
    resource: resources
      .resourceFromAttributes(own)
      .merge(resources.detectResources({ detectors: [resources.envDetector] })),
    sampler: new sdk.ParentBasedSampler({ root: new sdk.TraceIdRatioBasedSampler(ratio) }),
    spanProcessors: [new sdk.BatchSpanProcessor({ exporter })],
  });
  const tracer = provider.getTracer('plinth');
  const { ROOT_CONTEXT, SpanKind, SpanStatusCode, trace } = api;
  const start: Tracing['start'] = (name, attributes, parent) =>
    tracer.startSpan(
      name,
      { kind: SpanKind[kinds[name]], attributes },
      parent ? trace.setSpanContext(ROOT_CONTEXT, parent) : ROOT_CONTEXT,
    );
  return { provider, made: { start, error: SpanStatusCode.ERROR } };
};

/**
 * Enables tracing for this process when there is a receiver.
 * @returns how to stop: what is not delivered yet gets two seconds
 */
export const startTracing = async (options: TracingOptions): Promise<() => Promise<void>> => {
  if (options.endpoint === undefined) return () => Promise.resolve();
  const url = `${options.endpoint.replace(/\/+$/, '')}/v1/traces`;
  const { provider, made } = await load(options, url);
  tracing = made;
  return async () => {
    tracing = null;
    const { promise: late, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, lastExportMs);
    await Promise.race([provider.shutdown().catch(nothing), late]);
    clearTimeout(timer);
  };
};

export const isTracing = (): boolean => tracing !== null;

/** The W3C trace context of the span that is open here; null when there is none, or tracing is off. */
export const currentTraceparent = (): string | null => {
  const open = current.getStore();
  return open === undefined ? null : format(open);
};

const workSpan = (span: Span, error: SpanStatusCode): WorkSpan => ({
  rename: (name) => void span.updateName(name),
  set: (attributes) => void span.setAttributes(attributes),
  fail: (why) => void span.setStatus({ code: error, message: why }),
});

/**
 * Runs `work` in a span. When tracing is off it just runs.
 * @param parent the `traceparent` of what it belongs to; null, or one that is malformed: the span that is open here, or
 * a new trace
 */
export const traced = <T>(
  name: SpanName,
  attributes: SpanAttributes,
  parent: string | null,
  work: (span: WorkSpan) => Promise<T>,
): Promise<T> => {
  if (tracing === null) return work(noSpan);
  const span = tracing.start(name, attributes, parse(parent ?? '') ?? current.getStore());
  const about = workSpan(span, tracing.error);
  return current
    .run(span.spanContext(), () => work(about))
    .catch((error: unknown) => {
      about.fail(error instanceof Error ? error.message : String(error));
      throw error;
    })
    .finally(() => span.end());
};
