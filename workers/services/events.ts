import { z } from 'zod';
import { systemActor } from '#domain/audit/actor.ts';
import { faultOfCustomName } from '#domain/events/events.ts';
import { emitCustomEvent } from '#domain/webhooks/custom-events.ts';
import type { ControlDb } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';
import { CallFault } from '../runtimes/runtime.ts';
import type { OpenService } from './services.ts';

const emitArgs = z.object({ name: z.string(), data: z.unknown().optional() });

const parsed = (args: unknown): z.output<typeof emitArgs> => {
  const { success, data } = emitArgs.safeParse(args);
  const fault = success ? faultOfCustomName(data.name) : 'must be text';
  if (success && fault === null) return data;
  throw new CallFault('TypeError', `events.emit: name: ${fault}`);
};

interface EventServiceDeps {
  readonly db: ControlDb;
  /** Wakes the fan-out. */
  readonly markWaiting: () => void;
}

/** `sdk.events`: events of the project's own. */
export const eventService =
  ({ db, markWaiting }: EventServiceDeps): OpenService =>
  ({ projectId, depth = 0 }) => ({
    answers: {
      'events.emit': async (args) => {
        const { name, data } = parsed(args);
        const event = { name, data: JSON.stringify(data ?? null), depth };
        try {
          await db.transaction((tx) => emitCustomEvent(tx, projectId, event), systemActor);
        } catch (error) {
          if (!(error instanceof ServiceError) || error.status >= 500) throw error;
          throw new CallFault('EventError', error.message, { code: error.code });
        }
        markWaiting();
        return null;
      },
    },
    close: () => Promise.resolve(),
  });
