import type { AnswerMessage, CallMessage } from './messages.ts';
import { CallFault, type RunServices, maxOpenCallBytes, maxOpenCalls } from './runtime.ts';

const faultText = (error: unknown): string => {
  const { name, message, fields } =
    error instanceof CallFault ? error : new CallFault('Error', 'The call failed on the side of the platform.');
  return JSON.stringify({ ...fields, name, message });
};

/** The calls of one run that wait for their answers, within bounds. */
export class RunCalls {
  readonly #services: RunServices | undefined;
  readonly #send: (answer: AnswerMessage) => void;
  #open = 0;
  #bytes = 0;

  constructor(services: RunServices | undefined, send: (answer: AnswerMessage) => void) {
    this.#services = services;
    this.#send = send;
  }

  async answer({ run, call, op, args }: CallMessage): Promise<void> {
    const bytes = args.length;
    const isRoom = this.#open < maxOpenCalls && this.#bytes + bytes <= maxOpenCallBytes;
    this.#open += 1;
    this.#bytes += bytes;
    try {
      if (!isRoom) throw tooMany();
      if (this.#services === undefined) throw new CallFault('Error', 'Nothing outside can be reached from here.');
      const value = await this.#services.call(op, args);
      this.#send({ type: 'answer', run, call, ok: true, value });
    } catch (error) {
      this.#send({ type: 'answer', run, call, ok: false, value: faultText(error) });
    } finally {
      this.#open -= 1;
      this.#bytes -= bytes;
    }
  }
}

const tooMany = (): CallFault =>
  new CallFault(
    'Error',
    `More than ${maxOpenCalls} requests, or ${maxOpenCallBytes / 1024 / 1024} MB of them, are open at a time.`,
  );
