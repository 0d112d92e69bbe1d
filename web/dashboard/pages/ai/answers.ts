import { useRef, useState } from 'react';
import { useProject } from '../../client/project.ts';
import { postForEvents } from './events.ts';

/** One model's answer, as far as it has come. */
export interface Answer {
  readonly model: string;
  readonly text: string;
  readonly isDone: boolean;
  /** To the first word, and to the end, as this browser saw them. */
  readonly firstMs: number | null;
  readonly wholeMs: number | null;
  readonly tokens: { readonly prompt: number; readonly completion: number } | null;
  readonly error: string | null;
}

export interface Question {
  readonly models: readonly string[];
  readonly system: string;
  readonly message: string;
  readonly temperature: number | null;
  readonly maxTokens: number | null;
}

const fresh = (model: string): Answer => ({
  model,
  text: '',
  isDone: false,
  firstMs: null,
  wholeMs: null,
  tokens: null,
  error: null,
});

/** An event of a chat or of an arena, as far as a page needs it. */
interface ModelEvent {
  readonly index?: number;
  readonly chunk?: string;
  readonly done?: boolean;
  readonly usage?: { readonly prompt_tokens: number; readonly completion_tokens: number };
  readonly tokens?: Answer['tokens'];
  readonly error?: { readonly message: string };
}

/** The answer after one more event. */
const answerAfter = (known: Answer, event: ModelEvent, elapsedMs: number): Answer => {
  const { usage, tokens, error } = event;
  const said = event.chunk ?? '';
  return {
    ...known,
    text: known.text + said,
    firstMs: known.firstMs ?? (said === '' ? null : elapsedMs),
    ...(event.done === true && {
      isDone: true,
      wholeMs: elapsedMs,
      tokens: usage ? { prompt: usage.prompt_tokens, completion: usage.completion_tokens } : (tokens ?? null),
      error: error?.message ?? null,
    }),
  };
};

const bodyOf = ({ models, system, message, temperature, maxTokens }: Question): Record<string, unknown> => ({
  ...(models.length === 1 ? { model: models[0] } : { models }),
  messages: [
    ...(system.trim() === '' ? [] : [{ role: 'system', content: system }]),
    { role: 'user', content: message },
  ],
  ...(temperature !== null && { temperature }),
  ...(maxTokens !== null && { max_tokens: maxTokens }),
});

/** Asks one model, or two to four side by side; what they write is shown as it comes. */
export const useAnswers = () => {
  const { project } = useProject();
  const [answers, setAnswers] = useState<readonly Answer[]>([]);
  const [failure, setFailure] = useState<unknown>(null);
  const [isRunning, setRunning] = useState(false);
  const stopper = useRef<AbortController | null>(null);
  const ask = async (question: Question): Promise<void> => {
    const controller = new AbortController();
    stopper.current?.abort();
    stopper.current = controller;
    const began = performance.now();
    const isCurrent = (): boolean => stopper.current === controller;
    setAnswers(question.models.map(fresh));
    setFailure(null);
    setRunning(true);
    const onEvent = (event: unknown): void => {
      const given = event as ModelEvent;
      if (!isCurrent() || (question.models.length > 1 && given.index === undefined)) return;
      const elapsedMs = performance.now() - began;
      setAnswers((known) =>
        known.map((answer, place) => (place === (given.index ?? 0) ? answerAfter(answer, given, elapsedMs) : answer)),
      );
    };
    try {
      const at = `/projects/${project.id}/ai/${question.models.length === 1 ? 'chat/stream' : 'arena'}`;
      await postForEvents(at, bodyOf(question), { signal: controller.signal, onEvent });
    } catch (error) {
      if (isCurrent() && !controller.signal.aborted) setFailure(error);
    } finally {
      if (isCurrent()) setRunning(false);
    }
  };
  const stop = (): void => {
    stopper.current?.abort();
    setRunning(false);
  };
  return { answers, failure, isRunning, ask, stop };
};
