import { ApiError, unreachable } from '../../client/api.ts';

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
};

const failureOf = async (response: Response): Promise<ApiError> =>
  new ApiError(response.status, parsed(await response.text()) as Record<string, unknown>);

/**
 * Posts, and calls `onEvent` with each event of the answer as it comes. An `EventSource` can only GET.
 * @throws {ApiError} for an answer that is no stream, and when the stream breaks off
 */
export const postForEvents = async (
  at: string,
  body: unknown,
  { signal, onEvent }: { readonly signal: AbortSignal; readonly onEvent: (event: unknown) => void },
): Promise<void> => {
  const response = await fetch(at, {
    method: 'POST',
    credentials: 'same-origin',
    headers: { 'content-type': 'application/json', accept: 'text/event-stream' },
    body: JSON.stringify(body),
    signal,
  }).catch((error: unknown) => {
    throw signal.aborted ? error : unreachable();
  });
  if (!response.ok || response.body === null) throw await failureOf(response);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const events = (rest + value).split('\n\n');
    rest = events.pop() ?? '';
    for (const event of events) if (event.startsWith('data: {')) onEvent(parsed(event.slice('data: '.length)));
  }
};
