import type { ExecutionContext } from 'ava';
import type { Answer, Client } from './client.ts';

/** Values that no text field of a JSON body accepts; `undefined` leaves the field out. */
export const noText: readonly unknown[] = [undefined, null, 1, true, [], ['text'], {}, { text: 'text' }];

/** Text that no field keeps: PostgreSQL cannot hold the first, UTF-8 cannot hold the others. */
export const brokenText = (text: string): string[] => [`${text}\0`, `\0${text}`, `${text}\uD800`, `\uDC00${text}`];

/** Bodies that are JSON, but not an object. */
const noObject: readonly string[] = ['[]', 'null', '"text"', '1', 'true', '[{}]'];

export interface Attempt {
  readonly client: Client;
  readonly method?: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** A body that is accepted. */
  readonly good: Readonly<Record<string, unknown>>;
}

const expectInvalid = (t: ExecutionContext, answer: Answer, field: string, value: unknown): void => {
  const what = `${field}: ${JSON.stringify(value)?.slice(0, 60)} → ${answer.text.slice(0, 300)}`;
  t.is(answer.status, 400, what);
  t.is(answer.body.code, 'validation_failed', what);
  t.true(
    answer.body.details.some(({ path }: { path: string }) => path === field || path === ''),
    what,
  );
};

/** Each value in that field is answered with 400, naming the field. */
export const expectFieldRefused = async (
  t: ExecutionContext,
  { client, method = 'POST', path, headers = {}, good }: Attempt,
  field: string,
  values: readonly unknown[],
): Promise<void> => {
  for (const value of values) {
    expectInvalid(t, await client.call(method, path, { headers, body: { ...good, [field]: value } }), field, value);
  }
};

/** Unknown fields, `__proto__` and what is no object are answered with 400. */
export const expectShapeRefused = async (
  t: ExecutionContext,
  { client, method = 'POST', path, headers = {}, good }: Attempt,
): Promise<void> => {
  const call = (raw: string): Promise<Answer> => client.call(method, path, { headers, raw });
  const fields = JSON.stringify(good).slice(1);
  const unknown = [`{"is_admin":true,${fields}`, `{"__proto__":{"a":1},${fields}`, `{"constructor":{},${fields}`];
  for (const raw of [...noObject, ...unknown]) {
    const answer = await call(raw);
    t.is(answer.status, 400, `${raw.slice(0, 60)} → ${answer.text}`);
    t.is(answer.body.code, 'validation_failed', raw);
  }
};

/** Texts that are no e-mail address, or none that may stand in a mail's header. */
export const badEmails: readonly string[] = [
  '',
  ' ',
  'nobody',
  '@example.com',
  'nobody@',
  'nobody@example',
  'no body@example.com',
  'nobody@exa mple.com',
  'nobody@@example.com',
  'a@b.example,c@d.example',
  'Nobody <nobody@example.com>',
  'nobody@example.com\r\nBcc: all@example.com',
  'nobody@example.com\nSubject: hi',
  "nobody@example.com'; drop table users; --",
  `${'n'.repeat(250)}@example.com`,
  ...brokenText('nobody@example.com'),
];
