import type { EndedCall } from '#domain/ai/usage/call-store.ts';
import type { Signals } from '#queues/signals.ts';
import { callLine } from './lines.ts';

const lineOf = ({ intent, end }: EndedCall): ReturnType<typeof callLine> =>
  callLine({
    id: intent.id,
    created_at: intent.startedAt,
    kind: intent.kind,
    provider: intent.provider,
    model: intent.model,
    status: end.status,
    latency_ms: end.latencyMs,
    retries: end.retries,
    error_code: end.errorCode,
    error_message: end.errorMessage,
    request_id: intent.requestId,
  });

/** Tells those who listen to the logs of projects how calls of models ended. */
export const announceCalls =
  ({ announceLines }: Pick<Signals, 'announceLines'>) =>
  (calls: readonly EndedCall[]): void => {
    for (const [projectId, ofProject] of Map.groupBy(calls, ({ intent }) => intent.projectId))
      announceLines(projectId, ofProject.map(lineOf));
  };
