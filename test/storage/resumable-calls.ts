import type { TestProject, TestUser } from '#test/support/client.ts';
import type { TestPlatform } from '#test/support/platform.ts';

/** Requests of tus, one by one, by every kind of caller. */

export interface Caller {
  readonly at: string;
  readonly headers: Readonly<Record<string, string>>;
}

export const byKey = ({ ref, key }: TestProject, given = key): Caller => ({
  at: `/p/${ref}`,
  headers: { apikey: given },
});

export const byUser = ({ ref, publishableKey }: TestProject, token: string): Caller => ({
  at: `/p/${ref}`,
  headers: { apikey: publishableKey, authorization: `Bearer ${token}` },
});

/** @param as whom the member looks as; left out: the project itself */
export const byMember = ({ id }: TestProject, { token }: Pick<TestUser, 'token'>, as?: string): Caller => ({
  at: `/projects/${id}`,
  headers: { authorization: `Bearer ${token}`, ...(as !== undefined && { 'x-plinth-as': as }) },
});

export const tus = { 'tus-resumable': '1.0.0' };
export const ofPatch = { ...tus, 'content-type': 'application/offset+octet-stream' };

interface Wanted {
  readonly name?: string;
  readonly size?: number;
  /** Sent with the creation. */
  readonly body?: string;
}

export const resumableCalls = (platform: () => Pick<TestPlatform, 'base'>) => {
  const rootOf = ({ at }: Caller): string => `${platform().base}${at}/storage/v1/upload/resumable`;
  const create = (of: TestProject, caller: Caller, { name = crypto.randomUUID(), size = 10, body }: Wanted = {}) =>
    fetch(rootOf(caller), {
      method: 'POST',
      headers: {
        ...(body === undefined ? tus : ofPatch),
        ...caller.headers,
        'upload-length': String(size),
        'upload-metadata': `bucketName ${btoa(of.slug)},objectName ${btoa(name)}`,
      },
      ...(body !== undefined && { body }),
    });
  return {
    rootOf,
    create,
    /** Begins an upload of ten bytes, unless told otherwise. @returns its id */
    begin: async (of: TestProject, caller: Caller, wanted?: Wanted): Promise<string> => {
      const answer = await create(of, caller, wanted);
      if (answer.status !== 201) throw new Error(`${answer.status}: ${await answer.text()}`);
      return (answer.headers.get('location') ?? '').split('/').at(-1) ?? '';
    },
    /** The status of asking how far it is. */
    head: async (caller: Caller, id: string): Promise<number> =>
      (await fetch(`${rootOf(caller)}/${id}`, { method: 'HEAD', headers: { ...tus, ...caller.headers } })).status,
    /** Sends bytes, from the beginning unless `more` says another offset. */
    patch: (caller: Caller, id: string, { body, more = {}, method = 'PATCH' }: Piece) =>
      fetch(`${rootOf(caller)}/${id}`, {
        method,
        headers: { ...ofPatch, ...caller.headers, 'upload-offset': '0', ...more },
        body,
      }),
    end: async (caller: Caller, id: string): Promise<number> =>
      (await fetch(`${rootOf(caller)}/${id}`, { method: 'DELETE', headers: { ...tus, ...caller.headers } })).status,
  };
};

interface Piece {
  readonly body: string;
  readonly more?: Readonly<Record<string, string>>;
  readonly method?: string;
}
