import { z } from 'zod';
import { CallFault, maxResultBytes } from '../../runtimes/runtime.ts';
import type { OpenService } from '../services.ts';
import type { AnswerSink } from './sink.ts';

const startArgs = z.object({ status: z.unknown(), headers: z.unknown() });
/** Base64; what is none is left out by whoever decodes it. */
const writeArgs = z.object({ chunk: z.string() });

/** The whole answer of a run that goes on: a value as JSON text, or a response. */
const earlyArgs = z.object({ text: z.string().max(maxResultBytes), form: z.enum(['text', 'base64']).nullable() });

const parsed = <Schema extends z.ZodType>(schema: Schema, args: unknown): z.output<Schema> => {
  const { success, data } = schema.safeParse(args);
  if (!success) throw new CallFault('TypeError', 'This is no part of a response.');
  return data;
};

/** The parts of a response that a run sends before it ends, and whether anybody is left to read them. */
export const answerService: OpenService = ({ answer }) => {
  const sink = (): AnswerSink => {
    if (answer === undefined) throw new CallFault('Error', 'Nobody waits for a response here.');
    return answer;
  };
  return {
    answers: {
      'response.start': async (args) => {
        const { status, headers } = parsed(startArgs, args);
        return sink().start(status, headers);
      },
      'response.write': async (args) => sink().write(Buffer.from(parsed(writeArgs, args).chunk, 'base64')),
      'response.early': async (args) => {
        const { text, form } = parsed(earlyArgs, args);
        await answer?.early(text, form);
      },
      'response.end': async () => sink().end(),
      'request.gone': async () => sink().gone,
    },
    close: async () => answer?.close(),
  };
};
