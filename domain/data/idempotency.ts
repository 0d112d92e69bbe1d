import { createHash } from 'node:crypto';
import type { DataCaller, RunOne } from './db.ts';
import { DataError } from './errors.ts';
import type { RestAnswer } from './rest/request.ts';

/** A request's `Idempotency-Key`, as it is kept in the project's database. */
export interface DataKey {
  /** Hex of SHA-256 over caller and key: what one user did is not replayed to another. */
  readonly key: string;
  /** Hex of SHA-256 over what is asked. */
  readonly fingerprint: string;
}

const sha256 = (...parts: readonly (string | Buffer)[]): string => {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(String(part.length)).update(':').update(part);
  return hash.digest('hex');
};

/** Who a token says it is; its other claims change with each token. */
const subjectOf = ({ claims }: DataCaller): string => {
  const { sub } = JSON.parse(claims === '' ? '{}' : claims) as { sub?: unknown };
  return typeof sub === 'string' ? sub : '';
};

/**
 * @param asked all that makes the request what it is: method, path with query, body
 * @throws {DataError} when the header is not 1 to 255 printable characters
 */
export const dataKeyOf = (header: string, caller: DataCaller, asked: readonly (string | Buffer)[]): DataKey => {
  if (!/^[\x21-\x7e]{1,255}$/.test(header)) {
    throw new DataError(400, 'validation_failed', 'The Idempotency-Key is not usable.', {
      details: 'It must be 1 to 255 printable ASCII characters.',
    });
  }
  return { key: sha256(caller.role, subjectOf(caller), header), fingerprint: sha256(...asked) };
};

const taken = 'select t.is_same, t.status, t.headers, t.body from plinth_api.take_key($1, $2) t';
const kept = 'select plinth_api.keep_answer($1, $2, $3, $4)';

/**
 * Does the work once for a key, in the transaction that records its answer; whoever comes with the same key gets that
 * answer, and waits for it while the work goes on.
 * @throws {DataError} `idempotency_mismatch` when the key was used for another request
 */
export const once = async (
  one: RunOne,
  { key, fingerprint }: DataKey,
  work: () => Promise<RestAnswer>,
): Promise<RestAnswer> => {
  const [isSame, status, headers, body] = await one({ text: taken, params: [key, fingerprint] });
  if (isSame === 'false') {
    throw new DataError(422, 'idempotency_mismatch', 'The Idempotency-Key was used for another request.', {
      hint: 'A key stands for one request and what it holds; take a new one.',
    });
  }
  if (typeof status === 'string') {
    const said = JSON.parse(headers ?? '{}') as { headers: Record<string, string>; type: string };
    const replayed = { ...said.headers, 'Idempotent-Replayed': 'true' };
    return { status: Number(status), headers: replayed, type: said.type, body: body ?? '' };
  }
  const answer = await work();
  const said = JSON.stringify({ headers: answer.headers, type: answer.type });
  await one({ text: kept, params: [key, String(answer.status), said, answer.body] });
  return answer;
};
