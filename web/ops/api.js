/** A call that did not go well; `message` is for people. */
export class CallError extends Error {
  constructor(status, body) {
    super(body?.message ?? 'The API does not answer. It may be restarting.');
    this.status = status;
    this.code = body?.code ?? 'unreachable';
    this.hint = body?.hint ?? null;
    this.details = body?.details ?? null;
  }
}

const bodyOf = async (response) => {
  const text = await response.text();
  try {
    return text === '' ? null : JSON.parse(text);
  } catch {
    return null;
  }
};

const send = async (method, path, body) => {
  try {
    return await fetch(path, {
      method,
      ...(body !== undefined && { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
    });
  } catch {
    throw new CallError(0, null);
  }
};

/** @throws {CallError} also when the session has ended, which is told to the page first */
export const call = async (method, path, body) => {
  const response = await send(method, path, body);
  const answer = await bodyOf(response);
  if (response.ok) return answer;
  if (response.status === 401 && path !== '/ops/session') document.dispatchEvent(new CustomEvent('signed-out'));
  throw new CallError(response.status, answer);
};

/** The query of a call or view; what is empty is left out. */
export const queryOf = (fields) => {
  const given = Object.entries(fields).filter(([, value]) => value !== '' && value !== null && value !== undefined);
  return given.length === 0 ? '' : `?${new URLSearchParams(given)}`;
};

/** The message of an error, with its hint. */
export const inWords = (error) => {
  if (!(error instanceof CallError)) return 'Something went wrong on this page. Reload it.';
  if (error.code === 'dependency_unavailable') return 'Redis or Postgres does not answer. Try again shortly.';
  const [first] = Array.isArray(error.details) ? error.details : [];
  const particulars = first ? ` ${first.path}: ${first.message}.` : '';
  return `${error.message}${particulars}${error.hint ? ` ${error.hint}` : ''}`;
};
