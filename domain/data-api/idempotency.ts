import { createHash } from 'node:crypto';
import { type AnswerBody, piecesOf, wholeBody } from './answer-body.ts';
import type { DataCaller, RunOne } from './data-api.ts';
import { DataError } from './errors.ts';
import type { RestAnswer } from './rest/request.ts';

/** A request's `Idempotency-Key`, as it is kept in the project's database. */
export interface DataKey {
  /** Hex of SHA-256 over caller and key: what one user did is not replayed to another. */
  readonly key: string;
  /** Hex of SHA-256 over what is asked. */
  readonly fingerprint: string;
  /** The share in which the answer is kept: nobody's keys displace those of others. */
  readonly share: string;
}

const sha256 = (...parts: readonly (string | Buffer)[]): string => {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(String(part.length)).update(':').update(part);
  return hash.digest('hex');
};

/** The token's subject; its other claims change with each token. */
const subjectOf = ({ claims }: DataCaller): string => {
  const { sub } = JSON.parse(claims === '' ? '{}' : claims) as { sub?: unknown };
  return typeof sub === 'string' ? sub : '';
};

/**
 * @param requestParts all that makes the request what it is: method, path with query, body
 * @throws {DataError} when the header is not 1 to 255 printable characters
 */
export const dataKeyOf = (header: string, caller: DataCaller, requestParts: readonly (string | Buffer)[]): DataKey => {
  if (!/^[\x21-\x7e]{1,255}$/.test(header)) {
    throw new DataError(400, 'validation_failed', 'The Idempotency-Key is not usable.', {
      details: 'It must be 1 to 255 printable ASCII characters.',
    });
  }
  const subject = subjectOf(caller);
  const share = caller.role === 'authenticated' ? `${caller.role}:${sha256(subject)}` : caller.role;
  return { key: sha256(caller.role, subject, header), fingerprint: sha256(...requestParts), share };
};

const taken = 'select t.is_same, t.status, t.headers, t.body from plinth_api.take_key($1, $2, $3) t';
const kept = 'select plinth_api.keep_answer($1, $2, $3, $4)';

/** Bytes of an answer that can be kept. */
const maxKeptLength = 1024 * 1024;

/**
 * @param hint how to have less of an answer
 * @throws {DataError} 54000
 */
export const requireKeepable = (body: AnswerBody, hint: string): void => {
  if (piecesOf(body).reduce((sum, piece) => sum + Buffer.byteLength(piece), 0) <= maxKeptLength) return;
  throw new DataError(
    400,
    '54000',
    'The answer is too large to be kept for its Idempotency-Key; nothing was changed.',
    {
      details: `At most ${maxKeptLength} bytes can be kept.`,
      hint,
    },
  );
};

/**
 * Does the work once for a key, in the transaction that records its answer; another request with the same key gets that
 * answer, and waits for it while the work runs.
 * @throws {DataError} `idempotency_mismatch` when the key was used for another request; 54000 when the answer is larger
 * than 1 MB
 */
export const once = async (
  one: RunOne,
  { key, fingerprint, share }: DataKey,
  work: () => Promise<RestAnswer>,
): Promise<RestAnswer> => {
  const [isSame, status, headers, body] = await one({ text: taken, params: [key, fingerprint, share] });
  if (isSame === 'false') {
    throw new DataError(422, 'idempotency_mismatch', 'The Idempotency-Key was used for another request.', {
      hint: 'A key stands for one request and what it holds; take a new one.',
    });
  }
  if (typeof status === 'string') {
    const answerHead = JSON.parse(headers ?? '{}') as { headers: Record<string, string>; type: string };
    const replayed = { ...answerHead.headers, 'Idempotent-Replayed': 'true' };
    return { status: Number(status), headers: replayed, type: answerHead.type, body: body ?? '' };
  }
  const answer = await work();
  requireKeepable(answer.body, 'Ask for fewer rows or columns, or over REST for none: Prefer: return=minimal.');
  const answerHead = JSON.stringify({ headers: answer.headers, type: answer.type });
  await one({ text: kept, params: [key, String(answer.status), answerHead, wholeBody(answer.body)] });
  return answer;
};
