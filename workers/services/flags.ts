import { z } from 'zod';
import { defaultEnvironment, environmentForm } from '#domain/flags/definition.ts';
import { evaluate } from '#domain/flags/evaluate.ts';
import type { Flags } from '#domain/flags/open.ts';
import { CallFault } from '../runtimes/runtime.ts';
import type { OpenService } from './services.ts';

const getArgs = z.object({
  key: z.string().max(200),
  context: z.record(z.string(), z.unknown()).default({}),
  environment: z.string().regex(environmentForm).default(defaultEnvironment),
});

const parse = (args: unknown): z.output<typeof getArgs> => {
  const parsed = getArgs.safeParse(args);
  if (parsed.success) return parsed.data;
  throw new CallFault(
    'TypeError',
    'flags.get needs the key of a flag, and may have a context (an object) and a default.',
  );
};

/** A flag, evaluated from the memory of this worker; null: there is none that is on. */
interface Found {
  readonly value: unknown;
}

const get = async (
  { sets, usage }: Pick<Flags, 'sets' | 'usage'>,
  projectId: string,
  args: unknown,
): Promise<Found | null> => {
  const { key, context, environment } = parse(args);
  const set = await sets.get({ id: projectId, org_id: projectId }, environment);
  const flag = set?.flags.get(key.toLowerCase());
  if (set === null || flag === undefined) return null;
  const outcome = evaluate(set, flag, context);
  usage.note(set, outcome);
  return outcome.reason === 'DISABLED' || outcome.value === null ? null : { value: outcome.value };
};

/** `sdk.flags`: a round trip to PostgreSQL only for the first flag that a worker is asked for. */
export const flagService =
  ({ flags }: { readonly flags: Pick<Flags, 'sets' | 'usage'> }): OpenService =>
  ({ projectId }) => ({
    answers: {
      // A caller has its default for flags that cannot be known.
      'flags.get': (args) =>
        get(flags, projectId, args).catch((error: unknown) => {
          if (error instanceof CallFault) throw error;
          return null;
        }),
    },
    close: () => Promise.resolve(),
  });
