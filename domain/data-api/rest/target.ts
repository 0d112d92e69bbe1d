import type { Target } from './request.ts';

const decoded = (segment: string): string | null => {
  try {
    return decodeURIComponent(segment);
  } catch {
    return null;
  }
};

/**
 * Parses a path below the root of the surface: `films`, `rpc/add`, and with rows `films/7`.
 * @returns null when it means nothing
 */
export const targetOf = (path: string, withRows: boolean): Target | null => {
  const segments = path.replace(/^\//, '').split('/').map(decoded);
  const [first = null, second = null] = segments;
  if (first === null || segments.length > 2) return null;
  if (segments.length === 1) return first === '' ? { kind: 'root' } : { kind: 'table', table: first };
  if (second === null || second === '') return null;
  if (first === 'rpc') return { kind: 'function', name: second };
  return withRows ? { kind: 'row', table: first, id: second } : null;
};
