import { z } from 'zod';
import type { Author } from '#domain/flags/author.ts';
import { type CompiledFlag, compileFlag } from '#domain/flags/compile.ts';
import { evaluate, explain } from '#domain/flags/evaluate.ts';
import type { FlagSet } from '#domain/flags/flag-sets.ts';
import {
  archiveFlag,
  checkPatch,
  createFlag,
  deleteFlag,
  dependantsOf,
  flagOf,
  getFlag,
  patchFlag,
  revertFlag,
  toggleFlag,
  unarchiveFlag,
} from '#domain/flags/flags.ts';
import { cancelSchedule, countPending, listSchedules, scheduleChange } from '#domain/flags/schedules.ts';
import { type FlagName, historyOf, listFlags } from '#domain/flags/store.ts';
import { maxStatDays, statsOf } from '#domain/flags/usage.ts';
import { quotasFrom } from '#domain/projects/plans.ts';
import { ServiceError, notFound } from '#lib/errors.ts';
import { type InProject, inProject } from '../access.ts';
import type { Call } from '../call.ts';
import { type Endpoint, endpoint } from '../endpoint.ts';
import { expectedOf } from '../http/if-match.ts';
import { id, instant, namedObject, page, wholeNumber } from '../fields.ts';
import {
  context,
  definitionOf,
  flag,
  flagList,
  flagPatch,
  inEnvironment,
  listedFlag,
  newFlag,
  partOfPage,
  pathKey,
  shownFlag,
  staleReason,
} from '../shapes/flags.ts';

const area = 'flags';
const path = '/projects/{project_id}/flags';
const projectPath = z.object({ project_id: id });
const flagPath = z.object({ project_id: id, key: pathKey });

type ProjectCall = Call<InProject>;

const callerOf = ({ deps, project, actor }: ProjectCall): Author => {
  const { flags, flagBytes } = quotasFrom(deps.config)[project.plan];
  return { projectId: project.id, actor, quota: { flags, bytes: flagBytes }, json: deps.json };
};

/** The author of a change by this call; once it is committed, all processes serve it. */
export const authorOf = (call: ProjectCall): Author => {
  const { deps, project, afterCommit } = call;
  afterCommit(() => deps.flags.changed(project.id));
  afterCommit(async () => deps.events.markWaiting());
  return callerOf(call);
};

/** The flag as it is; with a patch as it would be, without changing anything. */
const flagToEvaluate = async (
  call: ProjectCall,
  name: FlagName,
  patch: z.output<typeof flagPatch> | undefined,
): Promise<{ readonly set: FlagSet; readonly flag: CompiledFlag }> => {
  const { deps, db, project } = call;
  const set = await deps.flags.sets.getPresent(project, name.environment);
  if (set === null) throw notFound('flag');
  const present = set.flags.get(name.key);
  if (present !== undefined && patch === undefined) return { set, flag: present };
  const own = await getFlag(db, project.id, name);
  return { set, flag: compileFlag(name.key, await checkPatch(db, callerOf(call), own, patch ?? {})) };
};

/** A flag as the answer has it, with its version as the ETag. */
const shown = (call: ProjectCall, of: Parameters<typeof shownFlag>[0]) => {
  call.setHeader('ETag', `"${of.version}"`);
  return shownFlag(of);
};

const nameOf = ({ params, query }: { params: z.output<typeof flagPath>; query: z.output<typeof inEnvironment> }) => ({
  environment: query.environment,
  key: params.key,
});

const version = namedObject('FlagVersion', {
  version: z.int(),
  changed_at: instant,
  changed_by: z.unknown(),
  before: z.unknown(),
  after: z.unknown(),
});

const schedule = namedObject('FlagSchedule', {
  id,
  at: instant,
  patch: z.unknown(),
  status: z.enum(['pending', 'done', 'failed']),
  error: z.string().nullable(),
  created_at: instant,
  done_at: instant.nullable(),
});

const explanation = z.object({
  rule: z.int(),
  matched: z.boolean(),
  failed: z.object({ attribute: z.string(), operator: z.string() }).nullable(),
});

const parsed = (text: string | null): unknown => (text === null ? null : (JSON.parse(text) as unknown));

/** A whole day is more than clocks differ by. */
const maxPastMs = 24 * 3600_000;
const maxAheadMs = 365 * 24 * 3600_000;

const requireTime = (at: Date): void => {
  const ahead = at.getTime() - Date.now();
  if (ahead > -maxPastMs && ahead < maxAheadMs) return;
  throw new ServiceError('validation_failed', 'The body is not valid.', {
    details: [{ path: 'at', message: 'must be within the next 365 days' }],
  });
};

