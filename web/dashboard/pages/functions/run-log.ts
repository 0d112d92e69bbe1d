import { useEffect, useState } from 'react';
import { stream } from '../../client/stream.ts';
import type { Operations } from '../../client/types.ts';
import type { LogLine } from '../../components/log-lines.tsx';

type Invocation = Operations['GET /projects/{project_id}/functions/{id}/invocations/{iid}']['answer'];

interface RunLog {
  readonly lines: readonly LogLine[];
  /** The record of the run; null while it goes on. */
  readonly ended: Invocation | null;
  /** Whether the connection is being made again. */
  readonly isInterrupted: boolean;
}

const empty: RunLog = { lines: [], ended: null, isInterrupted: false };

/** The lines of a run from its first one on, and its record at the end. */
export const useRunLog = (at: string | null): RunLog => {
  const [log, setLog] = useState<RunLog>(empty);
  useEffect(() => {
    setLog(empty);
    if (at === null) return undefined;
    const leaving = new AbortController();
    void stream(at, leaving.signal, (source) => {
      // A connection that is made again begins with the first line.
      source.addEventListener('open', () => setLog(empty));
      source.addEventListener('error', () => setLog((present) => ({ ...present, isInterrupted: true })));
      source.addEventListener('log', ({ data }: MessageEvent<string>) =>
        setLog((present) => ({ ...present, lines: [...present.lines, JSON.parse(data) as LogLine] })),
      );
      source.addEventListener('end', ({ data }: MessageEvent<string>) => {
        leaving.abort();
        setLog((present) => ({ ...present, ended: JSON.parse(data) as Invocation }));
      });
    });
    return () => leaving.abort();
  }, [at]);
  return log;
};
