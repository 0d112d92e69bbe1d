import { call } from '../../cli.ts';
import { type Files } from './access.ts';
import type { Place } from './place.ts';

interface StoredObject {
  /** Its whole name in the bucket. */
  readonly key: string;
  readonly size: number;
  readonly updated_at: string | null;
}

interface Page {
  readonly hasNext: boolean;
  readonly nextCursor?: string;
  readonly folders: readonly { readonly key: string }[];
  readonly objects: readonly {
    readonly key: string;
    readonly updated_at: string | null;
    readonly metadata: { readonly size?: number } | null;
  }[];
}

export interface Listing {
  readonly folders: readonly string[];
  readonly objects: readonly StoredObject[];
}

/** All pages of a list. @param isDeep false: what lies deeper is shown as a folder */
export const listObjects = async (files: Files, { bucket, name: prefix }: Place, isDeep: boolean): Promise<Listing> => {
  const folders: string[] = [];
  const objects: StoredObject[] = [];
  let cursor: string | undefined;
  for (;;) {
    const page = await call<Page>(files, `${files.root}/object/list-v2/${encodeURIComponent(bucket)}`, {
      method: 'POST',
      headers: files.headers,
      body: { prefix, with_delimiter: !isDeep, ...(cursor !== undefined && { cursor }) },
    });
    folders.push(...page.folders.map(({ key }) => key));
    objects.push(
      ...page.objects.map(({ key, updated_at, metadata }) => ({ key, updated_at, size: metadata?.size ?? 0 })),
    );
    if (!page.hasNext || page.nextCursor === undefined) return { folders, objects };
    cursor = page.nextCursor;
  }
};

const atOnce = 1000;

export const removeObjects = async (files: Files, bucket: string, keys: readonly string[]): Promise<number> => {
  let removed = 0;
  for (let from = 0; from < keys.length; from += atOnce) {
    const gone = await call<readonly unknown[]>(files, `${files.root}/object/${encodeURIComponent(bucket)}`, {
      method: 'DELETE',
      headers: files.headers,
      body: { prefixes: keys.slice(from, from + atOnce) },
    });
    removed += gone.length;
  }
  return removed;
};
