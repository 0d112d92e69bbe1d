import { ServiceError } from '#lib/errors.ts';
import type { ByteRange } from '#lib/object-store/object-store.ts';
import type { StoredObject } from './store.ts';

/** Conditional requests and ranges (RFC 9110, sections 13 and 14). */

type Header = (name: string) => string;

const tagsOf = (text: string): readonly string[] => text.match(/(?:W\/)?"[^"]*"|\*/g) ?? [];

const weakly = (tag: string): string => tag.replace(/^W\//, '');

const secondsOf = (time: string): number => Math.floor(Date.parse(time) / 1000);

/** Whether what the client has is what there is: 304. */
const isUnchanged = (header: Header, { etag, updated_at: updatedAt }: StoredObject): boolean => {
  const tags = tagsOf(header('if-none-match'));
  if (tags.length > 0) return tags.some((tag) => tag === '*' || weakly(tag) === `"${etag}"`);
  const since = secondsOf(header('if-modified-since'));
  return !Number.isNaN(since) && secondsOf(updatedAt) <= since;
};

/** Whether a precondition of the client's does not hold: 412. */
const isFailed = (header: Header, { etag, updated_at: updatedAt }: StoredObject): boolean => {
  const tags = tagsOf(header('if-match'));
  if (header('if-match') !== '') return !tags.some((tag) => tag === '*' || tag === `"${etag}"`);
  const since = secondsOf(header('if-unmodified-since'));
  return !Number.isNaN(since) && secondsOf(updatedAt) > since;
};

export const conditionOf = (header: Header, object: StoredObject): 'go on' | 'unchanged' | 'failed' => {
  if (isFailed(header, object)) return 'failed';
  return isUnchanged(header, object) ? 'unchanged' : 'go on';
};

/** Whether ranges are of the content that the client knows; without `If-Range` they are. */
const isSameContent = (header: Header, { etag, updated_at: updatedAt }: StoredObject): boolean => {
  const condition = header('if-range').trim();
  if (condition === '') return true;
  if (condition.includes('"')) return condition === `"${etag}"`;
  return secondsOf(condition) === secondsOf(updatedAt);
};

/** The last bytes, as many as that. */
const suffix = (length: number, size: number): ByteRange | null =>
  length === 0 || size === 0 ? null : { start: Math.max(0, size - length), end: size - 1 };

/** Null: it begins behind the last byte; undefined: it is no range. */
const parseRange = (text: string, size: number): ByteRange | null | undefined => {
  const [, from, to = ''] = /^ *(\d{0,15})-(\d{0,15}) *$/.exec(text) ?? [];
  if (from === undefined || from + to === '') return undefined;
  if (from === '') return suffix(Number(to), size);
  const range = { start: Number(from), end: to === '' ? size - 1 : Math.min(Number(to), size - 1) };
  if (to !== '' && Number(to) < range.start) return undefined;
  return range.start >= size ? null : range;
};

/** More are a waste of somebody's: the whole content is answered (RFC 9110, 14.2). */
const maxRanges = 10;

/**
 * The ranges that a request wants; null: the whole content. Overlapping ones and too many count as none.
 * @throws {ServiceError} `range_not_satisfiable`
 */
export const rangesOf = (header: Header, object: StoredObject): readonly ByteRange[] | null => {
  const [, list] = /^bytes=(.*)$/.exec(header('range').trim()) ?? [];
  if (list === undefined || !isSameContent(header, object)) return null;
  const parts = list.split(',');
  if (parts.length > maxRanges) return null;
  const parsed = parts.map((part) => parseRange(part, object.size));
  if (parsed.includes(undefined)) return null;
  const ranges = parsed.filter((range) => range !== null && range !== undefined);
  if (ranges.length === 0) {
    throw new ServiceError('range_not_satisfiable', `The object has ${object.size} bytes.`, {
      headers: { 'Content-Range': `bytes */${object.size}` },
    });
  }
  const inOrder = ranges.toSorted((a, b) => a.start - b.start);
  const overlap = inOrder.some(({ start }, i) => i > 0 && start <= (inOrder[i - 1]?.end ?? -1));
  return overlap ? null : ranges;
};
