import { Gauge, Histogram, Registry } from 'prom-client';
import { type JobFigures, figuresOfJobs, maxDead } from '#domain/ops/trouble.ts';
import type { Queryable } from '#lib/control-db.ts';
import { metricsText, registry } from '#lib/metrics.ts';
import type { Gate, JobTypeStats } from '#queues/gate/types.ts';
import { jobs } from '#queues/registry.ts';

const requestSeconds = new Histogram({
  name: 'plinth_http_request_duration_seconds',
  help: 'Time from the first byte of a request to its answer, by route and status class.',
  labelNames: ['route', 'status'] as const,
  buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
  registers: [registry],
});

const childrenOf = new Map<string, Histogram.Internal<'route' | 'status'>>();

/** @param route method and path pattern, never the path itself: labels stay few */
export const noteRequest = (route: string, status: number, seconds: number): void => {
  const name = `${Math.floor(status / 100)}xx ${route}`;
  const known = childrenOf.get(name);
  const child = known ?? requestSeconds.labels({ route, status: name.slice(0, 3) });
  if (known === undefined) childrenOf.set(name, child);
  child.observe(seconds);
};

/** The sources of a scrape about the state of the job engine. */
export interface GaugeDeps {
  readonly db: Queryable;
  readonly gate: Pick<Gate, 'stats'>;
}

const gauges: readonly {
  readonly name: string;
  readonly help: string;
  readonly of: (stats: JobTypeStats | null, rows: JobFigures | undefined) => number | null | undefined;
}[] = [
  { name: 'plinth_jobs_waiting', help: 'Jobs that wait at the gate, by type.', of: (stats) => stats?.waiting },
  {
    name: 'plinth_jobs_running',
    help: 'Jobs that the gate has handed over: they run or are about to, by type.',
    of: (stats) => stats?.leased,
  },
  {
    name: 'plinth_jobs_window',
    help: 'How many jobs may be handed over at a time, by type.',
    of: (stats) => stats?.window,
  },
  {
    name: 'plinth_jobs_slots',
    help: 'Jobs that the live workers can run at a time, by type.',
    of: (stats) => stats?.slots,
  },
  {
    name: 'plinth_jobs_workers_alive',
    help: 'Workers that were heard of lately, by the job type that they serve.',
    of: (stats) => stats?.workers.length,
  },
  {
    name: 'plinth_jobs_gate_open',
    help: '1 while the gate hands jobs over, 0 while it is rebuilt from Postgres, by type.',
    of: (stats) => stats && Number(stats.open),
  },
  {
    name: 'plinth_jobs_paused',
    help: '1 while operators have paused the whole type.',
    of: (stats) => stats && Number(stats.paused),
  },
  {
    name: 'plinth_jobs_oldest_wait_seconds',
    help: 'How long the oldest job has waited that was never begun, by type; 0 when none waits.',
    of: (_stats, rows) => rows?.oldest_wait,
  },
  {
    name: 'plinth_jobs_dead',
    help: `Dead jobs that nobody has driven again yet, by type; at most ${maxDead} are counted.`,
    of: (_stats, rows) => rows?.dead,
  },
];

/** The names of the gauges, for those that document them. */
export const jobGaugeNames: readonly string[] = gauges.map(({ name }) => name);

const freshMs = 1000;

/**
 * The job engine at the moment of the scrape. Answers are cached for a second, so that many scrapes cost no more than
 * one. A figure that is unavailable is left out: a scrape has others.
 * @returns Prometheus text
 */
export const createJobGauges = ({ db, gate }: GaugeDeps, types = jobs.map(({ type }) => type)) => {
  const own = new Registry();
  const made = gauges.map(({ name, help, of }) => ({
    of,
    gauge: new Gauge({ name, help, labelNames: ['type'] as const, registers: [own] }),
  }));

  const read = async (): Promise<string> => {
    const [rows, ...statsByType] = await Promise.all([
      figuresOfJobs(db, types).catch(() => []),
      ...types.map((type) => gate.stats(type).catch(() => null)),
    ]);
    for (const { gauge, of } of made) {
      gauge.reset();
      for (const [i, type] of types.entries()) {
        const row = rows.find((stats) => stats.type === type);
        const value = of(statsByType[i] ?? null, row);
        if (typeof value === 'number') gauge.set({ type }, value);
      }
    }
    return own.metrics();
  };

  let last: { readonly at: number; readonly text: Promise<string> } | undefined;
  return (): Promise<string> => {
    if (last === undefined || performance.now() - last.at > freshMs) last = { at: performance.now(), text: read() };
    return last.text;
  };
};

const gaugesOf = new WeakMap<object, () => Promise<string>>();

/** All that `/metrics` of an API process says: its own measures, and the state of the job engine. */
export const scrape = async (deps: GaugeDeps): Promise<string> => {
  const gaugesText = gaugesOf.get(deps) ?? createJobGauges(deps);
  gaugesOf.set(deps, gaugesText);
  const texts = await Promise.all([metricsText(), gaugesText()]);
  return texts.join('\n');
};
