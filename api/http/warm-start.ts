import type { InProject } from '#api/access.ts';
import type { Call } from '#api/call.ts';
import { type WarmStart, tryWarmStart } from '#domain/functions/snapshots.ts';
import type { FunctionRow } from '#domain/functions/store.ts';

/** The header of a deploy that says how the runs of a large module begin. */
const header = 'X-Plinth-Warm-Start';

/** The reason is partly a stranger's text: a header holds printable ASCII, and quotes would end it. */
const quoted = (text: string): string => `"${text.replaceAll(/[^ !#-[\]-~]/g, '?')}"`;

const textOf = ({ snapshot, reason }: WarmStart): string =>
  snapshot ? 'snapshot' : `each-run; reason=${quoted(reason ?? '')}`;

/** Once the deploy is committed, a worker tries its module, if that is large; the answer says what came of it. */
export const reportWarmStart = (
  { id: functionId, version }: Pick<FunctionRow, 'id' | 'version'>,
  call: Call<InProject>,
) =>
  call.afterCommit(async () => {
    const { deps, project, requestId } = call;
    const warm = await tryWarmStart(deps, { projectId: project.id, functionId, version, requestId });
    if (warm !== null) call.setHeader(header, textOf(warm));
  });