const crud: readonly Endpoint[] = [
  endpoint({
    method: 'get',
    path,
    area,
    summary: 'The project’s feature flags',
    access: inProject('viewer'),
    params: projectPath,
    query: flagList,
    response: z.object({ flags: z.array(listedFlag).describe(partOfPage), total: z.int() }),
    handle: async ({ query: { stale, archived, ...filter } }, { db, project }) => {
      const wanted = {
        stale: stale === undefined ? undefined : stale === 'true',
        archived: archived === 'all' ? undefined : archived === 'true',
      };
      const { rows, total } = await listFlags(db, project.id, { ...filter, ...wanted });
      const flags = rows.map((row) => ({
        ...shownFlag(flagOf(row)),
        stale: row.stale_reason !== null,
        stale_reason: row.stale_reason,
      }));
      return { flags, total };
    },
  }),
  endpoint({
    method: 'post',
    path,
    area,
    summary: 'Create a flag',
    access: inProject('developer'),
    params: projectPath,
    query: inEnvironment,
    body: newFlag,
    status: 201,
    response: flag,
    handle: async ({ body, query }, call) => {
      const name = { environment: body.environment ?? query.environment, key: body.key };
      return shown(call, await createFlag(call.db, authorOf(call), name, definitionOf(body)));
    },
  }),
  endpoint({
    method: 'get',
    path: `${path}/{key}`,
    area,
    summary: 'One flag',
    access: inProject('viewer'),
    params: flagPath,
    query: inEnvironment,
    response: flag,
    handle: async (input, call) => shown(call, await getFlag(call.db, call.project.id, nameOf(input))),
  }),
  endpoint({
    method: 'patch',
    path: `${path}/{key}`,
    area,
    summary: 'Change a flag; what is left out stays. With If-Match only the version that it names',
    access: inProject('developer'),
    params: flagPath,
    query: inEnvironment,
    body: flagPatch,
    response: flag,
    handle: async (input, call) => {
      const change = { expected: expectedOf(call), patch: input.body };
      return shown(call, await patchFlag(call.db, authorOf(call), nameOf(input), change));
    },
  }),
  endpoint({
    method: 'delete',
    path: `${path}/{key}`,
    area,
    summary: 'Delete a flag',
    access: inProject('developer'),
    params: flagPath,
    query: inEnvironment,
    handle: (input, call) => deleteFlag(call.db, authorOf(call), nameOf(input), expectedOf(call)),
  }),
  endpoint({
    method: 'post',
    path: `${path}/{key}/toggle`,
    area,
    summary: 'Turn a flag on or off',
    access: inProject('developer'),
    params: flagPath,
    query: inEnvironment,
    response: flag,
    handle: async (input, call) =>
      shown(call, await toggleFlag(call.db, authorOf(call), nameOf(input), expectedOf(call))),
  }),
  endpoint({
    method: 'post',
    path: `${path}/{key}/evaluate`,
    area,
    summary: 'Evaluate a flag for a context, also with changes that are not saved; explain says what failed',
    access: inProject('viewer'),
    params: flagPath,
    query: inEnvironment,
    body: z.strictObject({
      context: context.default({}),
      explain: z.boolean().default(false),
      patch: flagPatch.optional().describe('Changes that the answer is to take into account; nothing is saved.'),
    }),
    transaction: 'none',
    response: z.object({
      key: z.string(),
      value: z.unknown(),
      matched_rule: z.int().nullable(),
      reason: z.string(),
      variant: z.string().nullable(),
      explanation: z.array(explanation).optional(),
    }),
    handle: async (input, call) => {
      const { set, flag: one } = await flagToEvaluate(call, nameOf(input), input.body.patch);
      const outcome = evaluate(set, one, input.body.context);
      if (!input.body.explain) return outcome;
      return { ...outcome, explanation: explain(set, one, input.body.context) };
    },
  }),
];

const archive: readonly Endpoint[] = [
  endpoint({
    method: 'get',
    path: `${path}/{key}/references`,
    area,
    summary: 'Other flags that need a flag, and its scheduled changes: what an archive or a deletion concerns',
    access: inProject('viewer'),
    params: flagPath,
    query: inEnvironment,
    response: z.object({
      needed_by: z.array(z.string()).describe('Keys of flags of the environment whose prerequisite it is.'),
      pending_schedules: z.int(),
    }),
    handle: async (input, { db, project }) => {
      const own = await getFlag(db, project.id, nameOf(input));
      return { needed_by: await dependantsOf(db, own), pending_schedules: await countPending(db, own.id) };
    },
  }),
  endpoint({
    method: 'post',
    path: `${path}/{key}/archive`,
    area,
    summary: 'Archive a flag: it is kept, and nobody evaluates it; a conflict while another flag needs it',
    access: inProject('developer'),
    params: flagPath,
    query: inEnvironment,
    response: flag,
    handle: async (input, call) =>
      shown(call, await archiveFlag(call.db, authorOf(call), nameOf(input), expectedOf(call))),
  }),
  endpoint({
    method: 'post',
    path: `${path}/{key}/unarchive`,
    area,
    summary: 'Take a flag out of the archive, as it was',
    access: inProject('developer'),
    params: flagPath,
    query: inEnvironment,
    response: flag,
    handle: async (input, call) =>
      shown(call, await unarchiveFlag(call.db, authorOf(call), nameOf(input), expectedOf(call))),
  }),
];

