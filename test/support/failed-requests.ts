const maxKept = 1000;
const lines = new Map<string, string>();

/** Keeps a line of the log that explains an answer of 500 and above, for {@link causeOf}. */
export const rememberFailure = (line: string): void => {
  if (!line.includes('"a request ')) return;
  const { request_id: id } = JSON.parse(line) as { request_id?: string };
  if (id === undefined) return;
  lines.set(id, line);
  const [oldest] = lines.keys();
  if (lines.size > maxKept && oldest !== undefined) lines.delete(oldest);
};

/** The line that a platform of this process logged about a failed request; empty where there is none. */
export const causeOf = (requestId: string | undefined): string => {
  const line = requestId === undefined ? undefined : lines.get(requestId);
  return line === undefined ? '' : `\nthe platform logged: ${line}`;
};
