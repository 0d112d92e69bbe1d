import { linesOf } from '../../client/form.ts';
import type { Operations } from '../../client/types.ts';
import type { Condition } from '../flags/flag-shapes.ts';

export type Segment = Operations['GET /projects/{project_id}/segments/{key}']['answer'];
type Patch = Operations['PATCH /projects/{project_id}/segments/{key}']['body'];

/** The editable fields of a segment, and the version that the edit is based on. */
export interface EditedSegment {
  readonly version: number;
  readonly name: string;
  /** Null: it has keys. */
  readonly conditions: readonly Condition[] | null;
  /** One in each line; null: it has conditions. */
  readonly keys: string | null;
}

export const editedOf = ({ version, name, conditions, keys }: Segment): EditedSegment => ({
  version,
  name,
  conditions: conditions as readonly Condition[] | null,
  keys: keys === null ? null : keys.join('\n'),
});

/** The change that the API gets. */
export const patchOf = ({ name, conditions, keys }: EditedSegment): Patch => ({
  name,
  ...(conditions !== null && { conditions }),
  ...(keys !== null && { keys: linesOf(keys) }),
});

/** A longer list is replaced by a file, and neither shown in a field nor kept in the browser. */
export const maxEditedLength = 200_000;

/** The keys that a text names, each once. */
export const keysOf = (text: string): ReadonlySet<string> => new Set(linesOf(text));
