import { Client } from 'pg';

/**
 * The jobs' own records of their runs, in a Postgres that no scenario touches. It shares nothing with the engine that
 * is under test, so that its proof does not rest on the engine's own counters.
 */
export interface RunNote {
  readonly scene: string;
  readonly worker: string;
  readonly type: string;
  readonly jobId: string;
  readonly projectId: string;
  readonly what: 'start' | 'finish';
  /** Microseconds of the machine's monotonic clock: one clock for all processes, and nobody sets it. */
  readonly at: number;
}

export const clock = (): number => Number(process.hrtime.bigint() / 1000n);

const table = `create table if not exists runs (
  scene text not null, worker text not null, type text not null, job_id text not null, project_id text not null,
  what text not null, at bigint not null)`;

const connect = async (url: string): Promise<Client> => {
  const client = new Client({ connectionString: url });
  await client.connect();
  return client;
};

export const createWitness = async (url: string): Promise<void> => {
  const client = await connect(url);
  await client.query(table);
  await client.end();
};

export interface Witness {
  /** Resolves when the note is kept. */
  readonly note: (note: RunNote) => Promise<void>;
  /** The notes of one scene in order of time. */
  readonly notes: (scene: string) => Promise<RunNote[]>;
  readonly close: () => Promise<void>;
}

export const openWitness = async (url: string): Promise<Witness> => {
  const client = await connect(url);
  return {
    note: async ({ scene, worker, type, jobId, projectId, what, at }) => {
      await client.query('insert into runs values ($1, $2, $3, $4, $5, $6, $7)', [
        scene,
        worker,
        type,
        jobId,
        projectId,
        what,
        at,
      ]);
    },
    notes: async (scene) => {
      const { rows } = await client.query<RunNote>(
        `select scene, worker, type, job_id as "jobId", project_id as "projectId", what, at::float8 as at
         from runs where scene = $1 order by at`,
        [scene],
      );
      return rows;
    },
    close: () => client.end(),
  };
};
