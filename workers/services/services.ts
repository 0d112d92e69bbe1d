import type { OpenServices } from '../processors/function-invoke.ts';
import { CallFault } from '../runtimes/runtime.ts';
import { readArgs } from './call-args.ts';
import { JsonText } from '#lib/json-text.ts';

/** Answers one kind of call of a run: with a value, or with JSON that is sent as it is. */
export type Answer = (args: unknown) => Promise<unknown>;

/** The calls that one area offers to a run. */
interface Service {
  /** By the name of the call: `db.query`, `fetch`. */
  readonly answers: Readonly<Record<string, Answer>>;
  /** The run is over. */
  readonly close: () => Promise<void>;
}

export type OpenService = (run: Parameters<OpenServices>[0]) => Service;

const unknownCall = (op: string): CallFault => new CallFault('TypeError', `There is no call "${op}".`);

const textOf = (value: unknown): string => (value instanceof JsonText ? value.text : JSON.stringify(value ?? null));

/** Puts what the areas offer under one roof. */
export const servicesOf =
  (areas: readonly OpenService[]): OpenServices =>
  (run) => {
    const services = areas.map((open) => open(run));
    const answers = new Map(services.flatMap((service) => Object.entries(service.answers)));
    return {
      call: async (op, args) => {
        const answer = answers.get(op);
        if (answer === undefined) throw unknownCall(op);
        return textOf(await answer(readArgs(op, args)));
      },
      close: async () => {
        await Promise.all(services.map((service) => service.close()));
      },
    };
  };