const versions: readonly Endpoint[] = [
  endpoint({
    method: 'get',
    path: `${path}/{key}/history`,
    area,
    summary: 'The versions of a flag, the newest first, with who changed what',
    access: inProject('viewer'),
    params: flagPath,
    query: inEnvironment.extend(page.shape),
    response: z.object({ history: z.array(version).describe(partOfPage), total: z.int() }),
    handle: async (input, { db, project }) => {
      const { environment_id: environmentId, key } = await getFlag(db, project.id, nameOf(input));
      const { rows, total } = await historyOf(db, { environmentId, key }, input.query);
      const history = rows.map(({ before, after, ...row }) => ({
        ...row,
        before: parsed(before),
        after: parsed(after),
      }));
      return { history, total };
    },
  }),
  endpoint({
    method: 'post',
    path: `${path}/{key}/revert`,
    area,
    summary: 'Make a past version of a flag the present one, as a new version',
    access: inProject('developer'),
    params: flagPath,
    query: inEnvironment,
    body: z.strictObject({ version: z.int().min(1) }),
    response: flag,
    handle: async (input, call) => {
      const change = { expected: expectedOf(call), version: input.body.version };
      return shown(call, await revertFlag(call.db, authorOf(call), nameOf(input), change));
    },
  }),
  endpoint({
    method: 'get',
    path: `${path}/{key}/schedule`,
    area,
    summary: 'The scheduled changes of a flag',
    access: inProject('viewer'),
    params: flagPath,
    query: inEnvironment.extend(page.shape),
    response: z.object({ schedules: z.array(schedule), total: z.int() }),
    handle: async (input, { db, project }) => {
      const { id: flagId } = await getFlag(db, project.id, nameOf(input));
      return listSchedules(db, flagId, input.query);
    },
  }),
  endpoint({
    method: 'post',
    path: `${path}/{key}/schedule`,
    area,
    summary: 'Change a flag at a time: once, and late when everything is down then',
    access: inProject('developer'),
    params: flagPath,
    query: inEnvironment,
    body: z.strictObject({ at: z.iso.datetime({ offset: true }), patch: flagPatch }),
    status: 201,
    response: schedule,
    handle: async (input, call) => {
      const at = new Date(input.body.at);
      requireTime(at);
      const own = await getFlag(call.db, call.project.id, nameOf(input));
      return scheduleChange(call.db, authorOf(call), own, { at, patch: input.body.patch });
    },
  }),
  endpoint({
    method: 'delete',
    path: `${path}/{key}/schedule/{schedule_id}`,
    area,
    summary: 'Cancel a scheduled change that was not carried out yet',
    access: inProject('developer'),
    params: flagPath.extend({ schedule_id: id }),
    query: inEnvironment,
    handle: async (input, { db, project }) => {
      const { id: flagId } = await getFlag(db, project.id, nameOf(input));
      await cancelSchedule(db, flagId, input.params.schedule_id);
    },
  }),
  endpoint({
    method: 'get',
    path: `${path}/{key}/stats`,
    area,
    summary: 'Evaluations of a flag by day and variant; counts are written once a minute',
    access: inProject('viewer'),
    params: flagPath,
    query: inEnvironment.extend({ days: wholeNumber(30, 1, maxStatDays) }),
    response: z.object({
      days: z.array(z.object({ date: z.string(), variant: z.string(), value: z.unknown(), count: z.int() })),
      last_evaluated_at: instant.nullable(),
      stale: z.boolean(),
      stale_reason: staleReason,
    }),
    handle: async (input, { db, project }) =>
      statsOf(db, await getFlag(db, project.id, nameOf(input)), input.query.days).then((stats) => ({
        ...stats,
        days: [...stats.days],
      })),
  }),
];

/** A project's feature flags (interface, "Feature flags"; contract, section 10). */
export const flagEndpoints: readonly Endpoint[] = [...crud, ...archive, ...versions];
